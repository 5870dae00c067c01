package headers

import (
	"strings"
	"testing"
	"time"

	"httpjet/exchange"
)

// answer applies the lines of text to an answer with fields, "Name: value" each.
func answer(t *testing.T, text string, env, fields []string) (got string, bad []Problem) {
	t.Helper()
	x := &exchange.Exchange{}
	x.Began = time.Unix(1700000000, 0)
	x.Called = x.Began.Add(5 * time.Microsecond)
	for _, f := range fields {
		name, value, _ := strings.Cut(f, ": ")
		x.Resp.Fields.Add(name, value)
	}
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		x.Env = append(x.Env, exchange.Field{Name: name, Value: value})
	}
	ops, bad := Parse(text)
	ops.Answer(x)
	var out []string
	for name, value := range x.Resp.Fields.All() {
		out = append(out, name+": "+value)
	}
	return strings.Join(out, "|"), bad
}

// LSX 7.4: the operations of extraHeaders and what each does to a field that is
// there and to one that is not.
func TestOperations(t *testing.T) {
	f := func(text, want string, fields ...string) {
		t.Helper()
		got, bad := answer(t, text, []string{"USER=ann", "EVIL=a\r\nSet-Cookie: x"}, fields)
		if got != want || len(bad) > 0 {
			t.Errorf("%q: %q %v, want %q", text, got, bad, want)
		}
	}
	f("X-A: 1", "X-A: 1")
	f("X-A: 1\nX-A: 2", "X-A: 1|X-A: 2")
	f(`X-A: "a, \"b\""`, `X-A: a, "b"`)
	f("Link: </a.css>; rel=preload, </b>; rel=x", "Link: </a.css>; rel=preload, </b>; rel=x")
	f("set X-A 2", "X-A: 2", "x-a: 1", "X-A: 3")
	f("Header always set X-A 2", "X-A: 2")
	f("header onsuccess replace X-A: \"b c\"", "X-A: b c", "X-A: 1")
	f("append Vary Cookie", "Vary: Accept, Cookie", "Vary: Accept")
	f("append Vary Cookie", "Vary: Cookie")
	f("append X 3", "X: 1, 2, 3", "X: 1", "X: 2")
	f("merge Vary Cookie", "Vary: accept, cookie", "Vary: accept, cookie")
	f("merge Vary Cookie", "Vary: accept, Cookie", "Vary: accept")
	f("Header add X-A 2", "X-A: 1|X-A: 2", "X-A: 1")
	f("Header unset X-A\nunset X-B", "", "X-A: 1", "x-a: 2")
	f("RequestHeader set X-A 1", "")
	f("set X-A 1 env=USER\nset X-B 1 env=!USER\nset X-C 1 env=NOBODY\nset X-D 1 env=!NOBODY", "X-A: 1|X-D: 1")
	f("set X-A \"%{USER}e is 100%% in, 5% off\" early", "X-A: ann is 100% in, 5% off")
	f("set X-A \"%{EVIL}e\"", "X-A: a  Set-Cookie: x")
	f("set X-A %{NOBODY}e", "X-A: ")
	f("set X-A \"%t %D\"", "X-A: t=1700000000000000 D=5")
	f("# remark\n\n  \n", "")
	f("NONE", "")
}

// A bad line is told by its number and leaves the others as they are.
func TestBadLines(t *testing.T) {
	f := func(line string) {
		t.Helper()
		got, bad := answer(t, "X-A: 1\n"+line+"\nX-B: 2", nil, nil)
		if got != "X-A: 1|X-B: 2" || len(bad) != 1 || bad[0].Line != 2 {
			t.Errorf("%q: %q %v", line, got, bad)
		}
	}
	f("set")
	f("X-Nothing")
	f("set X-A")
	f("unset X-A 1")
	f("set X(A 1")
	f("X A: 1")
	f(": 1")
	f(`set X-A "open`)
	f("set X-A %{HOST}i")
	f("set X-A %{HOST")
	f("set X-A a\x00b")
	f("set X-A 1 env=!")
	f(`set X-A 1 "expr=x" expr=y`)
	for _, name := range []string{"Content-Length", "transfer-encoding", "Connection", "Upgrade", "Trailer", "Host"} {
		f("set " + name + " 1")
		f("unset " + name)
		f(name + ": 1")
	}
	long := strings.Repeat("X-A: 1\n", maxOps+2)
	if o, bad := Parse(long); len(o.list) != maxOps || len(bad) != 1 {
		t.Errorf("%d operations, %v", len(o.list), bad)
	}
}

// RequestHeader changes the request, and nothing of the answer.
func TestRequest(t *testing.T) {
	x := &exchange.Exchange{}
	x.Req.Fields.Add("Cookie", "a=b")
	ops, bad := Parse("RequestHeader unset Cookie\nRequestHeader set X-Backend app\nX-Answer: 1")
	if len(bad) > 0 || !ops.Requests() || !ops.Answers() {
		t.Fatal(bad)
	}
	ops.Request(x)
	if x.Req.Fields.Has("Cookie") || x.Req.Fields.Get("X-Backend") != "app" || x.Req.Fields.Has("X-Answer") || x.Resp.Fields.Len() > 0 {
		t.Errorf("%v %v", x.Req.Fields, x.Resp.Fields)
	}
}

// LSX 7.3: the operations of what is around go first; NONE stops them.
func TestJoin(t *testing.T) {
	parse := func(s string) *Ops {
		o, bad := Parse(s)
		if len(bad) > 0 {
			t.Fatal(bad)
		}
		return o
	}
	f := func(outer, inner, want string) {
		t.Helper()
		x := &exchange.Exchange{}
		Join(parse(outer), parse(inner)).Answer(x)
		var out []string
		for name, value := range x.Resp.Fields.All() {
			out = append(out, name+": "+value)
		}
		if got := strings.Join(out, "|"); got != want {
			t.Errorf("%q and %q: %q, want %q", outer, inner, got, want)
		}
	}
	f("X-A: 1", "X-B: 2", "X-A: 1|X-B: 2")
	f("X-A: 1", "set X-A 2", "X-A: 2")
	f("X-A: 1", "NONE", "")
	f("X-A: 1", "NONE\nX-B: 2", "X-B: 2")
	f("", "X-B: 2", "X-B: 2")
	f("X-A: 1", "", "X-A: 1")
	if o := parse("append Cache-Control x"); !o.Gives("cache-control") || o.Gives("Expires") || parse("unset Expires").Gives("Expires") {
		t.Error("what gives a field is not known")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("Header always set X \"%{A}e\" env=!B")
	f.Add("NAME: value\nNONE\nunset X")
	f.Fuzz(func(t *testing.T, text string) {
		ops, _ := Parse(text)
		x := &exchange.Exchange{}
		x.Env = []exchange.Field{{Name: "A", Value: "b\r\nc"}}
		ops.Answer(x)
		ops.Request(x)
		for _, f := range []*exchange.Fields{&x.Req.Fields, &x.Resp.Fields} {
			for name, value := range f.All() {
				if !isToken(name) || strings.ContainsAny(value, "\r\n\x00") {
					t.Fatalf("%q: %q: %q", text, name, value)
				}
			}
		}
	})
}
