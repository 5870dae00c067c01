package front_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
	"httpjet/front"
)

// An exchange that waits and does not say so holds the other streams up for a moment
// only.
func TestH2HandlerThatWaitsUnsaid(t *testing.T) {
	release := make(chan struct{})
	s := startH2C(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		if x.Req.Path == "/wait" {
			<-release
		}
		_, err := io.WriteString(x, x.Req.Path)
		return err
	})})
	c := dialH2(t, s)
	first := c.ask(true, "GET", "/wait")
	if status, body, err := c.answer(c.ask(true, "GET", "/other"), false); status != "200" || string(body) != "/other" {
		t.Fatal(status, string(body), err)
	}
	close(release)
	if status, body, err := c.answer(first, false); status != "200" || string(body) != "/wait" {
		t.Fatal(status, string(body), err)
	}
}

// Requests that come together are answered whichever of them wait.
func TestH2ManyStreams(t *testing.T) {
	for _, secure := range []bool{false, true} {
		site := &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
			if strings.HasSuffix(x.Req.Path, "w") {
				x.MayWait()
			}
			_, err := io.WriteString(x, x.Req.Path)
			return err
		})}
		site.Lim.EnableH2C = true
		s := exchangetest.Start(t, site, secure)
		c := dialH2(t, s)
		for range 20 {
			want := map[uint32]string{}
			for i := range 100 {
				path := fmt.Sprintf("/%d%s", i, []string{"", "w"}[rand.IntN(2)])
				want[c.ask(true, "GET", path)] = path
			}
			got := c.collect(len(want))
			for id, path := range want {
				if string(got[id]) != path {
					t.Fatalf("stream %d: %q, want %q", id, got[id], path)
				}
			}
		}
	}
}

// collect reads until n streams have ended and returns their bodies. It grants what was
// read.
func (h *rawH2) collect(n int) map[uint32][]byte {
	h.t.Helper()
	got := map[uint32][]byte{}
	for n > 0 {
		f, err := h.fr.ReadFrame()
		if err != nil {
			h.t.Fatalf("%d streams have not ended: %v", n, err)
		}
		ends := false
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				h.fr.WriteSettingsAck()
			}
		case *http2.MetaHeadersFrame:
			ends = f.StreamEnded()
		case *http2.DataFrame:
			got[f.StreamID] = append(got[f.StreamID], f.Data()...)
			if ends = f.StreamEnded(); len(f.Data()) > 0 {
				h.fr.WriteWindowUpdate(0, uint32(len(f.Data())))
				if !ends {
					h.fr.WriteWindowUpdate(f.StreamID, uint32(len(f.Data())))
				}
			}
		case *http2.RSTStreamFrame:
			h.t.Fatalf("stream %d: reset with %v", f.StreamID, f.ErrCode)
		case *http2.GoAwayFrame:
			h.t.Fatalf("GOAWAY: %v", f)
		}
		if ends {
			n--
		}
	}
	return got
}

// Bodies arrive whole whatever the windows: none that was stopped by a window or by a
// full output is forgotten.
func TestH2RandomWindows(t *testing.T) {
	big := make([]byte, 64<<10)
	for i := range big {
		big[i] = byte(i * 7 / 3)
	}
	site := &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		var n int
		fmt.Sscanf(x.Req.Path, "/%d", &n)
		if n%3 == 0 {
			x.MayWait()
		}
		if n%2 == 0 {
			x.Resp.Length = int64(n)
		}
		_, err := x.Write(big[:n])
		return err
	})}
	s := startH2C(t, site)
	var all sync.WaitGroup
	defer all.Wait()
	for range 4 {
		all.Go(func() {
			c := dialH2(t, s, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << (9 + rand.Uint32N(8))})
			for round := range 10 {
				want := map[uint32]int{}
				for range 50 {
					n := rand.IntN(1 << rand.IntN(17))
					want[c.ask(true, "GET", fmt.Sprintf("/%d", n))] = n
				}
				c.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << (9 + rand.Uint32N(8))})
				got := c.collect(len(want))
				for id, n := range want {
					if !bytes.Equal(got[id], big[:n]) {
						t.Errorf("round %d, stream %d: %d bytes, want %d", round, id, len(got[id]), n)
					}
				}
			}
		})
	}
}

