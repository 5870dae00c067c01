package front_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
)

// dial connects to an own HTTP/1 front end.
func dial(t *testing.T, s *exchangetest.Server) net.Conn {
	t.Helper()
	var c net.Conn
	var err error
	if strings.HasPrefix(s.URL, "https") {
		c, err = tls.Dial("tcp", s.Addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	} else {
		c, err = net.Dial("tcp", s.Addr)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

// talk sends bytes and returns all that comes until the server closes.
func talk(t *testing.T, s *exchangetest.Server, send string) string {
	t.Helper()
	c := dial(t, s)
	if _, err := io.WriteString(c, send); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("after %q: %v", b, err)
	}
	return string(b)
}

// statuses returns the statuses of all heads in a reply.
func statuses(reply string) string {
	var out []string
	for _, part := range strings.Split(reply, "HTTP/1.1 ")[1:] {
		out = append(out, part[:3])
	}
	return strings.Join(out, " ")
}

// echo answers with the method, target and body.
var echo = handle(func(x *exchange.Exchange) error {
	b, err := io.ReadAll(x.Body())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(x, "[%s %s %s]", x.Req.Method, x.Req.Target, b)
	return err
})

// TestFault10 is fault 10 of the observed server: ambiguous messages are refused
// and the connection is closed, unambiguous pipelined ones are all answered.
func TestFault10(t *testing.T) {
	s := exchangetest.Start(t, &exchangetest.Site{Handler: echo}, false)
	refused := func(name, want, send string) {
		t.Helper()
		got := talk(t, s, send+"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n")
		if statuses(got) != want || strings.Contains(got, "smuggled") || !strings.Contains(got, "\r\nConnection: close\r\n") {
			t.Errorf("%s: %s, want %s and a close:\n%s", name, statuses(got), want, got)
		}
	}
	refused("CL and TE", "400", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
	refused("double TE", "400", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
	refused("duplicate Host", "400", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
	refused("missing Host", "400", "GET / HTTP/1.1\r\n\r\n")
	refused("bare LF", "400", "GET / HTTP/1.1\nHost: a\n\n")
	refused("several blanks", "400", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n")
	refused("NUL", "400", "GET / HTTP/1.1\r\nHost: a\r\nX: \x00\r\n\r\n")
	refused("G03 bare LF in a chunk", "400", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n")
	refused("long head", "431", "GET / HTTP/1.1\r\nHost: a\r\nX: "+strings.Repeat("a", 17000)+"\r\n\r\n")
	refused("long target", "414", "GET /"+strings.Repeat("a", 8192)+" HTTP/1.1\r\nHost: a\r\n\r\n")
	refused("HTTP/3.0", "505", "GET / HTTP/3.0\r\nHost: a\r\n\r\n")

	got := talk(t, s, "POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"+
		"GET /2 HTTP/1.1\r\nHost: a\r\n\r\nPOST /3 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\ncd"+
		"GET /4 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if statuses(got) != "200 200 200 200" || order(got, "[POST /1 ab]", "[GET /2 ]", "[POST /3 cd]", "[GET /4 ]") != nil {
		t.Errorf("pipelined requests:\n%s", got)
	}
	if strings.Count(got, "\r\nConnection: keep-alive\r\n") != 3 || strings.Count(got, "\r\nConnection: close\r\n") != 1 { // R-LSN-8
		t.Errorf("Connection is not stated:\n%s", got)
	}
}

// order returns an error unless all parts occur in that order.
func order(s string, parts ...string) error {
	for _, p := range parts {
		i := strings.Index(s, p)
		if i < 0 {
			return fmt.Errorf("no %q", p)
		}
		s = s[i+len(p):]
	}
	return nil
}

// TestFault10ContinueComesWithTheFirstRead covers R-PIPE-6: a request that is
// refused gets no 100, so that its body is never sent.
func TestFault10ContinueComesWithTheFirstRead(t *testing.T) {
	s := exchangetest.Start(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		switch x.Req.Path {
		case "/401":
			return exchange.Fail(401, "access_denied", "no")
		case "/404":
			return exchange.Fail(404, "not_found", "no")
		case "/413":
			return x.LimitBody(1)
		case "/100":
			if err := x.Inform(100, nil); err != nil { // by hand: not sent twice
				return err
			}
		}
		return echo.Serve(x)
	})}, false)
	head := func(path string) string {
		return "POST " + path + " HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
	}
	for _, want := range []string{"401", "404", "413"} {
		// The client waits: without a 100 and a body the answer is all there is.
		got := talk(t, s, head("/"+want))
		if statuses(got) != want || !strings.Contains(got, "\r\nConnection: close\r\n") {
			t.Errorf("/%s:\n%s", want, got)
		}
	}
	for _, path := range []string{"/", "/100"} {
		c := dial(t, s)
		r := bufio.NewReader(c)
		io.WriteString(c, head(path))
		if line, err := r.ReadString('\n'); line != "HTTP/1.1 100 Continue\r\n" {
			t.Fatalf("%s: first line %q, %v", path, line, err)
		}
		io.WriteString(c, "hello"+"GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		rest, err := io.ReadAll(r)
		if statuses(string(rest)) != "200 200" || order(string(rest), "[POST "+path+" hello]", "[GET /next ]") != nil {
			t.Errorf("%s: %v\n%s", path, err, rest)
		}
	}
	// A client that does not wait has sent its body already.
	got := talk(t, s, head("/")+"hello"+"GET /next HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if statuses(got) != "100 200 200" {
		t.Errorf("impatient client:\n%s", got)
	}
}

func TestHTTP10(t *testing.T) {
	s := exchangetest.Start(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		if err := x.Inform(103, nil); err != nil { // dropped
			return err
		}
		if x.Req.Path == "/fixed" {
			x.Resp.Length = 2
		}
		_, err := x.Write([]byte("ok"))
		return err
	})}, false)
	f := func(send, connection string) {
		t.Helper()
		got := talk(t, s, send)
		if statuses(got) != "200" || strings.Contains(got, "chunked") || !strings.HasSuffix(got, "\r\n\r\nok") ||
			!strings.Contains(got, "\r\nConnection: "+connection+"\r\n") {
			t.Errorf("%q:\n%s", send, got)
		}
	}
	f("GET / HTTP/1.0\r\n\r\n", "close")
	f("GET /fixed HTTP/1.0\r\n\r\n", "close")
	f("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "close") // its end is the end of the body
	got := talk(t, s, "GET /fixed HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /fixed HTTP/1.0\r\n\r\n")
	if statuses(got) != "200 200" || order(got, "Connection: keep-alive", "Connection: close") != nil {
		t.Errorf("kept:\n%s", got)
	}
}

// TestUnreadBody: a small body that nobody read is skipped, with a large one the
// connection ends, and the client still sees the answer.
func TestUnreadBody(t *testing.T) {
	s := exchangetest.Start(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		return exchange.Fail(403, "access_denied", "no")
	})}, false)
	post := func(n int) string {
		return fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", n, strings.Repeat("x", n))
	}
	last := "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
	if got := talk(t, s, post(1000)+last); statuses(got) != "403 403" {
		t.Errorf("small body:\n%s", got)
	}
	if got := talk(t, s, post(256<<10)+last); statuses(got) != "403 403" {
		t.Errorf("body of 256 KiB:\n%s", got)
	}
	if got := talk(t, s, post(256<<10+1)+last); statuses(got) != "403" || !strings.Contains(got, "Connection: close") {
		t.Errorf("large body:\n%s", got)
	}
	chunks := "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("400\r\n"+strings.Repeat("x", 1024)+"\r\n", 300)
	if got := talk(t, s, chunks+"0\r\n\r\n"+last); statuses(got) != "403" {
		t.Errorf("large chunked body:\n%s", got)
	}
}

