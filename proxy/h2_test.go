package proxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"

	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
	"httpjet/extproc"
	"httpjet/groups"
)

// h2upstream serves HTTP/2, and HTTP/1 too if both, in clear text.
func h2upstream(t *testing.T, both bool, h http.HandlerFunc) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h, Protocols: new(http.Protocols)}
	s.Protocols.SetUnencryptedHTTP2(true)
	s.Protocols.SetHTTP1(both)
	var done sync.WaitGroup
	done.Go(func() { s.Serve(l) })
	t.Cleanup(func() {
		s.Close()
		done.Wait()
	})
	return l.Addr().String()
}

// h2group has an h2 peer at each address.
func h2group(t *testing.T, o groups.Options, b groups.Breaker, addrs ...string) *Handler {
	for _, a := range addrs {
		c := extproc.NewH2(extproc.Target{Kind: extproc.KindProxy, Scheme: extproc.H2, Network: "tcp", Address: a,
			InitTimeout: patience, KeepAlive: time.Minute, HeadTimeout: patience, BodyTimeout: patience}, nil)
		t.Cleanup(c.Retire)
		o.Peers = append(o.Peers, groups.Peer{ID: a, Client: c})
	}
	o.State = groups.NewState(len(addrs), nil, b)
	return &Handler{Group: groups.New(o)}
}

// G09, G11, R-UP-1: an h2 upstream behind every front end: fields once, bodies
// byte for byte.
func TestG11H2OnEveryFront(t *testing.T) {
	addr := h2upstream(t, false, func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Origin", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
			if n := len(r.Header[name]); n != 1 {
				t.Errorf("%d lines of %s", n, name)
			}
		}
		if r.RequestURI != "/a%2Fb" {
			t.Errorf("target %s", r.RequestURI)
		}
		b, _ := io.ReadAll(r.Body)
		w.Write(b)
	})
	exchangetest.Run(t, func(t *testing.T, start func(exchange.Handler) *exchangetest.Server) {
		s := start(h2group(t, groups.Options{}, groups.Breaker{}, addr))
		for _, n := range []int{0, 1, 4096, 16385, 65537, 1 << 20} {
			data := bytes.Repeat([]byte("0123456789abcdef"), n/16+1)[:n]
			for _, body := range []io.Reader{bytes.NewReader(data), struct{ io.Reader }{bytes.NewReader(data)}} {
				r := do(t, s, "POST", "/a%2Fb", body)
				if got, err := io.ReadAll(r.Body); err != nil || r.StatusCode != 200 || !bytes.Equal(got, data) {
					t.Fatalf("%d bytes: status %d, %d came back, %v; %v", n, r.StatusCode, len(got), err, s.Site.Errs())
				}
			}
		}
	})
}

// G13 over HTTP/2: the next peer gets the whole body.
func TestG13H2NextPeerHasTheBody(t *testing.T) {
	for _, n := range []int{2, 5 << 20} {
		addr := h2upstream(t, false, func(w http.ResponseWriter, r *http.Request) {
			m, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, m, err)
		})
		h := h2group(t, groups.Options{}, groups.Breaker{}, refused(t), refused(t), addr)
		w, _, err := serve(h, int64(n), bytes.NewReader(make([]byte, n)), "POST /ping")
		if want := fmt.Sprint(n, nil) + "END"; err != nil || w.out.String() != want {
			t.Fatalf("%v, %q", err, w.out.String())
		}
		idle(t, h)
	}
}

// G14: an h1 and an h2 group at one address, by turns.
func TestG14ProtocolsAreApart(t *testing.T) {
	addr := h2upstream(t, true, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) })
	h1, h2 := groupOf(t, groups.Options{}, groups.Breaker{}, addr), h2group(t, groups.Options{}, groups.Breaker{}, addr)
	for range 50 {
		if w, _, err := serve(h1, 0, nil, "GET /h1"); err != nil || w.out.String() != "HTTP/1.1END" {
			t.Fatalf("%v, %q", err, w.out.String())
		}
		if w, _, err := serve(h2, 0, nil, "GET /h2"); err != nil || w.out.String() != "HTTP/2.0END" {
			t.Fatalf("%v, %q", err, w.out.String())
		}
	}
}

