//lint:file-ignore SA1019 frames are what these tests are about

package extproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"httpjet/exchange"
)

// Replies keep status, end-to-end fields, length, body and trailers, announced or
// not (G69, R-UP-6).
func TestH2Replies(t *testing.T) {
	f := func(method string, answer func(p *h2peer, id uint32), want string) {
		t.Helper()
		u := newH2peers(t, func(p *h2peer) {
			for h := p.request(); h != nil; h = p.request() {
				answer(p, h.StreamID)
			}
		})
		c := get("/")
		c.Method = method
		r, err := h2client(t, h2target(u.addr)).Do(bg, c)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		b, err := io.ReadAll(r.Body)
		got := fmt.Sprintf("%d length %d buffered %v\n%s%s %v\n%s", r.Status, r.Length, r.Buffered != nil, textOf(&r.Fields), b, err, textOf(r.Trailers()))
		if got != want {
			t.Errorf("%s: %q\nwant %q", method, got, want)
		}
	}
	f("GET", func(p *h2peer, id uint32) {
		p.head(id, false, ":status", "200", "x-b", "2", "content-length", "5", "x-a", "1", "set-cookie", "a", "set-cookie", "b", "connection", "x-b", "keep-alive", "1")
		p.data(id, false, "he")
		p.data(id, true, "llo")
	}, "200 length 5 buffered true\nSet-Cookie: a\nSet-Cookie: b\nX-A: 1\nX-B: 2\nhello <nil>\n")
	f("GET", func(p *h2peer, id uint32) {
		p.head(id, false, ":status", "200", "trailer", "x-sum, transfer-encoding, x-more")
		p.data(id, false, "x")
		p.head(id, true, "grpc-status", "0", "x-sum", "9", "connection", "close", "content-length", "1")
	}, "200 length -1 buffered true\nTrailer: X-More, X-Sum\nx <nil>\nGrpc-Status: 0\nX-Sum: 9\n")
	f("GET", func(p *h2peer, id uint32) { // HTTP/1 carries no trailers behind a declared length
		p.head(id, false, ":status", "200", "content-length", "1", "trailer", "x-sum")
		p.data(id, false, "x")
		p.head(id, true, "x-sum", "9")
	}, "200 length -1 buffered true\nTrailer: X-Sum\nx <nil>\nX-Sum: 9\n")
	f("GET", func(p *h2peer, id uint32) { // an answer of trailers only
		p.head(id, true, ":status", "200", "content-type", "application/grpc", "grpc-status", "12")
	}, "200 length 0 buffered false\nContent-Type: application/grpc\nGrpc-Status: 12\n <nil>\n")
	f("HEAD", func(p *h2peer, id uint32) { p.head(id, true, ":status", "200", "content-length", "99") },
		"200 length 99 buffered false\n <nil>\n")
	f("GET", func(p *h2peer, id uint32) { p.head(id, true, ":status", "304", "etag", "x") },
		"304 length 0 buffered false\nEtag: x\n <nil>\n")
	f("GET", func(p *h2peer, id uint32) { p.ok(id, "") }, "200 length -1 buffered true\nContent-Type: text/plain\n <nil>\n")
}

