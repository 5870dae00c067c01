package trace

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// Bounds of an Exporter.
const (
	maxQueued = 2048             // exchanges whose spans wait
	maxBatch  = 256              // exchanges in one request to the collector
	interval  = time.Second      // from the first one that waits to its request
	patience  = 10 * time.Second // for the collector's answer
	tries     = 3                // requests for one batch
	maxPause  = 5 * time.Second  // between them
	lastWait  = 3 * time.Second  // for all that is left at the end
)

// ExporterOptions is the whole identity of an Exporter.
type ExporterOptions struct {
	Endpoint string // URL to which OTLP is posted; "": spans become lines of the log
	Version  string // of this build
	Query    bool   // spans have the query of the request
}

// Counts are what became of spans, of all exporters of the process.
type Counts struct{ Exported, Dropped, Failures atomic.Uint64 }

// Exporter sends spans to a collector, many together, from a goroutine of its own.
// Nobody waits for it: what finds its queue full is dropped and counted. Start and
// Retire belong to the owner.
type Exporter struct {
	opt    ExporterOptions
	counts *Counts
	queue  chan *Record
	quit   chan struct{}
	done   chan struct{} // nil before Start
	ctx    context.Context
	cut    context.CancelFunc // of ctx: requests to the collector end

	mu      sync.Mutex
	retired bool
}

// NewExporter starts nothing.
func NewExporter(o ExporterOptions, counts *Counts) *Exporter {
	e := &Exporter{opt: o, counts: counts, queue: make(chan *Record, maxQueued), quit: make(chan struct{})}
	e.ctx, e.cut = context.WithCancel(context.Background())
	return e
}

// Start begins to send; further calls do nothing. log is told of a collector that
// cannot be reached, once until it can be.
func (e *Exporter) Start(log *slog.Logger) {
	if e.done != nil {
		return
	}
	e.done = make(chan struct{})
	go e.run(log)
}

// Offer hands a record over. It never waits.
func (e *Exporter) Offer(r *Record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.retired {
		select {
		case e.queue <- r:
			return
		default:
		}
	}
	e.drop(r)
}

func (e *Exporter) drop(records ...*Record) {
	n := 0
	for _, r := range records {
		n += 1 + len(r.Attempts)
	}
	e.counts.Dropped.Add(uint64(n))
}

// Retire sends what is left, as far as the collector takes it soon, and joins run.
func (e *Exporter) Retire() {
	e.mu.Lock()
	e.retired = true
	e.mu.Unlock()
	defer e.cut()
	if e.done == nil {
		for len(e.queue) > 0 {
			e.drop(<-e.queue)
		}
		return
	}
	close(e.quit)
	timer := time.NewTimer(lastWait)
	defer timer.Stop()
	select {
	case <-e.done:
	case <-timer.C:
		e.cut()
		<-e.done
	}
}

// sender is the state of run.
type sender struct {
	*Exporter
	spans *spans
	out   sdk.SpanExporter
	log   *slog.Logger
	down  bool // the collector was told to be
}

// run is the goroutine that sends.
func (e *Exporter) run(log *slog.Logger) {
	defer close(e.done)
	s := &sender{Exporter: e, spans: newSpans(e.opt), log: log}
	if e.opt.Endpoint == "" {
		s.out = lines{log}
	} else {
		c := newCollector(e.opt.Endpoint)
		defer c.close()
		s.out = otlptrace.NewUnstarted(c)
	}
	for {
		batch, more := e.gather()
		if !more {
			s.flush(batch)
			return
		}
		s.send(batch)
	}
}

// gather waits for a batch. At the end it returns what it has, and false.
func (e *Exporter) gather() (batch []*Record, more bool) {
	select {
	case r := <-e.queue:
		batch = append(batch, r)
	case <-e.quit:
		return nil, false
	}
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for len(batch) < maxBatch {
		select {
		case r := <-e.queue:
			batch = append(batch, r)
		case <-timer.C:
			return batch, true
		case <-e.quit:
			return batch, false
		}
	}
	return batch, true
}

// flush sends batch and the queue, to which nobody adds any more.
func (s *sender) flush(batch []*Record) {
	for {
		for len(batch) < maxBatch && len(s.queue) > 0 {
			batch = append(batch, <-s.queue)
		}
		if len(batch) == 0 {
			return
		}
		s.end(batch, s.out.ExportSpans(s.ctx, s.spans.take(batch)))
		batch = nil
	}
}

// send sends a batch, again if the collector asks for it or cannot be reached.
func (s *sender) send(batch []*Record) {
	made := s.spans.take(batch)
	var err error
	for try := range tries {
		if err = s.out.ExportSpans(s.ctx, made); err == nil || !again(err) || try == tries-1 {
			break
		}
		s.tell(err)
		if !s.pause(pauseOf(err, try)) {
			break
		}
	}
	s.end(batch, err)
}

// pause waits between two requests and reports whether there is another one: not at
// the end.
func (s *sender) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.quit:
	}
	return false
}

// end counts what became of a batch.
func (s *sender) end(batch []*Record, err error) {
	lost, partly := rejected(err)
	if err != nil && !partly {
		s.drop(batch...)
		s.tell(err)
		return
	}
	n := uint64(0)
	for _, r := range batch {
		n += uint64(1 + len(r.Attempts))
	}
	lost = min(lost, n)
	s.counts.Exported.Add(n - lost)
	s.counts.Dropped.Add(lost)
	if s.down && !partly {
		s.down = false
		s.log.Info("spans go out again", "endpoint", s.opt.Endpoint)
	}
	if partly {
		s.tell(err)
	}
}

// tell logs a failure, once until something goes out, and counts it.
func (s *sender) tell(err error) {
	s.counts.Failures.Add(1)
	if !s.down {
		s.down = true
		s.log.Warn("spans cannot be exported; they are dropped until they can be", "endpoint", s.opt.Endpoint, "err", err)
	}
}

// lines writes spans as lines of the log.
type lines struct{ log *slog.Logger }

// ExportSpans implements the SDK's SpanExporter.
func (l lines) ExportSpans(_ context.Context, spans []sdk.ReadOnlySpan) error {
	for _, s := range spans {
		c := s.SpanContext()
		args := []any{"name", s.Name(), "kind", s.SpanKind().String(), "trace", c.TraceID().String(), "span", c.SpanID().String()}
		if p := s.Parent(); p.SpanID().IsValid() {
			args = append(args, "parent", p.SpanID().String())
		}
		args = append(args, "took", s.EndTime().Sub(s.StartTime()).String())
		for _, a := range s.Attributes() {
			args = append(args, string(a.Key), a.Value.String())
		}
		l.log.Info("span", args...)
	}
	return nil
}

// Shutdown has nothing to do.
func (l lines) Shutdown(context.Context) error { return nil }
