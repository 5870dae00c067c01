package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// parentPHP tells the process that the children of lsphp come from.
const parentPHP = `<?php
$stat = file_get_contents('/proc/self/stat');
echo explode(' ', substr($stat, strrpos($stat, ')') + 2))[1];
`

// A keptPHP is httpjet with an lsphp that outlives it.
type keptPHP struct {
	r    *run
	j    *jet
	conf string // file of the virtual host
	pid  int    // of the server
}

// keeps has httpjet start lsphp with runOnStartUp 3, and end and begin anew around it.
func keeps(r *run, program string) error {
	as := ""
	if os.Geteuid() == 0 {
		as = "<extUser>www-data</extUser>"
	}
	j, err := r.serve(tree{name: "kept", vhost: `
  <docRoot>$VH_ROOT/htdocs</docRoot>
  <extProcessorList><extProcessor><type>lsapi</type><name>php</name><address>uds://$SERVER_ROOT/run/php.sock</address><path>` + program + ` -n</path>
    <env>PHP_LSAPI_CHILDREN=4</env><maxConns>4</maxConns><initTimeout>20</initTimeout><autoStart>1</autoStart><runOnStartUp>3</runOnStartUp>` + as + `</extProcessor></extProcessorList>
  <scriptHandlerList><scriptHandler><suffix>php</suffix><type>lsapi</type><handler>php</handler></scriptHandler></scriptHandlerList>`,
		files: map[string]string{"htdocs/p.php": parentPHP}})
	if err != nil {
		return err
	}
	k := &keptPHP{r: r, j: j, conf: filepath.Join(j.root, "conf/vhosts/kept/vhconf.xml"), pid: j.cmd.Process.Pid}
	r.check("lsphp-outlives-a-restart", k.restart)
	r.check("lsphp-outlives-upgrades", k.upgrades)
	r.check("lsphp-reload-has-no-gap", k.renew)
	r.check("changed-lsphp-is-replaced", k.changed)
	r.check("the-keeper-ends-everything", k.end)
	return nil
}

// parent is the lsphp that answers.
func (k *keptPHP) parent() (int, error) {
	a, err := k.j.plain().get("/p.php", 200)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(a.body))
}

func (k *keptPHP) restart() (string, error) {
	before, err := k.parent()
	if err != nil {
		return "", err
	}
	if err := k.j.stop(); err != nil {
		return "", err
	}
	if err := syscall.Kill(before, 0); err != nil {
		return "", fmt.Errorf("lsphp ended with the server: %w", err)
	}
	began := time.Now()
	if k.j.process, err = k.r.start(k.r.bin, "--root", k.j.root, "serve", "--metrics-addr", k.j.metrics); err != nil {
		return "", err
	}
	k.pid = k.j.cmd.Process.Pid
	if err := k.j.ready(k.r.ctx, k.j.live); err != nil {
		return "", err
	}
	after, err := k.parent()
	if err == nil && after != before {
		err = fmt.Errorf("process %d before, %d after", before, after)
	}
	return fmt.Sprintf("process %d before and after, first page %.0f ms after the start", before, float64(time.Since(began).Milliseconds())), err
}

func (k *keptPHP) upgrades() (string, error) {
	before, err := k.parent()
	if err != nil {
		return "", err
	}
	said, err := k.during(func() error {
		for range 3 {
			out, err := exec.CommandContext(k.r.ctx, k.r.bin, "--root", k.j.root, "upgrade").CombinedOutput()
			if err != nil {
				return fmt.Errorf("upgrade: %w: %s", err, out)
			}
			if k.pid, err = strconv.Atoi(strings.Fields(string(out) + " x x")[1]); err != nil {
				return fmt.Errorf("upgrade says %q", out)
			}
		}
		after, err := k.parent()
		if err == nil && after != before {
			err = fmt.Errorf("process %d before, %d after", before, after)
		}
		return err
	})
	return "3 upgrades, " + said, err
}

func (k *keptPHP) renew() (string, error) {
	return k.replaced(func() error {
		return k.r.command(k.r.bin, "--root", k.j.root, "lsphp", "reload")
	})
}

func (k *keptPHP) changed() (string, error) {
	text, err := os.ReadFile(k.conf)
	if err != nil {
		return "", err
	}
	return k.replaced(func() error {
		return os.WriteFile(k.conf, []byte(strings.Replace(string(text), "</env>", "</env><env>CHANGED=1</env>", 1)), 0o644)
	})
}

// replaced does something that replaces lsphp, and waits until the old one is gone.
func (k *keptPHP) replaced(do func() error) (string, error) {
	before, err := k.parent()
	if err != nil {
		return "", err
	}
	return k.during(func() error {
		if err := do(); err != nil {
			return err
		}
		for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			if after, err := k.parent(); err != nil || after != before && syscall.Kill(before, 0) != nil {
				return err
			}
		}
		return fmt.Errorf("process %d is there after a minute", before)
	})
}

// during makes requests, each on a connection of its own, while f runs: all of them have
// to be answered.
func (k *keptPHP) during(f func() error) (string, error) {
	var n, over atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		all.Go(func() {
			c := newClient("http://"+k.j.http, &http.Transport{DisableKeepAlives: true})
			for over.Load() == 0 && errs[i] == nil {
				method := [2]string{"GET", "POST"}[n.Load()%2]
				a, err := want(200)(c.send(method, "/p.php", strings.NewReader("body"), 4))
				if errs[i] = err; err == nil && len(a.body) > 0 {
					n.Add(1)
				}
			}
		})
	}
	err := f()
	over.Store(1)
	all.Wait()
	return fmt.Sprintf("%d requests meanwhile, all answered", n.Load()), errors.Join(append(errs, err)...)
}

// end ends the server, then the keeper, which takes lsphp along.
func (k *keptPHP) end() (string, error) {
	php, err := k.parent()
	if err != nil {
		return "", err
	}
	lock, err := os.ReadFile(filepath.Join(k.j.root, "run/applications.lock"))
	if err != nil {
		return "", err
	}
	keeper, err := strconv.Atoi(strings.TrimSpace(string(lock)))
	if err != nil {
		return "", err
	}
	for _, pid := range []int{k.pid, keeper} {
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			return "", err
		}
	}
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if syscall.Kill(php, 0) != nil && syscall.Kill(keeper, 0) != nil {
			return "", nil
		}
	}
	return "", fmt.Errorf("of server %d, keeper %d and lsphp %d something is left", k.pid, keeper, php)
}
