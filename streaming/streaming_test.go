package streaming

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
	"httpjet/extproc"
)

// wire records a response. Bytes count as visible to the client once flushed.
type wire struct {
	head     exchange.Response
	noBody   bool
	held     bytes.Buffer // written, not flushed
	seen     bytes.Buffer // flushed
	writes   int
	flushed  chan string // receives the visible body after each flush, if not nil
	trailers string
	ended    bool
	aborted  error
	fail     error // of Write
	rooms    []int // what Room returns, the last for ever; none: a lot
}

func (w *wire) Read([]byte) (int, error)        { return 0, io.EOF }
func (w *wire) Trailers() *exchange.Fields      { return nil }
func (w *wire) StopRead()                       {}
func (w *wire) Context() context.Context        { return context.Background() }
func (w *wire) Abort(cause error)               { w.aborted = cause }
func (w *wire) Write(p []byte) (n int, e error) { w.writes++; w.held.Write(p); return len(p), w.fail }

func (w *wire) Room() int {
	if len(w.rooms) == 0 {
		return 1 << 30
	}
	n := w.rooms[0]
	w.rooms = w.rooms[min(1, len(w.rooms)-1):]
	return n
}

func (w *wire) Head(r *exchange.Response, noBody, last bool) error {
	w.head, w.noBody = *r, noBody
	return nil
}

func (w *wire) Flush() error {
	w.held.WriteTo(&w.seen)
	if w.flushed != nil {
		w.flushed <- w.seen.String()
	}
	return nil
}

func (w *wire) End(trailers *exchange.Fields) error {
	w.ended = true
	w.held.WriteTo(&w.seen)
	for n, v := range trailers.All() {
		w.trailers += n + "=" + v + ";"
	}
	return nil
}

func run(w *wire, method string, r *extproc.Reply) error {
	x := &exchange.Exchange{}
	x.Reset(w)
	x.Req.Method = method
	return exchange.Run(x, exchange.HandlerFunc(func(x *exchange.Exchange) error { return Relay(x, r) }))
}

// steps is a body that comes in pieces; each but the first is sent by the test.
type steps struct {
	pieces chan string
	have   string
	err    error // at the end; nil: io.EOF
}

func (s *steps) Read(p []byte) (int, error) {
	if s.have == "" {
		piece, more := <-s.pieces
		if !more && s.err != nil {
			return 0, s.err
		}
		if !more {
			return 0, io.EOF
		}
		s.have = piece
	}
	n := copy(p, s.have)
	s.have = s.have[n:]
	return n, nil
}

func reply(status int, length int64, body io.Reader) (*extproc.Reply, *int) {
	closed := 0
	return &extproc.Reply{Status: status, Length: length, Body: body, Done: func() error { closed++; return nil }}, &closed
}

// The head and every event are visible before the next event exists
// (R-STREAM-1, R-STREAM-2).
func TestEventsAreLive(t *testing.T) {
	for _, counted := range []bool{false, true} {
		s := &steps{pieces: make(chan string)}
		r, closed := reply(200, -1, s)
		r.Fields.Add("Content-Type", "text/event-stream")
		if counted {
			r.Buffered = func() int { return len(s.have) }
		}
		w := &wire{flushed: make(chan string)}
		done := make(chan error)
		go func() { done <- run(w, "GET", r) }()
		var want strings.Builder
		if counted {
			if got := <-w.flushed; got != "" {
				t.Fatalf("visible before the first event: %q", got)
			}
		}
		for _, event := range []string{"data: 1\n\n", "data: 2\n\n", "data: 3\n\n"} {
			s.pieces <- event
			want.WriteString(event)
			if got := <-w.flushed; got != want.String() {
				t.Fatalf("visible %q, want %q", got, want.String())
			}
		}
		close(s.pieces)
		if err := <-done; err != nil || !w.ended || *closed != 1 {
			t.Errorf("%v, ended %v, closed %d", err, w.ended, *closed)
		}
	}
}

