package freshness

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"httpjet/exchange"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) string { return noon.Add(d).Format(http.TimeFormat) }

// fields reads "Name: value" lines.
func fields(lines ...string) *exchange.Fields {
	f := &exchange.Fields{}
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ":")
		f.Add(name, strings.TrimSpace(value))
	}
	return f
}

func judge(r Rules, status int, req []string, resp ...string) (Life, Refusal) {
	q := &exchange.Request{Method: "GET", Fields: *fields(req...)}
	return r.Judge(q, &exchange.Response{Status: status, Fields: *fields(resp...)}, noon, noon)
}

// R-PCACHE-2, RFC 9111 §3: what is not kept, and why.
func TestRefusals(t *testing.T) {
	f := func(want Refusal, r Rules, status int, req string, resp ...string) {
		t.Helper()
		var q []string
		if req != "" {
			q = append(q, req)
		}
		if _, got := judge(r, status, q, resp...); got != want {
			t.Errorf("%d %q %q: %q, want %q", status, req, resp, got, want)
		}
	}
	const fresh = "Cache-Control: max-age=60"
	f(Kept, Rules{}, 200, "", fresh)
	f(Kept, Rules{}, 599, "", fresh)
	f(Kept, Rules{}, 200, "Cookie: a=b", fresh)
	f(Kept, Rules{}, 200, "", "Expires: "+at(time.Minute))
	f(NotWanted, Rules{}, 200, "Cache-Control: No-Store", fresh)
	f(Partial, Rules{}, 206, "", fresh)
	f(Partial, Rules{}, 304, "", fresh)
	f(OddStatus, Rules{}, 999, "", fresh)
	f(OddStatus, Rules{Statuses: []int{200}}, 404, "", fresh)
	f(OddStatus, Rules{}, 500, "", "ETag: \"a\"")
	f(ForbidsStore, Rules{}, 200, "", fresh, "Cache-Control: nO-StOrE")
	f(ForbidsStore, Rules{}, 200, "", "Cache-Control: max-age=60, no-store=yes")
	f(OnlyPrivate, Rules{}, 200, "", "Cache-Control: private, max-age=60")
	f(OnlyPrivate, Rules{}, 200, "", `Cache-Control: private="a b", max-age=60`)
	f(Kept, Rules{}, 200, "", `Cache-Control: private="a, b", max-age=60`)
	for _, status := range []int{412, 416, 417, 428, 429, 431, 511} {
		f(OddStatus, Rules{}, status, "", "Cache-Control: public, max-age=60")
		f(OddStatus, Rules{Statuses: []int{status}}, status, "", fresh)
		f(OddStatus, Rules{}, status, "", "Cache-Control: no-store, must-understand, max-age=60")
	}
	f(SetsCookie, Rules{}, 200, "", fresh, "set-cookie: a=b")
	f(SetsCookie, Rules{}, 200, "", "Cache-Control: public, s-maxage=60", "Set-Cookie: a=b")
	f(NeedsCredentials, Rules{}, 200, "Authorization: Basic x", fresh)
	f(Kept, Rules{}, 200, "Authorization: Basic x", fresh, "Cache-Control: public")
	f(Kept, Rules{}, 200, "Authorization: Basic x", "Cache-Control: s-maxage=60")
	f(Kept, Rules{}, 200, "Authorization: Basic x", fresh, "Cache-Control: must-revalidate")
	f(EventStream, Rules{}, 200, "", fresh, "Content-Type: Text/Event-Stream ;charset=utf-8")
	f(VariesByAll, Rules{NoVary: true}, 200, "", fresh, "Vary: Accept")
	f(NotReusable, Rules{}, 200, "", "Cache-Control: max-age=0")
	f(Kept, Rules{}, 200, "", "Cache-Control: max-age=0", `ETag: "a"`)
	f(NotReusable, Rules{}, 200, "", "Cache-Control: no-cache, max-age=60")
	f(Kept, Rules{}, 200, "", "Cache-Control: no-cache", "Last-Modified: "+at(-time.Hour))
	f(NotReusable, Rules{}, 200, "")
	f(Kept, Rules{}, 200, "", "Cache-Control: no-store, must-understand, max-age=60")
	f(OddStatus, Rules{}, 599, "", "Cache-Control: no-store, must-understand, max-age=60")
	f(ForbidsStore, Rules{}, 200, "", "Cache-Control: no-store, must-understand=no, max-age=60")

	q := &exchange.Request{Method: "POST"}
	if _, why := (&Rules{}).Judge(q, &exchange.Response{Status: 200, Fields: *fields(fresh)}, noon, noon); why != NotGet {
		t.Error(why)
	}
}

