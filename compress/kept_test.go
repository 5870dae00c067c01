package compress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"httpjet/coding"
	"httpjet/exchange"
)

// cache keeps one body with its copies, as caches do, and is the handler that sends it.
type cache struct {
	body  string
	piece int // bytes of a write; 0: all at once
	short int // bytes that it does not send
	fails error

	mu     sync.Mutex
	copies map[string][]byte
	state  map[string]exchange.Copy
	none   bool // no copies are to be made
	yours  int
	kept   int // calls of KeepCoded
	waited int
}

func (c *cache) Coded(name string) ([]byte, exchange.Copy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.state[name]; s != exchange.CopyNone || c.none {
		return c.copies[name], s
	}
	c.yours++
	return nil, exchange.CopyYours
}

func (c *cache) AwaitCoded(_ context.Context, name string) ([]byte, exchange.Copy) {
	c.mu.Lock()
	c.waited++
	c.mu.Unlock()
	return c.Coded(name)
}

func (c *cache) KeepCoded(name string, p []byte, s exchange.Copy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == nil {
		c.state, c.copies = map[string]exchange.Copy{}, map[string][]byte{}
	}
	c.kept++
	c.state[name], c.copies[name] = s, p
}

func (c *cache) Serve(x *exchange.Exchange) error {
	x.Route.Kind = exchange.FastCGI
	x.Resp.Fields.Add("Content-Type", "text/html")
	x.Resp.Fields.Add("ETag", `"abc"`)
	x.Resp.Length = int64(len(c.body))
	x.Kept = c
	if err := x.Start(200); err != nil || x.Copied {
		return err
	}
	for b := c.body[:len(c.body)-c.short]; b != ""; {
		n := len(b)
		if c.piece > 0 {
			n = min(n, c.piece)
		}
		if _, err := io.WriteString(x, b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return c.fails
}

// R-CACHE-16: the body of a cache is coded once in each coding, whatever its length; the
// second client gets the copy, with its length.
func TestKeptBodiesAreCodedOnce(t *testing.T) {
	for _, n := range []int{201, 5000, 100_000, wholeFirst + 1} {
		for _, piece := range []int{0, 4096} {
			if n > 100_000 && piece == 0 {
				continue
			}
			o := options(t)
			c := &cache{body: text(n), piece: piece}
			codings := []string{"gzip", "br", "zstd"}
			if n > wholeFirst {
				codings = codings[:1]
			}
			for _, ae := range codings {
				for i := range 3 {
					w := serve(t, o, c, "Accept-Encoding: "+ae)
					if decoded(t, w) != c.body || !w.ended {
						t.Fatalf("%s of %d: %d bytes, ended %v", ae, n, w.body.Len(), w.ended)
					}
					length := fmt.Sprint(w.body.Len())
					if i == 0 && n > wholeFirst {
						length = "-1" // it goes out as it is coded
					}
					want := fmt.Sprintf(`200 %s Content-Type=text/html ETag="abc;;%s" Vary=Accept-Encoding Content-Encoding=%s `, length, strings.TrimSuffix(ae, "ip"), ae)
					if got := fields(w); got != want {
						t.Errorf("head\n%s\nwant\n%s", got, want)
					}
				}
			}
			if got := o.Encoders.Counts(); int(got.Gzip+got.Brotli+got.Zstd) != len(codings) || c.yours != len(codings) || c.kept != len(codings) {
				t.Errorf("%d: %+v, %d to make, %d made", n, got, c.yours, c.kept)
			}
			if w := serve(t, o, c); w.body.String() != c.body {
				t.Error("a client that takes no coding")
			}
			if w := serve(t, o, c, "HEAD", "Accept-Encoding: gzip"); w.body.Len() != 0 || w.head.Fields.Get("Content-Encoding") != "gzip" {
				t.Error(fields(w))
			}
		}
	}
}

// What does not become smaller goes out as it is, from the second answer on.
func TestKeptBodiesThatDoNotBecomeSmaller(t *testing.T) {
	for _, n := range []int{1000, 40_000} {
		o := options(t)
		c := &cache{body: noise(n), piece: 1000}
		for i := range 3 {
			w := serve(t, o, c, "Accept-Encoding: gzip")
			if decoded(t, w) != c.body || !w.ended || w.aborted != nil {
				t.Fatalf("%d: %s", n, fields(w))
			}
			if coded := w.head.Fields.Has("Content-Encoding"); coded != (i == 0) {
				t.Errorf("%d, answer %d: %s", n, i, fields(w))
			}
		}
		if got := o.Encoders.Counts().Gzip; got != 1 || c.state["gzip"] != exchange.CopyUseless {
			t.Errorf("coded %d times, %v", got, c.state)
		}
	}
}

// noise is n bytes that no coding makes smaller, the same each time.
func noise(n int) string {
	b := make([]byte, n)
	x := uint64(1)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x >> 32)
	}
	return string(b)
}

