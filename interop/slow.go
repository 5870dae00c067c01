package main

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// slowTimeout is connTimeout of the section, in seconds.
const slowTimeout = 8

// slow lets slowhttptest hold thousands of connections by heads, bodies and
// readers that hardly move, while ordinary clients are served as if it were not
// there: by files, by a proxied backend and by a FastCGI application of four
// workers.
func slow(r *run) error {
	if err := manyFiles(); err != nil {
		return err
	}
	b, err := startBackend()
	if err != nil {
		return err
	}
	defer b.stop()
	app, err := fcgiMortal(filepath.Join(r.dir, "slow.sock"))
	if err != nil {
		return err
	}
	defer app.Down()
	j, err := r.serve(tree{name: "slow", tuning: fmt.Sprintf("<connTimeout>%d</connTimeout><keepAliveTimeout>60</keepAliveTimeout>", slowTimeout),
		vhost: b.vhost() + `
  <extProcessor>
    <type>fcgi</type><name>four</name><address>uds:/` + app.Address + `</address>
    <maxConns>4</maxConns><initTimeout>10</initTimeout><bodyTimeout>` + fmt.Sprint(slowTimeout) + `</bodyTimeout>
  </extProcessor>
  <scriptHandler><suffix>fcgi</suffix><type>fcgi</type><handler>four</handler></scriptHandler>`,
		files: map[string]string{"htdocs/small.txt": "small\n", "htdocs/big.bin": string(noise(256 << 10)), "htdocs/run.fcgi": "#!\n"}})
	if err != nil {
		return err
	}
	defer r.down(j)
	s := &slowness{run: r, j: j, conns: r.pick(300, 2000)}
	r.check("normal-traffic-alone", func() (string, error) {
		var t traffic
		stop := t.begin(j)
		time.Sleep(5 * time.Second)
		stop()
		return t.verdict()
	})
	base := "http://" + j.http
	r.check("slow-heads", func() (string, error) { return s.attack(true, "-H", "-i", "3", "-x", "24", "-u", base+"/small.txt") })
	r.check("slow-bodies-to-fcgi", func() (string, error) {
		return s.attack(true, "-B", "-i", "3", "-x", "10", "-s", "8192", "-t", "POST", "-u", base+"/run.fcgi")
	})
	r.check("silent-bodies-to-proxy", func() (string, error) {
		return s.attack(true, "-B", "-i", "100", "-s", "8192", "-t", "POST", "-u", base+"/m/sink")
	})
	// The kernel holds what they do not read, 2,000 times this are half a GiB; they
	// are kept open behind it.
	r.check("slow-readers", func() (string, error) {
		return s.attack(false, "-X", "-w", "256", "-y", "512", "-n", "5", "-z", "32", "-u", base+"/big.bin")
	})
	return nil
}

// manyFiles raises the limit of open files, for this process and those it starts.
func manyFiles() error {
	var lim syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &lim); err != nil {
		return err
	}
	if lim.Max < 8192 {
		return fmt.Errorf("%d open files are allowed, 8192 are needed", lim.Max)
	}
	lim.Cur = min(lim.Max, 65536)
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lim)
}

// A slowness is the state of the section.
type slowness struct {
	*run
	j     *jet
	conns int
}

// attack runs slowhttptest with normal traffic beside it. cut: all its connections
// have to be closed by httpjet before it would give up by itself. It fails for
// errors of normal traffic, and if slowhttptest finds the server unavailable;
// times are told.
func (s *slowness) attack(cut bool, args ...string) (string, error) {
	most := time.Duration(s.pick(20, 40)) * time.Second
	args = append([]string{"-c", fmt.Sprint(s.conns), "-r", fmt.Sprint(s.conns / 2), "-l", fmt.Sprint(int(most.Seconds())), "-p", "5"}, args...)
	var t traffic
	stop := t.begin(s.j)
	began, peak := time.Now(), 0.0
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(200 * time.Millisecond):
				if n, err := s.j.metric("httpjet_active_connections"); err == nil {
					peak = max(peak, n)
				}
			}
		}
	})
	out, err := exec.CommandContext(s.ctx, "slowhttptest", args...).CombinedOutput()
	took := time.Since(began)
	close(done)
	watch.Wait()
	stop()
	said, bad := t.verdict()
	said = fmt.Sprintf("%.0f connections at once, over after %.0f s; normal: %s", peak, took.Seconds(), said)
	errs := []error{bad}
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		errs = append(errs, err)
	}
	plain := colours.ReplaceAll(out, nil)
	if !regexp.MustCompile(`service available:\s+YES`).Match(plain) || bytes.Contains(plain, []byte("service available:   NO")) {
		errs = append(errs, fmt.Errorf("slowhttptest: %s", tail(plain)))
	}
	if peak < float64(s.conns)*0.9 {
		errs = append(errs, fmt.Errorf("only %.0f connections of %d were open at once", peak, s.conns))
	}
	if cut && took > most-5*time.Second {
		errs = append(errs, fmt.Errorf("connections were open to the end, %v", took))
	}
	return said, errors.Join(errs...)
}

// colours are the escapes in what slowhttptest prints.
var colours = regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`)

// traffic is what ordinary clients see.
type traffic struct {
	mu    sync.Mutex
	times []time.Duration
	errs  []error
	bad   int
}

// begin starts ordinary clients, some on kept connections and some on new ones.
func (t *traffic) begin(j *jet) (stop func()) {
	quit := make(chan struct{})
	var all sync.WaitGroup
	for i := range 12 {
		c := j.plain()
		c.Timeout = 20 * time.Second
		all.Go(func() {
			defer c.CloseIdleConnections()
			for n := i; ; n++ {
				select {
				case <-quit:
					return
				case <-time.After(5 * time.Millisecond):
				}
				if i%2 == 0 {
					c.CloseIdleConnections() // the next request has a new one
				}
				began := time.Now()
				err := t.one(c, n)
				t.note(time.Since(began), err)
			}
		})
	}
	return func() { close(quit); all.Wait() }
}

// one is one request: a file, a proxied one, a body to the application.
func (t *traffic) one(c *client, n int) error {
	var a *answer
	var err error
	body := "small\n"
	switch n % 3 {
	case 0:
		a, err = c.get("/small.txt", 200)
	case 1:
		a, err = c.get("/m/small", 200)
	default:
		body = strings.Repeat("body", 500)
		a, err = want(200)(c.send("POST", "/run.fcgi", strings.NewReader(body), int64(len(body))))
	}
	if err != nil {
		return err
	}
	return same(a.body, []byte(body))
}

func (t *traffic) note(took time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.times = append(t.times, took)
	if err != nil {
		t.bad++
		if len(t.errs) < 3 {
			t.errs = append(t.errs, err)
		}
	}
}

// verdict fails for any error; times are told.
func (t *traffic) verdict() (string, error) {
	if len(t.times) == 0 {
		return "", errors.New("no normal request was made")
	}
	slices.Sort(t.times)
	at := func(part float64) float64 { return t.times[int(part*float64(len(t.times)-1))].Seconds() * 1e3 }
	said := fmt.Sprintf("%d requests, %d failed, p50 %.1f ms, p99 %.1f ms, most %.0f ms", len(t.times), t.bad, at(0.5), at(0.99), at(1))
	if t.bad > 0 {
		return "", fmt.Errorf("%s: %w", said, errors.Join(t.errs...))
	}
	return said, nil
}
