package contexts

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"httpjet/access"
	"httpjet/exchange"
)

// slowWire is a client with a body, whose patience may end.
type slowWire struct {
	exchange.Wire
	ctx  context.Context
	body *strings.Reader
	sent int
}

func (w *slowWire) Context() context.Context                  { return w.ctx }
func (w *slowWire) Read(p []byte) (int, error)                { return w.body.Read(p[:min(len(p), 1000)]) }
func (w *slowWire) Head(*exchange.Response, bool, bool) error { return nil }
func (w *slowWire) Flush() error                              { return nil }
func (w *slowWire) End(*exchange.Fields) error                { return nil }
func (w *slowWire) Abort(error)                               {}
func (w *slowWire) Write(p []byte) (int, error)               { w.sent += len(p); return len(p), nil }

// asking is a request to a table that throttles.
func asking(w *slowWire, client string) *exchange.Exchange {
	x := &exchange.Exchange{}
	x.Reset(w)
	x.Req.Method, x.Req.Path, x.Req.Client, x.Req.Length = "POST", "/x.txt", netip.MustParseAddr(client), int64(w.body.Len())
	return x
}

func throttled(l access.ClientLimits) (*Table, *VHost) {
	trust, _ := access.Compile("192.0.2.99T", "")
	v := &VHost{Scripts: map[string]*Script{"php": {}}}
	v.SetContexts(nil)
	return &Table{Access: trust, Throttle: &Throttle{Clients: &access.Clients{}, Limits: l}}, v
}

// LSX 2.6: requests wait for their second, those of files and of applications by
// themselves; trusted clients and this machine do not, and who leaves waits no longer.
func TestThrottleRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, v := throttled(access.ClientLimits{Static: 2, Dynamic: 1})
		ctx, leave := context.WithCancel(t.Context())
		run := func(client, path string, kind exchange.Kind) (time.Duration, error) {
			x := asking(&slowWire{ctx: ctx, body: strings.NewReader("")}, client)
			x.Req.Path = path
			began := time.Now()
			err := table.throttle(x, v, &route{kind: kind})
			return time.Since(began), err
		}
		for i, want := range []time.Duration{0, 0, 1, 0, 1} { // each begins when the one before has ended
			if got, err := run("192.0.2.1", "/x.txt", exchange.Files); got != want*time.Second || err != nil {
				t.Errorf("file %d: %v %v", i, got, err)
			}
		}
		for i, path := range []string{"/x.php", "/y"} {
			if got, err := run("192.0.2.1", path, exchange.Kind(int(exchange.Proxy)*i+int(exchange.Files)*(1-i))); got != time.Duration(i)*time.Second || err != nil {
				t.Errorf("%s: %v %v", path, got, err)
			}
		}
		for range 100 {
			for _, client := range []string{"192.0.2.99", "127.0.0.1", "::1"} {
				if got, err := run(client, "/y", exchange.Proxy); got != 0 || err != nil {
					t.Fatalf("%s: %v %v", client, got, err)
				}
			}
		}
		errs := make(chan error, 30)
		for range 30 {
			go func() {
				_, err := run("192.0.2.1", "/y", exchange.Proxy)
				errs <- err
			}()
		}
		synctest.Wait()
		limited := 0
		for range len(errs) {
			if e, ok := errors.AsType[*exchange.Error](<-errs); ok && e.Status == 429 && e.Reason == "rate_limited" && e.Fields[0].Name == "Retry-After" {
				limited++
			}
		}
		if limited < 15 {
			t.Errorf("%d are turned away", limited)
		}
		leave()
		for range 30 - limited {
			if err := <-errs; !errors.Is(err, exchange.ErrClientGone) {
				t.Error(err)
			}
		}
	})
}

// LSX 2.6: bodies of both directions move at their rate, whole.
func TestThrottleBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, v := throttled(access.ClientLimits{Out: 4 << 10, In: 1 << 10})
		w := &slowWire{ctx: t.Context(), body: strings.NewReader(strings.Repeat("x", 10<<10))}
		x := asking(w, "192.0.2.1")
		began := time.Now()
		err := exchange.Run(x, exchange.HandlerFunc(func(x *exchange.Exchange) error {
			if err := table.throttle(x, v, &route{kind: exchange.Proxy}); err != nil {
				return err
			}
			if n, err := io.Copy(io.Discard, x.Body()); n != 10<<10 || err != nil {
				t.Errorf("read %d, %v", n, err)
			}
			if d := time.Since(began); d < 8*time.Second || d > 10*time.Second {
				t.Errorf("the request took %v", d)
			}
			began = time.Now()
			_, err := x.Write(make([]byte, 40<<10))
			return err
		}))
		if d := time.Since(began); err != nil || w.sent != 40<<10 || d < 8*time.Second || d > 10*time.Second {
			t.Errorf("sent %d in %v, %v", w.sent, d, err)
		}
	})
}
