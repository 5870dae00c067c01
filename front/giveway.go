package front

import (
	"runtime"
	"sync/atomic"
)

const (
	// waySome is how many steps of others make it worth while to have given way. The
	// next reader that runs makes two.
	waySome = 4

	// wayLeast is how often nobody gives way after one that was in vain, wayMost after
	// many.
	wayLeast = 8
	wayMost  = 1024
)

// way lets readers of HTTP/2 connections give way before they send: what many of them
// have answered goes out one after the other (docs/decisions/012-giving-way.md).
//
// What a reader answers itself has ended when it is sent: the number of exchanges in
// flight (exchange.Exchange.Crowded) says nothing of how many other readers wait for the
// processor. So they try it, and go on for as long as each finds that others have run
// meanwhile; after one that was in vain, because it would wake an idle processor each
// time, they leave it for a while.
type way struct {
	steps atomic.Uint64 // of all that give way: one before, and one behind
	skip  atomic.Int32  // how many do not, before it is tried again
	pause atomic.Int32  // what skip was set to last; 0: it was worth while
}

// give lets others run, if that was of use when it was last tried.
func (w *way) give() {
	if n := w.skip.Load(); n > 0 {
		w.skip.Store(n - 1) // who comes at the same time may be lost
		return
	}
	before := w.steps.Add(1)
	runtime.Gosched()
	w.learn(w.steps.Add(1) - 1 - before)
}

// learn takes how many steps others have made while one gave way.
func (w *way) learn(steps uint64) {
	if steps >= waySome {
		if w.pause.Load() != 0 { // else all processors would write it
			w.pause.Store(0)
		}
		return
	}
	n := min(max(2*w.pause.Load(), wayLeast), wayMost)
	w.pause.Store(n)
	w.skip.Store(n)
}
