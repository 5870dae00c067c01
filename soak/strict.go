package main

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/gorilla/websocket"

	"httpjet/internal/peers"
)

// A strict client keeps one connection, repeats nothing, and knows when it may be
// closed: behind an answer that said so, and when it has been idle for as long as the
// configuration has it (RFC 9112 section 9.3). Any other end is a loss.
type strict struct {
	address string
	conn    net.Conn // nil: none is open
	in      *bufio.Reader
	used    time.Time
	asked   time.Time // when the last request began: its answer was not out before
}

func (c *strict) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// fetch makes a request. fresh: it needed a new connection.
func (c *strict) fetch(a ask) (fresh bool, err error) {
	if time.Since(c.asked) > keepAlive-time.Second {
		c.close() // it may be about to end
	}
	if fresh = c.conn == nil; fresh {
		if c.conn, err = net.DialTimeout("tcp", c.address, patience); err != nil {
			c.conn = nil
			return true, err
		}
		c.in = bufio.NewReader(c.conn)
	}
	idle, before := time.Since(c.used), c.asked
	c.asked = time.Now()
	c.conn.SetDeadline(time.Now().Add(patience))
	n := asked.next()
	_, err = fmt.Fprintf(c.conn, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s: %s\r\n%s: %s\r\nContent-Length: %d\r\n\r\n%s", a.method, a.target, idField, a.id, lineField, lineOfSome(n), len(a.post), a.post)
	late := time.Since(before) > keepAlive // on a machine where a request may take seconds to be sent
	var resp *http.Response
	if err == nil {
		resp, err = http.ReadResponse(c.in, nil)
	}
	if err != nil {
		c.close()
		if fresh {
			return true, fmt.Errorf("%s on a new connection: %w", a.method, err)
		}
		err = fmt.Errorf("%s on a connection that was idle for %v: %w", a.method, idle, err)
		if late {
			return false, excuse{"sent when the time of its connection was over", err}
		}
		return false, err
	}
	defer resp.Body.Close()
	if err = a.check(resp); err == nil {
		asked.note(n)
	}
	if c.used = time.Now(); err != nil || resp.Close {
		c.close()
	}
	return fresh, err
}

// strictly makes random requests on kept connections, POST too.
func (s *soak) strictly(address *string) func(int) func(*rand.Rand) error {
	return func(int) func(*rand.Rand) error {
		c := &strict{address: *address}
		return func(r *rand.Rand) error {
			_, err := c.fetch(random(r))
			return err
		}
	}
}

// onExtra asks at the listener that every other reload takes away: who is connected is
// answered even so.
func (s *soak) onExtra(int) func(*rand.Rand) error {
	c := &strict{address: s.extra}
	return func(r *rand.Rand) error {
		before := s.extraAt.Load()
		fresh, err := c.fetch(random(r))
		dial, ok := errors.AsType[*net.OpError](err)
		if fresh && ok && dial.Op == "dial" && (before != 0 || s.extraAt.Load() != 0) &&
			(errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET)) { // reset: it came between the last accept and the close
			return excuse{"refused where the listener was not there", err}
		}
		return err
	}
}

// recovery is how long an upstream that is back may yet be thought to be down.
const recovery = 5 * time.Second

// atFrail asks an upstream that is killed now and then, and is alone.
func (s *soak) atFrail(int) func(*rand.Rand) error {
	c := s.h1(false)
	return func(r *rand.Rand) error {
		began, name, n := time.Now(), fmt.Sprintf("x%d", r.IntN(1000)), r.IntN(100_000)
		id := strconv.FormatUint(ids.Add(1), 10)
		err := fetch(c, "http://"+s.plain, ask{method: "GET", target: fmt.Sprintf("/frail/%s?n=%d&pieces=1", name, n), want: content(name, n), id: id})
		return s.dies(began, err, s.frail)
	}
}

