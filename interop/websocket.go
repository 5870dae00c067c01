package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

//go:embed assets/ws-server.js
var wsServerJS string

//go:embed assets/ws-client.js
var wsClientJS string

//go:embed assets/ws-h2.js
var wsH2JS string

//go:embed assets/ws-close.js
var wsCloseJS string

// websocket relays between the npm library "ws" on both ends: by a socket map,
// by an upgrade on a proxy context, and over TLS; and between it and Node's HTTP/2
// client, by extended CONNECT.
func websocket(r *run) error {
	if err := writeFiles(r.node, map[string]string{"server.js": wsServerJS, "client.js": wsClientJS, "close.js": wsCloseJS, "h2.js": wsH2JS}); err != nil {
		return err
	}
	p, err := r.start("node", filepath.Join(r.node, "server.js"))
	if err != nil {
		return err
	}
	defer p.stop()
	address := ""
	if err := p.ready(r.ctx, func() error {
		m := regexp.MustCompile(`port (\d+)\n`).FindStringSubmatch(p.out.String())
		if m == nil {
			return errors.New("the port is not known yet")
		}
		address = "127.0.0.1:" + m[1]
		return nil
	}); err != nil {
		return err
	}
	j, err := r.serve(tree{name: "sockets", secure: true, vhost: strings.ReplaceAll(`
  <docRoot>$VH_ROOT/htdocs</docRoot>
  <extProcessorList>
    <extProcessor>
      <type>proxy</type>
      <name>node</name>
      <address>{{node}}</address>
      <maxConns>20</maxConns>
      <initTimeout>10</initTimeout>
      <retryTimeout>0</retryTimeout>
    </extProcessor>
  </extProcessorList>
  <contextList>
    <context>
      <type>proxy</type>
      <uri>/ctx/</uri>
      <handler>node</handler>
    </context>
  </contextList>
  <websocketList>
    <websocket>
      <uri>/ws</uri>
      <address>{{node}}</address>
    </websocket>
  </websocketList>`, "{{node}}", address)})
	if err != nil {
		return err
	}
	defer r.down(j)

	few := r.pick(100, 1000)
	cert := filepath.Join(j.root, "conf/cert/cert.pem")
	r.check("1000-messages-by-map", r.messages(1000, "ws://"+j.http+"/ws"))
	r.check("by-proxy-context", r.messages(few, "ws://"+j.http+"/ctx/socket?x=1"))
	r.check("permessage-deflate", r.messages(few, "ws://"+j.http+"/ws/deflate"))
	r.check("over-tls", r.messages(few, "wss://"+j.https+"/ws", cert))
	r.check("extended-connect", func() (string, error) {
		out, err := r.nodeOutput("h2.js", j.https, cert)
		if err != nil {
			return "", err
		}
		var said struct{ Tunnels, Bytes int }
		if err := json.Unmarshal([]byte(out), &said); err != nil {
			return "", fmt.Errorf("%v in %q", err, out)
		}
		return fmt.Sprintf("RFC 8441: %d tunnels of one HTTP/2 connection, messages of up to 16 MiB, %.1f MB each way, both half-closes", said.Tunnels, float64(said.Bytes)/1e6), nil
	})
	r.check("over-reloads", func() (string, error) { return r.overReloads(j) })
	r.check("close-code-of-client", func() (string, error) {
		out, err := r.nodeOutput("close.js", "ws://"+j.http+"/ws/client-closes", "4000", "client is done")
		if err != nil {
			return "", err
		}
		if out != "closed 4000 client is done" {
			return "", fmt.Errorf("the client saw %q", out)
		}
		a, err := j.plain().get("/ctx/closed", 200)
		if err != nil {
			return "", err
		}
		return "4000 seen by the server", holds(a, `{"url":"/ws/client-closes","code":4000,"reason":"client is done"}`)
	})
	r.check("refusal-is-relayed", func() (string, error) {
		out, err := r.nodeOutput("close.js", "ws://"+j.http+"/ws/refuse", "1000", "x")
		if err == nil && out != "refused 403 ws-server no" {
			err = fmt.Errorf("the client saw %q", out)
		}
		return out, err
	})
	r.check("backend-gone-502", func() (string, error) {
		if err := p.stop(); err != nil {
			return "", err
		}
		out, err := r.nodeOutput("close.js", "ws://"+j.http+"/ws", "1000", "x")
		if err == nil && !strings.HasPrefix(out, "refused 502") {
			err = fmt.Errorf("the client saw %q", out)
		}
		return "", err
	})
	return nil
}

// messages runs the client for n messages through url.
func (r *run) messages(n int, url string, ca ...string) func() (string, error) {
	return func() (string, error) {
		out, err := r.nodeOutput("client.js", append([]string{url, fmt.Sprint(n)}, ca...)...)
		if err != nil {
			return "", err
		}
		var said struct{ Messages, Bytes, Smallest, Largest, Pings int }
		if err := json.Unmarshal([]byte(out), &said); err != nil {
			return "", fmt.Errorf("%v in %q", err, out)
		}
		if said.Messages != n || said.Smallest != 1 || said.Largest != 1<<20 {
			return "", fmt.Errorf("the client did less than asked: %s", out)
		}
		return fmt.Sprintf("%d messages of 1 B to 1 MiB, %.1f MB each way, %d pings, close code 4321", n, float64(said.Bytes)/1e6, said.Pings), nil
	}
}

// overReloads keeps a relay busy while new generations are published: a reload
// that leaves its route alone leaves the tunnel alone (R-WS-7).
func (r *run) overReloads(j *jet) (string, error) {
	done := make(chan struct{})
	var reloads int
	var all sync.WaitGroup
	all.Go(func() {
		tick := time.NewTicker(250 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				j.cmd.Process.Signal(syscall.SIGHUP)
				reloads++
			case <-done:
				return
			}
		}
	})
	said, err := r.messages(500, "ws://"+j.http+"/ws/reloads")()
	close(done)
	all.Wait()
	if err == nil && reloads == 0 {
		err = errors.New("the relay ended before the first reload")
	}
	return fmt.Sprintf("%s; %d reloads meanwhile", said, reloads), err
}

// nodeOutput runs a script and returns what it printed.
func (r *run) nodeOutput(script string, args ...string) (string, error) {
	cmd := exec.CommandContext(r.ctx, "node", append([]string{filepath.Join(r.node, script)}, args...)...)
	cmd.Env = append(os.Environ(), "NODE_NO_WARNINGS=1")
	out, err := cmd.Output()
	var e *exec.ExitError
	if errors.As(err, &e) {
		return "", fmt.Errorf("%s: %v: %s", script, err, tail(e.Stderr))
	}
	return strings.TrimSpace(string(out)), err
}
