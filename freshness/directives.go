package freshness

import (
	"time"

	"httpjet/exchange"
)

// Set is a set of cache directives.
type Set uint32

// The directives that a shared cache knows; all others are extensions and ignored.
const (
	NoStore Set = 1 << iota
	NoCache
	Private
	Public
	MustRevalidate
	ProxyRevalidate
	MustUnderstand
	OnlyIfCached
	MaxAge
	SMaxAge
	StaleWhileRevalidate
	StaleIfError
	MaxStale
	MinFresh
)

// maxSeconds is what a larger number of seconds means (RFC 9111 §1.2.2).
const maxSeconds = 1 << 31

// anyStale is the value of max-stale without an argument.
const anyStale = time.Duration(maxSeconds) * time.Second

// maxNamed is how many fields no-cache and private may name; more count as all.
const maxNamed = 32

// Directives is what the lines of one Cache-Control say. Where they contradict
// each other, or one cannot be read, the more restrictive meaning holds (RFC 9111
// §4.2.1).
type Directives struct {
	Has Set

	MaxAge, SMaxAge, StaleWhileRevalidate, StaleIfError time.Duration
	MaxStale, MinFresh                                  time.Duration // of requests

	// Named are the fields of no-cache="…" and private="…": nothing but they may not
	// be reused (RFC 9111 §5.2.2.4, §5.2.2.7).
	Named []string
}

// Any reports whether one of a set is there.
func (d *Directives) Any(s Set) bool { return d.Has&s != 0 }

// ParseDirectives reads all lines of a field called name.
func ParseDirectives(f *exchange.Fields, name string) (d Directives) {
	for i := range f.Len() {
		if fd := f.At(i); len(fd.Name) == len(name) && exchange.EqualName(fd.Name, name) {
			d.line(fd.Value)
		}
	}
	return d
}

// ParseRequest reads what a request wants of a cache. Pragma counts where there is
// no Cache-Control (RFC 9111 §5.4).
func ParseRequest(f *exchange.Fields) Directives {
	pragma, control := false, false
	var d Directives
	for i := range f.Len() {
		switch fd := f.At(i); len(fd.Name) {
		case len("Pragma"):
			pragma = pragma || exchange.EqualName(fd.Name, "Pragma") && f.HasToken("Pragma", "no-cache")
		case len("Cache-Control"):
			if exchange.EqualName(fd.Name, "Cache-Control") {
				control = true
				d.line(fd.Value)
			}
		}
	}
	if pragma && !control {
		d.Has |= NoCache
	}
	return d
}

// line reads one line: directives between commas, which do not count in quotes.
func (d *Directives) line(v string) {
	for v != "" {
		var m member
		if m, v = nextMember(v); m.name != "" {
			d.add(m)
		}
	}
}

// member is one directive as it is written.
type member struct {
	name, value string
	hasValue    bool
	odd         bool // there is a space around =, or something behind the value
}

// nextMember takes the next directive off v. Its value has no quotes any more.
func nextMember(v string) (m member, rest string) {
	v = trimLeft(v)
	i := 0
	for i < len(v) && v[i] != '=' && v[i] != ',' {
		i++
	}
	m.name = trimRight(v[:i])
	m.odd = len(m.name) != i
	if i == len(v) || v[i] == ',' {
		m.odd = false // the space is one before the comma
		return m, v[min(i+1, len(v)):]
	}
	m.hasValue = true
	v = v[i+1:]
	if t := trimLeft(v); len(t) != len(v) {
		m.odd, v = true, t
	}
	if v == "" || v[0] != '"' {
		i = 0
		for i < len(v) && v[i] != ',' {
			i++
		}
		m.value = trimRight(v[:i])
		return m, v[min(i+1, len(v)):]
	}
	m.value, v = quoted(v)
	i = 0
	for i < len(v) && v[i] != ',' {
		m.odd = m.odd || v[i] != ' ' && v[i] != '\t'
		i++
	}
	return m, v[min(i+1, len(v)):]
}

// quoted takes a quoted string off v, which begins with a quote. One without an
// end takes all. Escapes stay as they are: no value that matters has any.
func quoted(v string) (s, rest string) {
	for i := 1; i < len(v); i++ {
		switch v[i] {
		case '\\':
			i++
		case '"':
			return v[1:i], v[i+1:]
		}
	}
	return v[1:], ""
}