// A body that is cut is no copy for anybody, nor taken for whole by its client; somebody
// who waits is told.
func TestKeptBodiesThatAreCut(t *testing.T) {
	for _, n := range []int{40_000, wholeFirst + 1} {
		for _, c := range []*cache{{short: 1}, {short: 1, fails: errors.New("the file shrank")}, {short: n - 1}} {
			c.body, c.piece = text(n), 1000
			w := serve(t, options(t), c, "Accept-Encoding: gzip")
			if w.aborted == nil || w.ended || w.head == nil || c.kept != 1 || c.copies["gzip"] != nil {
				t.Errorf("%d: aborted %v, ended %v, head %v, kept %d", n, w.aborted, w.ended, w.head, c.kept)
			}
			if _, err := Decode(nil, coding.Gzip, w.body.Bytes(), Limits{Max: 1 << 30}); err == nil {
				t.Error("the client has a whole body")
			}
			c.short, c.fails = 0, nil
			if w := serve(t, options(t), c, "Accept-Encoding: gzip"); decoded(t, w) != c.body {
				t.Error("the next one")
			}
		}
	}
}

// Where no copy may be made, or there is no memory for an encoder, the answer is coded as
// it goes out, or goes out as it is.
func TestKeptBodiesWithoutCopies(t *testing.T) {
	o := options(t)
	c := &cache{body: text(5000), none: true}
	if w := serve(t, o, c, "Accept-Encoding: br"); decoded(t, w) != c.body || w.head.Length != -1 || c.waited != 1 {
		t.Errorf("%s, waited %d", fields(w), c.waited)
	}
	o.Encoders = NewEncoders(0)
	c = &cache{body: text(5000)}
	if w := serve(t, o, c, "Accept-Encoding: br"); w.body.String() != c.body || w.head.Length != 5000 || c.kept != 1 || c.state["br"] != exchange.CopyNone {
		t.Errorf("%s, %v", fields(w), c.state)
	}
	o.Encoders = NewEncoders(1200 << 10) // for gzip, not for br
	if w := serve(t, o, c, "Accept-Encoding: br, gzip;q=0.5"); decoded(t, w) != c.body || w.head.Fields.Get("Content-Encoding") != "gzip" || c.kept != 2 || len(c.copies["br"]) != 0 {
		t.Errorf("%s, %v", fields(w), c.state)
	}
}

// A client that leaves while its answer goes out harms no copy that was made before.
func TestKeptBodiesWhoseClientLeaves(t *testing.T) {
	c := &cache{body: text(40_000)}
	w := &wire{fail: exchange.ErrClientGone}
	x := &exchange.Exchange{}
	x.Reset(w)
	x.Req.Method = "GET"
	x.Req.Fields.Add("Accept-Encoding", "gzip")
	o := options(t)
	err := exchange.Run(x, exchange.HandlerFunc(func(x *exchange.Exchange) error {
		New(o).Join(x)
		return c.Serve(x)
	}))
	if !errors.Is(err, exchange.ErrClientGone) || c.kept != 1 {
		t.Errorf("%v, kept %d", err, c.kept)
	}
	if got, err := Decode(nil, coding.Gzip, c.copies["gzip"], Limits{Max: 1 << 20}); err != nil || string(got) != c.body {
		t.Errorf("the copy: %v", err)
	}
	if !bytes.Equal(serve(t, o, c, "Accept-Encoding: gzip").body.Bytes(), c.copies["gzip"]) {
		t.Error("the next client")
	}
}

// An exchange that has sent its head holds no entry of a cache, whatever its filters made
// of it: connections wait for their next request with it.
func TestKeptIsNotHeld(t *testing.T) {
	for _, ae := range []string{"", "gzip"} {
		c := &cache{body: text(1000)}
		x := &exchange.Exchange{}
		x.Reset(&wire{})
		x.Req.Method = "GET"
		x.Req.Fields.Add("Accept-Encoding", ae)
		o := options(t)
		if err := exchange.Run(x, exchange.HandlerFunc(func(x *exchange.Exchange) error {
			if ae != "" {
				New(o).Join(x)
			}
			return c.Serve(x)
		})); err != nil || x.Kept != nil {
			t.Errorf("%q: %v, %v", ae, err, x.Kept)
		}
	}
}
