//lint:file-ignore SA1019 frames are what these tests are about

package extproc

import (
	"bytes"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"httpjet/exchange"
)

// An h2peer is one connection of an HTTP/2 server made of frames. It does nothing
// by itself but to answer SETTINGS and PING.
type h2peer struct {
	t    *testing.T
	conn net.Conn
	n    int // of the connection, from 1
	fr   *http2.Framer

	mu  sync.Mutex // writing
	buf bytes.Buffer
	enc *hpack.Encoder
}

// newH2peers serves connections that begin HTTP/2 with settings.
func newH2peers(t *testing.T, serve func(p *h2peer), settings ...http2.Setting) *upstream {
	return newUpstream(t, func(_ *upstream, c *upConn) {
		if p := beginH2(t, c.Conn, c.n, settings...); p != nil {
			serve(p)
		}
	})
}

func beginH2(t *testing.T, c net.Conn, n int, settings ...http2.Setting) *h2peer {
	p := &h2peer{t: t, conn: c, n: n, fr: http2.NewFramer(c, c)}
	p.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	p.enc = hpack.NewEncoder(&p.buf)
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(c, preface); err != nil || string(preface) != http2.ClientPreface {
		return nil
	}
	p.fr.WriteSettings(settings...)
	return p
}

// next returns the next frame that says something, nil at the end.
func (p *h2peer) next() http2.Frame {
	for {
		f, err := p.fr.ReadFrame()
		if err != nil {
			return nil
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				p.write(func() { p.fr.WriteSettingsAck() })
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				p.write(func() { p.fr.WritePing(true, f.Data) })
			}
		case *http2.WindowUpdateFrame:
		default:
			return f
		}
	}
}

func (p *h2peer) write(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// request waits for the head of a request and skips everything else.
func (p *h2peer) request() *http2.MetaHeadersFrame {
	for f := p.next(); f != nil; f = p.next() {
		if h, ok := f.(*http2.MetaHeadersFrame); ok {
			return h
		}
	}
	return nil
}

// head sends a block of fields, which are names and values by turns.
func (p *h2peer) head(stream uint32, end bool, fields ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.buf.Reset()
	for i := 0; i < len(fields); i += 2 {
		p.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	b := p.buf.Bytes()
	first := b[:min(len(b), 16<<10)]
	rest := b[len(first):]
	p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: first, EndStream: end, EndHeaders: len(rest) == 0})
	for len(rest) > 0 {
		part := rest[:min(len(rest), 16<<10)]
		rest = rest[len(part):]
		p.fr.WriteContinuation(stream, len(rest) == 0, part)
	}
}

func (p *h2peer) data(stream uint32, end bool, text string) {
	p.write(func() { p.fr.WriteData(stream, end, []byte(text)) })
}

func (p *h2peer) reset(stream uint32, code http2.ErrCode) {
	p.write(func() { p.fr.WriteRSTStream(stream, code) })
}

func (p *h2peer) goAway(last uint32, code http2.ErrCode) {
	p.write(func() { p.fr.WriteGoAway(last, code, nil) })
}

// ok answers a stream with 200 and text.
func (p *h2peer) ok(stream uint32, text string) {
	p.head(stream, false, ":status", "200", "content-type", "text/plain")
	p.data(stream, true, text)
}

// fieldText is a block as it came: one field a line.
func fieldText(h *http2.MetaHeadersFrame) string {
	var b strings.Builder
	for _, f := range h.Fields {
		b.WriteString(f.Name + ": " + f.Value + "\n")
	}
	return b.String()
}

func h2target(addr string) Target {
	t := target(addr)
	t.Scheme = H2
	return t
}

func h2client(t *testing.T, tg Target) *H2Client {
	p := NewH2(tg, nil)
	t.Cleanup(func() {
		p.Retire()
		if s := p.Stats(); s.Busy != 0 || s.Idle != 0 {
			t.Errorf("after Retire: %+v", s)
		}
	})
	return p
}

// fieldsOf makes a list of names and values by turns.
func fieldsOf(list ...string) *exchange.Fields {
	f := &exchange.Fields{}
	for i := 0; i < len(list); i += 2 {
		f.Add(list[i], list[i+1])
	}
	return f
}

func textOf(f *exchange.Fields) string {
	if f == nil {
		return ""
	}
	var b strings.Builder
	for name, value := range f.All() {
		b.WriteString(name + ": " + value + "\n")
	}
	return b.String()
}

// soon is a channel's next value.
func soon[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("never: " + what)
		panic("unreachable")
	}
}
