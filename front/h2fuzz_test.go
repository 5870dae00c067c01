package front_test

import (
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
)

// FuzzH2Conn: whatever a client sends behind its preface, the connection ends, all its
// exchanges do, and nothing panics.
func FuzzH2Conn(f *testing.F) {
	site := &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		if _, err := io.Copy(io.Discard, x.Body()); err != nil {
			return err
		}
		_, err := x.Write(make([]byte, 1000))
		return err
	})}
	site.Lim.ConnTimeout = 5 * time.Second
	s := startH2C(f, site)
	f.Add([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x05\x01\x05\x00\x00\x00\x01\x82\x86\x84\x01\x00"))
	f.Add([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x05\x01\x04\x00\x00\x00\x01\x83\x86\x84\x01\x00" + "\x00\x00\x02\x00\x01\x00\x00\x00\x01hi" + "\x00\x00\x04\x03\x00\x00\x00\x00\x01\x00\x00\x00\x08"))
	f.Add([]byte("\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x01" + "\x00\x00\x03\x01\x05\x00\x00\x00\x01\x82\x86\x84" + "\x00\x00\x04\x08\x00\x00\x00\x00\x01\x00\x00\x10\x00"))
	f.Fuzz(func(t *testing.T, frames []byte) {
		// Each connection keeps its port for a minute: with one address of ours they would
		// not last for as long as this runs.
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, byte(rand.N(200)), byte(rand.N(200)), 1+byte(rand.N(200)))}}
		c, err := from.Dial("tcp", s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(30 * time.Second))
		go io.Copy(io.Discard, c)
		io.WriteString(c, http2.ClientPreface)
		c.Write(frames)
		c.(*net.TCPConn).CloseWrite()
		waitFor(t, func() bool { n := s.Front.Snapshot(); return n.Active == 0 && n.InFlight == 0 })
		if n := s.Front.Snapshot().Bugs; n != 0 {
			t.Fatalf("%d panics", n)
		}
	})
}
