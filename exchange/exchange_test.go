package exchange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"
	"unsafe"
)

// fakeWire records what an exchange does to its wire.
type fakeWire struct {
	in  io.Reader
	out bytes.Buffer
	log []string
}

func (w *fakeWire) Read(p []byte) (int, error) { return w.in.Read(p) }
func (w *fakeWire) Trailers() *Fields          { return nil }
func (w *fakeWire) StopRead()                  { w.log = append(w.log, "stop") }
func (w *fakeWire) Head(r *Response, noBody, last bool) error {
	w.log = append(w.log, fmt.Sprintf("head %d length %d nobody %v last %v", r.Status, r.Length, noBody, last))
	return nil
}
func (w *fakeWire) Write(p []byte) (int, error) { return w.out.Write(p) }
func (w *fakeWire) Flush() error                { w.log = append(w.log, "flush"); return nil }
func (w *fakeWire) End(*Fields) error           { w.log = append(w.log, "end"); return nil }
func (w *fakeWire) Abort(error)                 { w.log = append(w.log, "abort") }
func (w *fakeWire) Context() context.Context    { return context.Background() }

func newExchange(method, body string) (*Exchange, *fakeWire) {
	w := &fakeWire{in: strings.NewReader(body)}
	x := &Exchange{}
	x.Reset(w)
	x.Req.Method, x.Req.Length = method, int64(len(body))
	return x, w
}

func TestRunTurnsErrorsIntoAnswers(t *testing.T) {
	f := func(err error, wantStatus string, wantField, wantValue string) {
		t.Helper()
		x, w := newExchange("GET", "")
		x.Resp.Fields.Set("X-Left-Over", "1")
		if got := Run(x, HandlerFunc(func(*Exchange) error { return err })); !errors.Is(got, err) {
			t.Fatalf("Run returned %v, want %v", got, err)
		}
		if !strings.HasPrefix(w.log[0], "head "+wantStatus+" ") || w.log[len(w.log)-1] != "end" {
			t.Fatalf("%v: %v", err, w.log)
		}
		if x.Resp.Fields.Has("X-Left-Over") {
			t.Errorf("%v: a field of the failed handler was sent", err)
		}
		if got := x.Resp.Fields.Get(wantField); got != wantValue {
			t.Errorf("%v: %s is %q, want %q", err, wantField, got, wantValue)
		}
		if strings.Contains(w.out.String(), "secret") {
			t.Errorf("%v: the cause is shown to the client", err)
		}
	}
	f(Fail(503, "pool_saturated", "secret"), "503", "X-Httpjet-Proxy-Error", "pool_saturated")
	f(Fail(404, "not_found", "secret"), "404", "X-Httpjet-Proxy-Error", "")
	f(errors.New("secret"), "500", "X-Httpjet-Proxy-Error", "")
	f(Redirect(301, "/a/"), "301", "Location", "/a/")
	f(fmt.Errorf("wrapped: %w", &Error{Status: 405, Reason: "method_not_allowed", Fields: []Field{{"Allow", "GET"}}}), "405", "Allow", "GET")
}

// R-PIPE-11: every answer can carry the request id, a refusal too.
func TestEchoID(t *testing.T) {
	for _, err := range []error{nil, Fail(404, "not_found", "x")} {
		x, _ := newExchange("GET", "")
		x.Req.ID, x.EchoID = "0123", true
		Run(x, HandlerFunc(func(*Exchange) error { return err }))
		if got := x.Resp.Fields.Get("X-Request-Id"); got != "0123" {
			t.Errorf("%v: %q", err, got)
		}
	}
}

func TestRunCutsAfterTheHead(t *testing.T) {
	x, w := newExchange("GET", "")
	err := Run(x, HandlerFunc(func(x *Exchange) error {
		io.WriteString(x, "half")
		return Fail(502, "upstream_transport", "reset")
	}))
	if err == nil || w.log[len(w.log)-1] != "abort" || w.out.String() != "half" {
		t.Fatalf("%v %v %q", err, w.log, w.out.String())
	}
}

func TestNoBodyForHead204And304(t *testing.T) {
	f := func(method string, status int, length int64) {
		t.Helper()
		x, w := newExchange(method, "")
		Run(x, HandlerFunc(func(x *Exchange) error {
			x.Resp.Length = 4
			if err := x.Start(status); err != nil {
				return err
			}
			_, err := io.WriteString(x, "body")
			return err
		}))
		want := fmt.Sprintf("head %d length %d nobody true last true", status, length)
		if w.log[0] != want || w.out.Len() != 0 {
			t.Errorf("%s %d: %v %q", method, status, w.log, w.out.String())
		}
	}
	f("HEAD", 200, 4)
	f("GET", 204, -1)
	f("GET", 304, 4)
}

