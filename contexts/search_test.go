package contexts

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What an expression says without asking its regexp is what the regexp says.
func TestExpressionsAreTheirRegexps(t *testing.T) {
	whole := 0
	for _, text := range []string{
		`\.(bak|orig|swp)$`, `^/(de|fr|it)/app/`, `^/a$`, `^/a`, `a$`, `^`, `$`, ``, `^$`, `^/(?i:a)b`, `^/[ab]c?$`, `^/a*b$`,
		`^/a/[^/]+$`, `(?i)\.php$`, `^(?:/a|/b)(?:x|y)$`, `^/a|b$`, `(^/a|b)$`, `(?m)^a$`, `^/\bab`, `^/a.b$`, `(?s)a.$`, `^/é(ö|ü)`, `[é-ü]$`,
		`^/�`, `^/[�a]`, `^(/(a|b)){2}`, `^/((a)(b)?)c`, `^(a|b|ab)(a|b|ba)$`, `[^a]$`, `^/(a|b|c|d)(a|b|c|d)(a|b|c|d)`, `(a|)$`,
	} {
		re := regexp.MustCompile(text)
		e := newExpression(re)
		if e.whole {
			whole++
		}
		for _, path := range somePaths() {
			if got, want := e.match(path), re.MatchString(path); got != want {
				t.Errorf("%s and %q: %v, want %v", text, path, got, want)
			}
		}
	}
	if whole < 5 {
		t.Errorf("only %d expressions are decided by their literals", whole)
	}
}

// somePaths are all short paths of a few pieces.
func somePaths() (paths []string) {
	pieces := []string{"/", "a", "b", "c", "é", "ü", "\xff", "\n", ".", "php", "bak", "de", "app"}
	paths = []string{""}
	for from, length := 0, 0; length < 3; length++ {
		for _, p := range paths[from:] {
			from++
			for _, piece := range pieces {
				paths = append(paths, p+piece)
			}
		}
	}
	return append(paths, "/de/app/", "/a/b/c", "/abc", "a/b\n", "/éö", "/x.bak", "/x.bak/", "/de/app/x", "/de/ap", "/xx/de/app/", "/x.orig", "/x.PHP", "/abababc")
}

// R-CTX-2, R-CTX-5: the search gives what looking at every context gives.
func TestSearchIsAScan(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	segment := func() string { return [...]string{"a", "b", "aa", "ab", "abc", "b.x"}[r.IntN(6)] }
	path := func() string {
		var b strings.Builder
		for range r.IntN(4) {
			b.WriteString("/" + segment())
		}
		if b.Len() == 0 || r.IntN(3) == 0 {
			b.WriteString("/")
		}
		return b.String()
	}
	for range 300 {
		var list []*Context
		for range r.IntN(30) {
			c := &Context{URI: path(), Exact: r.IntN(8) == 0, NoBrowse: r.IntN(3) == 0}
			if r.IntN(3) == 0 {
				c.Methods = []string{"GET", "POST"}[r.IntN(2):]
			}
			list = append(list, c)
		}
		s := newSearch(list)
		for range 50 {
			p := path()
			c, slash := s.find(p, "GET")
			if want, wantSlash := scan(list, p, "GET"); c != want || slash != wantSlash {
				t.Fatalf("%s: %v %v, want %v %v", p, c, slash, want, wantSlash)
			}
			var guards []*Context
			s.guards.each(p, func(c *Context) bool {
				guards = append(guards, c)
				return false
			})
			for _, c := range list {
				if got, want := slices.Contains(guards, c), c.NoBrowse && covers(c, p); got != want {
					t.Fatalf("%s: guarded by %q: %v, want %v", p, c.URI, got, want)
				}
			}
		}
	}
}

func covers(c *Context, path string) bool {
	if c.Exact {
		return c.URI == path
	}
	return underPrefix(c.URI, path) || c.URI == path+"/"
}

func scan(list []*Context, path, method string) (best *Context, slash bool) {
	for _, c := range list {
		if !covers(c, path) || !c.serves(method) {
			continue
		}
		if c.Exact {
			return c, false
		}
		if best == nil || len(c.URI) > len(best.URI) {
			best = c
		}
	}
	for _, c := range list { // exact ones win wherever they stand
		if c.Exact && covers(c, path) && c.serves(method) {
			return c, false
		}
	}
	return best, best != nil && best.URI == path+"/"
}
