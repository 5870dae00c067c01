package forward

import (
	"context"
	"io"
	"net/netip"
	"strings"
	"testing"

	"httpjet/exchange"
)

// wire is a wire that can upgrade; plain is one that cannot.
type plain struct{}

func (plain) Read([]byte) (int, error)                  { return 0, io.EOF }
func (plain) Trailers() *exchange.Fields                { return nil }
func (plain) StopRead()                                 {}
func (plain) Head(*exchange.Response, bool, bool) error { return nil }
func (plain) Write(p []byte) (int, error)               { return len(p), nil }
func (plain) Flush() error                              { return nil }
func (plain) End(*exchange.Fields) error                { return nil }
func (plain) Abort(error)                               {}
func (plain) Context() context.Context                  { return context.Background() }

type wire struct{ plain }

func (wire) Upgrade(*exchange.Response) (exchange.Duplex, error) { return nil, nil }

// request makes an exchange of "Name: value" lines.
func request(w exchange.Wire, lines string) *exchange.Exchange {
	x := &exchange.Exchange{}
	x.Reset(w)
	x.Req.Method, x.Req.Proto, x.Req.Scheme, x.Req.Host, x.Req.Target = "GET", "HTTP/1.1", "http", "a.test:8080", "/"
	x.Req.Remote = netip.MustParseAddrPort("192.0.2.1:5000")
	x.Req.Client = x.Req.Remote.Addr()
	for line := range strings.Lines(lines) {
		n, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		x.Req.Fields.Add(n, strings.TrimSpace(v))
	}
	return x
}

func build(o Options, x *exchange.Exchange) string {
	var f exchange.Fields
	o.Fields(x, &f)
	var b strings.Builder
	for n, v := range f.All() {
		b.WriteString(n + ": " + v + "\n")
	}
	return b.String()
}

// added are the fields of this hop for a client at 192.0.2.1.
const added = "X-Forwarded-For: 192.0.2.1\nX-Real-IP: 192.0.2.1\nX-Forwarded-Proto: http\nX-Forwarded-Host: a.test:8080\nVia: 1.1 httpjet\n"

func TestEndToEndFieldsOnly(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		if got := build(Options{}, request(wire{}, in)); got != want+added {
			t.Errorf("%q\ngave\n%q, want\n%q", in, got, want+added)
		}
	}
	// Order, spelling and repetition are kept (fault 6, G09).
	f("x-LOW: 1\nAccept: a\nOrigin: https://e.test\nACCEPT: b\nX_U.s: \nProxyx: x\n",
		"x-LOW: 1\nAccept: a\nOrigin: https://e.test\nACCEPT: b\nX_U.s: \nProxyx: x\n")
	// "httpoxy", and our own fields in other spellings.
	f("Proxy: http://evil.test\nX_Forwarded_For: 1\nx-forwarded_for: 2\nX_REAL_IP: 3\nX_Forwarded_Proto: https\nX-Forwarded_Host: 4\nA_B: c\n", "A_B: c\n")
	// Hop-by-hop fields go, and what any Connection line names (fault 4, G07, R-HDR-1).
	f("Connection: \nConnection: X-Secret\nX-Secret: 1\nA: b\n", "A: b\n")
	f("Connection: close, x-one ,\tX-Two\nX-ONE: 1\nx-two: 2\nX-Three: 3\n", "X-Three: 3\n")
	f("Connection: keep-alive\nKeep-Alive: timeout=5\nProxy-Connection: keep-alive\nProxy-Authorization: Basic eA==\n"+
		"Proxy-Authenticate: Basic\nTE: trailers, gzip\nTrailer: X\nTransfer-Encoding: chunked\nUpgrade: websocket\nA: b\n", "A: b\n")
	// Obsolete h2c (G08).
	f("Connection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: AAMAAABk\nA: b\n", "A: b\n")
	f("HTTP2-Settings: AAMAAABk\nContent-Length: 5\nExpect: 100-continue\nHost: other\n", "")
	// A client may not have our own fields removed.
	f("Connection: X-Forwarded-For, X-Real-IP, Via, X-Forwarded-Proto, X-Forwarded-Host\n", "")
	// Others' Via stays before ours (R-HDR-5).
	f("Via: 1.0 fred\n", "Via: 1.0 fred\n")
}

