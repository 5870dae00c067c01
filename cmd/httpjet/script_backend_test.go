package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/fcgi"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gorilla/websocket"
	"github.com/rogpeppe/go-internal/testscript"
)

// backend is a server behind httpjet, in the test's process.
type backend struct {
	name    string
	ln      net.Listener
	running sync.WaitGroup

	released chan struct{} // closed by release
	quit     chan struct{} // closed by stop
	once     sync.Once

	mu        sync.Mutex
	behaviour string
	requests  []string
	open      map[net.Conn]bool
}

// backend http|h2|ws|fcgi|lsapi|raw NAME [behaviour]: starts a server and sets NAME to
// its address, NAME_PORT to its port; the one of fcgi and lsapi is a Unix socket. It records requests. http@BASE and
// h2@BASE serve over TLS, with the certificate of keypair BASE; they tell which
// client certificate they were shown, which may be that of another keypair.
//
// Without a behaviour http, h2, fcgi and lsapi answer with what they were asked and ws sends
// messages back. http and h2 know:
//
//	hold      waits for release before the head
//	stream    sends a line, waits for release, sends another line
//	cut       promises 100 bytes, sends 10 and closes
//	status N  answers with that status and a body
//	reset     closes without an answer
//	trailers  sends a hint before and trailers behind the body
//
// fcgi also answers with the fields NAME:VALUE of parameters say of the query.
//
// lsapi knows:
//
//	garbage   answers with bytes that are no packet
//	cut       ends within the body
//
// raw FILE sends the file, with CRLF line ends, to who has sent a request head.
func cmdBackend(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 2, 4, "backend http[@BASE]|h2[@BASE]|ws|fcgi|lsapi|raw NAME [behaviour]")
	kind, name := args[0], args[1]
	kind, pair, secure := strings.Cut(kind, "@")
	b := &backend{name: name, behaviour: strings.Join(args[2:], " "), released: make(chan struct{}),
		quit: make(chan struct{}), open: map[net.Conn]bool{}}
	network, address := "tcp", "127.0.0.1:0"
	if kind == "fcgi" || kind == "lsapi" {
		network, address = "unix", filepath.Join(of(ts).work, name+".sock")
	}
	ln, err := net.Listen(network, address)
	ts.Check(err)
	b.ln = &tracked{ln, b}
	of(ts).backends[name] = b
	of(ts).set(ts, name, ln.Addr().String())
	if a, ok := ln.Addr().(*net.TCPAddr); ok {
		of(ts).set(ts, name+"_PORT", strconv.Itoa(a.Port))
	}
	switch kind {
	case "http", "h2":
		srv := &http.Server{Handler: http.HandlerFunc(b.serveHTTP), Protocols: new(http.Protocols), TLSConfig: &tls.Config{ClientAuth: tls.RequestClientCert}}
		srv.Protocols.SetHTTP1(kind == "http")
		srv.Protocols.SetHTTP2(kind == "h2")
		srv.Protocols.SetUnencryptedHTTP2(kind == "h2")
		if secure {
			cert, key := ts.MkAbs(pair+".crt"), ts.MkAbs(pair+".key")
			b.running.Go(func() { srv.ServeTLS(b.ln, cert, key) })
		} else {
			b.running.Go(func() { srv.Serve(b.ln) })
		}
	case "ws":
		b.running.Go(func() { http.Serve(b.ln, http.HandlerFunc(b.serveWS)) })
	case "fcgi":
		b.running.Go(func() { fcgi.Serve(b.ln, http.HandlerFunc(b.serveFCGI)) })
	case "lsapi":
		b.running.Go(b.serveLSAPI)
	case "raw":
		text := strings.ReplaceAll(ts.ReadFile(args[2]), "\n", "\r\n")
		b.running.Go(func() { b.serveRaw(text) })
	default:
		ts.Fatalf("backend %s is unknown", kind)
	}
}

// tracked remembers connections, because not every server here closes its own.
type tracked struct {
	net.Listener
	b *backend
}

func (l *tracked) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	select {
	case <-l.b.quit:
		c.Close()
	default:
		l.b.open[c] = true
	}
	return c, nil
}

func (b *backend) stop() {
	b.once.Do(func() {
		b.ln.Close()
		b.mu.Lock()
		close(b.quit)
		open := slices.Collect(maps.Keys(b.open))
		b.mu.Unlock()
		for _, c := range open {
			c.Close()
		}
	})
	b.running.Wait()
}

func (b *backend) record(request string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests = append(b.requests, request)
}

func (b *backend) wait() {
	select {
	case <-b.released:
	case <-b.quit:
	}
}

// describe is a request as text: line, fields in order of name, body.
func describe(r *http.Request) string {
	body, err := io.ReadAll(r.Body)
	var s strings.Builder
	fmt.Fprintf(&s, "%s %s %s\nHost: %s\n", r.Method, r.RequestURI, r.Proto, r.Host)
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		for _, v := range r.Header[name] {
			fmt.Fprintf(&s, "%s: %s\n", name, v)
		}
	}
	fmt.Fprintf(&s, "\n%s", body)
	if err != nil {
		fmt.Fprintf(&s, "\nbody broken: %v", err)
	}
	return s.String()
}

