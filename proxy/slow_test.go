package proxy

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/sys/unix"

	"httpjet/exchange/exchangetest"
	"httpjet/extproc"
	"httpjet/front"
	"httpjet/groups"
)

const (
	slowBody = 32 << 20
	heldMost = 1 << 20 // of one stream (R-STREAM-3)
)

// A fastUpstream answers /slow with slowBody bytes, as fast as they are taken, and all
// else with "ok".
type fastUpstream struct {
	conn atomic.Pointer[net.TCPConn] // of /slow
	sent atomic.Int64                // bytes of its body that the kernel has taken
}

func (u *fastUpstream) serve(c net.Conn, br *bufio.Reader) {
	for {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if r.URL.Path != "/slow" {
			io.WriteString(c, ok)
			continue
		}
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", slowBody)
		u.conn.Store(c.(*net.TCPConn))
		for b := make([]byte, 4<<10); u.sent.Load() < slowBody; {
			n, err := c.Write(b)
			if u.sent.Add(int64(n)); err != nil {
				return
			}
		}
	}
}

// queued returns what the kernel holds of a connection over loopback, both of whose ends
// are this process's, at the end that is local: bytes that the other one has not
// acknowledged, and bytes that nobody has read. There may be none such any more.
func queued(local, remote net.Addr) (out, in int64) {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err) // what cannot be counted is not held to be good
	}
	port := func(sa unix.Sockaddr, err error) int {
		if a, ok := sa.(*unix.SockaddrInet4); ok && err == nil {
			return a.Port
		}
		return -1
	}
	for _, e := range open {
		fd, _ := strconv.Atoi(e.Name()) // a number
		if port(unix.Getsockname(fd)) != local.(*net.TCPAddr).Port || port(unix.Getpeername(fd)) != remote.(*net.TCPAddr).Port {
			continue
		}
		o, err1 := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
		i, err2 := unix.IoctlGetInt(fd, unix.SIOCINQ)
		if err1 == nil && err2 == nil {
			return int64(o), int64(i)
		}
	}
	return 0, 0
}

// taken returns how many bytes have been read from the upstream, or fewer: what moves
// while this looks is counted as not taken.
func (u *fastUpstream) taken() int64 {
	c := u.conn.Load()
	if c == nil {
		return 0
	}
	n := u.sent.Load()
	out, _ := queued(c.LocalAddr(), c.RemoteAddr())
	_, in := queued(c.RemoteAddr(), c.LocalAddr())
	return n - out - in
}

// rests waits until nothing moves any more.
func (u *fastUpstream) rests() {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for last, n := int64(-1), int64(0); n != last || n == 0; <-tick.C {
		last, n = n, u.taken()
	}
}

// bySteps has the client of a proxied body take some, and then nothing for as
// long as bytes move. take reads so many bytes; passed is how many of the body are beyond
// this process's reach, so many at least; others look that other streams go on.
func bySteps(t *testing.T, u *fastUpstream, take func(n int), passed func() int64, others func()) {
	most := int64(0)
	for _, n := range []int{1, 1 << 20, 12 << 20} {
		take(n)
		u.rests()
		held := u.taken() - passed()
		if most = max(most, held); held > heldMost {
			t.Errorf("%d bytes are held", held)
		}
		others()
	}
	t.Logf("%d bytes were held at most", most)
}

func slowHandler(t *testing.T) (*fastUpstream, *Handler) {
	u := &fastUpstream{}
	addr, _ := upstream(t, u.serve)
	c := extproc.NewH1(extproc.Target{Kind: extproc.KindProxy, Scheme: extproc.H1, Network: "tcp", Address: addr,
		MaxConns: 4, InitTimeout: patience, KeepAlive: time.Minute, HeadTimeout: patience, BodyTimeout: patience}, nil)
	t.Cleanup(c.Retire)
	return u, &Handler{Group: groups.Single(c)}
}

