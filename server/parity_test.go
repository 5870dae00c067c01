package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// parityTree has every kind of handler and rule below one host.
func parityTree(t *testing.T, b *backends) (root string) {
	t.Helper()
	root = t.TempDir()
	(*authority)(nil).issue(t, root, "own.test")
	maps := "<vhostMap><vhost>one</vhost><domain>own.test</domain></vhostMap>"
	put(t, root, "conf/httpd_config.xml", `<httpServerConfig><tuning><maxReqBodySize>1M</maxReqBodySize><enableGzipCompress>1</enableGzipCompress><enableDynGzipCompress>1</enableDynGzipCompress></tuning>
  <virtualHost><name>one</name><vhRoot>.</vhRoot><configFile>conf/one.xml</configFile></virtualHost>
  <listener><name>Default</name><address>127.0.0.1:1</address>`+maps+`</listener>
  <listener><name>S</name><address>127.0.0.1:2</address><secure>1</secure><certFile>own.test.crt</certFile><keyFile>own.test.key</keyFile>`+maps+`</listener></httpServerConfig>`)
	put(t, root, "conf/one.xml", `<virtualHostConfig><docRoot>html</docRoot>`+b.vhost()+`
  <extProcessor><type>lsapi</type><name>ls</name><address>uds://`+b.lsapi+`</address></extProcessor>
  <security><realm><name>R</name><userDB><location>conf/users</location></userDB></realm></security>
  <customErrorPages><errorPage><errCode>410</errCode><url>/gone.html</url></errorPage></customErrorPages>
  <context><type>lsapi</type><uri>/ls/</uri><handler>ls</handler></context>
  <context><type>static</type><uri>/realm/</uri><realm>R</realm></context>
  <context><type>static</type><uri>/deny/</uri><accessControl><allow>192.0.2.1</allow><deny>ALL</deny></accessControl></context>
  <context><type>static</type><uri>/list/</uri><autoIndex>1</autoIndex></context>
  <context><type>static</type><uri>/fields/</uri><extraHeaders>X-Extra: of the context</extraHeaders></context>
  <context><type>redirect</type><uri>/moved/</uri><statusCode>301</statusCode><location>/dir/</location></context>
  <rewrite><enable>1</enable><rules>
RewriteRule ^/?in/(.*)$ /$1
RewriteRule ^/?gone$ - [G]
RewriteRule ^/?away$ /x.txt [R=302]
RewriteRule ^/?p/(.*)$ http://app/app/$1 [P]
</rules></rewrite></virtualHostConfig>`)
	put(t, root, "conf/users", "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n") // secret
	put(t, root, "html/x.txt", "a text of twenty-six bytes")
	put(t, root, "html/long.css", strings.Repeat("a { color: #123456 }\n", 2000))
	put(t, root, "html/big.bin", strings.Repeat("0123456789abcdef", 64<<10))
	put(t, root, "html/dir/index.html", "home of dir")
	put(t, root, "html/gone.html", "it is gone")
	put(t, root, "html/s.php", "")
	for _, dir := range []string{"realm", "deny", "list", "fields"} {
		put(t, root, "html/"+dir+"/x.txt", "in "+dir)
	}
	return root
}

// parityClients speak to the two listeners by each protocol.
func parityClients(t *testing.T, r *running, secure string) map[string]*http.Client {
	plain := strings.TrimPrefix(r.base, "http://")
	over := func(addr string) func(context.Context, string, string) (net.Conn, error) {
		return func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}
	}
	conf := func(proto string) *tls.Config {
		return &tls.Config{ServerName: "own.test", InsecureSkipVerify: true, NextProtos: []string{proto}}
	}
	h3, _ := h3Client(t, secure, &tls.Config{ServerName: "own.test"})
	trs := map[string]*http.Transport{
		"HTTP/1.1":          {DialContext: over(plain), DisableCompression: true},
		"HTTP/1.1 over TLS": {DialContext: over(secure), TLSClientConfig: conf("http/1.1"), DisableCompression: true},
		"HTTP/2.0":          {DialContext: over(secure), TLSClientConfig: conf("h2"), ForceAttemptHTTP2: true, DisableCompression: true},
	}
	clients := map[string]*http.Client{"HTTP/3.0": h3}
	for name, tr := range trs {
		t.Cleanup(tr.CloseIdleConnections)
		clients[name] = &http.Client{Transport: tr, Timeout: patience}
	}
	for _, c := range clients {
		c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	return clients
}

// parityRequest is one request; its body is sent with its length, or without.
type parityRequest struct {
	method, path, body string
	unknown            bool
	fields             []string
}

// answerOf is what a client sees of the answer, without what belongs to the connection
// and what changes with the time.
func (q parityRequest) answerOf(t *testing.T, name string, c *http.Client) string {
	t.Helper()
	url := "https://own.test" + q.path
	if name == "HTTP/1.1" {
		url = "http://own.test" + q.path
	}
	var body io.Reader
	if q.body != "" {
		if body = strings.NewReader(q.body); q.unknown {
			body = io.MultiReader(body)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), q.method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "parity")
	for _, f := range q.fields {
		n, v, _ := strings.Cut(f, ": ")
		req.Header.Set(n, v)
	}
	resp, err := c.Do(req)
	if err != nil {
		return "no answer: " + name + " " + err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("%s %s by %s: %v", q.method, q.path, name, err)
	}
	if want := strings.TrimSuffix(name, " over TLS"); resp.Proto != want {
		t.Errorf("%s by %s: answered by %s", q.path, name, resp.Proto)
	}
	var out bytes.Buffer
	fmt.Fprintln(&out, resp.StatusCode)
	for _, f := range slices.Sorted(maps.Keys(resp.Header)) {
		switch f {
		case "Date", "Connection", "Keep-Alive", "Alt-Svc", "Content-Length", "Etag":
			continue
		}
		fmt.Fprintf(&out, "%s: %s\n", f, strings.ReplaceAll(strings.Join(resp.Header[f], " | "), "https://", "http://"))
	}
	_, boundary, _ := strings.Cut(resp.Header.Get("Content-Type"), "boundary=")
	text := out.String() + "\n" + string(b)
	if boundary != "" {
		text = strings.ReplaceAll(text, boundary, "BOUNDARY")
	}
	return text
}

