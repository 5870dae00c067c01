package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Known traps of other servers, against the whole server: each for an HTTP
// upstream and for a FastCGI application.

// whole starts a server with both backends; tuning goes into the server file.
func wholeServer(t *testing.T, b *backends, tuning string) *running {
	t.Helper()
	root := treeOf(t, b.vhost())
	put(t, root, "html/run.php", "<?php")
	if tuning != "" {
		conf, err := os.ReadFile(filepath.Join(root, "conf/httpd_config.xml"))
		if err != nil {
			t.Fatal(err)
		}
		put(t, root, "conf/httpd_config.xml", strings.Replace(string(conf), "<httpServerConfig>", "<httpServerConfig>"+tuning, 1))
	}
	return run(t, root)
}

// last is a good request behind which the server closes.
const last = "GET /index.html HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n"

// forwarded sends one request to the proxy context and returns it as it arrived.
func forwarded(t *testing.T, r *running, b *backends, request string) string {
	t.Helper()
	got := exchangeBytes(t, r, request+last)
	if statuses(got) != "200 200" {
		t.Errorf("%q: answers %q", request, got)
	}
	return b.whole()
}

// One message is one message behind the server, with one framing, however it was
// framed before (G01, G05).
func TestG01OneFramingUpstream(t *testing.T) {
	b := startBackends(t)
	r := wholeServer(t, b, "")
	for _, c := range []struct{ send, want string }{
		{chunks("5\r\nhello\r\n0\r\n\r\n"), "\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"},
		{chunks("00005;x=y;z=\" ;\"\r\nhello\r\n000\r\nX-T: u\r\n\r\n"), "\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-T: u\r\n\r\n"},
		{field("TRANSFER-encoding:   \tCHUNKED \t") + "1\r\nx\r\n0\r\n\r\n", "\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"},
		{field("content-length:\t00005  ") + "hello", "\r\nContent-Length: 5\r\n\r\nhello"},
		{field("Content-Length: 0"), "\r\nContent-Length: 0\r\n\r\n"},
		{field("Transfer_Encoding: chunked", "Content_Length: 9", "X-Content-Length: 9"), "\r\nContent-Length: 0\r\n\r\n"},
		{field("Content-Length: 5", "Trailer: Content-Length", "TE: chunked") + "hello", "\r\nContent-Length: 5\r\n\r\nhello"},
	} {
		got := forwarded(t, r, b, strings.ReplaceAll(c.send, "/T", "/app/x"))
		if !strings.HasSuffix(got, c.want) || strings.Count(strings.ToLower(got), "\r\ncontent-length:")+strings.Count(strings.ToLower(got), "\r\ntransfer-encoding:") != 1 {
			t.Errorf("%q arrived as\n%q", c.send, got)
		}
		// FastCGI has the same body, with its counted length.
		got = forwarded(t, r, b, strings.ReplaceAll(c.send, "/T", "/run.php"))
		_, body, _ := strings.Cut(got, ": ")
		if want := bodyOf(c.want); body != want || !strings.Contains(got, " length "+strconv.Itoa(len(want))+":") {
			t.Errorf("%q arrived as\n%q", c.send, got)
		}
	}
}

// bodyOf decodes the body behind the empty line of a request's end.
func bodyOf(end string) string {
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("POST / HTTP/1.1" + end)))
	if err != nil {
		return err.Error()
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}

// Requests behind a good body are served in order; a CONNECT, which nobody
// tunnels, is the last of its connection, and so is the first bad one.
func TestG01PipelinedRequests(t *testing.T) {
	b := startBackends(t)
	r := wholeServer(t, b, "")
	for _, path := range []string{"/app/x", "/run.php"} {
		good := strings.ReplaceAll(chunks("5\r\nhello\r\n0\r\n\r\n")+field("Content-Length: 2")+"ok", "/T", path)
		if got := exchangeBytes(t, r, good+good+last); statuses(got) != "200 200 200 200 200" {
			t.Errorf("%s: %q", path, got)
		}
		b.whole()
		if got := exchangeBytes(t, r, good+"GET / HTTP/1.1\r\n\r\n"+good); statuses(got) != "200 200 400" {
			t.Errorf("%s: %q", path, got)
		}
		b.whole()
		for _, refused := range []string{"CONNECT site.test:80 HTTP/1.1\r\nHost: site.test:80\r\n\r\n", "CONNECT other.test:443 HTTP/1.1\r\nHost: other.test:443\r\n\r\n"} {
			if got := exchangeBytes(t, r, good+refused+good); statuses(got) != "200 200 405" {
				t.Errorf("%s, %q: %q", path, refused, got)
			}
			b.whole()
		}
	}
}

