package pagecache

import (
	"sync"
	"testing"
	"time"

	"httpjet/coding"
	"httpjet/compress"
	"httpjet/exchange"
)

// R-CACHE-16: hits in a coding are coded once, whoever asks, from memory and from a file;
// a purge, and a page that is made anew, ends the copy.
func TestHitsAreCodedOnce(t *testing.T) {
	page := lines(80_000)
	for _, disk := range []bool{false, true} {
		e := encoders()
		types, _ := compress.ParseTypes([]string{"default"})
		f := compress.New(compress.Options{Encoders: e, Types: types, Dynamic: coding.Gzip | coding.Brotli, Levels: compress.Levels{Gzip: 6, Brotli: 5}})
		s, dir := newSite(Options{}), t.TempDir()
		if disk {
			s.Cache.Close()
			s = onDisk(t, dir, Options{})
		}
		now := time.Now()
		s.ask(get{target: "/", now: now}, says(200, opted+"Content-Type: text/html\nX-LiteSpeed-Tag: a", page))
		if disk { // as after a restart: the body is in the file alone
			s.Cache.Close()
			s = onDisk(t, dir, Options{})
		}
		before := s.Cache.store.Bytes()
		ask := func(c coding.Set, want string) {
			t.Helper()
			got := s.ask(get{target: "/", now: now, filter: f, fields: []string{"Accept-Encoding: " + c.Name()}}, says(200, opted+"Content-Type: text/html", lines(70_000)))
			b, err := compress.Decode(nil, c, []byte(got.body), compress.Limits{Max: 1 << 20})
			if err != nil || string(b) != want || got.fields.Get("Content-Encoding") != c.Name() {
				t.Errorf("files %v, %s: %v, %d bytes", disk, c.Name(), err, len(b))
			}
		}
		ask(coding.Gzip, page) // who comes while it is made waits, but not for ever: see package store
		ask(coding.Brotli, page)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { ask(coding.Gzip, page) })
			wg.Go(func() { ask(coding.Brotli, page) })
		}
		wg.Wait()
		if n := e.Counts(); n.Gzip != 1 || n.Brotli != 1 {
			t.Errorf("files %v: %+v", disk, n)
		}
		if n := s.Cache.store.Bytes() - before; n <= 0 {
			t.Errorf("files %v: copies are counted with %d bytes", disk, n)
		}
		list, _ := s.Cache.List("v", "/", 10)
		if len(list) != 1 || len(list[0].Codings) != 2 {
			t.Errorf("files %v: %+v", disk, list)
		}
		s.Cache.Purge([]Purge{{Tag: siteTag("v")}})
		for range 2 {
			ask(coding.Gzip, lines(70_000))
		}
		s.Cache.Close()
	}
}

// BenchmarkCodedHit is a hit of 100 KiB that goes out in gzip.
func BenchmarkCodedHit(b *testing.B) {
	types, _ := compress.ParseTypes([]string{"default"})
	f := compress.New(compress.Options{Encoders: encoders(), Types: types, Dynamic: coding.Gzip, Levels: compress.Levels{Gzip: 6}})
	s := newSite(Options{})
	defer s.Cache.Close()
	now := time.Now()
	s.ask(get{target: "/", now: now}, says(200, opted+"Content-Type: text/html\nETag: \"a\"", lines(100<<10)))
	x, w := &exchange.Exchange{}, &devNull{}
	h := exchange.HandlerFunc(func(*exchange.Exchange) error { panic("asked") })
	b.ReportAllocs()
	for b.Loop() {
		x.Reset(w)
		x.Req.Method, x.Req.Host, x.Req.Target, x.Req.Scheme, x.Called = "GET", "www.test", "/", "http", now
		x.Req.Fields.Add("Accept-Encoding", "gzip")
		exchange.Run(x, exchange.HandlerFunc(func(x *exchange.Exchange) error {
			f.Join(x)
			run := s.Begin(x)
			run.At(nil)
			err := run.Serve(Question{Local: true}, h)
			run.End(err)
			return err
		}))
	}
}