// R-PIPE-4: a body over its cap is 413, declared or not.
func TestLimitBody(t *testing.T) {
	x, _ := newExchange("POST", "12345")
	if err := x.LimitBody(4); StatusOf(err) != 413 {
		t.Errorf("declared: %v", err)
	}
	x, _ = newExchange("POST", "12345")
	x.Req.Length = -1
	if err := x.LimitBody(4); err != nil {
		t.Errorf("undeclared: refused early: %v", err)
	}
	if _, err := io.ReadAll(x.Body()); StatusOf(err) != 413 || ReasonOf(err) != "request_body_too_large" {
		t.Errorf("undeclared: %v", err)
	}
	x, _ = newExchange("POST", "1234")
	if b, err := io.ReadAll(x.Body()); x.LimitBody(4) != nil || err != nil || len(b) != 4 {
		t.Errorf("exact: %q %v", b, err)
	}
}

type upper struct{ head int }

func (u *upper) Head(x *Exchange) bool {
	u.head++
	x.Resp.Fields.Add("X-Seen", fmt.Sprint(u.head))
	return true
}
func (u *upper) Wrap(next Sink) Sink { return upperSink{next} }

type upperSink struct{ Sink }

func (s upperSink) Write(p []byte) (int, error) { return s.Sink.Write(bytes.ToUpper(p)) }

func TestFiltersSeeHeadThenBody(t *testing.T) {
	x, w := newExchange("GET", "")
	x.Use(&upper{})
	Run(x, HandlerFunc(func(x *Exchange) error {
		_, err := io.WriteString(x, "abc")
		return err
	}))
	if w.out.String() != "ABC" || x.Resp.Fields.Get("X-Seen") != "1" || x.Written() != 3 {
		t.Errorf("%q %v %d", w.out.String(), x.Resp.Fields, x.Written())
	}
}

func TestFields(t *testing.T) {
	var f Fields
	f.Add("Connection", "")
	f.Add("connection", "close , X-A,,")
	f.Add("X-A", "1")
	f.Add("x-a", "2")
	if !f.HasToken("CONNECTION", "x-a") || f.HasToken("Connection", "X") {
		t.Error("tokens of all lines are one list")
	}
	f.Set("X-a", "3")
	if got := fmt.Sprint(f.list); got != "[{Connection } {connection close , X-A,,} {X-a 3}]" {
		t.Error(got)
	}
	f.Del("Connection")
	if f.Len() != 1 || f.Get("x-A") != "3" || f.Has("Connection") {
		t.Error(f.list)
	}
}

func TestResetKeepsMemory(t *testing.T) {
	x, w := newExchange("GET", "")
	x.Req.Fields.Add("A", "1")
	if n := testing.AllocsPerRun(100, func() {
		x.Reset(w)
		x.Req.Fields.Add("A", "1")
	}); n > 0 {
		t.Errorf("%v allocations for each reset", n)
	}
}

func TestClientText(t *testing.T) {
	var x Exchange
	f := func(addr, want string) {
		t.Helper()
		x.Reset(nil)
		if addr != "" {
			x.Req.Client = netip.MustParseAddr(addr)
		}
		for range 2 {
			if got := x.ClientText(); got != want {
				t.Errorf("%q: %q, want %q", addr, got, want)
			}
		}
	}
	f("192.0.2.1", "192.0.2.1")
	f("192.0.2.1", "192.0.2.1")
	f("", "")
	f("::ffff:192.0.2.1", "192.0.2.1")
	f("fe80::1%eth0", "fe80::1")
	f("2001:db8::1", "2001:db8::1")
}

// Run gives a file back once, whatever the handler does with it.
func TestRunClosesTheResource(t *testing.T) {
	f := func(h HandlerFunc) {
		t.Helper()
		file, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		given := 0
		own, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		for _, res := range []Resource{{File: file, Release: func() { given++ }}, {File: own}, {Content: []byte("x")}} {
			x, _ := newExchange("GET", "")
			x.Resource = res
			func() {
				defer func() { _ = recover() }()
				Run(x, h)
			}()
			x.Resource.Close()
			if x.Resource.File != nil {
				t.Error("the file is still there")
			}
		}
		if _, err := file.Stat(); given != 1 || err != nil {
			t.Errorf("given back %d times, shared file: %v", given, err)
		}
		if _, err := own.Stat(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("own file: %v", err)
		}
	}
	f(func(*Exchange) error { return nil })
	f(func(*Exchange) error { return io.ErrUnexpectedEOF })
	f(func(x *Exchange) error { x.Resource.Close(); return nil })
	f(func(*Exchange) error { panic("BUG: test") })
}

