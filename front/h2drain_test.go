package front_test

import (
	"context"
	"io"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
)

// RFC 9113 §6.8: a connection that is to end allows for requests that are under way.
func TestH2DrainInTwoSteps(t *testing.T) {
	release := make(chan struct{})
	s := startH2C(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		if x.Req.Path == "/slow" {
			x.MayWait()
			<-release
		}
		return nil
	})})
	c := dialH2(t, s)
	slow := c.ask(true, "GET", "/slow")
	if status, _, err := c.answer(c.ask(true, "GET", "/"), false); status != "200" {
		t.Fatal(err)
	}
	done := make(chan int, 1)
	go func() { done <- s.Front.Drain(context.Background()) }()
	var last []uint32
	var ping [8]byte
	for ping == [8]byte{} {
		f, err := c.fr.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch f := f.(type) {
		case *http2.GoAwayFrame:
			last = append(last, f.LastStreamID)
		case *http2.PingFrame:
			ping = f.Data
		}
	}
	if status, _, err := c.answer(c.ask(true, "GET", "/late"), false); status != "200" { // it was under way
		t.Error(status, err)
	}
	c.fr.WritePing(true, ping)
	for len(last) < 2 {
		f, err := c.fr.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if g, ok := f.(*http2.GoAwayFrame); ok {
			last = append(last, g.LastStreamID)
		}
	}
	if last[0] != 1<<31-1 || last[1] != 5 {
		t.Errorf("last streams %v", last)
	}
	c.ask(true, "GET", "/too-late")
	close(release)
	if status, _, err := c.answer(slow, false); status != "200" {
		t.Error(status, err)
	}
	if _, err := c.fr.ReadFrame(); err != io.EOF {
		t.Errorf("afterwards: %v", err)
	}
	if cut := <-done; cut != 0 {
		t.Errorf("%d cut", cut)
	}
}

// A client that does not answer the first GOAWAY is not waited for.
func TestH2DrainOfASilentClient(t *testing.T) {
	s := startH2C(t, &exchangetest.Site{Handler: echo})
	c := dialH2(t, s)
	if status, _, err := c.answer(c.ask(true, "GET", "/"), false); status != "200" {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if cut := s.Front.Drain(ctx); cut != 0 {
		t.Errorf("%d cut", cut)
	}
}

// A drain finds a client in the middle of a frame: the rest of it is read as soon as it
// comes, and the request is answered. The reader is woken to look at the drain, and its
// deadline is that of the frame again.
func TestH2DrainWithinAFrame(t *testing.T) {
	for range 10 {
		s := startH2C(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
			x.MayWait()
			_, err := io.Copy(io.Discard, x.Body())
			return err
		})})
		c := dialH2(t, s)
		id := c.ask(false, "PUT", "/")
		c.fr.WritePing(false, [8]byte{1})
		io.WriteString(c.c, "\x00\x00\x04\x00\x01\x00\x00\x00\x01da") // DATA that ends the stream
		c.pinged(t)
		done := make(chan int, 1)
		go func() { done <- s.Front.Drain(context.Background()) }()
		for told := false; !told; {
			f, err := c.fr.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			_, told = f.(*http2.GoAwayFrame)
		}
		io.WriteString(c.c, "ta")
		if status, _, err := c.answer(id, false); status != "200" {
			t.Fatal(status, err)
		}
		c.c.Close()
		if cut := <-done; cut != 0 {
			t.Fatalf("%d cut", cut)
		}
	}
}

// RFC 9113 §6.8: what a client sends on streams above the number in our last GOAWAY is
// no fault of it, and does not hurt those below.
func TestH2LateStreams(t *testing.T) {
	release := make(chan struct{})
	s := startH2C(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		x.MayWait()
		<-release
		return nil
	})})
	c := dialH2(t, s)
	slow := c.ask(true, "GET", "/slow")
	done := make(chan int, 1)
	go func() { done <- s.Front.Drain(context.Background()) }()
	for last := uint32(0); last != slow; {
		f, err := c.fr.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch f := f.(type) {
		case *http2.PingFrame:
			c.fr.WritePing(true, f.Data)
		case *http2.GoAwayFrame:
			last = f.LastStreamID
		}
	}
	late := c.ask(false, "PUT", "/late")
	for range 10 { // more than the window, were it not given back
		c.fr.WriteData(late, false, make([]byte, 16<<10))
	}
	c.fr.WriteWindowUpdate(late, 1000)
	c.fr.WriteData(late, true, nil)
	c.fr.WriteRSTStream(c.ask(false, "PUT", "/later"), http2.ErrCodeCancel)
	c.fr.WritePing(false, [8]byte{2})
	c.pinged(t)
	close(release)
	if status, _, err := c.answer(slow, false); status != "200" {
		t.Error(status, err)
	}
	c.c.Close()
	if cut := <-done; cut != 0 {
		t.Errorf("%d cut", cut)
	}
}

// pinged reads until a PING of c is answered: what was sent before it has been handled.
func (c *rawH2) pinged(t *testing.T) {
	t.Helper()
	for answered := false; !answered; {
		f, err := c.fr.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		p, ok := f.(*http2.PingFrame)
		answered = ok && p.IsAck()
	}
}
