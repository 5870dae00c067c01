package proxy

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"httpjet/budget"
	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
	"httpjet/extproc"
	"httpjet/groups"
)

// retrying is a policy as it is by default, with n further attempts and no pauses.
func retrying(n int) *Retry {
	r := &Retry{Retries: n, Methods: []string{"GET", "HEAD", "OPTIONS"}, On: Triggers{Connect: true, Reset: true, Timeout: true}, BufSize: 10 << 20}
	r.On.Statuses[2], r.On.Statuses[4] = true, true
	return r
}

// peerOf is an upstream that answers each request in one way: with text, after
// which the connection is kept if it is ok.
func peerOf(t *testing.T, reply string) (string, *atomic.Int32) {
	var n atomic.Int32
	addr, _ := upstream(t, func(c net.Conn, br *bufio.Reader) {
		for head(br) != "" {
			n.Add(1)
			io.WriteString(c, reply)
			if reply != ok {
				return
			}
		}
	})
	return addr, &n
}

func status(code int) string {
	return fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: 4\r\nX-Peer: first\r\nConnection: close\r\n\r\nheld", code)
}

// results are the results of attempts at each peer, zeros left out.
func results(h *Handler) string {
	var all []string
	for _, p := range h.Group.Snapshot() {
		var one []string
		for r, n := range p.Results {
			if n > 0 {
				one = append(one, fmt.Sprintf("%v %d", groups.Result(r), n))
			}
		}
		all = append(all, strings.Join(one, " "))
	}
	return strings.Join(all, ", ")
}

// R-RETRY-1, R-RETRY-3: which ends of an attempt are followed by another one.
func TestRetryTriggers(t *testing.T) {
	f := func(first string, request string, follows bool, want string) {
		t.Helper()
		bad, _ := peerOf(t, first)
		good, n := peerOf(t, ok)
		h := groupOf(t, groups.Options{}, groups.Breaker{}, bad, good)
		h.Retry = retrying(1)
		w, _, _ := serve(h, 0, nil, request)
		if (n.Load() == 1) != follows || follows && w.head.Status != 200 || results(h) != want {
			t.Errorf("%q, %s: %d, %s; want %s", first, request, w.head.Status, results(h), want)
		}
		idle(t, h)
	}
	f("", "GET /", true, "transport_error 1, success 1")
	f("nonsense\r\n\r\n", "GET /", true, "transport_error 1, success 1")
	f("", "HEAD /", true, "transport_error 1, success 1")
	f("", "POST /", false, "transport_error 1, ")
	f("", "PUT /\nIdempotency-Key: a", false, "transport_error 1, ")
	f(status(502), "GET /", true, "upstream_error 1, success 1")
	f(status(504), "GET /", true, "upstream_error 1, success 1")
	f(status(502), "POST /", false, "upstream_error 1, ")
	f(status(503), "GET /", false, "upstream_error 1, ")
	f(status(500), "GET /", false, "upstream_error 1, ")
	f("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut", "GET /", false, "response_error 1, ")
	f("HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\n", "GET /", false, "transport_error 1, ") // R-RETRY-6: something has reached the client
}

