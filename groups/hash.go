package groups

import (
	"math"
	"math/bits"
	"net/netip"
)

// HashAddr is Choice.Hash of a client's address; 0 if there is none.
func HashAddr(a netip.Addr) uint64 {
	if !a.IsValid() {
		return 0
	}
	b := a.Unmap().As16()
	h := uint64(fnvBasis)
	for _, c := range b {
		h = (h ^ uint64(c)) * fnvPrime
	}
	return mix(h) | 1
}

// HashString is Choice.Hash of the value of a cookie; 0 if it is empty. It is the
// same in every process: FNV-1a, well mixed.
func HashString(s string) uint64 {
	if s == "" {
		return 0
	}
	h := uint64(fnvBasis)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * fnvPrime
	}
	return mix(h) | 1
}

const (
	fnvBasis = 14695981039346656037
	fnvPrime = 1099511628211
)

// mix spreads every bit over all bits (the finalizer of SplitMix64).
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// draw is what a peer draws with.
type draw struct {
	hash, salt uint64
	share      uint64 // 2^24/weight
}

func newDraw(id string, weight int) draw {
	h := HashString(id)
	return draw{hash: h, salt: mix(h) | 1, share: 1 << 24 / uint64(weight)}
}

// rendezvous is the weighted rendezvous (highest random weight): each peer draws
// u from the client and itself, and the least -log(u)/weight wins. So the shares
// follow the weights, the clients of a peer that goes are spread over the others,
// and they alone move; when it comes back, so do they (R-LB-6, G20). nil is all
// peers; the result is -1 if nobody can.
func (g *Group) rendezvous(client uint64, can *set) int {
	best, least := -1, uint64(math.MaxUint64)
	for i := range g.draws {
		if can != nil && !can.has(i) {
			continue
		}
		d := &g.draws[i]
		cost := ^d.draw(client)
		if !g.equal { // else the largest draw wins as it is
			cost = negLog(^cost) * d.share
		}
		if cost < least {
			least, best = cost, i
		}
	}
	return best
}

// draw is u, times 1<<64.
func (d *draw) draw(client uint64) uint64 {
	hi, lo := bits.Mul64(client^d.hash, d.salt)
	return hi ^ lo
}

// logSteps is the number of pieces of the table of logarithms.
const logSteps = 1 << 10

// logs holds log2(1+i/logSteps) as 32.32 fixed point, and how much more the next one
// is. It never changes.
var logs = logTable()

func logTable() (t [logSteps]struct{ low, step uint64 }) {
	at := func(i int) uint64 { return uint64(math.Round(math.Log2(1+float64(i)/logSteps) * (1 << 32))) }
	for i := range t {
		t[i].low, t[i].step = at(i), at(i+1)-at(i)
	}
	return t
}

// negLog is -log2(u/2^64) as 6.32 fixed point, by table and straight line between
// its points; the error is below 2^-22. A logarithm proper costs five times as
// much. The exponent of a float is the position of the leading bit, and comes
// cheaper than by counting.
func negLog(u uint64) uint64 {
	f := math.Float64bits(float64(int64(u>>1 | 1)))
	l := &logs[f>>42&(logSteps-1)]
	return (1023+63-f>>52)<<32 - l.low - l.step*(f<<22>>42)>>22
}