// R-STREAM-4: a body that does not end by itself is an error, never an end.
func TestH2TruncatedBodies(t *testing.T) {
	f := func(want error, length string, then func(p *h2peer, id uint32)) {
		t.Helper()
		headIn := make(chan struct{})
		u := newH2peers(t, func(p *h2peer) {
			h := p.request()
			fields := []string{":status", "200"}
			if length != "" {
				fields = append(fields, "content-length", length)
			}
			p.head(h.StreamID, false, fields...)
			p.data(h.StreamID, false, "hello")
			<-headIn
			then(p, h.StreamID)
			for p.next() != nil {
			}
		})
		r, err := h2client(t, h2target(u.addr)).Do(bg, get("/"))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		close(headIn)
		if b, err := io.ReadAll(r.Body); err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%q ended with %v", b, err)
		}
	}
	f(ErrReset, "", func(p *h2peer, id uint32) { p.reset(id, http2.ErrCodeInternal) })
	f(ErrReset, "", func(p *h2peer, id uint32) { p.reset(id, http2.ErrCodeNo) })
	f(nil, "", func(p *h2peer, _ uint32) { p.conn.Close() })
	f(nil, "", func(p *h2peer, id uint32) {
		p.goAway(id, http2.ErrCodeInternal)
		p.conn.Close()
	})
	f(io.ErrUnexpectedEOF, "9", func(p *h2peer, id uint32) { p.data(id, true, "") })
	f(nil, "2", func(p *h2peer, id uint32) { p.data(id, true, "") })
	u := newH2peers(t, func(p *h2peer) { p.head(p.request().StreamID, true, ":status", "200", "content-length", "3"); p.next() })
	r, err := h2client(t, h2target(u.addr)).Do(bg, get("/"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if b, err := io.ReadAll(r.Body); err != io.ErrUnexpectedEOF {
		t.Errorf("%q ended with %v", b, err)
	}
}

// R-UP-7, G71: 103 is passed on without the fields of the hop, 100 and 102 are
// not, and the final head is always awaited.
func TestG71H2Hints(t *testing.T) {
	u := newH2peers(t, func(p *h2peer) {
		for h := p.request(); h != nil; h = p.request() {
			p.head(h.StreamID, false, ":status", "100")
			p.head(h.StreamID, false, ":status", "102")
			for i := range 3 {
				p.head(h.StreamID, false, ":status", "103", "link", fmt.Sprintf("</%d>", i), "keep-alive", "1", "proxy-authenticate", "x", "connection", "x-n", "x-n", "1")
			}
			p.ok(h.StreamID, "final")
		}
	})
	c := get("/")
	var hints []string
	c.Inform = func(status int, f *exchange.Fields) error { // the race detector sees who else uses it
		hints = append(hints, fmt.Sprint(status, " ", textOf(f)))
		return nil
	}
	p := h2client(t, h2target(u.addr))
	r, err := p.Do(bg, c)
	if len(hints) != 3 || hints[0] != "103 Link: </0>\n" || hints[2] != "103 Link: </2>\n" {
		t.Errorf("%q", hints)
	}
	if got := body(t, r, err); got != "final" || r.Status != 200 {
		t.Errorf("%d %q", r.Status, got)
	}
	// A client that takes its hints slowly stops its own call alone.
	slow, let := get("/slow"), make(chan struct{})
	begun := make(chan struct{}, 3)
	slow.Inform = func(int, *exchange.Fields) error {
		begun <- struct{}{}
		<-let
		return nil
	}
	done := make(chan error)
	go func() {
		r, err := p.Do(bg, slow)
		if err == nil {
			err = r.Close()
		}
		done <- err
	}()
	soon(t, "a hint", begun)
	r, err = p.Do(bg, get("/other"))
	body(t, r, err)
	if n := u.conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
	close(let)
	if err := soon(t, "the slow one", done); err != nil {
		t.Error(err)
	}
}

// Hostile heads are bounded and are 502 (R-HDR-9).
func TestH2HostileHeads(t *testing.T) {
	many := []string{":status", "200"}
	for range maxFields + 1 {
		many = append(many, "x", "1")
	}
	hints := func(p *h2peer, id uint32) {
		for range 1000 {
			p.head(id, false, ":status", "103", "link", "x")
		}
	}
	f := func(reason string, answer func(p *h2peer, id uint32)) {
		t.Helper()
		over := make(chan struct{})
		u := newH2peers(t, func(p *h2peer) {
			defer close(over)
			if h := p.request(); h != nil {
				answer(p, h.StreamID)
			}
			for p.next() != nil {
			}
		})
		p := h2client(t, h2target(u.addr))
		r, err := p.Do(bg, post(-1, strings.NewReader("x")))
		fails(t, r, err, 502, reason)
		p.Retire()
		soon(t, "the connection ends", over)
	}
	f("response_head_too_large", func(p *h2peer, id uint32) { p.head(id, false, many...) })
	f("response_head_too_large", func(p *h2peer, id uint32) {
		p.head(id, false, ":status", "200", "x", strings.Repeat("x", 40<<10), "y", strings.Repeat("y", 40<<10))
	})
	f("upstream_transport", func(p *h2peer, id uint32) { // a flood of CONTINUATION
		p.write(func() {
			p.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0x88}})
			for range 1000 {
				if p.fr.WriteContinuation(id, false, []byte("\x00\x01x\x7f\x81\x3f"+strings.Repeat("z", 8<<10))) != nil {
					return
				}
			}
		})
	})
	f("upstream_transport", hints)
	f("upstream_transport", func(p *h2peer, id uint32) { p.head(id, false, "x", "no status") })
	f("upstream_transport", func(p *h2peer, id uint32) { p.head(id, false, ":status", "abc") })
	for _, status := range []string{"099", "0", "00", "1", "010", "-5", "-500", "+200", "+20", "1000", "0200", "600", "999"} {
		f("upstream_transport", func(p *h2peer, id uint32) { p.head(id, false, ":status", status) })
	}
	f("upstream_transport", func(p *h2peer, id uint32) { p.head(id, false, ":status", "200", "X-Upper", "1") })
	f("upstream_transport", func(p *h2peer, id uint32) { p.head(id, true, ":status", "103") })
	f("upstream_transport", func(p *h2peer, id uint32) { p.data(id, true, "no head") })
	f("upstream_transport", func(p *h2peer, id uint32) {
		p.write(func() { p.fr.WritePushPromise(http2.PushPromiseParam{StreamID: id, PromiseID: 2, EndHeaders: true}) })
	})
	f("upstream_transport", func(p *h2peer, id uint32) { io.WriteString(p.conn, "HTTP/1.1 200 OK\r\n\r\n") })
	f("upstream_transport", func(p *h2peer, id uint32) { p.reset(id, http2.ErrCodeInternal) })
	f("upstream_transport", func(p *h2peer, id uint32) { p.conn.Close() })
}