// Nobody but a trusted peer can say where a request came from (fault 5, R-HDR-2
// to R-HDR-4).
func TestFault5SpoofedForwardingFields(t *testing.T) {
	const spoof = "X-Forwarded-For: 203.0.113.9\nX-Real-IP: 203.0.113.9\nForwarded: for=203.0.113.9\n" +
		"x-forwarded-proto: https\nX-Forwarded-Host: evil.test\nX-Forwarded-FOR: 198.51.100.7, 198.51.100.8\n"
	if got := build(Options{}, request(wire{}, spoof)); got != added {
		t.Errorf("untrusted peer: %q", got)
	}
	trust := Options{Trusted: func(a netip.Addr) bool { return a.String() == "192.0.2.1" }}
	x := request(wire{}, spoof)
	x.Req.Client = netip.MustParseAddr("198.51.100.8")
	x.Req.Scheme = "https" // as resolved by the table
	want := "X-Forwarded-For: 203.0.113.9, 198.51.100.7, 198.51.100.8, 198.51.100.8\nX-Real-IP: 198.51.100.8\n" +
		"X-Forwarded-Proto: https\nX-Forwarded-Host: a.test:8080\nVia: 1.1 httpjet\n"
	if got := build(trust, x); got != want {
		t.Errorf("trusted peer: %q", got)
	}
}

func TestForwardedForModes(t *testing.T) {
	f := func(o Options, client, want string) {
		t.Helper()
		x := request(wire{}, "X-Forwarded-For: 203.0.113.9\nX-Forwarded-For:\nX-Forwarded-For: 203.0.113.8\nForwarded: for=x\n")
		x.Req.Client = netip.Addr{}
		if client != "" {
			x.Req.Client = netip.MustParseAddr(client)
		}
		o.NoRealIP, o.NoProto, o.NoHost, o.NoVia = true, true, true, true
		if got := build(o, x); got != want {
			t.Errorf("mode %d, client %q: %q, want %q", o.For, client, got, want)
		}
	}
	f(Options{For: ForAuto}, "192.0.2.1", "X-Forwarded-For: 192.0.2.1\n")
	f(Options{For: ForAppend}, "192.0.2.1", "Forwarded: for=x\nX-Forwarded-For: 203.0.113.9, 203.0.113.8, 192.0.2.1\n")
	f(Options{For: ForReplace}, "192.0.2.1", "X-Forwarded-For: 192.0.2.1\n")
	f(Options{For: ForOff}, "192.0.2.1", "")
	f(Options{For: ForAuto}, "", "X-Forwarded-For: unknown\n")
	f(Options{For: ForReplace}, "", "")
	f(Options{For: ForAuto}, "::ffff:192.0.2.7", "X-Forwarded-For: 192.0.2.7\n")
	f(Options{For: ForAuto}, "fe80::1%eth0", "X-Forwarded-For: fe80::1\n")
}

// A switch that is off removes the client's field (R-HDR-4).
func TestSwitchedOffFieldsAreRemoved(t *testing.T) {
	o := Options{For: ForOff, NoRealIP: true, NoProto: true, NoHost: true, NoVia: true}
	x := request(wire{}, "X-Forwarded-For: 1\nX-Real-IP: 2\nX-Forwarded-Proto: 3\nX-Forwarded-Host: 4\nForwarded: 5\nVia: 1.1 fred\n")
	if got := build(o, x); got != "Via: 1.1 fred\n" {
		t.Errorf("%q", got)
	}
}

func TestPeerHost(t *testing.T) { // R-CTX-8
	x := request(wire{}, "")
	if o := (&Options{}); o.Host(x) != "a.test:8080" {
		t.Errorf("%q", o.Host(x))
	}
	if o := (&Options{PeerHost: true}); o.Host(x) != "" {
		t.Errorf("%q", o.Host(x))
	}
}

func TestProtocolsOfTheClient(t *testing.T) {
	x := request(plain{}, "cookie: a=1\nx: y\ncookie: b=2\nte: trailers\n")
	x.Req.Proto = "HTTP/2.0"
	o := Options{For: ForOff, NoRealIP: true, NoProto: true, NoHost: true}
	if got := build(o, x); got != "Cookie: a=1; b=2\nx: y\nVia: 2.0 httpjet\n" {
		t.Errorf("%q", got)
	}
	x = request(wire{}, "Trailer: X-Sum, Content-Length, Host\n")
	x.Req.Proto, x.Req.Length, x.Req.Host = "HTTP/1.0", -1, ""
	o.NoHost = false
	if got := build(o, x); got != "Trailer: X-Sum\nVia: 1.0 httpjet\n" {
		t.Errorf("%q", got)
	}
}