// All Connection lines are one list, whichever is empty (R-HDR-1).
func TestG07EmptyConnectionLine(t *testing.T) {
	b := startBackends(t)
	r := wholeServer(t, b, "")
	for _, lines := range []string{"Connection: \r\nConnection: X-Secret", "Connection: X-Secret\r\nConnection: ", "connection: ,\r\nCONNECTION: ,, x-SECRET ,",
		"Connection: keep-alive\r\nX: y\r\nConnection:\tX-Secret\t", "Connection: X-Secret, keep-alive", "Connection: \r\nConnection: \r\nConnection: X-Secret"} {
		for _, path := range []string{"/app/x", "/run.php"} {
			got := strings.ToLower(forwarded(t, r, b, "GET "+path+" HTTP/1.1\r\nHost: site.test\r\n"+lines+"\r\nX-Secret: 1\r\n\r\n"))
			if strings.Contains(got, "secret") || strings.Contains(got, "\r\nconnection:") || strings.Contains(got, "connection=") {
				t.Errorf("%q to %s arrived as\n%q", lines, path, got)
			}
		}
	}
}

// Nothing of one hop crosses the server (R-HDR-1, RFC 9113 §3.1).
func TestG08FieldsOfTheHop(t *testing.T) {
	b := startBackends(t)
	r := wholeServer(t, b, "")
	for _, fields := range [][]string{
		{"Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"},
		{"Connection: Upgrade", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"},
		{"HTTP2-Settings: AAMAAABk", "Upgrade: h2c"},
		{"Connection: HTTP2-Settings", "http2-settings: AAMAAABk"},
		{"Connection: Upgrade", "Upgrade: TLS/1.0"},
		{"Keep-Alive: timeout=5", "Proxy-Connection: keep-alive", "Proxy-Authorization: Basic eA==", "TE: trailers", "Connection: TE"},
		{"Connection: Host, Content-Length, X-Forwarded-For, X-Forwarded-Proto, Via, X-Real-IP"},
	} {
		for _, path := range []string{"/app/x", "/run.php"} {
			got := strings.ToLower(forwarded(t, r, b, head("GET "+path+" HTTP/1.1", append([]string{"Host: site.test"}, fields...)...)))
			for _, name := range []string{"http2-settings", "upgrade", "connection", "keep-alive", "proxy-authorization", "te"} {
				if strings.Contains(got, "\r\n"+name+":") || strings.Contains(got, " "+name+"=") {
					t.Errorf("%q to %s: %s crossed:\n%q", fields, path, name, got)
				}
			}
			if path == "/app/x" && (strings.Count(got, "\r\nhost: ") != 1 || strings.Count(got, "\r\nx-forwarded-for: ") != 1 || strings.Count(got, "\r\nvia: ") != 1) {
				t.Errorf("%q: our own fields were taken away:\n%q", fields, got)
			}
		}
	}
}

// Lines received are lines sent, in their order, with the documented additions
// (R-HDR-2 to R-HDR-5). The request is another one each time, the seed the same.
func TestG09LinesReceivedAreLinesSent(t *testing.T) {
	b := startBackends(t)
	r := wholeServer(t, b, "")
	rnd := rand.New(rand.NewPCG(9, 9))
	names := []string{"Origin", "origin", "Accept", "ACCEPT", "Cookie", "X-A", "x_b", "X.C", "Referer", "If-None-Match", "X-Empty", "Authorization", "Content-Type"}
	values := []string{"https://example.test", "a", "a, b", "", "x\ty", "caf\xc3\xa9", `"q"`, "a;b=c", strings.Repeat("v", 300)}
	for range 200 {
		var lines []string
		for range rnd.IntN(12) {
			lines = append(lines, names[rnd.IntN(len(names))]+": "+values[rnd.IntN(len(values))])
		}
		got := forwarded(t, r, b, head("POST /app/x HTTP/1.1", append([]string{"Host: site.test", "Content-Length: 2"}, lines...)...)+"{}")
		want := head("POST /app/x HTTP/1.1", slices.Concat([]string{"Host: site.test"}, lines, []string{"X-Forwarded-For: 127.0.0.1", "X-Real-IP: 127.0.0.1",
			"X-Forwarded-Proto: http", "X-Forwarded-Host: site.test", "Via: 1.1 httpjet", "Content-Length: 2"})...) + "{}"
		if got != want {
			t.Fatalf("arrived\n%q, want\n%q", got, want)
		}
	}
}

// Bodies arrive to the byte, at every size around the borders of buffers, in both
// framings, over one connection.
func TestG11LastByteOfABody(t *testing.T) {
	b := startBackends(t)
	r := wholeServer(t, b, "")
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	post := func(path string, data []byte, length int64) {
		t.Helper()
		req, err := http.NewRequest("POST", r.base+path, struct{ io.Reader }{bytes.NewReader(data)})
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = length
		req.Header.Set("Content-Type", "application/json; charset=utf-8")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatalf("%s, %d bytes: %v", path, len(data), err)
		}
		defer resp.Body.Close()
		if got, err := io.ReadAll(resp.Body); !bytes.Equal(got, data) || err != nil {
			t.Errorf("%s, %d bytes declared as %d: %d other ones came back, %v", path, len(data), length, len(got), err)
		}
		b.whole()
	}
	rnd := rand.NewChaCha8([32]byte{11})
	sizes := []int{0, 1, 2, 19, 20, 21}
	for _, border := range []int{256, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10, 256 << 10} {
		sizes = append(sizes, border-3, border-2, border-1, border, border+1, border+2)
	}
	for _, path := range []string{"/app/x", "/run.php"} {
		post(path, []byte(`{"test":[12.0,48.0]}`), 20)
		for _, n := range sizes {
			data := make([]byte, n)
			rnd.Read(data)
			post(path, data, int64(n))
			post(path, data, -1)
		}
	}
}

