package front_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
	"httpjet/front"
	"httpjet/h2"
)

// waits is a site whose handler waits until its client is gone, and counts.
func waits(begun *atomic.Int64) *exchangetest.Site {
	return &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		if x.Req.Path == "/ready" {
			return nil
		}
		begun.Add(1)
		x.MayWait()
		<-x.Context().Done()
		return exchange.ErrClientGone
	})}
}

// wantEnded checks that the counters tell of an ended connection.
func wantEnded(t *testing.T, s *exchangetest.Server, code h2.Code) {
	t.Helper()
	waitFor(t, func() bool { return s.Front.Snapshot().H2.Ended[code.String()] == 1 })
}

// G60: streams that are opened and reset cost a budget that only answers renew; work is
// bounded by it, and other connections are not disturbed.
func TestG60RapidReset(t *testing.T) {
	var begun atomic.Int64
	s := startH2C(t, waits(&begun))
	other := dialH2(t, s)
	c := dialH2(t, s)
	c.flood(100_000, func(int) error {
		id := c.ask(true, "GET", "/slow")
		return c.fr.WriteRSTStream(id, http2.ErrCodeCancel)
	})
	c.wantGoAway(http2.ErrCodeEnhanceYourCalm)
	wantEnded(t, s, h2.EnhanceYourCalm)
	if n := begun.Load(); n > h2.ResetBudget+1 { // none of those that are withdrawn with the same segment
		t.Errorf("%d handlers were begun", n)
	}
	if status, _, err := other.answer(other.ask(true, "GET", "/ready"), false); status != "200" {
		t.Errorf("another connection: %s %v", status, err)
	}
}

// G60: a request that comes with its own RST_STREAM is not served: it costs its place in the
// budget and nothing else, and what comes with it is served.
func TestG60WithdrawnRequests(t *testing.T) {
	for _, n := range []int{1, 100, h2.ResetBudget + 50} {
		var begun atomic.Int64
		s := exchangetest.Start(t, waits(&begun), true)
		c := dialH2(t, s)
		if status, _, err := c.answer(c.ask(true, "GET", "/ready"), false); status != "200" {
			t.Fatal(status, err)
		}
		var record bytes.Buffer // all of it is at hand at once
		c.fr = http2.NewFramer(&record, c.c)
		c.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		all := make([]uint32, n)
		for i := range all {
			all[i] = c.ask(true, "GET", "/slow", "x-number: "+strconv.Itoa(i))
			if i%2 == 0 {
				c.fr.WriteRSTStream(all[i], http2.ErrCodeCancel)
			}
		}
		for i, id := range all { // these do not follow their request
			if i%2 == 1 {
				c.fr.WriteRSTStream(id, http2.ErrCodeCancel)
			}
		}
		last := c.ask(true, "GET", "/ready")
		if record.Len() > 16<<10 {
			t.Fatal("more than one record")
		}
		c.c.Write(record.Bytes())
		if n > h2.ResetBudget {
			c.wantGoAway(http2.ErrCodeEnhanceYourCalm)
			wantEnded(t, s, h2.EnhanceYourCalm)
		} else if status, _, err := c.answer(last, false); status != "200" {
			t.Errorf("%d: behind them: %s %v", n, status, err)
		} else if got := s.Front.Snapshot().H2.Resets; got != int64(n) {
			t.Errorf("%d resets are counted of %d", got, n)
		}
		if got := begun.Load(); got != 0 {
			t.Errorf("%d: %d were served", n, got)
		}
	}
}

// Only streams that have not begun are withdrawn, by whole heads of frames.
func TestWithdrawn(t *testing.T) {
	frames := h2.AppendRST(nil, 5, h2.Cancel)
	frames = append(h2.AppendHeader(frames, 13, h2.Data, 0, 7), h2.AppendRST(nil, 9, h2.Cancel)...) // the payload of another frame
	frames = h2.AppendRST(frames, 1023, h2.Cancel)
	frames = h2.AppendRST(frames, 1031, h2.Cancel) // too far ahead
	frames = append(frames, h2.AppendRST(nil, 11, h2.Cancel)[:h2.HeaderSize]...)
	for id, want := range map[uint32]bool{1: false, 3: false, 5: true, 7: false, 9: false, 11: true, 1023: true, 1025: false, 1031: false, 1<<31 - 1: false} {
		if got := front.Withdrawn(frames, 3, id); got != want {
			t.Errorf("stream %d: %v", id, got)
		}
	}
	for n := range frames {
		front.Withdrawn(frames[:n], 0, 1) // no panic
	}
	if front.Withdrawn(frames, 5, 5) || front.Withdrawn(h2.AppendHeader(nil, 1<<24-1, h2.RSTStream, 0, 1), 1, 1) {
		t.Error("a stream that has begun")
	}
}