// R-RETRY-5: the reply that is held is the answer if nobody else can be asked, with
// its own fields; without one it is 503.
func TestNobodyIsLeft(t *testing.T) {
	addr, n := peerOf(t, status(502))
	h := groupOf(t, groups.Options{}, groups.Breaker{}, addr)
	h.Retry = retrying(3)
	w, _, err := serve(h, 0, nil, "GET /")
	if err != nil || w.head.Status != 502 || w.out.String() != "heldEND" || w.head.Fields.Get("X-Peer") != "first" || n.Load() != 1 {
		t.Errorf("%v, %d %q after %d attempts", err, w.head.Status, w.out.String(), n.Load())
	}
	if w.head.Fields.Has("X-Httpjet-Proxy-Error") {
		t.Error("a reply of the upstream has our token")
	}
	idle(t, h)

	dead, n := peerOf(t, "")
	h = groupOf(t, groups.Options{}, groups.Breaker{}, dead, refused(t))
	h.Retry = retrying(3)
	w, _, err = serve(h, 0, nil, "GET /")
	if w.head.Status != 503 || exchange.ReasonOf(err) != "no_upstream_after_retry" || n.Load() != 1 {
		t.Errorf("%v, %d", err, w.head.Status)
	}
	h = groupOf(t, groups.Options{}, groups.Breaker{}, dead)
	h.Retry = retrying(3)
	w, _, err = serve(h, 0, nil, "GET /")
	if w.head.Status != 503 || exchange.ReasonOf(err) != "no_upstream_after_retry" || w.head.Fields.Get("Retry-After") != "1" ||
		w.head.Fields.Get("X-Httpjet-Proxy-Error") != "no_upstream_after_retry" {
		t.Errorf("%v, %d %v", err, w.head.Status, w.head.Fields)
	}
	idle(t, h)

	// R-GRP-7: where every peer was only dialled, the last failure is the answer.
	h = groupOf(t, groups.Options{}, groups.Breaker{}, refused(t), refused(t))
	h.Retry = retrying(3)
	if w, _, err = serve(h, 0, nil, "GET /"); w.head.Status != 502 || exchange.ReasonOf(err) != "upstream_transport" {
		t.Errorf("%v, %d", err, w.head.Status)
	}
	idle(t, h)
}

// R-RETRY-4: with retrySamePeer peers are asked again once all were; never more
// often than retries says.
func TestSamePeerAgain(t *testing.T) {
	var asked atomic.Int32
	addr, _ := upstream(t, func(c net.Conn, br *bufio.Reader) {
		for head(br) != "" {
			if asked.Add(1) < 4 {
				return
			}
			io.WriteString(c, ok)
		}
	})
	h := groupOf(t, groups.Options{}, groups.Breaker{}, addr)
	h.Retry = retrying(3)
	h.Retry.SamePeer = true
	if w, _, err := serve(h, 0, nil, "GET /"); err != nil || w.out.String() != "okEND" || asked.Load() != 4 {
		t.Errorf("%v, %q after %d attempts", err, w.out.String(), asked.Load())
	}
	asked.Store(-100)
	w, _, err := serve(h, 0, nil, "GET /") // the first of them over a kept connection, and at once over a fresh one
	if w.head.Status != 502 || exchange.ReasonOf(err) != "upstream_transport" || asked.Load() != -95 {
		t.Errorf("%v, %d after %d requests", err, w.head.Status, asked.Load()+100)
	}
	s := h.Group.Snapshot()[0]
	if s.Picks != 8 || s.Repeats != 6 {
		t.Errorf("%d attempts, %d of them repeat one", s.Picks, s.Repeats)
	}
	if moves, none := h.Group.Totals(); moves != 0 || none != 0 {
		t.Errorf("%d moves, %d times no peer", moves, none)
	}
	h = groupOf(t, groups.Options{}, groups.Breaker{}, refused(t))
	h.Retry = retrying(2)
	h.Retry.SamePeer = true
	if w, _, _ := serve(h, 0, nil, "GET /"); w.head.Status != 502 || h.Group.Snapshot()[0].Picks != 3 {
		t.Errorf("%d after %d dials", w.head.Status, h.Group.Snapshot()[0].Picks)
	}
	idle(t, h)
}