// No value of a field gets into a log, whatever becomes of the request, at the
// level of every line that there is.
func TestG12NoFieldInALog(t *testing.T) {
	const secret = "s3cr3t-and-pr1vate"
	b := startBackends(t)
	root := treeOf(t, b.vhost()+`<extProcessor><type>proxy</type><name>down</name><address>127.0.0.1:9</address></extProcessor>
  <context><type>proxy</type><uri>/down/</uri><handler>down</handler></context>
  <context><uri>/closed/</uri><allowBrowse>0</allowBrowse><accessControl><deny>ALL</deny></accessControl></context>`)
	put(t, root, "html/run.php", "<?php")
	conf, err := os.ReadFile(filepath.Join(root, "conf/httpd_config.xml"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, root, "conf/httpd_config.xml", strings.Replace(string(conf), "<httpServerConfig>",
		"<httpServerConfig><logging><log><fileName>$SERVER_ROOT/logs/error.log</fileName><logLevel>DEBUG</logLevel><debugLevel>10</debugLevel></log>"+
			"<accessLog><fileName>$SERVER_ROOT/logs/access.log</fileName></accessLog></logging>", 1))
	r := run(t, root)
	for _, path := range []string{"/app/x", "/run.php", "/down/x", "/closed/x", "/none", "/%zz", "/index.html"} {
		for _, fields := range []string{"", "Host: u@v\r\n", "Content-Length: x\r\n", "Bad Field: " + secret + "\r\n", "Content-Length: 5\r\n",
			"Transfer-Encoding: chunked\r\n", "Connection: Upgrade\r\nUpgrade: websocket\r\n", "Expect: 100-continue\r\nContent-Length: 5\r\n"} {
			got := exchangeBytes(t, r, "GET "+path+" HTTP/1.1\r\nHost: site.test\r\nAuthorization: Bearer "+secret+"\r\nCookie: id="+secret+
				"\r\nX-Api-Key: "+secret+"\r\nProxy-Authorization: "+secret+"\r\nConnection: close\r\n"+fields+"\r\nshort\r\n")
			if len(statuses(got)) < 3 {
				t.Errorf("%s with %q: %q", path, fields, got)
			}
		}
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	close(r.log)
	var logs strings.Builder
	for line := range r.log {
		logs.WriteString(line)
	}
	files := 0
	err = filepath.WalkDir(filepath.Join(root, "logs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files++
		logs.Write(text)
		return err
	})
	if err != nil || files < 2 || !strings.Contains(logs.String(), "request failed") {
		t.Fatalf("%d log files, %v:\n%s", files, err, logs.String())
	}
	if i := strings.Index(logs.String(), secret); i >= 0 {
		t.Errorf("a log says ...%q", logs.String()[max(0, i-200):i+40])
	}
}

// scripted is an upstream that serves each of its connections by serve.
func scripted(t *testing.T, network, address string, serve func(n int, c net.Conn, br *bufio.Reader)) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for n := 1; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				serve(n, c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() { l.Close(); all.Wait() })
	return l
}

// A kept connection on which something came unasked is never used again: each
// client has the answer to its own request (R-POOL-3).
func TestG15StrayBytes(t *testing.T) {
	for _, stray := range []string{"PING-GARBAGE", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray", "\r\n", "0\r\n\r\n", "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n"} {
		wrote := make(chan struct{}, 10)
		go2 := make(chan struct{}, 10)
		l := scripted(t, "tcp", "127.0.0.1:0", func(n int, c net.Conn, br *bufio.Reader) {
			for {
				req, err := http.ReadRequest(br)
				if err != nil {
					return
				}
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(req.RequestURI), req.RequestURI)
				<-go2 // the client has its answer
				io.WriteString(c, stray)
				wrote <- struct{}{}
			}
		})
		r := run(t, treeOf(t, `<extProcessor><type>proxy</type><name>app</name><address>`+l.Addr().String()+`</address></extProcessor>
  <context><type>proxy</type><uri>/app/</uri><handler>app</handler></context>`))
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		for i := range 3 {
			path := fmt.Sprintf("/app/%d", i)
			if body, err := get(client, r.base+path); body != path || err != nil {
				t.Errorf("%q: %s has %q, %v", stray, path, body, err)
			}
			go2 <- struct{}{}
			<-wrote
		}
		r.stop()
	}
}

