package script

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"httpjet/exchange"
	"httpjet/extproc"
	"httpjet/groups"
)

// late is a client whose answers come after a while.
type late struct {
	app
	wait time.Duration
	pid  int
}

func (l *late) Do(x context.Context, c *extproc.Call) (*extproc.Reply, error) {
	time.Sleep(l.wait) // of the bubble
	r, err := l.app.Do(x, c)
	if err == nil {
		r.Took, r.PID = l.wait, l.pid
	}
	return r, err
}

// R-LSAPI-7: a line for each request that is slower than the threshold, and for a sample
// of the others: with its script and process, and no more than 200 bytes of its URI.
func TestSlowLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		client := &late{pid: 4711}
		h := New(Options{Group: groups.Single(client), URI: "/app", Slow: &Slow{Threshold: 50 * time.Millisecond, Sample: 4, Out: &out}})
		f := func(target string, wait time.Duration, fails error, want string) {
			t.Helper()
			out.Reset()
			client.wait, client.err = wait, fails
			x, _ := newExchange("/app")
			x.Req.Target, x.Req.ID, x.Route.VHost = target, "id1", "v\tw"
			h.Serve(x)
			_, got, _ := strings.Cut(out.String(), "\t") // behind the time
			if got != want {
				t.Errorf("%.40s, %v: %q, want %q", target, wait, got, want)
			}
		}
		f("/app?a=1", 50*time.Millisecond, nil, "50.0\t50.0\t200\tv?w\tGET\t/app?a=1\t/app\t4711\tid1\n")
		f("/app?"+strings.Repeat("x", 500), time.Second, nil, "1000.0\t1000.0\t200\tv?w\tGET\t/app?"+strings.Repeat("x", 195)+"\t/app\t4711\tid1\n")
		f("/app", time.Minute, exchange.Fail(504, "upstream_timeout", "late"), "60000.0\t-\t504\tv?w\tGET\t/app\t/app\t-\tid1\n")
		for range 3 {
			f("/app", time.Millisecond, nil, "")
		}
		f("/app", time.Millisecond, nil, "1.0\t1.0\t200\tv?w\tGET\t/app\t/app\t4711\tid1\n")
	})
}
