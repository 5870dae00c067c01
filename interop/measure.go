package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	gib        = 1 << 30
	growthMost = 64 << 20               // resident growth allowed for any one transfer
	eventMost  = 100 * time.Millisecond // from backend to client
)

// measure takes the numbers that must hold: memory while a lot passes through,
// and the delay of events. Memory is asserted. The delay of a single event on a
// machine that also runs other things is not: it is told against its limit, and
// only a median above the limit fails, which is what buffering looks like.
func measure(r *run) error {
	b, err := startBackend()
	if err != nil {
		return err
	}
	defer b.stop()
	j, err := r.serve(tree{name: "measured", secure: true, vhost: b.vhost()})
	if err != nil {
		return err
	}
	defer r.down(j)
	h2, err := j.secure(false)
	if err != nil {
		return err
	}
	m := &meter{j: j, b: b}
	for _, c := range []struct {
		name, proto string
		*client
	}{{"h1", "HTTP/1.1", j.plain()}, {"h2-tls", "HTTP/2.0", h2}} {
		c.Timeout = 5 * time.Minute
		// Connections, buffers and pools of one request are not growth.
		if a, err := c.get("/m/small", 200); err != nil {
			return err
		} else if a.Proto != c.proto {
			return fmt.Errorf("%s instead of %s", a.Proto, c.proto)
		}
		r.check("1-GiB-down-"+c.name, func() (string, error) { return m.down(c.client, "") })
		if r.mode == "full" {
			r.check("1-GiB-down-chunked-"+c.name, func() (string, error) { return m.down(c.client, "&chunked=1") })
			r.check("1-GiB-up-"+c.name, func() (string, error) { return m.up(c.client) })
		}
		r.check("stalled-reader-"+c.name, func() (string, error) { return m.stalled(c.client) })
		r.check("sse-delay-"+c.name, func() (string, error) { return delay(c.client, "/m/events?n=100", 100) })
	}
	r.check("drain-lets-streams-end", func() (string, error) { return m.drain(j.plain(), h2) })
	return nil
}

// A meter measures one httpjet with one backend.
type meter struct {
	j    *jet
	b    *backend
	most int64 // growth allowed; 0: growthMost
}

// growth runs f and returns by how much httpjet's resident memory grew at its
// highest point. The kernel keeps that point: nothing is missed between samples.
func (m *meter) growth(f func() error) (int64, error) {
	before, err := m.j.memory("VmRSS")
	if err != nil {
		return 0, err
	}
	// 5: forget the highest point so far.
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", m.j.cmd.Process.Pid), []byte("5"), 0); err != nil {
		return 0, err
	}
	if err := f(); err != nil {
		return 0, err
	}
	most, err := m.j.memory("VmHWM")
	if err != nil {
		return 0, err
	}
	if most-before >= cmp.Or(m.most, growthMost) {
		return most - before, fmt.Errorf("resident memory grew by %.1f MiB, from %.1f", mib(most-before), mib(before))
	}
	return most - before, nil
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// down fetches a GiB as fast as it comes and checks every byte.
func (m *meter) down(c *client, query string) (string, error) {
	var took time.Duration
	grown, err := m.growth(func() error {
		began := time.Now()
		resp, err := c.Get(c.base + fmt.Sprintf("/m/big?n=%d", gib) + query)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		n, err := io.CopyBuffer(&checker{}, resp.Body, make([]byte, 256<<10))
		took = time.Since(began)
		if err == nil && n != gib {
			err = fmt.Errorf("%d bytes instead of %d", n, gib)
		}
		return err
	})
	return fmt.Sprintf("%.1f s, resident growth %.1f MiB (limit 64)", took.Seconds(), mib(grown)), err
}

// up sends a GiB whose length is not declared.
func (m *meter) up(c *client) (string, error) {
	var took time.Duration
	grown, err := m.growth(func() error {
		began := time.Now()
		body := &source{left: gib}
		a, err := want(http.StatusOK)(c.send("PUT", "/m/sink", struct{ io.Reader }{body}, -1))
		took = time.Since(began)
		if err != nil {
			return err
		}
		return same(a.body, fmt.Appendf(nil, "%d\n", gib))
	})
	return fmt.Sprintf("%.1f s, resident growth %.1f MiB (limit 64)", took.Seconds(), mib(grown)), err
}

