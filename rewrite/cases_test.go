package rewrite

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"httpjet/casefile"
	"httpjet/docroot"
	"httpjet/exchange"
)

// stand is what a case file works with: files that are there, maps and rules.
type stand struct {
	t     *testing.T
	files map[string]string // by absolute path: kind and size
	maps  map[string]*Map
	texts map[string]string // of RewriteFile
	p     *Program
	host  *Host
}

func newStand(t *testing.T) *stand {
	s := &stand{t: t, files: map[string]string{}, maps: map[string]*Map{}, texts: map[string]string{}}
	s.host = &Host{Name: "site", DocRoot: "/srv/html", Admin: "root@a.test", Software: "httpjet",
		Now:  func() time.Time { return time.Date(2030, 2, 3, 4, 5, 6, 0, time.UTC) },
		Rand: func(n int) int { return n - 1 },
		Stat: func(path string, follow bool) Info {
			switch s.files[path] {
			case "file":
				return Info{Exists: true, Regular: true, Size: 1}
			case "empty":
				return Info{Exists: true, Regular: true}
			case "program":
				return Info{Exists: true, Regular: true, Size: 1, Executable: true}
			case "dir":
				return Info{Exists: true, Dir: true, Executable: true}
			case "link":
				return Info{Exists: true, Link: !follow, Regular: follow}
			}
			return Info{}
		}}
	return s
}

// answer runs one input of a case file: "file KIND PATH...", "map NAME LOCATION",
// "text NAME" with the text of a RewriteFile, "rules" or "context PREFIX DIR" with
// rules, or a request.
func (s *stand) answer(input string) string {
	first, rest, _ := strings.Cut(input, "\n")
	w := strings.Fields(first)
	switch w[0] {
	case "file":
		for _, path := range w[2:] {
			s.files[path] = w[1]
		}
		return ""
	case "map":
		return s.addMap(w[1], w[2], rest)
	case "text":
		s.texts[w[1]] = rest
		return ""
	case "rules":
		return s.compile(Source{Text: rest, File: "rules", Line: 1, Dir: "/srv/html"})
	case "context":
		return s.compile(Source{Text: rest, File: "context", Line: 1, Prefix: w[1], Dir: w[2]})
	}
	return s.request(first, rest)
}

func (s *stand) addMap(name, location, text string) string {
	dir := s.t.TempDir()
	if _, file, ok := strings.Cut(location, ":"); ok && text != "" {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	m, err := NewMap(location, dir)
	s.maps[name] = m
	if err != nil {
		return strings.ReplaceAll(err.Error(), dir+"/", "")
	}
	return ""
}

func (s *stand) compile(src Source) string {
	src.Maps = s.maps
	src.Include = func(name string) (string, string, error) {
		text, ok := s.texts[name]
		if !ok {
			return "", "", errors.New("no such file")
		}
		return name, text, nil
	}
	p, problems := Compile(src)
	s.p = p
	var b strings.Builder
	for _, q := range problems {
		closes := ""
		if q.Closes {
			closes = " closes"
		}
		fmt.Fprintf(&b, "%s%s %s:%d:%d: %s\n", [...]string{"info", "warn", "error"}[q.Severity], closes, q.File, q.Line, q.Column, q.Text)
	}
	return b.String()
}

// newRequest reads "METHOD URL" and lines of fields. A URL without a host has no
// Host field.
func newRequest(first, fields string) (*exchange.Exchange, error) {
	x := &exchange.Exchange{}
	method, url, _ := strings.Cut(first, " ")
	target := url
	x.Req = exchange.Request{Method: method, Proto: "HTTP/1.1", Scheme: "http", Client: netip.MustParseAddr("192.0.2.7"),
		Remote: netip.MustParseAddrPort("192.0.2.7:4711"), Local: netip.MustParseAddrPort("192.0.2.1:80")}
	if scheme, rest, ok := strings.Cut(url, "://"); ok && url[0] != '/' {
		x.Req.Scheme = scheme
		i := strings.IndexByte(rest, '/')
		x.Req.Host, target = rest[:i], rest[i:]
	}
	x.Req.Target = target
	for line := range strings.Lines(fields) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		x.Req.Fields.Add(name, value)
	}
	var err error
	x.Req.Path, x.Req.Query, err = docroot.CleanPath(target)
	return x, err
}

func (s *stand) request(first, fields string) string {
	explain := false
	if first, explain = strings.CutPrefix(first, "explain "); explain {
		first = strings.TrimSpace(first)
	}
	x, err := newRequest(first, fields)
	if err != nil {
		return err.Error()
	}
	var e exchange.Explanation
	var b strings.Builder
	if explain {
		x.Explain(&e)
		x.Note("rewrite", "")
	}
	out := s.p.Run(x, s.host)
	if explain {
		for _, d := range e.Steps[0].Details {
			b.WriteString("  " + d + "\n")
		}
	}
	b.WriteString(describe(&out) + "\n")
	for _, v := range x.Env {
		fmt.Fprintf(&b, "%s=%s\n", v.Name, v.Value)
	}
	for _, c := range out.Cookies {
		b.WriteString("Set-Cookie: " + c + "\n")
	}
	return b.String()
}

func describe(out *Outcome) string {
	text := ""
	switch out.Kind {
	case Unchanged:
		text = "unchanged"
	case Rewritten:
		text = out.Target
	case Redirected:
		text = fmt.Sprint(out.Status, " ", out.Location)
	case Answered:
		text = fmt.Sprint("answers ", out.Status)
	case Proxied:
		authority := out.Proxy.Authority
		if out.Proxy.Dynamic {
			authority = "(dynamic)"
		}
		text = fmt.Sprintf("[P] %s %s %s", out.Proxy.Scheme, authority, out.Target)
	case Failed:
		text = fmt.Sprint("fails ", exchange.StatusOf(out.Err), " ", out.Err)
	}
	if out.End {
		text += " (end)"
	}
	return text
}

func TestCases(t *testing.T) {
	casefile.Run(t, "testdata/*.txt", func(t *testing.T) func(string) string { return newStand(t).answer })
}
