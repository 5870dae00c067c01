package compress

import (
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"httpjet/budget"
	"httpjet/coding"
)

// Windows are small: what a page repeats, it repeats soon, and an encoder that is held
// by an event stream is held for hours. A client needs no more memory either (RFC 9659
// allows 8 MiB).
const (
	brotliWindow = 16 // base 2 logarithm
	zstdWindow   = 128 << 10
)

// outSize is how much coded output is gathered before it goes on: encoders write a
// few hundred bytes at a time, and a TLS record takes 16 KiB.
const outSize = 16<<10 - 64

// Encoders lends out encoders: it bounds the memory of those that are in use, and
// keeps others for the next answer until the collector takes them. All methods are
// safe for several goroutines.
type Encoders struct {
	// Took is told how long the coding of each body took, without the time in which its
	// bytes went on; it is set before the first use. nil: nobody asks, no clock is read.
	Took func(took time.Duration)

	bytes *budget.Bytes
	pools [3][23]sync.Pool // of *coder, by coding and level

	coded   [3]atomic.Uint64 // answers, by coding
	in, out atomic.Uint64    // bytes of their bodies
	refused atomic.Uint64    // encoders that were not lent for want of memory
}

// NewEncoders returns encoders that take max bytes together while they are in use. With
// 0 none is lent, and nothing is coded.
func NewEncoders(max int64) *Encoders { return &Encoders{bytes: budget.NewBytes(max)} }

// Counts are what Encoders have done. They only grow, but for InUse.
type Counts struct {
	Gzip, Brotli, Zstd uint64 // answers coded
	In, Out            uint64 // bytes of their bodies before and behind
	Refused            uint64 // answers that went out as they are, or in another coding, for want of memory
	InUse              int64  // bytes of memory in use
}

// Counts returns what has been done so far.
func (e *Encoders) Counts() Counts {
	if e == nil {
		return Counts{}
	}
	return Counts{Zstd: e.coded[0].Load(), Brotli: e.coded[1].Load(), Gzip: e.coded[2].Load(),
		In: e.in.Load(), Out: e.out.Load(), Refused: e.refused.Load(), InUse: e.bytes.Used()}
}

// encoder is what the three libraries have in common.
type encoder interface {
	io.WriteCloser
	Flush() error
	Reset(io.Writer)
}

// coder is an encoder with its output. It has one user at a time.
type coder struct {
	encoder
	out    output
	from   *sync.Pool
	coding coding.Set
	cost   int64
	in     uint64 // bytes written to it
	timed  bool
	took   time.Duration // what goes on included
}

// output gathers what an encoder writes.
type output struct {
	next io.Writer
	buf  []byte
	n    uint64 // bytes passed on
	err  error  // of next; nothing follows it

	timed bool
	away  time.Duration // what next took
}

func (o *output) Write(p []byte) (int, error) {
	if o.err != nil {
		return 0, o.err
	}
	if len(o.buf)+len(p) > cap(o.buf) {
		if o.drain(); o.err != nil {
			return 0, o.err
		}
		if len(p) >= cap(o.buf) {
			if o.pass(p); o.err != nil {
				return 0, o.err
			}
			return len(p), nil
		}
	}
	o.buf = append(o.buf, p...)
	return len(p), nil
}

// drain passes on what was gathered.
func (o *output) drain() error {
	if o.err == nil && len(o.buf) > 0 {
		o.pass(o.buf)
		o.buf = o.buf[:0]
	}
	return o.err
}

// pass passes p on.
func (o *output) pass(p []byte) {
	o.n += uint64(len(p))
	if !o.timed {
		_, o.err = o.next.Write(p)
		return
	}
	began := time.Now()
	_, o.err = o.next.Write(p)
	o.away += time.Since(began)
}

// Write codes p.
func (c *coder) Write(p []byte) (int, error) {
	began := c.now()
	c.in += uint64(len(p))
	n, err := c.encoder.Write(p)
	c.spent(began)
	return n, c.cause(err)
}

