package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
)

//go:embed assets/h2-server.js
var h2ServerJS string

// nodeHTTP2 puts httpjet in front of Node's HTTP/2 server, in clear text and over
// TLS.
func nodeHTTP2(r *run) error {
	cert, key, err := selfSigned()
	if err != nil {
		return err
	}
	if err := writeFiles(r.node, map[string]string{"h2.js": h2ServerJS, "h2-cert.pem": cert, "h2-key.pem": key}); err != nil {
		return err
	}
	at := func(name string) string { return filepath.Join(r.node, name) }
	p, err := r.start("node", at("h2.js"), at("h2-cert.pem"), at("h2-key.pem"))
	if err != nil {
		return err
	}
	defer p.stop()
	ports := map[string]string{}
	if err := p.ready(r.ctx, func() error {
		for _, m := range regexp.MustCompile(`(plain|secure) (\d+)\n`).FindAllStringSubmatch(p.out.String(), -1) {
			ports[m[1]] = m[2]
		}
		if len(ports) < 2 {
			return errors.New("the ports are not known yet")
		}
		return nil
	}); err != nil {
		return err
	}
	j, err := r.serve(tree{name: "nodes", secure: true, files: map[string]string{"conf/cert/node.pem": cert},
		tuning: "<sslDefaultCAFile>conf/cert/node.pem</sslDefaultCAFile>", vhost: strings.NewReplacer("{{plain}}", ports["plain"], "{{secure}}", ports["secure"]).Replace(`
  <docRoot>$VH_ROOT/htdocs</docRoot>
  <extProcessorList>
    <extProcessor><type>proxy</type><name>plain</name><address>h2://127.0.0.1:{{plain}}</address></extProcessor>
    <extProcessor><type>proxy</type><name>trusted</name><address>h2s://127.0.0.1:{{secure}}</address></extProcessor>
    <extProcessor><type>proxy</type><name>secure</name><address>h2s://127.0.0.1:{{secure}}</address>
      <upstreamTLS><caFile>conf/cert/node.pem</caFile><serverName>localhost</serverName></upstreamTLS></extProcessor>
  </extProcessorList>
  <contextList>
    <context><type>proxy</type><uri>/n/</uri><handler>plain</handler></context>
    <context><type>proxy</type><uri>/t/</uri><handler>trusted</handler><stripPrefix>/t</stripPrefix></context>
    <context><type>proxy</type><uri>/s/</uri><handler>secure</handler><stripPrefix>/s</stripPrefix></context>
  </contextList>`)})
	if err != nil {
		return err
	}
	defer r.down(j)
	h2, err := j.secure(false)
	if err != nil {
		return err
	}
	h1 := j.plain()
	for _, c := range []struct {
		name string
		*client
	}{{"h1", h1}, {"h2", h2}} {
		r.check("get-"+c.name, func() (string, error) { return nodeGet(c.client, j) })
		r.check("post-8M-"+c.name, func() (string, error) { return nodeEcho(c.client) })
		r.check("trailers-and-hint-"+c.name, func() (string, error) { return nodeTrailers(c.client) })
		r.check("reset-cuts-"+c.name, func() (string, error) { return nodeReset(c.client) })
	}
	r.check("refused-stream-moves", func() (string, error) {
		a, err := h1.get("/n/refuse", 200)
		if err == nil {
			err = holds(a, "taken\n")
		}
		return "taken by another connection", err
	})
	n := r.pick(500, 5000)
	r.check("goaway-under-load", func() (string, error) { return nodeGoAway(h1, n) })
	return nil
}

// nodeGet asks over clear text and over TLS.
func nodeGet(c *client, j *jet) (string, error) {
	for path, scheme := range map[string]string{"/n/get": "http", "/s/n/get": "https", "/t/n/get": "https"} {
		a, err := c.get(path, 200)
		if err != nil {
			return "", err
		}
		if err := holds(a, "from node\n"); err != nil {
			return "", err
		}
		if a.Header.Get("X-Scheme") != scheme || !strings.HasPrefix(a.Header.Get("X-Authority"), "127.0.0.1:") || len(a.Header["Set-Cookie"]) != 2 {
			return "", fmt.Errorf("%s: %v", path, a.Header)
		}
	}
	return "in clear text and over TLS, its name verified, by a caFile of its own and by sslDefaultCAFile", nil
}

func nodeEcho(c *client) (string, error) {
	data := noise(8 << 20)
	for _, length := range []int64{int64(len(data)), -1} {
		a, err := want(200)(c.send("POST", "/n/echo", unsized(data), length))
		if err != nil {
			return "", err
		}
		if err := same(a.body, data); err != nil {
			return "", err
		}
	}
	return "echoed while it was sent, with and without a declared length", nil
}

func nodeTrailers(c *client) (string, error) {
	var hints atomic.Int32
	req, err := http.NewRequest("GET", c.base+"/n/trailers", nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("TE", "trailers")
	resp, err := c.Do(req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(status int, h textproto.MIMEHeader) error {
			if status == 103 && h.Get("Link") != "" {
				hints.Add(1)
			}
			return nil
		}})))
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	if string(body) != "body" || resp.Header.Get("X-Te") != "trailers" || resp.Trailer.Get("Grpc-Status") != "0" || resp.Trailer.Get("X-Sum") != "9" || hints.Load() != 1 {
		return "", fmt.Errorf("%q, te %q, %v, %d hints", body, resp.Header.Get("X-Te"), resp.Trailer, hints.Load())
	}
	return "two that nobody announced", nil
}

func nodeReset(c *client) (string, error) {
	resp, err := c.Get(c.base + "/n/reset")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err == nil {
		return "", fmt.Errorf("%q looks complete", body)
	}
	return "", nil
}

// nodeGoAway asks while connections end by GOAWAY after 25 streams: streams that
// were not processed go to the next connection.
func nodeGoAway(c *client, n int) (string, error) {
	var left, failed atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	var first error
	var once sync.Once
	for range 20 {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				a, err := c.get("/n/last", 200)
				if err == nil {
					err = holds(a, "served\n")
				}
				if err != nil {
					failed.Add(1)
					once.Do(func() { first = err })
				}
			}
		})
	}
	wg.Wait()
	if failed.Load() > 0 {
		return "", fmt.Errorf("%d of %d failed, the first with %v", failed.Load(), n, first)
	}
	a, err := c.get("/n/seen", 200)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d requests, none failed; %s", n, a.body), nil
}