// An answer before the end of a slow upload reaches its client, and the connection
// carries nothing more, least of all the next client's request.
func TestG16EarlyAnswer(t *testing.T) {
	var mu sync.Mutex
	var requests []string
	l := scripted(t, "tcp", "127.0.0.1:0", func(n int, c net.Conn, br *bufio.Reader) {
		for {
			req, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			mu.Lock()
			requests = append(requests, req.Method+" "+req.RequestURI)
			mu.Unlock()
			if req.Method == "POST" {
				io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig")
				io.Copy(io.Discard, br) // what comes over this connection is body
				return
			}
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext")
		}
	})
	r := run(t, treeOf(t, `<extProcessor><type>proxy</type><name>app</name><address>`+l.Addr().String()+`</address><maxConns>1</maxConns></extProcessor>
  <context><type>proxy</type><uri>/app/</uri><handler>app</handler></context>`))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, framing := range []string{"Content-Length: 1048576\r\n\r\n" + strings.Repeat("x", 1000), "Transfer-Encoding: chunked\r\n\r\n3e8\r\n" + strings.Repeat("x", 1000)} {
		c, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		io.WriteString(c, "POST /app/up HTTP/1.1\r\nHost: site.test\r\n"+framing)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(resp.Body); resp.StatusCode != 413 || string(body) != "big" || err != nil {
			t.Errorf("%d %q, %v", resp.StatusCode, body, err)
		}
		if body, err := get(client, r.base+"/app/next"); body != "next" || err != nil {
			t.Errorf("next: %q, %v", body, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(requests, " "); got != "POST /app/up GET /app/next POST /app/up GET /app/next" {
		t.Errorf("the upstream has had %s", got)
	}
}

// The length behind the server is the client's, or that of the whole body; what is
// over the limit is refused before anybody hears of it (R-PIPE-4).
func TestG17LengthIsOfTheWholeBody(t *testing.T) {
	b := startBackends(t)
	r := wholeServer(t, b, "<tuning><maxReqBodySize>1M</maxReqBodySize></tuning>")
	body := strings.Repeat("0123456789", 6430) + "!"
	for _, path := range []string{"/app/x", "/run.php"} {
		got := forwarded(t, r, b, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: site.test\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body))
		if !strings.HasSuffix(got, body) || path == "/app/x" && !strings.Contains(got, "\r\nContent-Length: 64301\r\n\r\n") || path != "/app/x" && !strings.Contains(got, " length 64301:") {
			t.Errorf("%s: %.200q of %d bytes", path, got, len(got))
		}
		for _, framing := range []string{fmt.Sprintf("Content-Length: %d\r\n\r\n", 1<<20+1), "Transfer-Encoding: chunked\r\n\r\n100001\r\n" + strings.Repeat("x", 1<<20+1) + "\r\n0\r\n\r\n"} {
			got := exchangeBytes(t, r, "POST "+path+" HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n"+framing)
			if statuses(got) != "413" {
				t.Errorf("%s over the limit: %.200q", path, got)
			}
			if seen := b.whole(); seen != "" {
				t.Errorf("%s over the limit: behind the server is %.200q", path, seen)
			}
		}
	}
}

// Clients that declare a body and send nothing, that send a head or a body byte by
// byte, or that read nothing, are cut with 408, and cost nobody else anything: the
// application has two workers.
func TestG63SlowClients(t *testing.T) {
	b := startBackends(t)
	r := run(t, func() string {
		root := treeOf(t, strings.Replace(b.vhost(), "<type>fcgi</type><name>php</name>", "<type>fcgi</type><name>php</name><maxConns>2</maxConns><bodyTimeout>1</bodyTimeout>", 1))
		put(t, root, "html/run.php", "<?php")
		conf, _ := os.ReadFile(filepath.Join(root, "conf/httpd_config.xml"))
		put(t, root, "conf/httpd_config.xml", strings.Replace(string(conf), "<httpServerConfig>", "<httpServerConfig><tuning><connTimeout>2</connTimeout></tuning>", 1))
		return root
	}())
	const each = 40
	var slow sync.WaitGroup
	cut := make(chan string, 3*each)
	client := func(first, drip string) {
		c, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
		if err != nil {
			cut <- err.Error()
			return
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(patience))
		io.WriteString(c, first)
		ended := make(chan struct{})
		if drip != "" {
			slow.Go(func() {
				tick := time.NewTicker(300 * time.Millisecond)
				defer tick.Stop()
				for {
					select {
					case <-tick.C:
						io.WriteString(c, drip)
					case <-ended:
						return
					}
				}
			})
		}
		got, err := io.ReadAll(c)
		close(ended)
		if err != nil {
			cut <- err.Error()
			return
		}
		cut <- statuses(string(got))
	}
	for range each {
		slow.Go(func() { client("POST /run.php HTTP/1.1\r\nHost: site.test\r\nContent-Length: 10\r\n\r\n", "") })
		slow.Go(func() { client("GET /index.html HTTP/1.1\r\nHost: site.test\r\nX: ", "y") })
		slow.Go(func() { client("POST /run.php HTTP/1.1\r\nHost: site.test\r\nContent-Length: 1000\r\n\r\n", "z") })
	}
	normal := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	served, ended := 0, 0
	for ended < 3*each {
		select {
		case got := <-cut:
			if ended++; got != "408" {
				t.Errorf("a slow client got %q", got)
			}
		default:
			resp, err := normal.Post(r.base+"/run.php", "text/plain", strings.NewReader("quick"))
			if err != nil {
				t.Fatalf("a normal client: %v", err)
			}
			if body, err := io.ReadAll(resp.Body); string(body) != "quick" || err != nil {
				t.Fatalf("a normal client: %d %q, %v", resp.StatusCode, body, err)
			}
			resp.Body.Close()
			served++
		}
	}
	slow.Wait()
	if served == 0 {
		t.Error("no normal request was served meanwhile")
	}
}
