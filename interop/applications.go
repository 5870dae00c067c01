package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/fcgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// uploadGrowth is by how much httpjet may grow while a GiB of declared length
	// passes through.
	uploadGrowth = 32 << 20
	// heldMost is totalReqBufSize of the section.
	heldMost = 256 << 20
	// uploadPart is the size of one of many uploads at once.
	uploadPart = 10 << 20
)

// applications measures what must hold of FastCGI applications: bodies that are too
// large to hold, and PHP-FPM that dies all the time; and the identities of programs
// that httpjet starts.
func applications(r *run) error {
	if err := bodies(r); err != nil {
		return err
	}
	if err := fpmDies(r); err != nil {
		return err
	}
	return identities(r)
}

// bodies sends large bodies to an application in this process.
func bodies(r *run) error {
	app, err := newMortal("unix", filepath.Join(r.dir, "sink.sock"), func(l net.Listener) { fcgi.Serve(l, http.HandlerFunc(sink)) })
	if err != nil {
		return err
	}
	defer app.Down()
	j, err := r.serve(tree{name: "bodies", tuning: fmt.Sprintf("<totalReqBufSize>%d</totalReqBufSize><maxReqBodySize>2047M</maxReqBodySize>", heldMost), vhost: `
  <docRoot>$VH_ROOT/htdocs</docRoot>
  <extProcessorList><extProcessor><type>fcgi</type><name>app</name><address>uds:/` + app.Address + `</address>
    <maxConns>20</maxConns><initTimeout>60</initTimeout><retryTimeout>0</retryTimeout><autoStart>0</autoStart></extProcessor></extProcessorList>
  <contextList><context><type>fcgi</type><uri>/sink</uri><handler>app</handler></context></contextList>`})
	if err != nil {
		return err
	}
	defer r.down(j)
	c := j.plain()
	c.Timeout = 5 * time.Minute
	if _, err := want(200)(c.send("POST", "/sink", unsized(noise(1<<20)), -1)); err != nil {
		return err
	}
	m := &meter{j: j, most: uploadGrowth}
	r.check("1-GiB-of-declared-length", func() (string, error) { return m.declared(c) })
	n := r.pick(50, 200)
	r.check(fmt.Sprintf("%d-chunked-uploads-of-10-MiB-at-once", n), func() (string, error) { return m.crowd(n) })
	return nil
}

func (m *meter) declared(c *client) (string, error) {
	var took time.Duration
	grown, err := m.growth(func() error {
		began := time.Now()
		a, err := want(200)(c.send("POST", "/sink", &source{left: gib}, gib))
		took = time.Since(began)
		if err != nil {
			return err
		}
		return same(a.body, fmt.Appendf(nil, "%d\n", gib))
	})
	return fmt.Sprintf("%.1f s, resident growth %.1f MiB (limit 32)", took.Seconds(), mib(grown)), err
}

// crowd sends many bodies at once whose length nobody declares, until each has been
// taken. What httpjet holds of them all stays within its budget; who finds it used up
// is told so.
func (m *meter) crowd(n int) (string, error) {
	m.most = heldMost
	stop := make(chan struct{})
	var watcher sync.WaitGroup
	var held int64
	watcher.Go(func() { held = m.watchHeld(stop) })
	var told, cut atomic.Int64
	began := time.Now()
	grown, err := m.growth(func() error {
		errs := make([]error, n)
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() { errs[i] = m.uploadUntilTaken(&told, &cut) })
		}
		all.Wait()
		return errors.Join(errs...)
	})
	close(stop)
	watcher.Wait()
	said := fmt.Sprintf("all taken in %.1f s; %d refused for want of room and sent again, %d of them cut; at most %.1f MiB held in files (limit %d), resident growth %.1f MiB",
		time.Since(began).Seconds(), told.Load()+cut.Load(), cut.Load(), mib(held), heldMost>>20, mib(grown))
	if err == nil && held > heldMost+uploadPart { // the files are not looked at in one moment
		err = errors.New(said)
	}
	return said, err
}

// uploadUntilTaken sends one body again until it is taken.
func (m *meter) uploadUntilTaken(told, cut *atomic.Int64) error {
	c := m.j.plain()
	c.Timeout = 2 * time.Minute
	defer c.CloseIdleConnections()
	deadline := time.Now().Add(4 * time.Minute)
	for time.Now().Before(deadline) {
		a, err := c.send("POST", "/sink", struct{ io.Reader }{&source{left: uploadPart}}, -1)
		switch {
		case err != nil: // it may be told while the client still writes
			cut.Add(1)
		case a.StatusCode == 200:
			return same(a.body, fmt.Appendf(nil, "%d\n", uploadPart))
		case a.StatusCode == 503 && a.Header.Get("X-Httpjet-Proxy-Error") == "fcgi_unavailable":
			told.Add(1)
		default:
			return fmt.Errorf("%s %s", a.Status, a.Header.Get("X-Httpjet-Proxy-Error"))
		}
		time.Sleep(500*time.Millisecond + rand.N(time.Second))
	}
	return errors.New("a body was refused for four minutes")
}