// A body of any size lets others through, and what is more urgent goes first (RFC 9218).
func TestH2Urgency(t *testing.T) {
	const small = 100 << 10
	s := startH2C(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		n := 4 << 20
		if x.Req.Path == "/small" {
			n = small
		}
		_, err := x.Write(make([]byte, n))
		return err
	})})
	f := func(what, first, second string, most int) {
		t.Helper()
		c := dialH2(t, s, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
		large := c.ask(true, "GET", "/large", "priority: "+first)
		c.ask(true, "GET", "/small", "priority: "+second)
		// The first has filled the window of the connection, and both wait for another one:
		// so it does not matter who came when.
		waitFor(t, func() bool { return front.QueuedH2(s.Front) == 2 })
		c.fr.WriteWindowUpdate(0, 1<<30)
		before, got := 0, 0
		for got < small {
			fr, err := c.fr.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			if d, ok := fr.(*http2.DataFrame); ok {
				if d.StreamID == large {
					before += len(d.Data())
				} else {
					got += len(d.Data())
				}
			}
		}
		if before > most {
			t.Errorf("%s: %d bytes of the large body came before the small one", what, before)
		}
		c.c.Close()
		waitFor(t, func() bool { return s.Front.Snapshot().Active == 0 })
	}
	const window, frame = 64<<10 - 1, 16 << 10
	f("equal", "u=3, i", "u=3, i", window+(small/1024+1)*frame) // a turn has from 1 KiB to a frame
	f("urgent", "u=5, i", "u=1, i", window+frame)
	f("one after the other", "u=5", "u=1", window+frame)
}

// An idle connection is parked, wakes for a request and for a drain.
func TestH2Parks(t *testing.T) {
	for _, secure := range []bool{false, true} {
		site := &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
			if x.Req.Path == "/wait" {
				x.MayWait()
			}
			_, err := io.WriteString(x, "ok")
			return err
		}), Rest: 20 * time.Millisecond}
		site.Lim.EnableH2C = true
		s := exchangetest.Start(t, site, secure)
		c := dialH2(t, s)
		for i := range 6 {
			path := []string{"/", "/wait"}[i%2]
			if status, body, err := c.answer(c.ask(true, "GET", path), false); status != "200" || string(body) != "ok" {
				t.Fatal(status, err)
			}
			waitFor(t, func() bool { return s.Front.Snapshot().Parked == 1 })
		}
		if cut := s.Front.Drain(t.Context()); cut != 0 {
			t.Errorf("%d cut", cut)
		}
	}
}

// A client that goes ends the contexts of all its streams, parked or not.
func TestH2ClientLeaves(t *testing.T) {
	begun, ended := make(chan struct{}, 10), make(chan error, 10)
	s := startH2C(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		ctx := x.Context()
		begun <- struct{}{}
		x.MayWait()
		<-ctx.Done()
		ended <- ctx.Err()
		return exchange.ErrClientGone
	})})
	c := dialH2(t, s)
	for range 10 {
		c.ask(true, "GET", "/")
		<-begun
	}
	c.fr.WriteRSTStream(5, http2.ErrCodeCancel)
	if err := <-ended; err == nil {
		t.Error("no error")
	}
	waitFor(t, func() bool { return s.Front.Snapshot().InFlight == 9 })
	c.c.Close()
	for range 9 {
		<-ended
	}
	waitFor(t, func() bool { return s.Front.Snapshot().Active == 0 })
	for _, err := range s.Site.Errs() {
		if exchange.StatusOf(err) != 499 {
			t.Errorf("%v", err)
		}
	}
}

// Full duplex: an answer goes on while the request does, trailers both ways.
func TestH2FullDuplex(t *testing.T) {
	s := startH2C(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		buf := make([]byte, 100)
		for {
			n, err := x.Body().Read(buf)
			if n > 0 {
				x.Write(buf[:n])
				x.Flush()
			}
			if err == io.EOF {
				x.Trailers.Add("X-Got", x.BodyTrailers().Get("x-sent"))
				return nil
			}
			if err != nil {
				return err
			}
		}
	})})
	c := dialH2(t, s)
	id := c.ask(false, "POST", "/", "trailer: x-sent")
	next := func() string {
		for {
			f, err := c.fr.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			if d, ok := f.(*http2.DataFrame); ok {
				return string(d.Data())
			}
			if h, ok := f.(*http2.MetaHeadersFrame); ok && h.StreamEnded() {
				return h.RegularFields()[0].Name + "=" + h.RegularFields()[0].Value
			}
		}
	}
	for i := range 5 {
		said := fmt.Sprintf("message %d", i)
		c.fr.WriteData(id, false, []byte(said))
		if got := next(); got != said {
			t.Fatalf("%q, want %q", got, said)
		}
	}
	c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.fields("x-sent: 7"), EndStream: true, EndHeaders: true})
	if got := next(); got != "x-got=7" {
		t.Errorf("%q", got)
	}
}

