package extproc

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"
)

// nameServer answers questions over UDP and TCP as its test says.
type nameServer struct {
	t    *testing.T
	udp  net.PacketConn
	tcp  net.Listener
	wg   sync.WaitGroup
	mu   sync.Mutex
	zone map[string]string // by name: see message
	open map[net.Conn]bool // of the resolver and of tcp
	down bool
}

func newNameServer(t *testing.T) *nameServer {
	s := &nameServer{t: t, zone: map[string]string{}, open: map[net.Conn]bool{}}
	var err error
	for range 20 { // one port for both
		if s.tcp, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		if s.udp, err = net.ListenPacket("udp", s.tcp.Addr().String()); err == nil {
			break
		}
		s.tcp.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.wg.Go(s.serveUDP)
	s.wg.Go(s.serveTCP)
	t.Cleanup(s.stop)
	return s
}

func (s *nameServer) stop() {
	s.mu.Lock()
	s.down = true
	for c := range s.open {
		c.Close()
	}
	s.mu.Unlock()
	s.udp.Close()
	s.tcp.Close()
	s.wg.Wait()
}

// resolver asks s, and gives up on it soon.
func (s *nameServer) resolver() *Resolver {
	r := NewResolver(&net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, s.tcp.Addr().String())
		if err != nil || !s.track(c) {
			return nil, net.ErrClosed
		}
		if uc, ok := c.(*net.UDPConn); ok {
			return hastyConn{uc}, nil
		}
		return c, nil
	}})
	s.t.Cleanup(r.Close)
	r.Configure(ResolverOptions{Refresh: time.Nanosecond, StaleMax: time.Hour})
	return r
}

// hastyConn waits 100 ms for an answer where a resolver waits for seconds.
type hastyConn struct{ *net.UDPConn }

func (c hastyConn) SetDeadline(t time.Time) error {
	if soon := time.Now().Add(100 * time.Millisecond); soon.Before(t) {
		t = soon
	}
	return c.UDPConn.SetDeadline(t)
}

func (s *nameServer) track(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		c.Close()
		return false
	}
	s.open[c] = true
	return true
}

func (s *nameServer) set(name, answer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zone[name] = answer
}

func (s *nameServer) serveUDP() {
	b := make([]byte, 4096)
	for {
		n, from, err := s.udp.ReadFrom(b)
		if err != nil {
			return
		}
		if m := s.message(b[:n], "udp"); m != nil {
			s.udp.WriteTo(m, from)
		}
	}
}

func (s *nameServer) serveTCP() {
	for {
		c, err := s.tcp.Accept()
		if err != nil {
			return
		}
		if !s.track(c) {
			return
		}
		s.wg.Go(func() {
			defer c.Close()
			var size [2]byte
			if _, err := io.ReadFull(c, size[:]); err != nil {
				return
			}
			b := make([]byte, binary.BigEndian.Uint16(size[:]))
			if _, err := io.ReadFull(c, b); err != nil {
				return
			}
			if m := s.message(b, "tcp"); m != nil {
				c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(m))), m...))
			}
		})
	}
}

// message is the answer to a question: that of the zone is a list of addresses, or
//
//	servfail, refused, silent, garbage, short
//	loop             an alias of itself
//	half ADDRESSES   of the family of the first; the other question fails
//	torn, torn6      nothing to one question, a failure to the other: A, AAAA
//	many             4,000 addresses, over TCP
func (s *nameServer) message(query []byte, network string) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil {
		s.t.Errorf("question: %v", err)
		return nil
	}
	q, err := p.Question()
	if err != nil {
		s.t.Errorf("question: %v", err)
		return nil
	}
	s.mu.Lock()
	answer, known := s.zone[strings.TrimSuffix(q.Name.String(), ".")]
	s.mu.Unlock()
	head := dnsmessage.Header{ID: h.ID, Response: true, RecursionAvailable: true}
	half, addrs, v6 := false, answer, q.Type == dnsmessage.TypeAAAA
	if addrs, half = strings.CutPrefix(answer, "half "); half && strings.Contains(addrs, ":") != v6 {
		answer = "servfail"
	}
	if answer == "torn" && v6 || answer == "torn6" && !v6 {
		answer, addrs = "", ""
	} else if strings.HasPrefix(answer, "torn") {
		answer = "refused"
	}
	switch {
	case answer == "silent":
		return nil
	case answer == "servfail":
		head.RCode = dnsmessage.RCodeServerFailure
	case answer == "refused":
		head.RCode = dnsmessage.RCodeRefused
	case !known:
		head.RCode = dnsmessage.RCodeNameError
	case answer == "many" && network == "udp":
		head.Truncated = true
	}
	b := dnsmessage.NewBuilder(nil, head)
	b.EnableCompression()
	b.StartQuestions()
	b.Question(q)
	b.StartAnswers()
	rh := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: 60}
	switch answer {
	case "servfail", "refused", "garbage", "short":
	case "loop":
		b.CNAMEResource(rh, dnsmessage.CNAMEResource{CNAME: q.Name})
	case "many":
		for i := range 4000 {
			if network == "tcp" && !v6 {
				b.AResource(rh, dnsmessage.AResource{A: [4]byte{192, 0, byte(i >> 8), byte(i)}})
			}
		}
	default:
		for a := range strings.FieldsSeq(addrs) {
			switch a := netip.MustParseAddr(a); {
			case a.Is4() && !v6:
				b.AResource(rh, dnsmessage.AResource{A: a.As4()})
			case a.Is6() && v6:
				b.AAAAResource(rh, dnsmessage.AAAAResource{AAAA: a.As16()})
			}
		}
	}
	m, err := b.Finish()
	if err != nil {
		s.t.Errorf("answer: %v", err)
	}
	switch answer {
	case "garbage": // an answer is announced and is none
		m[7] = 1
		m = append(m, 0xc0, 0xff, 0xff, 0xff)
	case "short":
		m = m[:10]
	}
	return m
}

