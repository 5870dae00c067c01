package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"httpjet/internal/peers"
)

// pebbleVersion is the pinned version of Let's Encrypt's ACME server for tests.
const pebbleVersion = "v2.10.3"

// Names for which certificates are ordered, and how long those of pebble are good: two
// thirds of it pass before they are renewed.
var issuedNames = []string{"one.acme.test", "two.acme.test"}

const issuedFor = 24 * time.Second

// acme has certificates issued and renewed by pebble: over HTTP-01, over TLS-ALPN-01
// with an account that is bound to another one, and by servers that fail (R-ACME-1).
func acme(r *run) error {
	bin := filepath.Join(r.dir, "pebble")
	cmd := exec.CommandContext(r.ctx, "go", "install", "github.com/letsencrypt/pebble/v2/cmd/pebble@"+pebbleVersion)
	cmd.Env, cmd.Dir = append(os.Environ(), "GOBIN="+bin, "GOFLAGS="), r.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pebble: %v: %.500s", err, out)
	}
	names, err := startNames()
	if err != nil {
		return err
	}
	defer names.Close()
	for _, way := range []string{"http-01", "tls-alpn-01"} {
		if err := r.acmeBy(way, filepath.Join(bin, "pebble"), names.Addr().String()); err != nil {
			return err
		}
	}
	return r.acmeFaults()
}

// startNames answers every question for an address with 127.0.0.1, by TCP, over which
// pebble asks.
func startNames() (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go answerNames(c)
			}
		}()
	}
	return l, err
}

func answerNames(c net.Conn) {
	defer c.Close()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		buf := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, buf); err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf) != nil || len(m.Questions) != 1 {
			return
		}
		m.Response, m.Additionals = true, nil
		if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
			m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 60}, Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}}}}
		}
		out, err := m.Pack()
		if err != nil {
			return
		}
		c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...))
	}
}

// acmeTree is the server file of a tree that orders certificates.
func acmeTree(plain, secure, account string) map[string]string {
	maps := "<vhostMapList><vhostMap><vhost>site</vhost><domain>" + strings.Join(issuedNames, ", ") + "</domain></vhostMap></vhostMapList>"
	return map[string]string{
		"conf/httpd_config.xml": `<httpServerConfig><virtualHostList><virtualHost><name>site</name><vhRoot>$SERVER_ROOT</vhRoot><configFile>conf/site.xml</configFile></virtualHost></virtualHostList>
  <acme><enable>1</enable><email>ops@acme.test</email>` + account + `</acme>
  <security><accessControl><allow>127.0.0.1</allow><deny>ALL</deny></accessControl></security>
  <listenerList>
    <listener><name>Plain</name><address>` + plain + `</address><httpsRedirect>301</httpsRedirect>` + maps + `</listener>
    <listener><name>Secure</name><address>` + secure + `</address><secure>1</secure><acmeDomains>` + issuedNames[0] + `</acmeDomains>` + maps + `</listener>
  </listenerList></httpServerConfig>`,
		"conf/site.xml":     "<virtualHostConfig><docRoot>htdocs</docRoot><acmeDomains>" + issuedNames[1] + "</acmeDomains></virtualHostConfig>",
		"htdocs/index.html": "issued\n",
	}
}