// Every handler and rule answers the same request in the same way over HTTP/1.1, with
// and without TLS, over HTTP/2 and over HTTP/3, and asks its upstream for the same.
func TestSameAnswersByEveryProtocol(t *testing.T) {
	b := startBackends(t)
	r, addrs := runBoth(t, parityTree(t, b))
	clients := parityClients(t, r, addrs["S"])
	list := []parityRequest{
		{path: "/x.txt"}, {path: "/none"}, {path: "/dir"}, {path: "/dir/"}, {path: "/long.css"}, {path: "/big.bin"}, {path: "/in/x.txt"},
		{path: "/gone"}, {path: "/away"}, {path: "/moved/x"}, {path: "/realm/x.txt"}, {path: "/deny/x.txt"}, {path: "/list/"}, {path: "/fields/x.txt"},
		{path: "/a%2Fb"}, {path: "/%00"}, {path: "/x.txt?a=b&c"},
		{path: "/s.php?q=1"}, {path: "/s.php/info"}, {path: "/ls/x"}, {path: "/app/x"}, {path: "/p/x"},
		{path: "/realm/x.txt", fields: []string{"Authorization: Basic YW5uOnNlY3JldA=="}},
		{path: "/long.css", fields: []string{"Accept-Encoding: gzip"}},
		{path: "/long.css", fields: []string{"Accept-Encoding: br"}},
		{path: "/long.css", fields: []string{"Accept-Encoding: zstd"}},
		{path: "/x.txt", fields: []string{"Range: bytes=2-5"}}, {path: "/x.txt", fields: []string{"Range: bytes=-3"}},
		{path: "/x.txt", fields: []string{"Range: bytes=1-2,4-5"}}, {path: "/x.txt", fields: []string{"Range: bytes=900-"}},
		{path: "/x.txt", fields: []string{"If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT"}},
		{path: "/x.txt", fields: []string{"If-Match: \"other\""}},
		{method: "OPTIONS", path: "/x.txt"}, {method: "DELETE", path: "/x.txt"}, {method: "TRACE", path: "/x.txt"}, {method: "PROPFIND", path: "/app/x"},
		{method: "POST", path: "/x.txt", body: "body"},
	}
	for _, path := range []string{"/app/x", "/p/x", "/s.php", "/ls/x"} {
		for _, unknown := range []bool{false, true} {
			list = append(list, parityRequest{method: "POST", path: path, body: "some body", unknown: unknown},
				parityRequest{method: "PUT", path: path, body: strings.Repeat("much ", 100_000), unknown: unknown},
				parityRequest{method: "POST", path: path, body: strings.Repeat("too much ", 200_000), unknown: unknown})
		}
	}
	for _, q := range slices.Clone(list) {
		if q.method == "" {
			q.method = "HEAD"
			list = append(list, q)
		}
	}
	for _, q := range list {
		if q.method == "" {
			q.method = "GET"
		}
		b.whole()
		want := q.answerOf(t, "HTTP/1.1", clients["HTTP/1.1"])
		asked := askedOf(b)
		for _, name := range []string{"HTTP/1.1 over TLS", "HTTP/2.0", "HTTP/3.0"} {
			got := q.answerOf(t, name, clients[name])
			if got != want && !(tooMuch(q, want) && tooMuch(q, got)) {
				t.Errorf("%s %s %v, body %d unknown %v\n%s: %.600q\nHTTP/1.1: %.600q", q.method, q.path, q.fields, len(q.body), q.unknown, name, got, want)
			}
			if got := askedOf(b); got != asked {
				t.Errorf("%s %s by %s\nasked upstream for %.600q\nHTTP/1.1:          %.600q", q.method, q.path, name, got, asked)
			}
		}
	}
}

// tooMuch reports whether the answer is that the body is too large, or none: a client
// that is still sending need not hear it.
func tooMuch(q parityRequest, answer string) bool {
	return len(q.body) > 1<<20 && (strings.HasPrefix(answer, "413") || strings.HasPrefix(answer, "no answer"))
}

// askedOf is what came upstream, without the fields that tell of the protocol.
func askedOf(b *backends) string {
	var out []string
	for _, raw := range b.all() {
		req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
		if err != nil { // an application's
			raw, _, _ = strings.Cut(raw, " X-Request-Id=")
			out = append(out, raw)
			continue
		}
		body, err := io.ReadAll(req.Body)
		for _, name := range []string{"Via", "X-Forwarded-Proto", "X-Request-Id", "Traceparent"} {
			req.Header.Del(name)
		}
		out = append(out, fmt.Sprint(req.Method, req.RequestURI, req.Host, req.ContentLength, req.TransferEncoding, req.Header, string(body), err))
	}
	return strings.Join(out, "\n")
}