// R-PCACHE-3: s-maxage, max-age, Expires, the default; at most Max.
func TestLifetime(t *testing.T) {
	f := func(want int, r Rules, status int, resp ...string) {
		t.Helper()
		l, _ := judge(r, status, nil, append(resp, `ETag: "a"`)...)
		if got := int(l.Lifetime / time.Second); got != want {
			t.Errorf("%q: %d s, want %d", resp, got, want)
		}
	}
	f(60, Rules{}, 200, "Cache-Control: max-age=60")
	f(60, Rules{}, 200, "Cache-Control: MaX-AgE=0060")
	f(90, Rules{}, 200, "Cache-Control: max-age=60, s-maxage=90", "Expires: "+at(0))
	f(30, Rules{Max: 30 * time.Second}, 200, "Cache-Control: max-age=60")
	f(50, Rules{Max: 30 * time.Second}, 200, "Cache-Control: max-age=60", "Age: 20")
	f(0, Rules{Max: -1}, 200, "Cache-Control: max-age=60")
	f(40, Rules{}, 200, "Expires: "+at(40*time.Second), "Date: "+at(0))
	f(50, Rules{}, 200, "Expires: "+at(40*time.Second), "Date: "+at(-10*time.Second))
	f(40, Rules{}, 200, "Expires: "+at(40*time.Second), "Date: yesterday")
	f(0, Rules{Default: time.Minute}, 200, "Expires: 0")
	f(0, Rules{}, 200, "Expires: "+at(time.Minute), "Expires: "+at(time.Minute))
	f(0, Rules{}, 200, "Expires: "+at(time.Minute), "Cache-Control: max-age=0")
	for _, bad := range []string{"-60", "'60'", "60.0", "a60", "60a", "", " 60", "60 60", `"60"x`} {
		f(0, Rules{}, 200, "Cache-Control: max-age="+bad, "Expires: "+at(time.Minute))
	}
	f(0, Rules{}, 200, "Cache-Control: max-age =60")
	f(60, Rules{}, 200, `Cache-Control: max-age="60"`)
	f(60, Rules{}, 200, "Cache-Control: max-age=60 , public")
	f(5, Rules{}, 200, "Cache-Control: max-age=60, max-age=5")
	f(5, Rules{}, 200, "Cache-Control: max-age=5", "Cache-Control: max-age=60")
	f(1, Rules{}, 200, `Cache-Control: x="max-age=60", max-age=1`)
	f(1, Rules{}, 200, `Cache-Control: max-age=1, x="max-age=60"`)
	f(maxSeconds, Rules{}, 200, "Cache-Control: max-age=99999999999999999999")
	f(7, Rules{Default: 7 * time.Second}, 200)
	f(7, Rules{Default: 7 * time.Second}, 404)
	f(7, Rules{Default: 7 * time.Second}, 599, "Cache-Control: public")
	f(0, Rules{Default: 7 * time.Second}, 500)
	f(0, Rules{Default: 7 * time.Second}, 200, "Pragma: no-cache")

	if _, why := judge(Rules{Default: time.Minute}, 200, nil); why != NotReusable {
		t.Error("the default lifetime without a validator", why)
	}
	if l, why := judge(Rules{Default: time.Minute, DefaultForAll: true}, 200, nil); why != Kept || l.Lifetime != time.Minute {
		t.Error("the default lifetime for all", l, why)
	}
	if l, _ := judge(Rules{Default: time.Minute}, 200, []string{"Cookie: sid=1"}, `ETag: "a"`); l.Lifetime != 0 {
		t.Error("a page that may be one user's has the default lifetime")
	}
}