// acmeBy has two certificates issued and renewed over one kind of challenge.
func (r *run) acmeBy(way, bin, dns string) error {
	ports := make([]string, 5)
	for i := range ports {
		var err error
		if ports[i], err = peers.FreePort(); err != nil {
			return err
		}
	}
	plain, secure, ca, management, dead := ports[0], ports[1], ports[2], ports[3], ports[4]
	root := filepath.Join(r.dir, "root-acme-"+way)
	cert, key, err := selfSigned()
	if err != nil {
		return err
	}
	httpPort, tlsPort, binding := port(plain), port(dead), map[string]string{}
	account := "<directoryUrl>https://" + ca + "/dir</directoryUrl><caFile>conf/ca/cert.pem</caFile>"
	if way == "tls-alpn-01" {
		httpPort, tlsPort = port(dead), port(secure)
		binding["kid-1"] = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"
		account += "<eabKeyId>kid-1</eabKeyId><eabMacKeyFile>conf/mac</eabMacKeyFile>"
	}
	config, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": ca, "managementListenAddress": management, "certificate": filepath.Join(root, "conf/ca/cert.pem"), "privateKey": filepath.Join(root, "conf/ca/key.pem"),
		"httpPort": httpPort, "tlsPort": tlsPort, "externalAccountBindingRequired": len(binding) > 0, "externalAccountMACKeys": binding, "retryAfter": map[string]int{"authz": 1, "order": 1},
		"profiles": map[string]any{"default": map[string]any{"description": "short", "validityPeriod": int(issuedFor.Seconds())}}}})
	if err != nil {
		return err
	}
	files := acmeTree(plain, secure, account)
	files["conf/ca/cert.pem"], files["conf/ca/key.pem"], files["pebble.json"], files["conf/mac"] = cert, key, string(config), binding["kid-1"]+"\n"
	if err := writeFiles(root, files); err != nil {
		return err
	}
	jet, err := r.start(r.bin, "--root", root, "serve", "--metrics-addr", "")
	if err != nil {
		return err
	}
	defer jet.stop()
	if err := jet.ready(r.ctx, dial("tcp", secure)); err != nil {
		return err
	}
	r.check("acme-"+way+"-starts-without-the-server", func() (string, error) {
		c, err := shown(secure, issuedNames[0])
		if err != nil {
			return "", err
		}
		return "a self-signed certificate until then", c.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature)
	})
	pebble, err := r.start("env", "PEBBLE_VA_NOSLEEP=1", bin, "-config", filepath.Join(root, "pebble.json"), "-dnsserver", dns)
	if err != nil {
		return err
	}
	defer pebble.stop()
	if err := pebble.ready(r.ctx, dial("tcp", ca)); err != nil {
		return err
	}
	// The first order met nobody; a change of the account makes a new one at once.
	if err := writeFiles(root, map[string]string{"conf/httpd_config.xml": strings.Replace(files["conf/httpd_config.xml"], "ops@", "certs@", 1)}); err != nil {
		return err
	}
	jet.cmd.Process.Signal(syscall.SIGHUP)
	serials := map[string]string{}
	wait := func(change bool) error {
		deadline := time.Now().Add(40 * time.Second)
		for _, name := range issuedNames {
			for {
				c, err := shown(secure, name)
				if err == nil && strings.Contains(c.Issuer.CommonName, "Pebble") && slices.Equal(c.DNSNames, []string{name}) &&
					(!change || c.SerialNumber.String() != serials[name]) && time.Now().Before(c.NotAfter) {
					serials[name] = c.SerialNumber.String()
					break
				}
				if time.Now().After(deadline) {
					return fmt.Errorf("%s: %v\n%s\n%s", name, err, jet.out.String(), pebble.out.String())
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
		return nil
	}
	r.check("acme-"+way+"-issued", func() (string, error) {
		return strings.Join(issuedNames, ", "), wait(false)
	})
	r.check("acme-"+way+"-renewed", func() (string, error) {
		return fmt.Sprintf("before %v have passed", issuedFor), wait(true)
	})
	r.check("acme-"+way+"-storage", func() (string, error) { return privateTree(filepath.Join(root, "conf/acme")) })
	return nil
}

func port(addr string) int {
	_, p, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(p)
	return n
}

// shown returns the certificate that a listener shows for a name.
func shown(addr, name string) (*x509.Certificate, error) {
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", addr, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0], nil
}

// privateTree reports anything below dir that others may read.
func privateTree(dir string) (string, error) {
	files := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		files++
		if fi.Mode().Perm()&0o077 != 0 {
			return fmt.Errorf("%s has mode %v", path, fi.Mode())
		}
		return nil
	})
	return fmt.Sprintf("%d files and directories, all for the own user alone", files), err
}

// acmeFaults: a server that stalls or is none keeps neither a start, a reload, an
// answer nor the end waiting.
func (r *run) acmeFaults() error {
	stalls, err := net.Listen("tcp", "127.0.0.1:0") // accepts in the kernel, and never answers
	if err != nil {
		return err
	}
	defer stalls.Close()
	var plain, secure string
	for _, a := range []*string{&plain, &secure} {
		if *a, err = peers.FreePort(); err != nil {
			return err
		}
	}
	root := filepath.Join(r.dir, "root-acme-stalls")
	if err := writeFiles(root, acmeTree(plain, secure, "<directoryUrl>https://"+stalls.Addr().String()+"/dir</directoryUrl>")); err != nil {
		return err
	}
	jet, err := r.start(r.bin, "--root", root, "serve", "--metrics-addr", "")
	if err != nil {
		return err
	}
	if err := jet.ready(r.ctx, dial("tcp", secure)); err != nil {
		jet.stop()
		return err
	}
	r.check("acme-server-stalls", func() (string, error) {
		if _, err := shown(secure, issuedNames[1]); err != nil {
			return "", err
		}
		began := time.Now()
		if err := jet.stop(); err != nil {
			return "", err
		}
		if took := time.Since(began); took > 5*time.Second {
			return "", fmt.Errorf("the end took %v", took)
		}
		if e, ok := errors.AsType[*exec.ExitError](jet.err); ok {
			return "", e
		}
		return "serves, and ends at once", nil
	})
	return nil
}
