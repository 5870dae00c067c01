//go:build interop

package fastcgi

import (
	"bytes"
	"context"
	"crypto/md5"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"httpjet/gateway"
)

// phpScript does what its query asks for.
const phpScript = `<?php
switch ($_SERVER['QUERY_STRING']) {
case 'echo': echo $_SERVER['CONTENT_LENGTH'] ?? '-', ':', md5(file_get_contents('php://input')); break;
case 'redirect': header('Location: /local'); break;
case '404': http_response_code(404); header('Set-Cookie: a=1'); header('Set-Cookie: b=2', false); echo 'nope'; break;
case 'stderr': error_log("first\nsecond\x1b[0m"); echo 'hello'; error_log('third'); break;
case 'fatal': undefined_function(); break;
case 'big': for ($i = 0; $i < 1024; $i++) echo str_repeat('x', 8192); break;
case 'stream': echo 'one'; flush(); fgets(fopen($_SERVER['FIFO'], 'r')); echo 'two'; break;
case 'ignore': echo 'early'; break;
default: echo PHP_SAPI;
}
`

// php starts php-fpm with two static workers and returns a client and the
// directory of the script.
func php(t *testing.T, o Options) (*gateway.Client, string) {
	t.Helper()
	dir := t.TempDir()
	sock := filepath.Join(dir, "fpm.sock")
	conf := fmt.Sprintf("[global]\nerror_log = %[1]s/log\ndaemonize = no\n[www]\nuser = root\ngroup = root\n"+
		"listen = %[1]s/fpm.sock\npm = static\npm.max_children = 2\ncatch_workers_output = no\n"+
		"php_admin_value[log_errors] = 1\nphp_admin_value[output_buffering] = 0\nphp_admin_value[display_errors] = 0\n", dir)
	for name, text := range map[string]string{"fpm.conf": conf, "x.php": phpScript} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program := os.Getenv("PHP_FPM")
	if program == "" {
		program = "php-fpm8.2"
	}
	cmd := exec.Command(program, "-F", "-R", "-n", "-y", filepath.Join(dir, "fpm.conf"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Signal(os.Interrupt); cmd.Wait() })
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for deadline := time.Now().Add(10 * time.Second); ; <-poll.C {
		if c, err := net.Dial("unix", sock); err == nil {
			c.Close()
			break
		}
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Fatalf("php-fpm does not listen: %s", log)
		}
	}
	target := unixTarget(sock)
	target.MaxConns = 2
	return newClient(t, target, o), dir
}

func TestPHP(t *testing.T) {
	c, dir := php(t, Options{})
	vars := func(q string) []string {
		return []string{"SCRIPT_FILENAME=" + dir + "/x.php", "SCRIPT_NAME=/x.php", "QUERY_STRING=" + q,
			"GATEWAY_INTERFACE=CGI/1.1", "REDIRECT_STATUS=200", "CONTENT_TYPE=application/octet-stream", "FIFO=" + dir + "/fifo"}
	}
	f := func(q, want string) {
		t.Helper()
		r, err := c.Do(context.Background(), get(vars(q)...))
		if err != nil {
			t.Errorf("%s: %v", q, err)
			return
		}
		b, err := io.ReadAll(r.Body)
		r.Close()
		got := fmt.Sprint(r.Status, " ", string(b))
		if len(got) > 100 {
			got = fmt.Sprint(r.Status, " ", len(b))
		}
		if got != want || err != nil {
			t.Errorf("%s: %q %v, want %q", q, got, err, want)
		}
		if c.Stats().Idle != 1 {
			t.Errorf("%s: connection not kept", q)
		}
	}
	f("", "200 fpm-fcgi")
	f("redirect", "302 ")
	f("404", "404 nope")
	f("fatal", "500 ")
	f("big", "200 8388608")
	f("echo", "200 -:d41d8cd98f00b204e9800998ecf8427e")

	var lines []string
	call := get(vars("stderr")...)
	call.Log = func(l string) { lines = append(lines, l) }
	if _, body, err := fetch(c, call); body != "hello" || err != nil || !strings.Contains(strings.Join(lines, "|"), "third") {
		t.Errorf("stderr: %q %v %q", body, err, lines)
	}
	t.Logf("stderr: %q", lines)

	head := request("HEAD", 0, nil, vars("404")...)
	if status, body, err := fetch(c, head); status != 404 || body != "" || err != nil {
		t.Errorf("HEAD: %d %q %v", status, body, err)
	}
	missing := get("SCRIPT_FILENAME=/nonexistent.php")
	if status, _, err := fetch(c, missing); status != 404 || err != nil {
		t.Errorf("missing script: %d %v", status, err)
	}
	for _, size := range []int{1, 8192, 70_000, gateway.HeldMax, gateway.HeldMax + 1, 3 << 20} {
		p := pattern(size)
		sum := fmt.Sprintf("%d:%x", size, md5.Sum(p))
		for _, declared := range []int64{-1, int64(size)} {
			_, got, err := fetch(c, post(declared, struct{ io.Reader }{bytes.NewReader(p)}, vars("echo")...))
			if got != sum || err != nil {
				t.Errorf("body %d declared %d: %q %v", size, declared, got, err)
			}
			if _, got, err := fetch(c, post(declared, struct{ io.Reader }{bytes.NewReader(p)}, vars("ignore")...)); got != "early" || err != nil {
				t.Errorf("ignored body %d: %q %v", size, got, err)
			}
		}
	}
	t.Logf("%+v", c.Stats())
}

// A worker that streams is heard before it ends.
func TestPHPStreams(t *testing.T) {
	c, dir := php(t, Options{})
	fifo := filepath.Join(dir, "fifo")
	if err := exec.Command("mkfifo", fifo).Run(); err != nil {
		t.Fatal(err)
	}
	r, err := c.Do(context.Background(), get("SCRIPT_FILENAME="+dir+"/x.php", "QUERY_STRING=stream", "FIFO="+fifo))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b := make([]byte, 10)
	n, err := r.Body.Read(b)
	if string(b[:n]) != "one" || err != nil {
		t.Errorf("%q %v", b[:n], err)
	}
	if err := os.WriteFile(fifo, []byte("go\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(r.Body)
	if string(rest) != "two" || err != nil {
		t.Errorf("%q %v", rest, err)
	}
}

// Workers that stalled clients do not pin: bodies of unknown length that stall,
// then calls through both workers.
func TestPHPStalledClients(t *testing.T) {
	c, dir := php(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	var stalled []chan result
	for range 10 {
		b := newClientBody()
		stalled = append(stalled, fetchLater(ctx, c, b.call(-1)))
		b.parts <- "foo=bar"
	}
	for range 20 {
		if _, body, err := fetch(c, get("SCRIPT_FILENAME="+dir+"/x.php")); body != "fpm-fcgi" || err != nil {
			t.Errorf("%q %v", body, err)
		}
	}
	cancel()
	for _, ch := range stalled {
		<-ch
	}
}