// RFC 9111 §4.2.3, §5.1.
func TestAge(t *testing.T) {
	f := func(want int, delay time.Duration, resp ...string) {
		t.Helper()
		q := &exchange.Request{Method: "GET"}
		a := &exchange.Response{Status: 200, Fields: *fields(append(resp, "Cache-Control: max-age=99999999999")...)}
		r := Rules{StaleIfError: 1 << 60}
		l, why := r.Judge(q, a, noon.Add(-delay), noon)
		if got := int(l.AgeAt(noon.Add(10*time.Second)) / time.Second); got != want+10 || why != Kept {
			t.Errorf("%q: %d, want %d; %s", resp, got, want+10, why)
		}
	}
	f(0, 0)
	f(3, 3*time.Second)
	f(12, 2*time.Second, "Age: 10")
	f(60, 0, "Date: "+at(-time.Minute))
	f(0, 0, "Date: "+at(time.Minute))
	f(0, 0, "Date: never")
	f(100, 0, "Date: "+at(-time.Minute), "Age: 100")
	for _, ignored := range []string{"abc", "-7200", "7200.0", "", "0, 7200", "0;a=7200"} {
		f(0, 0, "Age: "+ignored)
	}
	f(7200, 0, "Age: 7200, 0")
	f(7200, 0, "Age: 7200", "Age: 0")
	f(0, 0, "Age: 0", "Age: 7200")
	f(maxSeconds, 0, "Age: 2147483649")
}

// A clock that is set makes nothing fresh again, nor fails: within a process, age is
// told by its monotonic clock, and never falls below that at the beginning.
func TestClockJumps(t *testing.T) {
	l := Life{Received: noon, Age: 5 * time.Second, Lifetime: 10 * time.Second}
	if got := l.AgeAt(noon.Add(-time.Hour)); got != 5*time.Second {
		t.Error(got)
	}
	now := time.Now()
	l.Received = now
	if got := l.AgeAt(now.Add(3 * time.Second)); got != 8*time.Second {
		t.Error(got)
	}
}

// R-PCACHE-2, R-PCACHE-5; RFC 9111 §5.2.1, RFC 5861.
func TestDecide(t *testing.T) {
	f := func(want Use, byRequest bool, age int, wants string, resp ...string) {
		t.Helper()
		l, why := judge(Rules{}, 200, nil, append(resp, `ETag: "a"`)...)
		if why != Kept {
			t.Fatal(why)
		}
		d := Directives{}
		if wants != "" {
			d = ParseRequest(fields(wants))
		}
		got, by := l.Decide(&d, noon.Add(time.Duration(age)*time.Second))
		if got != want || by != byRequest {
			t.Errorf("%q %q at %d: %d %v, want %d %v", resp, wants, age, got, by, want, byRequest)
		}
	}
	const m60 = "Cache-Control: max-age=60"
	f(Fresh, false, 0, "", m60)
	f(Fresh, false, 59, "", m60)
	f(Validate, false, 60, "", m60)
	f(Validate, true, 1, "Cache-Control: no-cache", m60)
	f(Validate, true, 1, "Pragma: no-cache", m60)
	f(Fresh, false, 1, "Pragma: foo", m60)
	f(Validate, true, 0, "Cache-Control: max-age=0", m60)
	f(Validate, true, 30, "Cache-Control: max-age=20", m60)
	f(Fresh, false, 20, "Cache-Control: max-age=20", m60)
	f(Validate, true, 1, "Cache-Control: max-age=x", m60)
	f(Validate, true, 30, "Cache-Control: min-fresh=31", m60)
	f(Fresh, false, 30, "Cache-Control: min-fresh=30", m60)
	f(Stale, false, 70, "Cache-Control: max-stale=10", m60)
	f(Validate, false, 71, "Cache-Control: max-stale=10", m60)
	f(Stale, false, 9999, "Cache-Control: max-stale", m60)
	for _, strict := range []string{"must-revalidate", "proxy-revalidate", "s-maxage=60", "no-cache"} {
		f(Validate, false, 70, "Cache-Control: max-stale", m60+", "+strict)
	}
	f(Validate, false, 1, "", m60+", no-cache")
	f(Refresh, false, 61, "", m60+", stale-while-revalidate=10")
	f(Validate, false, 70, "", m60+", stale-while-revalidate=10")
	f(Refresh, false, 61, "", "Cache-Control: s-maxage=60, stale-while-revalidate=10")
	f(Validate, false, 61, "", m60+", stale-while-revalidate=10, must-revalidate")
	f(Validate, false, 61, "", m60+", stale-while-revalidate=x")

	g := func(want bool, age int, r Rules, resp string) {
		t.Helper()
		l, _ := judge(r, 200, nil, resp, `ETag: "a"`)
		if got := l.UsableOnError(noon.Add(time.Duration(age) * time.Second)); got != want {
			t.Errorf("%q at %d: %v", resp, age, got)
		}
	}
	g(true, 69, Rules{}, m60+", stale-if-error=10")
	g(false, 70, Rules{}, m60+", stale-if-error=10")
	g(true, 69, Rules{StaleIfError: 10 * time.Second}, m60)
	for _, strict := range []string{"must-revalidate", "proxy-revalidate", "s-maxage=60", "no-cache"} {
		g(false, 61, Rules{StaleIfError: 10 * time.Second}, m60+", "+strict)
	}
}

