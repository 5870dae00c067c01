package proxy

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
	"time"

	"httpjet/budget"
)

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8*13 + i>>16)
	}
	return b
}

// A body of any size comes whole to each attempt, wherever the one before stopped
// reading, and nothing is kept afterwards (R-RETRY-6, R-BUD-1).
func TestReplayIsExact(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{0, 1, 4095, 4096, 4097, 65535, 65536, 65537, 300_000} {
		for _, declared := range []bool{true, false} {
			want := pattern(n)
			bodies := &budget.Bodies{Bytes: budget.NewBytes(1 << 20), Count: budget.NewPermits(1)}
			length := int64(-1)
			if declared {
				length = int64(n)
			}
			p := newReplay(&Retry{BufSize: 1 << 20, Bodies: bodies}, iotest.HalfReader(bytes.NewReader(want)), func() {}, length)
			for range 3 {
				r := &replayed{p: p}
				part := rnd.IntN(n + 1)
				if got, err := io.ReadAll(io.LimitReader(r, int64(part))); err != nil || !bytes.Equal(got, want[:part]) {
					t.Fatalf("%d of %d bytes: %d, %v", part, n, len(got), err)
				}
				r.stop()
				if m, err := r.Read(make([]byte, 1)); m != 0 || err != errStopped {
					t.Errorf("read of an attempt that is over: %d, %v", m, err)
				}
			}
			if got, err := io.ReadAll(&replayed{p: p}); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%d bytes: %d, %v", n, len(got), err)
			}
			if !p.whole() {
				t.Error("not whole")
			}
			if used := bodies.Bytes.Used(); used < int64(n) || used > int64(max(2*n, n+maxBlock)) {
				t.Errorf("%d bytes: %d charged", n, used)
			}
			p.close()
			if bodies.Bytes.Used() != 0 || bodies.Count.InUse() != 0 {
				t.Errorf("%d bytes and %d bodies are left", bodies.Bytes.Used(), bodies.Count.InUse())
			}
		}
	}
}

// A body that outgrows a bound goes on to the reader that has it, and to no other;
// what was kept is given back.
func TestReplayIsBounded(t *testing.T) {
	f := func(what string, size int64, bodies *budget.Bodies) {
		t.Helper()
		want := pattern(300_000)
		p := newReplay(&Retry{BufSize: size, Bodies: bodies}, bytes.NewReader(want), func() {}, -1)
		first := &replayed{p: p}
		io.ReadFull(first, make([]byte, 10))
		first.stop()
		if got, err := io.ReadAll(&replayed{p: p}); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v", what, len(got), err)
		}
		if p.whole() || bodies.Bytes.Used() != 0 {
			t.Errorf("%s: whole %v, %d bytes are charged", what, p.whole(), bodies.Bytes.Used())
		}
		p.close()
	}
	f("retryBufSize", 100_000, &budget.Bodies{Bytes: budget.NewBytes(1 << 20)})
	f("totalReqBufSize", 1<<20, &budget.Bodies{Bytes: budget.NewBytes(100_000)})

	one := &budget.Bodies{Bytes: budget.NewBytes(1 << 20), Count: budget.NewPermits(1)}
	a := newReplay(&Retry{BufSize: 1 << 20, Bodies: one}, bytes.NewReader(pattern(10)), func() {}, 10)
	io.ReadAll(&replayed{p: a})
	b := newReplay(&Retry{BufSize: 1 << 20, Bodies: one}, bytes.NewReader(pattern(10)), func() {}, 10)
	if got, err := io.ReadAll(&replayed{p: b}); err != nil || len(got) != 10 || b.whole() {
		t.Errorf("maxBufferedReqs: %d bytes, %v, whole %v", len(got), err, b.whole())
	}
	b.close()
	a.close()
	if one.Count.InUse() != 0 {
		t.Error("a body is still counted")
	}
	if !(*replay)(nil).whole() {
		t.Error("no body cannot be had again")
	}
	(*replay)(nil).close()
}

// An attempt that ends while the client sends nothing leaves the client alone; the
// end of the exchange does not.
func TestReplayOutlivesItsAttempts(t *testing.T) {
	pr, pw := io.Pipe()
	p := newReplay(&Retry{BufSize: 1 << 20}, pr, func() { pr.CloseWithError(errors.New("stopped")) }, -1)
	read := func(r *replayed) chan error {
		done := make(chan error)
		go func() { _, err := io.ReadFull(r, make([]byte, 6)); done <- err }()
		return done
	}
	first := &replayed{p: p}
	done := read(first)
	pw.Write([]byte("abc")) // returns when it was read
	first.stop()
	if err := <-done; !errors.Is(err, errStopped) {
		t.Errorf("%v", err)
	}
	second := &replayed{p: p}
	done = read(second)
	pw.Write([]byte("def"))
	if err := <-done; err != nil {
		t.Errorf("%v", err)
	}
	third := &replayed{p: p}
	done = make(chan error)
	go func() { _, err := io.ReadAll(third); done <- err }()
	for reading := false; !reading; { // until the client is read again
		<-time.After(time.Millisecond)
		p.mu.Lock()
		reading = p.reading
		p.mu.Unlock()
	}
	third.stop()
	if err := <-done; !errors.Is(err, errStopped) {
		t.Errorf("%v", err)
	}
	p.close()
	if _, err := pw.Write([]byte("x")); err == nil {
		t.Error("the client was not stopped")
	}
}

// What fails at the client is no end of a body, for no attempt.
func TestReplayOfABrokenBody(t *testing.T) {
	broken := errors.New("broken")
	p := newReplay(&Retry{BufSize: 1 << 20}, io.MultiReader(bytes.NewReader(pattern(10)), iotest.ErrReader(broken)), func() {}, -1)
	for range 2 {
		if got, err := io.ReadAll(&replayed{p: p}); len(got) != 10 || err != broken {
			t.Errorf("%d bytes, %v", len(got), err)
		}
	}
	if p.whole() {
		t.Error("whole")
	}
	p.close()
}
