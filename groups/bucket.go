package groups

import "time"

// Rate is the token bucket of each peer (R-RATE-1). It is comparable; the zero
// value is off.
type Rate struct {
	PerSecond int // tokens that come, up to 1,000,000; 0: off
	Burst     int // tokens that the bucket holds, up to 1,000,000; 0: PerSecond
}

// oneToken is one token in the unit of levels, so that what comes in a nanosecond is
// a whole number.
const oneToken = int64(time.Second)

// bucket is the bucket of one peer. It is guarded by the lock of its State and
// begins full.
type bucket struct {
	level  int64 // tokens at the time filled, times oneToken
	filled time.Time
	missed uint64 // choices that passed the peer over because it was empty
}

// full adds what has come until now and reports whether there is a token.
func (b *bucket) full(r *Rate, now time.Time) bool {
	top := int64(r.Burst) * oneToken
	switch since := now.Sub(b.filled); {
	case b.filled.IsZero() || since >= time.Duration(top/int64(r.PerSecond)):
		b.level, b.filled = top, now
	case since > 0:
		b.level, b.filled = min(top, b.level+int64(since)*int64(r.PerSecond)), now
	}
	if b.level < oneToken {
		b.missed++
		return false
	}
	return true
}

// take takes a token, which full has seen.
func (b *bucket) take() { b.level -= oneToken }
