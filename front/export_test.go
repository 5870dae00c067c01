package front

// Expect makes the server act as if n connections had been parked.
func (s *Server) Expect(n int64) { s.crowd.count.Store(n) }

// CrowdSize is how many of them make a crowd.
const CrowdSize = crowdSize

// RefuseWatches makes the watcher take nobody, as if the kernel had no room.
func (s *Server) RefuseWatches() { s.watch().Close() }
