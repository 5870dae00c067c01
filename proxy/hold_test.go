package proxy

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"httpjet/budget"
	"httpjet/exchange"
	"httpjet/groups"
)

// stalling is a client that sends a part of its body and then nothing until it is
// told to go.
type stalling struct {
	part  io.Reader
	begun chan struct{}
	gone  chan struct{}
}

func (s *stalling) Read(p []byte) (int, error) {
	if n, err := s.part.Read(p); err == nil {
		return n, nil
	}
	s.begun <- struct{}{}
	<-s.gone
	return 0, exchange.ErrClientGone
}

// Clients that declare a small body and do not send it hold no connection: others
// are served on the only one.
func TestG63SmallBodyTakesNoConnection(t *testing.T) {
	h, _, _ := canned(t, ok)
	h.Bodies = &budget.Bodies{Bytes: budget.NewBytes(8 << 20), Count: budget.NewPermits(60)}
	begun, gone := make(chan struct{}), make(chan struct{})
	const clients = 50
	errs := make(chan error, clients)
	for i := range clients {
		go func() {
			_, _, err := serve(h, heldMax, &stalling{bytes.NewReader(make([]byte, i)), begun, gone}, "POST /up")
			errs <- err
		}()
		<-begun
	}
	for range 5 {
		if w, _, err := serve(h, 2, strings.NewReader("ab"), "POST /"); err != nil || w.out.String() != "okEND" {
			t.Fatalf("%v %q", err, w.out.String())
		}
	}
	if n := h.Group.Snapshot()[0].Active; n != 0 || h.Bodies.Count.InUse() != clients {
		t.Errorf("%d reservations, %d bodies held", n, h.Bodies.Count.InUse())
	}
	close(gone)
	for range clients {
		if err := <-errs; exchange.ReasonOf(err) != "client_gone" {
			t.Error(err)
		}
	}
	if h.Bodies.Count.InUse() != 0 || h.Bodies.Bytes.Used() != 0 {
		t.Error("bodies still held")
	}
}

// A held body is the same as a streamed one for the upstream, and a client whose
// body was read whole keeps its connection whatever the upstream does.
func TestHeldBodies(t *testing.T) {
	bodies := &budget.Bodies{Bytes: budget.NewBytes(heldMax), Count: budget.NewPermits(1)}
	var got atomic.Value
	addr, _ := upstream(t, func(c net.Conn, br *bufio.Reader) {
		for hd := head(br); hd != ""; hd = head(br) {
			early := strings.HasPrefix(hd, "POST /early")
			if early {
				io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig")
			}
			_, length, _ := strings.Cut(hd, "\r\nContent-Length: ")
			length, _, _ = strings.Cut(length, "\r")
			n, err := strconv.Atoi(length)
			if err != nil {
				return
			}
			b := make([]byte, n)
			if _, err := io.ReadFull(br, b); err != nil || early {
				continue
			}
			got.Store(b)
			io.WriteString(c, ok)
		}
	})
	for _, n := range []int{1, 20, heldMax - 1, heldMax} {
		data := bytes.Repeat([]byte{byte(n), 7}, n)[:n]
		h := groupOf(t, groups.Options{}, groups.Breaker{}, refused(t), addr) // G13: and the next peer has it
		h.Bodies = bodies
		for _, in := range []io.Reader{bytes.NewReader(data), iotest.HalfReader(iotest.DataErrReader(bytes.NewReader(data)))} {
			w, x, err := serve(h, int64(n), in, "POST /")
			if err != nil || w.out.String() != "okEND" || !bytes.Equal(got.Load().([]byte), data) || x.BodyRead() != int64(n) {
				t.Errorf("%d bytes: %v %q", n, err, w.out.String())
			}
		}
		w, _, err := serve(h, int64(n), bytes.NewReader(data), "POST /early")
		if err != nil || w.head.Status != 413 || w.stopped.Load() {
			t.Errorf("%d bytes, early answer: %v, %d, stopped %v", n, err, w.head.Status, w.stopped.Load())
		}
		idle(t, h)
	}
	if bodies.Count.InUse() != 0 || bodies.Bytes.Used() != 0 {
		t.Error("bodies still held")
	}
}

// What keeps a body from being held is answered before anybody is asked.
func TestHeldBodyFailures(t *testing.T) {
	h, _, n := canned(t, ok)
	f := func(bodies *budget.Bodies, in io.Reader, status int, reason string) {
		t.Helper()
		h.Bodies = bodies
		w, _, err := serve(h, 100, in, "POST /")
		if exchange.ReasonOf(err) != reason || w.head.Status != status || !w.head.Fields.HasToken("Connection", "close") && status != 499 {
			t.Errorf("%v, answered %d %v; want %d %s", err, w.head.Status, w.head.Fields, status, reason)
		}
	}
	full := &budget.Bodies{Count: budget.NewPermits(1)}
	full.Count.TryAcquire()
	f(full, bytes.NewReader(make([]byte, 100)), 503, "overloaded")
	f(&budget.Bodies{Bytes: budget.NewBytes(10)}, bytes.NewReader(make([]byte, 100)), 503, "overloaded")
	f(&budget.Bodies{}, bytes.NewReader(make([]byte, 99)), 400, "bad_request")
	stalled := &exchange.Error{Status: 408, Reason: "request_stalled", Close: true}
	f(&budget.Bodies{}, io.MultiReader(strings.NewReader("x"), iotest.ErrReader(stalled)), 408, "request_stalled")
	f(&budget.Bodies{}, iotest.ErrReader(io.ErrClosedPipe), 499, "client_gone")
	if n.Load() != 0 {
		t.Errorf("%d connections", n.Load())
	}
}

// A held body must come at some pace (G63); one that streams may trickle: it may be
// live (R-TMO-3).
func TestG63TrickledSmallBodyIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Handler{Bodies: &budget.Bodies{}, BodyTimeout: 30 * time.Second}
		x := &exchange.Exchange{}
		x.Reset(&wire{ctx: context.Background(), in: slowly(100)})
		hop := &hop{}
		if err := hop.fill(h, fill(x, 100, "POST /")); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err := h.hold(x, &hop.call)
		if took := time.Since(began); exchange.StatusOf(err) != 408 || took < 30*time.Second || took > 40*time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// slowly is a body of n bytes, one in five seconds.
func slowly(n int64) io.Reader {
	return iotest.OneByteReader(io.LimitReader(readerFunc(func(p []byte) (int, error) {
		<-time.After(5 * time.Second)
		return len(p), nil
	}), n))
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
