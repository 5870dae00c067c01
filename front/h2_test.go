package front_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
)

// askH2 sends one request as raw frames, its fields as "name: value" and its
// body, and returns the status and body of the answer, or "reset".
func askH2(t *testing.T, s *exchangetest.Server, body string, fields ...string) (status, answer string) {
	t.Helper()
	c, err := tls.Dial("tcp", s.Addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range fields {
		i := strings.Index(f[1:], ":") + 1
		enc.WriteField(hpack.HeaderField{Name: f[:i], Value: strings.TrimPrefix(f[i+1:], " ")})
	}
	io.WriteString(c, http2.ClientPreface)
	fr := http2.NewFramer(c, c)
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	fr.WriteSettings()
	first := block.Next(16 << 10)
	fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: first, EndStream: body == "", EndHeaders: block.Len() == 0})
	for block.Len() > 0 {
		more := block.Next(16 << 10)
		fr.WriteContinuation(1, block.Len() == 0, more)
	}
	if body != "" {
		fr.WriteData(1, true, []byte(body))
	}
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			t.Fatalf("%q: %v", fields, err)
		}
		ended := false
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			status, ended = f.PseudoValue("status"), f.StreamEnded()
		case *http2.DataFrame:
			answer, ended = answer+string(f.Data()), f.StreamEnded()
		case *http2.RSTStreamFrame:
			return "reset", ""
		}
		if ended {
			return status, answer
		}
	}
}

// What the HTTP/1 parser refuses is refused in HTTP/2 too, where the library
// lets it pass.
func TestH2RequestsAreChecked(t *testing.T) {
	s := exchangetest.Start(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		b, err := io.ReadAll(x.Body())
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(x, "%s %d %s [%s]", x.Req.Method, x.Req.Length, b, x.Req.Fields.Get("X"))
		return err
	})}, true)
	f := func(wantStatus, wantAnswer, method, body string, more ...string) {
		t.Helper()
		fields := append([]string{":method: " + method, ":scheme: https", ":authority: a.test", ":path: /"}, more...)
		status, answer := askH2(t, s, body, fields...)
		if status != wantStatus || wantAnswer != "" && answer != wantAnswer {
			t.Errorf("%q with body %q: %s %q, want %s %q", fields, body, status, answer, wantStatus, wantAnswer)
		}
	}
	f("200", "GET 0  []", "GET", "")
	f("200", "M-SEARCH 0  []", "M-SEARCH", "")
	f("400", "", "G T", "")
	f("400", "", "GE(T", "")
	f("400", "", "G\u00c9T", "")
	f("501", "", strings.Repeat("A", 33), "")
	f("200", "GET 0  [a b]", "GET", "", "x:   a b ")          // RFC 9113 §8.2.1
	f("200", "", "GET", "", "x: "+strings.Repeat("y", 16200)) // R-PIPE-4: the head has 16380 bytes
	f("431", "", "GET", "", "x: "+strings.Repeat("y", 16380))
	f("431", "", "GET", "", "x: "+strings.Repeat("y", 60000)) // one field, which is not read from one frame
	f("431", "", "GET", "", "x: "+strings.Repeat("y", 9000), "z: "+strings.Repeat("y", 9000))
	// RFC 9113 §8.1.1, G04
	f("200", "POST 5 hello []", "POST", "hello", "content-length: 5")
	f("200", "POST 0  []", "POST", "", "content-length: 0")
	f("400", "", "POST", "", "content-length: 5")
	f("400", "", "POST", "", "content-length: ")
	f("400", "", "POST", "", "content-length: +0")
	f("400", "", "POST", "", "content-length: 0, 5")
	f("400", "", "POST", "", "content-length: 0", "content-length: 5")
	f("400", "", "POST", "hello", "content-length: 5", "content-length: 3")
	f("400", "", "POST", "hello", "content-length: 9") // ends too early: not as if the client were gone
	f("reset", "", "POST", "hello", "content-length: 3")
	if n := s.Front.Snapshot().Bugs; n != 0 {
		t.Errorf("%d panics", n)
	}
}

// A request over TLS is a request over TLS, whatever :scheme says: the
// application must not hear that the connection was plain.
func TestH2SchemeIsThatOfTheConnection(t *testing.T) {
	s := exchangetest.Start(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		_, err := fmt.Fprintf(x, "%s %v", x.Req.Scheme, x.Req.TLS != nil)
		return err
	})}, true)
	for _, scheme := range []string{"https", "http"} {
		status, answer := askH2(t, s, "", ":method: GET", ":scheme: "+scheme, ":authority: a.test", ":path: /")
		if status != "200" || answer != "https true" {
			t.Errorf("%s: %s %q", scheme, status, answer)
		}
	}
}
