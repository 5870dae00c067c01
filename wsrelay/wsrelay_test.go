package wsrelay

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"httpjet/exchange"
	"httpjet/extproc"
	"httpjet/groups"
)

// The handshake at the backend and its answer at the client (G34, R-WS-4).
func TestG34HandshakePassesBothWays(t *testing.T) {
	got := make(chan string, 1)
	h, _ := handler(tcp(t, func(p *peer) {
		got <- p.head()
		io.WriteString(p, "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"+
			strings.Replace(switching, "\r\n\r\n", "\r\nSec-WebSocket-Protocol: gotty\r\nsec-websocket-EXTENSIONS: permessage-deflate\r\n"+
				"Server: other\r\nX-Own: 1\r\nKeep-Alive: 5\r\n\r\n", 1))
		p.head()
	}))
	s := serve(t, h, false)
	p := s.dial("GET /chat%2Fx?q=1 HTTP/1.1\r\nHost: a.test\r\nConnection: keep-alive, Upgrade, X-Hop\r\nX-Hop: 1\r\nUpgrade: WebSocket\r\n" +
		"Origin: https://e.test\r\nSec-WebSocket-Version: 13\r\nsec-websocket-KEY: " + key + "\r\nSec-WebSocket-Protocol: gotty\r\n" +
		"Sec-WebSocket-Extensions: permessage-deflate\r\nProxy-Connection: x\r\nX-Forwarded-For: 203.0.113.9\r\n\r\n")
	want := "GET /chat%2Fx?q=1 HTTP/1.1\r\nHost: a.test\r\nOrigin: https://e.test\r\nSec-WebSocket-Version: 13\r\nsec-websocket-KEY: " + key +
		"\r\nSec-WebSocket-Protocol: gotty\r\nSec-WebSocket-Extensions: permessage-deflate\r\n" +
		"X-Forwarded-For: 127.0.0.1\r\nX-Real-IP: 127.0.0.1\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a.test\r\nVia: 1.1 httpjet\r\n" +
		"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
	if g := <-got; g != want {
		t.Errorf("backend got\n%q, want\n%q", g, want)
	}
	answer := p.head()
	for _, line := range []string{"HTTP/1.1 101 Switching Protocols\r\n", "\r\nConnection: Upgrade\r\n", "\r\nUpgrade: websocket\r\n",
		"\r\nSec-WebSocket-Accept: " + accept + "\r\n", "\r\nSec-WebSocket-Protocol: gotty\r\n",
		"\r\nsec-websocket-EXTENSIONS: permessage-deflate\r\n", "\r\nX-Own: 1\r\n"} {
		if strings.Count(answer, line) != 1 {
			t.Errorf("%q is not once in %q", line, answer)
		}
	}
	for _, no := range []string{"Server: other", "Keep-Alive", "Content-Length", "Transfer-Encoding", "Link"} {
		if strings.Contains(answer, no) {
			t.Errorf("%q in %q", no, answer)
		}
	}
}