func TestMaxKeepAliveRequests(t *testing.T) {
	site := &exchangetest.Site{Handler: echo}
	site.Lim.MaxKeepAliveReq = 2
	s := exchangetest.Start(t, site, false)
	req := "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	if got := talk(t, s, req+req+req); statuses(got) != "200 200" || order(got, "keep-alive", "close") != nil {
		t.Errorf("replies:\n%s", got)
	}
}

// TestG33EarlyClientBytes: what the client sent behind an upgrade request is
// delivered, and half-close works, with and without TLS.
func TestG33EarlyClientBytes(t *testing.T) {
	for _, secure := range []bool{false, true} {
		s := exchangetest.Start(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
			x.Resp.Fields.Add("Upgrade", "echo")
			d, err := x.Upgrade()
			if err != nil {
				return err
			}
			defer d.Close()
			b, err := io.ReadAll(d) // to the client's half-close
			if err != nil {
				return err
			}
			if _, err := d.Write(b); err != nil {
				return err
			}
			x.CountUpgraded(int64(len(b)))
			return d.CloseWrite()
		})}, secure)
		c := dial(t, s)
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nearly")
		r := bufio.NewReader(c)
		resp, err := http.ReadResponse(r, nil)
		if err != nil || resp.StatusCode != 101 || resp.Header.Get("Upgrade") != "echo" || resp.Header.Get("Connection") != "Upgrade" {
			t.Fatalf("secure %v: %v, %v", secure, resp, err)
		}
		io.WriteString(c, " and late")
		if n := s.Front.Snapshot(); n.Tunnels != 1 || n.InFlight != 0 {
			t.Errorf("secure %v: %d tunnels, %d exchanges", secure, n.Tunnels, n.InFlight)
		}
		c.(interface{ CloseWrite() error }).CloseWrite()
		if b, err := io.ReadAll(r); string(b) != "early and late" || err != nil {
			t.Errorf("secure %v: echo %q, %v", secure, b, err)
		}
		waitFor(t, func() bool { return s.Front.Snapshot().InFlight == 0 && s.Front.Snapshot().Tunnels == 0 })
	}
}