// R-RETRY-2, R-RETRY-6: the second peer has the same key and the whole body, also
// of a client that was still sending when the first one failed, and also if that
// one answered early.
func TestBodyIsReplayed(t *testing.T) {
	for _, first := range []string{"", status(502)} {
		for _, length := range []int64{400_000, -1} {
			half := make(chan bool, 1)
			bad, _ := upstream(t, func(c net.Conn, br *bufio.Reader) {
				head(br)
				io.ReadFull(br, make([]byte, 100_000))
				io.WriteString(c, first)
				half <- true
			})
			heads, got := make(chan string, 1), make(chan []byte, 1)
			good, _ := upstream(t, func(c net.Conn, br *bufio.Reader) {
				r, err := http.ReadRequest(br)
				if err != nil {
					return
				}
				b, _ := io.ReadAll(r.Body)
				heads <- r.Header.Get("Idempotency-Key")
				got <- b
				io.WriteString(c, ok)
			})
			bodies := &budget.Bodies{Bytes: budget.NewBytes(1 << 20), Count: budget.NewPermits(1)}
			h := groupOf(t, groups.Options{}, groups.Breaker{}, bad, good)
			h.Retry = retrying(1)
			h.Retry.Methods, h.Retry.Bodies = []string{"POST"}, bodies
			data := pattern(400_000)
			pr, pw := io.Pipe()
			go func() {
				pw.Write(data[:200_000])
				<-half // the first peer is done with it
				pw.Write(data[200_000:])
				pw.Close()
			}()
			w, x, err := serve(h, length, pr, "POST /pay\nIdempotency-Key: k-1")
			if err != nil || w.out.String() != "okEND" || x.BodyRead() != int64(len(data)) {
				t.Fatalf("%q, length %d: %v, %q, %d bytes read", first, length, err, w.out.String(), x.BodyRead())
			}
			if key, b := <-heads, <-got; key != "k-1" || !bytes.Equal(b, data) {
				t.Errorf("key %q, %d bytes", key, len(b))
			}
			if bodies.Bytes.Used() != 0 || bodies.Count.InUse() != 0 {
				t.Error("the budget was not given back")
			}
			idle(t, h)
		}
	}
}

// A small body, which is held whole before the first attempt, is there for each.
func TestHeldBodyIsReplayed(t *testing.T) {
	bad, _ := upstream(t, func(c net.Conn, br *bufio.Reader) { head(br); io.CopyN(io.Discard, br, 5) })
	got := make(chan string, 1)
	good, _ := upstream(t, func(c net.Conn, br *bufio.Reader) {
		if head(br) != "" {
			b := make([]byte, 10)
			io.ReadFull(br, b)
			got <- string(b)
			io.WriteString(c, ok)
		}
	})
	h := groupOf(t, groups.Options{}, groups.Breaker{}, bad, refused(t), good)
	h.Bodies = &budget.Bodies{Bytes: budget.NewBytes(1 << 20), Count: budget.NewPermits(1)}
	h.Retry = retrying(1)
	h.Retry.Methods, h.Retry.Bodies = []string{"POST"}, h.Bodies
	w, _, err := serve(h, 10, strings.NewReader("0123456789"), "POST /\nIdempotency-Key: k")
	if err != nil || w.out.String() != "okEND" || <-got != "0123456789" || h.Bodies.Count.InUse() != 0 || h.Bodies.Bytes.Used() != 0 {
		t.Errorf("%v, %q", err, w.out.String())
	}
	h.Retry.BufSize = 9 // it is held for another reason, and yet sent once
	if _, _, err := serve(h, 10, strings.NewReader("0123456789"), "POST /\nIdempotency-Key: k"); exchange.ReasonOf(err) != "upstream_transport" {
		t.Errorf("%v", err)
	}
	idle(t, h)
}

// R-RETRY-6: a body that is larger than what is kept streams once.
func TestLargeBodyStreamsOnce(t *testing.T) {
	f := func(length, size int64, bodies *budget.Bodies) {
		t.Helper()
		bad, _ := upstream(t, func(c net.Conn, br *bufio.Reader) {
			head(br)
			io.ReadFull(br, make([]byte, 300_000))
		})
		good, n := peerOf(t, ok)
		h := groupOf(t, groups.Options{}, groups.Breaker{}, bad, good)
		h.Retry = retrying(1)
		h.Retry.Methods, h.Retry.BufSize, h.Retry.Bodies = []string{"PUT"}, size, bodies
		w, _, err := serve(h, length, bytes.NewReader(pattern(400_000)), "PUT /\nIdempotency-Key: k")
		if w.head.Status != 502 || exchange.ReasonOf(err) != "upstream_transport" || n.Load() != 0 {
			t.Errorf("%v, %d, %d requests at the second peer", err, w.head.Status, n.Load())
		}
		if used := bodies.Bytes.Used(); used != 0 {
			t.Errorf("%d bytes are charged", used)
		}
		idle(t, h)
	}
	f(400_000, 100_000, &budget.Bodies{Bytes: budget.NewBytes(1 << 20)})
	f(-1, 100_000, &budget.Bodies{Bytes: budget.NewBytes(1 << 20)})
	f(400_000, 1<<20, &budget.Bodies{Bytes: budget.NewBytes(100_000)})
	f(-1, 1<<20, &budget.Bodies{Bytes: budget.NewBytes(1 << 20), Count: taken()})
}

