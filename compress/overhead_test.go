package compress

import (
	"io"
	"runtime"
	"syscall"
	"testing"
	"time"

	"httpjet/coding"
)

// BenchmarkOverLibrary is what an answer of 100 KiB takes through the filter, as a
// multiple of what the library alone takes for its body. Both are done in turns and
// measured by the processor's time of their thread, so that other programs disturb both
// alike: overhead is the ratio, to be below 1.10.
func BenchmarkOverLibrary(b *testing.B) {
	for _, c := range []coding.Set{coding.Gzip, coding.Brotli, coding.Zstd} {
		b.Run(c.Name(), func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			r := newRun(b, 100<<10, c.Name())
			z := newEncoder(c, levelOf(c, r.f.o.Levels.of(c)))
			r.f.o.Encoders.Took = func(time.Duration) {}
			var filter, library time.Duration
			for b.Loop() {
				began := threadTime(b)
				r.serve()
				between := threadTime(b)
				z.Reset(io.Discard)
				for p := r.body; len(p) > 0; p = p[min(len(p), 32<<10):] {
					z.Write(p[:min(len(p), 32<<10)])
				}
				z.Close()
				filter += between - began
				library += threadTime(b) - between
			}
			b.ReportMetric(float64(filter)/float64(library), "overhead")
			b.ReportMetric(float64(len(r.body))*float64(b.N)/library.Seconds()/1e6, "library-MB/s")
			b.ReportMetric(float64(len(r.body))*float64(b.N)/filter.Seconds()/1e6, "filter-MB/s")
		})
	}
}

// threadTime is the processor's time of the calling thread, of user and system.
func threadTime(b *testing.B) time.Duration {
	const thread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	if err := syscall.Getrusage(thread, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
