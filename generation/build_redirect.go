package generation

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"httpjet/contexts"
	"httpjet/docroot"
	"httpjet/exchange"
	"httpjet/xmlconf"
)

// buildRedirect answers redirects to the client, and leads others to another path
// (LSX 7.2).
func (b *builder) buildRedirect(c *xmlconf.Context, out *contexts.Context) {
	out.Kind = contexts.Redirect
	status := c.StatusCode
	external := c.ExternalRedirect || !strings.HasPrefix(c.Location, "/")
	if status >= 300 && status < 400 && !slices.Contains([]int{301, 302, 303, 307, 308}, status) {
		b.fs.Warn("W-RANGE", c.At("statusCode"), "use 301, 302, 303, 307 or 308", "context %q: statusCode %d is no redirect: 302 is used", c.URI, status)
		status = 302
	}
	to := newDestination(c.Location, c.URI, out.Regexp, external)
	switch {
	case status >= 400 || status >= 200 && status < 300:
		out.Handler = answer(status, "redirect_context", "context %q", c.URI)
	case c.Location == "" || to == nil:
		b.fs.Warn("W-SKIPPED", c.At("location"), "write a location that starts with / or a scheme", "context %q: a redirect without a location that can be used; it answers 503", c.URI)
		out.Handler = answer(503, "handler_unresolved", "redirect context %q", c.URI)
	case external:
		out.Handler = exchange.HandlerFunc(func(x *exchange.Exchange) error {
			location, ok := to.expand(x)
			if !ok {
				return exchange.Fail(404, "not_found", "what the expression captured is no name of a host")
			}
			return exchange.Redirect(status, location)
		})
	default:
		// The handler is there for explain alone: the context leads elsewhere.
		out.Handler = answer(500, "internal", "context %q leads to another path", c.URI)
		out.Inside = func(x *exchange.Exchange) string {
			location, _ := to.expand(x)
			return location
		}
	}
}

// destination is where a redirect leads.
type destination struct {
	location, uri string
	re            *regexp.Regexp // nil: what is behind uri is appended
	parts         []part         // of location, with re
	authority     int            // captures of so many parts belong to the host
	local         bool           // it stays on this origin
}

// part is text, then what a group has captured; -1 for nothing.
type part struct {
	text  string
	group int
}

// newDestination reads a location; nil if it cannot be used. With an expression, $0 to
// $9 and & stand for what it captured, and \ takes their meaning away. An internal
// location is a path.
func newDestination(location, uri string, re *regexp.Regexp, external bool) *destination {
	d := &destination{location: location, uri: uri, re: re}
	if re == nil {
		return d
	}
	d.parts = captures(location)
	if !external || strings.HasPrefix(location, "/") || strings.HasPrefix(location, "$") || strings.HasPrefix(location, "&") {
		d.local = !strings.HasPrefix(location, "//")
		return d
	}
	var text strings.Builder
	for i, p := range d.parts {
		text.WriteString(p.text)
		_, host, ok := strings.Cut(text.String(), "://")
		switch {
		case !ok:
			return nil // no scheme, or one that a client could choose
		case p.group >= 0 && !strings.ContainsAny(host, "/?#"):
			d.authority = i + 1
		}
	}
	return d
}

func captures(location string) (parts []part) {
	var text strings.Builder
	for i := 0; i < len(location); i++ {
		group := -1
		switch c := location[i]; {
		case c == '\\' && i+1 < len(location):
			i++
			text.WriteByte(location[i])
			continue
		case c == '&':
			group = 0
		case c == '$' && i+1 < len(location) && '0' <= location[i+1] && location[i+1] <= '9':
			i++
			group = int(location[i] - '0')
		default:
			text.WriteByte(c)
			continue
		}
		parts = append(parts, part{text.String(), group})
		text.Reset()
	}
	return append(parts, part{text.String(), -1})
}

// expand is the target for x, with its query unless the location has one; not ok if
// what was captured would become another host.
func (d *destination) expand(x *exchange.Exchange) (string, bool) {
	location, ok := "", true
	if d.re == nil {
		location = d.plain(x)
	} else if location, ok = d.captured(x.Req.Path); !ok {
		return "", false
	}
	if x.Req.Query != "" && !strings.Contains(location, "?") {
		location += "?" + x.Req.Query
	}
	return location, true
}

func (d *destination) captured(path string) (string, bool) {
	m := d.re.FindStringSubmatch(path)
	var b strings.Builder
	for i, p := range d.parts {
		b.WriteString(p.text)
		if p.group < 0 || p.group >= len(m) {
			continue
		}
		if i < d.authority && strings.ContainsFunc(m[p.group], notOfNames) {
			return "", false
		}
		b.WriteString(docroot.Encode(m[p.group]))
	}
	location := b.String()
	if d.local {
		location = "/" + strings.TrimLeft(location, "/")
	}
	return location, true
}

func notOfNames(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '.')
}

// plain is location with the part of the raw path behind the context's uri. A path
// that does not start with uri as the client wrote it (it was encoded or had dot
// segments) contributes its clean form, encoded.
func (d *destination) plain(x *exchange.Exchange) string {
	raw, _, _ := strings.Cut(x.Req.Sent(), "?")
	rest, ok := strings.CutPrefix(raw, d.uri)
	if !ok || strings.Contains(rest, "..") {
		rest = docroot.Encode(strings.TrimPrefix(x.Req.Path, d.uri))
	}
	return behind(d.location, rest)
}

// behind appends the rest of a path to a location, of which the client must not
// extend the name of the host, nor make one: "/" and "/evil.test" are no path.
func behind(location, rest string) string {
	rest = strings.ReplaceAll(rest, `\`, "%5C") // browsers read it as a slash
	authority, isURL := strings.CutPrefix(location, "//")
	if !isURL {
		_, authority, isURL = strings.Cut(location, "://")
	}
	switch {
	case location == "/":
		rest = strings.TrimLeft(rest, "/")
	case isURL && !strings.ContainsAny(authority, "/?#") && rest != "" && rest[0] != '/':
		rest = "/" + rest
	}
	return location + rest
}

// mapping is a location with captures, for files: the directory that no capture can
// change, and what of it a path stands for. An expansion that leaves the directory
// is a path that the root does not know.
func mapping(location string, re *regexp.Regexp) (dir string, path func(string) string) {
	parts := captures(location)
	i := strings.LastIndexByte(parts[0].text, '/')
	dir = filepath.Clean(parts[0].text[:i+1])
	parts[0].text = parts[0].text[i:]
	return dir, func(path string) string {
		m := re.FindStringSubmatch(path)
		var b strings.Builder
		for _, p := range parts {
			b.WriteString(p.text)
			if p.group >= 0 && p.group < len(m) {
				b.WriteString(m[p.group])
			}
		}
		s := b.String()
		for strings.Contains(s, "//") {
			s = strings.ReplaceAll(s, "//", "/")
		}
		return s
	}
}
