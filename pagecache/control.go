package pagecache

import (
	"iter"
	"strings"
	"time"

	"httpjet/exchange"
)

// control is what a list of directives says, of X-LiteSpeed-Cache-Control, of a rule or
// of Cache-Control. Of several the strictest counts (R-CACHE-6).
type control struct {
	any                    bool // something was said at all
	public, private        bool
	noStore                bool // no-cache and no-store alike
	noVary, mustRevalidate bool
	life, sharedLife       seconds
	maxStale, staleIfError seconds
	staleWhileRevalidate   seconds
	bad                    string // a directive that could not be read
	vary                   string // vary=TEXT
}

// seconds is a number of seconds, one more than written; 0: none was.
type seconds int64

func (s seconds) set() bool { return s > 0 }

func (s seconds) duration() time.Duration { return time.Duration(max(0, s-1)) * time.Second }

// lesser keeps the smaller one.
func (s *seconds) lesser(v seconds) {
	if *s == 0 || v < *s {
		*s = v
	}
}

// parseSeconds reads delta-seconds (RFC 9111 §1.2.2). A number too large is a long time.
func parseSeconds(v string) (seconds, bool) {
	v = strings.Trim(v, `" `)
	if v == "" {
		return 0, false
	}
	n := int64(0)
	for i := range len(v) {
		if v[i] < '0' || v[i] > '9' {
			return 0, false
		}
		if n = n*10 + int64(v[i]-'0'); n > int64(maxLife/time.Second) {
			n = int64(maxLife / time.Second)
		}
	}
	return seconds(n + 1), true
}

// read adds a list of directives.
func (c *control) read(list string) {
	for list != "" {
		var one string
		one, list = cutList(list)
		name, value, _ := strings.Cut(one, "=")
		c.directive(strings.ToLower(strings.TrimSpace(name)), value)
	}
}

func (c *control) directive(name, value string) {
	if name == "" {
		return
	}
	c.any = true
	switch name {
	case "public", "shared": // entries that users share are told apart by vary
		c.public = true
	case "private":
		c.private = true
	case "no-cache", "no-store":
		c.noStore = true
	case "no-vary":
		c.noVary = true
	case "must-revalidate", "proxy-revalidate":
		c.mustRevalidate = true
	case "max-age":
		c.number(&c.life, name, value)
	case "s-maxage":
		c.number(&c.sharedLife, name, value)
	case "max-stale":
		c.number(&c.maxStale, name, value)
	case "stale-while-revalidate":
		c.number(&c.staleWhileRevalidate, name, value)
	case "stale-if-error":
		c.number(&c.staleIfError, name, value)
	case "vary":
		c.vary = value
	}
}

// number reads a time. One that cannot be read is none at all: nothing is stored for it.
func (c *control) number(to *seconds, name, value string) {
	n, ok := parseSeconds(value)
	if !ok {
		c.bad, n = name, 1
	}
	to.lesser(n)
}

// age returns the life that was given: s-maxage wins.
func (c *control) age() (time.Duration, bool) {
	switch {
	case c.sharedLife.set():
		return c.sharedLife.duration(), true
	case c.life.set():
		return c.life.duration(), true
	}
	return 0, false
}

// cutList cuts the first element off a comma-separated list; commas in quotes are data.
func cutList(list string) (one, rest string) {
	quoted := false
	for i := range len(list) {
		switch list[i] {
		case '"':
			quoted = !quoted
		case ',':
			if !quoted {
				return strings.TrimSpace(list[:i]), list[i+1:]
			}
		}
	}
	return strings.TrimSpace(list), ""
}

// elements iterates over a comma-separated list, empty ones left out.
func elements(list string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for list != "" {
			var one string
			one, list = cutList(list)
			if one != "" && !yield(one) {
				return
			}
		}
	}
}

// fromRules is what rewrite rules say of the cache by variables (LSX 10.5).
type fromRules struct {
	control
	bypass  string // why the cache takes no part; "": it does
	cookies string // Cache-Vary: names of cookies, a comma list
	keyMod  string
}

func readRules(env []exchange.Field) (r fromRules) {
	for i := range env {
		e := &env[i]
		switch {
		case exchange.EqualName(e.Name, "Cache-Control") || exchange.EqualName(e.Name, "Cache-Ctrl"):
			r.read(e.Value)
		case exchange.EqualName(e.Name, "no-cache") && e.Value != "0":
			r.bypass = "no-cache of a rule"
		case e.Name == "Cache-Vary-Value": // of vary=TEXT
			r.vary = e.Value
		case exchange.EqualName(e.Name, "Cache-Vary"):
			r.cookies = e.Value
		case exchange.EqualName(e.Name, "Cache-Key-Mod"):
			r.keyMod = e.Value
		}
	}
	if r.noStore {
		r.bypass = "no-cache of a rule"
	}
	return r
}

// isControl reports whether a field steers the cache: no client sees it.
func isControl(name string) bool {
	const a, b = "X-LiteSpeed-", "LSC-"
	if name == "" || name[0]|' ' != 'x' && name[0]|' ' != 'l' {
		return false // as mostly
	}
	return len(name) >= len(a) && exchange.EqualName(name[:len(a)], a) || len(name) >= len(b) && exchange.EqualName(name[:len(b)], b)
}

func hasControl(f *exchange.Fields) bool {
	for i := range f.Len() {
		if isControl(f.At(i).Name) {
			return true
		}
	}
	return false
}

func stripControl(f *exchange.Fields) {
	f.DelFunc(func(fd exchange.Field) bool { return isControl(fd.Name) })
}
