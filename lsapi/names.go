package lsapi

import "strings"

// fieldName is the name of the field that became a variable: "X-Foo-Bar" of
// HTTP_X_FOO_BAR. Only names of letters, digits and '-' became variables, so that
// nothing but their case is lost.
func fieldName(variable string) string {
	if n := names[variable]; n != "" {
		return n
	}
	b := []byte(strings.TrimPrefix(variable, "HTTP_"))
	begin := true
	for i, c := range b {
		switch {
		case c == '_':
			b[i] = '-'
		case 'A' <= c && c <= 'Z' && !begin:
			b[i] = c + 'a' - 'A'
		}
		begin = c == '_'
	}
	return string(b)
}

// names are those of fields that nearly every request has.
var names = map[string]string{
	"CONTENT_TYPE": "Content-Type", "CONTENT_LENGTH": "Content-Length", "HTTP_HOST": "Host", "HTTP_ACCEPT": "Accept",
	"HTTP_ACCEPT_ENCODING": "Accept-Encoding", "HTTP_ACCEPT_LANGUAGE": "Accept-Language", "HTTP_CACHE_CONTROL": "Cache-Control",
	"HTTP_COOKIE": "Cookie", "HTTP_ORIGIN": "Origin", "HTTP_REFERER": "Referer", "HTTP_USER_AGENT": "User-Agent",
	"HTTP_X_FORWARDED_FOR": "X-Forwarded-For", "HTTP_X_FORWARDED_PROTO": "X-Forwarded-Proto",
}
