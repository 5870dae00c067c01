package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// managementAnswers is how often a sample asks the management listener.
const managementAnswers = 20

// answered asks the management listener of r for the documents whose paths stand in
// e.path, one after the other, as one reader with a kept connection does, and counts
// them as one answer. P99 is the longest one.
func (b *bench) answered(ctx context.Context, _ cores, e entry, r *running) (sample, error) {
	t := &http.Transport{}
	defer t.CloseIdleConnections()
	client := &http.Client{Transport: t, Timeout: 30 * time.Second}
	return b.perUnit(r, 1e3, func() (result, error) {
		began := time.Now()
		var each []time.Duration
		for range managementAnswers {
			at := time.Now()
			for path := range strings.FieldsSeq(e.path) {
				if err := read(ctx, client, "http://"+r.metrics+path); err != nil {
					return result{}, err
				}
			}
			each = append(each, time.Since(at))
		}
		return positive(result{managementAnswers, time.Since(began).Seconds(), slices.Max(each).Seconds() * 1e3})
	})
}

// read asks for a document and reads it, in gzip if the server has it so, as Prometheus and
// browsers do.
func read(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept-Encoding", "gzip")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || n == 0) {
		err = fmt.Errorf("%s: %s with %d bytes", url, resp.Status, n)
	}
	return err
}
