package demo

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/fcgi"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// Backends are the three programs behind the demonstration: an HTTP application
// with a stream of events, a WebSocket echo, and a FastCGI application on the
// Unix socket run/demo.sock. Start and Stop are called once each, by one owner.
type Backends struct {
	Dir string // root of the tree

	app, ws   http.Server
	listeners []*listener // application, WebSocket, FastCGI
	running   sync.WaitGroup
}

// Start binds the three backends and serves them. After an error nothing runs.
func (b *Backends) Start() error {
	if err := os.MkdirAll(filepath.Join(b.Dir, "run"), 0o755); err != nil {
		return err
	}
	for _, at := range [][2]string{
		{"tcp", "127.0.0.1:0"},
		{"tcp", "127.0.0.1:0"},
		{"unix", filepath.Join(b.Dir, "run", "demo.sock")},
	} {
		l, err := net.Listen(at[0], at[1])
		if err != nil {
			b.Stop()
			return err
		}
		b.listeners = append(b.listeners, &listener{Listener: l, open: map[net.Conn]bool{}})
	}
	b.app.Handler, b.ws.Handler = application(), http.HandlerFunc(echoWebSocket)
	for _, s := range []*http.Server{&b.app, &b.ws} {
		s.ReadHeaderTimeout = 10 * time.Second
	}
	b.running.Go(b.serveApplication)
	b.running.Go(b.serveWebSocket)
	b.running.Go(b.serveFastCGI)
	return nil
}

// AppAddr is the host:port of the HTTP application.
func (b *Backends) AppAddr() string { return b.listeners[0].Addr().String() }

// WebSocketAddr is the host:port of the WebSocket echo.
func (b *Backends) WebSocketAddr() string { return b.listeners[1].Addr().String() }

// Stop closes listeners and connections and waits until nothing serves.
func (b *Backends) Stop() {
	for _, l := range b.listeners {
		l.Close()
	}
	b.running.Wait()
}

func (b *Backends) serveApplication() { serve(b.app.Serve(b.listeners[0])) }
func (b *Backends) serveWebSocket()   { serve(b.ws.Serve(b.listeners[1])) }
func (b *Backends) serveFastCGI() {
	serve(fcgi.Serve(b.listeners[2], http.HandlerFunc(showFastCGI)))
}

// serve ends one of the serving goroutines. They end by Stop alone: a listener
// that fails otherwise is a fault of the demonstration itself.
func serve(err error) {
	if !errors.Is(err, net.ErrClosed) && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, context.Canceled) {
		panic("BUG: a demo backend stopped: " + err.Error())
	}
}

// A listener remembers its connections. Neither net/http/fcgi nor a hijacked
// connection of net/http can be told to stop, so closing them is left to Close.
type listener struct {
	net.Listener

	mu     sync.Mutex
	open   map[net.Conn]bool
	closed bool
}

// Accept waits for the next connection.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		c.Close()
		return nil, net.ErrClosed
	}
	l.open[c] = true
	return &conn{Conn: c, from: l}, nil
}

// Close closes the listener and every connection it accepted.
func (l *listener) Close() error {
	err := l.Listener.Close()
	l.mu.Lock()
	l.closed = true
	open := l.open
	l.open = map[net.Conn]bool{}
	l.mu.Unlock()
	for c := range open {
		c.Close()
	}
	return err
}

// A conn leaves its listener's memory when it is closed.
type conn struct {
	net.Conn
	from *listener
}

// Close closes the connection.
func (c *conn) Close() error {
	c.from.mu.Lock()
	delete(c.from.open, c.Conn)
	c.from.mu.Unlock()
	return c.Conn.Close()
}