// A broken connection that has served before is replaced once, for what may be
// repeated (R-POOL-4); a stream that was reset is not.
func TestH2Replays(t *testing.T) {
	f := func(method string, fault func(p *h2peer, id uint32), served bool, wantStatus int, wantConns int32) {
		t.Helper()
		u := newH2peers(t, func(p *h2peer) {
			for h := p.request(); h != nil; h = p.request() {
				switch {
				case strings.Contains(fieldText(h), ":path: /first\n"):
					p.ok(h.StreamID, "x")
				case p.n == 1:
					fault(p, h.StreamID)
				default:
					p.ok(h.StreamID, "again")
				}
			}
		})
		p := h2client(t, h2target(u.addr))
		if served {
			r, err := p.Do(bg, get("/first"))
			body(t, r, err)
		}
		c := get("/second")
		c.Method = method
		r, err := p.Do(bg, c)
		if wantStatus == 200 {
			body(t, r, err)
		} else {
			fails(t, r, err, wantStatus, "upstream_transport")
		}
		if n := u.conns.Load(); n != wantConns {
			t.Errorf("%s: %d connections, want %d", method, n, wantConns)
		}
	}
	gone := func(p *h2peer, _ uint32) { p.conn.Close() }
	f("GET", gone, true, 200, 2)
	f("PUT", gone, true, 200, 2)
	f("POST", gone, true, 502, 1)
	f("GET", gone, false, 502, 1) // a fresh one
	reset := func(p *h2peer, id uint32) { p.reset(id, http2.ErrCodeInternal) }
	f("GET", reset, true, 502, 1)
	f("GET", func(p *h2peer, id uint32) {
		p.head(id, false, ":status", "103")
		p.conn.Close()
	}, true, 502, 1)
}

