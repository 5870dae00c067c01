package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go/http3"
)

// patience is how long an answer may take until it counts as lost.
const patience = time.Minute

// A worker makes one request, or has one conversation, again and again.
type worker struct {
	kind  string
	n     int           // at once
	think time.Duration // between two of them, at most
	make  func(id int) func(r *rand.Rand) error
}

// traffic starts all workers; they end when the run is over, each behind what it has
// begun.
func (s *soak) traffic(work *sync.WaitGroup) {
	for _, w := range s.workers() {
		for i := range w.n {
			r := rand.New(rand.NewPCG(s.seed, uint64(i)<<32|uint64(len(w.kind))))
			once := w.make(i)
			work.Go(func() {
				for s.pause(context.Background(), time.Duration(r.Int64N(int64(w.think)+1))) {
					began := time.Now()
					s.note(w.kind, began, once(r))
				}
			})
		}
	}
}

func (s *soak) workers() []worker {
	ms := time.Millisecond
	return []worker{
		{"h1", 4, 20 * ms, s.asks(func() (*http.Client, string) { return s.h1(false), "http://" + s.plain })},
		{"h1 tls", 3, 20 * ms, s.asks(func() (*http.Client, string) { return s.tcp(false), "https://" + s.secure })},
		{"h1 new each", 2, 20 * ms, s.asks(func() (*http.Client, string) { return s.h1(true), "http://" + s.plain })},
		{"h2", 6, 20 * ms, s.asks(func() (*http.Client, string) { return s.tcp(true), "https://" + s.secure })},
		{"h3", 3, 50 * ms, s.overQUIC},
		{"h1 kept busy", 6, 5 * ms, s.strictly(&s.plain)},
		{"h1 kept idle", 10, 5 * time.Second, s.strictly(&s.plain)},
		{"h1 removed", 4, 200 * ms, s.onExtra},
		{"upload", 3, 100 * ms, s.uploads},
		{"events", 4, 200 * ms, s.events},
		{"websocket", 4, 200 * ms, s.messages},
		{"websocket long", 2, time.Second, s.longMessages},
		{"slow client", 3, 200 * ms, s.slowly},
		{"upstream dies", 2, 20 * ms, s.atFrail},
		{"peer dies", 2, 20 * ms, s.atPair},
	}
}

// extraState and the like are what workers know of troubles.
type troubles struct {
	orders     sync.Mutex   // held for a reload and an upgrade
	extraAt    atomic.Int64 // 0: the listener Extra is there, 1: it is not, -1: unknown
	upgradedAt atomic.Int64 // Unix nanoseconds of the last upgrade
	settled    atomic.Bool  // there will be no other upgrade
}

// h1 is a client over HTTP/1.1, in clear text.
func (s *soak) h1(once bool) *http.Client {
	return &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: once}}
}

// tcp is a client over TLS.
func (s *soak) tcp(h2 bool) *http.Client {
	return &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.roots}, ForceAttemptHTTP2: h2}}
}

var ids atomic.Uint64

// ask is a request and what has to come of it.
type ask struct {
	method, target string
	post           []byte
	pieces         bool // of unknown length
	want           []byte
	id             string        // of the answer; "": of any request
	age            time.Duration // that the answer may have; 0: it tells none
}

// random is one of the requests that every protocol makes.
func random(r *rand.Rand) ask {
	n, id := r.IntN(20_000), strconv.FormatUint(ids.Add(1), 10)
	name := fmt.Sprintf("x%d", r.IntN(1000))
	switch r.IntN(8) {
	case 0, 1:
		name = slices.Sorted(maps.Keys(files))[r.IntN(len(files))]
		return ask{method: "GET", target: "/" + name, want: content(name, files[name])}
	case 2:
		return ask{method: "GET", target: fmt.Sprintf("/app/%s?n=%d&pieces=1", name, n), want: content(name, n), id: id}
	case 3:
		return ask{method: "GET", target: fmt.Sprintf("/fcgi/%s?n=%d", name, n), want: content(name, n), id: id}
	case 4, 5: // of the two caches
		name, n = fmt.Sprintf("kept%d", n%10), n%10*1000
		return ask{method: "GET", target: fmt.Sprintf("/%s/%s?n=%d", [2]string{"kept", "fcgi"}[r.IntN(2)], name, n), want: content(name, n), age: cacheTime + staleTime}
	case 6:
		body := content(name, n)
		return ask{method: "POST", target: [2]string{"/app/", "/fcgi/"}[r.IntN(2)] + name, post: body, want: []byte(sum(body)), id: id}
	}
	return ask{method: "GET", target: fmt.Sprintf("/app/%s?n=%d", name, n), want: content(name, n), id: id}
}

// asks makes random requests.
func (s *soak) asks(client func() (*http.Client, string)) func(int) func(*rand.Rand) error {
	return func(int) func(*rand.Rand) error {
		c, base := client()
		return func(r *rand.Rand) error { return fetch(c, base, random(r)) }
	}
}

// fetch makes a request and checks what comes of it.
func fetch(c *http.Client, base string, a ask) error {
	var body io.Reader
	if a.post != nil {
		body = bytes.NewReader(a.post)
		if a.pieces {
			body = struct{ io.Reader }{body}
		}
	}
	req, err := http.NewRequest(a.method, base+a.target, body)
	if err != nil {
		return err
	}
	n := asked.next()
	req.Header.Set(idField, a.id)
	req.Header.Set(lineField, lineOfSome(n))
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if err = a.check(resp); err == nil {
		asked.note(n)
	}
	return err
}