// RFC 9110 §5.6.7: three forms, names in any case, and nothing else.
func TestParseDate(t *testing.T) {
	want := time.Date(1994, 11, 6, 8, 49, 37, 0, time.UTC)
	for _, v := range []string{"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
		"SUN, 06 nOV 1994 08:49:37 gmt"} {
		if got, ok := ParseDate(v, noon); !ok || !got.Equal(want) {
			t.Errorf("%q: %v %v", v, got, ok)
		}
	}
	if got, ok := ParseDate("Tuesday, 18-Aug-50 02:01:18 GMT", noon); !ok || got.Year() != 2050 {
		t.Error(got, ok)
	}
	for _, v := range []string{"", "0", "Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 06 Nov 1994 08:49:37 AEST", "Sun, 06 Nov 94 08:49:37 GMT",
		"Sun 06 Nov 1994 08:49:37 GMT", "Sun, 06  Nov 1994 08:49:37 GMT", "Sun, 06-Nov-1994 08:49:37 GMT", "Sun, 06 Nov 1994 08.49.37 GMT",
		"Sun, 06 Nov 1994 8:49:37 GMT", "Sun, 31 Feb 1994 08:49:37 GMT", "Sun, 06 Foo 1994 08:49:37 GMT", "Xyz, 06 Nov 1994 08:49:37 GMT",
		"Sun, 06 Nov 1994 24:49:37 GMT", "Sunday, 06-Nov-1994 08:49:37 GMT", "Sun Nov 06 08:49:37 199", "Sun Nov  0 08:49:37 1994", "06 Nov 1994"} {
		if got, ok := ParseDate(v, noon); ok {
			t.Errorf("%q: %v", v, got)
		}
	}
}

// RFC 9111 §4.1; G58: lines are joined before anything is compared.
func TestG58SelectingFields(t *testing.T) {
	f := func(same bool, vary string, a, b []string) {
		t.Helper()
		names, ok := VaryNames(fields("Vary: " + vary))
		if !ok {
			t.Fatal(vary)
		}
		x, okX := AppendSelecting(nil, names, fields(a...))
		y, okY := AppendSelecting(nil, names, fields(b...))
		if !okX || !okY || (string(x) == string(y)) != same {
			t.Errorf("%s: %q and %q: %q, %q", vary, a, b, x, y)
		}
	}
	l := func(s ...string) []string { return s }
	f(false, "Accept-Encoding", l("Accept-Encoding: gzip", "Accept-Encoding: br"), l("Accept-Encoding: gzip"))
	f(true, "Accept-Encoding", l("Accept-Encoding: gzip", "Accept-Encoding: br"), l("Accept-Encoding: GZIP ,br"))
	f(false, "Foo", nil, l("Foo:"))
	f(false, "Foo", l("Foo: 1"), l("Foo: 2"))
	f(true, "Foo", l("foo: 1", "Foo: 2"), l("Foo: 1,  2"))
	f(false, "Foo", l(`Foo: "1, 2"`), l(`Foo: "1,2"`))
	f(false, "Foo", l(`Foo: 1 2`), l(`Foo: 12`))
	f(true, "Foo, Bar", l("Bar: 1", "Foo: 2"), l("Foo: 2", "Bar: 1", "Baz: 3"))
	f(false, "Foo, Bar", l("Foo: 1", "Bar: 2"), l("Foo: 2", "Bar: 1"))
	f(false, "Foo, Bar", l("Foo: 1"), l("Bar: 1"))
	f(true, "Accept-Language", l("Accept-Language: en; q=0.5, DE"), l("Accept-Language: EN;q=0.5,de"))

	for _, bad := range []string{"*", "*, *", ", *", "Foo, *", "a b", "a;b",
		"X-Real-IP", "x-forwarded-for", "Accept, X-Forwarded-For", "forwarded", "VIA", strings.Repeat("a,", 17)[:3] + strings.Join(many(17), ",")} {
		if names, ok := VaryNames(fields("Vary: " + bad)); ok {
			t.Errorf("Vary: %s: %q", bad, names)
		}
	}
	if names, ok := VaryNames(fields("Vary: B, a", "Vary: A, b")); !ok || !slices.Equal(names, []string{"a", "b"}) {
		t.Error(names, ok)
	}
	if _, ok := AppendSelecting(nil, []string{"foo"}, fields("Foo: "+strings.Repeat("x", 5000))); ok {
		t.Error("a selecting field without bounds")
	}
}