// Only a proper 101 of the backend opens a tunnel (fault 9, G36, R-WS-4): every
// other answer is an ordinary one, and what the client sends behind its request
// never reaches the backend.
func TestFault9AnswersOtherThan101(t *testing.T) {
	f := func(reply string, status int, reason, body string) {
		t.Helper()
		behind := make(chan int64, 1)
		h, c := handler(tcp(t, func(p *peer) {
			p.head()
			io.WriteString(p, reply)
			n, _ := io.Copy(io.Discard, p)
			behind <- n
		}))
		h.InitTimeout = 80 * time.Millisecond
		p := serve(t, h, false).dial(open + "GET /secret HTTP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n")
		head := p.head()
		if !strings.HasPrefix(head, fmt.Sprintf("HTTP/1.1 %d ", status)) {
			t.Errorf("%q: answer %q", reply, head)
		}
		if reason != "" && !strings.Contains(head, "\r\nX-Httpjet-Proxy-Error: "+reason+"\r\n") {
			t.Errorf("%q: no token %s in %q", reply, reason, head)
		}
		if body != "" && p.next(t, len(body)) != body {
			t.Errorf("%q: another body", reply)
		}
		if strings.Contains(head, "X-LiteSpeed") { // R-HDR-7
			t.Errorf("policy passed: %q", head)
		}
		if n := <-behind; n != 0 {
			t.Errorf("%q: %d bytes reached the backend", reply, n)
		}
		if s := c.Stats(); s.Idle != 0 {
			t.Errorf("%+v", s)
		}
	}
	f("HTTP/1.1 403 Forbidden\r\nX-LiteSpeed-Tag: x\r\nContent-Length: 6\r\n\r\ndenied", 403, "", "denied")
	f("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 200, "", "2\r\nok\r\n0\r\n\r\n")
	f("HTTP/1.1 401 No\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n", 401, "", "")
	f(strings.Replace(switching, accept, "AAAAAAAAAAAAAAAAAAAAAAAAAAA=", 1), 502, "upgrade_failed", "")
	f("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n", 502, "upgrade_failed", "")
	f(strings.Replace(switching, "Upgrade: websocket", "Upgrade: h2c", 1), 502, "upgrade_failed", "")
	f(strings.Replace(switching, "Connection: Upgrade", "Connection: close", 1), 502, "upgrade_failed", "")
	f("hello\r\n\r\n", 502, "upstream_transport", "")
	f("HTTP/1.1 101 Switching\nUpgrade: websocket\n\n", 502, "upstream_transport", "")
	f("HTTP/1.1 101 S\r\nA: "+strings.Repeat("x", 64<<10)+"\r\n\r\n", 502, "response_head_too_large", "")
	f("", 504, "upstream_timeout", "")
	f("HTTP/1.1 100 Continue\r\n\r\n", 504, "upstream_timeout", "")
}

func TestG36BackendDown(t *testing.T) {
	l := listen(t)
	addr := l.Addr().String()
	l.Close()
	h, _ := handler(addr)
	if head := serve(t, h, false).dial(open).head(); !strings.HasPrefix(head, "HTTP/1.1 502 ") || !strings.Contains(head, "upstream_transport") {
		t.Errorf("refused: %q", head)
	}
	h, _ = handler(tcp(t, func(p *peer) { p.head() })) // closes without an answer
	if head := serve(t, h, false).dial(open).head(); !strings.HasPrefix(head, "HTTP/1.1 502 ") {
		t.Errorf("closed: %q", head)
	}
	silent := listen(t) // accepted by the kernel, no TLS handshake
	defer silent.Close()
	h.Group = groups.Single(extproc.NewH1(extproc.Target{Scheme: extproc.H1S, Network: "tcp", Address: silent.Addr().String(), InitTimeout: 50 * time.Millisecond}, nil))
	if head := serve(t, h, false).dial(open).head(); !strings.HasPrefix(head, "HTTP/1.1 504 ") || !strings.Contains(head, "connect_timeout") {
		t.Errorf("black hole: %q", head)
	}
}

// multiplexed is a client without Dial.
type multiplexed struct{}

func (multiplexed) Do(context.Context, *extproc.Call) (*extproc.Reply, error) {
	panic("BUG: a call instead of a handshake")
}
func (multiplexed) Retire() {}

func TestG35TargetThatCannotUpgrade(t *testing.T) { // R-WS-3
	h := &Handler{Group: groups.Single(multiplexed{})}
	if head := serve(t, h, false).dial(open).head(); !strings.HasPrefix(head, "HTTP/1.1 502 ") || !strings.Contains(head, "upgrade_unsupported") {
		t.Errorf("%q", head)
	}
}

// What is no opening handshake of RFC 6455 §4.2.1 is refused and never tunnelled
// (fault 9).
func TestFault9BadHandshakes(t *testing.T) {
	h, _ := handler(tcp(t, func(p *peer) { t.Error("the backend was asked") }))
	s := serve(t, h, false)
	f := func(request, status string) {
		t.Helper()
		head := s.dial(request).head()
		if !strings.HasPrefix(head, "HTTP/1.1 "+status+" ") {
			t.Errorf("%q: answer %q", request, head)
		}
		if status == "426" && (!strings.Contains(head, "\r\nUpgrade: websocket\r\n") || !strings.Contains(head, "\r\nConnection: Upgrade, ")) {
			t.Errorf("426 without Upgrade: %q", head)
		}
	}
	change := func(old, new string) string { return strings.Replace(open, old, new, 1) }
	f(change("GET", "POST"), "400")
	f(change("GET /chat HTTP/1.1", "GET /chat HTTP/1.0"), "400")
	f(change("Connection: Upgrade\r\n", ""), "426")
	f(change("Upgrade: websocket\r\n", "Upgrade: h2c\r\n"), "426")
	f(change("Version: 13", "Version: 8"), "426")
	f(change("Sec-WebSocket-Version: 13\r\n", ""), "426")
	f(change(key, "short"), "400")
	f(change(key, "!!!!!!!!!!!!!!!!!!!!!!=="), "400")
	f(change("Sec-WebSocket-Key: "+key+"\r\n", ""), "400")
	f(change("Connection: Upgrade", "Connection: Upgrade, Sec-WebSocket-Key"), "400")
	f(change("Sec-WebSocket-Key", "Sec-WebSocket-Key: "+key+"\r\nSec-WebSocket-Key"), "400")
	f(change("\r\n\r\n", "\r\nContent-Length: 5\r\n\r\nhello"), "400")
	f(change("/chat", "/a/../chat"), "400")
	if head := s.dial(change("Version: 13", "Version: 12")).head(); !strings.Contains(head, "\r\nSec-WebSocket-Version: 13\r\n") {
		t.Errorf("426 without the version: %q", head)
	}
}

// The permit is held for the relay, and only that long (R-WS-5).
func TestPermitIsHeldForTheRelay(t *testing.T) {
	h, c := handler(tcp(t, func(p *peer) { p.head(); io.WriteString(p, switching); io.Copy(p, p) }))
	s := serve(t, h, false)
	p := s.tunnel()
	eventually(t, "relay open", func() bool { return h.Tunnels.Len() == 1 })
	if st := c.Stats(); st.Busy != 1 {
		t.Errorf("during the relay: %+v", st)
	}
	p.Close()
	if err := s.lastErr(1); err != nil {
		t.Error(err)
	}
	if st := c.Stats(); st.Busy != 0 || h.Tunnels.Len() != 0 {
		t.Errorf("after the relay: %+v, %d open", st, h.Tunnels.Len())
	}
}

func TestClosedFromOutside(t *testing.T) {
	echo := func(p *peer) { p.head(); io.WriteString(p, switching); io.Copy(p, p) }
	f := func(what string, idle time.Duration, end func(s *site, h *Handler)) {
		t.Helper()
		gone := make(chan struct{})
		h, c := handler(tcp(t, func(p *peer) { echo(p); close(gone) }))
		h.IdleTimeout = idle
		s := serve(t, h, false)
		p := s.tunnel()
		io.WriteString(p, "ping")
		if got := p.next(t, 4); got != "ping" {
			t.Fatalf("%s: %q", what, got)
		}
		end(s, h)
		p.ended()
		<-gone
		eventually(t, what+": permit back", func() bool { return c.Stats().Busy == 0 })
	}
	f("drain", 0, func(s *site, h *Handler) { h.Tunnels.Close() }) // R-WS-7
	f("idle", 50*time.Millisecond, func(*site, *Handler) {})
	f("server ends", 0, func(s *site, h *Handler) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.Front.Drain(ctx)
	})
}

