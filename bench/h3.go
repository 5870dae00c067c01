package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// h3load loads r over HTTP/3 by a client of this program: no load generator of Debian's
// speaks QUIC.
func (b *bench) h3load(ctx context.Context, c cores, e entry, r *running) (sample, error) {
	return b.perUnit(r, 1e6, func() (result, error) {
		return b.own(ctx, c, "h3", r.https, e.path, "16", "16", strconv.Itoa(b.seconds))
	})
}

// requests gets path for some seconds over n connections of HTTP/3, on each of which so
// many streams are under way.
func requests(address, path string, n, streams, seconds int) error {
	conns := make([]*http3.ClientConn, n)
	for i := range conns {
		// The server is ours.
		qc, err := quic.DialAddr(context.Background(), address, &tls.Config{InsecureSkipVerify: true, ServerName: host, NextProtos: []string{http3.NextProtoH3}}, nil)
		if err != nil {
			return err
		}
		defer qc.CloseWithError(0, "")
		conns[i] = (&http3.Transport{DisableCompression: true}).NewClientConn(qc)
	}
	began := time.Now()
	until := began.Add(time.Duration(seconds) * time.Second)
	ctx, cancel := context.WithDeadline(context.Background(), until.Add(10*time.Second))
	defer cancel()
	errs, took := make([]error, n*streams), make([][]float64, n*streams)
	var wait sync.WaitGroup
	for i := range errs {
		wait.Go(func() {
			for at := time.Now(); at.Before(until) && errs[i] == nil; {
				errs[i] = kibibyte(ctx, conns[i%n], "https://"+host+path)
				now := time.Now()
				took[i] = append(took[i], now.Sub(at).Seconds()*1e3)
				at = now
			}
		})
	}
	wait.Wait()
	r := result{Seconds: time.Since(began).Seconds()}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	every := slices.Concat(took...)
	slices.Sort(every)
	r.Work = int64(len(every))
	r.P99 = every[len(every)*99/100]
	return r.print()
}

// kibibyte makes one request, whose answer has to be the payload.
func kibibyte(ctx context.Context, c *http3.ClientConn, url string) error {
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return err
	}
	resp, err := c.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || !bytes.Equal(body, payload)) {
		err = fmt.Errorf("unexpected answer %s of %d bytes", resp.Status, len(body))
	}
	return err
}