// R-PIPE-6: the 100 comes with the first read, and never without one.
func TestH2Continue(t *testing.T) {
	s := startH2C(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		if x.Req.Path == "/refuse" {
			return exchange.Fail(403, "access_denied", "no")
		}
		b, err := io.ReadAll(x.Body())
		if err != nil {
			return err
		}
		_, err = x.Write(b)
		return err
	})})
	c := dialH2(t, s)
	id := c.ask(false, "POST", "/", "expect: 100-continue")
	for {
		f, err := c.fr.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if h, ok := f.(*http2.MetaHeadersFrame); ok {
			if got := h.PseudoValue("status"); got != "100" || h.StreamEnded() {
				t.Fatalf("%s before the body", got)
			}
			break
		}
	}
	c.fr.WriteData(id, true, []byte("body"))
	if status, body, err := c.answer(id, false); status != "200" || string(body) != "body" {
		t.Error(status, string(body), err)
	}
	if status, _, err := c.answer(c.ask(false, "POST", "/refuse", "expect: 100-continue"), false); status != "403" {
		t.Error(status, err)
	}
}

// RFC 9113 §8.2, §8.3: what is no valid message resets its stream.
func TestH2Malformed(t *testing.T) {
	s := startH2C(t, &exchangetest.Site{Handler: echo})
	f := func(fields ...string) {
		t.Helper()
		c := dialH2(t, s)
		c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.fields(fields...), EndStream: true, EndHeaders: true})
		c.wantReset(1, http2.ErrCodeProtocol)
		c.c.Close()
	}
	get := []string{":method: GET", ":scheme: http", ":authority: a", ":path: /"}
	with := func(more ...string) []string { return append(append([]string{}, get...), more...) }
	f(get[0], get[1], get[2])
	f(get[0], get[2], get[3])
	f(get[1], get[2], get[3])
	f(get[0], get[1], get[2], ":path: ")
	f(get[0], get[0], get[1], get[2], get[3])
	f(get[0], get[1], get[2], "a: b", get[3])
	f(with(":status: 200")...)
	f(with("Upper: case")...)
	f(with("sp ace: x")...)
	f(with("connection: close")...)
	f(with("keep-alive: 1")...)
	f(with("proxy-connection: 1")...)
	f(with("transfer-encoding: chunked")...)
	f(with("upgrade: h2c")...)
	f(with("te: gzip")...)
	f(with("x: a\nb")...)
	f(with("x: a\rb")...)
	f(with("x: a\x00b")...)
	f(with(":protocol: websocket")...) // G37
	f(":method: POST", get[1], get[2], get[3], ":protocol: websocket")
	f(":method: CONNECT", get[1], get[2], get[3])
	f(":method: CONNECT", get[2], ":protocol: websocket")
	c := dialH2(t, s)
	if status, _, err := c.answer(c.ask(true, "GET", "/", "te: trailers", "cookie: a=1", "x: y", "cookie: b=2"), false); status != "200" {
		t.Errorf("%s %v", status, err)
	}
}

// RFC 9113 §8.2.3: a cookie in pieces is one field.
func TestH2CookieCrumbs(t *testing.T) {
	s := startH2C(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		_, err := fmt.Fprint(x, x.Req.Fields.Len(), x.Req.Fields.Get("Cookie"))
		return err
	})})
	c := dialH2(t, s)
	if _, body, err := c.answer(c.ask(true, "GET", "/", "cookie: a=1", "x: y", "cookie: b=2", "cookie: c=3"), false); string(body) != "2a=1; b=2; c=3" {
		t.Errorf("%q %v", body, err)
	}
}

// tunnel echoes what the client sends, until its end.
type tunnel struct {
	d      exchange.Duplex
	closed chan struct{}
	once   sync.Once
}

