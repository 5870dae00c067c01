package h1

import (
	"strings"

	"httpjet/exchange"
)

// Limits bounds a request head; zero values mean the defaults.
type Limits struct {
	Target int // bytes of the target, 8192
	Fields int // field lines, 100
}

// RequestInfo is what a request head says about its connection and body.
type RequestInfo struct {
	Framing        Framing // a length or Chunked, never UntilClose
	KeepAlive      bool    // the client allows another request on the connection
	ExpectContinue bool    // the client waits for a 100 before it sends the body
}

// ParseRequest parses a head as ReadRequestHead returns it into req: Method,
// Proto, Target, Host, Length and Fields without Host, Content-Length and
// Transfer-Encoding. Its strings share the memory of head. The error is a
// *SyntaxError.
//
// Exactly one framing is accepted (RFC 9112 §6): Transfer-Encoding beside
// Content-Length, a coding other than chunked, any coding in HTTP/1.0, and a
// second Content-Length, even an equal one, are 400.
func ParseRequest(head string, lim Limits, req *exchange.Request) (RequestInfo, error) {
	var info RequestInfo
	target, rest, err := parseRequestLine(head, lim, req)
	if err != nil {
		return info, err
	}
	req.Target = target // as sent, so that a log can tell what was refused
	maxFields := lim.Fields
	if maxFields == 0 {
		maxFields = 100
	}
	var fr framer
	hosts, n := 0, 0
	for {
		line, tail, err := cutLine(rest)
		if err != nil {
			return info, err
		}
		if line == "" {
			if tail != "" {
				return info, bad("bytes behind the head")
			}
			break
		}
		rest = tail
		if n++; n > maxFields {
			return info, &SyntaxError{431, "too many fields"}
		}
		name, value, err := parseField(line)
		if err != nil {
			return info, err
		}
		switch {
		case len(name) == 4 && exchange.EqualName(name, "Host"):
			hosts++
			req.Host = value
		case fr.take(name, value):
		default:
			req.Fields.Add(name, value)
		}
	}
	if info.Framing, err = fr.request(req.Proto); err != nil {
		return info, err
	}
	req.Length = int64(info.Framing)
	if err := checkHost(req, hosts); err != nil {
		return info, err
	}
	if err := splitTarget(req, target); err != nil {
		return info, err
	}
	// Nobody tunnels here, so what follows a CONNECT may be meant for somebody else
	// and is never read as a request.
	info.KeepAlive = keepAlive(req.Proto, &req.Fields) && req.Method != "CONNECT"
	// An HTTP/1.0 client cannot mean it (RFC 9110 §10.1.1).
	info.ExpectContinue = info.Framing != 0 && req.Proto == "HTTP/1.1" &&
		req.Fields.HasToken("Expect", "100-continue")
	return info, nil
}

// cutLine splits head behind its first line, which loses its CRLF.
func cutLine(head string) (line, rest string, err error) {
	i := strings.IndexByte(head, '\n')
	switch {
	case i < 0:
		return head, "", nil
	case i == 0 || head[i-1] != '\r':
		return "", "", bad("bare LF in head")
	}
	return head[:i-1], head[i+1:], nil
}

// parseRequestLine reads method SP target SP version (RFC 9112 §3) and returns
// the target and the head behind the line.
func parseRequestLine(head string, lim Limits, req *exchange.Request) (target, rest string, err error) {
	line, rest, err := cutLine(head)
	if err != nil {
		return "", "", err
	}
	if len(line) == len(head) {
		return "", "", bad("head without an end")
	}
	// Exactly one SP between the elements: a second one is left in the next
	// element, where it is no valid byte.
	method, line, ok := cutSpace(line)
	if !ok {
		return "", "", bad("malformed request line")
	}
	if err := CheckMethod(method); err != nil {
		return "", "", err
	}
	target, version, ok := cutSpace(line)
	if !ok || target == "" || !all(target, classTarget) {
		return "", "", bad("malformed request line")
	}
	maxTarget := lim.Target
	if maxTarget == 0 {
		maxTarget = 8192
	}
	if len(target) > maxTarget {
		return "", "", &SyntaxError{414, "target too long"}
	}
	if req.Proto, err = parseVersion(version); err != nil {
		return "", "", err
	}
	req.Method = method
	return target, rest, nil
}

