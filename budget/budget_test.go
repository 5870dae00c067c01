package budget

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Waiters are served in the order in which they came (R-POOL-2).
func TestPermitsServeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPermits(1)
		if err := p.Acquire(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		got := make(chan int, 3)
		for i := range 3 {
			go func() {
				if err := p.Acquire(t.Context(), time.Minute); err != nil {
					t.Error(err)
				}
				got <- i
			}()
			synctest.Wait() // i stands in line before i+1 comes
		}
		if p.TryAcquire() {
			t.Fatal("TryAcquire went past the line")
		}
		for want := range 3 {
			p.Release()
			if i := <-got; i != want {
				t.Errorf("waiter %d served, want %d", i, want)
			}
			if p.InUse() != 1 {
				t.Errorf("in use %d, want 1", p.InUse())
			}
		}
		p.Release()
		if p.InUse() != 0 || p.Max() != 1 {
			t.Errorf("in use %d of %d, want 0 of 1", p.InUse(), p.Max())
		}
	})
}

func TestPermitsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPermits(1)
		p.TryAcquire()
		began := time.Now()
		if err := p.Acquire(t.Context(), 0); !errors.Is(err, ErrWaited) {
			t.Errorf("no wait: %v, want ErrWaited", err)
		}
		if err := p.Acquire(t.Context(), 3*time.Second); !errors.Is(err, ErrWaited) {
			t.Errorf("%v, want ErrWaited", err)
		}
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("waited %v, want 3s", d)
		}
		p.Release()
		if !p.TryAcquire() {
			t.Error("a waiter that gave up keeps its place")
		}
	})
}

func TestPermitsCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPermits(1)
		p.TryAcquire()
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error, 1)
		go func() { got <- p.Acquire(ctx, time.Hour) }()
		synctest.Wait()
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want context.Canceled", err)
		}
		// The context's own deadline is its error, not ErrWaited.
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := p.Acquire(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, want context.DeadlineExceeded", err)
		}
		if p.InUse() != 1 {
			t.Errorf("in use %d, want 1", p.InUse())
		}
	})
}
