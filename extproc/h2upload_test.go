//lint:file-ignore SA1019 frames are what these tests are about

package extproc

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/net/http2"

	"httpjet/exchange"
)

// h2handlers serves HTTP/2 in clear text by a handler.
func h2handlers(t *testing.T, h http.HandlerFunc) *upstream {
	return newUpstream(t, func(u *upstream, c *upConn) {
		(&http2.Server{}).ServeConn(c.Conn, &http2.ServeConnOpts{Handler: h})
	})
}

// G11: bodies of every size around buffer borders go up and come down byte for
// byte, their length declared or not.
func TestH2Bodies(t *testing.T) {
	u := h2handlers(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		w.Header().Set("X-Length", fmt.Sprint(r.ContentLength))
		w.Header().Set("X-Err", fmt.Sprint(err))
		w.Write(b)
	})
	p := h2client(t, h2target(u.addr))
	for _, n := range []int{1, 2, 4095, 4096, 4097, 16383, 16384, 16385, 32768, 65535, 65536, 65537, 1 << 20} {
		data := pattern(n)
		for i, r := range []io.Reader{bytes.NewReader(data), iotest.DataErrReader(bytes.NewReader(data)), bytes.NewReader(data), iotest.OneByteReader(bytes.NewReader(data))} {
			length := int64(n)
			if i == 2 {
				length = -1
			}
			if i == 3 && n > 5000 {
				continue
			}
			reply, err := p.Do(bg, post(length, r))
			got := body(t, reply, err)
			if got != string(data) || reply.Fields.Get("X-Length") != fmt.Sprint(length) {
				t.Errorf("%d bytes, reader %d: %d came back, %s", n, i, len(got), textOf(&reply.Fields))
			}
		}
	}
	// No body of an unknown length is one all the same.
	reply, err := p.Do(bg, post(-1, strings.NewReader("")))
	if got := body(t, reply, err); got != "" {
		t.Errorf("%q", got)
	}
}

// A body that is shorter than declared is the client's failure; never more than
// declared is read.
func TestH2DeclaredLength(t *testing.T) {
	u := h2handlers(t, func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
	p := h2client(t, h2target(u.addr))
	_, err := p.Do(bg, post(10, strings.NewReader("short")))
	if !errors.Is(err, exchange.ErrClientGone) {
		t.Error(err)
	}
	rest := strings.NewReader("hello, next request")
	r, err := p.Do(bg, post(5, rest))
	if got := body(t, r, err); got != "hello" || rest.Len() != len(", next request") {
		t.Errorf("%q, %d left", got, rest.Len())
	}
	tooLarge := exchange.Fail(413, "request_body_too_large", "x")
	r, err = p.Do(bg, post(-1, io.MultiReader(strings.NewReader("x"), iotest.ErrReader(tooLarge))))
	if err == nil { // the answer may have begun
		_, err = io.ReadAll(r.Body)
		r.Close()
	}
	if exchange.ReasonOf(err) != "request_body_too_large" {
		t.Error(err)
	}
}

// R-UP-6: trailers of the request, announced or not.
func TestH2RequestTrailers(t *testing.T) {
	seen := make(chan string, 2)
	u := newH2peers(t, func(p *h2peer) {
		for f := p.next(); f != nil; f = p.next() {
			if h, ok := f.(*http2.MetaHeadersFrame); ok {
				seen <- fieldText(h)
				if h.StreamEnded() {
					p.ok(h.StreamID, "")
				}
			}
		}
	})
	p := h2client(t, h2target(u.addr))
	c := post(-1, strings.NewReader("x"))
	c.Fields = fieldsOf("Trailer", "X-Sum, Content-Length")
	c.Trailers = func() *exchange.Fields { return fieldsOf("X-Sum", "9", "X-Other", "1", "X-Other", "2") }
	r, err := p.Do(bg, c)
	body(t, r, err)
	if h := soon(t, "a head", seen); !strings.Contains(h, "\ntrailer: X-Sum\n") {
		t.Errorf("%q", h)
	}
	trailers := soon(t, "trailers", seen)
	for _, want := range []string{"x-sum: 9\n", "x-other: 1\nx-other: 2\n"} {
		if !strings.Contains(trailers, want) {
			t.Errorf("%q", trailers)
		}
	}
}

// R-UP-5, R-STREAM-3: both directions at once.
func TestH2FullDuplex(t *testing.T) {
	u := h2handlers(t, func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		rc.Flush()
		b := make([]byte, 16)
		for {
			n, err := r.Body.Read(b)
			w.Write(bytes.ToUpper(b[:n]))
			rc.Flush()
			if err != nil {
				return
			}
		}
	})
	pr, pw := io.Pipe()
	r, err := h2client(t, h2target(u.addr)).Do(bg, post(-1, pr))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		text := fmt.Sprintf("message %d\n", i)
		if _, err := io.WriteString(pw, text); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(text))
		if _, err := io.ReadFull(r.Body, got); err != nil || string(got) != strings.ToUpper(text) {
			t.Fatalf("%q, %v", got, err)
		}
	}
	pw.Close()
	if rest := body(t, r, nil); rest != "" {
		t.Errorf("%q", rest)
	}
}

