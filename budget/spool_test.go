package budget

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
)

func pattern(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i * 7 / 3)
	}
	return p
}

// Bodies around every boundary come back byte for byte, and Close gives all
// back (R-FCGI-6, R-BUD-1).
func TestSpoolHoldsExactly(t *testing.T) {
	f := func(size int, declared int64) {
		t.Helper()
		b := &Bodies{Bytes: NewBytes(1 << 20), Count: NewPermits(1), Dir: t.TempDir()}
		want := pattern(size)
		s, err := b.Hold(bytes.NewReader(want), declared)
		if err != nil {
			t.Errorf("size %d declared %d: %v", size, declared, err)
			return
		}
		if s.Len() != int64(size) {
			t.Errorf("size %d: Len %d", size, s.Len())
		}
		if used := b.Bytes.Used(); used < int64(size) || used > int64(max(2*size, 4<<10)) {
			t.Errorf("size %d: %d bytes charged", size, used)
		}
		if inFile := s.file != nil; inFile != (size > MemoryMax) {
			t.Errorf("size %d: in a file: %v", size, inFile)
		}
		for range 2 { // a second reader begins at the first byte again
			if got, err := io.ReadAll(s.Reader()); err != nil || !bytes.Equal(got, want) {
				t.Errorf("size %d: read %d bytes, %v", size, len(got), err)
			}
		}
		if left, err := os.ReadDir(b.Dir); err != nil || len(left) != 0 {
			t.Errorf("size %d: files left in the directory: %v %v", size, left, err)
		}
		s.Close()
		s.Close()
		if b.Bytes.Used() != 0 || b.Count.InUse() != 0 {
			t.Errorf("size %d: kept %d bytes, %d bodies", size, b.Bytes.Used(), b.Count.InUse())
		}
	}
	for _, size := range []int{0, 1, 4095, 4096, 4097, 100_000, MemoryMax - 1, MemoryMax, MemoryMax + 1, 700_000} {
		f(size, -1)
		f(size, int64(size))
	}
}

func TestSpoolOneByteReads(t *testing.T) {
	want := pattern(9000)
	s, err := (*Bodies)(nil).Hold(iotest.OneByteReader(bytes.NewReader(want)), -1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got, _ := io.ReadAll(s.Reader()); !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
}

func TestSpoolErrors(t *testing.T) {
	broken := errors.New("broken")
	f := func(name string, src io.Reader, n, budget int64, want error) {
		t.Helper()
		b := &Bodies{Bytes: NewBytes(budget), Count: NewPermits(1), Dir: t.TempDir()}
		s, err := b.Hold(src, n)
		if s != nil || !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if b.Bytes.Used() != 0 || b.Count.InUse() != 0 {
			t.Errorf("%s: kept %d bytes, %d bodies", name, b.Bytes.Used(), b.Count.InUse())
		}
	}
	const enough = 1 << 20
	f("short", strings.NewReader("abc"), 4, enough, ErrShort)
	f("long", strings.NewReader("abcd"), 3, enough, ErrLong)
	f("long, none declared", strings.NewReader("a"), 0, enough, ErrLong)
	f("short, in a file", bytes.NewReader(pattern(300_000)), 300_001, enough, ErrShort)
	f("long, in a file", bytes.NewReader(pattern(300_001)), 300_000, enough, ErrLong)
	f("budget, in memory", bytes.NewReader(pattern(9000)), -1, 8<<10, ErrNoRoom)
	f("budget, in a file", bytes.NewReader(pattern(600_000)), -1, 500_000, ErrNoRoom)
	f("source", io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)), -1, enough, broken)
	f("source at the declared end", io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)), 3, enough, broken)

	b := &Bodies{Dir: "/nonexistent/directory"}
	if _, err := b.Hold(bytes.NewReader(pattern(MemoryMax+1)), -1); !errors.Is(err, ErrNoRoom) {
		t.Errorf("no directory: %v, want ErrNoRoom", err)
	}
}

// A declared length takes no memory before its bytes arrive.
func TestSpoolDeclaredLengthIsNotTrusted(t *testing.T) {
	b := &Bodies{Bytes: NewBytes(8 << 10)}
	s, err := b.Hold(strings.NewReader("x"), 1<<40)
	if s != nil || !errors.Is(err, ErrShort) {
		t.Errorf("%v, want ErrShort", err)
	}
}

// R-BUD-2: no more than so many bodies at once.
func TestSpoolCountsBodies(t *testing.T) {
	b := &Bodies{Count: NewPermits(1)}
	s, err := b.Hold(strings.NewReader("one"), -1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Hold(strings.NewReader("two"), -1); !errors.Is(err, ErrNoRoom) {
		t.Errorf("%v, want ErrNoRoom", err)
	}
	s.Close()
	s, err = b.Hold(strings.NewReader("three"), -1)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

func TestBytesNeverOverdrawn(t *testing.T) {
	b := NewBytes(1000)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				if b.Take(300) {
					if used := b.Used(); used > 1000 {
						t.Errorf("%d bytes taken of 1000", used)
					}
					b.Give(300)
				}
			}
		})
	}
	wg.Wait()
	if b.Used() != 0 {
		t.Errorf("%d bytes left taken", b.Used())
	}
	if b.Take(1001) || !b.Take(1000) || b.Take(1) {
		t.Error("limit not exact")
	}
}
