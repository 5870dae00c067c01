package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// pattern is what long answers repeat; its length divides every length used.
var pattern = bytes.Repeat([]byte("0123456789abcdef"), 4096)

// A backend is an HTTP application in this process, for what has to be measured
// at its side.
type backend struct {
	server http.Server
	addr   string
	sent   atomic.Int64 // bytes of /m/big handed to the socket
}

func startBackend() (*backend, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &backend{addr: l.Addr().String()}
	mux := http.NewServeMux()
	mux.HandleFunc("/m/small", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "small\n") })
	mux.HandleFunc("/m/big", b.big)
	mux.HandleFunc("/m/events", events)
	mux.HandleFunc("/m/echo", echo)
	mux.HandleFunc("/m/late", late)
	mux.HandleFunc("/m/sink", sink)
	b.server.Handler = mux
	go b.server.Serve(l) // ends with Close
	return b, nil
}

func (b *backend) stop() { b.server.Close() }

// vhost is a virtual host with the backend at /m/.
func (b *backend) vhost() string { return proxied("measured", b.addr, "/m/") }

// big sends n bytes of the pattern, their length declared unless chunked=1.
func (b *backend) big(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.ParseInt(r.FormValue("n"), 10, 64)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if r.FormValue("chunked") == "" {
		w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
	}
	for n > 0 {
		c, err := w.Write(pattern[:min(n, int64(len(pattern)))])
		b.sent.Add(int64(c))
		if err != nil {
			return
		}
		n -= int64(c)
	}
}

// events sends n events, each with the time at which it leaves, wait milliseconds
// behind the head.
func events(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(r.FormValue("n"))
	w.Header().Set("Content-Type", "text/event-stream")
	rc := http.NewResponseController(w)
	if wait, _ := strconv.Atoi(r.FormValue("wait")); wait > 0 {
		rc.Flush()
		time.Sleep(time.Duration(wait) * time.Millisecond)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range n {
		fmt.Fprintf(w, "data: %d\n\n", time.Now().UnixNano())
		if rc.Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

// echo takes the whole body before it answers with it.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Write(body)
}

// late takes the whole body, and a moment.
func late(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	time.Sleep(200 * time.Millisecond)
	io.WriteString(w, "late, but there\n")
}

// sink counts the body.
func sink(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		return
	}
	fmt.Fprintf(w, "%d\n", n)
}