// watchHeld returns the most bytes that httpjet's files of bodies had together.
func (m *meter) watchHeld(stop chan struct{}) (most int64) {
	for {
		select {
		case <-stop:
			return most
		case <-time.After(20 * time.Millisecond):
		}
		sum := int64(0)
		m.j.descriptors(func(to, at string) {
			if !strings.Contains(to, "httpjet-body-") {
				return
			}
			if info, err := os.Stat(at); err == nil {
				sum += info.Size()
			}
		})
		most = max(most, sum)
	}
}

// fpmDies makes 10,000 requests of a script while PHP-FPM's children are killed, and
// sometimes all of it.
func fpmDies(r *run) error {
	dir := filepath.Join(r.dir, "dies")
	if err := writeFiles(dir, map[string]string{"t.php": lsapiPHP}); err != nil {
		return err
	}
	pool, err := r.newPool("dies", "")
	if err != nil {
		return err
	}
	if err := pool.up(); err != nil {
		return err
	}
	defer func() { pool.stop() }()
	j, err := r.serve(tree{name: "dies", vhost: pool.vhost(dir, "")})
	if err != nil {
		return err
	}
	defer r.down(j)
	r.check("php-fpm-dies-at-random", func() (string, error) {
		killed := 0
		t := &storm{j: j, path: "/t.php?bytes=40000", canary: canary,
			tokens: []string{"502 fcgi_protocol", "503 fcgi_unavailable", "504 upstream_timeout", "503 no_upstream"}}
		t.kill = func() bool {
			if killed++; killed%40 != 0 {
				return killChild(pool.process)
			}
			if err := errors.Join(pool.stop(), pool.up()); err != nil {
				t.wrong(err)
			}
			return true
		}
		said, err := t.run(siteWorkers)
		if err != nil {
			return "", err
		}
		_, err = j.plain().get("/t.php", 200)
		return said, err
	})
	return nil
}

// identities starts programs as other users (R-LSAPI-6).
func identities(r *run) error {
	if os.Geteuid() != 0 {
		r.report("started-as-another-user", "not run: this is not root", nil)
		return nil
	}
	dir := filepath.Join(r.dir, "started")
	if err := writeFiles(dir, map[string]string{"app.pl": appPL}); err != nil {
		return err
	}
	processor := func(name, more string) string {
		return strings.NewReplacer("{{name}}", name, "{{more}}", more, "{{dir}}", dir).Replace(`
    <extProcessor><type>fcgi</type><name>{{name}}</name><address>uds://$SERVER_ROOT/{{name}}.sock</address><path>/usr/bin/perl {{dir}}/app.pl</path>
      <maxConns>4</maxConns><initTimeout>20</initTimeout><autoStart>1</autoStart>{{more}}</extProcessor>`)
	}
	context := func(name string) string {
		return "<context><type>fcgi</type><uri>/" + name + "</uri><handler>" + name + "</handler></context>"
	}
	j, err := r.serve(tree{name: "started", vhost: `
  <docRoot>$VH_ROOT/htdocs</docRoot>
  <extProcessorList>` + processor("user", "<extUser>nobody</extUser>") + processor("group", "<extUser>nobody</extUser><extGroup>users</extGroup>") +
		processor("low", "<extUser>daemon</extUser>") + processor("unknown", "<extUser>no-such-user</extUser>") + `</extProcessorList>
  <contextList>` + context("user") + context("group") + context("low") + context("unknown") + `</contextList>`})
	if err != nil {
		return err
	}
	defer r.down(j)
	c := j.plain()
	r.check("started-as-extUser", func() (string, error) {
		var got []string
		for _, name := range []string{"user", "group"} {
			a, err := c.get("/"+name, 200)
			if err != nil {
				return "", err
			}
			want := map[string]string{"user": "IDS=65534 65534 65534 65534\n", "group": "IDS=65534 65534 100 100\n"}[name]
			if err := holds(a, want); err != nil {
				return "", err
			}
			got = append(got, strings.TrimSpace(want))
		}
		return "uid, effective uid, gid and groups: " + strings.Join(got, ", "), nil
	})
	r.check("below-minUID-is-refused", func() (string, error) {
		for _, name := range []string{"low", "unknown"} {
			if _, err := c.get("/"+name, 503); err != nil {
				return "", err
			}
		}
		return "503 for uid 1 and for a user that is not there", j.finds(r, nil, "user id 1 is below minUID 11", "there is no user no-such-user")
	})
	r.check("refused-without-root", func() (string, error) {
		return "", j.finds(r, []string{"setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"}, "httpjet does not run as root")
	})
	return nil
}

// finds wants findings of httpjet check over the tree, run behind a prefix.
func (j *jet) finds(r *run, prefix []string, texts ...string) error {
	args := append(prefix, r.bin, "--root", j.root, "check")
	out, err := exec.CommandContext(r.ctx, args[0], args[1:]...).CombinedOutput()
	for _, t := range append(texts, "E-AUTOSTART") {
		if !bytes.Contains(out, []byte(t)) {
			return fmt.Errorf("check finds no %q (%v):\n%s", t, err, out)
		}
	}
	return nil
}