// What is at hand is written before it is flushed: few flushes for a bulk.
func TestBulkIsNotFlushedPerRead(t *testing.T) {
	body := bytes.NewReader(make([]byte, 8<<20))
	r, _ := reply(200, int64(body.Len()), body)
	r.Buffered = body.Len
	w := &wire{}
	flushes := 0
	x := &exchange.Exchange{}
	x.Reset(&flushCounter{w, &flushes})
	if err := Relay(x, r); err != nil {
		t.Fatal(err)
	}
	if flushes > 1 || w.writes > 20 || w.held.Len()+w.seen.Len() != 8<<20 {
		t.Errorf("%d flushes, %d writes, %d bytes", flushes, w.writes, w.held.Len())
	}
}

type flushCounter struct {
	*wire
	n *int
}

func (f *flushCounter) Flush() error { *f.n++; return nil }

// Large buffers are held only while reads fill them and the client takes what is
// read, and only so many of them (R-STREAM-3).
func TestBufferGrowsAndShrinks(t *testing.T) {
	f := func(give, want []int, rooms ...int) {
		t.Helper()
		var asked []int
		r, _ := reply(200, -1, readerFunc(func(p []byte) (int, error) {
			if len(give) == 0 {
				return 0, io.EOF
			}
			asked = append(asked, len(p))
			n := give[0]
			give = give[1:]
			return n, nil
		}))
		r.Buffered = func() int { return 1 }
		if err := run(&wire{rooms: rooms}, "GET", r); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(asked, want) {
			t.Errorf("rooms %v: buffers %v, want %v", rooms, asked, want)
		}
	}
	const s, b = smallSize, bigSize
	f([]int{s, s, 10, s, s, s, s, s, s, s, s, b, s, 10, 10}, []int{s, s, s, s, s, s, s, s, s, s, s, b, b, b, s})
	// The client takes less, nothing for a while, then a lot again.
	f([]int{s, s, s, s, s, s, s, s, b, 70000, s, s, b, 10}, []int{s, s, s, s, s, s, s, s, b, 70000, s, s, b, b}, b, 70000, worth-1, 0, b)
	f([]int{s, s, s, s, s, s, s, s, s, s}, []int{s, s, s, s, s, s, s, s, s, s}, -1) // nobody knows
	if n := bigs.out.Load(); n != 0 {
		t.Errorf("%d buffers not given back", n)
	}
	var lent []*[bigSize]byte
	for range maxBig {
		lent = append(lent, bigs.get())
	}
	f([]int{s, s, s, s, s, s, s, s, s, s}, []int{s, s, s, s, s, s, s, s, s, s})
	for _, b := range lent {
		bigs.put(b)
	}
}

