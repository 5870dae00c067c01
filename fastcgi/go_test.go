package fastcgi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"httpjet/budget"
	"httpjet/extproc"
	"httpjet/gateway"
)

// echo answers with method, Content-Length as declared, and a digest of the body.
func echo(w http.ResponseWriter, r *http.Request) {
	h := sha256.New()
	n, err := io.Copy(h, r.Body)
	fmt.Fprintf(w, "%s declared %d read %d %v %x", r.Method, r.ContentLength, n, err, h.Sum(nil)[:4])
}

func digest(p []byte) string {
	h := sha256.Sum256(p)
	return fmt.Sprintf("%x", h[:4])
}

func pattern(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i * 13 / 7)
	}
	return p
}

func TestCallsReuseOneConnection(t *testing.T) {
	c := newClient(t, goApp(t, echo), Options{})
	for range 3 {
		status, body, err := fetch(c, get())
		if status != 200 || !strings.HasPrefix(body, "GET declared 0 read 0") || err != nil {
			t.Fatalf("%d %q %v", status, body, err)
		}
		if s := c.Stats(); s.Idle != 1 || s.Busy != 0 {
			t.Fatalf("%+v, want one idle connection", s)
		}
	}
}

// Bodies of every size and declaration arrive whole with their exact length
// (R-FCGI-5, R-FCGI-6).
func TestBodiesArriveWhole(t *testing.T) {
	bodies := &budget.Bodies{Bytes: budget.NewBytes(8 << 20), Count: budget.NewPermits(4), Dir: t.TempDir()}
	c := newClient(t, goApp(t, echo), Options{Bodies: bodies})
	f := func(size int, declared bool) {
		t.Helper()
		p := pattern(size)
		length := int64(-1)
		if declared {
			length = int64(size)
		}
		want := fmt.Sprintf("POST declared %d read %d <nil> %s", size, size, digest(p))
		_, got, err := fetch(c, post(length, struct{ io.Reader }{bytes.NewReader(p)}, "CONTENT_LENGTH=77"))
		if got != want || err != nil {
			t.Errorf("size %d declared %v: %q %v, want %q", size, declared, got, err, want)
		}
		if s := c.Stats(); s.Idle != 1 {
			t.Errorf("size %d declared %v: connection not kept", size, declared)
		}
	}
	for _, size := range []int{1, 100, 32 << 10, 65528, 65535, 65536, gateway.HeldMax, gateway.HeldMax + 1, 5 << 20} {
		f(size, true)
		f(size, false)
	}
	f(0, false)
	if bodies.Bytes.Used() != 0 || bodies.Count.InUse() != 0 {
		t.Errorf("%d bytes and %d bodies still held", bodies.Bytes.Used(), bodies.Count.InUse())
	}
}

// A reply is read while it is written: the application sends as much as it has
// got, before it has got all.
func TestBigBodiesBothWaysAtOnce(t *testing.T) {
	c := newClient(t, goApp(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(201)
		io.Copy(w, r.Body)
	}), Options{})
	p := pattern(16 << 20)
	r, err := c.Do(context.Background(), post(int64(len(p)), bytes.NewReader(p)))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got, err := io.ReadAll(r.Body)
	if err != nil || r.Status != 201 || !bytes.Equal(got, p) {
		t.Errorf("status %d, %d bytes, %v", r.Status, len(got), err)
	}
}

func TestReplyStreams(t *testing.T) {
	next := make(chan string)
	c := newClient(t, goApp(t, func(w http.ResponseWriter, r *http.Request) {
		for s := range next {
			io.WriteString(w, s)
			w.(http.Flusher).Flush()
		}
	}), Options{})
	next2 := func(s string) { next <- s }
	go next2("first")
	r, err := c.Do(context.Background(), get())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	buf := make([]byte, 100)
	for _, want := range []string{"first", "second", "third"} {
		if want != "first" {
			next <- want
		}
		got := buf[:0]
		for len(got) < len(want) {
			n, err := r.Body.Read(buf[len(got):])
			if err != nil {
				t.Fatal(err)
			}
			got = buf[:len(got)+n]
		}
		if string(got) != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if n := r.Buffered(); n != 0 {
		t.Errorf("buffered %d with nothing sent", n)
	}
	close(next)
	if _, err := r.Body.Read(buf); err != io.EOF {
		t.Errorf("%v, want EOF", err)
	}
}

func TestHeadHasNoBody(t *testing.T) {
	c := newClient(t, goApp(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "1000")
		io.WriteString(w, "body of another length")
	}), Options{})
	r, err := c.Do(context.Background(), request("HEAD", 0, nil))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(r.Body)
	r.Close()
	if r.Length != 1000 || len(body) != 0 || err != nil {
		t.Errorf("length %d, body %q, %v", r.Length, body, err)
	}
	if s := c.Stats(); s.Idle != 1 {
		t.Error("connection not kept")
	}
}

