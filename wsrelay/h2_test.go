package wsrelay

//lint:file-ignore SA1019 the transport of net/http is not known to make an extended CONNECT

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"httpjet/exchange/exchangetest"
)

// G37, RFC 8441: a WebSocket over HTTP/2 is one over HTTP/1.1 for the backend, which
// gets a handshake with a key of ours; bytes and both half-closes pass.
func TestG37OverHTTP2(t *testing.T) {
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
	s := exchangetest.Start(t, &exchangetest.Site{Handler: h}, true)
	tr := &http2.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer tr.CloseIdleConnections()
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
	defer resp.Body.Close()
	if resp.StatusCode != 200 || resp.Header.Get("Sec-Websocket-Protocol") != "chat" || resp.Header.Get("Sec-Websocket-Accept") != "" {
		t.Errorf("%v", resp)
	}
	head := <-heads
	for _, want := range []string{"GET /chat?q=1 HTTP/1.1\r\n", "Connection: Upgrade\r\n", "Upgrade: websocket\r\n", "origin: https://a.test\r\n", "Via: 2.0 httpjet\r\n"} {
		if !strings.Contains(head, want) {
			t.Errorf("%q is not in %q", want, head)
		}
	}
	read := func(want string) {
		t.Helper()
		b := make([]byte, len(want))
		if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != want {
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
	if b, err := io.ReadAll(resp.Body); len(b) != 0 || err != nil {
		t.Errorf("%q %v", b, err)
	}
}
