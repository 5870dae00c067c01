package gateway

import (
	"fmt"
	"strconv"
	"strings"

	"httpjet/exchange"
)

// Head is the head of a reply, with the meaning that CGI gives its fields (RFC 3875
// §6). Status and Content-Length steer us and are taken out; other fields keep
// their order, repeats and spelling.
type Head struct {
	Status int             // 0 until a Status field, or Finish
	Fields exchange.Fields // end-to-end fields in order
	Length int64           // Content-Length, -1 if there is none

	location bool
}

// Reset makes h an empty head that keeps its memory.
func (h *Head) Reset() {
	h.Status, h.Length, h.location = 0, -1, false
	h.Fields.Reset()
}

// Add adds a field.
func (h *Head) Add(name, value string) (err error) {
	switch {
	case exchange.EqualName(name, "Status"):
		if h.Status != 0 {
			return fmt.Errorf("two Status fields")
		}
		h.Status, err = parseStatus(value)
		return err
	case exchange.EqualName(name, "Content-Length"):
		if h.Length >= 0 {
			return fmt.Errorf("two Content-Length fields")
		}
		h.Length, err = parseLength(value)
		return err
	case exchange.EqualName(name, "Transfer-Encoding"):
		return fmt.Errorf("field Transfer-Encoding: where the body ends is the protocol's to say")
	case isHop(name):
		return nil // means nothing here; many a script says Connection: close
	case exchange.EqualName(name, "Location"):
		h.location = value != ""
	}
	h.Fields.Add(name, value)
	return nil
}

// Finish gives a head without a Status field the status that it means.
func (h *Head) Finish() {
	if h.Status != 0 {
		return
	}
	h.Status = 200
	if h.location {
		h.Status = 302 // RFC 3875 §6.2.3; of a local path as well
	}
}

// ParseLine splits a field line. There is no folding (RFC 9112 §5.2).
func ParseLine(line string) (name, value string, err error) {
	name, value, ok := strings.Cut(line, ":")
	if !ok || name == "" {
		return "", "", fmt.Errorf("head line %.60q is no field", line)
	}
	for i := range len(name) {
		if !isToken(name[i]) {
			return "", "", fmt.Errorf("field name %.60q", name)
		}
	}
	value = strings.Trim(value, " \t")
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return "", "", fmt.Errorf("control byte in the value of %.60s", name)
		}
	}
	return name, value, nil
}

// parseStatus reads "404" or "404 Not Found". Interim statuses have no place in
// a CGI response.
func parseStatus(v string) (int, error) {
	code, _, _ := strings.Cut(v, " ")
	if len(code) != 3 || code[0] < '2' || code[0] > '5' || !isDigit(code[1]) || !isDigit(code[2]) {
		return 0, fmt.Errorf("field Status: %.40q", v)
	}
	return int(code[0]-'0')*100 + int(code[1]-'0')*10 + int(code[2]-'0'), nil
}

// parseLength reads the digits of a Content-Length; no sign, no list.
func parseLength(v string) (int64, error) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || !isDigit(v[0]) {
		return 0, fmt.Errorf("Content-Length %.40q", v)
	}
	return n, nil
}

// isHop reports the fields that belong to a connection (RFC 9110 §7.6.1). An
// application has none of its own: what it says of one is left out, as LiteSpeed does.
func isHop(name string) bool {
	for _, hop := range [...]string{"Connection", "Proxy-Connection", "Keep-Alive", "TE",
		"Trailer", "Upgrade", "Proxy-Authenticate", "Proxy-Authorization"} {
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
