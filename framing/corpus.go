package framing

import (
	"fmt"
	"strconv"
	"strings"
)

// A message is one that servers may read in more than one way. Parts of its text stand
// for what belongs to the target and to the run, see script.fill.
type message struct {
	name  string
	about string // why it matters, and what the standard says
	text  string
	stray bool // no request is hidden in it: how many answers come says nothing new
	stays bool // httpjet accepts it, and sends an upstream nothing of what is ambiguous
}

// The hidden request is what one of two readings finds behind the message or in it. It
// is a GET of the path that the operator named, and asks for nothing else.
const hidden = "GET {path}{mark}hidden HTTP/1.1\r\nHost: {host}\r\n\r\n"

// post is the head of a request with these fields, and its body.
func post(body string, fields ...string) string {
	return "POST {path}{mark}first HTTP/1.1\r\nHost: {host}\r\n" + strings.Join(fields, "\r\n") + "\r\n\r\n" + body
}

// get is the head of a request without a body, with these fields.
func get(fields ...string) string {
	return "GET {path}{mark}first HTTP/1.1\r\n" + strings.Join(fields, "\r\n") + "\r\n\r\n"
}

const (
	chunked = "Transfer-Encoding: chunked"
	host    = "Host: {host}"
	last    = "0\r\n\r\n" // chunk
)

// inLength frames by a length what ends before the hidden request for who reads chunks.
func inLength(fields ...string) string {
	return post(last+hidden, append([]string{"Content-Length: {lasthidden}"}, fields...)...)
}

// inChunk frames by chunks what ends before the hidden request for who reads the length.
func inChunk(size string, fields ...string) string {
	return post(size+"\r\n"+hidden+"\r\n"+last, append(fields, chunked)...)
}

// chunk is a chunked body behind a good head.
func chunk(body string) string { return post(body, chunked) }