// known are the directives by name; arg says that they have a number.
var known = [...]struct {
	name string
	set  Set
	arg  bool
}{
	{"max-age", MaxAge, true}, {"no-cache", NoCache, false}, {"no-store", NoStore, false}, {"public", Public, false},
	{"private", Private, false}, {"s-maxage", SMaxAge, true}, {"must-revalidate", MustRevalidate, false},
	{"proxy-revalidate", ProxyRevalidate, false}, {"must-understand", MustUnderstand, false},
	{"only-if-cached", OnlyIfCached, false}, {"stale-while-revalidate", StaleWhileRevalidate, true},
	{"stale-if-error", StaleIfError, true}, {"max-stale", MaxStale, true}, {"min-fresh", MinFresh, true},
}

func (d *Directives) add(m member) {
	for i := range known {
		k := &known[i]
		if !exchange.EqualName(m.name, k.name) {
			continue
		}
		switch {
		case k.arg:
			d.number(k.set, m)
		case k.set == NoCache || k.set == Private:
			if !m.hasValue || !d.named(m) {
				d.Has |= k.set
			}
		case k.set == Public && m.hasValue, k.set == MustUnderstand && m.hasValue:
			// They permit something: as they are written, they do not.
		default:
			d.Has |= k.set
		}
		return
	}
}

// named takes the fields of a list; false: it is none, so that all are meant.
func (d *Directives) named(m member) bool {
	n := len(d.Named)
	for v := m.value; v != ""; {
		i := 0
		for i < len(v) && v[i] != ',' {
			i++
		}
		name := trimRight(trimLeft(v[:i]))
		v = v[min(i+1, len(v)):]
		if name == "" {
			continue
		}
		if !isToken(name) || len(d.Named) == maxNamed {
			return false
		}
		d.Named = append(d.Named, name)
	}
	return len(d.Named) > n
}

// number takes a number of seconds. A max-age that cannot be read is over at once;
// another directive that cannot be read permits nothing.
func (d *Directives) number(s Set, m member) {
	t, ok := seconds(m.value)
	ok = ok && !m.odd
	had := d.Has&s != 0
	switch s {
	case MaxAge, SMaxAge:
		if !ok {
			t = 0
		}
		d.Has |= s
		d.least(s, had, t)
	case MinFresh:
		if ok {
			d.Has |= s
			d.MinFresh = max(d.MinFresh, t)
		}
	case MaxStale:
		if !m.hasValue {
			t, ok = anyStale, true
		}
		fallthrough
	default:
		if ok {
			d.Has |= s
			d.least(s, had, t)
		}
	}
}

// least keeps the smaller of two values of a directive.
func (d *Directives) least(s Set, had bool, t time.Duration) {
	p := &d.MaxAge
	switch s {
	case SMaxAge:
		p = &d.SMaxAge
	case StaleWhileRevalidate:
		p = &d.StaleWhileRevalidate
	case StaleIfError:
		p = &d.StaleIfError
	case MaxStale:
		p = &d.MaxStale
	}
	if had {
		t = min(t, *p)
	}
	*p = t
}

// seconds reads a delta-seconds (RFC 9111 §1.2.2).
func seconds(v string) (time.Duration, bool) {
	if v == "" {
		return 0, false
	}
	n := int64(0)
	for i := range len(v) {
		if v[i] < '0' || v[i] > '9' {
			return 0, false
		}
		n = min(n*10+int64(v[i]-'0'), maxSeconds)
	}
	return time.Duration(n) * time.Second, true
}

func trimLeft(v string) string {
	for v != "" && (v[0] == ' ' || v[0] == '\t') {
		v = v[1:]
	}
	return v
}

func trimRight(v string) string {
	for v != "" && (v[len(v)-1] == ' ' || v[len(v)-1] == '\t') {
		v = v[:len(v)-1]
	}
	return v
}

// isToken reports whether v is a token (RFC 9110 §5.6.2).
func isToken(v string) bool {
	for i := range len(v) {
		switch c := v[i]; {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9':
		case c == '!' || c == '#' || c == '$' || c == '%' || c == '&' || c == '\'' || c == '*' || c == '+' || c == '-' ||
			c == '.' || c == '^' || c == '_' || c == '`' || c == '|' || c == '~':
		default:
			return false
		}
	}
	return v != ""
}