func (e *tunnel) Run(time.Duration) (exchange.Rest, bool) {
	io.Copy(e.d, e.d)
	e.d.CloseWrite()
	return exchange.Rest{}, false
}
func (e *tunnel) Close()     { e.once.Do(func() { close(e.closed); e.d.Close() }) }
func (e *tunnel) End() error { return nil }

// upgrading opens a tunnel for each WebSocket handshake.
func upgrading(made chan<- *tunnel) exchange.Handler {
	return handle(func(x *exchange.Exchange) error {
		if !x.CanUpgrade() {
			return exchange.Fail(400, "bad_request", "no upgrade")
		}
		if x.Req.Path == "/no" {
			_, err := io.WriteString(x, "no tunnel")
			return err
		}
		if x.Req.Method != "GET" || x.Req.Fields.Get("Sec-WebSocket-Key") == "" || !x.Req.Fields.HasToken("Upgrade", "websocket") {
			return errors.New("no handshake")
		}
		x.Resp.Fields.Add("Sec-WebSocket-Protocol", "chat")
		x.Resp.Fields.Add("Sec-WebSocket-Accept", "x")
		x.Resp.Fields.Add("Connection", "Upgrade")
		d, err := x.Upgrade()
		if err != nil {
			return err
		}
		tun := &tunnel{d: d, closed: make(chan struct{})}
		if made != nil {
			made <- tun
		}
		x.Detach(tun)
		return nil
	})
}

// connect opens a WebSocket on a stream (RFC 8441).
func (h *rawH2) connect(path string) uint32 {
	id := h.next
	h.next += 2
	h.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true, BlockFragment: h.fields(":method: CONNECT", ":protocol: websocket",
		":scheme: https", ":path: "+path, ":authority: a.test", "sec-websocket-version: 13")})
	return id
}

// G37: a WebSocket over HTTP/2, which bytes go through both ways, ends either way.
func TestG37ExtendedConnect(t *testing.T) {
	made := make(chan *tunnel, 10)
	s := startH2C(t, &exchangetest.Site{Handler: upgrading(made)})
	c := dialH2(t, s)
	open := func() uint32 {
		t.Helper()
		id := c.connect("/ws")
		for {
			f, err := c.fr.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			if h, ok := f.(*http2.MetaHeadersFrame); ok {
				var names []string
				for _, fd := range h.RegularFields() {
					names = append(names, fd.Name)
				}
				if h.PseudoValue("status") != "200" || h.StreamEnded() || strings.Join(names, " ") != "date sec-websocket-protocol" {
					t.Fatalf("%v", h)
				}
				return id
			}
		}
	}
	id := open()
	<-made
	if n := s.Front.Snapshot(); n.Tunnels != 1 || n.InFlight != 0 {
		t.Errorf("%+v", n)
	}
	said := bytes.Repeat([]byte("frame of bytes "), 10_000)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for p := said[:60_000]; len(p) > 0; p = p[10_000:] {
			c.fr.WriteData(id, false, p[:10_000])
		}
	}()
	var got []byte
	for len(got) < 60_000 {
		f, err := c.fr.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := f.(*http2.DataFrame); ok {
			got = append(got, d.Data()...)
		}
	}
	<-sent
	if !bytes.Equal(got, said[:60_000]) {
		t.Error("other bytes")
	}
	c.fr.WriteWindowUpdate(0, 60_000)
	c.fr.WriteData(id, true, nil) // half-close
	if _, rest, err := c.answer(id, false); err != nil || len(rest) != 0 {
		t.Errorf("%q %v", rest, err)
	}
	waitFor(t, func() bool { return s.Front.Snapshot().Tunnels == 0 })

	id = open()
	tun := <-made
	c.fr.WriteRSTStream(id, http2.ErrCodeCancel) // the client breaks off
	<-tun.closed
	id = open()
	(<-made).d.Close() // the other side does
	c.wantReset(id, http2.ErrCodeCancel)

	id = open()
	tun = <-made
	c.c.Close()
	<-tun.closed
	waitFor(t, func() bool { n := s.Front.Snapshot(); return n.Tunnels == 0 && n.Active == 0 })
}

