package generation

import (
	"slices"
	"strconv"

	"httpjet/proxy"
	"httpjet/xmlconf"
)

// retryOf is the retry policy of a context (or nil), else of its processor (R-CTX-8).
func retryOf(p *processor, c *xmlconf.Context) *xmlconf.Retry {
	if c != nil && c.Retry != nil {
		return c.Retry
	}
	return p.decl.Retry
}

// useRetry notes the policy of the route that was noted last.
func (b *builder) useRetry(p *processor, c *xmlconf.Context) {
	if p.up != nil && len(p.up.routes) > 0 {
		p.up.routes[len(p.up.routes)-1].retry = retryOf(p, c)
	}
}

// buildRetry makes a retry policy; nil for none.
func (b *builder) buildRetry(r *xmlconf.Retry) *proxy.Retry {
	if r == nil {
		return nil
	}
	out := &proxy.Retry{Retries: r.Retries, Methods: r.RetryMethods, Backoff: r.BackoffBase, SamePeer: r.RetrySamePeer,
		BufSize: r.RetryBufSize, Bodies: b.kept.Bodies}
	out.On.Connect = slices.Contains(r.RetryOn, "connect-failure")
	out.On.Reset = slices.Contains(r.RetryOn, "reset")
	out.On.Timeout = slices.Contains(r.RetryOn, "timeout")
	for i := range out.On.Statuses {
		out.On.Statuses[i] = slices.Contains(r.RetryOn, "5xx") || slices.Contains(r.RetryOn, strconv.Itoa(500+i))
	}
	return out
}

// buildTimes takes each timeout from the context (or nil) where it is written
// there, else from the processor (R-TMO-4, R-TMO-5).
func buildTimes(out *proxy.Handler, p *processor, c *xmlconf.Context) {
	from := func(option string) *xmlconf.ProxyTimeouts {
		if c != nil && c.Written(option) {
			return &c.ProxyTimeouts
		}
		return &p.decl.ProxyTimeouts
	}
	out.AttemptTimeout = from("attemptTimeout").AttemptTimeout
	out.RequestTimeout = from("requestTimeout").RequestTimeout
	out.IdleTimeout = from("streamIdleTimeout").StreamIdleTimeout
}
