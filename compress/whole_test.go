package compress

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"httpjet/coding"
)

func TestEncodeAndDecode(t *testing.T) {
	e := NewEncoders(64 << 20)
	for _, c := range coding.All {
		for _, n := range []int{300, 70_000, 400_000} {
			body := text(n)
			coded, ok := e.Encode([]byte("before"), c, 5, []byte(body))
			if !ok || !bytes.HasPrefix(coded, []byte("before")) || len(coded) > n {
				t.Fatalf("%s of %d: %v, %d bytes", c.Name(), n, ok, len(coded))
			}
			coded = coded[len("before"):]
			got, err := Decode([]byte("x"), c, coded, Limits{Max: int64(n)})
			if err != nil || string(got) != "x"+body {
				t.Errorf("%s of %d: %v", c.Name(), n, err)
			}
			if _, err := Decode(nil, c, coded, Limits{Max: int64(n) - 1}); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s of %d, one too many: %v", c.Name(), n, err)
			}
			r, err := NewReader(c, iotest.OneByteReader(bytes.NewReader(coded)), Limits{Max: int64(n)})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(r); err != nil || string(got) != body {
				t.Errorf("%s of %d byte by byte: %v", c.Name(), n, err)
			}
			r.Close()
		}
		if _, ok := e.Encode(nil, c, 5, nil); ok {
			t.Error("nothing becomes smaller")
		}
	}
	if _, ok := NewEncoders(0).Encode(nil, coding.Gzip, 5, []byte(text(1000))); ok {
		t.Error("an encoder without memory")
	}
	if n := e.Counts().InUse; n != 0 {
		t.Errorf("%d bytes not given back", n)
	}
}

// A body that is cut anywhere, or has more behind its end, is never taken for whole.
func TestDecodeCorrupt(t *testing.T) {
	e := NewEncoders(64 << 20)
	body := text(3000)
	for _, c := range coding.All {
		coded, _ := e.Encode(nil, c, 5, []byte(body))
		for n := range coded {
			if got, err := Decode(nil, c, coded[:n], Limits{Max: 1 << 20}); !errors.Is(err, ErrCorrupt) || len(got) != 0 {
				t.Errorf("%s cut at %d of %d: %d bytes, %v", c.Name(), n, len(coded), len(got), err)
			}
		}
		if _, err := Decode(nil, c, append(coded[:len(coded):len(coded)], "garbage"...), Limits{Max: 1 << 20}); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s with garbage behind: %v", c.Name(), err)
		}
		if c != coding.Brotli { // which has no checksum
			changed := bytes.Clone(coded)
			changed[len(changed)/2] ^= 0x10
			if got, err := Decode(nil, c, changed, Limits{Max: 1 << 20}); err == nil {
				t.Errorf("%s with another byte: %v", c.Name(), string(got) == body)
			}
		}
		broken := errors.New("broken")
		r, err := NewReader(c, io.MultiReader(bytes.NewReader(coded[:len(coded)/2]), iotest.ErrReader(broken)), Limits{Max: 1 << 20})
		if err == nil {
			_, err = io.ReadAll(r)
			r.Close()
		}
		if !errors.Is(err, broken) {
			t.Errorf("%s from a broken source: %v", c.Name(), err)
		}
	}
}

// A bomb costs neither time nor memory to speak of.
func TestDecodeBomb(t *testing.T) {
	zeros, size := make([]byte, 1<<20), 256
	if raced { // which takes minutes for so much, and sees as much in less
		size = 32
	}
	for _, c := range coding.All {
		var coded bytes.Buffer
		z := NewEncoders(64<<20).lend(c, 5, &coded)
		for range size {
			z.Write(zeros)
		}
		z.Close()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Decode(nil, c, coded.Bytes(), Limits{Max: 1 << 30})
		if runtime.ReadMemStats(&after); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %d bytes, by ratio: %v", c.Name(), coded.Len(), err)
		}
		// A thousandth of it may come out: 200 times what it is long.
		if n := after.TotalAlloc - before.TotalAlloc; c != coding.Gzip && n > 64<<20 {
			t.Errorf("%s: %d bytes of memory", c.Name(), n)
		}
		if _, err = Decode(nil, c, coded.Bytes(), Limits{Max: 10 << 20, Ratio: 1 << 30}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: by size: %v", c.Name(), err)
		}
		if _, err = Decode(nil, c, coded.Bytes(), Limits{}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: without a limit nothing is decoded: %v", c.Name(), err)
		}
	}
	// A window of 1 GiB, which the frame only announces.
	window := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa0, 0x03, 0x00, 0x00, 'a'}
	if _, err := Decode(nil, coding.Zstd, window, Limits{Max: 1 << 20}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("window: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	e := NewEncoders(64 << 20)
	for i, c := range coding.All {
		b, _ := e.Encode(nil, c, 5, []byte(text(2000)))
		f.Add(b, uint8(i))
	}
	f.Fuzz(func(t *testing.T, b []byte, i uint8) {
		const max = 3 << 20
		got, err := Decode(nil, coding.All[i%3], b, Limits{Max: max})
		if len(got) > max || err != nil && len(got) > 0 || err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrTooLarge) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	})
}

// The memory that an encoder is counted with is what it takes: no more than that, and
// not half of it.
func TestCosts(t *testing.T) {
	if raced {
		t.Skip("the race detector's own memory, and minutes; make test has this")
	}
	const n = 2
	page := []byte(text(256 << 10))
	for i, c := range coding.All {
		for level, cost := range costs[i] {
			if cost == 0 || levelOf(c, level) != level {
				continue
			}
			var before, after runtime.MemStats
			runtime.GC()
			runtime.GC()
			runtime.ReadMemStats(&before)
			e, used := NewEncoders(1<<30), []*coder{}
			body := page
			if level > 9 && c == coding.Brotli {
				body = page[:64<<10] // a window of it, for they are slow
			}
			for range n {
				z := e.lend(c, level, io.Discard)
				for b := body; len(b) > 0; b = b[min(len(b), 32<<10):] {
					z.Write(b[:min(len(b), 32<<10)])
				}
				z.Flush()
				used = append(used, z)
			}
			runtime.GC()
			runtime.GC()
			runtime.ReadMemStats(&after)
			took := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / n
			if counted := used[0].cost; took > counted+counted/8 || took < counted/2 {
				t.Errorf("%s %d: counted with %d KiB, takes %d KiB", c.Name(), level, counted>>10, took>>10)
			}
			runtime.KeepAlive(used)
		}
	}
}

// Every level is one that the library has.
func TestLevels(t *testing.T) {
	for i, c := range coding.All {
		for level := -1; level <= 30; level++ {
			e := NewEncoders(64 << 20)
			z := e.lend(c, level, io.Discard)
			if z == nil || costs[i][levelOf(c, level)] == 0 {
				t.Fatalf("%s %d", c.Name(), level)
			}
			e.giveBack(z)
		}
	}
	if strings.TrimSpace(short(coding.Gzip)+short(coding.Brotli)+short(coding.Zstd)) != "gzbrzstd" {
		t.Error("names in tags")
	}
}