// G60: new requests do not renew the budget, answered ones do.
func TestResetBudgetIsEarnedByAnswers(t *testing.T) {
	var begun atomic.Int64
	s := startH2C(t, waits(&begun))
	c := dialH2(t, s)
	for range 10 * h2.ResetBudget {
		c.fr.WriteRSTStream(c.ask(true, "GET", "/slow"), http2.ErrCodeCancel)
		if status, _, err := c.answer(c.ask(true, "GET", "/ready"), false); status != "200" || err != nil {
			t.Fatalf("after %d resets: %s %v", begun.Load(), status, err)
		}
	}
}

// A client that makes the server reset its streams pays from the same budget
// ("MadeYouReset"): the handlers of those streams run on, too.
func TestMadeYouReset(t *testing.T) {
	for name, misuse := range map[string]func(c *rawH2, id uint32) error{
		"window update of 0":  func(c *rawH2, id uint32) error { return c.fr.WriteWindowUpdate(id, 0) },
		"window overflow":     func(c *rawH2, id uint32) error { return c.fr.WriteWindowUpdate(id, 1<<31-1) },
		"data behind the end": func(c *rawH2, id uint32) error { return c.fr.WriteData(id, true, []byte("x")) },
		"headers behind the end": func(c *rawH2, id uint32) error {
			return c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.fields("a: b"), EndStream: true, EndHeaders: true})
		},
		"priority of a wrong length": func(c *rawH2, id uint32) error {
			return c.fr.WriteRawFrame(http2.FramePriority, 0, id, []byte{1})
		},
		"self dependency": func(c *rawH2, id uint32) error {
			return c.fr.WritePriority(id, http2.PriorityParam{StreamDep: id})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var begun atomic.Int64
			s := startH2C(t, waits(&begun))
			c := dialH2(t, s)
			c.flood(100_000, func(int) error { return misuse(c, c.ask(true, "GET", "/slow")) })
			c.wantGoAway(http2.ErrCodeEnhanceYourCalm)
			if n := begun.Load(); n > h2.ResetBudget+1 {
				t.Errorf("%d handlers were begun", n)
			}
			if s.Front.Snapshot().H2.Refused == 0 {
				t.Error("nothing counted")
			}
		})
	}
}

// Handlers of streams that were reset count against the limit of streams until they have
// noticed.
func TestResetStreamsCountWhileTheyAreServed(t *testing.T) {
	release, begins := make(chan struct{}), make(chan struct{}, 300)
	var begun atomic.Int64
	s := startH2C(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		begun.Add(1)
		begins <- struct{}{}
		x.MayWait()
		<-release
		return nil
	})})
	c := dialH2(t, s)
	for range 199 {
		id := c.ask(true, "GET", "/")
		<-begins
		c.fr.WriteRSTStream(id, http2.ErrCodeCancel)
	}
	for range 57 {
		c.ask(true, "GET", "/")
	}
	c.wantReset(c.ask(true, "GET", "/"), http2.ErrCodeRefusedStream)
	if n := begun.Load(); n != 256 {
		t.Errorf("%d handlers at once", n)
	}
	close(release)
}

// G61: a field block without an end is bounded in bytes and in frames, empty ones too.
func TestG61ContinuationFlood(t *testing.T) {
	for _, size := range []int{0, 1, 1024, 16384} {
		s := startH2C(t, &exchangetest.Site{Handler: echo})
		c := dialH2(t, s)
		c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.fields(":method: GET"), EndStream: true})
		filler := bytes.Repeat([]byte{0}, size)
		sent := c.flood(100_000, func(int) error { return c.fr.WriteContinuation(1, false, filler) })
		c.wantGoAway(http2.ErrCodeEnhanceYourCalm)
		wantEnded(t, s, h2.EnhanceYourCalm)
		t.Logf("%d bytes: %d frames sent", size, sent.Load())
	}
}

