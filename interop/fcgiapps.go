package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

//go:embed assets/app.pl
var appPL string

//go:embed assets/app.js
var appJS string

// nodeFastCGI is the pinned version of the npm package "node-fastcgi".
const nodeFastCGI = "2.0.0"

// A fcgiApp is one program behind FastCGI that does what assets/app.pl does.
type fcgiApp struct {
	*client
	j    *jet
	name string
	at   string // its path, without a slash at the end
	die  bool   // it ends when it is asked to
}

// fastcgiApps runs programs that are not PHP behind FastCGI, all started by spawn-fcgi:
// one in Perl by libfcgi, one in JavaScript by node-fastcgi, and CGI programs by
// fcgiwrap, git http-backend among them.
func fastcgiApps(r *run) error {
	g := &gitHost{r: r, dir: filepath.Join(r.dir, "fcgi")}
	if err := writeFiles(g.dir, map[string]string{"app.pl": appPL, "node/app.js": appJS}); err != nil {
		return err
	}
	if err := g.prepare(); err != nil {
		return err
	}
	node := filepath.Join(g.dir, "node")
	if err := r.command("npm", "install", "--prefix", node, "--no-audit", "--no-fund", "--loglevel=error", "node-fastcgi@"+nodeFastCGI); err != nil {
		return err
	}
	for name, command := range map[string][]string{"perl": {"perl", g.dir + "/app.pl"}, "node": {"node", node + "/app.js"}, "cgi": {"fcgiwrap", "-f", "-c", "4"}} {
		p, err := r.spawnFCGI(filepath.Join(g.dir, name+".sock"), command...)
		if err != nil {
			return err
		}
		defer p.stopAll()
	}
	j, err := r.serve(tree{name: "fcgi", vhost: strings.ReplaceAll(fcgiVHost, "{{dir}}", g.dir), files: map[string]string{"htdocs/index.html": "files\n",
		// The user git with the password "secret".
		"conf/users": "git:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n"}})
	if err != nil {
		return err
	}
	defer r.down(j)
	for _, a := range []*fcgiApp{{name: "perl", at: "/perl", die: true}, {name: "node", at: "/node", die: true}, {name: "cgi", at: "/bin/app"}} {
		a.client, a.j = j.plain(), j
		r.check(a.name+"-get", a.get)
		r.check(a.name+"-post", a.post)
		r.check(a.name+"-status-and-cookies", a.status)
		r.check(a.name+"-events", func() (string, error) { return delay(a.client, a.at+"?events=50", 50) })
		r.check(a.name+"-large-answer-32M", a.large)
		r.check(a.name+"-stderr-to-error-log", a.stderr)
		r.check(a.name+"-ends-early", a.early)
		r.check(a.name+"-client-leaves", a.abort)
	}
	g.client = j.plain()
	r.check("git-clone", g.clone)
	r.check("git-push-of-8M", g.push)
	r.check("git-without-password-401", g.stranger)
	return nil
}

const fcgiVHost = `
  <docRoot>$VH_ROOT/htdocs</docRoot>
  <extProcessorList>
    <extProcessor><type>fcgi</type><name>perl</name><address>uds:/{{dir}}/perl.sock</address><maxConns>4</maxConns><env>OWN_VARIABLE=of perl</env>
      <initTimeout>20</initTimeout><retryTimeout>0</retryTimeout><persistConn>1</persistConn><autoStart>0</autoStart></extProcessor>
    <extProcessor><type>fcgi</type><name>node</name><address>uds:/{{dir}}/node.sock</address><maxConns>10</maxConns><env>OWN_VARIABLE=of node</env>
      <initTimeout>20</initTimeout><retryTimeout>0</retryTimeout><persistConn>1</persistConn><autoStart>0</autoStart></extProcessor>
    <extProcessor><type>fcgi</type><name>cgi</name><address>uds:/{{dir}}/cgi.sock</address><maxConns>4</maxConns><env>OWN_VARIABLE=of cgi</env>
      <env>NO_BUFFERING=1</env>
      <env>GIT_PROJECT_ROOT={{dir}}/repositories</env><env>GIT_HTTP_EXPORT_ALL=1</env>
      <initTimeout>20</initTimeout><retryTimeout>0</retryTimeout><persistConn>1</persistConn><autoStart>0</autoStart></extProcessor>
  </extProcessorList>
  <security><realmList><realm><name>Git</name><userDB><location>$SERVER_ROOT/conf/users</location></userDB></realm></realmList></security>
  <rewrite><enable>1</enable><rules>
RewriteRule ^/repositories/(.*)$ /git/git-http-backend/$1 [L]
  </rules></rewrite>
  <contextList>
    <context><type>fcgi</type><uri>/perl</uri><handler>perl</handler></context>
    <context><type>fcgi</type><uri>/node</uri><handler>node</handler></context>
    <context><type>cgi</type><uri>/bin/</uri><location>{{dir}}/bin/</location><handler>cgi</handler></context>
    <context><type>cgi</type><uri>/git/</uri><location>{{dir}}/git/</location><handler>cgi</handler><realm>Git</realm></context>
  </contextList>`

// spawnFCGI starts a program with a listening Unix socket as its descriptor 0.
func (r *run) spawnFCGI(sock string, command ...string) (*process, error) {
	program, err := exec.LookPath(command[0]) // it does not look there
	if err != nil {
		return nil, err
	}
	command[0] = program
	p, err := r.start("spawn-fcgi", append([]string{"-n", "-s", sock, "-M", "0666", "--"}, command...)...)
	if err != nil {
		return nil, err
	}
	return p, p.ready(r.ctx, dial("unix", sock))
}