// corpus are the messages, in the order of the table.
func corpus() (list []message) {
	add := func(name, about, text string) { list = append(list, message{name: name, about: about, text: text}) }
	stray := func(name, about, text string) {
		list = append(list, message{name: name, about: about, text: text, stray: true})
	}
	const both, obscure = "RFC 9112 section 6.1: one of the two lies", "RFC 9112 section 6.1: a coding that one hop knows and the next does not"
	add("CL.TE", both, inLength(chunked))
	add("TE.CL", both, post("{hexhidden}\r\n"+hidden+"\r\n"+last, chunked, "Content-Length: {hexline}"))
	add("CL: 0, TE", both, inChunk("{hexhidden}", "Content-Length: 0"))
	for _, c := range []struct{ name, field string }{
		{"coding unknown", "Transfer-Encoding: xchunked"}, {"coding identity", "Transfer-Encoding: identity"},
		{"coding not the last one", "Transfer-Encoding: chunked, identity"}, {"chunked twice", "Transfer-Encoding: chunked, chunked"}, {"two codings", chunked + "\r\nTransfer-Encoding: identity"},
		{"coding with VT", "Transfer-Encoding: \x0bchunked"}, {"coding in quotes", "Transfer-Encoding: \"chunked\""}, {"coding empty", "Transfer-Encoding:"},
		{"space before colon", "Transfer-Encoding : chunked"}, {"coding folded", "Transfer-Encoding:\r\n chunked"}, {"coding behind bare LF", "X: y\nTransfer-Encoding: chunked"},
		{"coding behind bare CR", "X: y\rTransfer-Encoding: chunked"}, {"coding behind a space", " Transfer-Encoding: chunked"}, {"coding behind NUL", "Transfer-Encoding: \x00chunked"}} {
		add(c.name, obscure, inLength(c.field))
	}
	add("HTTP/1.0, CL and TE", "RFC 9112 section 6.1: HTTP/1.0 knows no chunks", strings.Replace(inLength(chunked, "Connection: keep-alive"), "HTTP/1.1", "HTTP/1.0", 1))
	const lengths = "RFC 9112 section 6.3: a length that is not one number"
	for _, c := range []struct{ name, field string }{
		{"two lengths", "Content-Length: 0\r\nContent-Length: {hidden}"}, {"two lengths, other order", "Content-Length: {hidden}\r\nContent-Length: 0"}, {"the same length twice", "Content-Length: {hidden}\r\nContent-Length: {hidden}"},
		{"list of lengths", "Content-Length: {hidden}, {hidden}"}, {"length with plus", "Content-Length: +{hidden}"}, {"length with zeros", "Content-Length: 000{hidden}"}, {"length in hex", "Content-Length: 0x{hexhidden}"},
		{"length with a dot", "Content-Length: {hidden}.0"}, {"length empty", "Content-Length:"}, {"length negative", "Content-Length: -1"}, {"length beyond 64 bits", "Content-Length: 18446744073709551616"},
		{"length with an inner space", "Content-Length: 0 {hidden}"}, {"length folded", "Content-Length: 0\r\n {hidden}"}, {"space before colon of length", "Content-Length : {hidden}"}} {
		add(c.name, lengths, post(hidden, c.field))
	}
	add("GET with a body", "RFC 9110 section 9.3.1: a body that nobody expects is a body", get(host, "Content-Length: {hidden}")+hidden)
	add("length named in Connection", "RFC 9110 section 7.6.1: a hop that drops it loses the end of the body", post(hidden, "Connection: Content-Length", "Content-Length: {hidden}"))
	const chunks = "RFC 9112 section 7.1: sizes are hexadecimal digits, lines end by CRLF"
	for _, c := range []struct{ name, body string }{
		{"size with 0x", "0x0"}, {"size negative", "-1"}, {"size beyond 64 bits", "10000000000000000"}, {"size empty", ""},
		{"extension with LF", "0;a\nb"}, {"extension with CR", "0;a\rb"}, {"no CRLF behind a chunk", "1\r\naX0"}, {"chunk longer than its size", "1\r\nab\r\n0"}} {
		add(c.name, chunks, chunk(c.body+"\r\n\r\n"+hidden))
	}
	for _, c := range []struct{ name, body string }{
		{"size with plus", "+0\r\n\r\n"}, {"space before size", " 0\r\n\r\n"}, {"space behind size", "0 \r\n\r\n"}, {"chunk lines end by LF", "0\n\n"},
		{"trailer folded", "0\r\nX: a\r\n b\r\n\r\n"}, {"trailer without colon", "0\r\nX\r\n\r\n"}} {
		stray(c.name, chunks, chunk(c.body))
	}
	stray("coding in capitals", "RFC 9112 section 7: names of codings have no case", post(last, "Transfer-Encoding: CHUNKED"))
	stray("chunk extension", "RFC 9112 section 7.1.1: to be ignored", chunk("1;a=b;c=\"d\"\r\nx\r\n0\r\n\r\n"))
	stray("length in a trailer", "RFC 9110 section 6.5.1: no framing in trailers", chunk("0\r\nContent-Length: 5\r\n\r\n"))
	const heads = "RFC 9112 sections 2.2, 3 and 5: what no line of a head may have"
	stray("line ends by LF", heads, get("Host: {host}\nX: y"))
	stray("bare CR in a value", heads, get(host, "X: a\rb"))
	stray("NUL in a value", heads, get(host, "X: a\x00b"))
	stray("folded field", "RFC 9112 section 5.2: obsolete, and read in two ways", get(host, "X: a", " b"))
	stray("space before the first field", heads, get(" X: y", host))
	stray("space before a colon", "RFC 9112 section 5.1: to be refused", get(host, "X : y"))
	stray("no colon", heads, get(host, "X"))
	stray("name empty", heads, get(host, ": y"))
	stray("empty line before the request", "RFC 9112 section 2.2: to be ignored", "\r\n"+get(host))
	stray("two spaces in the request line", heads, strings.Replace(get(host), "GET ", "GET  ", 1))
	stray("tab in the request line", heads, strings.Replace(get(host), " HTTP/1.1", "\tHTTP/1.1", 1))
	stray("no version", "RFC 9112 appendix C.2: HTTP/0.9", "GET {path}{mark}first\r\n\r\n")
	stray("no Host", "RFC 9112 section 3.2: to be refused", get("X: y"))
	stray("two Hosts", "RFC 9112 section 3.2: to be refused", get(host, "Host: other.invalid"))
	stray("Host with a space", "RFC 9112 section 3.2: to be refused", get("Host: {host} x"))
	stray("target of another Host", "RFC 9112 section 3.2.2: two names for one request", strings.Replace(get(host), "GET ", "GET http://other.invalid", 1))
	stray("upgrade to h2c", "RFC 9113 section 3.1: what follows 101 is no HTTP/1.1", get(host, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA"))
	for i := range list {
		list[i].stays = list[i].name == "upgrade to h2c" || list[i].name == "length named in Connection"
	}
	return list
}

// script fills messages for one target.
type script struct {
	host, path string
	run        string // marks all requests of a run
	alone      bool   // the target takes one request at a time
}

// fill puts what a message stands for into its text, and behind it the last request,
// which ends the connection; of one that is alone the message itself does.
func (s *script) fill(name, text string) string {
	mark := fmt.Sprintf("?httpjet-framing=%s.%s.", s.run, strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, name))
	at := strings.NewReplacer("{host}", s.host, "{path}", s.path, "{mark}", mark)
	if end := "GET {path}{mark}last HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"; !s.alone {
		text += end
	} else {
		text = strings.Replace(text, " HTTP/1.1\r\n", " HTTP/1.1\r\nConnection: close\r\n", 1)
	}
	n := len(at.Replace(hidden))
	hex := strconv.FormatInt(int64(n), 16)
	return at.Replace(strings.NewReplacer("{hidden}", strconv.Itoa(n), "{hexhidden}", hex, "{lasthidden}", strconv.Itoa(len(last)+n), "{hexline}", strconv.Itoa(len(hex)+2)).Replace(text))
}