// now is when something begins, if that is of interest.
func (c *coder) now() (t time.Time) {
	if c.timed {
		t = time.Now()
	}
	return t
}

func (c *coder) spent(began time.Time) {
	if c.timed {
		c.took += time.Since(began)
	}
}

// Flush passes on everything that was written so far, decodable.
func (c *coder) Flush() error {
	began := c.now()
	err := c.encoder.Flush()
	if err == nil {
		err = c.out.drain()
	}
	c.spent(began)
	return c.cause(err)
}

// Close ends the coded body.
func (c *coder) Close() error {
	began := c.now()
	err := c.encoder.Close()
	if err == nil {
		err = c.out.drain()
	}
	c.spent(began)
	return c.cause(err)
}

// cause prefers the error of who takes the output to the library's words for it.
func (c *coder) cause(err error) error {
	if err != nil && c.out.err != nil {
		return c.out.err
	}
	return err
}

// levelOf keeps a level within those that a coding has.
func levelOf(c coding.Set, level int) int {
	switch c {
	case coding.Gzip:
		return min(max(level, 1), 9)
	case coding.Brotli:
		return min(max(level, 0), 11)
	}
	// The library has four levels of its own: one of each is kept.
	switch {
	case level < 3:
		return 1
	case level < 6:
		return 3
	case level < 10:
		return 7
	}
	return 11
}

// costs are what an encoder takes in KiB, by coding and level, as TestCosts measures.
var costs = [3][23]int64{
	{1: 900, 3: 2200, 7: 5100, 11: 36000},                                           // zstd
	{340, 500, 860, 860, 1800, 1800, 1800, 1800, 1800, 2600, 2300, 2300},            // br
	{1: 820, 2: 1200, 3: 1200, 4: 950, 5: 1080, 6: 1080, 7: 1010, 8: 1010, 9: 1400}, // gzip
}

// index is where All has c.
func index(c coding.Set) int {
	for i, o := range coding.All {
		if o == c {
			return i
		}
	}
	panic("BUG: compress: not one coding")
}

// lend returns an encoder that writes to next; nil if those in use take all memory
// that they may.
func (e *Encoders) lend(c coding.Set, level int, next io.Writer) *coder {
	level = levelOf(c, level)
	i := index(c)
	cost := costs[i][level]<<10 + outSize
	if !e.bytes.Take(cost) {
		e.refused.Add(1)
		return nil
	}
	from := &e.pools[i][level]
	z, ok := from.Get().(*coder)
	if !ok {
		z = &coder{encoder: newEncoder(c, level), from: from, coding: c, cost: cost}
		z.out.buf = make([]byte, 0, outSize)
	}
	z.out.next = next
	z.timed, z.out.timed = e.Took != nil, e.Took != nil
	z.Reset(&z.out)
	e.coded[i].Add(1)
	return z
}

// giveBack ends the use of z, whatever state it is in: Reset cleans it.
func (e *Encoders) giveBack(z *coder) {
	e.in.Add(z.in)
	e.out.Add(z.out.n)
	if e.Took != nil && z.in > 0 {
		e.Took(max(0, z.took-z.out.away))
	}
	z.in, z.took, z.out = 0, 0, output{buf: z.out.buf[:0]}
	z.from.Put(z)
	e.bytes.Give(z.cost)
}

func newEncoder(c coding.Set, level int) encoder {
	switch c {
	case coding.Gzip:
		z, err := gzip.NewWriterLevel(io.Discard, level)
		if err != nil {
			panic("BUG: compress: " + err.Error())
		}
		return z
	case coding.Brotli:
		return brotli.NewWriterOptions(io.Discard, brotli.WriterOptions{Quality: level, LGWin: brotliWindow})
	}
	// One goroutine at a time, the caller's; an empty body is an empty frame.
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)),
		zstd.WithWindowSize(zstdWindow), zstd.WithLowerEncoderMem(true), zstd.WithZeroFrames(true))
	if err != nil {
		panic("BUG: compress: " + err.Error())
	}
	return z
}
