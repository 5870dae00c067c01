package front_test

import (
	"bufio"
	"encoding/binary"
	"testing"

	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
	"httpjet/h2"
)

// h2Trips makes requests one after the other on h, by frames that are made once.
func h2Trips(t *testing.T, h *rawH2) (trip func()) {
	h.fr.WriteSettingsAck()
	if status, _, err := h.answer(h.ask(true, "GET", "/a"), true); err != nil || status != "200" {
		t.Fatal(status, err)
	}
	// All fields of this one are in the table of the connection by now.
	block := h.fields(":method: GET", ":scheme: http", ":authority: a.test", ":path: /a")
	frame := append(h2.AppendHeader(nil, len(block), h2.Headers, h2.EndStream|h2.EndHeaders, 0), block...)
	more := h2.AppendWindowUpdate(nil, 0, len(hello))
	in := bufio.NewReader(h.c)
	return func() {
		binary.BigEndian.PutUint32(frame[5:], h.next)
		h.next += 2
		h.c.Write(more)
		h.c.Write(frame)
		for {
			head, err := in.Peek(h2.HeaderSize)
			if err != nil {
				t.Fatal(err)
			}
			f := h2.ParseHeader(head)
			if _, err := in.Discard(h2.HeaderSize + f.Length); err != nil {
				t.Fatal(err)
			}
			if f.Type == h2.Data && f.Has(h2.EndStream) {
				return
			}
		}
	}
}

// TestH2Allocations pins the cost of a small exchange over HTTP/2: its id, whether it
// stays on the goroutine of the reader or leaves it.
func TestH2Allocations(t *testing.T) {
	if raced {
		t.Skip("the race detector makes pools forget")
	}
	for name, handler := range map[string]exchange.HandlerFunc{
		"ready": benchHandler.Serve,
		"leaves": func(x *exchange.Exchange) error {
			x.MayWait()
			return benchHandler.Serve(x)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := startH2C(t, &exchangetest.Site{Handler: handler})
			trip := h2Trips(t, dialH2(t, s))
			for range 20 {
				trip()
			}
			if n := testing.AllocsPerRun(500, trip); n > 1 {
				t.Errorf("%v allocations per exchange, want at most 1", n)
			}
		})
	}
}

// TestH2SparesServeOn: goroutines that have left the reader read and serve again, more
// of them than are kept, and none is left when the connection ends (TestMain).
func TestH2SparesServeOn(t *testing.T) {
	const many = 100
	begun, held := make(chan struct{}, many), make(chan struct{})
	s := startH2C(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		x.MayWait()
		begun <- struct{}{}
		<-held
		_, err := x.Write(hello)
		return err
	})})
	h := dialH2(t, s)
	for range 5 {
		ids := make([]uint32, many)
		for i := range ids {
			ids[i] = h.ask(true, "GET", "/a")
		}
		for range ids {
			<-begun
		}
		for range ids {
			held <- struct{}{}
		}
		for open := many; open > 0; {
			f, err := h.fr.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			if f.Header().Type == 0 && f.Header().Flags&1 != 0 { // DATA with END_STREAM
				open--
			}
		}
	}
}
