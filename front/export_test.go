package front

// Expect makes the server act as if n connections had been parked.
func (s *Server) Expect(n int64) { s.crowd.count.Store(n) }

// CrowdSize is how many of them make a crowd.
const CrowdSize = crowdSize

// RefuseWatches makes the watcher take nobody, as if the kernel had no room.
func (s *Server) RefuseWatches() { s.watch().Close() }

// QueuedH2 returns how many streams of all HTTP/2 connections wait for their turn to send.
func QueuedH2(s *Server) (n int) {
	for _, c := range s.snapshot() {
		if h := c.h2.Load(); h != nil {
			h.mu.Lock()
			n += len(h.queue)
			h.mu.Unlock()
		}
	}
	return n
}

// LookedAtH2 returns how many HTTP/2 connections are looked at for stuck readers, and
// whether that goes on.
func LookedAtH2(s *Server) (n int, runs bool) {
	s.h2Watch.mu.Lock()
	defer s.h2Watch.mu.Unlock()
	return len(s.h2Watch.conns), s.h2Watch.runs
}

// Withdrawn reports whether frames withdraw stream id on a connection whose last stream is
// begun.
func Withdrawn(frames []byte, begun, id uint32) bool {
	var a h2Ahead
	a.look(frames, begun)
	return a.withdrawn(id)
}
