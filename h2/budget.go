package h2

import "time"

// Budgets of a connection (spec R-H2-1). What a client makes us do without getting
// an answer for it costs; only answers, and bodies that move, earn.
const (
	ResetBudget = 200   // streams that end before their answer, by its doing
	IdleBudget  = 10000 // frames that make no progress: PING, SETTINGS, PRIORITY, empty DATA and the like

	// A budget is full again this long after it was last, so that a connection that
	// lives for days does not die of its keep-alives.
	refill = time.Minute
)

// Costs of frames in units of IdleBudget.
const (
	CostFrame    = 1
	CostSettings = 10 // every stream is looked at
)

// Budget is one of them. Make it by NewBudget.
type Budget struct {
	left, full int
	since      time.Time // when it was full; zero: it is
}

// NewBudget returns a full one.
func NewBudget(n int) Budget { return Budget{left: n, full: n} }

// Spend takes n and reports whether there was as much. The clock is read at the
// first n and when the budget is used up.
func (b *Budget) Spend(n int) bool {
	if b.since.IsZero() {
		b.since = time.Now()
	}
	if b.left -= n; b.left >= 0 {
		return true
	}
	now := time.Now()
	if now.Sub(b.since) < refill {
		return false
	}
	b.left, b.since = b.full-n, now
	return true
}

// Earn gives n back.
func (b *Budget) Earn(n int) { b.left = min(b.left+n, b.full) }
