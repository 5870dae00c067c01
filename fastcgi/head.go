package fastcgi

import (
	"bytes"
	"io"
	"strconv"
	"strings"

	"httpjet/exchange"
)

// maxHead bounds a CGI head in bytes, its empty line included (R-FCGI-10).
const maxHead = 64 << 10

// cgiHead is the head of a CGI response (RFC 3875 §6).
type cgiHead struct {
	status int
	fields exchange.Fields // end-to-end fields in order, without Status and Content-Length
	length int64           // Content-Length, -1 if there is none
}

// readHead reads a head in memory of c, which rest and the fields lie in until the
// next call.
func (c *conn) readHead(r io.Reader) (h cgiHead, rest []byte, err error) {
	if c.head == nil {
		c.head = make([]byte, 0, smallHead)
	}
	h = cgiHead{fields: c.fields}
	rest, err = readHead(r, c.head, &h)
	c.fields = h.fields
	return h, rest, err
}

// smallHead is the memory for a head that a connection keeps, in bytes.
const smallHead = 2 << 10

// readHead reads from r into buf, up to the empty line. rest is what was read
// behind it. Memory grows with what arrives, to maxHead at most. What is malformed
// is refused as soon as it is seen: the rest may never come.
func readHead(r io.Reader, buf []byte, h *cgiHead) (rest []byte, err error) {
	for {
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, 2*cap(buf)), buf...)
		}
		n, err := r.Read(buf[len(buf):min(cap(buf), maxHead)])
		from := max(0, len(buf)-3) // the empty line may have begun earlier
		buf = buf[:len(buf)+n]
		if i := bytes.Index(buf[from:], []byte("\r\n\r\n")); i >= 0 {
			end := from + i
			return buf[end+4:], h.parse(string(buf[:end+2]))
		}
		if len(buf) >= maxHead {
			return nil, protocolErrorf("head over %d bytes", maxHead)
		}
		if err := checkBegun(buf, len(buf)-n); err != nil {
			return nil, err
		}
		if err == io.EOF {
			return nil, protocolErrorf("reply of %d bytes without a head", len(buf))
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
		var h cgiHead
		if err := h.parse(string(head[:whole])); err != nil {
			return err
		}
	}
	name, value, ended := bytes.Cut(bytes.TrimSuffix(head[whole:], []byte("\r")), []byte(":"))
	if ended || len(name) > 0 {
		_, _, err := parseLine(string(name) + ":" + string(value))
		return err
	}
	return nil
}

// parse parses a head: lines that each end in CRLF, without the empty one.
// Status and Content-Length steer us and are taken out; other fields keep their
// order, repeats and spelling.
func (h *cgiHead) parse(head string) (err error) {
	h.status, h.length = 0, -1
	location := false
	for head != "" {
		line, rest, ok := strings.Cut(head, "\r\n")
		if !ok {
			return protocolErrorf("head line without CRLF")
		}
		head = rest
		name, value, err := parseLine(line)
		if err != nil {
			return err
		}
		switch {
		case exchange.EqualName(name, "Status"):
			if h.status != 0 {
				return protocolErrorf("two Status fields")
			}
			if h.status, err = parseStatus(value); err != nil {
				return err
			}
			continue
		case exchange.EqualName(name, "Content-Length"):
			if h.length >= 0 {
				return protocolErrorf("two Content-Length fields")
			}
			if h.length, err = parseLength(value); err != nil {
				return err
			}
			continue
		case isHop(name):
			return protocolErrorf("hop-by-hop field %s", name)
		case exchange.EqualName(name, "Location"):
			location = value != ""
		}
		h.fields.Add(name, value)
	}
	if h.status == 0 {
		h.status = 200
		if location {
			h.status = 302 // RFC 3875 §6.2.3; of a local path as well
		}
	}
	return nil
}

// parseLine splits a field line. There is no folding (RFC 9112 §5.2).
func parseLine(line string) (name, value string, err error) {
	name, value, ok := strings.Cut(line, ":")
	if !ok || name == "" {
		return "", "", protocolErrorf("head line %.60q is no field", line)
	}
	for i := range len(name) {
		if !isToken(name[i]) {
			return "", "", protocolErrorf("field name %.60q", name)
		}
	}
	value = strings.Trim(value, " \t")
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return "", "", protocolErrorf("control byte in the value of %.60s", name)
		}
	}
	return name, value, nil
}

// parseStatus reads "404" or "404 Not Found". Interim statuses have no place in
// a CGI response.
func parseStatus(v string) (int, error) {
	code, _, _ := strings.Cut(v, " ")
	if len(code) != 3 || code[0] < '2' || code[0] > '5' || !isDigit(code[1]) || !isDigit(code[2]) {
		return 0, protocolErrorf("Status %.40q", v)
	}
	return int(code[0]-'0')*100 + int(code[1]-'0')*10 + int(code[2]-'0'), nil
}

// parseLength reads the digits of a Content-Length; no sign, no list.
func parseLength(v string) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || !isDigit(v[0]) {
		return 0, protocolErrorf("Content-Length %.40q", v)
	}
	return n, nil
}

// isHop reports the fields that belong to a connection (RFC 9110 §7.6.1). An
// application behind FastCGI has none of its own.
func isHop(name string) bool {
	for _, hop := range [...]string{"Connection", "Proxy-Connection", "Keep-Alive", "TE",
		"Transfer-Encoding", "Trailer", "Upgrade", "Proxy-Authenticate", "Proxy-Authorization"} {
		if exchange.EqualName(name, hop) {
			return true
		}
	}
	return false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isToken reports whether c may stand in a field name (RFC 9110 §5.6.2).
func isToken(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' ||
		strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
