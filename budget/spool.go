package budget

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
)

// MemoryMax is how much of one held body stays in memory; a longer one goes to
// a temporary file (R-FCGI-6).
const MemoryMax = 256 << 10

var (
	// ErrNoRoom says that a body cannot be held: the byte budget or the number
	// of bodies is spent, or the temporary file cannot take it.
	ErrNoRoom = errors.New("no room to hold the request body")
	// ErrShort says that a body ended before its declared length.
	ErrShort = errors.New("request body shorter than declared")
	// ErrLong says that a body went on behind its declared length.
	ErrLong = errors.New("request body longer than declared")
)

// Bytes is a number of bytes that many may take from. A nil *Bytes never runs
// out.
type Bytes struct {
	max  int64
	used atomic.Int64
}

// NewBytes returns a budget of max bytes.
func NewBytes(max int64) *Bytes { return &Bytes{max: max} }

// Take takes n >= 0 bytes, or nothing if fewer are left.
func (b *Bytes) Take(n int64) bool {
	if b == nil {
		return true
	}
	for {
		used := b.used.Load()
		if n > b.max-used {
			return false
		}
		if b.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// Give returns n bytes that were taken.
func (b *Bytes) Give(n int64) {
	if b != nil && b.used.Add(-n) < 0 {
		panic("BUG: budget: more bytes given than taken")
	}
}

// Max returns the size of the budget, 0 for none.
func (b *Bytes) Max() int64 {
	if b == nil {
		return 0
	}
	return b.max
}

// Used returns the number of bytes taken.
func (b *Bytes) Used() int64 {
	if b == nil {
		return 0
	}
	return b.used.Load()
}

// Bodies bounds the request bodies that a process holds (R-BUD-1, R-BUD-2). A
// nil *Bodies, and each nil field, sets no bound.
type Bodies struct {
	Bytes *Bytes   // totalReqBufSize, in memory and on disk together
	Count *Permits // maxBufferedReqs
	Dir   string   // for temporary files; "": the system's

	refused atomic.Uint64
}

// Refuse counts a body that could not be held. Hold does so itself.
func (b *Bodies) Refuse() { b.refused.Add(1) }

// Refused is how many bodies could not be held; it only grows.
func (b *Bodies) Refused() uint64 { return b.refused.Load() }

// Spool is a request body held whole. It belongs to the caller of Hold, who
// closes it.
type Spool struct {
	owner *Bodies
	taken int64 // bytes charged to the budget
	size  int64
	mem   []byte   // the body, or nil if file holds it
	file  *os.File // already unlinked
}

// Hold reads src to its end. n is its declared length, -1 if it has none; it
// may be larger than the budget, for memory is taken as bytes arrive. The error
// is ErrNoRoom, ErrShort or ErrLong (wrapped), or that of src as it is.
func (b *Bodies) Hold(src io.Reader, n int64) (*Spool, error) {
	if b == nil {
		b = &Bodies{}
	}
	if b.Count != nil && !b.Count.TryAcquire() {
		b.Refuse()
		return nil, fmt.Errorf("%w: %d bodies are held", ErrNoRoom, b.Count.Max())
	}
	s := &Spool{owner: b}
	err := s.fill(src, n)
	if err == nil && n >= 0 && s.size < n {
		err = fmt.Errorf("%w: %d of %d bytes", ErrShort, s.size, n)
	}
	if err != nil {
		s.Close()
		if errors.Is(err, ErrNoRoom) {
			b.Refuse()
		}
		return nil, err
	}
	return s, nil
}

// Len returns the exact length.
func (s *Spool) Len() int64 { return s.size }

// Reader returns a new reader from the first byte. It must not be used after
// Close.
func (s *Spool) Reader() io.Reader {
	if s.file != nil {
		return io.NewSectionReader(s.file, 0, s.size)
	}
	return bytes.NewReader(s.mem)
}

// Close gives everything back. Only the first call does.
func (s *Spool) Close() error {
	b := s.owner
	if b == nil {
		return nil
	}
	s.owner = nil
	if s.file != nil {
		s.file.Close()
	}
	s.mem, s.file = nil, nil
	b.Bytes.Give(s.taken)
	if b.Count != nil {
		b.Count.Release()
	}
	return nil
}

// fill reads src into memory, and what does not fit there into a file.
func (s *Spool) fill(src io.Reader, n int64) error {
	top := int64(MemoryMax)
	if n >= 0 && n < top {
		top = n
	}
	for {
		if int64(len(s.mem)) == int64(cap(s.mem)) && int64(cap(s.mem)) < top {
			if err := s.grow(top); err != nil {
				return err
			}
		}
		room := s.mem[len(s.mem):cap(s.mem)]
		if len(room) == 0 {
			break // full: only the end, or a longer body, can follow
		}
		m, err := src.Read(room)
		s.mem = s.mem[:len(s.mem)+m]
		s.size += int64(m)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	if s.size == n {
		return atEnd(src)
	}
	return s.spill(src, n)
}

// grow doubles the memory, from 4 KiB up to top. It is charged before it is
// taken.
func (s *Spool) grow(top int64) error {
	have := int64(cap(s.mem))
	want := min(max(2*have, 4<<10), top)
	if !s.take(want - have) {
		return s.spent()
	}
	s.mem = append(make([]byte, 0, want), s.mem...)
	return nil
}

// spill moves the body to an unlinked file and reads the rest of src into it.
func (s *Spool) spill(src io.Reader, n int64) error {
	buf := make([]byte, 32<<10)
	for {
		m, err := src.Read(buf)
		if m > 0 {
			if n >= 0 && s.size+int64(m) > n {
				return fmt.Errorf("%w: over %d bytes", ErrLong, n)
			}
			if !s.take(int64(m)) {
				return s.spent()
			}
			if werr := s.write(buf[:m]); werr != nil {
				return fmt.Errorf("%w: %v", ErrNoRoom, werr)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// write appends p to the file, which it makes when first called.
func (s *Spool) write(p []byte) error {
	if s.file == nil {
		f, err := os.CreateTemp(s.owner.Dir, "httpjet-body-*")
		if err != nil {
			return err
		}
		s.file = f
		// Unlinked at once: the space is free again even after a crash.
		if err := os.Remove(f.Name()); err != nil {
			return err
		}
		if _, err := f.Write(s.mem); err != nil {
			return err
		}
		s.mem = nil
	}
	m, err := s.file.Write(p)
	s.size += int64(m)
	return err
}

func (s *Spool) take(n int64) bool {
	if !s.owner.Bytes.Take(n) {
		return false
	}
	s.taken += n
	return true
}

func (s *Spool) spent() error {
	return fmt.Errorf("%w: %d bytes are held", ErrNoRoom, s.owner.Bytes.Used())
}

// atEnd checks that src has no byte left.
func atEnd(src io.Reader) error {
	var one [1]byte
	for {
		n, err := src.Read(one[:])
		if n > 0 {
			return ErrLong
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