// The body that a HEAD has no use for may go on for long: the head is not to wait
// for it.
func TestHeadDoesNotWaitForTheBody(t *testing.T) {
	for _, body := range []string{`body`, "body\"\nstdout \"more"} {
		told := make(chan struct{})
		c := newClient(t, rawApp(t, func(_ int, p *peer) {
			p.hear()
			p.say(t, `stdout "Content-Type: text/plain\r\n\r\n`+body+`"`)
			<-told
			p.say(t, "stdout \"\"\nend 0")
		}), Options{})
		r, err := c.Do(context.Background(), request("HEAD", 0, nil))
		if err != nil {
			t.Fatal(err)
		}
		if n := r.Buffered(); n != 0 {
			t.Errorf("Buffered is %d: who relays the head thinks that the next read does not wait", n)
		}
		close(told)
		if _, err := r.Body.Read(make([]byte, 10)); err != io.EOF {
			t.Errorf("%v, want EOF", err)
		}
		r.Close()
	}
}

// Nine tenths of the calls end well, some are cut by their callers; nothing
// leaks and no reply is another's (R-FCGI-9).
func TestManyCallsAtOnce(t *testing.T) {
	c := newClient(t, goApp(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		w.Write(bytes.Repeat(b, 100))
	}), Options{})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 40 {
				id := fmt.Sprintf("<%d/%d>", g, i)
				r, err := c.Do(context.Background(), post(int64(len(id)), strings.NewReader(id)))
				if err != nil {
					t.Error(err)
					return
				}
				if i%10 != 9 {
					if b, err := io.ReadAll(r.Body); string(b) != strings.Repeat(id, 100) || err != nil {
						t.Errorf("%s: %.40q %v", id, b, err)
					}
				}
				r.Close()
				if s := c.Stats(); s.Busy > 4 || s.Idle > 4 {
					t.Errorf("%+v with maxConns 4", s)
				}
			}
		})
	}
	wg.Wait()
}

// The variables pass through as they are, those of RFC 3875 §4.1 with and
// without a value.
func TestG30VariablesPassThrough(t *testing.T) {
	want := []string{
		"GATEWAY_INTERFACE=CGI/1.1", "QUERY_STRING=", "REMOTE_ADDR=192.0.2.1", "REQUEST_METHOD=GET",
		"SCRIPT_NAME=/a.php", "SERVER_NAME=h", "SERVER_PORT=80", "SERVER_PROTOCOL=HTTP/1.1",
		"SERVER_SOFTWARE=httpjet", "LONG=" + strings.Repeat("v", 60_000), "LONG2=" + strings.Repeat("w", maxField),
		"N127=" + strings.Repeat("a", 127), "N128=" + strings.Repeat("a", 128),
		strings.Repeat("N", 200) + "=name", "EMPTY=",
	}
	requests := make(chan heard, 1)
	c := newClient(t, rawApp(t, func(_ int, p *peer) {
		q, err := p.hear()
		if err != nil {
			t.Error(err)
		}
		requests <- q
		p.say(t, okReply)
	}), Options{})
	call := &extproc.Call{Method: "GET", Params: get().Params}
	call.Params.Reset()
	for _, kv := range want {
		name, value, _ := strings.Cut(kv, "=")
		call.Params.Add(name, value)
	}
	if _, body, err := fetch(c, call); body != "ok" || err != nil {
		t.Fatalf("%q %v", body, err)
	}
	got := <-requests
	for i, kv := range want {
		name, value, _ := strings.Cut(kv, "=")
		if i >= len(got.order) || got.order[i] != name || got.params[name] != value {
			t.Errorf("variable %d is not %.60s", i, kv)
		}
	}
	if len(got.order) != len(want) || !got.keep || len(got.stdin) != 0 {
		t.Errorf("%d variables, keep %v, %d bytes of STDIN", len(got.order), got.keep, len(got.stdin))
	}
}

// R-FCGI-4: bounds are checked before a connection is taken.
func TestVariablesAreBounded(t *testing.T) {
	target := unixTarget("/nonexistent/app.sock")
	target.MaxParams = 100_000
	c := newClient(t, target, Options{})
	f := func(want string, params ...string) {
		t.Helper()
		if _, _, err := fetch(c, get(params...)); describe(err) != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	f("503 fcgi_unavailable", "A="+strings.Repeat("x", maxField)) // fits; only the socket is missing
	f("431 request_head_too_large", "A="+strings.Repeat("x", maxField+1))
	f("431 request_head_too_large", strings.Repeat("x", maxField+1)+"=")
	f("431 request_head_too_large", "A="+strings.Repeat("x", 60_000), "B="+strings.Repeat("x", 40_000))
}