// Deadlines: of the head from the end of the upload, of the upload by its progress
// (R-TMO-2, R-TMO-3). After the head there is none.
func TestH2Deadlines(t *testing.T) {
	mute := func(p *h2peer) {
		for p.next() != nil {
		}
	}
	f := func(serve func(p *h2peer), c *Call, change func(tg *Target), status int, reason string) {
		t.Helper()
		tg := h2target(newH2peers(t, serve).addr)
		change(&tg)
		r, err := h2client(t, tg).Do(bg, c)
		fails(t, r, err, status, reason)
	}
	head := func(tg *Target) { tg.HeadTimeout = 10 * time.Millisecond }
	f(mute, get("/"), head, 504, "upstream_timeout")
	f(mute, post(3, strings.NewReader("abc")), head, 504, "upstream_timeout")
	c := get("/")
	c.HeadTimeout = 10 * time.Millisecond // R-CTX-10
	f(mute, c, func(*Target) {}, 504, "upstream_timeout")
	upload := func(tg *Target) { tg.HeadTimeout, tg.BodyTimeout = time.Millisecond, 60*time.Millisecond }
	pr, pw := io.Pipe()
	f(mute, post(-1, pr), upload, 408, "request_stalled")
	pr2, pw2 := io.Pipe()
	go pw2.Write([]byte("begin"))
	f(mute, post(-1, pr2), upload, 408, "request_stalled")
	f(mute, post(-1, strings.NewReader(strings.Repeat("x", 1<<20))), upload, 504, "request_stalled") // a closed window
	pw.Close()
	pw2.Close()
	// A silent stream of both directions is nobody's fault.
	tg := h2target(newH2peers(t, func(p *h2peer) {
		h := p.request()
		p.head(h.StreamID, false, ":status", "200")
		for f := p.next(); f != nil; f = p.next() {
			if d, ok := f.(*http2.DataFrame); ok && d.StreamEnded() {
				p.data(h.StreamID, true, "bye")
				return
			}
		}
	}).addr)
	pr, pw = io.Pipe()
	r, err := h2client(t, tg).Do(bg, post(-1, pr))
	if err != nil {
		t.Fatal(err)
	}
	call := r.Body.(*h2call)
	call.client.target.BodyTimeout, call.client.target.HeadTimeout = 0, 0
	call.tick() // as long after as may be
	pw.Close()
	if got := body(t, r, nil); got != "bye" {
		t.Errorf("%q", got)
	}
}

// R-STREAM-5, G44: a client that leaves resets its stream, and no other one.
func TestG44H2ClientGone(t *testing.T) {
	asked, reset := make(chan uint32, 4), make(chan http2.ErrCode, 4)
	u := newH2peers(t, func(p *h2peer) {
		for f := p.next(); f != nil; f = p.next() {
			switch f := f.(type) {
			case *http2.MetaHeadersFrame:
				if strings.Contains(fieldText(f), "/head") {
					p.head(f.StreamID, false, ":status", "200")
				}
				if strings.Contains(fieldText(f), "/ok") {
					p.ok(f.StreamID, "ok")
				}
				asked <- f.StreamID
			case *http2.RSTStreamFrame:
				reset <- f.ErrCode
			}
		}
	})
	p := h2client(t, h2target(u.addr))
	f := func(c *Call, head bool) {
		t.Helper()
		ctx, leave := context.WithCancel(bg)
		done := make(chan error)
		go func() {
			r, err := p.Do(ctx, c)
			if head && err == nil {
				_, err = io.ReadAll(r.Body)
				r.Close()
			}
			done <- err
		}()
		soon(t, "the request", asked)
		leave()
		if err := soon(t, "the call ends", done); !errors.Is(err, exchange.ErrClientGone) {
			t.Error(err)
		}
		if code := soon(t, "a reset", reset); code != http2.ErrCodeCancel {
			t.Errorf("%v", code)
		}
	}
	f(get("/wait"), false)
	f(get("/head"), true)
	pr, pw := io.Pipe()
	f(post(-1, pr), false)
	if _, err := pw.Write([]byte("x")); err == nil {
		t.Error("the client was not stopped")
	}
	r, err := p.Do(bg, get("/ok"))
	if body(t, r, err) != "ok" || u.conns.Load() != 1 {
		t.Errorf("%d connections", u.conns.Load())
	}
}

