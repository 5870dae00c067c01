package generation

import (
	"crypto/tls"
	"slices"
	"strconv"
	"strings"
	"time"

	"httpjet/tlsconf"
	"httpjet/xmlconf"
)

// listenerSpec says where a listener binds. "*" is every address, of IPv6 too
// unless another listener has the port on [ANY] (R-LSN-1).
func (b *builder) listenerSpec(l *xmlconf.Listener) (Listener, bool) {
	at := l.Bind
	if at.Port == 0 {
		b.g.Degraded = append(b.g.Degraded, "listener "+l.Name+" has no usable address")
		return Listener{}, false // xmlconf said so
	}
	spec := Listener{Name: l.Name, Secure: l.Secure, Network: "tcp", Address: at.String(), At: l.At("address")}
	if at.Host == "" {
		spec.Address = ":" + strconv.Itoa(int(at.Port))
		switch {
		case at.V6:
			spec.Network, spec.Address = "tcp6", "[::]"+spec.Address
		case b.hasIPv6(at.Port):
			spec.Network, spec.Address = "tcp4", "0.0.0.0"+spec.Address
		}
	}
	return spec, true
}

func (b *builder) hasIPv6(port uint16) bool {
	return slices.ContainsFunc(b.cfg.Server.Listeners, func(l *xmlconf.Listener) bool {
		return l.Bind.Port == port && (l.Bind.V6 || strings.Contains(l.Bind.Host, ":"))
	})
}

// buildTLS loads the certificates of a secure listener: its own, and those of
// the hosts that it maps, by the domains that it maps them to. False if no
// handshake could succeed: the listener is then not opened (R-CFG-5).
func (b *builder) buildTLS(l *xmlconf.Listener, key string) bool {
	names := &tlsconf.Names{Strict: b.cfg.Server.Tuning.SSLStrictSNI}
	usable := false
	if !b.hasPair(&l.TLS, &l.Block) {
		b.fs.Info("I-NOCERT", l.Where, "", "listener %q has no certificate of its own", l.Name)
	} else if conf := b.loadCert(&l.TLS, l.SSLProtocol, l.EnableSpdy, &l.Block); conf != nil {
		names.Default, usable = conf, true
	}
	certs, hosts := map[*xmlconf.Host]*tls.Config{}, map[string]*xmlconf.Host{}
	for _, h := range b.cfg.VHosts {
		hosts[h.Name] = h
	}
	for _, m := range b.cfg.Mappings(l) { // as mapHosts: the certificate is that of the host which answers
		h := hosts[m.VHost]
		if h == nil {
			continue // mapHosts said so
		}
		conf, known := certs[h]
		if !known {
			conf = b.hostCert(h, l)
			certs[h] = conf
		}
		usable = usable || conf != nil
		for _, d := range m.Domains {
			names.Add(d, conf)
		}
	}
	if !usable {
		b.fs.Error("E-CERT", l.Where, "write keyFile and certFile of a matching pair", "secure listener %q has no usable certificate; it is not opened", l.Name)
		return false
	}
	b.g.tls[key] = names
	return true
}

// hostCert loads the vhssl certificate of a host, nil if it has none or it
// cannot be used: the listener's then serves.
func (b *builder) hostCert(h *xmlconf.Host, l *xmlconf.Listener) *tls.Config {
	if h.Conf == nil || h.Conf.VHSSL == nil || !b.hasPair(&h.Conf.VHSSL.TLS, &h.Conf.VHSSL.Block) {
		return nil
	}
	ssl := h.Conf.VHSSL
	spdy := l.EnableSpdy
	if ssl.Written("enableSpdy") {
		spdy = ssl.EnableSpdy
	}
	return b.loadCert(&ssl.TLS, l.SSLProtocol, spdy, &ssl.Block)
}

// hasPair reports whether a certificate is named; half of one is told.
func (b *builder) hasPair(t *xmlconf.TLS, at *xmlconf.Block) bool {
	if (t.CertFile == "") != (t.KeyFile == "") {
		b.fs.Error("E-CERT", at.Where, "write both, or neither", "certFile and keyFile belong together: one of them is missing")
	}
	return t.CertFile != "" && t.KeyFile != ""
}

func (b *builder) loadCert(t *xmlconf.TLS, protocols, spdy int, at *xmlconf.Block) *tls.Config {
	o := tlsconf.Options{CertFile: t.CertFile, KeyFile: t.KeyFile, Protocols: protocols, Spdy: spdy, Seen: b.input}
	if t.CertChain && t.CACertFile != "" {
		o.ChainFile = t.CACertFile
	}
	conf, err := tlsconf.Load(o)
	if err != nil {
		b.fs.Error("E-CERT", at.At("certFile"), "check that both files exist, are readable and belong together", "%v", err)
		b.g.Degraded = append(b.g.Degraded, err.Error())
		return nil
	}
	if leaf := conf.Certificates[0].Leaf; leaf != nil && time.Until(leaf.NotAfter) < expirySoon {
		b.fs.Warn("W-CERT-EXPIRY", at.At("certFile"), "renew it and reload", "certificate %s ends at %s", t.CertFile, leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return conf
}

// expirySoon is the rest of a certificate's life that is warned of (R-CHECK-5).
const expirySoon = 14 * 24 * time.Hour
