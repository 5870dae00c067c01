package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A server is one program: its files with {{…}} to be filled in, and its command
// line. All of them keep connections on both sides, write no access log, and use
// every core.
type server struct {
	name  string
	files map[string]string
	args  []string
	note  func(dir string) string // what a reader of the numbers must know; may be nil
}

// upstreamConf is what stands behind every proxy: nginx with one worker.
const upstreamConf = `
daemon off; worker_processes 1; pid {{dir}}/pid; error_log {{dir}}/error.log;
events { worker_connections 1024; }
http {
  access_log off; keepalive_requests 1000000000; keepalive_timeout 300s;
  {{temp}}
  server { listen {{addr}} backlog=1024; root {{dir}}/www; }
}
`

var direct = server{name: "direct"}

var nginx = server{
	name: "nginx",
	files: map[string]string{"nginx.conf": `
daemon off; worker_processes auto; pid {{dir}}/pid; error_log {{dir}}/error.log;
events { worker_connections 1024; }
http {
  access_log off; keepalive_requests 1000000000; keepalive_timeout 300s;
  sendfile on; tcp_nopush on; open_file_cache max=100 inactive=60s;
  types { text/plain txt; }
  {{temp}}
  upstream app { server {{upstream}}; keepalive 64; keepalive_requests 1000000000; keepalive_timeout 300s; }
  server {
    listen {{addr}} backlog=1024;
    root {{dir}}/www;
    location /app/ {
      proxy_pass http://app; proxy_http_version 1.1;
      proxy_set_header Connection ""; proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Forwarded-Proto $scheme;
    }
  }
}
`},
	args: []string{"nginx", "-c", "{{dir}}/nginx.conf", "-p", "{{dir}}"},
}

var haproxy = server{
	name: "haproxy",
	files: map[string]string{"haproxy.cfg": `
global
  maxconn 4096
defaults
  mode http
  timeout connect 5s
  timeout client 300s
  timeout server 300s
  timeout http-keep-alive 300s
  option http-keep-alive
  http-reuse always
frontend in
  bind {{addr}} backlog 1024
  option forwardfor
  http-request set-header X-Forwarded-Proto http
  default_backend app
backend app
  server app {{upstream}} pool-max-conn 64
`},
	args: []string{"haproxy", "-db", "-f", "{{dir}}/haproxy.cfg"},
}

var caddy = server{
	name: "caddy",
	files: map[string]string{"Caddyfile": `{
	admin off
	auto_https off
	persist_config off
	log {
		level ERROR
	}
}
http://{{addr}} {
	root * {{dir}}/www
	reverse_proxy /app/* {{upstream}} {
		transport http {
			keepalive_idle_conns_per_host 64
		}
	}
	file_server
}
`},
	args: []string{"{{bench}}/caddy", "run", "--config", "{{dir}}/Caddyfile", "--adapter", "caddyfile"},
}

var httpjet = server{
	name: "httpjet",
	files: map[string]string{
		"conf/httpd_config.xml": `<?xml version="1.0" encoding="UTF-8"?>
<httpServerConfig>
  <serverName>bench</serverName>
  <tuning>
    <keepAliveTimeout>60</keepAliveTimeout>
    <maxKeepAliveReq>32767</maxKeepAliveReq>
  </tuning>
  <virtualHostList>
    <virtualHost>
      <name>bench</name>
      <vhRoot>$SERVER_ROOT</vhRoot>
      <configFile>conf/vhosts/bench/vhconf.xml</configFile>
    </virtualHost>
  </virtualHostList>
  <listenerList>
    <listener>
      <name>Default</name>
      <address>{{addr}}</address>
      <secure>0</secure>
      <vhostMapList><vhostMap><vhost>bench</vhost><domain>127.0.0.1, *</domain></vhostMap></vhostMapList>
    </listener>
  </listenerList>
</httpServerConfig>
`,
		"conf/vhosts/bench/vhconf.xml": `<?xml version="1.0" encoding="UTF-8"?>
<virtualHostConfig>
  <docRoot>$VH_ROOT/www</docRoot>
  <logging>
    <accessLog><useServer>2</useServer></accessLog>
  </logging>
  <extProcessorList>
    <extProcessor>
      <type>proxy</type>
      <name>app</name>
      <address>{{upstream}}</address>
      <maxConns>64</maxConns>
      <initTimeout>10</initTimeout>
      <pcKeepAliveTimeout>300</pcKeepAliveTimeout>
    </extProcessor>
  </extProcessorList>
  <contextList>
    <context>
      <type>proxy</type>
      <uri>/app/</uri>
      <handler>app</handler>
    </context>
  </contextList>
</virtualHostConfig>
`,
		"conf/mime.properties": "txt = text/plain\n",
	},
	args: []string{"{{httpjet}}", "--root", "{{dir}}", "serve", "--metrics-addr", ""},
	note: func(dir string) string {
		n := 0
		files, _ := filepath.Glob(filepath.Join(dir, "logs", "*access*")) // the pattern is well-formed
		for _, file := range files {
			text, _ := os.ReadFile(file)
			n += bytes.Count(text, []byte("\n"))
		}
		if n > 0 {
			return fmt.Sprintf("httpjet wrote an access log of %d lines meanwhile, the others wrote none", n)
		}
		return ""
	},
}