// G16: an answer that comes during the upload is the reply; the client is stopped,
// the stream reset, and the connection serves on.
func TestG16H2EarlyAnswer(t *testing.T) {
	reset := make(chan uint32, 4)
	u := newH2peers(t, func(p *h2peer) {
		for f := p.next(); f != nil; f = p.next() {
			switch f := f.(type) {
			case *http2.MetaHeadersFrame:
				if strings.Contains(fieldText(f), "POST") {
					p.head(f.StreamID, false, ":status", "413")
					p.data(f.StreamID, true, "too big")
				} else {
					p.ok(f.StreamID, "next")
				}
			case *http2.RSTStreamFrame:
				reset <- f.StreamID
			}
		}
	})
	p := h2client(t, h2target(u.addr))
	for _, begin := range []string{"", "begin"} {
		pr, pw := io.Pipe()
		go io.WriteString(pw, begin)
		c := post(1<<20, pr)
		r, err := p.Do(bg, c)
		if got := body(t, r, err); got != "too big" || r.Status != 413 {
			t.Errorf("%d %q", r.Status, got)
		}
		if n := c.Body.(*stoppable).reading.Load(); n != 0 {
			t.Error("the client is still asked for its body")
		}
		pr.Close() // it need not have been asked at all
		soon(t, "a reset", reset)
		r, err = p.Do(bg, get("/next"))
		if got := body(t, r, err); got != "next" {
			t.Errorf("%q", got)
		}
	}
	if n := u.conns.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// refusing serves connections on which a stream is refused in one of the ways that
// say it was not looked at, until n connections have done so.
func refusing(t *testing.T, how string, n int) *upstream {
	return newH2peers(t, func(p *h2peer) {
		var got bytes.Buffer
		for f := p.next(); f != nil; f = p.next() {
			switch f := f.(type) {
			case *http2.MetaHeadersFrame:
				switch {
				case p.n > n:
					if f.StreamEnded() {
						p.ok(f.StreamID, "served ")
					}
				case how == "goaway":
					p.goAway(0, http2.ErrCodeNo)
				case how == "refused":
					p.reset(f.StreamID, http2.ErrCodeRefusedStream)
				}
			case *http2.DataFrame:
				if p.n <= n {
					t.Error("a byte of the body went to a peer that refused")
				}
				got.Write(f.Data())
				if f.StreamEnded() {
					p.ok(f.StreamID, "served "+got.String())
				}
			}
		}
	})
}

// R-UP-4, G13: a stream that was not processed goes to another connection, and
// when those refuse it too, to another peer: with all of its body, of which no
// byte was given away before, although a read of it was under way.
func TestH2UnprocessedStreamsMove(t *testing.T) {
	type result struct {
		r   *Reply
		err error
	}
	f := func(how string, refusals int, c *Call, upload func()) {
		t.Helper()
		u := refusing(t, how, refusals)
		p := h2client(t, h2target(u.addr))
		done := make(chan result, 1)
		do := func(p *H2Client) {
			r, err := p.Do(bg, c)
			done <- result{r, err}
		}
		go do(p)
		if refusals >= h2Tries {
			res := soon(t, "the end", done)
			if e, ok := errors.AsType[*DialError](res.err); !ok || e.Timeout || !errors.Is(res.err, ErrUnread) {
				t.Fatalf("%s: %v", how, res.err)
			}
			if s := p.Stats(); s.Busy != 0 {
				t.Errorf("%+v", s)
			}
			refusals, u = 0, refusing(t, how, 0) // another peer
			go do(h2client(t, h2target(u.addr)))
		}
		eventually(t, fmt.Sprintf("%s by %d: it has moved", how, refusals), func() bool { return u.conns.Load() > int32(refusals) })
		want := "served "
		if upload != nil {
			upload()
			want += "the body"
		}
		res := soon(t, "an answer", done)
		if got := body(t, res.r, res.err); got != want {
			t.Errorf("%s: %q", how, got)
		}
	}
	for _, how := range []string{"goaway", "refused"} {
		for _, refusals := range []int{1, 2, 99} {
			f(how, refusals, get("/"), nil)
			pr, pw := io.Pipe()
			f(how, refusals, post(-1, pr), func() {
				io.WriteString(pw, "the body")
				pw.Close()
			})
		}
	}
}

// What nobody takes over leaves no read of the body behind.
func TestH2CallCloseJoins(t *testing.T) {
	u := refusing(t, "goaway", 99)
	pr, pw := io.Pipe()
	c := post(-1, pr)
	if _, err := h2client(t, h2target(u.addr)).Do(bg, c); err == nil {
		t.Fatal("served")
	}
	c.Close()
	c.Close()
	if _, err := pw.Write([]byte("x")); err == nil {
		t.Error("the client was not stopped")
	}
}

// R-UP-4: what a peer has had of a body, of a stream that it says it has not
// processed, goes to it again over another connection, as far as it is kept, and to
// no other peer; what is not kept goes nowhere again.
func TestH2GivenBodies(t *testing.T) {
	f := func(size, seen, refusals int, length int64, wantConns int32, wantErr string) {
		t.Helper()
		u := newH2peers(t, func(p *h2peer) {
			got := 0
			for f := p.next(); f != nil; f = p.next() {
				d, ok := f.(*http2.DataFrame)
				if !ok {
					continue
				}
				got += len(d.Data())
				if p.n <= refusals && got >= seen {
					p.goAway(0, http2.ErrCodeNo)
					continue
				}
				if n := uint32(len(d.Data())); n > 0 {
					p.write(func() { p.fr.WriteWindowUpdate(0, n); p.fr.WriteWindowUpdate(d.StreamID, n) })
				}
				if d.StreamEnded() {
					p.ok(d.StreamID, fmt.Sprint(got))
				}
			}
		})
		c := post(length, bytes.NewReader(pattern(size)))
		r, err := h2client(t, h2target(u.addr)).Do(bg, c)
		if err == nil {
			if got := body(t, r, err); got != fmt.Sprint(size) {
				t.Errorf("%d bytes: %s came", size, got)
			}
		}
		if _, dial := errors.AsType[*DialError](err); dial || exchange.ReasonOf(err) != wantErr || u.conns.Load() != wantConns {
			t.Errorf("%d bytes: %v, %d connections", size, err, u.conns.Load())
		}
		c.Close()
	}
	f(3, 3, 1, 3, 2, "")
	f(3, 3, 2, -1, 3, "")
	f(64<<10, 1, 1, 64<<10, 2, "")
	f(3, 3, 99, 3, h2Tries, "upstream_transport")
	f(65<<10, firstPart+1, 1, 65<<10, 1, "upstream_transport")
	f(100<<10, firstPart+1, 1, -1, 1, "upstream_transport")
}

// GOAWAY lets the streams that the peer has taken end, on its connection; new ones
// go to another.
func TestH2GoAwayIsGraceful(t *testing.T) {
	finish := make(chan struct{})
	u := newH2peers(t, func(p *h2peer) {
		h := p.request()
		if p.n > 1 {
			p.ok(h.StreamID, "new")
			for p.next() != nil {
			}
			return
		}
		p.head(h.StreamID, false, ":status", "200")
		p.goAway(h.StreamID, http2.ErrCodeNo)
		<-finish
		p.data(h.StreamID, true, "old")
		for p.next() != nil {
		}
	})
	p := h2client(t, h2target(u.addr))
	old, err := p.Do(bg, get("/"))
	if err != nil {
		t.Fatal(err)
	}
	// The GOAWAY may still be on its way: then the second stream is refused by it.
	r, err := p.Do(bg, get("/"))
	if got := body(t, r, err); got != "new" {
		t.Errorf("%q", got)
	}
	close(finish)
	if got := body(t, old, nil); got != "old" {
		t.Errorf("%q", got)
	}
}

// A big upload is not held in memory: the peer's window is the bound.
func TestH2UploadFollowsTheWindow(t *testing.T) {
	begin := make(chan struct{})
	u := h2handlers(t, func(w http.ResponseWriter, r *http.Request) {
		<-begin
		h := sha256.New()
		io.Copy(h, r.Body)
		fmt.Fprintf(w, "%x", h.Sum(nil))
	})
	data := pattern(8 << 20)
	src := &counting{Reader: bytes.NewReader(data)}
	done := make(chan string)
	p := h2client(t, h2target(u.addr))
	go func() {
		r, err := p.Do(bg, post(int64(len(data)), src))
		done <- body(t, r, err)
	}()
	last := int64(-1)
	eventually(t, "the upload stands still", func() bool {
		n := src.n.Load()
		same := n == last && n > 0
		last = n
		<-time.After(20 * time.Millisecond)
		return same
	})
	if last > 2<<20 {
		t.Errorf("%d bytes read ahead of a peer that reads none", last)
	}
	close(begin)
	if got := soon(t, "the sum", done); got != fmt.Sprintf("%x", sha256.Sum256(data)) {
		t.Errorf("%s", got)
	}
}

// counting counts the bytes that were read.
type counting struct {
	io.Reader
	n atomic.Int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}
