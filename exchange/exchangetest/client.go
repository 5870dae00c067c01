package exchangetest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"httpjet/exchange"
)

// Fetch sends a request with fields ("Name: value") and returns the answer.
func (s *Server) Fetch(t testing.TB, method, path string, fields ...string) (status int, body string, header http.Header) {
	t.Helper()
	req, err := http.NewRequest(method, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range fields {
		name, value, _ := strings.Cut(l, ": ")
		req.Header.Add(name, value)
	}
	resp, err := s.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

// Events is an application that sends event streams, for tests of what stands before it.
type Events struct {
	Fields []exchange.Field // of the answer, beside its type

	gone chan bool // one for each client that has left
	send map[string]chan string
}

// NewEvents returns one for the two clients of PassLive.
func NewEvents(fields ...exchange.Field) *Events {
	return &Events{Fields: fields, gone: make(chan bool, 2), send: map[string]chan string{"a": make(chan string), "b": make(chan string)}}
}

// Serve sends what PassLive says, until the client leaves.
func (e *Events) Serve(x *exchange.Exchange) error {
	x.Resp.Fields.Add("Content-Type", "Text/Event-Stream; charset=utf-8")
	for _, f := range e.Fields {
		x.Resp.Fields.Add(f.Name, f.Value)
	}
	if err := x.Start(200); err != nil {
		return err
	}
	x.Flush()
	for {
		select {
		case text := <-e.send[x.Req.Fields.Get("Client")]:
			x.Write([]byte(text))
			x.Flush()
		case <-x.Context().Done():
			e.gone <- true
			return fmt.Errorf("%w: left", exchange.ErrClientGone)
		}
	}
}

// PassLive has two clients ask s, which stands before e, for the same stream. The second
// has its head while the first goes on, each event comes before the next is sent, and e
// hears that they have left.
func (e *Events) PassLive(t *testing.T, s *Server) {
	t.Helper()
	ctx, leave := context.WithTimeout(context.Background(), 30*time.Second)
	defer leave()
	var streams []*bufio.Reader
	for _, client := range []string{"a", "b"} {
		req, _ := http.NewRequestWithContext(ctx, "GET", s.URL+"/events", nil)
		req.Header.Set("Client", client)
		resp, err := s.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		streams = append(streams, bufio.NewReader(resp.Body))
	}
	for i := range 3 {
		for n, client := range []string{"a", "b"} {
			want := fmt.Sprintf("data: %s %d\n", client, i)
			e.send[client] <- want
			if got, err := streams[n].ReadString('\n'); got != want {
				t.Fatal(got, err)
			}
		}
	}
	leave()
	for range 2 {
		select {
		case <-e.gone:
		case <-time.After(20 * time.Second):
			t.Fatal("the application goes on")
		}
	}
}

// Raw is a server of connections that each serves, one after the other, and closes. It
// returns the address, "127.0.0.1:1234", and ends with the test.
func Raw(t testing.TB, each func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			each(c)
			c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().String()
}
