package store

import (
	"hash/maphash"
	"sync/atomic"
)

// Sketch estimates how often keys were seen lately, in a fixed amount of memory: a
// count-min sketch of four rows, whose counts are halved from time to time. It never
// tells less than the truth since the last halving. Any number of goroutines may use it;
// counts that are raised at the same moment may be one too low.
type Sketch struct {
	seed  maphash.Seed
	mask  uint64
	cells []atomic.Uint32 // four counts of 8 bits in each, one of every row
	seen  atomic.Uint64   // since the last halving
}

// NewSketch returns one for about n keys, which takes 4 bytes for each.
func NewSketch(n int) *Sketch {
	size := 1024
	for size < n && size < 1<<26 {
		size *= 2
	}
	return &Sketch{seed: maphash.MakeSeed(), mask: uint64(size - 1), cells: make([]atomic.Uint32, size)}
}

// Saw counts one more sighting of key and returns how many there were, this one
// included; at most 255.
func (s *Sketch) Saw(key []byte) int {
	h := maphash.Bytes(s.seed, key)
	least := uint32(255)
	for row := range uint64(4) {
		cell := &s.cells[(h+row*(h>>32|1))&s.mask]
		shift := 8 * row
		for {
			was := cell.Load()
			n := was >> shift & 255
			if n == 255 {
				break
			}
			if cell.CompareAndSwap(was, was+1<<shift) {
				least = min(least, n+1)
				break
			}
		}
	}
	if s.seen.Add(1) == 8*(s.mask+1) {
		s.halve()
	}
	return int(least)
}

// halve lets old sightings count half as much.
func (s *Sketch) halve() {
	s.seen.Store(0)
	for i := range s.cells {
		for {
			was := s.cells[i].Load()
			if s.cells[i].CompareAndSwap(was, was>>1&0x7f7f7f7f) {
				break
			}
		}
	}
}
