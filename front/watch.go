package front

import (
	"time"

	"httpjet/epoll"
)

// watchAfter is how long an exchange has been served before its client is watched:
// what is quicker costs no system call (R-STREAM-5).
const watchAfter = 50 * time.Millisecond

// clientWatch is the watch of the client of one exchange, also while nobody reads
// what the client has sent: first for watchAfter to pass, then for the end of the
// client. A client that sends no more is gone: a close and a half-close look the same
// until something is written. The exchange takes the watch back when it ends.
type clientWatch struct {
	epoll.Watch
	x *clientCtx
	w *epoll.Watcher
}

// begin hands the watch to the watcher. Once the exchange has ended it is taken back
// by whoever of the two comes last.
func (h *clientWatch) begin() {
	if time.Until(h.Until) <= 0 {
		h.Until, h.Socks[0] = time.Time{}, h.x.c.sock.raw.Raw()
		h.x.c.srv.watches.Add(1)
	}
	if h.w.Add(&h.Watch) && h.x.unwatched() {
		h.w.Remove(&h.Watch)
	}
}

// Woken implements epoll.Owner.
func (h *clientWatch) Woken(why epoll.Reason) {
	switch why {
	case epoll.Ready:
		if !h.x.unwatched() {
			h.x.cancel()
		}
	case epoll.Late:
		h.begin()
	}
}