// stopAll ends a process and what it has started, which may outlive it.
func (p *process) stopAll() {
	group := -p.cmd.Process.Pid
	syscall.Kill(group, syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
	}
	syscall.Kill(group, syscall.SIGKILL)
	<-p.done
}

func (a *fcgiApp) get() (string, error) {
	got, err := a.client.get(a.at+"/a%20b/c?x=1&y=%2F", 200, "X-Odd: yes")
	if err != nil {
		return "", err
	}
	return "SCRIPT_NAME, PATH_INFO and an env of its own", holds(got, "REQUEST_METHOD=GET\n", "SCRIPT_NAME="+a.at+"\n", "PATH_INFO=/a b/c\n",
		"QUERY_STRING=x=1&y=%2F\n", "REQUEST_URI="+a.at+"/a%20b/c?x=1&y=%2F\n", "HTTP_X_ODD=yes\n", "OWN_VARIABLE=of "+a.name+"\n", "READ=0\n")
}

func (a *fcgiApp) post() (string, error) {
	for _, n := range []int{1, 256<<10 - 1, 256 << 10, 256<<10 + 1, 5 << 20} {
		data := noise(n)
		for _, declared := range []bool{false, true} {
			body, length := unsized(data), int64(-1)
			if declared {
				body, length = bytes.NewReader(data), int64(n)
			}
			got, err := want(200)(a.send("POST", a.at, body, length, "Content-Type: application/octet-stream"))
			if err == nil {
				err = holds(got, fmt.Sprintf("CONTENT_LENGTH=%d\n", n), fmt.Sprintf("READ=%d\nSHA256=%x\n", n, sha256.Sum256(data)))
			}
			if err != nil {
				return "", fmt.Errorf("%d bytes, declared %t: %v", n, declared, err)
			}
		}
	}
	return "1 B to 5 MiB, chunked and declared, SHA-256 equal", nil
}

func (a *fcgiApp) status() (string, error) {
	got, err := a.client.get(a.at+"?status=418", 418)
	if err != nil {
		return "", err
	}
	if c := got.Header.Values("Set-Cookie"); len(c) != 2 {
		return "", fmt.Errorf("cookies %q", c)
	}
	return "418 with two cookies", holds(got, "status 418\n")
}

func (a *fcgiApp) large() (string, error) {
	got, err := a.client.get(fmt.Sprintf("%s?bytes=%d", a.at, 32<<20), 200)
	if err != nil {
		return "", err
	}
	_, err = (&checker{}).Write(got.body)
	if err == nil && len(got.body) != 32<<20 {
		err = fmt.Errorf("%d bytes", len(got.body))
	}
	return "32 MiB", err
}

func (a *fcgiApp) stderr() (string, error) {
	mark := a.name + strconv.Itoa(os.Getpid())
	got, err := a.client.get(a.at+"?log="+mark, 200)
	if err != nil {
		return "", err
	}
	if err := same(got.body, []byte("logged\n")); err != nil {
		return "", err
	}
	err = a.j.ready(context.Background(), func() error { // lines are written together
		text, err := os.ReadFile(filepath.Join(a.j.root, "logs", "error.log"))
		switch {
		case err != nil:
			return err
		case !bytes.Contains(text, []byte("from the application: "+mark)):
			return fmt.Errorf("the error log does not hold it; it ends with\n%s", tail(text))
		case bytes.Contains(text, []byte(mark+"\t")):
			return errors.New("a control character reached the error log as it was")
		}
		return nil
	})
	return "escaped, and not in the answer", err
}

// early has the program end in the middle: before the head that is a 502, after it a
// body that is cut. The next request finds a clean connection. A CGI program's end is
// not told by fcgiwrap, so its answer ends there too.
func (a *fcgiApp) early() (string, error) {
	got, err := want(502)(a.send("GET", a.at+"?die=head", nil, 0))
	if err != nil {
		return "", err
	}
	if token := got.Header.Get("X-Httpjet-Proxy-Error"); token != "fcgi_protocol" {
		return "", fmt.Errorf("502 %s", token)
	}
	err = a.j.ready(context.Background(), func() error { return second(a.get()) }) // it comes back
	if err != nil {
		return "", err
	}
	resp, err := a.Get(a.base + a.at + "?die=body")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if cut := err != nil; cut != a.die || resp.StatusCode != 200 {
		return "", fmt.Errorf("%s, then %d bytes and %v", resp.Status, n, err)
	}
	return "502 fcgi_protocol before the head, after it a cut, then clean", a.j.ready(context.Background(), func() error { return second(a.get()) })
}

// abort leaves downloads and event streams in the middle. Whoever had them is free soon.
func (a *fcgiApp) abort() (string, error) {
	for i := range 16 {
		path := a.at + "?bytes=50000000"
		if i%4 == 0 {
			path = a.at + "?events=100000"
		}
		resp, err := a.Get(a.base + path)
		if err != nil {
			return "", err
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, 20)); err != nil {
			return "", err
		}
		resp.Body.Close()
	}
	const n = 40
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			body := fmt.Sprintf("body of %d", i)
			got, err := want(200)(a.send("POST", a.at, strings.NewReader(body), int64(len(body))))
			if err == nil {
				err = holds(got, fmt.Sprintf("SHA256=%x\n", sha256.Sum256([]byte(body))))
			}
			errs[i] = err
		})
	}
	all.Wait()
	return "12 downloads and 4 streams left, then forty requests answered", errors.Join(errs...)
}
