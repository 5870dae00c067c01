package trace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// collector posts spans by OTLP over HTTP in protobuf. It is the client of
// OpenTelemetry's exporter, whose own would link gRPC for one message: a request is
// what TracesData is on the wire.
type collector struct {
	url  string
	http http.Client
	own  *http.Transport
}

const maxAnswer = 64 << 10 // bytes that are read of a collector's answer

func newCollector(url string) *collector {
	own := &http.Transport{DialContext: (&net.Dialer{Timeout: patience}).DialContext, MaxConnsPerHost: 1, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: patience,
		ResponseHeaderTimeout: patience, MaxResponseHeaderBytes: maxAnswer}
	return &collector{url: url, own: own, http: http.Client{Transport: own, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// Start implements the exporter's Client.
func (c *collector) Start(context.Context) error { return nil }

// Stop implements the exporter's Client.
func (c *collector) Stop(context.Context) error { return nil }

func (c *collector) close() { c.own.CloseIdleConnections() }

// refused is an answer that does not take the spans.
type refused struct {
	status int
	after  time.Duration // Retry-After
	lost   uint64        // of a partial success: spans that are lost
	why    string
}

func (r *refused) Error() string {
	if r.status == 200 {
		return fmt.Sprintf("the collector rejects %d spans: %s", r.lost, r.why)
	}
	return fmt.Sprintf("the collector answers %d", r.status)
}

// UploadTraces implements the exporter's Client. Its error is a *refused or that of the
// connection.
func (c *collector) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("User-Agent", "httpjet")
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return &refused{status: resp.StatusCode, after: time.Duration(max(0, min(seconds, 3600))) * time.Second}
	case err != nil:
		return nil // it has them; what it wanted to say is of no concern
	}
	if n, why := partial(answer); n > 0 {
		return &refused{status: 200, lost: n, why: why}
	}
	return nil
}

// partial reads how many spans an answer rejects: ExportTraceServiceResponse has
// partial_success as field 1, with rejected_spans as 1 and error_message as 2.
func partial(answer []byte) (n uint64, why string) {
	fields(answer, func(number protowire.Number, _ uint64, value []byte) {
		if number == 1 {
			fields(value, func(number protowire.Number, v uint64, value []byte) {
				switch number {
				case 1:
					n = v
				case 2:
					why = text(string(value))
				}
			})
		}
	})
	return n, why
}

// fields calls f with each field of a message: a number or bytes. It stops at what is
// none.
func fields(b []byte, f func(number protowire.Number, v uint64, value []byte)) {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return
		}
		b = b[n:]
		var v uint64
		var value []byte
		switch kind {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			value, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return
		}
		f(number, v, value)
		b = b[n:]
	}
}

// again reports whether a batch may be sent once more: the collector says so, or was
// not reached (OTLP: Retryable Response Codes).
func again(err error) bool {
	r, ok := errors.AsType[*refused](err)
	if !ok {
		return true
	}
	switch r.status {
	case 429, 502, 503, 504:
		return true
	}
	return false
}

// rejected returns how many spans of a batch were rejected, and whether the others
// were taken.
func rejected(err error) (n uint64, partly bool) {
	if r, ok := errors.AsType[*refused](err); ok && r.status == 200 {
		return r.lost, true
	}
	return 0, false
}

// pauseOf is the pause before the next request for a batch.
func pauseOf(err error, try int) time.Duration {
	if r, ok := errors.AsType[*refused](err); ok && r.after > 0 {
		return min(r.after, maxPause)
	}
	return min(time.Second<<try, maxPause)
}