func taken() *budget.Permits {
	p := budget.NewPermits(1)
	p.TryAcquire()
	return p
}

// The pause lies between two attempts, with the first peer released; a client that
// leaves in it ends the exchange, and nobody is charged.
func TestPauseBetweenAttempts(t *testing.T) {
	dead, _ := peerOf(t, "")
	good, n := peerOf(t, ok)
	h := groupOf(t, groups.Options{}, groups.Breaker{}, dead, good)
	h.Retry = retrying(1)
	h.Retry.Backoff, h.Retry.Random = 8*time.Second, func() float64 { return 0.5 }
	h.Retry.Wait = func(ctx context.Context, d time.Duration) error {
		if s := h.Group.Snapshot(); d != 4*time.Second || s[0].Active != 0 || s[1].Active != 1 || n.Load() != 0 {
			t.Errorf("%v, %+v", d, s)
		}
		return ctx.Err()
	}
	if w, _, err := serve(h, 0, nil, "GET /"); err != nil || w.out.String() != "okEND" {
		t.Errorf("%v, %q", err, w.out.String())
	}
	h.Retry.Wait = func(context.Context, time.Duration) error { return context.Canceled }
	_, _, err := serve(h, 0, nil, "GET /")
	if !errors.Is(err, exchange.ErrClientGone) || n.Load() != 1 || results(h) != "transport_error 2, success 1 no_attempt 1" {
		t.Errorf("%v, %d requests at the second peer, %s", err, n.Load(), results(h))
	}
	idle(t, h)
}

// R-TMO-4: an attempt that takes too long is given up for another one, and the time
// of the request is that of all attempts and pauses.
func TestTimeouts(t *testing.T) {
	silent, _ := upstream(t, func(c net.Conn, br *bufio.Reader) { io.Copy(io.Discard, br) })
	good, n := peerOf(t, ok)
	on := groups.Breaker{Threshold: 1, Open: time.Hour, FailOn: groups.FailOn{Timeout: true}}
	h := groupOf(t, groups.Options{}, on, silent, good)
	h.AttemptTimeout = 30 * time.Millisecond
	w, _, err := serve(h, 0, nil, "GET /")
	if w.head.Status != 504 || exchange.ReasonOf(err) != "upstream_timeout" || n.Load() != 0 {
		t.Errorf("without a policy: %v, %d", err, w.head.Status)
	}
	h = groupOf(t, groups.Options{}, on, silent, good)
	h.AttemptTimeout, h.Retry = 30*time.Millisecond, retrying(1)
	if w, _, err := serve(h, 0, nil, "GET /"); err != nil || w.out.String() != "okEND" || results(h) != "timeout 1, success 1" {
		t.Errorf("%v, %q, %s", err, w.out.String(), results(h))
	}
	if s := h.Group.Snapshot(); s[0].Response != "open" || s[1].Response != "closed" {
		t.Errorf("%+v", s)
	}

	h = groupOf(t, groups.Options{}, groups.Breaker{}, silent, silent)
	h.RequestTimeout, h.Retry = 30*time.Millisecond, retrying(10)
	w, _, err = serve(h, 0, nil, "GET /")
	if w.head.Status != 504 || exchange.ReasonOf(err) != "upstream_timeout" || h.Group.Snapshot()[1].Picks != 0 {
		t.Errorf("%v, %d, %s", err, w.head.Status, results(h))
	}

	// A pause that would outlast the request is not begun.
	dead, _ := peerOf(t, "")
	never := func(context.Context, time.Duration) error { t.Error("a pause"); return nil }
	f := func(first string, want int) {
		t.Helper()
		h := groupOf(t, groups.Options{}, groups.Breaker{}, first, good)
		h.RequestTimeout, h.Retry = patience, retrying(1)
		h.Retry.Backoff, h.Retry.Random, h.Retry.Wait = 10*time.Second, func() float64 { return 1 }, never
		x := &exchange.Exchange{}
		x.Reset(&wire{ctx: context.Background()})
		fill(x, 0, "GET /").Began = time.Now().Add(-patience + 5*time.Second)
		if err := exchange.Run(x, h); x.Resp.Status != want {
			t.Errorf("%v, %d, want %d", err, x.Resp.Status, want)
		}
		idle(t, h)
	}
	f(dead, 504)
	held, _ := peerOf(t, status(502))
	f(held, 502)
}