// atPair asks two peers of which one is killed now and then: no request fails but one
// whose answer was under way.
func (s *soak) atPair(int) func(*rand.Rand) error {
	c := s.h1(false)
	return func(r *rand.Rand) error {
		began, name, n := time.Now(), fmt.Sprintf("x%d", r.IntN(1000)), r.IntN(100_000)
		id := strconv.FormatUint(ids.Add(1), 10)
		err := fetch(c, "http://"+s.plain, ask{method: "GET", target: fmt.Sprintf("/pair/%s?n=%d", name, n), want: content(name, n), id: id})
		if _, refused := errors.AsType[*refusal](err); refused {
			return err
		}
		return s.dies(began, err, s.left, s.right)
	}
}

// dies excuses what may become of a request when an upstream is killed: 502, 503 or 504
// with the reason of a proxy, or an answer that is cut.
func (s *soak) dies(began time.Time, err error, upstreams ...*peers.Mortal) error {
	ailing := false
	for _, m := range upstreams {
		ailing = ailing || m.Ailing(began, recovery)
	}
	if err == nil || !ailing {
		return err
	}
	refused, ok := errors.AsType[*refusal](err)
	switch {
	case !ok && !errors.As(err, new(wrong)):
		return excuse{"cut", err}
	case ok && (refused.status == 502 || refused.status == 503 || refused.status == 504) && reasons[refused.reason]:
		return excuse{fmt.Sprintf("answered %d %s", refused.status, refused.reason), err}
	}
	return err
}

// reasons are those of an upstream that is not there.
var reasons = map[string]bool{"upstream_transport": true, "no_upstream": true, "no_upstream_after_retry": true, "connect_timeout": true, "upstream_timeout": true}

// messages opens a WebSocket and has some messages sent back.
func (s *soak) messages(i int) func(*rand.Rand) error {
	return func(r *rand.Rand) error {
		c, err := s.socket(i%2 == 0)
		if err != nil {
			return err
		}
		defer c.Close()
		for range 1 + r.IntN(30) {
			if err := echoed(c, content(fmt.Sprint(r.IntN(1000)), r.IntN(10_000))); err != nil {
				return err
			}
			time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
		}
		return c.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""))
	}
}

// longMessages keeps a WebSocket for as long as it can: over reloads, but not for
// longer than an upgrade allows.
func (s *soak) longMessages(i int) func(*rand.Rand) error {
	return func(r *rand.Rand) error {
		c, err := s.socket(i%2 == 0)
		if err != nil {
			return err
		}
		defer c.Close()
		began := time.Now()
		for !s.ended() {
			if err := echoed(c, content(fmt.Sprint(r.IntN(1000)), r.IntN(1000))); err != nil {
				if at := time.Unix(0, s.upgradedAt.Load()); began.Before(at) {
					return excuse{"outlived its process", err}
				}
				return fmt.Errorf("after %v: %w", time.Since(began), err)
			}
			time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
		}
		return nil
	}
}

// socket opens a WebSocket.
func (s *soak) socket(secure bool) (*websocket.Conn, error) {
	d := &websocket.Dialer{HandshakeTimeout: patience, TLSClientConfig: &tls.Config{RootCAs: s.roots}}
	url := "ws://" + s.plain + "/ws"
	if secure {
		url = "wss://" + s.secure + "/ws"
	}
	c, resp, err := d.Dial(url, http.Header{lineField: {lineOfSome(asked.next())}}) // its line comes with its end, whenever that is
	if err != nil && resp != nil {
		return nil, wrongf("WebSocket: %w: %s", err, resp.Status)
	}
	return c, err
}

// echoed sends a message and reads it back.
func echoed(c *websocket.Conn, text []byte) error {
	c.SetReadDeadline(time.Now().Add(patience))
	if err := c.WriteMessage(websocket.BinaryMessage, text); err != nil {
		return err
	}
	_, got, err := c.ReadMessage()
	if err == nil && sum(got) != sum(text) {
		err = wrongf("message %s, want %s", sum(got), sum(text))
	}
	return err
}
