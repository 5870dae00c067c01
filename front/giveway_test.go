package front

import "testing"

// TestGivingWayInVainIsLeft: readers give way while others run meanwhile; where nobody
// does, ever more of them do without, up to a bound.
func TestGivingWayInVainIsLeft(t *testing.T) {
	var w way
	tries := func() int32 { return w.skip.Load() }
	for range 3 {
		w.learn(waySome)
		if tries() != 0 {
			t.Fatal("what was worth while is left")
		}
	}
	for _, want := range []int32{wayLeast, 2 * wayLeast, 4 * wayLeast} {
		w.learn(waySome - 1)
		if tries() != want {
			t.Fatalf("%d do not give way, want %d", tries(), want)
		}
	}
	for range 20 {
		w.learn(0)
	}
	if tries() != wayMost {
		t.Errorf("%d do not give way at the most, want %d", tries(), wayMost)
	}
	w.learn(waySome)
	w.learn(0)
	if tries() != wayLeast {
		t.Errorf("%d do not give way after it was worth while once more, want %d", tries(), wayLeast)
	}
}

// TestSkippedGivingWayIsNoStep: who does not give way is nobody that another one has let
// run.
func TestSkippedGivingWayIsNoStep(t *testing.T) {
	var w way
	w.learn(0)
	for i := range int32(wayLeast) {
		w.give()
		if left := w.skip.Load(); left != wayLeast-1-i || w.steps.Load() != 0 {
			t.Fatalf("after %d: %d are left, %d steps", i+1, left, w.steps.Load())
		}
	}
	w.give()
	if w.steps.Load() != 2 {
		t.Errorf("%d steps of one that gave way, want 2", w.steps.Load())
	}
}
