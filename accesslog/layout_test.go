package accesslog

import (
	"errors"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"httpjet/exchange"
)

// asked is an exchange that has something to say for every item.
func asked(x *exchange.Exchange) {
	x.Began = time.Date(2026, 3, 4, 5, 6, 7, 8_009_010, time.FixedZone("", 3600))
	x.Ended = x.Began.Add(2345678 * time.Microsecond)
	x.Req.Host = "www.example.com:8443"
	x.Req.Remote, x.Req.Local = netip.MustParseAddrPort("198.51.100.7:4000"), netip.MustParseAddrPort("203.0.113.1:443")
	x.Req.User = "ann lee"
	x.Req.Fields.Add("Cookie", "a=1; sid = no; sid=s3\x02; b")
	x.Req.Fields.Add("Authorization", "Basic c2VjcmV0")
	x.Req.Fields.Add("X-Id", "a\"b\n")
	x.Route = exchange.Route{Kind: exchange.Proxy, VHost: "site", Label: "/app/"}
	x.Env = append(x.Env, exchange.Field{Name: "lang", Value: "de\r\nx"})
	x.Resource.Filename = "/srv/www/a b.html"
	x.Resp.Fields.Add("X-Cache", "hit")
	x.Resp.Length = 5
	x.TraceID = "4bf92f3577b34da6a3ce929d0e0e4736"
}

// All items of LiteSpeed's log formats, and what is no item.
func TestLayout(t *testing.T) {
	x, err := finished(asked, hello)
	var c Clock
	f := func(format, want string, unknown ...string) {
		t.Helper()
		l, no := ParseLayout(format)
		if got := string(l.Line(nil, x, err, &c, time.Unix(0, 0))); got != want+"\n" || !slices.Equal(no, unknown) {
			t.Errorf("%s\n got %s want %s\nunknown %q", format, got, want, no)
		}
	}
	f("", "")
	f("plain", "plain")
	f(`%h %l %u %t \"%r\" %>s %b "%{Referer}i" "%{User-Agent}i"`, `192.0.2.1 - ann+lee [04/Mar/2026:04:06:07 +0000] "GET /a?b HTTP/1.1" 200 5 "https://example.com/" "curl/8"`)
	f("%a %{c}a %A %p %{canonical}p %{local}p %{remote}p", "192.0.2.1 198.51.100.7 203.0.113.1 443 443 443 4000")
	f("%b %B %O %I %S %D %T %{s}T %{ms}T %{us}T", "5 5 5 0 5 2345678 2 2 2345 2345678")
	f("%m %U %q %H %v %V %R %f", "GET /a ?b HTTP/1.1 site www.example.com proxy /srv/www/a b.html")
	f("%s %<s %>s %L %k %n %{note}n", "200 200 200 0123456789abcdef0123456789abcdef - - -")
	f("%{X-Id}i %{none}i %{host}i %{Authorization}i %{X-Cache}o %{content-length}o %{none}o", `a\"b\x0a - www.example.com:8443 *** hit 5 -`)
	f("%{sid}C %{a}C %{none}C %{lang}e %{none}e %{x}^ti %{x}^to", `s3\x02 1 - de\x0d\x0ax - - -`)
	f("%{sec}t %{msec}t %{usec}t %{msec_frac}t %{usec_frac}t %{end:sec}t %{begin:sec}t %{end:}t", "1772597167 1772597167008 1772597167008009 008 008009 1772597169 1772597167 [04/Mar/2026:04:06:09 +0000]")
	f("%{%Y-%m-%dT%H:%M:%S%z}t", "2026-03-04T04:06:07+0000")
	f(`%{%a %A %b %B %C %D %e %F %G %I %j %p %R %s %T %u %V %w %y %Z %% %n%t %Q "}t`,
		`Wed Wednesday Mar March 20 03/04/26  4 2026-03-04 2026 04 063 AM 04:06 1772597167 04:06:07 3 10 3 26 UTC %    %Q \"`)
	f("%200{X-Id}i %404,200m %!200,304m %!404m %404m", `a\"b\x0a GET - GET -`)
	f("%X", "+")
	f("%{trace_id}x %>s %{TRACE_ID}x %x", "4bf92f3577b34da6a3ce929d0e0e4736 200 - -", "%{TRACE_ID}x", "%x") // R-TRACE-5
	f("%P %{pid}P", strconv.Itoa(os.Getpid())+" "+strconv.Itoa(os.Getpid()))
	f(`100%% a\tb\nc\\d`+"\n\x01", "100% a\tb c\\d  ")
	f("%Q [%i] %{weeks}T %{a", "- [-] - -", "%Q", "%i", "%{weeks}T", "%{a")
	f("%", "-", "%")
	f("%>", "-", "%>")
	f("%^t", "-", "%^t")
	f("%{x}^zz!", "-!", "%{x}^zz")
}