// R-TMO-5: a reply that stops is cut.
func TestStreamIdleTimeout(t *testing.T) {
	addr, _ := upstream(t, func(c net.Conn, br *bufio.Reader) {
		head(br)
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nstops")
		io.Copy(io.Discard, br)
	})
	h := groupOf(t, groups.Options{}, groups.Breaker{}, addr)
	h.IdleTimeout = 30 * time.Millisecond
	w, _, err := serve(h, 0, nil, "GET /")
	if exchange.ReasonOf(err) != "response_error" || w.out.String() != "stopsABORT" || results(h) != "response_error 1" {
		t.Errorf("%v, %q, %s", err, w.out.String(), results(h))
	}
}

// G18: the peer that fails is charged though every client saw 200, and each attempt
// is counted at its own peer.
func TestG18RetriesAreCharged(t *testing.T) {
	bad, n := peerOf(t, status(503))
	good, _ := peerOf(t, ok)
	on := groups.FailOn{}
	on.AddStatus(503)
	h := groupOf(t, groups.Options{}, groups.Breaker{Threshold: 3, Open: time.Hour, FailOn: on}, bad, good)
	h.Retry = retrying(1)
	h.Retry.On.Statuses[3] = true
	for range 5 {
		if w, _, err := serve(h, 0, nil, "GET /"); err != nil || w.out.String() != "okEND" {
			t.Errorf("%v, %d", err, w.head.Status)
		}
	}
	s := h.Group.Snapshot()
	if n.Load() != 3 || s[0].Response != "open" || s[1].Repeats != 3 || results(h) != "upstream_error 3, success 5" {
		t.Errorf("%d requests at the bad peer, %s, %+v", n.Load(), results(h), s)
	}
	idle(t, h)
}

// R-RETRY-7: where the policy does not cover a request, its client is told not to
// repeat it either.
func TestPolicyForbidsReplays(t *testing.T) {
	f := func(r *Retry, request string, want bool) {
		t.Helper()
		c := &recording{}
		h := &Handler{Group: groups.Single(c), Retry: r}
		serve(h, 0, nil, request)
		if c.noReplay != want {
			t.Errorf("%s: %v", request, c.noReplay)
		}
	}
	f(nil, "DELETE /", false)
	f(retrying(1), "GET /", false)
	f(retrying(1), "DELETE /", true)
	f(retrying(1), "PUT /\nIdempotency-Key: k", true)
	f(&Retry{Methods: []string{"PUT"}}, "PUT /\nIdempotency-Key: k", false)
	f(&Retry{}, "GET /", true)
}

// recording answers at once and remembers the call.
type recording struct{ noReplay bool }

func (r *recording) Do(_ context.Context, c *extproc.Call) (*extproc.Reply, error) {
	r.noReplay = c.NoReplay
	return &extproc.Reply{Status: 204, Body: strings.NewReader("")}, nil
}
func (*recording) Retire() {}

