package peers

import (
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// A Mortal is an upstream in this process that can be killed, with every connection that
// it has, and comes back at the same address. It remembers when it was down. The exported
// fields are set before the first Up.
type Mortal struct {
	Network string             // "tcp" or "unix"
	Address string             // "": a free port, which Up finds
	Serve   func(net.Listener) // returns when the listener is closed

	mu    sync.Mutex
	l     net.Listener // nil while it is dead
	open  map[net.Conn]bool
	since time.Time // of the last death
	until time.Time // of the return; zero: it is dead still
	all   sync.WaitGroup
}

// Up starts it.
func (m *Mortal) Up() error {
	if m.Network == "unix" {
		os.Remove(m.Address) // left over by a death
	}
	if m.Address == "" {
		var err error
		if m.Address, err = FreePort(); err != nil {
			return err
		}
	}
	l, err := net.Listen(m.Network, m.Address)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.l, m.open, m.until = l, map[net.Conn]bool{}, time.Now()
	m.all.Go(func() { m.Serve(&mourned{l, m}) })
	return nil
}

// Down kills it, and returns when nobody serves any more. The second call does nothing.
func (m *Mortal) Down() {
	m.mu.Lock()
	l, open := m.l, m.open
	m.l, m.open = nil, nil
	if l != nil {
		m.since, m.until = time.Now(), time.Time{}
	}
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

// Ailing reports whether it was dead after from, or had not been back for that long.
func (m *Mortal) Ailing(from time.Time, recovery time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.since.IsZero() && (m.until.IsZero() || m.until.Add(recovery).After(from))
}

// A mourned listener knows the connections that are to die with it.
type mourned struct {
	net.Listener
	m *Mortal
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
	m *Mortal
}

func (c *dying) Close() error {
	c.m.mu.Lock()
	delete(c.m.open, c.Conn)
	c.m.mu.Unlock()
	return c.Conn.Close()
}

// EchoMessages is an upstream that sends each message of a WebSocket back, whatever the
// Origin.
func EchoMessages(w http.ResponseWriter, r *http.Request) {
	c, err := (&websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}).Upgrade(w, r, nil)
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
}
