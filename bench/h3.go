package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strconv"
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
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(seconds)*time.Second+10*time.Second)
	defer cancel()
	return busy(n*streams, seconds, func(i int) error { return kibibyte(ctx, conns[i%n], "https://"+host+path) })
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