func TestDrainedHandlerOpensNothing(t *testing.T) {
	h, _ := handler(tcp(t, func(p *peer) { p.head(); io.WriteString(p, switching); io.Copy(p, p) }))
	h.Tunnels.Close()
	s := serve(t, h, false)
	p := s.dial(open)
	p.head()
	if _, err := p.br.ReadByte(); err == nil {
		t.Error("a byte through a drained handler")
	}
}

// A client that leaves during the handshake ends it.
func TestClientGoneDuringHandshake(t *testing.T) {
	asked, gone := make(chan struct{}), make(chan struct{})
	h, _ := handler(tcp(t, func(p *peer) { p.head(); close(asked); p.ended(); close(gone) }))
	s := serve(t, h, false)
	p := s.dial(open)
	<-asked
	p.Close()
	<-gone
	if err := s.lastErr(1); exchange.StatusOf(err) != 499 {
		t.Errorf("%v", err)
	}
}

func TestBackendReset(t *testing.T) {
	h, _ := handler(tcp(t, func(p *peer) {
		p.head()
		io.WriteString(p, switching)
		p.next(t, 2)
		p.Conn.(*net.TCPConn).SetLinger(0)
	}))
	s := serve(t, h, false)
	p := s.tunnel()
	io.WriteString(p, "go")
	p.ended()
	if err := s.lastErr(1); exchange.ReasonOf(err) != "response_error" {
		t.Errorf("%v", err)
	}
}