func many(n int) (out []string) {
	for i := range n {
		out = append(out, "X"+string(rune('a'+i)))
	}
	return out
}

// RFC 9111 §3.1, §3.2.
func TestKeepAndMerge(t *testing.T) {
	text := func(list []exchange.Field) string {
		var s strings.Builder
		for _, fd := range list {
			s.WriteString(fd.Name + "=" + fd.Value + " ")
		}
		return s.String()
	}
	kept := Keep(fields("A: 1", "Set-Cookie: x", "Content-Length: 5", "Connection: A", "Keep-Alive: 3", "TE: x", "Trailer: X", "Upgrade: h",
		"Transfer-Encoding: chunked", "Proxy-Authenticate: x", "Age: 7", "B: 2", "C: 3", `Cache-Control: max-age=5, private="b", no-cache="c"`))
	if got := text(kept); got != `A=1 Cache-Control=max-age=5, private="b", no-cache="c" ` {
		t.Error(got)
	}
	stored := fields("A: 1", "B: 2", "Content-Type: text/html", "Content-Encoding: gzip", "ETag: \"a\"", "Content-Range: x")
	var list []exchange.Field
	for i := range stored.Len() {
		list = append(list, stored.At(i))
	}
	merged := Merge(list, fields("A: 3", "a: 4", "C: 5", "Content-Length: 0", "Content-Encoding: br", "Content-Range: y", "Set-Cookie: s", "Content-Type: text/plain"))
	got := Keep(merged)
	if s := text(got); s != `B=2 Content-Encoding=gzip ETag="a" Content-Range=x A=3 a=4 C=5 Content-Type=text/plain ` {
		t.Error(s)
	}
}

// R-PCACHE-5, RFC 9111 §4.3.2.
func TestNotModified(t *testing.T) {
	f := func(want bool, req string, stored ...string) {
		t.Helper()
		h := HeadOf(fields(stored...), noon)
		if got := NotModified(fields(req), &h, noon); got != want {
			t.Errorf("%s of %q: %v", req, stored, got)
		}
	}
	f(true, `If-None-Match: "a"`, `ETag: "a"`)
	f(true, `If-None-Match: W/"a"`, `ETag: "a"`)
	f(true, `If-None-Match: "a"`, `ETag: W/"a"`)
	f(true, `If-None-Match: "x", W/"y","a"`, `ETag: "a"`)
	f(true, `If-None-Match: "x,"a, "b"`, `ETag: "b"`)
	f(true, `If-None-Match: *`, `ETag: "a"`)
	f(false, `If-None-Match: *`)
	f(true, `If-None-Match: abc`, `ETag: abc`)
	f(false, `If-None-Match: abc`, `ETag: "abc"`)
	f(false, `If-None-Match: "A"`, `ETag: "a"`)
	f(false, `If-None-Match: "a`, `ETag: "a"`)
	f(false, `If-None-Match: ,,,`, `ETag: "a"`)
	lm := "Last-Modified: " + at(-time.Hour)
	f(true, "If-Modified-Since: "+at(-time.Hour), lm)
	f(true, "If-Modified-Since: "+at(0), lm)
	f(false, "If-Modified-Since: "+at(-2*time.Hour), lm)
	f(false, "If-Modified-Since: now", lm)
	f(true, "If-Modified-Since: "+at(0), "Date: "+at(-time.Hour))
	f(false, "If-Modified-Since: "+at(0))
	f(false, "If-Modified-Since: "+at(0), "Last-Modified: once", "Date: "+at(-time.Hour))
	h := HeadOf(fields(lm, `ETag: "a"`), noon)
	if NotModified(fields(`If-None-Match: "b"`, "If-Modified-Since: "+at(0)), &h, noon) {
		t.Error("If-Modified-Since beside If-None-Match")
	}
}

