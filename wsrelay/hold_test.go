package wsrelay

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"httpjet/exchange/exchangetest"
	"httpjet/front"
)

func TestCloses(t *testing.T) {
	for bytes, want := range map[string]bool{
		"": false, "\x88": false, "\x88\x00": true, "\x88\x02\x03\xe8": true, "\x88\x02\x03": false,
		"\x88\x80mask": true, "\x88\x82mask\x03\xe8": true, "\x88\x82mask\x03": false,
		"\x81\x02hi\x88\x02\x03\xe8": true, "\x88\x02\x03\xe8\x81\x02hi": false, "\x81\x02hi": false,
		strings.Repeat("\x81\x02hi", 100) + "\x88\x00": true,
		"\x88\x7d" + strings.Repeat("x", 125):          true,
		"\x88\xfdmask" + strings.Repeat("x", 125):      true,
	} {
		if got := closes([]byte(bytes)); got != want {
			t.Errorf("%q: %v", bytes, got)
		}
	}
}

// busy opens a tunnel to h and has so many messages echoed that both directions
// hold what they read from.
func busy(t *testing.T, s *site) *peer {
	t.Helper()
	p := s.tunnel()
	for range 2 * sureAfter {
		io.WriteString(p, "ping")
		if got := p.next(t, 4); got != "ping" {
			t.Fatalf("echo %q", got)
		}
	}
	return p
}

// TestHeldRelayIsClosed: a relay ends at once, also while nobody takes what either
// direction writes.
func TestHeldRelayIsClosed(t *testing.T) {
	for name, end := range map[string]func(s *site, h *Handler){
		"tunnels": func(s *site, h *Handler) { h.Tunnels.Close() },
		"server": func(s *site, h *Handler) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			s.Front.Drain(ctx)
		},
	} {
		for _, stuck := range []string{"", "up", "down", "up down"} {
			t.Run(name+" "+stuck, func(t *testing.T) {
				full := make(chan bool, 2)
				fill := func(w net.Conn) {
					w.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
					for b := make([]byte, 1<<20); ; {
						if _, err := w.Write(b); err != nil {
							full <- true
							return
						}
					}
				}
				gone, sent := make(chan bool), make(chan bool)
				h, c := handler(tcp(t, func(p *peer) {
					p.head()
					io.WriteString(p, switching)
					io.CopyN(p, p, 4*2*sureAfter)
					if strings.Contains(stuck, "down") {
						fill(p.Conn)
					}
					<-sent
					p.SetWriteDeadline(time.Time{})
					p.ended()
					close(gone)
				}))
				s := serveWith(t, h, false, time.Hour)
				p := busy(t, s)
				n := 0
				if strings.Contains(stuck, "up") {
					go fill(p.Conn)
					n++
				}
				if strings.Contains(stuck, "down") {
					n++
				}
				for range n {
					<-full
				}
				end(s, h)
				close(sent)
				io.Copy(io.Discard, p)
				<-gone
				eventually(t, "permit back", func() bool { return c.Stats().Busy == 0 })
			})
		}
	}
}

// TestEndBehindCloseFrame: the end of a connection that comes together with the frame
// that closes the WebSocket is passed on at once, however busy the relay was.
func TestEndBehindCloseFrame(t *testing.T) {
	h, _ := handler(tcp(t, func(p *peer) {
		p.head()
		io.WriteString(p, switching)
		io.CopyN(p, p, 4*2*sureAfter)
		p.next(t, 4)
		io.WriteString(p, "\x81\x02hi\x88\x02\x03\xe8")
		p.Close()
	}))
	s := serveWith(t, h, false, time.Hour)
	p := busy(t, s)
	io.WriteString(p, "last")
	b, _ := io.ReadAll(p)
	if !bytes.HasSuffix(b, []byte("\x88\x02\x03\xe8")) {
		t.Errorf("%q", b)
	}
}

// TestEndBehindOtherBytes: without such a frame it is passed on when the relay rests.
func TestEndBehindOtherBytes(t *testing.T) {
	h, _ := handler(tcp(t, func(p *peer) {
		p.head()
		io.WriteString(p, switching)
		io.CopyN(p, p, 4*2*sureAfter)
		p.next(t, 4)
		io.WriteString(p, "hi")
		p.Close()
	}))
	p := busy(t, serveWith(t, h, false, 50*time.Millisecond))
	io.WriteString(p, "last")
	if b, _ := io.ReadAll(p); string(b) != "hi" {
		t.Errorf("%q", b)
	}
}

// greet answers the handshake of a client that has come over HTTP/2 or HTTP/3, whose key
// is the relay's.
func (p *peer) greet() {
	_, sent, _ := strings.Cut(p.head(), "Sec-WebSocket-Key: ")
	sent, _, _ = strings.Cut(sent, "\r\n")
	io.WriteString(p, strings.Replace(switching, accept, acceptKey(sent), 1))
}

// TestEndBehindBytesWithoutRest: relays that never rest, as those of multiplexed
// clients, pass an end on at once, whatever came with it.
func TestEndBehindBytesWithoutRest(t *testing.T) {
	h, _ := handler(tcp(t, func(p *peer) {
		p.greet()
		io.CopyN(p, p, 4*2*sureAfter)
		p.next(t, 4)
		io.WriteString(p, "hi")
		p.Close()
	}))
	ends := func(up io.Writer, down io.Reader) {
		t.Helper()
		for range 2 * sureAfter {
			io.WriteString(up, "ping")
			io.ReadFull(down, make([]byte, 4))
		}
		io.WriteString(up, "last")
		if b, _ := io.ReadAll(down); string(b) != "hi" {
			t.Errorf("%q", b)
		}
	}
	_, up, down := overHTTP2(t)(exchangetest.Start(t, &exchangetest.Site{Handler: h}, true))
	ends(up, down)
	up.Close()
	_, up, down = overHTTP3(t)(exchangetest.StartH3(t, &exchangetest.Site{Handler: h}))
	ends(up, down)
	up.Close()
	p := serveWith(t, h, false, -1).tunnel()
	ends(p, p)
}

// TestStuckMultiplexedClient: the close of a relay does not wait for a client over
// HTTP/2 whose connection takes no more bytes.
func TestStuckMultiplexedClient(t *testing.T) {
	full, over := make(chan bool), make(chan bool)
	h, _ := handler(tcp(t, func(p *peer) {
		p.greet()
		for b := make([]byte, 64<<10); ; {
			p.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
			if _, err := p.Write(b); err != nil {
				break
			}
		}
		close(full)
		<-over
	}))
	s := exchangetest.Start(t, &exchangetest.Site{Handler: h, Lim: front.Limits{ConnTimeout: time.Hour}}, true)
	nc, err := tls.Dial("tcp", s.Addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.NetConn().Close()
	io.WriteString(nc, http2.ClientPreface)
	f := http2.NewFramer(nc, nil)
	f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
	f.WriteWindowUpdate(0, 1<<31-1-65535)
	var head bytes.Buffer
	enc := hpack.NewEncoder(&head)
	for _, f := range []string{":method CONNECT", ":protocol websocket", ":scheme https", ":authority a.test", ":path /chat", "sec-websocket-version 13"} {
		name, value, _ := strings.Cut(f, " ")
		enc.WriteField(hpack.HeaderField{Name: name, Value: value})
	}
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.Bytes(), EndHeaders: true})
	<-full
	closed := make(chan bool)
	go func() {
		h.Tunnels.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		t.Error("it waits")
	}
	close(over)
}
