package generation

import (
	"crypto/tls"
	"crypto/x509"
	"time"

	"httpjet/extproc"
	"httpjet/probes"
	"httpjet/tlsconf"
)

// ProxyClient is a client of a proxy processor, whatever its protocol.
type ProxyClient interface {
	extproc.Client
	extproc.Expirer
	probes.Prober
}

// newProxyClient makes the client of t; base is what its peers' TLS adds to the
// defaults, nil for nothing.
func newProxyClient(d *extproc.Dialer, t extproc.Target, base *tls.Config) ProxyClient {
	if t.Scheme == extproc.H2 || t.Scheme == extproc.H2S {
		return d.H2(t, base)
	}
	return d.H1(t, base)
}

var schemes = map[string]extproc.Scheme{"http": extproc.H1, "https": extproc.H1S, "h2": extproc.H2, "h2s": extproc.H2S}

// trust is what upstreams over TLS are verified by that say nothing of it: sslDefaultCAFile
// and sslDefaultCAPath, else the system's roots.
type trust struct {
	conf  *tls.Config // nil: the system's
	id    string      // of conf
	fault string      // why nobody is to be trusted; "": nothing is wrong
}

// of returns the TLS of a scheme, nil for the defaults, and its identity.
func (t *trust) of(s extproc.Scheme) (*tls.Config, string) {
	if !isSecure(s) {
		return nil, ""
	}
	return t.conf, t.id
}

func isSecure(s extproc.Scheme) bool { return s == extproc.H1S || s == extproc.H2S }

// buildTrust reads the authorities of tuning. If they cannot be used, processors that
// need them answer 503, and what no processor describes finds no certificate good.
func (b *builder) buildTrust() {
	t := &b.cfg.Server.Tuning
	conf, id, err := tlsconf.LoadClient(tlsconf.ClientOptions{CAFile: t.SSLDefaultCAFile, CAPath: t.SSLDefaultCAPath, Seen: b.input})
	if err == nil {
		if id != "" {
			b.trust = trust{conf: conf, id: id}
		}
		return
	}
	b.trust = trust{conf: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}, id: "nobody",
		fault: "the authorities of sslDefaultCAFile and sslDefaultCAPath cannot be used"}
	at := t.At("sslDefaultCAFile")
	if t.SSLDefaultCAFile == "" {
		at = t.At("sslDefaultCAPath")
	}
	b.fs.Error("E-CERT", at, "name a readable file or directory with certificates in PEM, or leave it out for the system's",
		"sslDefaultCAFile, sslDefaultCAPath: %v; upstreams over TLS that name no caFile answer 503", err)
	b.g.Degraded = append(b.g.Degraded, "sslDefaultCAFile: "+err.Error())
}

// buildUpstreamTLS reads the files of an <upstreamTLS> (R-UP-3). One that cannot
// be used leaves nothing to fall back to: what names the processor answers 503.
func (b *builder) buildUpstreamTLS(p *processor) {
	t := p.decl.UpstreamTLS
	o := tlsconf.ClientOptions{CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile, NoVerify: !t.Verify, Seen: b.input}
	if t.CAFile == "" && t.Verify {
		if p.fault = b.trust.fault; p.fault != "" {
			return
		}
		o.CAFile, o.CAPath = b.cfg.Server.Tuning.SSLDefaultCAFile, b.cfg.Server.Tuning.SSLDefaultCAPath
	}
	conf, id, err := tlsconf.LoadClient(o)
	if err != nil {
		p.fault = "its upstreamTLS cannot be used"
		b.fs.Error("E-CERT", t.Where, "check that the files exist, are readable and belong together",
			"extProcessor %q: upstreamTLS: %v; what names it answers 503", p.decl.Name, err)
		b.g.Degraded = append(b.g.Degraded, "extProcessor "+p.decl.Name+": "+err.Error())
		return
	}
	p.tls, p.tlsID = conf, id
	if len(conf.Certificates) == 0 {
		return
	}
	if leaf := conf.Certificates[0].Leaf; leaf != nil && time.Until(leaf.NotAfter) < expirySoon {
		b.fs.Warn("W-CERT-EXPIRY", t.At("certFile"), "renew it and reload", "certificate %s ends at %s", t.CertFile, leaf.NotAfter.UTC().Format(time.RFC3339))
	}
}
