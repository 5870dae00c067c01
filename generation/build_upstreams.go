package generation

import (
	"crypto/tls"
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

// buildUpstreamTLS reads the files of an <upstreamTLS> (R-UP-3). One that cannot
// be used leaves nothing to fall back to: what names the processor answers 503.
func (b *builder) buildUpstreamTLS(p *processor) {
	t := p.decl.UpstreamTLS
	conf, id, err := tlsconf.LoadClient(tlsconf.ClientOptions{CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile, NoVerify: !t.Verify})
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
