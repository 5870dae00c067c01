package exchangetest

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"httpjet/front"
)

// QUIC returns Conf for HTTP/3.
func (s *Site) QUIC(string, *tls.ClientHelloInfo) (*tls.Config, error) {
	c := s.Conf.Clone()
	c.MinVersion, c.NextProtos = tls.VersionTLS13, []string{http3.NextProtoH3}
	return c, nil
}

// StartH3 is Start for a secure listener whose client speaks HTTP/3.
func StartH3(t testing.TB, site *Site) *Server {
	t.Helper()
	s := Start(t, site, true)
	err := s.lis.BindQUIC()
	if err == nil {
		_, err = s.Front.ServeQUIC(s.lis, front.QUIC{})
	}
	if err != nil {
		t.Fatal(err)
	}
	tr := &http3.Transport{DisableCompression: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{http3.NextProtoH3}},
		QUICConfig: &quic.Config{}}
	t.Cleanup(func() { // before the server's
		tr.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		s.Front.Drain(ctx)
	})
	s.Proto, s.Client = "HTTP/3.0", &http.Client{Transport: tr, Timeout: 30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return s
}

// Cut asks for an answer that is cut, and returns what came of its body and the error
// that tells of the cut. In HTTP/3 a reset takes along what has not arrived yet, even
// the head (RFC 9000 section 3.5): there seen is false.
func (s *Server) Cut(path string) (body string, seen bool, err error) {
	resp, err := s.Client.Get(s.URL + path)
	if err != nil {
		return "", s.Proto != "HTTP/3.0", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), s.Proto != "HTTP/3.0", err
}
