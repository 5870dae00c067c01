package script

import (
	"strings"

	"httpjet/exchange"
)

// addHeader adds the request's fields as HTTP_* (R-FCGI-7). Repeated fields
// become one variable at the place of the first, joined as RFC 9110 §5.3 allows;
// Cookie has its own separator (RFC 9113 §8.2.3).
func addHeader(v *exchange.Fields, r *exchange.Request) {
	if r.Host != "" {
		v.Add("HTTP_HOST", r.Host)
	}
	named := namesFields(&r.Fields)
	for i := range r.Fields.Len() {
		f := r.Fields.At(i)
		if !passes(f) || !isVariable(f.Name) || seenBefore(&r.Fields, i) || named && r.Fields.HasToken("Connection", f.Name) {
			continue
		}
		v.Add(variableName(f.Name), joined(&r.Fields, i))
	}
}

// passes is the hygiene of fields on their way to an application.
func passes(f exchange.Field) bool {
	return isPlainName(f.Name) && !isHop(f.Name) && isPrintable(f.Value)
}

// isPlainName admits letters, digits and '-'. Applications cannot tell "A_B",
// "A.B" and "A-B" apart once they are variables, so only the last one is real.
func isPlainName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-') {
			return false
		}
	}
	return name != ""
}

// namesFields reports whether a Connection field names fields that go no further
// than this server (RFC 9110 §7.6.1). Hardly any does.
func namesFields(list *exchange.Fields) bool {
	for token := range list.Tokens("Connection") {
		if !exchange.EqualName(token, "close") && !isHop(token) {
			return true
		}
	}
	return false
}

// isHop reports the fields of the client's connection (RFC 9110 §7.6.1), and
// Proxy, which as HTTP_PROXY would steer the application's own calls.
func isHop(name string) bool {
	for _, hop := range [...]string{"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authorization",
		"TE", "Trailer", "Transfer-Encoding", "Upgrade", "HTTP2-Settings", "Proxy"} {
		if exchange.EqualName(name, hop) {
			return true
		}
	}
	return false
}

// isVariable leaves out the fields that have a variable of their own.
func isVariable(name string) bool {
	return !exchange.EqualName(name, "Content-Length") && !exchange.EqualName(name, "Content-Type") &&
		!exchange.EqualName(name, "Host")
}

// isPrintable reports that no control character but a tab is in a value. A field
// with one is dropped whole: without it the value would be another one.
func isPrintable(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

func seenBefore(list *exchange.Fields, i int) bool {
	name := list.At(i).Name
	for j := range i {
		if f := list.At(j); exchange.EqualName(f.Name, name) && passes(f) {
			return true
		}
	}
	return false
}

// joined returns the value of field i and of those of its name behind it.
func joined(list *exchange.Fields, i int) string {
	first := list.At(i)
	sep := ", "
	if exchange.EqualName(first.Name, "Cookie") {
		sep = "; "
	}
	var more []string
	for j := i + 1; j < list.Len(); j++ {
		if f := list.At(j); exchange.EqualName(f.Name, first.Name) && passes(f) {
			more = append(more, f.Value)
		}
	}
	if more == nil {
		return first.Value
	}
	return first.Value + sep + strings.Join(more, sep)
}

// usual are the variables of fields that nearly every request has, in the
// spellings of HTTP/1 and HTTP/2 clients.
var usual = map[string]string{
	"User-Agent": "HTTP_USER_AGENT", "user-agent": "HTTP_USER_AGENT",
	"Accept": "HTTP_ACCEPT", "accept": "HTTP_ACCEPT",
	"Accept-Encoding": "HTTP_ACCEPT_ENCODING", "accept-encoding": "HTTP_ACCEPT_ENCODING",
	"Accept-Language": "HTTP_ACCEPT_LANGUAGE", "accept-language": "HTTP_ACCEPT_LANGUAGE",
	"Cache-Control": "HTTP_CACHE_CONTROL", "cache-control": "HTTP_CACHE_CONTROL",
	"Cookie": "HTTP_COOKIE", "cookie": "HTTP_COOKIE",
	"Origin": "HTTP_ORIGIN", "origin": "HTTP_ORIGIN",
	"Referer": "HTTP_REFERER", "referer": "HTTP_REFERER",
	"X-Forwarded-For": "HTTP_X_FORWARDED_FOR", "x-forwarded-for": "HTTP_X_FORWARDED_FOR",
	"X-Forwarded-Proto": "HTTP_X_FORWARDED_PROTO", "x-forwarded-proto": "HTTP_X_FORWARDED_PROTO",
}

// variableName makes "HTTP_X_FOO" of "X-Foo".
func variableName(name string) string {
	if v := usual[name]; v != "" {
		return v
	}
	var b strings.Builder
	b.Grow(len("HTTP_") + len(name))
	b.WriteString("HTTP_")
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '-':
			c = '_'
		case 'a' <= c && c <= 'z':
			c -= 'a' - 'A'
		}
		b.WriteByte(c)
	}
	return b.String()
}

// endToEnd adds to out the fields of list as an application may see them under
// their own names, without framing.
func endToEnd(out, list *exchange.Fields) {
	named := namesFields(list)
	for i := range list.Len() {
		f := list.At(i)
		if named && list.HasToken("Connection", f.Name) {
			continue
		}
		if passes(f) && !exchange.EqualName(f.Name, "Content-Length") && !exchange.EqualName(f.Name, "Host") {
			out.Add(f.Name, f.Value)
		}
	}
}