// RFC 9110 §14.2.
func TestRange(t *testing.T) {
	f := func(want Span, part, ok bool, req ...string) {
		t.Helper()
		h := HeadOf(fields(`ETag: "a"`, "Last-Modified: "+at(-time.Hour), "Date: "+at(0)), noon)
		got, p, o := Range(fields(req...), &h, 10, noon)
		if got != want || p != part || o != ok {
			t.Errorf("%q: %v %v %v", req, got, p, o)
		}
	}
	f(Span{0, 2}, true, true, "Range: bytes=0-1")
	f(Span{1, 9}, true, true, "Range: bytes=1-")
	f(Span{7, 3}, true, true, "Range: bytes=-3")
	f(Span{0, 10}, true, true, "Range: bytes=-99999999999999999999999")
	f(Span{0, 10}, true, true, "Range: bytes=0-99999999999999999999999")
	f(Span{}, true, false, "Range: bytes=10-")
	f(Span{10, 0}, true, false, "Range: bytes=-0")
	for _, whole := range []string{"", "bytes=", "bytes=-", "bytes=a-b", "bytes=3-2", "bytes=0-1,3-4", "lines=1-2", "bytes=1"} {
		f(Span{}, false, true, "Range: "+whole)
	}
	f(Span{0, 1}, true, true, "Range: bytes=0-0", `If-Range: "a"`)
	f(Span{}, false, true, "Range: bytes=0-0", `If-Range: "b"`)
	f(Span{}, false, true, "Range: bytes=0-0", `If-Range: W/"a"`)
	f(Span{0, 1}, true, true, "Range: bytes=0-0", "If-Range: "+at(-time.Hour))
	f(Span{}, false, true, "Range: bytes=0-0", "If-Range: "+at(0))
}

// RFC 9111 §4.4.
func TestInvalidation(t *testing.T) {
	for _, m := range []string{"GET", "HEAD", "OPTIONS", "TRACE"} {
		if Invalidates(m, 200) {
			t.Error(m)
		}
	}
	for _, m := range []string{"POST", "PUT", "DELETE", "PATCH", "M-SEARCH", "get"} {
		if !Invalidates(m, 200) || !Invalidates(m, 303) || Invalidates(m, 404) || Invalidates(m, 500) {
			t.Error(m)
		}
	}
	f := func(want, location string) {
		t.Helper()
		if got, ok := Affected("http", "a.example:8080", "/x/y?q", location); got != want || ok != (want != "") {
			t.Errorf("%q: %q %v", location, got, ok)
		}
	}
	f("/x/z", "z")
	f("/z?a=b", "/z?a=b#c")
	f("/", "http://A.example:8080")
	f("/z", "//a.example:8080/z")
	for _, other := range []string{"", "http://a.example/z", "https://a.example:8080/z", "http://b.example:8080/", "http://u@a.example:8080/z", "mailto:x", "http://[::1", "\x00"} {
		f("", other)
	}
}

// RFC 9213 §2.1: a dictionary of structured fields, or nothing at all.
func TestTargeted(t *testing.T) {
	f := func(ok bool, want Set, maxAge int, lines ...string) {
		t.Helper()
		var named []string
		for _, l := range lines {
			named = append(named, "CDN-Cache-Control: "+l)
		}
		d, got := parseTargeted(fields(named...), "CDN-Cache-Control")
		if got != ok || ok && (d.Has != want || int(d.MaxAge/time.Second) != maxAge) {
			t.Errorf("%q: %+v %v", lines, d, got)
		}
	}
	f(true, MaxAge, 10, "max-age=10")
	f(true, MaxAge, 10, "max-age=5", "max-age=10")
	f(true, MaxAge|NoStore, 10, `max-age=10;a="b";c, x=(1 "2" y);z, no-store, y=:aa==:, t=tok/en, d=1.25, m=-4, b=?0`)
	f(true, MaxAge, maxSeconds, "max-age=999999999999")
	f(true, 0, 0, "no-store=?0")
	f(true, NoCache|Private, 0, `no-cache="a", private=?1`)
	for _, bad := range []string{"", "max-age=10, &&&&&", `max-age="10"`, "max-age=10.5", "max-age", "max-age=-1", "MaX-aGe=10", "max-age =10", "max-age= 10",
		"max-age=10,", "no-store=1", "a=(1", `a="b`, "a=:b", "a=?2", "max-age=1234567890123456", "a;=1", "max-age=10 no-store"} {
		f(false, 0, 0, bad)
	}

	r := Rules{Targeted: true}
	l, why := judge(r, 200, nil, "CDN-Cache-Control: max-age=90", "Cache-Control: no-store", "Expires: 0")
	if why != Kept || l.Lifetime != 90*time.Second {
		t.Error(l, why)
	}
	if _, why = judge(r, 200, nil, "CDN-Cache-Control: no-store", "Cache-Control: max-age=60"); why != ForbidsStore {
		t.Error(why)
	}
	if _, why = judge(r, 200, nil, `CDN-Cache-Control: max-age="90"`, "Cache-Control: no-store"); why != ForbidsStore {
		t.Error(why)
	}
	if _, why = judge(Rules{}, 200, nil, "CDN-Cache-Control: max-age=90", "Cache-Control: no-store"); why != ForbidsStore {
		t.Error(why)
	}
}