// R-DNS-1, R-DNS-2: answers change, fail, vanish and come back; a dial follows.
func TestDialsFollowTheName(t *testing.T) {
	ns := newNameServer(t)
	one := newUpstream(t, answer(ok))
	_, port, _ := net.SplitHostPort(one.addr)
	l, err := net.Listen("tcp", "127.0.0.2:"+port)
	if err != nil {
		t.Skip("no second address for the port: ", err)
	}
	two := serveOn(t, l, answer(ok))
	tg := target("app.test:" + port)
	tg.KeepAlive = 0
	r := ns.resolver()
	c := (&Dialer{Resolver: r}).H1(tg, nil)
	goes := func(to *upstream) func() bool {
		return func() bool {
			n := to.conns.Load()
			reply, err := c.Do(bg, get("/"))
			if err != nil {
				return false
			}
			body(t, reply, err)
			return to.conns.Load() > n
		}
	}
	failures := func() bool {
		_, err := c.Do(bg, get("/"))
		if err == nil {
			return false
		}
		e, ok := errors.AsType[*DialError](err)
		if !ok || e.Failure().Status != 502 || e.Failure().Reason != "upstream_transport" {
			t.Fatalf("%v, want 502 upstream_transport", err)
		}
		return true
	}
	if !failures() {
		t.Error("there is no such name yet")
	}
	ns.set("app.test", "127.0.0.1")
	eventually(t, "first address", goes(one))
	ns.set("app.test", "127.0.0.2")
	eventually(t, "the name moves", goes(two))
	for _, bad := range []string{"servfail", "refused", "garbage", "0.0.0.0", "half ::", "torn", "torn6", "short", "silent"} {
		ns.set("app.test", bad)
		before := r.Stats()
		eventually(t, bad+": two lookups fail", func() bool {
			if !goes(two)() {
				t.Fatalf("%s: the last answer does not serve", bad)
			}
			return r.Stats().Failure >= before.Failure+2
		})
		if r.Stats().NotFound != before.NotFound {
			t.Errorf("%s is taken for the end of the name", bad)
		}
	}
	if r.Stats().StaleAnswers == 0 {
		t.Error("no stale answer is counted")
	}
	ns.set("app.test", "127.0.0.1")
	eventually(t, "name servers are back", goes(one))
	ns.set("app.test", "loop") // there is the name, and no address
	eventually(t, "the last answer is dropped", failures)
	ns.set("app.test", "half 127.0.0.2") // the other family fails
	eventually(t, "half an answer", goes(two))
}

// R-DNS-3: all addresses of a name are one peer: what refuses is passed over.
func TestSeveralAddressesAreOnePeer(t *testing.T) {
	ns := newNameServer(t)
	u := newUpstream(t, answer(ok))
	_, port, _ := net.SplitHostPort(u.addr)
	ns.set("app.test", "127.0.0.9 127.0.0.1 127.0.0.8 ::1")
	tg := target("app.test:" + port)
	tg.KeepAlive = 0
	c := (&Dialer{Resolver: ns.resolver()}).H1(tg, nil)
	for range 8 { // wherever the dial begins
		reply, err := c.Do(bg, get("/"))
		if got := body(t, reply, err); got != "ok" {
			t.Errorf("%q", got)
		}
	}
	ns.set("none.test", "127.0.0.9 127.0.0.8")
	tg.Address = "none.test:" + port
	_, err := (&Dialer{Resolver: ns.resolver()}).H1(tg, nil).Do(bg, get("/"))
	e, is := errors.AsType[*DialError](err)
	if !is || e.Timeout || !strings.HasPrefix(err.Error(), "dial none.test:"+port+": 127.0.0.") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("%v", err)
	}
}