// An answer that is no tunnel is none to an extended CONNECT, whatever its status.
func TestExtendedConnectWithoutTunnel(t *testing.T) {
	s := startH2C(t, &exchangetest.Site{Handler: upgrading(nil)})
	c := dialH2(t, s)
	if status, body, err := c.answer(c.connect("/no"), false); status != "501" || len(body) != 0 {
		t.Errorf("%s %q %v", status, body, err)
	}
	c.next += 2
	c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: c.next - 2, EndHeaders: true, BlockFragment: c.fields(":method: CONNECT", ":protocol: connect-udp",
		":scheme: https", ":path: /", ":authority: a.test")})
	if status, _, err := c.answer(c.next-2, false); status != "501" {
		t.Errorf("%s %v", status, err)
	}
	if status, _, err := c.answer(c.ask(true, "GET", "/"), false); status != "400" {
		t.Errorf("a GET can upgrade: %s %v", status, err)
	}
}

// Tunnels over HTTP/2 end with the budget of a drain, as those of HTTP/1.
func TestH2TunnelsAreCut(t *testing.T) {
	made := make(chan *tunnel, 1)
	s := startH2C(t, &exchangetest.Site{Handler: upgrading(made)})
	c := dialH2(t, s)
	c.connect("/ws")
	tun := <-made
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if cut := s.Front.Drain(ctx); cut != 1 {
		t.Errorf("%d cut", cut)
	}
	<-tun.closed
}

// A head that is longer than a frame goes out in several.
func TestH2LongHeads(t *testing.T) {
	long := strings.Repeat("v", 40_000)
	site := &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		x.Resp.Fields.Add("X-Long", long)
		_, err := io.WriteString(x, x.Req.Fields.Get("x"))
		return err
	}), Lim: front.Limits{MaxHead: 60_000}}
	s := startH2C(t, site)
	c := dialH2(t, s)
	c.fr.SetReuseFrames()
	block := append([]byte{}, c.fields(":method: GET", ":scheme: http", ":authority: a", ":path: /", "x: "+long)...)
	c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block[:10_000], EndStream: true})
	c.fr.WriteContinuation(1, false, block[10_000:20_000])
	c.fr.WriteContinuation(1, true, block[20_000:])
	if status, body, err := c.answer(1, true); status != "200" || string(body) != long {
		t.Errorf("%s, %d bytes, %v", status, len(body), err)
	}
}

// A write that had to wait leaves a deadline behind. Once that has passed, on a
// connection that has never rested meanwhile, it is no bound of later writes: those went
// nowhere, and the client saw the farewell of TLS behind records that it had not got.
func TestH2DeadlineOfAnEarlierWrite(t *testing.T) {
	for _, secure := range []bool{false, true} {
		release := make(chan struct{})
		site := &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
			n := 10
			switch x.Req.Path {
			case "/wait":
				x.MayWait()
				<-release
			case "/large":
				x.MayWait()
				n = 24 << 20 // more than sockets take at once
			}
			_, err := x.Write(make([]byte, n))
			return err
		})}
		site.Lim.EnableH2C, site.Lim.ConnTimeout = true, 2*time.Second
		s := exchangetest.Start(t, site, secure)
		c := dialH2(t, s, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
		c.fr.WriteWindowUpdate(0, 1<<30)
		waits := c.ask(true, "GET", "/wait") // the connection does not rest
		large := c.ask(true, "GET", "/large")
		if got := c.collect(1); len(got[large]) != 24<<20 {
			t.Fatal(len(got[large]))
		}
		<-time.After(site.Lim.ConnTimeout + time.Second/2)
		small := c.ask(true, "GET", "/small")
		if got := c.collect(1); len(got[small]) != 10 {
			t.Errorf("secure %v: %d bytes", secure, len(got[small]))
		}
		close(release)
		if got := c.collect(1); len(got[waits]) != 10 {
			t.Errorf("secure %v: %d bytes", secure, len(got[waits]))
		}
		c.c.Close()
	}
}

// RFC 9113 §5.1: a request that is answered whole is closed, also while what has answered it
// is about to leave.
func TestH2HeadersOnAClosedStream(t *testing.T) {
	s := startH2C(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		x.MayWait()
		return nil
	})})
	for range 200 {
		c := dialH2(t, s)
		id := c.ask(true, "GET", "/")
		if status, _, err := c.answer(id, false); status != "200" {
			t.Fatal(status, err)
		}
		c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.fields("a: b"), EndStream: true, EndHeaders: true})
		c.wantGoAway(http2.ErrCodeStreamClosed)
		c.c.Close()
	}
}
