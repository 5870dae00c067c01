package main

import (
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"os"
	"sync"

	gorilla "github.com/gorilla/websocket"
)

// A mortal is a backend in this process that can be killed, with every connection
// that it has, and comes back at the same address.
type mortal struct {
	network, address string
	serve            func(net.Listener)

	mu   sync.Mutex
	l    net.Listener // nil while it is dead
	open map[net.Conn]bool
	all  sync.WaitGroup
}

func httpMortal(h http.Handler) (*mortal, error) {
	return newMortal("tcp", "", func(l net.Listener) { http.Serve(l, h) })
}

// fcgiMortal answers with the body of the request, at a Unix socket.
func fcgiMortal(path string) (*mortal, error) {
	return newMortal("unix", path, func(l net.Listener) { fcgi.Serve(l, http.HandlerFunc(echo)) })
}

// wsMortal sends messages back.
func wsMortal() (*mortal, error) {
	return httpMortal(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := (&gorilla.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			return // Upgrade has answered
		}
		defer c.Close()
		for {
			kind, text, err := c.ReadMessage()
			if err != nil || c.WriteMessage(kind, text) != nil {
				return
			}
		}
	}))
}

func newMortal(network, address string, serve func(net.Listener)) (*mortal, error) {
	m := &mortal{network: network, address: address, serve: serve}
	if address == "" {
		var err error
		if m.address, err = freePort(); err != nil {
			return nil, err
		}
	}
	return m, m.up()
}

// up starts it.
func (m *mortal) up() error {
	if m.network == "unix" {
		os.Remove(m.address) // left over by a death
	}
	l, err := net.Listen(m.network, m.address)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.l, m.open = l, map[net.Conn]bool{}
	m.all.Go(func() { m.serve(&mourned{l, m}) })
	return nil
}

// down kills it. The second call does nothing.
func (m *mortal) down() {
	m.mu.Lock()
	l, open := m.l, m.open
	m.l, m.open = nil, nil
	m.mu.Unlock()
	if l == nil {
		return
	}
	l.Close()
	for c := range open {
		c.Close()
	}
	m.all.Wait()
}

// A mourned listener knows the connections that are to die with it.
type mourned struct {
	net.Listener
	m *mortal
}

func (l *mourned) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if l.m.l != l.Listener {
		c.Close()
		return nil, io.EOF
	}
	l.m.open[c] = true
	return &dying{c, l.m}, nil
}

// A dying connection is forgotten when it is closed.
type dying struct {
	net.Conn
	m *mortal
}

func (c *dying) Close() error {
	c.m.mu.Lock()
	delete(c.m.open, c.Conn)
	c.m.mu.Unlock()
	return c.Conn.Close()
}