// What was matched and what is sent cannot differ (fault 7, G54, R-RW-7).
func TestFault7RawTarget(t *testing.T) {
	f := func(target string, sent bool) {
		t.Helper()
		x := request(wire{}, "")
		x.Req.Target = target
		got, err := Target(x)
		if sent && (err != nil || got != target) {
			t.Errorf("%q: %q, %v", target, got, err)
		}
		if !sent && exchange.StatusOf(err) != 400 {
			t.Errorf("%q: %q, %v; want 400", target, got, err)
		}
	}
	for _, target := range []string{"/", "*", "/a%2Fb;v=1/%7E", "/A//b/", "//px", "/a?../../b&%zz", "/a?", "/...", "/.a/..b/c.",
		"/public/%252e%252e/internal", "/caf%C3%A9/\xe9", "/a;b=.c/x"} {
		f(target, true)
	}
	for _, target := range []string{"", "a", "http://a/", "/..", "/.", "/px2/../px/x", "/a/./b", "/public/%2e%2e/internal",
		"/public/..%2finternal", "/public/.%2E%5cinternal", "/public/./../internal", "/public//../internal", "/a/..;/b",
		"/a/..;x=1/b", "/a;../b", "/a\\..\\b", "/a/%2e", "/a/..%3b/b", "/a%00b", "/a%zz", "/a%2", "/a%", "/a b", "/a\r\nX: y", "/a?b c", "/a?\x00"} {
		f(target, false)
	}
}

// A rewritten path is encoded once, and the client's bytes are kept otherwise
// (R-RW-7, G51, G52).
func TestRewrittenTarget(t *testing.T) {
	f := func(target, path, query, want string) {
		t.Helper()
		x := request(wire{}, "")
		x.Req.Target, x.Req.Path, x.Req.Query = target, path, query
		got, err := Target(x)
		if want == "" && exchange.StatusOf(err) != 400 || want != "" && (err != nil || got != want) {
			t.Errorf("%q as %q ? %q: %q, %v; want %q", target, path, query, got, err, want)
		}
	}
	f("/a%2Fb//c;d?q=%zz", "/a/b/c;d", "q=%zz", "/a%2Fb//c;d?q=%zz") // cleaned only
	f("/x?", "/x", "", "/x?")
	f("*", "*", "", "*")
	f("/old", "/new", "", "/new")
	f("/old?a=b", "/old", "a=b&c=d", "/old?a=b&c=d")
	f("/old?a=b", "/old", "", "/old")
	f("/old", "/a b%2F?#\"\r\n\xc3\xa9;v=1", "x y\r\n#z&%41", "/a%20b%252F%3F%23%22%0D%0A%C3%A9;v=1?x%20y%0D%0A%23z&%41")
	f("/old", "/a/..;/b", "", "")
}

func TestStripPolicy(t *testing.T) { // R-HDR-7
	f := &exchange.Fields{}
	for _, n := range []string{"X-LiteSpeed-Cache-Control", "x-litespeed-tag", "LSC-Cookie", "lsc-x", "X-HTTPJET-Proxy-Error", "X-LiteSpee", "LSC", "A"} {
		f.Add(n, "1")
	}
	StripPolicy(f)
	var got strings.Builder
	for n := range f.All() {
		got.WriteString(n + ";")
	}
	if got.String() != "X-LiteSpee;LSC;A;" {
		t.Errorf("left %s", got.String())
	}
}

func TestIsUpgrade(t *testing.T) { // R-WS-1, R-WS-8
	f := func(w exchange.Wire, method, proto, lines string, want bool) {
		t.Helper()
		x := request(w, lines)
		x.Req.Method, x.Req.Proto = method, proto
		if got := IsUpgrade(x); got != want {
			t.Errorf("%s %s %q: %v", method, proto, lines, got)
		}
	}
	both := "Connection: keep-alive, UPGRADE\nUpgrade: WebSocket\n"
	f(wire{}, "GET", "HTTP/1.1", both, true)
	f(plain{}, "GET", "HTTP/1.1", both, false)
	f(wire{}, "POST", "HTTP/1.1", both, false)
	f(wire{}, "GET", "HTTP/1.0", both, false)
	f(wire{}, "GET", "HTTP/1.1", "Upgrade: websocket\n", false)
	f(wire{}, "GET", "HTTP/1.1", "Connection: close\nUpgrade: websocket\n", false)
	f(wire{}, "GET", "HTTP/1.1", "Connection: upgrade\nUpgrade: h2c\n", false)
	f(wire{}, "GET", "HTTP/1.1", "Connection: upgrade\n", false)
}
