package wsrelay

import (
	"io"
	"strings"
	"testing"
	"time"

	"httpjet/extproc"
	"httpjet/groups"
)

// groupOf has a peer at each address.
func groupOf(o groups.Options, addrs ...string) *Handler {
	for _, a := range addrs {
		o.Peers = append(o.Peers, groups.Peer{ID: a, Client: extproc.NewH1(extproc.Target{Scheme: extproc.H1, Network: "tcp", Address: a}, nil)})
	}
	return &Handler{Group: groups.New(o), InitTimeout: patience}
}

// R-WS-6, R-GRP-8: a handshake that was not sent goes to the next peer, one that
// was does not; the reservation is held to the end of the tunnel.
func TestHandshakeMovesOn(t *testing.T) {
	l := listen(t)
	dead := l.Addr().String()
	l.Close()
	echo := tcp(t, func(p *peer) {
		p.head()
		io.WriteString(p, switching)
		io.Copy(p, p)
	})
	h := groupOf(groups.Options{Policy: groups.Sticky, Cookie: groups.Cookie{Name: "S"}}, dead, echo)
	s := serve(t, h, false)
	p := s.dial(open)
	if head := p.head(); !strings.HasPrefix(head, "HTTP/1.1 101 ") || !strings.Contains(head, "\r\nSet-Cookie: S=") { // R-LB-8
		t.Fatalf("%q", head)
	}
	if a := h.Group.Snapshot()[1].Active; a != 1 {
		t.Errorf("%d reservations while the tunnel is open", a)
	}
	p.Close()
	if err := s.lastErr(1); err != nil {
		t.Error(err)
	}
	if a := h.Group.Snapshot()[1].Active; a != 0 {
		t.Errorf("%d reservations behind it", a)
	}

	mute := tcp(t, func(p *peer) { p.head() })
	h = groupOf(groups.Options{}, mute, echo)
	if head := serve(t, h, false).dial(open).head(); !strings.HasPrefix(head, "HTTP/1.1 502 ") {
		t.Errorf("a handshake was sent twice: %q", head)
	}
}

// R-GRP-5, R-GRP-7.
func TestNoPeerIsLeft(t *testing.T) {
	l := listen(t)
	dead := l.Addr().String()
	l.Close()
	h := groupOf(groups.Options{RetryTimeout: time.Hour}, dead)
	s := serve(t, h, false)
	for range 3 {
		if head := s.dial(open).head(); !strings.HasPrefix(head, "HTTP/1.1 502 ") {
			t.Errorf("%q", head)
		}
	}
	if head := s.dial(open).head(); !strings.HasPrefix(head, "HTTP/1.1 503 ") || !strings.Contains(head, "\r\nRetry-After: 1\r\n") {
		t.Errorf("%q", head)
	}
}
