package front_test

import (
	"testing"

	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
	"httpjet/front"
)

// Handlers that wait without saying so hold up no other request of their connections, and
// nobody is looked at once all is quiet, until there is something again.
func TestH2StuckReaders(t *testing.T) {
	held := make(chan struct{})
	s := startH2C(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		if x.Req.Path == "/stuck" {
			<-held
		}
		return nil
	})})
	quiet := func() bool { n, runs := front.LookedAtH2(s.Front); return n == 0 && !runs }
	for range 2 {
		conns := make([]*rawH2, 5)
		stuck := make([]uint32, len(conns))
		for i := range conns {
			conns[i] = dialH2(t, s)
			stuck[i] = conns[i].ask(true, "GET", "/stuck")
		}
		for _, c := range conns {
			for range 3 {
				if status, _, err := c.answer(c.ask(true, "GET", "/ready"), false); status != "200" {
					t.Fatal(status, err)
				}
			}
		}
		for range conns {
			held <- struct{}{}
		}
		for i, c := range conns {
			if status, _, err := c.answer(stuck[i], false); status != "200" {
				t.Fatal(status, err)
			}
		}
		waitFor(t, quiet)
	}
}
