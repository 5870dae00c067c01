package framing_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"httpjet/exchange"
	"httpjet/exchange/exchangetest"
	"httpjet/framing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is not waited for by a server that answers.
const patience = 30 * time.Second

func run(t *testing.T, target string, timeout time.Duration) *framing.Report {
	t.Helper()
	r, err := framing.Run(t.Context(), framing.Options{Target: target, Timeout: timeout, Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// named are the messages with a verdict.
func named(r *framing.Report, v framing.Verdict) (names []string) {
	for _, c := range r.Cases {
		if c.Verdict == v {
			names = append(names, c.Name)
		}
	}
	return names
}

// TestOwnServer: what Read says of a message is what the front end does, over TLS too.
func TestOwnServer(t *testing.T) {
	for _, secure := range []bool{false, true} {
		var hidden []string
		s := exchangetest.Start(t, &exchangetest.Site{Handler: exchange.HandlerFunc(func(x *exchange.Exchange) error {
			if _, err := io.Copy(io.Discard, x.Body()); err != nil {
				return err
			}
			if strings.HasSuffix(x.Req.Target, ".hidden") {
				hidden = append(hidden, x.Req.Target)
			}
			_, err := io.WriteString(x, "ok")
			return err
		})}, secure)
		r := run(t, s.URL+"/asked", patience)
		if !r.Keeps || len(r.Cases) < 60 {
			t.Errorf("secure %v: keeps %v, %d cases", secure, r.Keeps, len(r.Cases))
		}
		for _, c := range r.Cases {
			if c.Target.Requests > 0 {
				c.Target.Status = 0 // of the application
			}
			if c.Ours != c.Target || c.Verdict != framing.Same {
				t.Errorf("secure %v, %s: Read says %+v, the server did %+v: %s", secure, c.Name, c.Ours, c.Target, c.Verdict)
			}
		}
		if len(hidden) > 0 {
			t.Errorf("the server found %q", hidden)
		}
	}
}

// TestNetHTTP: Go's server goes by the chunks where there is a length too, as it may
// (RFC 9112 section 6.1), and the hidden request that it finds then is seen.
func TestNetHTTP(t *testing.T) {
	var hidden atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if strings.HasSuffix(r.URL.RawQuery, ".hidden") {
			hidden.Add(1)
		}
	}))
	defer s.Close()
	r := run(t, s.URL, patience)
	smuggles := named(r, framing.Smuggles)
	if differs := named(r, framing.Differs); len(differs) > 0 || !r.Keeps || !slices.Contains(smuggles, "CL.TE") || len(smuggles) != int(hidden.Load()) {
		t.Errorf("%d hidden requests found: %q; differs with %q, keeps %v", hidden.Load(), smuggles, differs, r.Keeps)
	}
	if names := named(r, framing.Lenient); !slices.Contains(names, "line ends by LF") {
		t.Errorf("lenient with %q only", names)
	}
}

// sloppy is a server that reads lines to their LF, takes the first Content-Length for a
// number as far as it is one, ignores it in a GET, and knows no other framing.
func sloppy(c net.Conn, close bool) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		method, _, _ := strings.Cut(line, " ")
		length, ends := "", close
		for {
			field, err := in.ReadString('\n')
			if err != nil {
				return
			}
			name, value, _ := strings.Cut(strings.TrimSpace(field), ":")
			if name+value == "" {
				break
			}
			if length == "" && strings.EqualFold(strings.TrimSpace(name), "Content-Length") {
				length = strings.TrimSpace(value)
			}
			ends = ends || strings.Contains(field, "close")
		}
		if method == "POST" {
			digits := length[:len(length)-len(strings.TrimLeft(length, "0123456789"))]
			if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
				io.CopyN(io.Discard, in, n)
			}
		}
		status := "200 OK"
		if method != "POST" && method != "GET" {
			status, ends = "400 Bad Request", true
		}
		io.WriteString(c, "HTTP/1.1 "+status+"\r\nContent-Length: 0\r\n\r\n")
		if ends {
			return
		}
	}
}