// R-STREAM-3: of a reply that nobody reads 64 KiB are taken, and it stops no other
// one.
func TestH2BackPressure(t *testing.T) {
	settings := make(chan string, 1)
	u := newUpstream(t, func(u *upstream, c *upConn) {
		p := beginH2(t, c.Conn, c.n)
		f, err := p.fr.ReadFrame()
		s, ok := f.(*http2.SettingsFrame)
		if err != nil || !ok {
			return
		}
		window, _ := s.Value(http2.SettingInitialWindowSize)
		list, _ := s.Value(http2.SettingMaxHeaderListSize)
		push, _ := s.Value(http2.SettingEnablePush)
		settings <- fmt.Sprint(window, list, push)
		for h := p.request(); h != nil; h = p.request() {
			p.head(h.StreamID, false, ":status", "200")
			for sent := 0; sent < h2Window; sent += 16 << 10 {
				p.data(h.StreamID, false, strings.Repeat("x", 16<<10))
			}
			if strings.Contains(fieldText(h), "/last") {
				p.data(h.StreamID, true, "")
			}
		}
	})
	tg := h2target(u.addr)
	tg.MaxConns = h2Streams
	p := h2client(t, tg)
	for range h2Streams - 1 {
		r, err := p.Do(bg, get("/"))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
	}
	r, err := p.Do(bg, get("/last"))
	if got := body(t, r, err); len(got) != h2Window {
		t.Errorf("%d bytes", len(got))
	}
	if got := soon(t, "settings", settings); got != fmt.Sprint(h2Window, maxHead, 0) {
		t.Errorf("settings %s", got)
	}
	if n := u.conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// R-UP-5: a gRPC call that its peer cancels ends with the status that the reset
// means to a client, before the head and behind it; others are failures.
func TestH2CancelledCalls(t *testing.T) {
	f := func(contentType string, code http2.ErrCode, late bool, want string) {
		t.Helper()
		headIn := make(chan struct{})
		u := newH2peers(t, func(p *h2peer) {
			h := p.request()
			if late {
				p.head(h.StreamID, false, ":status", "200", "content-type", contentType)
				p.data(h.StreamID, false, "part")
				<-headIn
			}
			p.reset(h.StreamID, code)
			for p.next() != nil {
			}
		})
		c := get("/s/m")
		c.Fields = fieldsOf("Content-Type", contentType)
		r, err := h2client(t, h2target(u.addr)).Do(bg, c)
		got := ""
		if close(headIn); err == nil {
			var b []byte
			b, err = io.ReadAll(r.Body)
			got = fmt.Sprint(r.Status, " ", r.Fields.Get("Grpc-Status"), " ", string(b), " ", textOf(r.Trailers()))
			r.Close()
		}
		if got += exchange.ReasonOf(err); got != want {
			t.Errorf("%s %v %v: %q, want %q", contentType, code, late, got, want)
		}
	}
	f("application/grpc+proto", http2.ErrCodeCancel, false, "200 1  ")
	f("application/grpc", http2.ErrCodeCancel, true, "200  part Grpc-Status: 1\n")
	f("application/grpc", http2.ErrCodeInternal, false, "upstream_transport")
	f("application/grpc", http2.ErrCodeInternal, true, "200  part internal")
	f("application/grpc-web", http2.ErrCodeCancel, false, "upstream_transport")
	f("text/plain", http2.ErrCodeCancel, true, "200  part internal")
}
