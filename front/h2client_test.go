package front_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"httpjet/exchange/exchangetest"
)

// rawH2 is a client that sends frames as a test wants them.
type rawH2 struct {
	t     testing.TB
	c     net.Conn
	fr    *http2.Framer
	enc   *hpack.Encoder
	block bytes.Buffer
	next  uint32 // stream
}

// startH2C serves a site in clear text.
func startH2C(t testing.TB, site *exchangetest.Site) *exchangetest.Server {
	site.Lim.EnableH2C = true
	return exchangetest.Start(t, site, false)
}

// dialH2 opens a connection to s, over TLS if s is secure, and sends the preface with
// settings.
func dialH2(t testing.TB, s *exchangetest.Server, settings ...http2.Setting) *rawH2 {
	t.Helper()
	var c net.Conn
	var err error
	if strings.HasPrefix(s.URL, "https") {
		c, err = tls.Dial("tcp", s.Addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, DynamicRecordSizingDisabled: true})
	} else {
		c, err = net.Dial("tcp", s.Addr)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(60 * time.Second))
	h := &rawH2{t: t, c: c, fr: http2.NewFramer(c, c), next: 1}
	h.fr.AllowIllegalWrites = true
	h.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	h.enc = hpack.NewEncoder(&h.block)
	io.WriteString(c, http2.ClientPreface)
	h.fr.WriteSettings(settings...)
	return h
}

// fields encodes "name: value" pairs.
func (h *rawH2) fields(fields ...string) []byte {
	h.block.Reset()
	for _, f := range fields {
		i := strings.Index(f[1:], ":") + 1
		h.enc.WriteField(hpack.HeaderField{Name: f[:i], Value: strings.TrimPrefix(f[i+1:], " ")})
	}
	return h.block.Bytes()
}

// ask begins a request and returns its stream.
func (h *rawH2) ask(ends bool, method, path string, more ...string) uint32 {
	id := h.next
	h.next += 2
	all := append([]string{":method: " + method, ":scheme: http", ":authority: a.test", ":path: " + path}, more...)
	h.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: h.fields(all...), EndStream: ends, EndHeaders: true})
	return id
}

// answer reads until stream id has ended, granting windows if it is to.
func (h *rawH2) answer(id uint32, grant bool) (status string, body []byte, err error) {
	for {
		f, err := h.fr.ReadFrame()
		if err != nil {
			return status, body, err
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				h.fr.WriteSettingsAck()
			}
		case *http2.MetaHeadersFrame:
			if f.StreamID == id {
				if status == "" || status == "100" {
					status = f.PseudoValue("status")
				}
				if f.StreamEnded() {
					return status, body, nil
				}
			}
		case *http2.DataFrame:
			if grant && len(f.Data()) > 0 {
				h.fr.WriteWindowUpdate(0, uint32(len(f.Data())))
				if !f.StreamEnded() {
					h.fr.WriteWindowUpdate(f.StreamID, uint32(len(f.Data())))
				}
			}
			if f.StreamID == id {
				body = append(body, f.Data()...)
				if f.StreamEnded() {
					return status, body, nil
				}
			}
		case *http2.RSTStreamFrame:
			if f.StreamID == id {
				return status, body, http2.StreamError{StreamID: id, Code: f.ErrCode}
			}
		case *http2.GoAwayFrame:
			if f.ErrCode != http2.ErrCodeNo {
				return status, body, http2.ConnectionError(f.ErrCode)
			}
		}
	}
}

// wantReset checks that stream id is reset with code.
func (h *rawH2) wantReset(id uint32, code http2.ErrCode) {
	h.t.Helper()
	_, _, err := h.answer(id, false)
	if se, ok := errors.AsType[http2.StreamError](err); !ok || se.Code != code {
		h.t.Errorf("stream %d: %v, want a reset with %v", id, err, code)
	}
}

// wantGoAway reads until the connection ends, which a GOAWAY with code has to announce.
func (h *rawH2) wantGoAway(code http2.ErrCode) {
	h.t.Helper()
	for {
		f, err := h.fr.ReadFrame()
		if err != nil {
			h.t.Errorf("connection ended without a GOAWAY: %v", err)
			return
		}
		if g, ok := f.(*http2.GoAwayFrame); ok && g.ErrCode != http2.ErrCodeNo {
			if g.ErrCode != code {
				h.t.Errorf("GOAWAY with %v %q, want %v", g.ErrCode, g.DebugData(), code)
			}
			return
		}
	}
}

// flood calls f with rising numbers, n times at most, while the connection takes it.
// Something else has to read.
func (h *rawH2) flood(n int, f func(i int) error) (sent *atomic.Int64) {
	sent = new(atomic.Int64)
	done := make(chan struct{})
	h.t.Cleanup(func() { h.c.Close(); <-done })
	go func() {
		defer close(done)
		for i := range n {
			if f(i) != nil {
				return
			}
			sent.Add(1)
		}
	}()
	return sent
}