// TestSloppyServer: what a bad parser makes of messages is seen.
func TestSloppyServer(t *testing.T) {
	r := run(t, exchangetest.Raw(t, func(c net.Conn) { sloppy(c, false) }), patience)
	for v, want := range map[framing.Verdict][]string{
		framing.Smuggles: {"TE.CL", "two lengths", "length with plus", "length in hex", "length empty", "length negative", "length with an inner space"},
		framing.Lenient:  {"CL.TE", "coding unknown", "space before colon", "line ends by LF", "two Hosts", "two lengths, other order", "space before colon of length"},
		framing.Differs:  {"GET with a body", "chunk extension"},
		framing.Same:     {"length with zeros", "empty line before the request"},
	} {
		have := named(r, v)
		for _, name := range want {
			if !slices.Contains(have, name) {
				t.Errorf("%s: not %q; have %q", v, name, have)
			}
		}
	}
	total := 0
	for _, n := range r.Counts {
		total += n
	}
	if total != len(r.Cases) || !r.Keeps {
		t.Errorf("%d verdicts for %d messages, keeps %v", total, len(r.Cases), r.Keeps)
	}
}

// TestServerThatCloses: without a second request on a connection nothing is claimed of
// hidden ones.
func TestServerThatCloses(t *testing.T) {
	r := run(t, exchangetest.Raw(t, func(c net.Conn) { sloppy(c, true) }), patience)
	if r.Keeps || len(named(r, framing.Smuggles)) > 0 || len(named(r, framing.Differs)) > 0 || !slices.Contains(named(r, framing.Unknown), "TE.CL") {
		t.Errorf("keeps %v, %v", r.Keeps, r.Counts)
	}
}

// oneAtATime refuses what does not end the connection.
func oneAtATime(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	r, err := http.ReadRequest(in)
	if err == nil {
		_, err = io.Copy(io.Discard, r.Body)
	}
	if err != nil || !r.Close {
		io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
		return
	}
	io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nok")
}

// TestServerOfOneRequest: a server that takes no second request behind the first is
// asked without one.
func TestServerOfOneRequest(t *testing.T) {
	r := run(t, exchangetest.Raw(t, oneAtATime), patience)
	if r.Keeps || len(named(r, framing.Differs)) > 0 || !slices.Contains(named(r, framing.Same), "chunk extension") || !slices.Contains(named(r, framing.Lenient), "line ends by LF") {
		t.Errorf("keeps %v, %v, same %q, lenient %q", r.Keeps, r.Counts, named(r, framing.Same), named(r, framing.Lenient))
	}
}

// TestTargets: what is no target, and what cannot be asked.
func TestTargets(t *testing.T) {
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	answers := func(text string) string {
		return exchangetest.Raw(t, func(c net.Conn) {
			defer c.Close()
			http.ReadRequest(bufio.NewReader(c))
			io.WriteString(c, text)
		})
	}
	endless := exchangetest.Raw(t, func(c net.Conn) {
		defer c.Close()
		for {
			if _, err := io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
				return
			}
		}
	})
	for target, want := range map[string]string{
		"":                   "is not http",
		"http://":            "is not http",
		"ftp://a/":           "is not http",
		"http://u:p@a/":      "is not http",
		"http://a/?q=1":      "is not http",
		"http://a/#f":        "is not http",
		"http://a b/":        "is not http",
		"http://a\r\nX: y/":  "is not http",
		gone.Addr().String(): "refused",
		answers("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"): "refuses (400)",
		answers("220 mail.test ESMTP\r\n"):                               "no HTTP/1.1",
		answers(""):                                                      "closes",
		endless:                                                          "to plain requests",
	} {
		_, err := framing.Run(t.Context(), framing.Options{Target: target, Timeout: time.Second})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", target, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := framing.Run(ctx, framing.Options{Target: answers("")}); err == nil {
		t.Error("no error for a context that has ended")
	}
}
