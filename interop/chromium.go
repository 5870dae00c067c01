package main

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"httpjet/demo"
	"httpjet/internal/peers"
)

// chromium opens the demonstration in a browser: over HTTP/2, and over HTTP/3 that it is
// told to use from the first request; with a WebSocket, an event stream and a streaming
// fetch over each.
func chromium(r *run) error {
	b := &demo.Backends{}
	if err := b.Start(); err != nil {
		return err
	}
	defer b.Stop()
	j := &jet{root: filepath.Join(r.dir, "root-chromium")}
	var err error
	for _, a := range []*string{&j.http, &j.https, &j.metrics} {
		if *a, err = peers.FreePort(); err != nil {
			return err
		}
	}
	cert, key, err := selfSigned()
	if err != nil {
		return err
	}
	if err := writeFiles(j.root, map[string]string{"conf/cert/cert.pem": cert, "conf/cert/key.pem": key, "logs/empty": ""}); err != nil {
		return err
	}
	if err := demo.Write(j.root, b); err != nil {
		return err
	}
	server, err := secureDemo(filepath.Join(j.root, "conf/httpd_config.xml"), j)
	if err != nil {
		return err
	}
	if err := writeFiles(j.root, map[string]string{"conf/httpd_config.xml": server}); err != nil {
		return err
	}
	if j.process, err = r.start(r.bin, "--root", j.root, "serve", "--metrics-addr", j.metrics); err != nil {
		return err
	}
	defer r.down(j)
	if err := j.ready(r.ctx, j.live); err != nil {
		return err
	}
	pin, err := spki(cert)
	if err != nil {
		return err
	}
	site := "https://localhost:" + j.https[strings.LastIndexByte(j.https, ':')+1:]
	for _, proto := range []string{"h2", "h3"} {
		opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.Flag("ignore-certificate-errors-spki-list", pin),
			chromedp.Flag("enable-quic", proto == "h3"), chromedp.Flag("host-resolver-rules", "MAP localhost 127.0.0.1"))
		if proto == "h3" {
			opts = append(opts, chromedp.Flag("origin-to-force-quic-on", strings.TrimPrefix(site, "https://")))
		}
		if err := r.browse(proto, site, opts); err != nil {
			return err
		}
	}
	return nil
}

// secureDemo returns the server file of the demonstration with the addresses of j and a
// secure listener.
func secureDemo(file string, j *jet) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	text := strings.Replace(string(data), "<address>*:8080</address>", "<address>"+j.http+"</address>", 1)
	begin, end := strings.Index(text, "<listener>"), strings.Index(text, "</listener>")
	if begin < 0 || end < begin || !strings.Contains(text, j.http) {
		return "", errors.New("the demonstration's server file is another one")
	}
	secure := strings.NewReplacer("<name>Default</name>", "<name>Secure</name>", j.http, j.https,
		"<secure>0</secure>", "<secure>1</secure><certFile>$SERVER_ROOT/conf/cert/cert.pem</certFile><keyFile>$SERVER_ROOT/conf/cert/key.pem</keyFile>").Replace(text[begin:end])
	return text[:end] + "</listener>\n" + secure + text[end:], nil
}

// spki is what Chromium knows the key of a certificate by.
func spki(certPEM string) (string, error) {
	block, _ := pem.Decode([]byte(certPEM))
	if block == nil {
		return "", errors.New("no certificate")
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return base64.StdEncoding.EncodeToString(sum[:]), nil
}

// browse opens the page in one browser and asks it what it has got, by what.
func (r *run) browse(proto, site string, opts []chromedp.ExecAllocatorOption) error {
	alloc, cancel := chromedp.NewExecAllocator(r.ctx, opts...)
	defer cancel()
	tab, cancel := chromedp.NewContext(alloc)
	defer cancel()
	tab, cancel = context.WithTimeout(tab, 2*time.Minute)
	defer cancel()
	ask := func(js, want string) (string, error) {
		var out string
		err := chromedp.Run(tab, chromedp.Evaluate("(async () => "+js+")()", &out,
			func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
		if err == nil && out != want {
			err = fmt.Errorf("%.300q, want %q", out, want)
		}
		return out, err
	}
	r.check("page-"+proto, func() (string, error) {
		if err := chromedp.Run(tab, chromedp.Navigate(site+"/"), chromedp.WaitReady("body", chromedp.ByQuery)); err != nil {
			return "", err
		}
		return ask(`[...new Set([...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
			.filter(e => !e.name.includes("/app/")).map(e => e.nextHopProtocol))].join(" ")`, proto)
	})
	r.check("websocket-"+proto, func() (string, error) {
		return ask(`new Promise((ok, no) => { const s = new WebSocket(location.origin.replace("https", "wss") + "/ws");
			s.onopen = () => s.send("ping over `+proto+`"); s.onerror = () => no(new Error("the WebSocket fails"));
			s.onmessage = e => { if (String(e.data).includes("ping over")) { s.close(); ok("echoed"); } } })`, "echoed")
	})
	r.check("events-"+proto, func() (string, error) {
		return ask(`new Promise((ok, no) => { const s = new EventSource("/app/events?count=3"); let n = 0;
			s.onerror = () => no(new Error("the event stream fails behind " + n)); s.onmessage = () => { if (++n === 3) { s.close(); ok("3 events"); } } })`, "3 events")
	})
	r.check("fetch-stream-"+proto, func() (string, error) {
		return ask(`{ const got = await fetch("/app/bytes?n=10485760"); let n = 0;
			for (const r = got.body.getReader();;) { const {done, value} = await r.read(); if (done) break; n += value.length; }
			const up = await fetch("/app/echo", {method: "POST", duplex: "half", body: new ReadableStream({ start(c) {
				const e = new TextEncoder(); for (let i = 0; i < 10; i++) c.enqueue(e.encode("part ")); c.close(); } })});
			return n + " " + (await up.text()).includes("50 bytes"); }`, "10485760 true")
	})
	return nil
}
