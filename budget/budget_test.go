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

// Who gives up just when its permit comes passes it on.
func TestPermitsGivenToOneThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPermits(1)
		for range 200 {
			p.TryAcquire()
			ctx, cancel := context.WithCancel(t.Context())
			first, second := make(chan error, 1), make(chan error, 1)
			go func() { first <- p.Acquire(ctx, time.Hour) }()
			synctest.Wait()
			go func() { second <- p.Acquire(t.Context(), time.Hour) }()
			synctest.Wait()
			p.Release()
			cancel()
			if err := <-first; err == nil {
				p.Release()
			} else if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if err := <-second; err != nil {
				t.Fatal(err)
			}
			p.Release()
			if p.InUse() != 0 {
				t.Fatalf("in use %d, want 0", p.InUse())
			}
		}
	})
}

// A line costs nothing once it has been as long (but what its contexts cost).
func TestPermitsLineIsKept(t *testing.T) {
	p := NewPermits(1)
	p.TryAcquire()
	done := make(chan error)
	ask := make(chan struct{})
	go func() {
		for range ask {
			done <- p.Acquire(context.Background(), time.Hour)
		}
		close(done)
	}()
	if n := testing.AllocsPerRun(100, func() {
		ask <- struct{}{}
		p.Release() // to whoever comes, or waits already
		if err := <-done; err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for each wait, want 0", n)
	}
	close(ask)
	<-done
}