func TestMemo(t *testing.T) {
	var none *Memo
	none.Put(1)
	if v := none.Get(); v != nil {
		t.Errorf("a nil memo holds %v", v)
	}
	m := &Memo{}
	if v := m.Get(); v != nil {
		t.Errorf("a new memo holds %v", v)
	}
	m.Put("a")
	m.Put(2)
	if v := m.Get(); v != 2 {
		t.Errorf("%v", v)
	}
}

// Nothing of a request is left for the next one on the connection but the text of
// its client's address.
func TestResetForgetsEverything(t *testing.T) {
	var x, fresh Exchange
	fill(reflect.ValueOf(&x).Elem())
	x.Reset(nil)
	fresh.Reset(nil)
	for _, y := range []*Exchange{&x, &fresh} {
		if n := y.Req.Fields.Len() + y.Resp.Fields.Len() + y.Trailers.Len() + len(y.Env) + len(y.filters); n != 0 {
			t.Errorf("%d fields or filters are left", n)
		}
		y.Req.Fields, y.Resp.Fields, y.Trailers, y.Env, y.filters = Fields{}, Fields{}, Fields{}, nil, nil
		y.clientText, y.textOf = "", netip.Addr{}
		if y.end.x != y {
			t.Error("writes go to another exchange")
		}
		y.end.x = nil
	}
	if !reflect.DeepEqual(x, fresh) {
		t.Errorf("after Reset:\n%+v\nwant\n%+v", x, fresh)
	}
}

// fill makes what v holds other than zero, as far as it is numbers, text, flags,
// lists and functions.
func fill(v reflect.Value) {
	if v.CanAddr() {
		v = reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem() // unexported fields too
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field)
		}
	case reflect.String:
		v.SetString("left")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(7)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i))
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Func:
		v.Set(reflect.MakeFunc(v.Type(), nil))
	}
}

// upgradableWire is a fakeWire that hands its connection over.
type upgradableWire struct{ fakeWire }

func (w *upgradableWire) Upgrade(*Response) (Duplex, error) { return nil, nil }

// noTunnel is a Tunnel that is never run.
type noTunnel struct{ Tunnel }

// What a handler leaves behind is found by whoever runs it, of an upgraded exchange
// alone, and not by the next exchange.
func TestDetach(t *testing.T) {
	w := &upgradableWire{}
	x := &Exchange{}
	x.Reset(w)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("detached before the upgrade")
			}
		}()
		x.Detach(noTunnel{})
	}()
	err := Run(x, HandlerFunc(func(x *Exchange) error {
		if _, err := x.Upgrade(); err != nil {
			return err
		}
		x.Detach(noTunnel{})
		return nil
	}))
	if err != nil || x.Detached() != (noTunnel{}) || len(w.log) != 0 {
		t.Errorf("%v, %v, %v", err, x.Detached(), w.log)
	}
	if x.Reset(w); x.Detached() != nil {
		t.Error("the next exchange has it too")
	}
}

// always is a filter for errors too, which edits heads alone.
type always struct{ Filter }

func (always) ForErrors() {}
func (always) Head(x *Exchange) bool {
	x.Resp.Fields.Add("X-Always", "1")
	return false
}

// R-PIPE-10: a page keeps the status and the fields of the error, whatever it says
// itself. Run still returns the error. A page that
// fails leaves the built-in one.
func TestPage(t *testing.T) {
	failure := &Error{Status: 404, Reason: "not_found", Fields: []Field{{"Retry-After", "5"}}, Close: true}
	f := func(page HandlerFunc, status int, body string) {
		t.Helper()
		x, w := newExchange("GET", "")
		err := Run(x, HandlerFunc(func(x *Exchange) error {
			x.Use(&upper{})
			x.Use(always{})
			x.Resp.Fields.Add("X-Left-Over", "1")
			if err := x.Page(failure, page); err != nil && !x.Started() {
				return failure
			}
			return nil
		}))
		r := &x.Resp
		if !errors.Is(err, failure) || r.Status != status || !strings.Contains(w.out.String(), body) {
			t.Errorf("%v, %d %q", err, r.Status, w.out.String())
		}
		if r.Fields.Get("Retry-After") != "5" || r.Fields.Get("Connection") != "close" || r.Fields.Has("X-Left-Over") || r.Fields.Has("X-Seen") || r.Fields.Get("X-Always") != "1" {
			t.Errorf("fields %v", r.Fields)
		}
		if w.log[len(w.log)-1] != "end" {
			t.Error(w.log)
		}
	}
	says := func(status int, text string) HandlerFunc {
		return func(x *Exchange) error {
			if err := x.Start(status); err != nil {
				return err
			}
			_, err := io.WriteString(x, text)
			return err
		}
	}
	f(says(200, "own"), 404, "own")
	f(says(206, "own"), 404, "own")
	f(says(304, "own"), 404, "own")
	f(says(500, "own"), 404, "own")
	f(says(302, "own"), 404, "own")
	f(func(x *Exchange) error { return Fail(403, "access_denied", "x") }, 404, "404 Not Found")
}

