package fastcgi

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"httpjet/gateway"
)

// maxHead bounds a CGI head in bytes, its empty line included (R-FCGI-10).
const maxHead = 64 << 10

// smallHead is the memory for a head that a connection keeps, in bytes.
const smallHead = 2 << 10

// readHead reads from r into buf, up to the empty line. rest is what was read
// behind it. Memory grows with what arrives, to maxHead at most. What is malformed
// is refused as soon as it is seen: the rest may never come.
func readHead(r io.Reader, buf []byte, h *gateway.Head) (rest []byte, err error) {
	for {
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, 2*cap(buf)), buf...)
		}
		n, err := r.Read(buf[len(buf):min(cap(buf), maxHead)])
		from := max(0, len(buf)-3) // the empty line may have begun earlier
		buf = buf[:len(buf)+n]
		if i := bytes.Index(buf[from:], []byte("\r\n\r\n")); i >= 0 {
			end := from + i
			return buf[end+4:], parseHead(h, string(buf[:end+2]))
		}
		if len(buf) >= maxHead {
			return nil, fmt.Errorf("head over %d bytes", maxHead)
		}
		if err := checkBegun(buf, len(buf)-n); err != nil {
			return nil, err
		}
		if err == io.EOF {
			return nil, fmt.Errorf("reply of %d bytes without a head", len(buf))
		}
		if err != nil {
			return nil, err
		}
	}
}

// checkBegun parses what there is of a head, of which the bytes from on are new.
func checkBegun(head []byte, from int) error {
	whole := 0
	if i := bytes.LastIndex(head, []byte("\r\n")); i >= 0 {
		whole = i + 2
	}
	if whole > from {
		var h gateway.Head
		if err := parseHead(&h, string(head[:whole])); err != nil {
			return err
		}
	}
	name, value, ended := bytes.Cut(bytes.TrimSuffix(head[whole:], []byte("\r")), []byte(":"))
	if ended || len(name) > 0 {
		_, _, err := gateway.ParseLine(string(name) + ":" + string(value))
		return err
	}
	return nil
}

// parseHead parses a head: lines that each end in CRLF, without the empty one.
func parseHead(h *gateway.Head, head string) error {
	h.Reset()
	for head != "" {
		line, rest, ok := strings.Cut(head, "\r\n")
		if !ok {
			return fmt.Errorf("head line without CRLF")
		}
		head = rest
		name, value, err := gateway.ParseLine(line)
		if err != nil {
			return err
		}
		if err := h.Add(name, value); err != nil {
			return err
		}
	}
	h.Finish()
	return nil
}
