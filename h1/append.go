package h1

import (
	"net/http"
	"strconv"

	"httpjet/exchange"
)

const hexDigits = "0123456789ABCDEF"

// AppendRequest appends the head of a request: its line, Host, fields and the
// framing for length (-1: chunked; 0: none, but a zero Content-Length where the
// method suggests a body). Fields called Host, Content-Length or
// Transfer-Encoding, and fields that cannot be written, are left out. A byte of
// target that would end it is percent-encoded; method must be a token.
func AppendRequest(b []byte, method, target, host string, f *exchange.Fields, length int64) []byte {
	if !ValidToken(method) {
		panic("BUG: h1: method is no token")
	}
	b = append(b, method...)
	b = append(b, ' ')
	b = appendTarget(b, target)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	if all(host, classTarget) {
		b = append(b, host...)
	}
	b = append(b, '\r', '\n')
	for i := range f.Len() {
		if fd := f.At(i); !ofRequest(fd.Name) {
			b = AppendField(b, fd.Name, fd.Value)
		}
	}
	switch {
	case length < 0:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case length > 0 || method == "POST" || method == "PUT" || method == "PATCH":
		b = appendLength(b, length)
	}
	return append(b, '\r', '\n')
}

// appendTarget makes request-line injection impossible whatever rewrote target.
func appendTarget(b []byte, target string) []byte {
	if target == "" {
		return append(b, '/')
	}
	if all(target, classTarget) {
		return append(b, target...)
	}
	for i := range len(target) {
		if c := target[i]; class[c]&classTarget == 0 {
			b = append(b, '%', hexDigits[c>>4], hexDigits[c&15])
		} else {
			b = append(b, c)
		}
	}
	return b
}

// ofRequest reports whether AppendRequest writes the field by itself. The length is
// looked at first: most names are decided by it.
func ofRequest(name string) bool {
	switch len(name) {
	case 4:
		return exchange.EqualName(name, "Host")
	case 14:
		return exchange.EqualName(name, "Content-Length")
	case 17:
		return exchange.EqualName(name, "Transfer-Encoding")
	}
	return false
}

func appendLength(b []byte, n int64) []byte {
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, n, 10)
	return append(b, '\r', '\n')
}

// AppendField appends a field line. A name that is no token, or a value with a
// control byte, is not written at all: cut lines must not become fields.
func AppendField(b []byte, name, value string) []byte {
	if !ValidToken(name) || !ValidValue(value) {
		return b
	}
	b = append(b, name...)
	b = append(b, ':', ' ')
	b = append(b, value...)
	return append(b, '\r', '\n')
}

// Framed says what AppendResponseHead adds to the fields of a response.
type Framed struct {
	Length     int64  // Content-Length; -1: none
	Chunked    bool   // Transfer-Encoding: chunked
	Connection string // value of Connection, "" for none
	Own        string // field lines of the server, each with its end, see OwnLines
}

// OwnLines returns the lines of Date and Server for Framed; a value that is "" or
// cannot be written has none.
func OwnLines(date, server string) string {
	var b []byte
	for _, own := range [...]exchange.Field{{Name: "Date", Value: date}, {Name: "Server", Value: server}} {
		if own.Value != "" {
			b = AppendField(b, own.Name, own.Value)
		}
	}
	return string(b)
}

// statusLines holds the status lines of 100 to 599; it is never changed.
var statusLines = makeStatusLines()

func makeStatusLines() (lines [500]string) {
	for i := range lines {
		lines[i] = string(appendStatusLine(nil, 100+i))
	}
	return lines
}

func appendStatusLine(b []byte, status int) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ')
	b = append(b, http.StatusText(status)...)
	return append(b, '\r', '\n')
}

// AppendResponseHead appends a response head. Fields of r that belong to the
// connection (Content-Length, Transfer-Encoding, Connection, Keep-Alive, Date unless
// r is Dated, Server) come from fr alone; fields that cannot be written are left out.
func AppendResponseHead(b []byte, r *exchange.Response, fr Framed) []byte {
	if r.Status < 100 || r.Status > 999 {
		panic("BUG: h1: status is no three digits")
	}
	if i := r.Status - 100; i < len(statusLines) {
		b = append(b, statusLines[i]...)
	} else {
		b = appendStatusLine(b, r.Status)
	}
	b = append(b, fr.Own...)
	first := 0
	if ready := r.Fields.Ready(); ready != nil {
		first = ready.Len()
		if r.Dated {
			b = append(b, ready.Lines(1, appendDated)...)
		} else {
			b = append(b, ready.Lines(0, appendUndated)...)
		}
	}
	for i := first; i < r.Fields.Len(); i++ {
		fd := r.Fields.At(i)
		b = appendOwnField(b, &fd, r.Dated)
	}
	switch {
	case fr.Chunked:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case fr.Length >= 0:
		b = appendLength(b, fr.Length)
	}
	switch fr.Connection {
	case "":
	case "keep-alive":
		b = append(b, "Connection: keep-alive\r\n"...)
	default:
		b = AppendField(b, "Connection", fr.Connection)
	}
	return append(b, '\r', '\n')
}

func appendDated(b []byte, list []exchange.Field) []byte {
	for i := range list {
		b = appendOwnField(b, &list[i], true)
	}
	return b
}

func appendUndated(b []byte, list []exchange.Field) []byte {
	for i := range list {
		b = appendOwnField(b, &list[i], false)
	}
	return b
}

// appendOwnField appends a field line, but for those that belong to the connection.
func appendOwnField(b []byte, fd *exchange.Field, dated bool) []byte {
	if ofConnection(fd.Name) && !(dated && exchange.EqualName(fd.Name, "Date")) {
		return b
	}
	return AppendField(b, fd.Name, fd.Value)
}

// ofConnection reports whether AppendResponseHead writes the field by itself. The
// length is looked at first: most names are decided by it.
func ofConnection(name string) bool {
	switch len(name) {
	case 4:
		return exchange.EqualName(name, "Date")
	case 6:
		return exchange.EqualName(name, "Server")
	case 10:
		return exchange.EqualName(name, "Connection") || exchange.EqualName(name, "Keep-Alive")
	case 14:
		return exchange.EqualName(name, "Content-Length")
	case 17:
		return exchange.EqualName(name, "Transfer-Encoding")
	}
	return false
}

// AppendChunk appends p as one chunk; nothing if p is empty, because an empty
// chunk would end the body.
func AppendChunk(b, p []byte) []byte {
	if len(p) == 0 {
		return b
	}
	b = AppendChunkSize(b, int64(len(p)))
	b = append(b, p...)
	return append(b, '\r', '\n')
}

// AppendChunkSize appends the size line of a chunk whose n > 0 bytes and CRLF
// the caller sends.
func AppendChunkSize(b []byte, n int64) []byte {
	b = strconv.AppendInt(b, n, 16)
	return append(b, '\r', '\n')
}

// AppendLastChunk ends a chunked body, with trailers if there are any.
func AppendLastChunk(b []byte, trailers *exchange.Fields) []byte {
	b = append(b, "0\r\n"...)
	if trailers != nil {
		for name, value := range trailers.All() {
			if !forbiddenTrailer(name) {
				b = AppendField(b, name, value)
			}
		}
	}
	return append(b, '\r', '\n')
}
