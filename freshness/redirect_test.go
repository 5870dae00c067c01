package freshness

import (
	"testing"

	"httpjet/exchange"
)

func TestLeadsBack(t *testing.T) {
	f := func(want bool, host, target, rewritten, location string) {
		t.Helper()
		q := &exchange.Request{Method: "GET", Scheme: "http", Host: host, Target: target, Rewritten: rewritten}
		a := &exchange.Response{Status: 301, Fields: *fields("Cache-Control: max-age=60", "Location: "+location)}
		refusal := Kept
		if want {
			refusal = LeadsBack
		}
		if _, got := (&Rules{}).Judge(q, a, noon, noon); got != refusal {
			t.Errorf("%s%s (%s) to %s: %q", host, target, rewritten, location, got)
		}
	}
	for _, to := range []string{"/d/p", "http://a.test/d/p", "HTTP://a.tesT/d/p", "//a.test/d/p", "p", "../d/p", "http://a.test:80/d/p",
		"http://a.test:/d/p", "/d/p#x", "http://u@a.test/d/p", "http://[/", "/%zz"} {
		f(true, "A.test", "/d/p", "", to)
		f(true, "a.test:80", "/old", "/d/p", "/d/p")
	}
	f(true, "A.test", "/", "", "http://a.test")
	f(true, "A.test", "/?x", "", "http://a.test?x")
	f(true, "A.test", "/p?q=%C3%A9%20x", "", "/p?q=é x")
	f(true, "A.test", "/caf%C3%A9", "", "/café")
	f(true, "A.test", "/a|b", "", "/a%7Cb")
	f(true, "A.test", "/old", "/new", "http://a.test/new")
	f(true, "A.test", "/old", "/new", "http://a.test/old")
	f(true, "[::1]:80", "/p", "", "http://[::1]/p")
	for _, to := range []string{"/d/p/", "/d/P", "/d/p?", "/d/p?x", "https://a.test/d/p", "http://b.test/d/p", "http://a.test:81/d/p", "x", "."} {
		f(false, "A.test", "/d/p", "", to)
	}
	a := &exchange.Response{Status: 201, Fields: *fields("Cache-Control: max-age=60", "Location: /")}
	if _, got := (&Rules{}).Judge(&exchange.Request{Method: "GET", Scheme: "http", Host: "a", Target: "/"}, a, noon, noon); got != Kept {
		t.Error(got)
	}
}