func (b *backend) serveHTTP(w http.ResponseWriter, r *http.Request) {
	text := describe(r)
	b.record(text)
	rc := http.NewResponseController(w)
	w.Header().Set("Content-Type", "text/plain")
	b.mu.Lock()
	behaviour := b.behaviour
	b.mu.Unlock()
	switch what, arg, _ := strings.Cut(behaviour, " "); what {
	case "hold":
		b.wait()
	case "stream":
		io.WriteString(w, "first part\n")
		rc.Flush()
		b.wait()
		io.WriteString(w, "last part\n")
		return
	case "cut":
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, "0123456789")
		rc.Flush()
		panic(http.ErrAbortHandler)
	case "reset":
		panic(http.ErrAbortHandler)
	case "status":
		n, _ := strconv.Atoi(arg)
		w.WriteHeader(n)
	case "trailers":
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Set("Trailer", "X-Sum")
		defer w.Header().Set("X-Sum", "9")
		defer w.Header().Set(http.TrailerPrefix+"X-Late", "1")
	}
	for _, field := range r.URL.Query()["say"] {
		name, value, _ := strings.Cut(field, ":")
		w.Header().Add(name, value)
	}
	fmt.Fprintf(w, "from %s\n%s", b.name, text)
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		fmt.Fprintf(w, "certificate of %s\n", r.TLS.PeerCertificates[0].Subject.CommonName)
	}
}

func (b *backend) serveWS(w http.ResponseWriter, r *http.Request) {
	b.record(fmt.Sprintf("%s %s Host: %s Origin: %s", r.Method, r.RequestURI, r.Host, r.Header.Get("Origin")))
	c, err := (&websocket.Upgrader{Subprotocols: []string{"chat"}}).Upgrade(w, r, nil)
	if err != nil {
		return // Upgrade has answered
	}
	defer c.Close()
	for {
		kind, text, err := c.ReadMessage()
		if err != nil || c.WriteMessage(kind, append([]byte("from "+b.name+": "), text...)) != nil {
			return
		}
	}
}

func (b *backend) serveFCGI(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	vars := fcgi.ProcessEnv(r)
	text := fmt.Sprintf("%s %s\nSCRIPT_FILENAME=%s\nPATH_TRANSLATED=%s\nCONTENT_LENGTH=%d\n\n%s", r.Method, r.URL.RequestURI(),
		vars["SCRIPT_FILENAME"], vars["PATH_TRANSLATED"], r.ContentLength, body)
	b.record(text)
	w.Header().Set("Content-Type", "text/plain")
	for _, field := range r.URL.Query()["say"] {
		name, value, _ := strings.Cut(field, ":")
		w.Header().Add(name, value)
	}
	fmt.Fprintf(w, "from %s\n%s", b.name, text)
}

func (b *backend) serveRaw(reply string) {
	for {
		c, err := b.ln.Accept()
		if err != nil {
			return
		}
		b.running.Go(func() {
			defer c.Close()
			in, head := bufio.NewReader(c), ""
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				head += line
				if line == "\r\n" {
					b.record(strings.ReplaceAll(head, "\r\n", "\n"))
					io.WriteString(c, reply)
					head = ""
				}
			}
		})
	}
}

func (s *session) backend(ts *testscript.TestScript, name string) *backend {
	b := s.backends[name]
	if b == nil {
		ts.Fatalf("there is no backend %s", name)
	}
	return b
}

// kill-backend NAME: stops it; its address refuses connections from now on.
func cmdKill(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 1, 1, "kill-backend NAME")
	of(ts).backend(ts, args[0]).stop()
}

// release NAME: lets the held answers of a backend go on, now and later.
func cmdRelease(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 1, 1, "release NAME")
	close(of(ts).backend(ts, args[0]).released)
}

// behave NAME [behaviour]: a backend http answers in another way from now on.
func cmdBehave(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 1, 3, "behave NAME [behaviour]")
	b := of(ts).backend(ts, args[0])
	b.mu.Lock()
	defer b.mu.Unlock()
	b.behaviour = strings.Join(args[1:], " ")
}

// await NAME [N]: waits until the backend has had N requests, 1 if not given.
func cmdAwait(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 1, 2, "await NAME [N]")
	b, n := of(ts).backend(ts, args[0]), 1
	if len(args) == 2 {
		n, _ = strconv.Atoi(args[1])
	}
	got := 0
	ok := eventually(func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		got = len(b.requests)
		return got >= n
	})
	if !ok {
		ts.Fatalf("backend %s had %d requests, want %d", args[0], got, n)
	}
}

// requests NAME: prints how many requests the backend has had, and the requests.
func cmdRequests(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 1, 1, "requests NAME")
	b := of(ts).backend(ts, args[0])
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Fprintf(ts.Stdout(), "%d requests\n", len(b.requests))
	for _, r := range b.requests {
		fmt.Fprintf(ts.Stdout(), "%s\n", r)
	}
}

// application is a program that the server starts: it answers with its STAGE by
// FastCGI at descriptor 0. With FAULT it says so and ends.
func application() {
	if fault := os.Getenv("FAULT"); fault != "" {
		fmt.Fprintln(os.Stderr, fault)
		os.Exit(3)
	}
	fcgi.Serve(nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "stage %s\n", os.Getenv("STAGE"))
	}))
}
