package h1

import (
	"strings"

	"httpjet/exchange"
)

// Response is a parsed response head.
type Response struct {
	Status int // 100 to 599
	Proto  string
	Fields exchange.Fields // as received, without Content-Length and Transfer-Encoding

	// Length is the declared Content-Length, also where no body follows (HEAD,
	// 304); -1 if none was declared.
	Length int64
	// Framing says how the body on the wire ends; 0 where none follows.
	Framing Framing
	// KeepAlive says that the connection may be used again after the body.
	KeepAlive bool
	// Upgrade says that raw bytes follow the head (status 101).
	Upgrade bool
}

// ParseResponse parses a head as ReadHead returns it. method is that of the
// request it answers. The error is a *SyntaxError: like a request, a response
// must have exactly one framing.
func ParseResponse(head, method string) (Response, error) {
	var r Response
	err := r.Parse(head, method)
	return r, err
}

// Parse is ParseResponse into r, whose fields keep their memory. After an error
// r is empty.
func (r *Response) Parse(head, method string) error {
	fields := r.Fields
	fields.Reset()
	*r = Response{Length: -1, Fields: fields}
	err := r.parse(head, method)
	if err != nil {
		fields = r.Fields
		fields.Reset()
		*r = Response{Fields: fields}
	}
	return err
}

func (r *Response) parse(head, method string) error {
	rest, err := r.parseStatusLine(head)
	if err != nil {
		return err
	}
	var fr framer
	for {
		line, tail, _ := strings.Cut(rest, "\r\n")
		if line == "" {
			if tail != "" {
				return bad("bytes behind the head")
			}
			break
		}
		rest = tail
		name, value, err := parseField(line)
		if err != nil {
			return err
		}
		if r.Fields.Len() == maxResponseFields {
			return &SyntaxError{431, "too many fields"}
		}
		if !fr.take(name, value) {
			r.Fields.Add(name, value)
		}
	}
	return r.frame(&fr, method)
}

// parseStatusLine reads version SP 3DIGIT [ SP reason ] (RFC 9112 §4). The space
// before an empty reason is missing often enough to be tolerated. A status
// outside 100 to 599 is invalid (RFC 9110 §15).
func (r *Response) parseStatusLine(head string) (rest string, err error) {
	line, rest, ok := strings.Cut(head, "\r\n")
	version, line, found := strings.Cut(line, " ")
	if !ok || !found {
		return "", bad("malformed status line")
	}
	if r.Proto, err = parseVersion(version); err != nil {
		return "", err
	}
	code, reason, _ := strings.Cut(line, " ")
	n, ok := parseLength(code)
	if !ok || len(code) != 3 || n < 100 || n > 599 || !ValidValue(reason) {
		return "", bad("malformed status line")
	}
	r.Status = int(n)
	return rest, nil
}

// frame applies RFC 9112 §6.3, in its order: status and method first, because a
// HEAD or 304 declares a length of something that is not sent.
func (r *Response) frame(fr *framer, method string) error {
	f, declared, err := fr.check(r.Proto)
	if err != nil {
		return err
	}
	if declared && f >= 0 {
		r.Length = int64(f)
	}
	r.KeepAlive = keepAlive(r.Proto, &r.Fields)
	switch {
	case r.Status == 101:
		r.Upgrade, r.KeepAlive = true, false
	case r.Status < 200, r.Status == 204:
		// A body is announced that cannot be: if it comes all the same, it
		// must not be read as the next response.
		if declared && f != 0 {
			r.KeepAlive = false
		}
		r.Length = -1
	case r.Status == 304, method == "HEAD": // Length stays for the client to see
	case method == "CONNECT" && r.Status < 300:
		r.Upgrade, r.KeepAlive = true, false
	case declared:
		r.Framing = f
	default:
		r.Framing, r.KeepAlive = UntilClose, false
	}
	return nil
}
