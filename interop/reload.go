package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	gorilla "github.com/gorilla/websocket"

	"httpjet/internal/peers"
)

// reload changes the configuration of a busy server twenty times, in the ways in
// which editors and tools change a file, and nobody may notice: no request fails,
// no WebSocket ends.
func reload(r *run) error {
	l := &reloader{run: r, rate: r.pick(300, 1000), n: r.pick(50, 100)}
	var err error
	if l.app, err = httpMortal(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "app\n") })); err != nil {
		return err
	}
	defer l.app.Down()
	if l.ws, err = wsMortal(); err != nil {
		return err
	}
	defer l.ws.Down()
	if l.j, err = r.serve(tree{name: "watched", vhost: l.vhost(0), tuning: "<tunnelCloseDelay>0</tunnelCloseDelay>",
		files: map[string]string{"htdocs/small.txt": "small\n"}}); err != nil {
		return err
	}
	defer r.down(l.j)
	defer l.hangUp()
	if err := l.open(); err != nil {
		return err
	}
	r.check("20-changes-of-a-file", l.changes)
	r.check("requests-go-on", l.verdict)
	r.check("websockets-live-on", l.talk)
	return nil
}

type reloader struct {
	*run
	rate, n int // requests a second, WebSockets
	j       *jet
	app, ws *peers.Mortal
	sockets []*gorilla.Conn

	latencies
}

// vhost is the host's file; each version has another context, and another weight.
func (l *reloader) vhost(version int) string {
	return strings.NewReplacer("{{app}}", l.app.Address, "{{ws}}", l.ws.Address, "{{v}}", fmt.Sprint(version+1)).Replace(`
  <docRoot>$VH_ROOT/htdocs</docRoot>
  <extProcessorList>
    <extProcessor>
      <type>proxy</type><name>app</name><address>{{app}}</address>
      <loadBalancePolicy>weighted-round-robin</loadBalancePolicy><addressWeights>{{v}}</addressWeights>
    </extProcessor>
  </extProcessorList>
  <contextList>
    <context><type>proxy</type><uri>/app/</uri><handler>app</handler></context>
    <context><type>static</type><uri>/version{{v}}/</uri></context>
  </contextList>
  <websocketList>
    <websocket><uri>/ws</uri><address>{{ws}}</address></websocket>
  </websocketList>`)
}

func (l *reloader) open() error {
	for range l.n {
		c, _, err := (&gorilla.Dialer{HandshakeTimeout: time.Minute}).Dial("ws://"+l.j.http+"/ws", nil)
		if err != nil {
			return err
		}
		l.sockets = append(l.sockets, c)
	}
	return nil
}

func (l *reloader) hangUp() {
	for _, c := range l.sockets {
		c.Close()
	}
}

// talk sends a message over every WebSocket.
func (l *reloader) talk() (string, error) {
	for i, c := range l.sockets {
		c.SetReadDeadline(time.Now().Add(time.Minute))
		if err := c.WriteMessage(gorilla.TextMessage, []byte("there?")); err != nil {
			return "", fmt.Errorf("WebSocket %d of %d: %v", i, l.n, err)
		}
		if _, text, err := c.ReadMessage(); err != nil || string(text) != "there?" {
			return "", fmt.Errorf("WebSocket %d of %d: %q %v", i, l.n, text, err)
		}
	}
	return fmt.Sprintf("%d of %d", l.n, l.n), nil
}

// changes loads the server, and changes the file twenty times.
func (l *reloader) changes() (string, error) {
	ctx, stop := context.WithCancel(l.ctx)
	var load sync.WaitGroup
	const workers = 20
	for i := range workers {
		load.Go(func() { l.ask(ctx, i, time.Second*workers/time.Duration(l.rate)) })
	}
	defer load.Wait()
	defer stop()
	sleep(ctx, 3*time.Second)
	l.begin()
	var took []time.Duration
	for i := range 20 {
		before, err := l.j.metric("httpjet_config_generation")
		if err != nil {
			return "", err
		}
		began := time.Now()
		if err := l.change(i); err != nil {
			return "", err
		}
		for now := before; now <= before; {
			if time.Since(began) > time.Minute {
				return "", fmt.Errorf("change %d was not noticed", i)
			}
			if !sleep(ctx, 20*time.Millisecond) {
				return "", ctx.Err()
			}
			if now, err = l.j.metric("httpjet_config_generation"); err != nil {
				return "", err
			}
		}
		took = append(took, time.Since(began))
		if _, err := l.talk(); err != nil {
			return "", fmt.Errorf("after change %d: %v", i, err)
		}
	}
	slices.Sort(took)
	return fmt.Sprintf("noticed and published after %.2f s (median), %.2f s at most", took[10].Seconds(), took[19].Seconds()), nil
}

// change gives the host's file version i: written into, renamed over, or as the
// target of a link that is swapped.
func (l *reloader) change(i int) error {
	dir := filepath.Join(l.j.root, "conf/vhosts/watched")
	file, other := filepath.Join(dir, "vhconf.xml"), filepath.Join(dir, fmt.Sprintf("v%d.xml", i))
	text := []byte("<virtualHostConfig>" + l.vhost(i+1) + "</virtualHostConfig>\n")
	if i%3 == 0 {
		return os.WriteFile(file, text, 0o644)
	}
	if err := os.WriteFile(other, text, 0o644); err != nil {
		return err
	}
	if i%3 == 2 {
		link := filepath.Join(dir, "link")
		if err := os.Symlink(filepath.Base(other), link); err != nil {
			return err
		}
		other = link
	}
	return os.Rename(other, file)
}

// ask makes requests, one each period, until ctx is done.
func (l *reloader) ask(ctx context.Context, i int, period time.Duration) {
	c := l.j.plain()
	defer c.CloseIdleConnections()
	path, body := "/small.txt", "small\n"
	if i%2 == 0 {
		path, body = "/app/x", "app\n"
	}
	l.every(ctx, period, func() error {
		a, err := c.get(path, 200)
		if err == nil && string(a.body) != body {
			err = fmt.Errorf("%s is %q", path, a.body)
		}
		return err
	})
}
