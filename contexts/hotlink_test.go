package contexts

import (
	"errors"
	"testing"

	"httpjet/exchange"
)

// LSX 6.4: files of the suffixes are for the own pages and those of allowed hosts.
func TestHotlink(t *testing.T) {
	h := &Hotlink{Suffixes: []string{"png", "jpg"}}
	h.Allowed.Add("friend.test", true)
	h.Allowed.Add("*.cdn.test", true)
	v := &VHost{Hotlink: h}
	f := func(path, referer string, want int) {
		t.Helper()
		x := &exchange.Exchange{}
		x.Reset(nil)
		x.Req.Path, x.Req.Host = path, "www.Site.test:8080"
		if referer != "" {
			x.Req.Fields.Add("Referer", referer)
		}
		got := 200
		if err := v.hotlink(x, "/asked"); err != nil {
			e, _ := errors.AsType[*exchange.Error](err)
			got = e.Status
		}
		if got != want {
			t.Errorf("%s from %q: %d, want %d", path, referer, got, want)
		}
	}
	for _, path := range []string{"/a.png", "/x/A.JPG", "/a.png;v=1", `/x\a.png`} {
		f(path, "", 403)
		f(path, "https://site.test/page", 200)
		f(path, "http://WWW.site.test:81/", 200)
		f(path, "https://friend.test/", 200)
		f(path, "https://a.cdn.test/", 200)
		for _, bad := range []string{"https://evil.test/", "https://site.test.evil.test/", "https://evil.test/?site.test", "https://site.test@evil.test/", "site.test", "/x", "%", "https://", "https://cdn.test/"} {
			f(path, bad, 403)
		}
	}
	f("/a.html", "https://evil.test/", 200)
	h.Direct, h.Redirect = true, "/no.png"
	f("/a.png", "", 200)
	f("/a.png", "https://evil.test/", 302)
	f("/no.png", "https://evil.test/", 200) // or it would be sent to itself for ever
	v.Hotlink = nil
	f("/a.png", "https://evil.test/", 200)
}