// G16: an answer during the upload reaches the client, from an h2 upstream too.
func TestG16H2OnEveryFront(t *testing.T) {
	addr := h2upstream(t, false, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			w.WriteHeader(413)
			io.WriteString(w, "big")
			return
		}
		io.WriteString(w, "next")
	})
	exchangetest.Run(t, func(t *testing.T, start func(exchange.Handler) *exchangetest.Server) {
		s := start(h2group(t, groups.Options{}, groups.Breaker{}, addr))
		pr, pw := io.Pipe()
		defer pw.Close()
		go pw.Write(make([]byte, 10))
		r := do(t, s, "POST", "/up", pr)
		if b, err := io.ReadAll(r.Body); r.StatusCode != 413 || string(b) != "big" {
			t.Errorf("%d %q, %v", r.StatusCode, b, err)
		}
		r = do(t, s, "GET", "/next", nil)
		if b, err := io.ReadAll(r.Body); string(b) != "next" {
			t.Errorf("next: %q, %v", b, err)
		}
	})
}

// G17: over the limit the answer is 413, and the peer had no complete body; within
// it the declared length is the client's.
func TestG17H2DeclaredLength(t *testing.T) {
	whole := make(chan int64, 4)
	addr := h2upstream(t, false, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err == nil {
			whole <- n
			fmt.Fprint(w, r.ContentLength)
		}
	})
	exchangetest.Run(t, func(t *testing.T, start func(exchange.Handler) *exchangetest.Server) {
		h := h2group(t, groups.Options{}, groups.Breaker{}, addr)
		s := start(exchange.HandlerFunc(func(x *exchange.Exchange) error {
			if err := x.LimitBody(64301); err != nil {
				return err
			}
			return h.Serve(x)
		}))
		r := do(t, s, "POST", "/", bytes.NewReader(make([]byte, 64301)))
		if b, _ := io.ReadAll(r.Body); string(b) != "64301" || <-whole != 64301 {
			t.Errorf("%q", b)
		}
		for _, body := range []io.Reader{bytes.NewReader(make([]byte, 64302)), struct{ io.Reader }{bytes.NewReader(make([]byte, 64302))}} {
			if r := do(t, s, "POST", "/", body); r.StatusCode != 413 || len(whole) > 0 {
				t.Errorf("status %d, %d complete bodies", r.StatusCode, len(whole))
			}
		}
	})
}

// G23: clients that leave open no breaker.
func TestG23H2ClientAbort(t *testing.T) {
	asked := make(chan struct{})
	addr := h2upstream(t, false, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			asked <- struct{}{}
			<-r.Context().Done()
		}
	})
	b := groups.Breaker{Threshold: 3, Open: time.Hour, HalfOpen: 1}
	b.FailOn.Transport, b.FailOn.Timeout = true, true
	h := h2group(t, groups.Options{RetryTimeout: time.Hour}, b, addr)
	exchangetest.Run(t, func(t *testing.T, start func(exchange.Handler) *exchangetest.Server) {
		s := start(h)
		for range 5 {
			ctx, leave := context.WithCancel(t.Context())
			req, _ := http.NewRequestWithContext(ctx, "GET", s.URL+"/slow", nil)
			var left sync.WaitGroup
			left.Go(func() {
				if r, err := s.Client.Do(req); err == nil {
					r.Body.Close()
				}
			})
			<-asked
			leave()
			left.Wait()
		}
		if r := do(t, s, "GET", "/", nil); r.StatusCode != 200 {
			t.Errorf("status %d", r.StatusCode)
		}
		if p := h.Group.Snapshot()[0]; p.Dial != "closed" || p.Response != "closed" {
			t.Errorf("%+v", p)
		}
	})
}

// G69, G70, R-UP-6: trailers that nobody announced reach the client, and a TE of
// trailers reaches the upstream.
func TestG69G70TrailersOnEveryFront(t *testing.T) {
	addr := h2upstream(t, false, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if te := r.Header.Get("Te"); te != "trailers" {
			t.Errorf("te %q", te)
		}
		w.Header().Set("Trailer", "X-Announced")
		fmt.Fprintf(w, "%s %s", b, r.Trailer.Get("X-Up"))
		w.Header().Set("X-Announced", "1")
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
		w.Header().Set(http.TrailerPrefix+"Set-Cookie", "no=1")
	})
	exchangetest.Run(t, func(t *testing.T, start func(exchange.Handler) *exchangetest.Server) {
		s := start(h2group(t, groups.Options{}, groups.Breaker{}, addr))
		req, err := http.NewRequest("POST", s.URL, struct{ io.Reader }{strings.NewReader("body")})
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("TE", "trailers")
		req.Trailer = http.Header{"X-Up": {"2"}}
		r, err := s.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if b, err := io.ReadAll(r.Body); string(b) != "body 2" {
			t.Errorf("%q, %v", b, err)
		}
		if got := fmt.Sprint(r.Trailer); got != "map[Grpc-Status:[0] X-Announced:[1]]" {
			t.Errorf("%s; %v", got, s.Site.Errs())
		}
	})
}