func TestHTTP1OverTLS(t *testing.T) {
	s := exchangetest.Start(t, &exchangetest.Site{Handler: echo}, true)
	got := talk(t, s, "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	if statuses(got) != "200 200" || order(got, "[GET /1 ]", "[GET /2 ]") != nil {
		t.Errorf("over TLS:\n%s", got)
	}
	// Plain HTTP on the secure port is told so.
	c, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if b, _ := io.ReadAll(c); statuses(string(b)) != "400" {
		t.Errorf("plain on TLS: %q", b)
	}
	if n := s.Front.Snapshot().TLSErrors; n != 1 {
		t.Errorf("%d TLS errors", n)
	}
}

// TestH2CPriorKnowledge covers R-H2-1: the loop recognises the preface where the
// site allows it, and refuses it where not.
// A client that speaks plain HTTP to a TLS port is told so, whole, however much
// of its request was not read.
func TestPlainRequestToTLSPort(t *testing.T) {
	s := exchangetest.Start(t, &exchangetest.Site{Handler: echo}, true)
	c, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"+strings.Repeat("x", 1000000))
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if resp.StatusCode != 400 || !strings.HasSuffix(string(body), "use https://\n") || err != nil {
		t.Errorf("%d %q, %v", resp.StatusCode, body, err)
	}
	if rest, err := io.ReadAll(r); len(rest) > 0 || err != nil {
		t.Errorf("%q behind the answer, %v", rest, err)
	}
}

func TestH2CPriorKnowledge(t *testing.T) {
	for _, enabled := range []bool{true, false} {
		site := &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
			_, err := io.WriteString(x, x.Req.Proto+" "+x.Req.Scheme)
			return err
		})}
		site.Lim.EnableH2C = enabled
		s := exchangetest.Start(t, site, false)
		tr := &http.Transport{Protocols: new(http.Protocols)}
		tr.Protocols.SetUnencryptedHTTP2(true)
		resp, err := (&http.Client{Transport: tr}).Get(s.URL + "/")
		if !enabled {
			if err == nil {
				resp.Body.Close()
				t.Error("h2c served though it is off")
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if body := readAll(t, resp); body != "HTTP/2.0 http" {
			t.Errorf("body %q", body)
		}
		resp.Body.Close()
		tr.CloseIdleConnections()
		waitFor(t, func() bool { return s.Front.Snapshot().Active == 0 })
	}
}

// TestFault3OnHTTP10: where the close is the end of the body, a truncated one
// ends with a reset.
func TestFault3OnHTTP10(t *testing.T) {
	s := exchangetest.Start(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		io.WriteString(x, "half")
		x.Flush()
		if x.Req.Path == "/whole" {
			return nil
		}
		return exchange.Fail(502, "upstream_transport", "upstream closed")
	})}, false)
	if got := talk(t, s, "GET /whole HTTP/1.0\r\n\r\n"); !strings.HasSuffix(got, "\r\n\r\nhalf") {
		t.Errorf("whole:\n%s", got)
	}
	c := dial(t, s)
	io.WriteString(c, "GET / HTTP/1.0\r\n\r\n")
	if b, err := io.ReadAll(c); err == nil {
		t.Errorf("the truncated response looks complete:\n%s", b)
	}
}

