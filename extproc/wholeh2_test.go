package extproc_test

import (
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"

	"httpjet/h2"
)

// BenchmarkWholeH2 is BenchmarkWhole over HTTP/2 in clear text: 16 connections of 16
// streams, whose requests come together when the answers to the last ones are there.
func BenchmarkWholeH2(b *testing.B) {
	for _, way := range []struct{ name, path string }{{"proxy", "/app/1k"}, {"static", "/1k.txt"}} {
		for _, many := range []struct {
			name           string
			conns, streams int
		}{{way.name, 16, 16}, {way.name + "-single", 64, 1}} {
			b.Run(many.name, func(b *testing.B) {
				defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
				site := newSite(b, 100, false)
				b.ReportAllocs()
				b.ResetTimer()
				took := serveH2(b, site, way.path, b.N, many.conns, many.streams)
				b.ReportMetric(float64(took)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}

// serveH2 serves n requests of so many streams of each connection and returns the
// processor's time that it took.
func serveH2(tb testing.TB, site *site, path string, n, conns, streams int) time.Duration {
	site.limits.EnableH2C = true
	got, took := serveWhole(tb, site, n, conns, func(n int, done func()) net.Conn { return newH2client(path, n, streams, done) })
	if got.HTTP2 != int64(n) {
		tb.Errorf("%d requests were served of %d", got.HTTP2, n)
	}
	return took
}

// h2client is a client that has so many streams open, and begins new ones when all of
// them have ended.
type h2client struct {
	mem
	first, block []byte // of HPACK: the first section and all others
	streams      int
	left         int // requests that are to be made
	id           uint32
	done         func()

	mu    sync.Mutex
	ready sync.Cond
	open  int // streams
	taken int // bytes of bodies for which no window was given
	begun bool

	memory, rest []byte // of what is sent
}

func newH2client(path string, n, streams int, done func()) *h2client {
	c := &h2client{left: n, streams: streams, id: 1, done: done}
	c.ready.L = &c.mu
	var w section
	e := hpack.NewEncoder(&w)
	for range 2 {
		c.first, c.block = c.block, nil
		w = nil
		for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "www.shop.example"}, {":path", path}, {"user-agent", "h2load nghttp2/1.52.0"}} {
			e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
		c.block = w
	}
	return c
}

type section []byte

func (s *section) Write(p []byte) (int, error) { *s = append(*s, p...); return len(p), nil }

// Read waits for the answers to what is open, and begins new streams.
func (c *h2client) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.rest) == 0 {
		c.next()
	}
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// next makes what is sent next, nothing at the end.
func (c *h2client) next() {
	for c.open > 0 {
		c.ready.Wait()
	}
	if c.left == 0 {
		c.done()
		return
	}
	b, block := c.memory[:0], c.block
	if !c.begun {
		c.begun = true
		b = append(b, h2.Preface...)
		b = append(h2.AppendHeader(b, 6, h2.Settings, 0, 0), 0, 4, 0x3f, 0xff, 0xff, 0xff)
		b = h2.AppendWindowUpdate(b, 0, 1<<30)
		block = c.first
	}
	if c.taken > 1<<20 {
		b = h2.AppendWindowUpdate(b, 0, c.taken)
		c.taken = 0
	}
	for range min(c.streams, c.left) {
		b = append(h2.AppendHeader(b, len(block), h2.Headers, h2.EndHeaders|h2.EndStream, c.id), block...)
		block = c.block
		c.id += 2
		c.open++
		c.left--
	}
	c.memory, c.rest = b, b
}

// Write counts the streams that end.
func (c *h2client) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(p)
	for len(p) > 0 {
		size, kind, flags := int(binary.BigEndian.Uint32(p)>>8), p[3], p[4]
		if kind == byte(h2.Data) {
			c.taken += size
		}
		if (kind == byte(h2.Data) || kind == byte(h2.Headers)) && flags&h2.EndStream != 0 {
			c.open--
		}
		p = p[9+size:]
	}
	if c.open == 0 {
		c.ready.Signal()
	}
	return n, nil
}