// A client that stalls in the middle of a bulk finds no big buffer held for it,
// with and without TLS (R-STREAM-3).
func TestStalledClientHoldsNoBigBuffer(t *testing.T) {
	for _, secure := range []bool{false, true} {
		var taken atomic.Int64
		s := exchangetest.Start(t, &exchangetest.Site{Handler: exchange.HandlerFunc(func(x *exchange.Exchange) error {
			r, _ := reply(200, -1, readerFunc(func(p []byte) (int, error) {
				taken.Add(int64(len(p)))
				return len(p), nil
			}))
			r.Buffered = func() int { return 1 }
			return Relay(x, r)
		})}, secure)
		var c net.Conn
		var err error
		if secure {
			c, err = tls.Dial("tcp", s.Addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
		} else {
			c, err = net.Dial("tcp", s.Addr)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if _, err := io.CopyN(io.Discard, c, 64<<20); err != nil {
			t.Fatal(err)
		}
		// Stalled: the relay takes nothing more for a while.
		still, last := 0, int64(0)
		for end := time.Now().Add(20 * time.Second); still < 30; {
			<-time.After(10 * time.Millisecond)
			if n := taken.Load(); n != last {
				still, last = 0, n
			} else if still++; time.Now().After(end) {
				t.Fatal("the relay never stands still")
			}
		}
		if n := bigs.out.Load(); n != 0 {
			t.Errorf("secure %v: %d big buffers held for a client that reads nothing", secure, n)
		}
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestHeadIsRelayed(t *testing.T) { // fault 6, fault 12
	r, _ := reply(299, 3, strings.NewReader("abc"))
	for _, f := range []exchange.Field{{Name: "x-Low", Value: "1"}, {Name: "Server", Value: "up"}, {Name: "Set-Cookie", Value: "a"},
		{Name: "date", Value: "yesterday"}, {Name: "Set-Cookie", Value: "b"}, {Name: "X-Empty", Value: ""}} {
		r.Fields.Add(f.Name, f.Value)
	}
	w := &wire{}
	if err := run(w, "GET", r); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for n, v := range w.head.Fields.All() {
		got.WriteString(n + "=" + v + ";")
	}
	if w.head.Status != 299 || w.head.Length != 3 || got.String() != "x-Low=1;Set-Cookie=a;Set-Cookie=b;X-Empty=;" || w.seen.String() != "abc" {
		t.Errorf("%d, length %d, %s, body %q", w.head.Status, w.head.Length, got.String(), w.seen.String())
	}
}

func TestNoBody(t *testing.T) {
	f := func(method string, status int, length int64) {
		t.Helper()
		r, closed := reply(status, length, strings.NewReader(""))
		w := &wire{}
		if err := run(w, method, r); err != nil {
			t.Fatal(err)
		}
		if !w.noBody || w.head.Length != length || !w.ended || *closed != 1 || w.writes != 0 {
			t.Errorf("%s %d: %+v", method, status, w)
		}
	}
	f("HEAD", 200, 1234)
	f("GET", 204, -1)
	f("GET", 304, 1234)
}

func TestTrailersAreRelayed(t *testing.T) { // R-UP-6
	r, _ := reply(200, -1, strings.NewReader("x"))
	r.Fields.Add("Trailer", "X-Sum, X-Other")
	tr := &exchange.Fields{}
	tr.Add("X-Sum", "42")
	r.Trailers = func() *exchange.Fields { return tr }
	w := &wire{}
	if err := run(w, "GET", r); err != nil {
		t.Fatal(err)
	}
	if w.trailers != "X-Sum=42;" || w.head.Fields.Get("Trailer") != "X-Sum, X-Other" {
		t.Errorf("trailers %q, announced %q", w.trailers, w.head.Fields.Get("Trailer"))
	}
}

// A reply that breaks is cut, and never looks complete (fault 3, R-STREAM-4).
func TestFault3BrokenReplyIsCut(t *testing.T) {
	s := &steps{pieces: make(chan string, 1), err: io.ErrUnexpectedEOF}
	s.pieces <- "half"
	close(s.pieces)
	r, closed := reply(200, 8, s)
	w := &wire{}
	err := run(w, "GET", r)
	if exchange.ReasonOf(err) != "response_error" || w.aborted == nil || w.ended || *closed != 1 {
		t.Errorf("%v, aborted %v, ended %v, closed %d", err, w.aborted, w.ended, *closed)
	}
}

func TestClientWriteErrorIsTheClients(t *testing.T) {
	r, closed := reply(200, 1, strings.NewReader("x"))
	w := &wire{fail: errors.New("broken pipe")}
	err := run(w, "GET", r)
	if !errors.Is(err, exchange.ErrClientGone) || w.ended || *closed != 1 {
		t.Errorf("%v, ended %v, closed %d", err, w.ended, *closed)
	}
	gone, _ := reply(200, -1, &steps{pieces: closedChan(), err: exchange.ErrClientGone})
	if err := run(&wire{}, "GET", gone); !errors.Is(err, exchange.ErrClientGone) {
		t.Errorf("cut call: %v", err)
	}
}

func closedChan() chan string { c := make(chan string); close(c); return c }
