package extproc

import (
	"context"
	"time"
)

// An Expirer closes what has been idle too long at now.
type Expirer interface{ Expire(now time.Time) }

// ExpireIdle expires what list returns once a second until ctx is done. One
// goroutine of the process runs it for all pools, so that an idle pool costs
// none.
func ExpireIdle(ctx context.Context, list func() []Expirer) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for _, e := range list() {
				e.Expire(now)
			}
		}
	}
}
