package rawio

import "os"

// WriteNow writes what the socket takes at once and returns how much that was, which
// may be nothing. It shares its place with Write: one goroutine at a time.
func (s *Socket) WriteNow(p []byte) (int, error) {
	s.out, s.before, s.flags, s.werr = p, nil, 0, 0
	if s.onNow == nil {
		s.onNow = s.tryNow
	}
	err := s.rc.Write(s.onNow)
	n := len(p) - len(s.out)
	s.out = nil
	if err == nil && s.werr != 0 {
		err = os.NewSyscallError("write", s.werr)
	}
	return n, err
}

// tryNow is tryWrite for who does not wait.
func (s *Socket) tryNow(fd uintptr) bool {
	s.tryWrite(fd)
	return true
}