// TestWatchOfTheClient: the context of an exchange ends with the client, plain
// and over TLS; a pipelined request does not end it.
func TestWatchOfTheClient(t *testing.T) {
	for _, secure := range []bool{false, true} {
		in, ended := make(chan struct{}), make(chan struct{})
		pipelined := make(chan struct{})
		s := exchangetest.Start(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
			switch x.Req.Path {
			case "/early":
				done := x.Context().Done()
				in <- struct{}{}
				<-pipelined
				select {
				case <-done:
					return errors.New("the context is done, the client is not")
				default:
				}
			case "/slow":
				done := x.Context().Done()
				in <- struct{}{}
				<-done
				close(ended)
			}
			_, err := io.WriteString(x, x.Req.Path)
			return err
		})}, secure)
		c := dial(t, s)
		io.WriteString(c, "GET /early HTTP/1.1\r\nHost: a\r\n\r\n")
		<-in
		io.WriteString(c, "GET /next HTTP/1.1\r\nHost: a\r\n\r\n")
		close(pipelined)
		r := bufio.NewReader(c)
		for _, want := range []string{"/early", "/next"} {
			resp, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatalf("secure %v: %s: %v", secure, want, err)
			}
			if b, err := io.ReadAll(resp.Body); string(b) != want || err != nil {
				t.Errorf("secure %v: %q, %v, want %s", secure, b, err, want)
			}
		}
		io.WriteString(c, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
		<-in
		c.Close()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatalf("secure %v: the context of a gone client is not done", secure)
		}
	}
}

// TestGoneClientIsNoticed: neither a read deadline that has passed, nor a stopped
// body, nor a request that waits behind this one hides the end of the client
// (R-STREAM-5).
func TestGoneClientIsNoticed(t *testing.T) {
	const get = " HTTP/1.1\r\nHost: a\r\n\r\n"
	f := func(send string, reset, secure bool) {
		in, ended := make(chan struct{}, 2), make(chan struct{}, 2)
		site := &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
			switch x.Req.Path {
			case "/stopped":
				x.StopBody()
			case "/late": // the deadline of the head passes
				advance(1100 * time.Millisecond)
			}
			done := x.Context().Done()
			in <- struct{}{}
			<-done
			ended <- struct{}{}
			return exchange.ErrClientGone
		})}
		if !secure {
			site.Lim.ConnTimeout = time.Millisecond // enough for a head, not for a handshake
		}
		s := exchangetest.Start(t, site, secure)
		c := dial(t, s)
		if _, err := io.WriteString(c, send); err != nil {
			t.Fatal(err)
		}
		<-in
		if tc, ok := c.(*net.TCPConn); ok && reset {
			tc.SetLinger(0)
		}
		c.Close()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatalf("%.20q, secure %v, reset %v: the context of a gone client is not done", send, secure, reset)
		}
		waitFor(t, func() bool { return s.Front.Snapshot().Active == 0 })
		if n := len(site.Errs()); n != 1 {
			t.Errorf("%.20q, secure %v, reset %v: %d requests served, the last ones for nobody", send, secure, reset, n)
		}
	}
	f("GET /late"+get, false, false)
	for _, secure := range []bool{false, true} {
		f("GET /stopped"+get, false, secure)
		f("GET /first"+get+"GET /next"+get, false, secure)
		f("GET /first"+get+"GET /next"+get, true, secure)
	}
}

// TestUpgradeNeedsTheBodyRead: the body of an upgrade request never becomes the
// first bytes of the tunnel.
func TestUpgradeNeedsTheBodyRead(t *testing.T) {
	s := exchangetest.Start(t, &exchangetest.Site{Handler: handle(func(x *exchange.Exchange) error {
		d, err := x.Upgrade()
		if err != nil {
			return err
		}
		io.WriteString(d, "tunnel")
		return d.Close()
	})}, false)
	got := talk(t, s, "POST / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\nContent-Length: 4\r\n\r\nbody")
	if got != "" || len(s.Site.Errs()) != 1 || s.Site.Errs()[0] == nil {
		t.Errorf("reply %q, errors %v", got, s.Site.Errs())
	}
}
