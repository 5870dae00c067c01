package h1

import (
	"bytes"

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
	r.reset()
	r.Length = -1
	err := r.parse(head, method)
	if err != nil {
		r.reset()
	}
	return err
}

func (r *Response) reset() {
	fields := r.Fields
	fields.Reset()
	*r = Response{}
	r.Fields = fields
}

func (r *Response) parse(head, method string) error {
	rest, err := r.parseStatusLine(head)
	if err != nil {
		return err
	}
	var fr framer
	for {
		line, tail, err := cutLine(rest)
		if err != nil {
			return err
		}
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
	line, rest, err := cutLine(head)
	if err != nil {
		return "", err
	}
	version, after, found := cutSpace(line)
	if !found || len(line) == len(head) {
		return "", bad("malformed status line")
	}
	if r.Proto, err = parseVersion(version); err != nil {
		if se, ok := err.(*SyntaxError); ok && se.Status == 400 {
			err = bad("malformed status line")
		}
		return "", err
	}
	code, reason, _ := cutSpace(after)
	n, ok := parseLength(code)
	if !ok || len(code) != 3 || n < 100 || n > 599 || !ValidValue(reason) {
		return "", bad("malformed status line")
	}
	r.Status = int(n)
	return rest, nil
}

// statusLine is how each status line begins; d stands for a digit.
const statusLine = "HTTP/d.d ddd"

// partial looks at a response head that has not ended yet: what is malformed
// already is refused before the rest comes, if it ever does. Each byte is looked
// at once, each line that has its end as Parse will do it.
type partial struct {
	line, at int  // start of the line, first byte not looked at
	value    bool // the field's name has ended
}

// check looks at head, which has grown since the last call. Line ends are CRLF:
// ReadHead has seen to that.
func (p *partial) check(head []byte) error {
	for {
		i := bytes.IndexByte(head[p.at:], '\n')
		if i < 0 {
			break
		}
		end := p.at + i + 1
		err := checkLine(string(head[p.line:end]), p.line == 0)
		if err != nil {
			return err
		}
		*p = partial{line: end, at: end}
	}
	for ; p.at < len(head); p.at++ {
		c := head[p.at]
		if c == '\r' && p.at == len(head)-1 {
			break // an LF may follow
		}
		if err := p.next(c); err != nil {
			return err
		}
	}
	return nil
}

func checkLine(line string, first bool) error {
	if first {
		var r Response
		_, err := r.parseStatusLine(line)
		return err
	}
	_, _, err := parseField(line[:len(line)-2])
	return err
}

// next looks at the byte at p.at.
func (p *partial) next(c byte) error {
	i := p.at - p.line
	switch {
	case p.line == 0:
		if i < len(statusLine) {
			want := statusLine[i]
			if c != want && (want != 'd' || c < '0' || c > '9') {
				return bad("malformed status line")
			}
		} else if class[c]&classValue == 0 || i == len(statusLine) && c != ' ' {
			return bad("malformed status line")
		}
	case i == 0 && (c == ' ' || c == '\t'):
		return bad("folded field line")
	case p.value && class[c]&classValue == 0:
		return bad("control byte in field value")
	case p.value || class[c]&classToken != 0:
	case c == ':' && i > 0:
		p.value = true
	default:
		return bad("malformed field name")
	}
	return nil
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
