package front_test

import (
	"bufio"
	"net"
	"testing"

	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
)

var hello = []byte("hello, world")

// benchHandler answers like a small static file.
var benchHandler = handle(func(x *exchange.Exchange) error {
	x.Resp.Fields.Add("Content-Type", "text/plain")
	x.Resp.Length = int64(len(hello))
	_, err := x.Write(hello)
	return err
})

var benchRequest = []byte("GET /index.html?a=b HTTP/1.1\r\nHost: example.com\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n")

// roundTrips sends n requests one after the other.
func roundTrips(tb testing.TB, c net.Conn, r *bufio.Reader, n int) {
	for range n {
		if _, err := c.Write(benchRequest); err != nil {
			tb.Fatal(err)
		}
		for { // the head, then the body
			line, err := r.ReadSlice('\n')
			if err != nil {
				tb.Fatal(err)
			}
			if len(line) == 2 {
				break
			}
		}
		if _, err := r.Discard(len(hello)); err != nil {
			tb.Fatal(err)
		}
	}
}

// TestAllocations pins the cost of a small exchange: the string of its head, with its
// id.
func TestAllocations(t *testing.T) {
	s := exchangetest.Start(t, &exchangetest.Site{Handler: benchHandler}, false)
	c := dial(t, s)
	r := bufio.NewReader(c)
	roundTrips(t, c, r, 10)
	if got := testing.AllocsPerRun(200, func() { roundTrips(t, c, r, 1) }); got > 1 {
		t.Errorf("%v allocations per exchange, want at most 1", got)
	}
}

func BenchmarkExchange(b *testing.B) {
	s := exchangetest.Start(b, &exchangetest.Site{Handler: benchHandler}, false)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		c, err := net.Dial("tcp", s.Addr)
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		r := bufio.NewReader(c)
		for pb.Next() {
			roundTrips(b, c, r, 1)
		}
	})
}