// What a request that is no request leaves to say.
func TestLayoutOfNothing(t *testing.T) {
	var all strings.Builder
	for name := range items {
		arg := ""
		if check := arguments[name]; check != nil && !check("") {
			if arg = "{x}"; !check("x") {
				arg = "{trace_id}"
			}
		}
		if name != "P" && name != "t" {
			all.WriteString("%" + arg + name + " ")
		}
	}
	x := &exchange.Exchange{}
	x.Resp.Length = -1
	l, unknown := ParseLayout(all.String())
	for word := range strings.FieldsSeq(string(l.Line(nil, x, nil, &Clock{}, time.Unix(0, 0)))) {
		if word != "-" && word != "0" && word != "none" && word != "+" {
			t.Errorf("says %q", word)
		}
	}
	if len(unknown) > 0 {
		t.Error(unknown)
	}
	f := func(want string, edit func(*exchange.Exchange), h exchange.HandlerFunc) {
		t.Helper()
		l, _ := ParseLayout("%t %X %s")
		x, err := finished(edit, h)
		if got := string(l.Line(nil, x, err, &Clock{}, time.Unix(0, 0))); got != want+"\n" {
			t.Errorf("%s, want %s", got, want)
		}
	}
	f("[01/Jan/1970:00:00:00 +0000] + 200", func(x *exchange.Exchange) { x.Began = time.Time{} }, hello)
	f("[04/Mar/2026:04:06:07 +0000] X 200", nil, func(x *exchange.Exchange) error { hello(x); return errors.New("cut") })
	f("[04/Mar/2026:04:06:07 +0000] X 499", nil, func(x *exchange.Exchange) error { return exchange.ErrClientGone })
	f("[04/Mar/2026:04:06:07 +0000] + 403", nil, func(x *exchange.Exchange) error { return exchange.Fail(403, "access_denied", "no") })
	f("[04/Mar/2026:04:06:07 +0000] - 200", func(x *exchange.Exchange) { x.Resp.Fields.Add("Connection", "close") }, hello)
}

// A line costs no allocation, whatever it asks for.
func TestLayoutNoAllocation(t *testing.T) {
	x, err := finished(asked, hello)
	l, _ := ParseLayout(`%h %l %u %t "%r" %>s %b "%{Referer}i" %{sid}C %{msec}t %{%F %T}t %D %V %L`)
	buf := make([]byte, 0, 1024)
	var c Clock
	if n := testing.AllocsPerRun(100, func() { buf = l.Line(buf[:0], x, err, &c, time.Time{}) }); n != 0 {
		t.Errorf("%v allocations per line", n)
	}
}

// Whatever the format and the request say: one line of printable text.
func FuzzLayout(f *testing.F) {
	f.Add("%h %{x}i %{%Y}t", "a\nb")
	f.Add(`%!200,{"}C\n`, "x=\x00")
	f.Fuzz(func(t *testing.T, format, value string) {
		l, _ := ParseLayout(format)
		x, err := finished(func(x *exchange.Exchange) {
			x.Req.Target, x.Req.Host, x.Req.User = value, value, value
			x.Req.Fields.Add("x", value)
			x.Req.Fields.Add("Cookie", value)
		}, hello)
		line := string(l.Line(nil, x, err, &Clock{}, time.Unix(0, 0)))
		if strings.IndexByte(line, '\n') != len(line)-1 {
			t.Errorf("%q", line)
		}
	})
}
