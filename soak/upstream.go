package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// content is n bytes that a name determines: letters, so that they can be compressed.
func content(name string, n int) []byte {
	h := fnv.New64a()
	io.WriteString(h, name)
	b := make([]byte, n)
	rand.NewChaCha8([32]byte(fmt.Appendf(nil, "%032x", h.Sum64()))).Read(b)
	for i := range b {
		b[i] = 'a' + b[i]&15
	}
	return b
}

// sum names bytes.
func sum(b []byte) string {
	h := sha256.Sum256(b)
	return fmt.Sprintf("%d %s", len(b), hex.EncodeToString(h[:]))
}

// Fields by which answers are told apart.
const (
	idField   = "X-Soak-Id"   // of a request, and of its answer
	madeField = "X-Soak-Made" // when an answer was made: Unix milliseconds
)

// origin is the application, behind HTTP and FastCGI. Its answer is determined by the
// last element of the path and the query: n bytes of content, in pieces or with a
// length; the sum of what was posted; or n events.
func origin(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	n, _ := strconv.Atoi(r.FormValue("n"))
	h := w.Header()
	h.Set(idField, r.Header.Get(idField))
	h.Set(madeField, strconv.FormatInt(time.Now().UnixMilli(), 10))
	switch {
	case r.Method == "POST" || r.Method == "PUT":
		got, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), 400)
			return
		}
		h.Set("Content-Type", "text/plain")
		io.WriteString(w, sum(got))
	case name == "events":
		h.Set("Content-Type", "text/event-stream")
		for i := range n {
			fmt.Fprintf(w, "data: event %d of %s\n\n", i, r.FormValue("of"))
			http.NewResponseController(w).Flush()
			select {
			case <-time.After(50 * time.Millisecond):
			case <-r.Context().Done():
				return
			}
		}
	default:
		if strings.HasPrefix(name, "kept") {
			h.Set("Cache-Control", fmt.Sprintf("public, max-age=%.0f", cacheTime.Seconds()))
			h.Set("X-LiteSpeed-Cache-Control", fmt.Sprintf("public, max-age=%.0f", cacheTime.Seconds()))
		}
		h.Set("Content-Type", "text/plain")
		body := content(name, n)
		if r.FormValue("pieces") == "" {
			h.Set("Content-Length", strconv.Itoa(n))
			w.Write(body)
			return
		}
		for len(body) > 0 {
			m := min(len(body), 5000)
			w.Write(body[:m])
			http.NewResponseController(w).Flush()
			body = body[m:]
		}
	}
}

// echoMessages sends messages of a WebSocket back.
func echoMessages(w http.ResponseWriter, r *http.Request) {
	c, err := (&websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}).Upgrade(w, r, nil)
	if err != nil {
		return // it has answered
	}
	defer c.Close()
	for {
		kind, text, err := c.ReadMessage()
		if err != nil || c.WriteMessage(kind, text) != nil {
			return
		}
	}
}

// A mortal is an upstream that can be killed, with all its connections, and comes back
// at the same address. It remembers when it was down.
type mortal struct {
	network, address string // "": a free one
	serve            func(net.Listener)

	mu    sync.Mutex
	l     net.Listener // nil while it is dead
	open  map[net.Conn]bool
	since time.Time // of the last death
	until time.Time // of the return; zero: it is dead still
	all   sync.WaitGroup
}

func (m *mortal) up() error {
	at := m.address
	switch {
	case m.network == "unix":
		os.Remove(at) // left over by a death
	case at == "":
		var err error
		if at, err = freePort(); err != nil {
			return err
		}
	}
	l, err := net.Listen(m.network, at)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.address = l.Addr().String()
	m.l, m.open, m.until = l, map[net.Conn]bool{}, time.Now()
	m.all.Go(func() { m.serve(&mourned{l, m}) })
	return nil
}

// down kills it. The second call does nothing.
func (m *mortal) down() {
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

// ailing reports whether it was dead after from, or had not been back for that long.
func (m *mortal) ailing(from time.Time, recovery time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.since.IsZero() && (m.until.IsZero() || m.until.Add(recovery).After(from))
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