// stalled begins to fetch a GiB and stops reading: httpjet may not take the rest
// from the backend. The kernel's socket buffers on both hops take tens of MiB.
func (m *meter) stalled(c *client) (string, error) {
	var ahead int64
	grown, err := m.growth(func() error {
		before := m.b.sent.Load()
		resp, err := c.Get(c.base + fmt.Sprintf("/m/big?n=%d", gib))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if _, err := io.ReadFull(resp.Body, make([]byte, 1<<20)); err != nil {
			return err
		}
		time.Sleep(2 * time.Second) // the stall itself
		ahead = m.b.sent.Load() - before - 1<<20
		if ahead > gib/4 {
			return fmt.Errorf("the backend could send %.1f MiB that nobody read", mib(ahead))
		}
		return nil
	})
	return fmt.Sprintf("backend %.1f MiB ahead, resident growth %.1f MiB (limit 64)", mib(ahead), mib(grown)), err
}

// delay measures how long n events take from the backend, which writes its time
// into them, to the client.
func delay(c *client, path string, n int) (string, error) {
	resp, err := c.Get(c.base + path)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	return delays(resp.Body, n)
}

// delays reads n events that hold the times at which they left.
func delays(body io.Reader, n int) (string, error) {
	var delays []time.Duration
	in := bufio.NewScanner(body)
	for in.Scan() {
		data, ok := strings.CutPrefix(in.Text(), "data: ")
		if !ok {
			continue
		}
		ns, err := strconv.ParseInt(data, 10, 64)
		if err != nil {
			return "", err
		}
		delays = append(delays, time.Since(time.Unix(0, ns)))
	}
	if err := in.Err(); err != nil {
		return "", err
	}
	if len(delays) != n {
		return "", fmt.Errorf("%d events instead of %d", len(delays), n)
	}
	slices.Sort(delays)
	p50, most := delays[n/2], delays[n-1]
	verdict := "ok"
	if most > eventMost {
		verdict = "not ok"
	}
	said := fmt.Sprintf("%d events, p50 %.2f ms, max %.2f ms: %s (limit %d ms)", n, p50.Seconds()*1e3, most.Seconds()*1e3, verdict, eventMost.Milliseconds())
	if p50 > eventMost {
		return "", errors.New(said)
	}
	return said, nil
}

// drain stops httpjet while two streams run: both have to come to their end, and
// then httpjet to its own.
func (m *meter) drain(clients ...*client) (string, error) {
	errs := make([]error, len(clients))
	var all sync.WaitGroup
	var open sync.WaitGroup
	for i, c := range clients {
		open.Add(1)
		all.Go(func() {
			resp, err := c.Get(c.base + "/m/events?n=100")
			open.Done()
			if err != nil {
				errs[i] = err
				return
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if n := bytes.Count(text, []byte("data: ")); err == nil && n != 100 {
				err = fmt.Errorf("%d of 100 events", n)
			}
			errs[i] = err
		})
	}
	open.Wait()
	began := time.Now()
	err := m.j.stop()
	took := time.Since(began)
	all.Wait()
	if took < time.Second {
		errs = append(errs, fmt.Errorf("httpjet ended after %v, before the streams could", took))
	}
	return fmt.Sprintf("two streams of 2 s ended whole, httpjet %.1f s after SIGTERM", took.Seconds()), errors.Join(append(errs, err)...)
}

// A checker takes the pattern and nothing else.
type checker struct{ at int }

func (c *checker) Write(p []byte) (int, error) {
	for n := 0; n < len(p); {
		k := min(len(p)-n, len(pattern)-c.at)
		if !bytes.Equal(p[n:n+k], pattern[c.at:c.at+k]) {
			return n, errors.New("the bytes are not those that were sent")
		}
		n += k
		c.at = (c.at + k) % len(pattern)
	}
	return len(p), nil
}

// A source gives a number of bytes.
type source struct{ left int64 }

func (s *source) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(int64(len(p)), s.left)], pattern)
	s.left -= int64(n)
	return n, nil
}
