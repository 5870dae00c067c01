package front_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/url"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"httpjet/exchange/exchangetest"
)

// dialH3 opens a connection to s whose client makes streams as a test wants them.
func dialH3(t *testing.T, s *exchangetest.Server) (*http3.ClientConn, *quic.Conn) {
	t.Helper()
	c, err := quic.DialAddr(t.Context(), s.Addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{http3.NextProtoH3}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.CloseWithError(0, "") })
	h := new(http3.Transport).NewClientConn(c)
	select {
	case <-h.ReceivedSettings():
	case <-c.Context().Done():
		t.Fatal(context.Cause(c.Context()))
	}
	return h, c
}

// connectH3 makes an extended CONNECT (RFC 9220) and returns the stream with the answer.
func connectH3(t *testing.T, h *http3.ClientConn, proto, path string) (*http3.RequestStream, *http.Response) {
	t.Helper()
	s, err := h.OpenRequestStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{"Sec-Websocket-Version": {"13"}}
	if err := s.SendRequestHeader(&http.Request{Method: "CONNECT", Proto: proto, Host: "a.test", Header: header,
		URL: &url.URL{Scheme: "https", Host: "a.test", Path: path}}); err != nil {
		t.Fatal(err)
	}
	resp, err := s.ReadResponse()
	if err != nil {
		t.Fatal(err)
	}
	return s, resp
}

// RFC 9220: a WebSocket over HTTP/3, which bytes go through both ways, ends either way.
func TestG37ExtendedConnectOverH3(t *testing.T) {
	made := make(chan *tunnel, 10)
	s := exchangetest.StartH3(t, &exchangetest.Site{Handler: upgrading(made)})
	h, c := dialH3(t, s)
	if !h.Settings().EnableExtendedConnect {
		t.Error("the settings do not say so")
	}
	open := func() (*http3.RequestStream, *tunnel) {
		t.Helper()
		str, resp := connectH3(t, h, "websocket", "/ws")
		if resp.StatusCode != 200 || resp.Header.Get("Sec-Websocket-Protocol") != "chat" || resp.Header.Get("Sec-Websocket-Accept") != "" || resp.Header.Get("Connection") != "" {
			t.Fatalf("%v", resp)
		}
		return str, <-made
	}
	str, _ := open()
	if n := s.Front.Snapshot(); n.Tunnels != 1 || n.InFlight != 0 || n.HTTP3 != 1 {
		t.Errorf("%+v", n)
	}
	said := bytes.Repeat([]byte("frame of bytes "), 20_000)
	sent := make(chan error, 1)
	go func() {
		_, err := str.Write(said)
		sent <- errors.Join(err, str.Close()) // half-close
	}()
	got, err := io.ReadAll(str)
	if err != nil || !bytes.Equal(got, said) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	none := func() { t.Helper(); waitFor(t, func() bool { return s.Front.Snapshot().Tunnels == 0 }) }
	none()

	str, _ = open()
	str.CancelWrite(quic.StreamErrorCode(http3.ErrCodeRequestCanceled)) // the client breaks off
	str.CancelRead(quic.StreamErrorCode(http3.ErrCodeRequestCanceled))
	none()
	str, tun := open()
	str.CancelRead(quic.StreamErrorCode(http3.ErrCodeRequestCanceled)) // it wants no more bytes
	<-tun.closed
	str, tun = open()
	tun.d.Close() // the other side does
	_, err = io.ReadAll(str)
	if e, ok := errors.AsType[*http3.Error](err); !ok || e.ErrorCode != http3.ErrCodeRequestCanceled {
		t.Errorf("%v", err)
	}
	open()
	c.CloseWithError(0, "")
	waitFor(t, func() bool { n := s.Front.Snapshot(); return n.Tunnels == 0 && n.Active == 0 && n.Bugs == 0 })
}

// An answer that is no tunnel is none to an extended CONNECT over HTTP/3, whatever its
// status, and the connection goes on.
func TestH3ConnectWithoutTunnel(t *testing.T) {
	s := exchangetest.StartH3(t, &exchangetest.Site{Handler: upgrading(nil)})
	h, _ := dialH3(t, s)
	for _, c := range []struct {
		proto, path string
	}{{"websocket", "/no"}, {"connect-udp", "/"}, {"webtransport", "/"}} {
		str, resp := connectH3(t, h, c.proto, c.path)
		b, err := io.ReadAll(str)
		if resp.StatusCode != 501 || c.proto == "websocket" && len(b) != 0 || err != nil {
			t.Errorf("%v: %d %q %v", c, resp.StatusCode, b, err)
		}
		str.Close()
	}
	req, _ := http.NewRequest("GET", "https://a.test/", nil)
	resp, err := h.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 400 { // a GET cannot upgrade
		t.Error(resp.Status)
	}
	if n := s.Front.Snapshot(); n.Bugs != 0 || n.Tunnels != 0 {
		t.Errorf("%+v", n)
	}
}

// Tunnels over HTTP/3 end with the budget of a drain, as those of HTTP/1.
func TestH3TunnelsAreCut(t *testing.T) {
	made := make(chan *tunnel, 1)
	s := exchangetest.StartH3(t, &exchangetest.Site{Handler: upgrading(made)})
	h, _ := dialH3(t, s)
	connectH3(t, h, "websocket", "/ws")
	<-made
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if cut := s.Front.Drain(ctx); cut != 1 {
		t.Errorf("%d cut", cut)
	}
	if n := s.Front.Snapshot().Tunnels; n != 0 {
		t.Errorf("%d tunnels", n)
	}
}
