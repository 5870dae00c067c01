package compress

import (
	"io"
	"testing"

	"httpjet/coding"
	"httpjet/exchange"
)

// discard is a wire that takes everything.
type discard struct{ wire }

func (w *discard) Head(*exchange.Response, bool, bool) error { return nil }
func (w *discard) Write(p []byte) (int, error)               { return len(p), nil }

// run serves one exchange again and again.
type run struct {
	x    *exchange.Exchange
	w    discard
	f    *Filter
	body []byte
	ae   string
	off  bool
}

func newRun(t testing.TB, n int, ae string) *run {
	r := &run{x: &exchange.Exchange{}, f: New(options(t)), body: []byte(text(n)), ae: ae}
	for range 3 {
		r.serve()
	}
	return r
}

func (r *run) serve() {
	x := r.x
	x.Reset(&r.w)
	x.Req.Method, x.Req.Proto = "GET", "HTTP/1.1"
	x.Req.Fields.Add("Accept-Encoding", r.ae)
	exchange.Run(x, r)
}

func (r *run) Serve(x *exchange.Exchange) error {
	if !r.off {
		r.f.Join(x)
	}
	x.Resp.Fields.Add("Content-Type", "text/html")
	x.Resp.Length = int64(len(r.body))
	if err := x.Start(200); err != nil {
		return err
	}
	for b := r.body; len(b) > 0; b = b[min(len(b), 32<<10):] {
		if _, err := x.Write(b[:min(len(b), 32<<10)]); err != nil {
			return err
		}
	}
	return nil
}

// A filter takes no memory for an answer, coded or not, once there are encoders.
func TestAllocations(t *testing.T) {
	for _, ae := range []string{"identity", "gzip, deflate, br;q=0", "br", "zstd"} {
		r := newRun(t, 5000, ae)
		r.off = true
		off := testing.AllocsPerRun(200, r.serve)
		r.off = false
		most := off
		if ae == "br" || ae == "zstd" {
			most += 4 // of the libraries
		}
		if n := testing.AllocsPerRun(200, r.serve); n > most && !raced {
			t.Errorf("%s: %v allocations, %v without the filter", ae, n, off)
		}
	}
}

func BenchmarkFilter(b *testing.B) {
	for _, ae := range []string{"off", "identity", "gzip", "br", "zstd"} {
		b.Run(ae, func(b *testing.B) {
			r := newRun(b, 100<<10, ae)
			r.off = ae == "off"
			b.SetBytes(int64(len(r.body)))
			b.ReportAllocs()
			for b.Loop() {
				r.serve()
			}
		})
	}
}

// BenchmarkLibrary is what the encoders take for the same body alone.
func BenchmarkLibrary(b *testing.B) {
	o := options(b)
	for _, c := range []coding.Set{coding.Gzip, coding.Brotli, coding.Zstd} {
		b.Run(c.Name(), func(b *testing.B) {
			body := []byte(text(100 << 10))
			z := newEncoder(c, levelOf(c, o.Levels.of(c)))
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				z.Reset(io.Discard)
				for p := body; len(p) > 0; p = p[min(len(p), 32<<10):] {
					z.Write(p[:min(len(p), 32<<10)])
				}
				z.Close()
			}
		})
	}
}