// G13: bodies of every size come whole to the peer that takes them, by every front
// end, with a peer before it that breaks off in the middle.
func TestG13ReplayOnEveryFront(t *testing.T) {
	bad, _ := upstream(t, func(c net.Conn, br *bufio.Reader) {
		if head(br) != "" {
			io.CopyN(io.Discard, br, 1)
		}
	})
	good, _ := upstream(t, func(c net.Conn, br *bufio.Reader) {
		for {
			r, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			b, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(b), b)
		}
	})
	exchangetest.Run(t, func(t *testing.T, start func(exchange.Handler) *exchangetest.Server) {
		h := groupOf(t, groups.Options{}, groups.Breaker{}, bad, good)
		h.Retry = retrying(1)
		h.Retry.Methods = []string{"POST"}
		s := start(h)
		for _, n := range []int{1, 1000, 4096, 65536, 65537, 3 << 20} {
			for _, chunked := range []bool{false, true} {
				data := pattern(n)
				var body io.Reader = bytes.NewReader(data)
				if chunked {
					body = struct{ io.Reader }{body}
				}
				req, err := http.NewRequest("POST", s.URL+"/", body)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Idempotency-Key", "k")
				r, err := s.Client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				got, err := io.ReadAll(r.Body)
				r.Body.Close()
				if err != nil || r.StatusCode != 200 || !bytes.Equal(got, data) {
					t.Fatalf("%d bytes, chunked %v: status %d, %d came back, %v; %v", n, chunked, r.StatusCode, len(got), err, s.Site.Errs())
				}
			}
		}
	})
}

// Over HTTP/2 a body is replayed in the same way: to a peer that has it in parts
// when another one resets the stream, and to one that answers early.
func TestBodyIsReplayedOverHTTP2(t *testing.T) {
	serve2 := func(f http.HandlerFunc) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{Handler: f, Protocols: new(http.Protocols)}
		s.Protocols.SetUnencryptedHTTP2(true)
		done := make(chan error)
		go func() { done <- s.Serve(l) }()
		t.Cleanup(func() { s.Close(); <-done })
		return l.Addr().String()
	}
	for _, early := range []bool{false, true} {
		half := make(chan bool, 1)
		bad := serve2(func(w http.ResponseWriter, r *http.Request) {
			io.ReadFull(r.Body, make([]byte, 100_000))
			half <- true
			if early {
				w.WriteHeader(502)
				return
			}
			panic(http.ErrAbortHandler)
		})
		good := serve2(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
		o := groups.Options{}
		for _, a := range []string{bad, good} {
			c := extproc.NewH2(extproc.Target{Kind: extproc.KindProxy, Scheme: extproc.H2, Network: "tcp", Address: a,
				InitTimeout: patience, KeepAlive: time.Minute, HeadTimeout: patience, BodyTimeout: patience}, nil)
			t.Cleanup(c.Retire)
			o.Peers = append(o.Peers, groups.Peer{ID: a, Client: c})
		}
		bodies := &budget.Bodies{Bytes: budget.NewBytes(1 << 20), Count: budget.NewPermits(1)}
		h := &Handler{Group: groups.New(o), Retry: retrying(1)}
		h.Retry.Methods, h.Retry.Bodies = []string{"POST"}, bodies
		data := pattern(400_000)
		for _, length := range []int64{400_000, -1} {
			pr, pw := io.Pipe()
			go func() {
				pw.Write(data[:200_000])
				<-half
				pw.Write(data[200_000:])
				pw.Close()
			}()
			w, _, err := serve(h, length, pr, "POST /\nIdempotency-Key: k")
			if err != nil || w.out.String() != string(data)+"END" {
				t.Errorf("early %v, length %d: %v, %d, %d bytes", early, length, err, w.head.Status, w.out.Len())
			}
			if bodies.Bytes.Used() != 0 || bodies.Count.InUse() != 0 {
				t.Error("the budget was not given back")
			}
		}
		idle(t, h)
	}
}
