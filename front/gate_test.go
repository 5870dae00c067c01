package front

import "testing"

// TestGateTellsOfMany: from the given number of permits on, take says that there are
// many, and whoever waits in the line is one of many.
func TestGateTellsOfMany(t *testing.T) {
	var g gate
	g.setLimit(3, 2)
	for i, want := range []bool{false, true, true, true} {
		place, many := g.take()
		if many != want {
			t.Errorf("permit %d: many is %v", i+1, many)
		}
		if waits := place != nil; waits != (i == 3) {
			t.Errorf("permit %d: waits is %v", i+1, waits)
		}
	}
}
