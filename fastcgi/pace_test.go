package fastcgi

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"httpjet/gateway"
)

// dripping is a body of n bytes that come one by one, or piece by piece.
type dripping struct {
	n, piece int
	pause    time.Duration
}

func (d *dripping) Read(p []byte) (int, error) {
	if d.n == 0 {
		return 0, io.EOF
	}
	<-time.After(d.pause)
	n := min(d.n, d.piece, len(p))
	d.n -= n
	return n, nil
}

// A body that trickles is cut though none of its pauses is too long, held or
// streamed; one that comes slowly but steadily is not, nor one whose application
// is slow (R-FCGI-6).
func TestG63TrickledBodyIsCut(t *testing.T) {
	f := func(length int64, body *dripping, appPause time.Duration, want string, after time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			target := unixTarget("")
			target.BodyTimeout, target.HeadTimeout = 30*time.Second, time.Hour
			c := newClient(t, target, Options{Dial: pipeDial(func(_ int, p *peer) {
				if _, err := p.hearHead(); err != nil {
					return
				}
				for {
					typ, b, err := p.record()
					if err != nil {
						return
					}
					if typ == typeStdin && len(b) == 0 {
						break
					}
					<-time.After(appPause)
				}
				p.say(t, okReply)
			})})
			began := time.Now()
			_, _, err := fetch(c, post(length, body))
			if describe(err) != want {
				t.Errorf("length %d: %v, want %s", length, err, want)
			}
			if took := time.Since(began); want != "ok" && (took < after || took > after+10*time.Second) {
				t.Errorf("length %d: cut after %v, want about %v", length, took, after)
			}
			c.Retire()
		})
	}
	const big = gateway.HeldMax + 100_000
	trickle := func(n int) *dripping { return &dripping{n: n, piece: 1, pause: 5 * time.Second} }
	f(100, trickle(100), 0, "408 request_stalled", 30*time.Second)
	f(-1, trickle(100), 0, "408 request_stalled", 30*time.Second)
	f(big, trickle(big), 0, "408 request_stalled", 30*time.Second)
	steady := func(n int) *dripping { return &dripping{n: n, piece: 6000, pause: 5 * time.Second} }
	f(100_000, steady(100_000), 0, "ok", 0)
	f(-1, steady(big), 0, "ok", 0)
	f(big, steady(big), 0, "ok", 0)
	f(big, &dripping{n: big, piece: 1000}, 10*time.Second, "ok", 0)
	f(6, &dripping{n: 6, piece: 1, pause: 5 * time.Second}, 0, "ok", 0)
}

// Half a head that cannot become a good one is answered at once (R-FCGI-10).
func TestMalformedHalfHeadIs502(t *testing.T) {
	for _, half := range []string{`stdout "no field\r\n"`, `stdout "Bad Name: x"`, `stdout "X: a\nY"`, `stdout "X: \x00"`, `stdout "Status: 999\r\n"`, `stdout "<html>"`,
		`stdout "X: y\r\n Z"`, `stdout "Transfer-Encoding: chunked\r\n"`} {
		target := rawApp(t, func(_ int, p *peer) {
			p.hear()
			p.say(t, half)
			io.Copy(io.Discard, p)
		})
		c := newClient(t, target, Options{})
		if _, _, err := fetch(c, get()); describe(err) != "502 fcgi_protocol" {
			t.Errorf("%s: %v", half, err)
		}
	}
	c := newClient(t, rawApp(t, func(_ int, p *peer) {
		p.hear()
		p.say(t, "stdout \"Content-Ty\"\nstdout \"pe: text/pl\"\nstdout \"ain\\r\"\nstdout \"\\n\\r\"\nstdout \"\\nok\"\nstdout \"\"\nend 0")
	}), Options{})
	r, err := c.Do(t.Context(), get())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := io.ReadAll(r.Body); string(b) != "ok" || err != nil || r.Fields.Get("Content-Type") != "text/plain" {
		t.Errorf("%q, %v, %v", b, err, r.Fields)
	}
}
