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
// is refused as soon as it is seen: the rest may never come. Each line is parsed once,
// in however many reads the head comes.
func readHead(r io.Reader, buf []byte, h *gateway.Head) (rest []byte, err error) {
	h.Reset()
	parsed := 0 // of buf: whole lines that h has
	for {
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, 2*cap(buf)), buf...)
		}
		n, err := r.Read(buf[len(buf):min(cap(buf), maxHead)])
		from := max(0, len(buf)-3) // the empty line may have begun earlier
		buf = buf[:len(buf)+n]
		if i := bytes.Index(buf[from:], []byte("\r\n\r\n")); i >= 0 {
			end := from + i
			if err := parseLines(h, string(buf[parsed:max(parsed, end+2)])); err != nil {
				return nil, err
			}
			h.Finish()
			return buf[end+4:], nil
		}
		if len(buf) >= maxHead {
			return nil, fmt.Errorf("head over %d bytes", maxHead)
		}
		if i := bytes.LastIndex(buf[parsed:], []byte("\r\n")); i >= 0 {
			if err := parseLines(h, string(buf[parsed:parsed+i+2])); err != nil {
				return nil, err
			}
			parsed += i + 2
		}
		if err := checkBegun(buf[parsed:]); err != nil {
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

// checkBegun checks what there is of a line.
func checkBegun(line []byte) error {
	name, value, ended := bytes.Cut(bytes.TrimSuffix(line, []byte("\r")), []byte(":"))
	if ended || len(name) > 0 {
		_, _, err := gateway.ParseLine(string(name) + ":" + string(value))
		return err
	}
	return nil
}

// parseLines adds lines of a head, which each end in CRLF, to h.
func parseLines(h *gateway.Head, lines string) error {
	for lines != "" {
		line, rest, ok := strings.Cut(lines, "\r\n")
		if !ok {
			return fmt.Errorf("head line without CRLF")
		}
		lines = rest
		name, value, err := gateway.ParseLine(line)
		if err != nil {
			return err
		}
		if err := h.Add(name, value); err != nil {
			return err
		}
	}
	return nil
}