// G62, R-H2-1: a field block that decodes to much more than it is: the limit is that of
// what is decoded, which never lies in memory, and the connection goes on.
func TestG62FieldBlockExpands(t *testing.T) {
	s := startH2C(t, &exchangetest.Site{Handler: echo})
	c := dialH2(t, s)
	if status, _, _ := c.answer(c.ask(true, "GET", "/", "x: "+strings.Repeat("y", 4000)), false); status != "200" {
		t.Fatal(status)
	}
	// Each further byte names that entry of 4 KiB again.
	bomb := append([]byte{}, c.fields(":method: GET", ":scheme: http", ":authority: a.test", ":path: /")...)
	bomb = append(bomb, bytes.Repeat([]byte{0x80 | 62}, 60_000)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 20 {
		id := c.next
		c.next += 2
		c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: bomb[:16000], EndStream: true})
		for rest := bomb[16000:]; len(rest) > 0; {
			n := min(len(rest), 16000)
			c.fr.WriteContinuation(id, n == len(rest), rest[:n])
			rest = rest[n:]
		}
		if status, _, err := c.answer(id, false); status != "431" {
			t.Fatalf("%s %v", status, err)
		}
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 20<<20 { // 20 × 240 MB were named
		t.Errorf("%d bytes taken", grown)
	}
	if status, _, _ := c.answer(c.ask(true, "GET", "/"), false); status != "200" {
		t.Errorf("afterwards: %s", status)
	}
}

// Frames that make no progress cost a budget that answers renew.
func TestFloodsWithoutProgress(t *testing.T) {
	for name, send := range map[string]func(c *rawH2, i int) error{
		"ping":     func(c *rawH2, i int) error { return c.fr.WritePing(false, [8]byte{}) },
		"ping ack": func(c *rawH2, i int) error { return c.fr.WritePing(true, [8]byte{}) },
		"settings": func(c *rawH2, i int) error {
			return c.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(i)})
		},
		"settings ack":    func(c *rawH2, i int) error { return c.fr.WriteSettingsAck() },
		"priority":        func(c *rawH2, i int) error { return c.fr.WritePriority(uint32(2*i+1), http2.PriorityParam{}) },
		"priority update": func(c *rawH2, i int) error { return c.fr.WriteRawFrame(0x10, 0, 0, []byte{0, 0, 0, 1, 'u', '=', '1'}) },
		"window update":   func(c *rawH2, i int) error { return c.fr.WriteWindowUpdate(0, 1) },
		"unknown":         func(c *rawH2, i int) error { return c.fr.WriteRawFrame(0xbb, 0, 0, nil) },
		"goaway":          func(c *rawH2, i int) error { return c.fr.WriteGoAway(0, http2.ErrCodeNo, nil) },
		"empty data":      func(c *rawH2, i int) error { return c.fr.WriteData(1, false, nil) },
		"padded data": func(c *rawH2, i int) error {
			return c.fr.WriteDataPadded(1, false, nil, make([]byte, 1))
		},
		"reset of what is answered": func(c *rawH2, i int) error { return c.fr.WriteRSTStream(3, http2.ErrCodeCancel) },
	} {
		t.Run(name, func(t *testing.T) {
			var begun atomic.Int64
			s := startH2C(t, waits(&begun))
			c := dialH2(t, s)
			c.ask(false, "POST", "/slow")
			if status, _, err := c.answer(c.ask(true, "GET", "/ready"), false); status != "200" {
				t.Fatal(err)
			}
			sent := c.flood(10*h2.IdleBudget, func(i int) error { return send(c, i) })
			c.wantGoAway(http2.ErrCodeEnhanceYourCalm)
			wantEnded(t, s, h2.EnhanceYourCalm)
			t.Logf("%d sent", sent.Load())
		})
	}
}

// A client that makes the server answer and does not read is not listened to for
// ever: what waits for it is bounded.
func TestAnswersThatAreNotRead(t *testing.T) {
	big := bytes.Repeat([]byte("x"), 8<<10)
	site := &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		x.Resp.Fields.Add("X-Big", string(big))
		return nil
	})}
	site.Lim.ConnTimeout = 200 * time.Millisecond
	s := startH2C(t, site)
	c := dialH2(t, s)
	c.flood(1_000_000, func(int) error {
		c.ask(true, "GET", "/")
		return nil
	})
	waitFor(t, func() bool { return s.Front.Snapshot().Active == 0 })
}