// cutSpace splits s at its first space.
func cutSpace(s string) (before, after string, ok bool) {
	for i := range len(s) { // short: the first word of a line
		if s[i] == ' ' {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

// CheckMethod returns a *SyntaxError if no handler can be asked about method,
// whatever version of HTTP it came by.
func CheckMethod(method string) error {
	switch {
	case !ValidToken(method):
		return bad("malformed method")
	case len(method) > maxMethod:
		return &SyntaxError{501, "method too long"}
	}
	return nil
}

// parseVersion accepts HTTP/1.0 and HTTP/1.1 (RFC 9112 §2.3).
func parseVersion(v string) (string, error) {
	switch v {
	case "HTTP/1.1":
		return "HTTP/1.1", nil
	case "HTTP/1.0":
		return "HTTP/1.0", nil
	}
	digit := func(c byte) bool { return '0' <= c && c <= '9' }
	if len(v) == 8 && v[:5] == "HTTP/" && digit(v[5]) && v[6] == '.' && digit(v[7]) {
		return "", &SyntaxError{505, "version not supported"}
	}
	return "", bad("malformed version")
}

// parseField splits a line without its CRLF (RFC 9112 §5). White space before
// the colon and folded lines are refused.
func parseField(line string) (name, value string, err error) {
	i := 0
	for i < len(line) && class[line[i]]&classToken != 0 {
		i++
	}
	switch {
	case i == 0 && line != "" && (line[0] == ' ' || line[0] == '\t'):
		return "", "", bad("folded field line")
	case i == 0 || i == len(line) || line[i] != ':':
		return "", "", bad("malformed field name")
	}
	name, value = line[:i], trim(line[i+1:])
	if !ValidValue(value) {
		return "", "", bad("control byte in field value")
	}
	return name, value, nil
}

// trim cuts the white space around a value (RFC 9110 §5.6.3).
func trim(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// framer collects the fields that say how long a body is.
type framer struct {
	lengths, codings int
	length, coding   string
}

// take reports whether the field is one of framing, and keeps it. The length is
// looked at first: most names are decided by it.
func (f *framer) take(name, value string) bool {
	switch {
	case len(name) == 14 && exchange.EqualName(name, "Content-Length"):
		f.lengths++
		f.length = value
	case len(name) == 17 && exchange.EqualName(name, "Transfer-Encoding"):
		f.codings++
		f.coding = value
	default:
		return false
	}
	return true
}

// check applies RFC 9112 §6.1 to §6.3 as far as both directions agree. ok is
// false if no field said anything.
func (f *framer) check(proto string) (fr Framing, ok bool, err error) {
	switch {
	case f.lengths == 0 && f.codings == 0:
		return 0, false, nil
	case f.lengths > 0 && f.codings > 0:
		return 0, false, bad("Transfer-Encoding beside Content-Length")
	case f.lengths > 1 || f.codings > 1:
		return 0, false, bad("more than one body length")
	case f.codings == 1 && proto == "HTTP/1.0":
		return 0, false, bad("Transfer-Encoding in HTTP/1.0")
	case f.codings == 1 && !exchange.EqualName(f.coding, "chunked"):
		return 0, false, bad("transfer coding other than chunked")
	case f.codings == 1:
		return Chunked, true, nil
	}
	n, ok := parseLength(f.length)
	if !ok {
		return 0, false, bad("malformed Content-Length")
	}
	return Framing(n), true, nil
}

// request returns the framing of a request: without a field it has no body.
func (f *framer) request(proto string) (Framing, error) {
	fr, _, err := f.check(proto)
	return fr, err
}

// checkHost applies RFC 9112 §3.2: exactly one valid Host, which HTTP/1.0 may
// leave out (R-LSN-8).
func checkHost(req *exchange.Request, hosts int) error {
	switch {
	case hosts > 1:
		return bad("more than one Host")
	case hosts == 0 && req.Proto == "HTTP/1.1":
		return bad("no Host")
	case !ValidHost(req.Host):
		return bad("malformed Host")
	}
	return nil
}

// splitTarget sets req.Target from the four forms of RFC 9112 §3.2.
func splitTarget(req *exchange.Request, target string) error {
	req.Target = target
	switch {
	case req.Method == "CONNECT": // authority form, with a port
		i := strings.LastIndexByte(target, ':')
		if i <= 0 || i == len(target)-1 || !ValidHost(target) {
			return bad("malformed authority")
		}
		return nil
	case target[0] == '/':
		return nil
	case target == "*":
		if req.Method != "OPTIONS" {
			return bad("target * without OPTIONS")
		}
		return nil
	}
	// Absolute form: the authority is Host said twice, and it must be the same, or
	// two hops could route by different names.
	authority, path, ok := cutAbsolute(target)
	if !ok || authority == "" || !ValidHost(authority) {
		return bad("malformed target")
	}
	if req.Host == "" && req.Proto == "HTTP/1.0" {
		req.Host = authority
	}
	if !exchange.EqualName(authority, req.Host) { // R-LSN-2
		return bad("authority of the target differs from Host")
	}
	switch {
	case path == "" && req.Method == "OPTIONS":
		req.Target = "*" // RFC 9112 §3.2.4
	case path == "":
		req.Target = "/"
	case path[0] == '?':
		req.Target = "/" + path
	default:
		req.Target = path
	}
	return nil
}

// cutAbsolute splits "http://authority/path" before the path or query.
func cutAbsolute(target string) (authority, path string, ok bool) {
	scheme, rest, ok := strings.Cut(target, "://")
	if !ok || !exchange.EqualName(scheme, "http") && !exchange.EqualName(scheme, "https") {
		return "", "", false
	}
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		return rest[:i], rest[i:], true
	}
	return rest, "", true
}

// keepAlive applies RFC 9112 §9.3: HTTP/1.0 persists only when asked.
func keepAlive(proto string, f *exchange.Fields) bool {
	if f.HasToken("Connection", "close") {
		return false
	}
	return proto == "HTTP/1.1" || f.HasToken("Connection", "keep-alive")
}
