package trace

import (
	"context"
	"net"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"

	"httpjet/exchange"
)

// spans makes the spans of records by OpenTelemetry's SDK. It belongs to the goroutine
// of its exporter, so that no request pays for it; ids are those that the request had.
type spans struct {
	query    bool
	tracer   oteltrace.Tracer
	provider *sdk.TracerProvider
	ids      ids
	made     []sdk.ReadOnlySpan
}

func newSpans(o ExporterOptions) *spans {
	s := &spans{query: o.Query}
	s.provider = sdk.NewTracerProvider(sdk.WithSampler(sdk.AlwaysSample()), sdk.WithIDGenerator(&s.ids), sdk.WithSpanProcessor(s),
		sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", "httpjet"), attribute.String("service.version", o.Version))))
	s.tracer = s.provider.Tracer("httpjet")
	return s
}

// ids gives the SDK the ids that it is to use next.
type ids struct {
	trace oteltrace.TraceID
	span  oteltrace.SpanID
}

// NewIDs implements the SDK's IDGenerator.
func (i *ids) NewIDs(context.Context) (oteltrace.TraceID, oteltrace.SpanID) { return i.trace, i.span }

// NewSpanID implements the SDK's IDGenerator.
func (i *ids) NewSpanID(context.Context, oteltrace.TraceID) oteltrace.SpanID { return i.span }

// OnStart, OnEnd, Shutdown and ForceFlush implement the SDK's SpanProcessor.
func (s *spans) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd takes a span that is complete.
func (s *spans) OnEnd(span sdk.ReadOnlySpan) { s.made = append(s.made, span) }

// Shutdown has nothing to do.
func (s *spans) Shutdown(context.Context) error { return nil }

// ForceFlush has nothing to do.
func (s *spans) ForceFlush(context.Context) error { return nil }

// take returns the spans of records: for each that of the server, and one of a client
// for each attempt.
func (s *spans) take(records []*Record) []sdk.ReadOnlySpan {
	s.made = nil
	for _, r := range records {
		s.make(r)
	}
	return s.made
}

func (s *spans) make(r *Record) {
	ctx := context.Background()
	s.ids = ids{r.Trace.ID, r.Trace.Span}
	if r.Trace.Parent != [8]byte{} {
		ctx = oteltrace.ContextWithRemoteSpanContext(ctx, oteltrace.NewSpanContext(oteltrace.SpanContextConfig{
			TraceID: r.Trace.ID, SpanID: r.Trace.Parent, TraceFlags: oteltrace.FlagsSampled, Remote: true}))
	}
	name := method(r.Method)
	if r.Route != "" {
		name += " " + text(r.Route)
	}
	ctx, span := s.tracer.Start(ctx, name, oteltrace.WithTimestamp(r.Began), oteltrace.WithSpanKind(oteltrace.SpanKindServer),
		oteltrace.WithAttributes(s.server(r)...))
	for i := range r.Attempts {
		s.attempt(ctx, r, i)
	}
	for _, m := range r.Moments {
		var about []attribute.KeyValue
		if m.Text != "" {
			about = append(about, attribute.String("httpjet.detail", text(m.Text)))
		}
		span.AddEvent(m.What, oteltrace.WithTimestamp(m.At), oteltrace.WithAttributes(about...))
	}
	if r.Status >= 500 || r.Reason != "" && r.Status < 400 { // the latter was cut
		span.SetStatus(codes.Error, r.Reason)
	}
	span.End(oteltrace.WithTimestamp(r.Ended))
}

// server are the attributes of a server span, by the semantic conventions of
// OpenTelemetry for HTTP. What they would have of the query is left out unless it was
// asked for; credentials are in none (R-TRACE-5).
func (s *spans) server(r *Record) []attribute.KeyValue {
	host, port := r.Host, ""
	if h, p, err := net.SplitHostPort(r.Host); err == nil {
		host, port = h, p
	}
	out := []attribute.KeyValue{
		attribute.String("http.request.method", method(r.Method)), attribute.String("url.scheme", text(r.Scheme)),
		attribute.String("url.path", text(r.Path)), attribute.String("network.protocol.version", strings.TrimPrefix(text(r.Proto), "HTTP/")),
		attribute.Int("http.response.status_code", r.Status), attribute.Int64("http.response.body.size", r.Written),
		attribute.String("httpjet.request_id", text(r.ID)), attribute.String("httpjet.handler", r.Kind.String()),
	}
	add := func(name, value string) {
		if value != "" {
			out = append(out, attribute.String(name, text(value)))
		}
	}
	if method(r.Method) == "_OTHER" || method(r.Method) == "HTTP" {
		add("http.request.method_original", r.Method)
	}
	add("http.route", r.Route)
	add("server.address", host)
	if n, err := strconv.Atoi(port); err == nil {
		out = append(out, attribute.Int("server.port", n))
	}
	add("client.address", r.Client)
	add("user_agent.original", r.Agent)
	add("httpjet.vhost", r.VHost)
	add("error.type", r.Reason)
	if s.query {
		add("url.query", r.Query)
	}
	return out
}

// attempt makes the span of attempt i. An upstream is told by its scope, group and
// ordinal, never by an address.
func (s *spans) attempt(ctx context.Context, r *Record, i int) {
	a := &r.Attempts[i]
	if s.ids.span = a.Span; a.Span == [8]byte{} { // the upstream does not know of it
		s.ids.span = newSpan()
	}
	scope, group := a.Scope, a.Group
	if group == "" {
		scope, group = r.Scope, r.Group
	}
	out := []attribute.KeyValue{
		attribute.String("http.request.method", method(r.Method)), attribute.String("httpjet.scope", text(scope)),
		attribute.String("httpjet.group", text(group)), attribute.Int("httpjet.peer", a.Peer), attribute.String("httpjet.outcome", outcome(a)),
		attribute.Float64("httpjet.queue_ms", a.Queue.Seconds()*1000), attribute.Float64("httpjet.dial_ms", a.Dial.Seconds()*1000),
		attribute.Float64("httpjet.head_ms", a.Head.Seconds()*1000),
	}
	if a.Status > 0 {
		out = append(out, attribute.Int("http.response.status_code", a.Status))
	}
	if i > 0 {
		out = append(out, attribute.Int("http.request.resend_count", i))
	}
	failed := ""
	switch {
	case outcome(a) != "success":
		failed = outcome(a)
	case a.Status >= 400:
		failed = strconv.Itoa(a.Status)
	}
	if failed != "" {
		out = append(out, attribute.String("error.type", failed))
	}
	_, span := s.tracer.Start(ctx, method(r.Method)+" "+text(group), oteltrace.WithTimestamp(a.Began),
		oteltrace.WithSpanKind(oteltrace.SpanKindClient), oteltrace.WithAttributes(out...))
	if failed != "" {
		span.SetStatus(codes.Error, failed)
	}
	span.End(oteltrace.WithTimestamp(a.Ended))
}

// outcome is the word of R-LOG-2 for an attempt. One that has not ended is a tunnel
// that was opened.
func outcome(a *exchange.Attempt) string {
	switch {
	case a.Outcome != "":
		return a.Outcome
	case a.Status == 101:
		return "success"
	}
	return "no_attempt"
}

// method is a method that the conventions know, so that clients cannot make names of
// spans.
func method(m string) string {
	switch m {
	case "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY":
		return m
	case "":
		return "HTTP" // the head was unreadable
	}
	return "_OTHER"
}

// text is what a client sent as an attribute: UTF-8, as the format demands, and no
// longer than 1 KiB.
func text(s string) string {
	const most = 1 << 10
	if len(s) > most {
		s = s[:most]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