// late is a filter that holds the head until the first byte, flush or end.
type late struct {
	x        *Exchange
	next     Sink
	holds    bool
	released int
}

func (l *late) Head(x *Exchange) bool {
	if l.x = x; l.holds {
		x.HoldHead()
	}
	return true
}

func (l *late) Wrap(next Sink) Sink { l.next = next; return l }
func (l *late) ForErrors()          {}
func (l *late) Release()            { l.released++ }
func (l *late) send() error         { l.x.Resp.Fields.Set("X-Late", "1"); return l.x.SendHead() }
func (l *late) Flush() error        { l.send(); return l.next.Flush() }
func (l *late) Close() error        { l.send(); return l.next.Close() }
func (l *late) Write(p []byte) (int, error) {
	l.send()
	return l.next.Write(p)
}

// A filter may hold the head back until it has seen bytes; it is sent exactly once,
// before them, and at once where there are none to come.
func TestHeadIsHeld(t *testing.T) {
	f := func(want string, method string, h HandlerFunc) {
		t.Helper()
		x, w := newExchange(method, "")
		l := &late{holds: true}
		x.Use(l)
		Run(x, h)
		if got := fmt.Sprint(w.log, w.out.String()); got != want || l.released != 1 {
			t.Errorf("%s, released %d; want %s", got, l.released, want)
		}
	}
	const head = "head 200 length -1 nobody "
	f("["+head+"false last true end]abc", "GET", func(x *Exchange) error {
		x.Start(200)
		if w := x.wire.(*fakeWire); len(w.log) != 0 || !x.Started() {
			t.Error("the head is not held")
		}
		_, err := io.WriteString(x, "abc")
		return err
	})
	f("["+head+"false last true flush end]", "GET", func(x *Exchange) error { x.Start(200); return x.Flush() })
	f("["+head+"false last true end]", "GET", func(x *Exchange) error { return x.Start(200) })
	f("["+head+"true last true end]", "HEAD", func(x *Exchange) error { return x.Start(200) })
	f("["+head+"false last true abort]", "GET", func(x *Exchange) error { x.Start(200); return errors.New("cut") })
}

// What a filter holds is given up once: at the end, in a panic, and when an error
// takes the filter off.
func TestRelease(t *testing.T) {
	f := func(x *Exchange, h HandlerFunc) {
		t.Helper()
		l := &late{}
		x.Use(l)
		func() {
			defer func() { recover() }()
			Run(x, h)
		}()
		if l.released != 1 {
			t.Errorf("released %d times", l.released)
		}
	}
	x, _ := newExchange("GET", "")
	f(x, func(x *Exchange) error { return nil })
	x, _ = newExchange("GET", "")
	f(x, func(x *Exchange) error { return errors.New("x") })
	x, _ = newExchange("GET", "")
	f(x, func(x *Exchange) error { panic("x") })

	held := &heldFilter{}
	x, _ = newExchange("GET", "")
	x.Use(held)
	if Run(x, HandlerFunc(func(*Exchange) error { return errors.New("x") })); held.n != 1 {
		t.Errorf("a filter that is taken off is released %d times", held.n)
	}
}

type heldFilter struct {
	upper
	n int
}

func (h *heldFilter) Release() { h.n++ }

// UseAtWire puts a filter behind those that stand nearest to the wire so far.
func TestUseAtWire(t *testing.T) {
	x, w := newExchange("GET", "")
	x.Use(&upper{})
	var seen bytes.Buffer
	x.UseAtWire(&tap{to: &seen})
	Run(x, HandlerFunc(func(x *Exchange) error { _, err := io.WriteString(x, "abc"); return err }))
	if seen.String() != "ABC" || w.out.String() != "ABC" {
		t.Errorf("%q, %q", seen.String(), w.out.String())
	}
}

type tap struct {
	Sink
	to *bytes.Buffer
}

func (f *tap) Head(*Exchange) bool         { return true }
func (f *tap) Wrap(next Sink) Sink         { f.Sink = next; return f }
func (f *tap) Write(p []byte) (int, error) { f.to.Write(p); return f.Sink.Write(p) }