// RFC 9211 §2.
func TestCacheStatus(t *testing.T) {
	f := func(want string, s Status) {
		t.Helper()
		if got := string(s.Append(nil)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	f("httpjet; hit; ttl=5", Status{Hit: true, TTL: 5})
	f("httpjet; hit; ttl=-3; detail=stale", Status{Hit: true, TTL: -3, Detail: "stale"})
	f("httpjet; fwd=uri-miss; stored", Status{Fwd: URIMiss, Stored: true})
	f("httpjet; fwd=stale; fwd-status=304; stored; collapsed", Status{Fwd: StaleMiss, FwdStatus: 304, Stored: true, Collapsed: true})
	f("httpjet; fwd=method; detail=private", Status{Fwd: Method, Detail: "private"})
}

// What is read of a hostile field is within bounds, and a restriction that stands
// alone on a line is never lost, whatever stands on the others.
func FuzzDirectives(f *testing.F) {
	for _, s := range []string{"max-age=60", `private="a, b", x="\"`, "no-cache=\"", ",,=,", "max-stale", `a="b", max-age="1"`, "max-age=9999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, d := range []Directives{ParseDirectives(fields("Cache-Control: "+s), "Cache-Control"), ParseRequest(fields("Cache-Control: " + s))} {
			if len(d.Named) > maxNamed {
				t.Error(len(d.Named))
			}
			for _, v := range []time.Duration{d.MaxAge, d.SMaxAge, d.StaleIfError, d.StaleWhileRevalidate, d.MaxStale, d.MinFresh} {
				if v < 0 || v > maxSeconds*time.Second {
					t.Error(v)
				}
			}
		}
		d := ParseDirectives(fields("Cache-Control: "+s, "Cache-Control: no-store", "Cache-Control: max-age=3"), "Cache-Control")
		if !d.Any(NoStore) || d.MaxAge > 3*time.Second {
			t.Errorf("%q hides what stands on other lines", s)
		}
		parseTargeted(fields("CDN-Cache-Control: "+s), "CDN-Cache-Control")
		VaryNames(fields("Vary: " + s))
		ParseDate(s, noon)
		h := HeadOf(fields("ETag: "+s), noon)
		NotModified(fields("If-None-Match: "+s), &h, noon)
		if sp, part, ok := Range(fields("Range: "+s), &h, 10, noon); part && ok && (sp.Off < 0 || sp.Len <= 0 || sp.Off+sp.Len > 10) {
			t.Error(sp)
		}
	})
}

// A request that wants nothing special takes no memory.
func TestNoMemory(t *testing.T) {
	req := fields("Accept: */*", "Accept-Encoding: gzip, br", "User-Agent: x", "Cache-Control: max-age=5", `If-None-Match: "b"`)
	h := HeadOf(fields(`ETag: "a"`), noon)
	l := Life{Received: noon, Lifetime: time.Minute}
	names := []string{"accept-encoding"}
	buf := make([]byte, 0, 100)
	n := testing.AllocsPerRun(100, func() {
		d := ParseRequest(req)
		l.Decide(&d, noon)
		NotModified(req, &h, noon)
		AppendSelecting(buf, names, req)
	})
	if n != 0 {
		t.Error(n)
	}
}
