package front_test

import (
	"io"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
)

// RFC 9113 §5.1, §6.4: what is wrong with a frame of a stream that is idle cannot be told
// by a RST_STREAM, which must not name it: the connection ends, by the same code. A
// stream with an even number stays idle, whatever the client begins.
func TestH2IdleStreams(t *testing.T) {
	s := startH2C(t, &exchangetest.Site{Handler: echo})
	short := func(c *rawH2, id uint32) { c.fr.WriteRawFrame(http2.FramePriority, 0, id, []byte{1}) }
	itself := func(c *rawH2, id uint32) { c.fr.WritePriority(id, http2.PriorityParam{StreamDep: id}) }
	window := func(c *rawH2, id uint32) { c.fr.WriteWindowUpdate(id, 1) }
	cancel := func(c *rawH2, id uint32) { c.fr.WriteRSTStream(id, http2.ErrCodeCancel) }
	data := func(c *rawH2, id uint32) { c.fr.WriteData(id, false, []byte("x")) }
	rank := func(c *rawH2, id uint32) { // RFC 9218 §7.1
		c.fr.WriteRawFrame(0x10, 0, 0, []byte{0, 0, 0, byte(id), 'i'})
	}
	f := func(name string, send func(*rawH2, uint32), id uint32, want http2.ErrCode) {
		t.Run(name, func(t *testing.T) {
			c := dialH2(t, s)
			c.next = 5
			if status, _, err := c.answer(c.ask(true, "GET", "/"), false); status != "200" {
				t.Fatalf("%s %v", status, err)
			}
			send(c, id)
			for {
				fr, err := c.fr.ReadFrame()
				if err != nil {
					t.Fatalf("stream %d: the connection ended without a GOAWAY: %v", id, err)
				}
				if r, ok := fr.(*http2.RSTStreamFrame); ok {
					t.Fatalf("stream %d: RST_STREAM of an idle stream", r.StreamID)
				}
				if g, ok := fr.(*http2.GoAwayFrame); ok {
					if g.ErrCode != want {
						t.Errorf("stream %d: %v, want %v", id, g.ErrCode, want)
					}
					return
				}
			}
		})
	}
	for _, id := range []uint32{2, 4, 6, 7} {
		f("short PRIORITY", short, id, http2.ErrCodeFrameSize)
		f("PRIORITY on itself", itself, id, http2.ErrCodeProtocol)
		f("WINDOW_UPDATE", window, id, http2.ErrCodeProtocol)
		f("RST_STREAM", cancel, id, http2.ErrCodeProtocol)
		f("DATA", data, id, http2.ErrCodeProtocol)
		if id%2 == 0 {
			f("PRIORITY_UPDATE", rank, id, http2.ErrCodeProtocol)
		}
	}
}

// RFC 9113 §6.1, §6.9: padding counts against the windows, and is given back although
// nobody reads it: a body behind more padding than the window arrives.
func TestH2PaddingIsGivenBack(t *testing.T) {
	s := startH2C(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		b, err := io.ReadAll(x.Body())
		if err != nil {
			return err
		}
		_, err = x.Write(b)
		return err
	})})
	c := dialH2(t, s)
	id := c.ask(false, "POST", "/")
	pad := make([]byte, 255)
	window := 64 << 10 // the least that the server allows a stream
	for range 1000 {
		for window < 256 {
			f, err := c.fr.ReadFrame()
			if err != nil {
				t.Fatalf("nothing is given back: %v", err)
			}
			if w, ok := f.(*http2.WindowUpdateFrame); ok && w.StreamID == id {
				window += int(w.Increment)
			}
		}
		window -= 256
		c.fr.WriteDataPadded(id, false, nil, pad)
	}
	c.fr.WriteData(id, true, []byte(strings.Repeat("x", 100)))
	if status, body, err := c.answer(id, false); status != "200" || len(body) != 100 {
		t.Errorf("%s with %d bytes, %v", status, len(body), err)
	}
}
