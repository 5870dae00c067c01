package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"httpjet/internal/peers"
)

// A process is a program that was started and is to be stopped.
type process struct {
	cmd  *exec.Cmd
	out  buffer
	done chan struct{} // closed when it has ended
	err  error         // how it ended, after done
}

// buffer is a bytes.Buffer that may be read while a program writes.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(tail(b.b.Bytes()))
}

// start runs a program until stop is called.
func (r *run) start(name string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(name, args...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt reaches us alone
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go p.wait()
	return p, nil
}

func (p *process) wait() {
	p.err = p.cmd.Wait()
	close(p.done)
}

// stop asks the program to end and waits; after ten seconds it is killed, which
// is an error.
func (p *process) stop() error {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-time.After(10 * time.Second):
		p.cmd.Process.Kill()
		<-p.done
		return fmt.Errorf("%s did not end within 10 s of SIGTERM", filepath.Base(p.cmd.Path))
	}
}

// ready waits until f succeeds; a program that ends before is an error.
func (p *process) ready(ctx context.Context, f func() error) error {
	deadline := time.After(20 * time.Second)
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			return fmt.Errorf("%s ended: %v\n%s", filepath.Base(p.cmd.Path), p.err, p.out.String())
		case <-deadline:
			return fmt.Errorf("%s is not ready: %v\n%s", filepath.Base(p.cmd.Path), err, p.out.String())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// dial succeeds when something accepts at address.
func dial(network, address string) func() error {
	return func() error {
		c, err := net.DialTimeout(network, address, time.Second)
		if err != nil {
			return err
		}
		return c.Close()
	}
}

// proxied is the content of a virtual host that has an HTTP server, called name, below a
// uri.
func proxied(name, address, uri string) string {
	return strings.NewReplacer("{{name}}", name, "{{address}}", address, "{{uri}}", uri).Replace(`
  <docRoot>$VH_ROOT/htdocs</docRoot>
  <extProcessorList>
    <extProcessor>
      <type>proxy</type>
      <name>{{name}}</name>
      <address>{{address}}</address>
      <maxConns>100</maxConns>
      <initTimeout>10</initTimeout>
      <retryTimeout>0</retryTimeout>
      <pcKeepAliveTimeout>30</pcKeepAliveTimeout>
    </extProcessor>
  </extProcessorList>
  <contextList>
    <context>
      <type>proxy</type>
      <uri>{{uri}}</uri>
      <handler>{{name}}</handler>
    </context>
  </contextList>`)
}

// A tree is what a configuration needs besides its server file.
type tree struct {
	name   string            // of the tree and of its one virtual host
	vhost  string            // content of virtualHostConfig
	tuning string            // content of the server's tuning
	server string            // more of the server file
	secure bool              // a TLS listener too, with a self-made certificate
	h2c    bool              // HTTP/2 in clear text too
	files  map[string]string // more files, path below the root
}

// A jet is a running httpjet with one tree.
type jet struct {
	*process
	root        string
	http, https string // addresses of its listeners
	metrics     string
}

const serverFile = `<?xml version="1.0" encoding="UTF-8"?>
<httpServerConfig>
  <serverName>interop.localhost</serverName>{{h2c}}
  <htAccess>
    <allowOverride>31</allowOverride>
    <accessFileName>.htaccess</accessFileName>
  </htAccess>
  <indexFiles>index.html</indexFiles>
  <tuning>{{tuning}}</tuning>
  <logging>
    <log>
      <fileName>$SERVER_ROOT/logs/error.log</fileName>
      <logLevel>INFO</logLevel>
    </log>
    <accessLog>
      <fileName>$SERVER_ROOT/logs/access.log</fileName>
    </accessLog>
  </logging>
  <virtualHostList>
    <virtualHost>
      <name>{{name}}</name>
      <vhRoot>$SERVER_ROOT</vhRoot>
      <configFile>$SERVER_ROOT/conf/vhosts/$VH_NAME/vhconf.xml</configFile>
      <allowSymbolLink>1</allowSymbolLink>
      <enableScript>1</enableScript>
    </virtualHost>
  </virtualHostList>
  <listenerList>
    <listener>
      <name>Plain</name>
      <address>{{http}}</address>
      <secure>0</secure>
      <vhostMapList><vhostMap><vhost>{{name}}</vhost><domain>127.0.0.1, localhost, *</domain></vhostMap></vhostMapList>
    </listener>{{tls}}
  </listenerList>
</httpServerConfig>
`

const secureListener = `
    <listener>
      <name>Secure</name>
      <address>{{https}}</address>
      <secure>1</secure>
      <keyFile>$SERVER_ROOT/conf/cert/key.pem</keyFile>
      <certFile>$SERVER_ROOT/conf/cert/cert.pem</certFile>
      <vhostMapList><vhostMap><vhost>{{name}}</vhost><domain>127.0.0.1, localhost, *</domain></vhostMap></vhostMapList>
    </listener>`

// serve writes the tree below the run's directory and starts httpjet on it. The
// listeners are bound at the addresses of the tree, as on a real machine.
func (r *run) serve(t tree) (*jet, error) {
	j := &jet{root: filepath.Join(r.dir, "root-"+t.name)}
	var err error
	for _, a := range []*string{&j.http, &j.https, &j.metrics} {
		if *a, err = peers.FreePort(); err != nil {
			return nil, err
		}
	}
	tls := ""
	if t.secure {
		tls = secureListener
	}
	h2c := ""
	if t.h2c {
		h2c = "\n  <enableh2c>1</enableh2c>"
	}
	h2c += t.server
	fill := strings.NewReplacer("{{h2c}}", h2c, "{{name}}", t.name, "{{tuning}}", t.tuning, "{{http}}", j.http, "{{https}}", j.https)
	files := map[string]string{
		"conf/httpd_config.xml":                 fill.Replace(strings.Replace(serverFile, "{{tls}}", tls, 1)),
		"conf/vhosts/" + t.name + "/vhconf.xml": "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<virtualHostConfig>" + t.vhost + "</virtualHostConfig>\n",
		"conf/mime.properties":                  "html,htm = text/html\ncss = text/css\njs = text/javascript\npng = image/png\ntxt = text/plain\n",
		"htdocs/index.html":                     "<title>interop</title>\n",
	}
	if t.secure {
		cert, key, err := selfSigned()
		if err != nil {
			return nil, err
		}
		files["conf/cert/cert.pem"], files["conf/cert/key.pem"] = cert, key
	}
	maps.Copy(files, t.files)
	if err := writeFiles(j.root, files); err != nil {
		return nil, err
	}
	if j.process, err = r.start(r.bin, "--root", j.root, "serve", "--metrics-addr", j.metrics); err != nil {
		return nil, err
	}
	if err := j.ready(r.ctx, j.live); err != nil {
		j.stop()
		return nil, err
	}
	return j, nil
}

// writeFiles writes files, keyed by path, below root.
func writeFiles(root string, files map[string]string) error {
	for name, text := range files {
		to := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, "key.pem") {
			mode = 0o600
		}
		if err := os.WriteFile(to, []byte(text), mode); err != nil {
			return err
		}
	}
	return nil
}

// live succeeds when httpjet says that it lives and its listeners accept.
func (j *jet) live() error {
	resp, err := http.Get("http://" + j.metrics + "/livez")
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/livez answers %s", resp.Status)
	}
	return dial("tcp", j.http)()
}

// memory is a size of httpjet in bytes: VmRSS now, VmHWM at its highest point.
func (j *jet) memory(field string) (int64, error) { return memoryOf(j.cmd.Process.Pid, field) }

func memoryOf(pid int, field string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("no %s in /proc", field)
}

// down stops httpjet at the end of a section. Only a failure to end is reported.
func (r *run) down(j *jet) {
	err := j.stop()
	if err == nil {
		var e *exec.ExitError
		if errors.As(j.err, &e) {
			err = fmt.Errorf("httpjet ended with %v\n%s", e, j.out.String())
		}
	}
	r.report("drain", "SIGTERM ended httpjet with status 0", err)
}