// payload is the kibibyte that everything serves.
var payload = []byte(strings.Repeat("0123456789abcde\n", 64))

// A running is a started server.
type running struct {
	name, addr string
	cmd        *exec.Cmd
	out        *bytes.Buffer
	note       func() string
}

// temp keeps nginx's temporary folders out of the system's.
func temp(dir string) string {
	var b strings.Builder
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		fmt.Fprintf(&b, "%s_temp_path %s/temp-%s; ", kind, dir, kind)
	}
	return b.String()
}

func (b *bench) startUpstream() (stop func(), err error) {
	r, err := b.start(server{
		name:  "upstream",
		files: map[string]string{"nginx.conf": upstreamConf},
		args:  []string{"nginx", "-c", "{{dir}}/nginx.conf", "-p", "{{dir}}"},
	}, "/app/1k")
	if err != nil {
		return nil, fmt.Errorf("upstream: %v", err)
	}
	b.upstream = r.addr
	return r.stop, nil
}

// start writes a server's files, starts it, and waits for the right answer.
func (b *bench) start(s server, path string) (*running, error) {
	if s.args == nil { // "direct": the upstream itself
		return &running{name: s.name, addr: b.upstream}, nil
	}
	dir := filepath.Join(b.dir, s.name+strings.ReplaceAll(path, "/", "-"))
	addr, err := freePort()
	if err != nil {
		return nil, err
	}
	r := &running{name: s.name, addr: addr, out: &bytes.Buffer{}}
	if s.note != nil {
		r.note = func() string { return s.note(dir) }
	}
	fill := strings.NewReplacer("{{dir}}", dir, "{{addr}}", r.addr, "{{upstream}}", b.upstream,
		"{{temp}}", temp(dir), "{{bench}}", b.dir, "{{httpjet}}", b.bin)
	files := map[string]string{"www/1k.txt": string(payload), "www/app/1k": string(payload)}
	for name, text := range s.files {
		files[name] = fill.Replace(text)
	}
	for name, text := range files {
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(to, []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	args := make([]string, len(s.args))
	for i, a := range s.args {
		args[i] = fill.Replace(a)
	}
	r.cmd = exec.Command(args[0], args[1:]...)
	r.cmd.Stdout, r.cmd.Stderr = r.out, r.out
	r.cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir)
	if err := r.cmd.Start(); err != nil {
		return nil, err
	}
	if err := r.ready(path); err != nil {
		r.stop()
		return nil, fmt.Errorf("%v\n%s", err, r.out)
	}
	return r, nil
}

// freePort is a loopback address that nothing listens on, below the ports that
// the kernel gives to outgoing connections.
func freePort() (string, error) {
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(12_000))
		l, err := net.Listen("tcp", addr)
		if err == nil {
			return addr, l.Close()
		}
	}
	return "", errors.New("no free port between 20000 and 32000")
}

// ready waits until the server answers path with the payload.
func (r *running) ready(path string) error {
	var err error
	for range 200 {
		if err = r.answers(path); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

func (r *running) answers(path string) error {
	resp, err := http.Get("http://" + r.addr + path)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK || !bytes.Equal(body, payload) {
		return errors.New("the answer is " + resp.Status + ", not the expected kibibyte")
	}
	return nil
}

func (r *running) stop() {
	if r.cmd == nil {
		return
	}
	r.cmd.Process.Signal(syscall.SIGTERM)
	dead := time.AfterFunc(10*time.Second, func() { r.cmd.Process.Kill() })
	r.cmd.Wait() // how it ends is of no interest here
	dead.Stop()
}