// R-STREAM-3: of a body whose client is slow no more than 1 MiB is between the upstream's
// socket and the client's, although the upstream has more at hand at any time.
func TestSlowStreamHoldsAMegabyte(t *testing.T) {
	t.Run("h1", func(t *testing.T) {
		u, h := slowHandler(t)
		s := exchangetest.Start(t, &exchangetest.Site{Handler: h}, false)
		c, err := net.Dial("tcp", s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
		var head []byte
		for b := make([]byte, 1); !bytes.HasSuffix(head, []byte("\r\n\r\n")); head = append(head, b...) {
			if _, err := c.Read(b); err != nil {
				t.Fatal(err)
			}
		}
		got := int64(0)
		bySteps(t, u, func(n int) {
			m, err := io.CopyN(io.Discard, c, int64(n))
			if got += m; err != nil {
				t.Fatal(err)
			}
		}, func() int64 { return inKernel(c) + got }, func() {})
	})
	for _, way := range []string{"window", "socket"} {
		t.Run("h2, by its "+way, func(t *testing.T) {
			u, h := slowHandler(t)
			s := exchangetest.Start(t, &exchangetest.Site{Handler: h, Lim: front.Limits{EnableH2C: true}}, false)
			c := dialSlowH2(t, s.Addr, way == "socket")
			bySteps(t, u, c.take, func() int64 { return inKernel(c.c) + c.got }, c.others)
		})
	}
	t.Run("h3", func(t *testing.T) {
		u, h := slowHandler(t)
		s := exchangetest.StartH3(t, &exchangetest.Site{Handler: h})
		const window = 64 << 10 // what quic-go may hold at the client's side
		qc, err := quic.DialAddr(t.Context(), s.Addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{http3.NextProtoH3}},
			&quic.Config{InitialStreamReceiveWindow: window, MaxStreamReceiveWindow: window})
		if err != nil {
			t.Fatal(err)
		}
		defer qc.CloseWithError(0, "")
		c := new(http3.Transport).NewClientConn(qc)
		ask := func(path string) *http.Response {
			r, err := http.NewRequest("GET", s.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := c.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			return resp
		}
		slow := ask("/slow")
		defer slow.Body.Close()
		got := int64(0)
		bySteps(t, u, func(n int) {
			m, err := io.CopyN(io.Discard, slow.Body, int64(n))
			if got += m; err != nil {
				t.Fatal(err)
			}
		}, func() int64 { return got }, func() {
			r := ask("/other")
			defer r.Body.Close()
			if b, err := io.ReadAll(r.Body); string(b) != "ok" {
				t.Errorf("another stream: %q %v", b, err)
			}
		})
	})
}

// inKernel returns what the kernel has of a connection on the way to c.
func inKernel(c net.Conn) int64 {
	out, _ := queued(c.RemoteAddr(), c.LocalAddr())
	_, in := queued(c.LocalAddr(), c.RemoteAddr())
	return out + in
}

// slowH2 is a client of HTTP/2 on one goroutine: it buffers nothing. If it stalls it does
// not read, and its windows are open; else it reads, and the window of /slow is closed.
type slowH2 struct {
	t      *testing.T
	c      net.Conn
	fr     *http2.Framer
	enc    *hpack.Encoder
	block  bytes.Buffer
	stalls bool
	next   uint32
	got    int64 // bytes of /slow
}

func dialSlowH2(t *testing.T, addr string, stalls bool) *slowH2 {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	h := &slowH2{t: t, c: c, fr: http2.NewFramer(c, c), stalls: stalls, next: 1}
	h.enc = hpack.NewEncoder(&h.block)
	window := uint32(0)
	if stalls {
		window = 1 << 30
	}
	io.WriteString(c, http2.ClientPreface)
	h.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window})
	h.fr.WriteWindowUpdate(0, 1<<30)
	h.ask("/slow")
	return h
}

func (h *slowH2) ask(path string) (id uint32) {
	h.block.Reset()
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "a"}, {":path", path}} {
		h.enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	id = h.next
	h.next += 2
	h.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: h.block.Bytes(), EndStream: true, EndHeaders: true})
	return id
}

// read handles one frame and returns a DATA frame.
func (h *slowH2) read() *http2.DataFrame {
	f, err := h.fr.ReadFrame()
	if err != nil {
		h.t.Fatal(err)
	}
	d, _ := f.(*http2.DataFrame)
	if d != nil && d.StreamID == 1 {
		h.got += int64(len(d.Data()))
	}
	return d
}

func (h *slowH2) take(n int) {
	if !h.stalls {
		h.fr.WriteWindowUpdate(1, uint32(n))
	}
	for until := h.got + int64(n); h.got < until; {
		h.read()
	}
}

// others has a stream beside /slow answered. One that stalls has no way to see that.
func (h *slowH2) others() {
	if h.stalls {
		return
	}
	id := h.ask("/other")
	h.fr.WriteWindowUpdate(id, 100)
	for {
		if d := h.read(); d != nil && d.StreamID == id && d.StreamEnded() {
			return
		}
	}
}