// However much a name server says, a bounded number of addresses is kept.
func TestHugeAnswersAreBounded(t *testing.T) {
	ns := newNameServer(t)
	ns.set("app.test", "many")
	addrs, err := ns.resolver().Resolve(t.Context(), "app.test")
	if err != nil || len(addrs) != maxAddresses {
		t.Errorf("%d addresses, %v", len(addrs), err)
	}
}

// R-DNS-3, R-TMO-1: a name server that stays silent costs initTimeout: 504; it costs
// others nothing. That it stays silent for as long as it is asked is 502.
func TestSilentNameServer(t *testing.T) {
	ns := newNameServer(t)
	ns.set("silent.test", "silent")
	u := newUpstream(t, answer(ok))
	_, port, _ := net.SplitHostPort(u.addr)
	ns.set("app.test", "127.0.0.1")
	d := &Dialer{Resolver: ns.resolver()}
	do := func(address string, within time.Duration) error {
		tg := target(address)
		tg.InitTimeout = within
		c := d.H1(tg, nil)
		defer c.Retire()
		reply, err := c.Do(bg, get("/"))
		if err == nil {
			body(t, reply, err)
		}
		return err
	}
	f := func(err error, status int, reason string) {
		t.Helper()
		e, ok := errors.AsType[*DialError](err)
		if !ok {
			t.Fatal(err)
		}
		if got := e.Failure(); got.Status != status || got.Reason != reason {
			t.Errorf("%v: %d %s", err, got.Status, got.Reason)
		}
	}
	f(do("silent.test:"+port, 10*time.Millisecond), 504, "connect_timeout")
	if err := do("app.test:"+port, patience); err != nil {
		t.Errorf("another name: %v", err)
	}
	f(do("silent.test:"+port, patience), 502, "upstream_transport")
}

// Literal addresses and Unix sockets never meet the resolver; neither does a dial
// without one.
func TestLiteralsBypassTheResolver(t *testing.T) {
	r := newResolver(func(context.Context, string) ([]netip.Addr, error) {
		t.Error("a lookup")
		return nil, errServFail
	})
	defer r.Close()
	u := newUpstream(t, answer(ok))
	path := t.TempDir() + "/s"
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, l, answer(ok))
	_, port, _ := net.SplitHostPort(u.addr)
	f := func(d *Dialer, network, address string) {
		t.Helper()
		tg := target(address)
		tg.Network = network
		c := d.H1(tg, nil)
		defer c.Retire()
		reply, err := c.Do(bg, get("/"))
		if got := body(t, reply, err); got != "ok" {
			t.Errorf("%q", got)
		}
	}
	with := &Dialer{Resolver: r}
	f(with, "tcp", u.addr)
	f(with, "tcp", "[::ffff:127.0.0.1]:"+port)
	f(with, "unix", path)
	f(nil, "tcp", u.addr)
	if s := r.Stats(); s.Names != 0 {
		t.Errorf("%+v", s)
	}
	if n := testing.AllocsPerRun(100, func() { netip.ParseAddrPort("192.0.2.1:8080") }); n != 0 {
		t.Errorf("%v allocations to see that an address is one", n)
	}
}

// A Unix socket whose backlog is full is waited for, within the time of the dial
// (R-FCGI-9).
func TestFullUnixBacklog(t *testing.T) {
	path := t.TempDir() + "/s"
	fd, err := unixListen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var d Dialer
	ctx, cancel := context.WithTimeout(bg, 50*time.Millisecond)
	defer cancel()
	var held []net.Conn
	for {
		var nc net.Conn
		if nc, err = d.Dial(ctx, "unix", path); err != nil {
			break
		}
		held = append(held, nc)
	}
	if e := NewDialError(ctx, path, err); !e.Timeout || len(held) == 0 {
		t.Errorf("%v after %d connections", err, len(held))
	}
	dialled := make(chan error, 1)
	go func() {
		nc, err := d.Dial(bg, "unix", path)
		if err == nil {
			nc.Close()
		}
		dialled <- err
	}()
	for range held { // makes room
		if nfd, _, err := unix.Accept(fd); err == nil {
			unix.Close(nfd)
		}
	}
	if err := <-dialled; err != nil {
		t.Error(err)
	}
	for _, nc := range held {
		nc.Close()
	}
}

func unixListen(path string) (fd int, err error) {
	if fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return 0, err
	}
	if err = unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err == nil {
		err = unix.Listen(fd, 1)
	}
	return fd, err
}