// A stream whose client grants no window is given up after the connection timeout; what
// is held for it is little; others are served meanwhile.
func TestWindowStall(t *testing.T) {
	big := make([]byte, 1<<20)
	var blocked atomic.Int64
	site := &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		if x.Req.Path == "/ready" {
			return nil
		}
		n, err := x.Write(big)
		if err == nil || !errors.Is(err, exchange.ErrClientGone) {
			return err
		}
		blocked.Add(int64(n))
		return err
	})}
	site.Lim.ConnTimeout = 300 * time.Millisecond
	s := startH2C(t, site)
	c := dialH2(t, s, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1000})
	for range 50 {
		c.ask(true, "GET", "/big")
	}
	if status, _, err := c.answer(c.ask(true, "GET", "/ready"), false); status != "200" {
		t.Errorf("beside stalled streams: %s %v", status, err)
	}
	waitFor(t, func() bool { return s.Front.Snapshot().InFlight == 0 })
	if n := blocked.Load(); n != 50*1000 {
		t.Errorf("%d bytes were taken from handlers, want the windows", n)
	}
	if status, _, err := c.answer(c.ask(true, "GET", "/ready"), false); status != "200" {
		t.Errorf("the connection is gone: %s %v", status, err)
	}
}

// R-STREAM-3: of a body that its handler does not read no more than the window is held,
// and the window does not grow.
func TestStalledUploadHoldsItsWindow(t *testing.T) {
	release := make(chan struct{})
	s := startH2C(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		x.MayWait()
		<-release
		_, err := io.Copy(io.Discard, x.Body())
		return err
	})})
	c := dialH2(t, s)
	id := c.ask(false, "POST", "/")
	chunk := make([]byte, 16<<10)
	for range 4 { // the window
		c.fr.WriteData(id, false, chunk)
	}
	c.fr.WritePing(false, [8]byte{1})
	for {
		f, err := c.fr.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if w, ok := f.(*http2.WindowUpdateFrame); ok && w.StreamID == id {
			t.Fatalf("%d more bytes are wanted of a body that nobody reads", w.Increment)
		}
		if p, ok := f.(*http2.PingFrame); ok && p.IsAck() {
			break
		}
	}
	c.fr.WriteData(id, false, []byte{1})
	c.wantReset(id, http2.ErrCodeFlowControl)
	close(release)
}

// Malformed frames of every length end the connection or the stream, and nothing else.
func TestMalformedFrames(t *testing.T) {
	s := startH2C(t, &exchangetest.Site{Handler: echo})
	for kind := range 12 {
		for _, n := range []int{0, 1, 3, 4, 5, 6, 7, 8, 9, 16384} {
			for _, stream := range []uint32{0, 1, 2, 3} {
				c := dialH2(t, s)
				c.ask(false, "POST", "/")
				c.fr.WriteRawFrame(http2.FrameType(kind), http2.Flags(kind*37+n), stream, make([]byte, n))
				c.fr.WritePing(false, [8]byte{9})
				c.c.SetReadDeadline(time.Now().Add(20 * time.Second))
				for {
					f, err := c.fr.ReadFrame()
					if err != nil {
						if errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "timeout") {
							t.Fatalf("type %d, %d bytes on stream %d: no answer", kind, n, stream)
						}
						break
					}
					if p, ok := f.(*http2.PingFrame); ok && p.IsAck() {
						break
					}
				}
				c.c.Close()
			}
		}
	}
	if n := s.Front.Snapshot().Bugs; n != 0 {
		t.Errorf("%d panics", n)
	}
	header := make([]byte, 9)
	binary.BigEndian.PutUint32(header, 16385<<8)
	c := dialH2(t, s)
	c.c.Write(header)
	c.wantGoAway(http2.ErrCodeFrameSize)
}

// A preface, a frame or a field block that does not go on ends the connection after
// the connection timeout, however its bytes drip.
func TestSlowFrames(t *testing.T) {
	site := &exchangetest.Site{Handler: echo, Lim: front.Limits{ConnTimeout: 150 * time.Millisecond}}
	s := startH2C(t, site)
	for name, send := range map[string]func(c *rawH2){
		"half a frame": func(c *rawH2) { c.c.Write([]byte{0, 0, 8, 6, 0}) },
		"open block": func(c *rawH2) {
			c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}})
		},
		"dripping head": func(c *rawH2) {
			pace := time.NewTicker(20 * time.Millisecond)
			t.Cleanup(pace.Stop)
			c.flood(1<<20, func(i int) error {
				<-pace.C
				_, err := c.c.Write([]byte{0})
				return err
			})
		},
	} {
		c := dialH2(t, s)
		send(c)
		for {
			if _, err := c.fr.ReadFrame(); err != nil {
				if strings.Contains(err.Error(), "timeout") {
					t.Errorf("%s: the connection is still open", name)
				}
				break
			}
		}
	}
}