// refusal is an answer with another status than 200.
type refusal struct {
	status int
	reason string
}

func (r *refusal) Error() string { return fmt.Sprintf("status %d %q", r.status, r.reason) }

// check reads an answer.
func (a *ask) check(resp *http.Response) error {
	got, err := io.ReadAll(resp.Body)
	switch {
	case err != nil && resp.StatusCode == 200:
		return fmt.Errorf("%s %s: cut after %d of %d bytes: %w", a.method, a.target, len(got), len(a.want), err)
	case resp.StatusCode != 200:
		return wrong{fmt.Errorf("%s %s: %w: %.100q", a.method, a.target, &refusal{resp.StatusCode, resp.Header.Get("X-Httpjet-Proxy-Error")}, got)}
	case !bytes.Equal(got, a.want):
		return wrongf("%s %s: %d bytes, %s; want %d, %s", a.method, a.target, len(got), sum(got), len(a.want), sum(a.want))
	case a.id != "" && resp.Header.Get(idField) != a.id:
		return wrongf("%s %s: the answer to request %q, not to %q", a.method, a.target, resp.Header.Get(idField), a.id)
	case a.age > 0:
		made, err := strconv.ParseInt(resp.Header.Get(madeField), 10, 64)
		if err != nil {
			return wrongf("%s %s: %w", a.method, a.target, err)
		}
		if age := time.Since(time.UnixMilli(made)); age > a.age+patience/4 {
			return wrongf("%s %s: %v old", a.method, a.target, age)
		}
	}
	return nil
}

// overQUIC asks over HTTP/3, and where that is not to be had or ends, as browsers do
// over TCP: an alternative service is never all there is (RFC 7838).
func (s *soak) overQUIC(int) func(*rand.Rand) error {
	tr := &http3.Transport{TLSClientConfig: &tls.Config{RootCAs: s.roots}}
	c, tcp := &http.Client{Timeout: patience, Transport: tr}, s.tcp(true)
	return func(r *rand.Rand) error {
		a := random(r)
		err := fetch(c, "https://"+s.secure, a)
		if err == nil || errors.As(err, new(wrong)) || !s.upgrading() {
			return err
		}
		tr.CloseIdleConnections()
		if a.method != "GET" {
			return excuse{"not repeated over TCP while an upgrade was under way", err}
		}
		if err := fetch(tcp, "https://"+s.secure, a); err != nil {
			return err
		}
		return excuse{"answered over TCP while an upgrade was under way", err}
	}
}

// upgrading reports whether a process may still be ending that was succeeded.
func (s *soak) upgrading() bool {
	return time.Since(time.Unix(0, s.upgradedAt.Load())) < grace+keepAlive
}

// uploads posts larger bodies, with and without a length, over HTTP/1.1 and HTTP/2.
func (s *soak) uploads(i int) func(*rand.Rand) error {
	c := s.tcp(i%2 == 0)
	return func(r *rand.Rand) error {
		body := content(fmt.Sprint(r.IntN(100)), r.IntN(2<<20))
		id := strconv.FormatUint(ids.Add(1), 10)
		return fetch(c, "https://"+s.secure, ask{method: "PUT", target: [2]string{"/app/upload", "/fcgi/upload"}[r.IntN(2)], post: body, pieces: r.IntN(2) == 0, want: []byte(sum(body)), id: id})
	}
}

// events reads a stream of events, of which none may be missing.
func (s *soak) events(i int) func(*rand.Rand) error {
	c, base := s.h1(false), "http://"+s.plain
	if i%2 == 0 {
		c, base = s.tcp(true), "https://"+s.secure
	}
	return func(r *rand.Rand) error {
		n, of := 1+r.IntN(60), strconv.FormatUint(ids.Add(1), 10)
		var want strings.Builder
		for k := range n {
			fmt.Fprintf(&want, "data: event %d of %s\n\n", k, of)
		}
		return fetch(c, base, ask{method: "GET", target: fmt.Sprintf("/app/events?n=%d&of=%s", n, of), want: []byte(want.String())})
	}
}

// slowly sends a head in pieces and reads the answer in pieces.
func (s *soak) slowly(int) func(*rand.Rand) error {
	return func(r *rand.Rand) error {
		c, err := net.DialTimeout("tcp", s.plain, patience)
		if err != nil {
			return err
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		a := ask{method: "GET", target: "/app/slow?n=40000&pieces=1", want: content("slow", 40_000)}
		n := asked.next()
		for part := range slices.Chunk(fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: localhost\r\n%s: %s\r\nConnection: close\r\n\r\n", a.target, lineField, lineOf(n, 0)), 8) {
			if _, err := c.Write(part); err != nil {
				return err
			}
			s.pause(context.Background(), time.Duration(r.IntN(200))*time.Millisecond)
		}
		resp, err := http.ReadResponse(bufio.NewReaderSize(&trickle{c, s}, 2048), nil)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if err = a.check(resp); err == nil {
			asked.note(n)
		}
		return err
	}
}

// trickle reads a little at a time.
type trickle struct {
	io.Reader
	s *soak
}

func (t *trickle) Read(p []byte) (int, error) {
	t.s.pause(context.Background(), 50*time.Millisecond)
	return t.Reader.Read(p[:min(len(p), 2048)])
}
