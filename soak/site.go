package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"html"
	"math/big"
	"net"
	"net/http"
	"net/http/fcgi"
	"os"
	"path/filepath"
	"strings"
	"time"

	"httpjet/internal/peers"
)

// A site is what httpjet serves: a tree of files, and the upstreams behind it.
type site struct {
	root                          string
	plain, secure, extra, metrics string // addresses
	roots                         *x509.CertPool

	app, second, ws, frail, left, right, fcgi *peers.Mortal
}

// files are the static files, by name, with their sizes.
var files = map[string]int{"empty.txt": 0, "small.txt": 10, "page.html": 4 << 10, "style.css": 100 << 10, "large.bin": 3 << 20}

// Times of the configuration that expectations rest on.
const (
	keepAlive = 10 * time.Second // of idle connections
	grace     = 30 * time.Second // for what an upgrade leaves behind
	cacheTime = 2 * time.Second  // of cached answers
	staleTime = 10 * time.Second // after that, while one is made anew: maxStaleAge
)

func (s *site) open(dir string) error {
	s.root = filepath.Join(dir, "root")
	if err := os.MkdirAll(filepath.Join(s.root, "run"), 0o755); err != nil {
		return err
	}
	for _, m := range []**peers.Mortal{&s.app, &s.second, &s.frail, &s.left, &s.right} {
		*m = &peers.Mortal{Network: "tcp", Serve: func(l net.Listener) { http.Serve(l, http.HandlerFunc(origin)) }}
	}
	s.ws = &peers.Mortal{Network: "tcp", Serve: func(l net.Listener) { http.Serve(l, http.HandlerFunc(peers.EchoMessages)) }}
	s.fcgi = &peers.Mortal{Network: "unix", Address: filepath.Join(s.root, "run/app.sock"),
		Serve: func(l net.Listener) { fcgi.Serve(l, http.HandlerFunc(origin)) }}
	for _, m := range s.mortals() {
		if err := m.Up(); err != nil {
			return err
		}
	}
	return nil
}

func (s *site) mortals() []*peers.Mortal {
	return []*peers.Mortal{s.app, s.second, s.ws, s.frail, s.left, s.right, s.fcgi}
}

func (s *site) close() {
	for _, m := range s.mortals() {
		m.Down()
	}
}

const serverFile = `<httpServerConfig>
  <tuning><keepAliveTimeout>{{keep}}</keepAliveTimeout><gracefulShutdownTimeout>{{grace}}</gracefulShutdownTimeout><tunnelCloseDelay>0</tunnelCloseDelay><enableGzipCompress>1</enableGzipCompress></tuning>
  <cache><cacheEngine>1</cacheEngine><cachePolicy><maxStaleAge>10</maxStaleAge></cachePolicy><storage><cacheStorePath>$SERVER_ROOT/cachedata</cacheStorePath></storage></cache>
  <logging><log><fileName>$SERVER_ROOT/logs/error.log</fileName><logLevel>INFO</logLevel></log>
    <accessLog><fileName>$SERVER_ROOT/logs/access.log</fileName><rollingSize>1M</rollingSize><compressArchive>1</compressArchive><logFormat>{{line}}</logFormat></accessLog></logging>
  <virtualHost><name>soak</name><vhRoot>$SERVER_ROOT</vhRoot><configFile>conf/soak.xml</configFile></virtualHost>
  <listener><name>Plain</name><address>{{plain}}</address>{{map}}</listener>
  <listener><name>Secure</name><address>{{secure}}</address><secure>1</secure><keyFile>$SERVER_ROOT/conf/key.pem</keyFile><certFile>$SERVER_ROOT/conf/cert.pem</certFile>{{map}}</listener>
{{extra}}</httpServerConfig>
`

