package compress

import (
	"testing"
	"testing/synctest"
	"time"

	"httpjet/coding"
)

// slowly is a client that takes an hour for every write.
type slowly struct{ n int }

func (s *slowly) Write(p []byte) (int, error) {
	time.Sleep(time.Hour)
	s.n++
	return len(p), nil
}

// The time of a coding is told once for each body, without that in which it was sent:
// the clock of the test stands still but for the client.
func TestTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewEncoders(64 << 20)
		var took []time.Duration
		e.Took = func(d time.Duration) { took = append(took, d) }
		for _, c := range coding.All {
			s := &slowly{}
			z := e.lend(c, 5, s)
			for range 10 {
				z.Write([]byte(noise(40_000)))
				z.Flush()
			}
			z.Close()
			e.giveBack(z)
			if s.n < 10 {
				t.Errorf("%s: %d writes", c.Name(), s.n)
			}
		}
		e.giveBack(e.lend(coding.Gzip, 5, &slowly{})) // of nothing
		if len(took) != 3 || took[0]+took[1]+took[2] != 0 {
			t.Errorf("%v", took)
		}
	})
}