// R-UP-5: an answer of trailers only ends the stream with its head.
func TestTrailersOnlyOverH2(t *testing.T) {
	addr := h2upstream(t, false, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", "12")
	})
	s := exchangetest.Start(t, &exchangetest.Site{Handler: h2group(t, groups.Options{}, groups.Breaker{}, addr)}, true)
	r := do(t, s, "POST", "/s/m", struct{ io.Reader }{strings.NewReader("\x00\x00\x00\x00\x00")})
	b, err := io.ReadAll(r.Body)
	// The client knows a length of 0 without being told only from the end of the stream.
	if r.Header.Get("Grpc-Status") != "12" || r.ContentLength != 0 || len(b) != 0 || err != nil {
		t.Errorf("%v length %d %q %v", r.Header, r.ContentLength, b, err)
	}
}

// R-UP-5, R-STREAM-3: messages in both directions, none waits for the next.
func TestDuplexOverH2(t *testing.T) {
	addr := h2upstream(t, false, func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		rc.Flush()
		b := make([]byte, 100)
		for {
			n, err := r.Body.Read(b)
			w.Write(bytes.ToUpper(b[:n]))
			rc.Flush()
			if err != nil {
				break
			}
		}
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	})
	s := exchangetest.Start(t, &exchangetest.Site{Handler: h2group(t, groups.Options{}, groups.Breaker{}, addr)}, true)
	pr, pw := io.Pipe()
	r := do(t, s, "POST", "/s/m", pr) // the head comes before a byte of the body
	for i := range 20 {
		text := fmt.Sprintf("message %d", i)
		if _, err := io.WriteString(pw, text); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(text))
		if _, err := io.ReadFull(r.Body, got); err != nil || string(got) != strings.ToUpper(text) {
			t.Fatalf("%q, %v; %v", got, err, s.Site.Errs())
		}
	}
	pw.Close()
	if b, err := io.ReadAll(r.Body); len(b) != 0 || err != nil || r.Trailer.Get("Grpc-Status") != "0" {
		t.Errorf("%q, %v, %v", b, err, r.Trailer)
	}
}

// G71: hints of an h2 upstream on every front, without the fields of the hop and
// before the answer exists.
func TestG71H2OnEveryFront(t *testing.T) {
	final := make(chan struct{})
	addr := h2upstream(t, false, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a.css>")
		w.Header().Set("Proxy-Authenticate", "x")
		w.Header().Set("X-LiteSpeed-Cache-Control", "public")
		w.WriteHeader(103)
		<-final
		io.WriteString(w, "answer")
	})
	exchangetest.Run(t, func(t *testing.T, start func(exchange.Handler) *exchangetest.Server) {
		s := start(h2group(t, groups.Options{}, groups.Breaker{}, addr))
		hints := 0
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(status int, h textproto.MIMEHeader) error {
			hints++
			if status != 103 || h.Get("Link") != "</a.css>" || h.Get("Proxy-Authenticate") != "" || h.Get("X-LiteSpeed-Cache-Control") != "" {
				return fmt.Errorf("%d %v", status, h)
			}
			final <- struct{}{}
			return nil
		}})
		req, _ := http.NewRequestWithContext(ctx, "GET", s.URL, nil)
		r, err := s.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		if b, err := io.ReadAll(r.Body); string(b) != "answer" || r.StatusCode != 200 || hints != 1 {
			t.Errorf("%d %q, %v, %d hints", r.StatusCode, b, err, hints)
		}
	})
}

// A reset of the upstream cuts the client's answer (R-STREAM-4), and one before the
// head is 502.
func TestH2ResetsOnEveryFront(t *testing.T) {
	addr := h2upstream(t, false, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			io.WriteString(w, "begin")
			http.NewResponseController(w).Flush()
		}
		panic(http.ErrAbortHandler)
	})
	exchangetest.Run(t, func(t *testing.T, start func(exchange.Handler) *exchangetest.Server) {
		h := h2group(t, groups.Options{}, groups.Breaker{}, addr)
		s := start(h)
		if r := do(t, s, "GET", "/head", nil); r.StatusCode != 502 || r.Header.Get("X-Httpjet-Proxy-Error") != "upstream_transport" {
			t.Errorf("%d %v", r.StatusCode, r.Header)
		}
		if b, _, err := s.Cut("/body"); err == nil {
			t.Errorf("%q ended well", b)
		}
		if p := h.Group.Snapshot()[0]; p.Failures[groups.Reset] != 1 {
			t.Errorf("%+v", p)
		}
	})
}