const hostFile = `<virtualHostConfig>
  <docRoot>$VH_ROOT/html/</docRoot>
  <extProcessor><type>proxy</type><name>app</name><address>{{app}}</address><address>{{second}}</address><loadBalancePolicy>weighted-round-robin</loadBalancePolicy><addressWeights>{{weights}}</addressWeights></extProcessor>
  <extProcessor><type>proxy</type><name>frail</name><address>{{frail}}</address><retryTimeout>1</retryTimeout></extProcessor>
  <extProcessor><type>proxy</type><name>pair</name><address>{{left}}</address><address>{{right}}</address><retryTimeout>1</retryTimeout><retry><retries>2</retries></retry></extProcessor>
  <extProcessor><type>fcgi</type><name>fcgi</name><address>uds://$VH_ROOT/run/app.sock</address><maxConns>200</maxConns></extProcessor>
  <context><type>proxy</type><uri>/app/</uri><handler>app</handler></context>
  <context><type>proxy</type><uri>/kept/</uri><handler>app</handler><proxyCache><enable>1</enable></proxyCache></context>
  <context><type>proxy</type><uri>/frail/</uri><handler>frail</handler></context>
  <context><type>proxy</type><uri>/pair/</uri><handler>pair</handler></context>
  <context><type>fcgi</type><uri>/fcgi/</uri><handler>fcgi</handler></context>
  <context><type>static</type><uri>/version{{version}}/</uri></context>
  <websocket><uri>/ws</uri><address>{{ws}}</address></websocket>
</virtualHostConfig>
`

// write makes the tree, with ports that are free now.
func (s *site) write() error {
	for _, a := range []*string{&s.plain, &s.secure, &s.extra, &s.metrics} {
		var err error
		if *a, err = peers.FreePort(s.plain, s.secure, s.extra, s.metrics); err != nil {
			return err
		}
	}
	cert, key, err := s.selfSigned()
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"conf/cert.pem": cert, "conf/key.pem": key} {
		if err := s.put(name, []byte(text)); err != nil {
			return err
		}
	}
	for name, n := range files {
		if err := s.put("html/"+name, content(name, n)); err != nil {
			return err
		}
	}
	return s.configure(0)
}

// configure writes the configuration, each version with another weight, another context,
// and every other one with a listener more.
func (s *site) configure(version int) error {
	const hosts = "<vhostMapList><vhostMap><vhost>soak</vhost><domain>*</domain></vhostMap></vhostMapList>"
	extra := ""
	if version%2 == 0 {
		extra = "  <listener><name>Extra</name><address>{{extra}}</address>{{map}}</listener>\n"
	}
	fill := strings.NewReplacer("{{keep}}", fmt.Sprint(keepAlive.Seconds()), "{{grace}}", fmt.Sprint(grace.Seconds()),
		"{{plain}}", s.plain, "{{secure}}", s.secure, "{{extra}}", s.extra, "{{map}}", hosts, "{{line}}", html.EscapeString(lineFormat),
		"{{app}}", s.app.Address, "{{second}}", s.second.Address, "{{frail}}", s.frail.Address, "{{left}}", s.left.Address, "{{right}}", s.right.Address,
		"{{ws}}", s.ws.Address, "{{weights}}", fmt.Sprintf("%d,2", 1+version%3), "{{version}}", fmt.Sprint(version))
	if err := s.put("conf/soak.xml", []byte(fill.Replace(hostFile))); err != nil {
		return err
	}
	return s.put("conf/httpd_config.xml", []byte(fill.Replace(strings.Replace(serverFile, "{{extra}}", extra, 1))))
}

// put writes a file in one step.
func (s *site) put(name string, text []byte) error {
	path := filepath.Join(s.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if strings.HasSuffix(name, "key.pem") {
		mode = 0o600
	}
	if err := os.WriteFile(path+".new", text, mode); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// selfSigned makes a certificate for loopback, which clients trust, and its key.
func (s *site) selfSigned() (cert, key string, err error) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "httpjet soak"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		return "", "", err
	}
	kder, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		return "", "", err
	}
	pemOf := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	s.roots = x509.NewCertPool()
	s.roots.AppendCertsFromPEM([]byte(pemOf("CERTIFICATE", der)))
	return pemOf("CERTIFICATE", der), pemOf("PRIVATE KEY", kder), nil
}
