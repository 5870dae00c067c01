package compress

import (
	"strings"
	"testing"

	"httpjet/exchange"
)

// tagged is an application that answers conditions as simple ones do: it compares the
// field as it stands, or looks for its tag in it.
type tagged struct {
	tag  string
	list bool
}

func (a tagged) Serve(x *exchange.Exchange) error {
	x.Route.Kind = exchange.FastCGI
	held := x.Req.Fields.Get("If-None-Match")
	if held == a.tag || a.list && strings.Contains(held, a.tag) {
		x.Resp.Fields.Add("ETag", a.tag)
		return x.Start(304)
	}
	if want := x.Req.Fields.Get("If-Match"); want != "" && want != a.tag {
		return exchange.Fail(412, "precondition_failed", "another state")
	}
	return answer{status: 200, kind: exchange.FastCGI, fields: []string{html, "ETag: " + a.tag}, body: text(1000), length: true}.Serve(x)
}

// A client that holds a coded answer is told that it is still good, by the tag that it
// knows, as long as it takes that coding (RFC 9110 §8.8.3.3, §13.1.2).
func TestConditionsOnCodedTags(t *testing.T) {
	f := func(a tagged, status int, tag string, request ...string) {
		t.Helper()
		w := serve(t, options(t), a, request...)
		if got := w.head.Fields.Get("ETag"); w.head.Status != status || got != tag && status != 412 {
			t.Errorf("%s %q: %d %s, want %d %s", a.tag, request, w.head.Status, got, status, tag)
		}
		if status != 412 && w.head.Fields.Get("Vary") != "Accept-Encoding" { // G66
			t.Errorf("%q: Vary %q", request, w.head.Fields.Get("Vary"))
		}
	}
	const gzip = "Accept-Encoding: gzip"
	a := tagged{tag: `"abc"`}
	f(a, 200, `"abc"`, "X: ")
	f(a, 200, `"abc;;gz"`, gzip)
	f(a, 200, `"abc;;zstd"`, "Accept-Encoding: zstd")
	f(a, 304, `"abc;;gz"`, gzip, `If-None-Match: "abc;;gz"`)
	f(a, 304, `"abc;;gz"`, "HEAD", gzip, `If-None-Match: "abc;;gz"`)
	f(a, 304, `"abc;;gz"`, "Accept-Encoding: br, gzip", `If-None-Match: "abc;;gz"`)
	f(a, 200, `"abc"`, `If-None-Match: "abc;;gz"`) // it cannot read what it would use
	f(a, 200, `"abc"`, "Accept-Encoding: gzip;q=0", `If-None-Match: "abc;;gz"`)
	f(a, 304, `"abc"`, gzip, `If-None-Match: "abc"`)
	f(a, 200, `"abc;;gz"`, gzip, `If-None-Match: "abd;;gz"`)
	f(a, 200, `"abc;;gz"`, gzip, `If-None-Match: "abc;gz"`) // somebody else's
	f(tagged{tag: `W/"abc"`}, 304, `W/"abc;;gz"`, gzip, `If-None-Match: W/"abc;;gz"`)
	f(tagged{tag: `"1-2-3;;;"`}, 304, `"1-2-3;;;;;gz"`, gzip, `If-None-Match: "1-2-3;;;;;gz"`)

	l := tagged{`"abc"`, true}
	f(l, 304, `"abc;;gz"`, gzip, `If-None-Match: "x", "abc;;gz"`)
	f(l, 304, `"abc;;gz"`, gzip, `If-None-Match: "x;;gz", "abc;;gz"`)
	f(l, 304, `"abc;;gz"`, "Accept-Encoding: *", `If-None-Match: "abc;;gz", "abc;;br"`)
	f(l, 304, `"abc;;br"`, "Accept-Encoding: br", `If-None-Match: "abc;;gz", "abc;;br"`)
	f(l, 200, `"abc"`, `If-None-Match: "x", "abc;;gz"`)

	f(a, 200, `"abc;;gz"`, "PUT", gzip, `If-Match: "abc;;gz"`)
	f(a, 200, `"abc"`, "PUT", `If-Match: "abc;;gz"`) // the state is the same
	f(a, 412, "", "PUT", `If-Match: "abd;;gz"`)
	f(a, 412, "", "PUT", `If-Match: W/"abc;;gz"`)
}

// Tags that cannot be read are left as they are.
func TestHostileTags(t *testing.T) {
	f := func(name, value, want string) {
		t.Helper()
		var req exchange.Fields
		req.Add("Accept-Encoding", "gzip")
		req.Add(name, value)
		translate(&req)
		if got := req.Get(name); got != want {
			t.Errorf("%s: %s became %s, want %s", name, value, got, want)
		}
	}
	for _, v := range []string{`;;gz`, `";;gz`, `"a;;gz`, `a;;gz"`, `W/;;gz`, `"a;;gz" b`, `W/`, `"`, `*;;`, `,;;,`, `"a";;gz"`} {
		f("If-None-Match", v, v)
		f("If-Match", v, v)
	}
	f("If-None-Match", `";;gz"`, `""`)
	f("If-None-Match", ` ,, "a;;gz" ,`, `"a"`)
	f("If-None-Match", `"a;;gz","a"`, `"a;;gz","a"`)
	f("If-None-Match", `"a;;gz","b;;gz"`, `"a;;gz","b;;gz", "a", "b"`)
	f("If-Match", `"a;;gz","b"`, `"a", "b"`)

	var two exchange.Fields
	two.Add("If-None-Match", `"a;;gz"`)
	two.Add("if-none-match", `"b;;gz"`)
	two.Add("Accept-Encoding", "gzip")
	if translate(&two); two.Len() != 3 || two.At(0).Value != `"a;;gz"` {
		t.Error("repeated fields are edited")
	}
	for _, tag := range []string{"", "abc", `"`, `W/"`, `x"`, `"a`} {
		if got := coded(tag, 4, false); got != tag {
			t.Errorf("%s became %s", tag, got)
		}
	}
}

func FuzzTags(f *testing.F) {
	f.Add(`"a;;gz", W/"b;;br"`, "gzip, br", `"a"`)
	f.Fuzz(func(t *testing.T, list, ae, tag string) {
		var req exchange.Fields
		req.Add("If-None-Match", list)
		req.Add("If-Match", list)
		req.Add("Accept-Encoding", ae)
		named := translate(&req)
		if req.Len() != 3 {
			t.Fatal("fields appear or go")
		}
		if named != 0 && strings.Contains(req.Get("If-None-Match"), ";;"+short(named)+`"`) && strings.Count(list, ";;") == 1 {
			t.Errorf("%q became %q", list, req.Get("If-None-Match"))
		}
		if p, c := plain(coded(tag, 1, false)); c != 0 && p != tag {
			t.Errorf("%q does not come back: %q", tag, p)
		}
	})
}
