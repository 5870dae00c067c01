package wsrelay

//lint:file-ignore SA1019 the transport of net/http is not known to make an extended CONNECT

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"golang.org/x/net/http2"

	"httpjet/exchange/exchangetest"
)

// G37, RFC 8441: a WebSocket over HTTP/2 is one over HTTP/1.1 for the backend, which
// gets a handshake with a key of ours; bytes and both half-closes pass.
func TestG37OverHTTP2(t *testing.T) { chatting(t, false, overHTTP2(t)) }

// RFC 9220: so it is over HTTP/3.
func TestG37OverHTTP3(t *testing.T) { chatting(t, true, overHTTP3(t)) }

// An opener opens a WebSocket by an extended CONNECT.
type opener func(s *exchangetest.Server) (*http.Response, io.WriteCloser, io.Reader)

func overHTTP2(t *testing.T) opener {
	return func(s *exchangetest.Server) (*http.Response, io.WriteCloser, io.Reader) {
		tr := &http2.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		t.Cleanup(tr.CloseIdleConnections)
		u, err := url.Parse(s.URL + "/chat?q=1")
		if err != nil {
			t.Fatal(err)
		}
		body, up := io.Pipe()
		resp, err := tr.RoundTrip(&http.Request{Method: "CONNECT", URL: u, Host: "a.test", Body: body, ContentLength: -1, Header: http.Header{
			":protocol": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Protocol": {"chat"}, "Origin": {"https://a.test"}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp, up, resp.Body
	}
}

func overHTTP3(t *testing.T) opener {
	return func(s *exchangetest.Server) (*http.Response, io.WriteCloser, io.Reader) {
		c, err := quic.DialAddr(t.Context(), s.Addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{http3.NextProtoH3}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.CloseWithError(0, "") })
		str, err := new(http3.Transport).NewClientConn(c).OpenRequestStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := str.SendRequestHeader(&http.Request{Method: "CONNECT", Proto: "websocket", Host: "a.test",
			URL: &url.URL{Scheme: "https", Host: "a.test", Path: "/chat", RawQuery: "q=1"}, Header: http.Header{
				"Sec-Websocket-Version": {"13"}, "Sec-Websocket-Protocol": {"chat"}, "Origin": {"https://a.test"}}}); err != nil {
			t.Fatal(err)
		}
		resp, err := str.ReadResponse()
		if err != nil {
			t.Fatal(err)
		}
		return resp, str, str
	}
}

// A backend that has said its last goes on to hear the client: all of it, and its end.
func TestG37UpstreamEndsFirst(t *testing.T) {
	for name, overQUIC := range map[string]bool{"h2": false, "h3": true} {
		t.Run(name, func(t *testing.T) {
			heard := make(chan string, 1)
			h, _ := handler(tcp(t, func(p *peer) {
				p.greet()
				io.WriteString(p, "bye")
				p.closeWrite()
				all, _ := io.ReadAll(p)
				heard <- string(all)
			}))
			s, open := exchangetest.Start(t, &exchangetest.Site{Handler: h}, true), overHTTP2(t)
			if overQUIC {
				s, open = exchangetest.StartH3(t, &exchangetest.Site{Handler: h}), overHTTP3(t)
			}
			resp, up, down := open(s)
			if all, err := io.ReadAll(down); resp.StatusCode != 200 || string(all) != "bye" {
				t.Fatalf("%d %q %v", resp.StatusCode, all, err)
			}
			want := strings.Repeat("0123456789abcdef", 64<<10) // more than any window that is not renewed
			go func() {
				io.WriteString(up, want)
				up.Close()
			}()
			if got := <-heard; got != want {
				t.Errorf("the backend has %d bytes of %d", len(got), len(want))
			}
		})
	}
}

// chatting relays a WebSocket that open opens.
func chatting(t *testing.T, overQUIC bool, open opener) {
	heads, last := make(chan string, 2), make(chan string, 2)
	h, _ := handler(tcp(t, func(p *peer) {
		head := p.head()
		heads <- head
		_, sent, _ := strings.Cut(head, "Sec-WebSocket-Key: ")
		sent, _, _ = strings.Cut(sent, "\r\n")
		io.WriteString(p, strings.Replace(strings.Replace(switching, accept, acceptKey(sent), 1), "\r\n\r\n", "\r\nSec-WebSocket-Protocol: chat\r\n\r\n", 1)+"early")
		b := make([]byte, 5)
		io.ReadFull(p, b)
		p.Write(b)
		rest, _ := io.ReadAll(p) // until the client's half-close
		last <- string(rest)
		io.WriteString(p, "bye")
		p.closeWrite()
	}))
	var s *exchangetest.Server
	via := "Via: 2.0 httpjet\r\n"
	if overQUIC {
		s, via = exchangetest.StartH3(t, &exchangetest.Site{Handler: h}), "Via: 3.0 httpjet\r\n"
	} else {
		s = exchangetest.Start(t, &exchangetest.Site{Handler: h}, true)
	}
	resp, up, down := open(s)
	if resp.StatusCode != 200 || resp.Header.Get("Sec-Websocket-Protocol") != "chat" || resp.Header.Get("Sec-Websocket-Accept") != "" {
		t.Fatalf("%v", resp)
	}
	head := <-heads
	for _, want := range []string{"GET /chat?q=1 HTTP/1.1\r\n", "Connection: Upgrade\r\n", "Upgrade: websocket\r\n", "origin: https://a.test\r\n", via} {
		if !strings.Contains(strings.ToLower(head), strings.ToLower(want)) {
			t.Errorf("%q is not in %q", want, head)
		}
	}
	read := func(want string) {
		t.Helper()
		b := make([]byte, len(want))
		if _, err := io.ReadFull(down, b); err != nil || string(b) != want {
			t.Errorf("%q %v, want %q", b, err, want)
		}
	}
	read("early")
	io.WriteString(up, "hello")
	read("hello")
	io.WriteString(up, "last")
	up.Close()
	if got := <-last; got != "last" {
		t.Errorf("%q", got)
	}
	read("bye")
	if b, err := io.ReadAll(down); len(b) != 0 || err != nil {
		t.Errorf("%q %v", b, err)
	}
}
