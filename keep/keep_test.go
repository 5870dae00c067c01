package keep

import (
	"sync"
	"sync/atomic"
	"testing"
)

type value struct{ retired atomic.Int32 }

func (v *value) Retire() { v.retired.Add(1) }

func newValue() *value { return &value{} }

func TestEqualKeysShareOneValue(t *testing.T) {
	var m Map[string, *value]
	a, releaseA := m.Acquire("k", newValue)
	b, releaseB := m.Acquire("k", func() *value { t.Error("made twice"); return nil })
	other, releaseOther := m.Acquire("other", newValue)
	if a != b || a == other {
		t.Error("identity of a value is not its key")
	}
	if m.Len() != 2 {
		t.Errorf("%d values, want 2", m.Len())
	}
	releaseA()
	releaseA() // a second call is nothing
	if n := a.retired.Load(); n != 0 || m.Len() != 2 {
		t.Errorf("retired %d times with a lease left, %d values", n, m.Len())
	}
	releaseB()
	if n := a.retired.Load(); n != 1 || m.Len() != 1 {
		t.Errorf("retired %d times, want 1; %d values, want 1", n, m.Len())
	}
	again, release := m.Acquire("k", newValue)
	if again == a {
		t.Error("a retired value came back")
	}
	release()
	releaseOther()
	if other.retired.Load() != 1 || m.Len() != 0 {
		t.Error("last lease did not retire")
	}
}

// A retired value may itself use the map: Retire is called without the lock.
func TestRetireMayUseTheMap(t *testing.T) {
	var m Map[int, retireFunc]
	_, inner := m.Acquire(1, func() retireFunc { return func() {} })
	_, outer := m.Acquire(2, func() retireFunc { return inner })
	outer()
	if m.Len() != 0 {
		t.Errorf("%d values left", m.Len())
	}
}

type retireFunc func()

func (f retireFunc) Retire() { f() }

func TestConcurrentLeases(t *testing.T) {
	var m Map[int, *value]
	var made, wrong atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 500 {
				v, release := m.Acquire(i%3, func() *value { made.Add(1); return &value{} })
				if v.retired.Load() != 0 {
					wrong.Add(1) // retired while leased
				}
				release()
			}
		})
	}
	wg.Wait()
	if wrong.Load() != 0 || m.Len() != 0 || made.Load() == 0 {
		t.Errorf("%d used after retirement, %d left, %d made", wrong.Load(), m.Len(), made.Load())
	}
}
