package generation

import (
	"crypto/tls"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"httpjet/acme"
	"httpjet/contexts"
	"httpjet/domains"
	"httpjet/staples"
	"httpjet/tlsconf"
	"httpjet/xmlconf"
)

// buildACME reads what there is to know of the account for automatic certificates
// (R-ACME-1). Nothing is asked of anybody.
func (b *builder) buildACME() {
	c := b.cfg.Server.Acme
	if c == nil {
		c = &xmlconf.Acme{CacheDir: filepath.Join(b.cfg.Root, "conf/acme")}
	}
	if on := b.cfg.Server.Tuning.Acme > 0 && !c.Written("enable"); !c.Enable && !on {
		return
	}
	o := acme.Options{Dir: c.CacheDir, Directory: c.DirectoryURL, Email: c.Email, EABKeyID: c.EABKeyID}
	if admins := b.cfg.Server.AdminEmails; o.Email == "" && len(admins) > 0 {
		o.Email = admins[0]
	}
	if c.CAFile != "" {
		data, err := tlsconf.ReadFile(c.CAFile, b.input)
		if err != nil {
			b.fs.Fatal("E-STRICT", c.At("caFile"), "", "acme: caFile %v", err)
			return
		}
		o.Roots = string(data)
	}
	if c.EABKeyFile != "" {
		data, err := tlsconf.ReadFile(c.EABKeyFile, b.input)
		if err != nil {
			b.fs.Fatal("E-STRICT", c.At("eabMacKeyFile"), "", "acme: eabMacKeyFile %v", err)
			return
		}
		o.EABMACKey = strings.TrimRight(strings.TrimSpace(string(data)), "=")
	}
	if err := o.Check(); err != nil {
		b.fs.Fatal("E-STRICT", c.Where, "", "acme: %v", err)
		return
	}
	o.Plain = slices.ContainsFunc(b.cfg.Server.Listeners, func(l *xmlconf.Listener) bool { return !l.Secure })
	b.g.ACME, b.acme = o, true
	b.g.acme = b.kept.ACME
	if m := b.kept.ACME; m != nil {
		b.g.table.Proof = m.Response
	}
}

// issuer gives names of acmeDomains of one listener certificates that are issued.
type issuer struct {
	b     *builder
	l     *xmlconf.Listener
	key   string
	names *tlsconf.Names
	asked *contexts.Certificates
	quic  bool // the listener may have HTTP/3
	any   bool // a name has such a certificate
}

// issue does so for the listener's own names, and for those of hosts that it maps.
func (i *issuer) issue(hosts map[string]*xmlconf.Host) {
	mapped := &domains.Map[*xmlconf.Host]{}
	var list []*xmlconf.Host
	for _, m := range i.b.cfg.Mappings(i.l) {
		h := hosts[m.VHost]
		if h == nil {
			continue
		}
		for _, d := range m.Domains {
			mapped.Add(d, h)
		}
		if h.Conf != nil && !slices.Contains(list, h) {
			list = append(list, h)
		}
	}
	for _, h := range list {
		for _, name := range i.b.issued(h.Conf.AcmeDomains, h.Conf.At("acmeDomains"), "acmeDomains") {
			i.add(name, h, h.Conf.At("acmeDomains"))
		}
		on, at := i.b.wantsIssued(h)
		if !on {
			continue
		}
		names := i.b.exactNames(h, i.l)
		if ssl := h.Conf.VHSSL; len(names) == 0 && ssl != nil && ssl.Acme != nil && ssl.Acme.Enabled == 2 {
			i.b.warnOnce("W-ACME", at, "map the host by exact names", "vhssl acme: listener %q maps no exact name to the host, so no certificate is issued there", i.l.Name)
		}
		for _, name := range i.b.issued(names, at, "vhssl acme") {
			if mapped, _ := mapped.Find(name); mapped == h { // another host may have the name by an earlier map
				i.add(name, h, at)
			}
		}
	}
	for _, name := range i.b.issued(i.l.AcmeDomains, i.l.At("acmeDomains"), "acmeDomains") {
		h, _ := mapped.Find(name)
		i.add(name, h, i.l.At("acmeDomains"))
	}
}

// wantsIssued reports whether the names of a host are to have issued certificates, by
// acme of its vhssl and of the server's tuning, and where that is written. Certificate
// files come first.
func (b *builder) wantsIssued(h *xmlconf.Host) (on bool, at xmlconf.Place) {
	t := &b.cfg.Server.Tuning
	on, at = t.Acme == 2 && b.acme, t.At("acme")
	if h.Conf == nil || h.Conf.VHSSL == nil {
		return on, at
	}
	ssl := h.Conf.VHSSL
	own := false
	if a := ssl.Acme; a != nil && a.Enabled > 0 {
		on, at, own = a.Enabled == 2, a.At("enabled"), true
	}
	if on && (ssl.CertFile != "" || ssl.KeyFile != "") {
		if own {
			b.warnOnce("W-ACME", at, "remove certFile and keyFile, or acme", "vhssl acme: the host has certificate files, so no certificate is issued")
		}
		return false, at
	}
	return on, at
}

// exactNames returns the names that a listener maps to a host and that a certificate can
// be issued for: no patterns, addresses or names of one label.
func (b *builder) exactNames(h *xmlconf.Host, l *xmlconf.Listener) (names []string) {
	for _, d := range b.domainsOf(h, l) {
		d = strings.ToLower(strings.TrimSuffix(d, "."))
		if strings.Contains(d, ".") && !strings.ContainsAny(d, "*?:[") && net.ParseIP(d) == nil {
			names = append(names, d)
		}
	}
	return names
}

// issued returns names that are to be issued in lower case, none if nothing is issued.
// what asks for them.
func (b *builder) issued(list []string, at xmlconf.Place, what string) (names []string) {
	if len(list) > 0 && !b.acme {
		b.warnOnce("W-ACME", at, "write <acme><enable>1</enable><email>...</email></acme> in the server file", "%s: acme is not enabled, so no certificate is issued", what)
		return nil
	}
	for _, name := range list {
		names = append(names, strings.ToLower(name))
	}
	return names
}

// add gives one name the settings of its host, which may be nil.
func (i *issuer) add(name string, h *xmlconf.Host, at xmlconf.Place) {
	verify, spdy, quic := i.asked.Listener, i.l.EnableSpdy, true
	var ssl *xmlconf.VHSSL
	if h != nil {
		verify = i.asked.Hosts[i.b.hosts[h.Name]]
		spdy, quic = ownQUIC(h, i.l)
		if h.Conf != nil {
			ssl = h.Conf.VHSSL
		}
	}
	conf := tlsconf.Settings(i.b.tlsOptions(i.l, ssl, verify))
	if err := tlsconf.Issued(conf, name, i.names.Of(name), i.certificate(name, ssl)); err != nil {
		i.b.fs.Error("E-CERT", at, "", "acmeDomains: %s: %v", name, err)
		return
	}
	i.names.AddExact(name, conf)
	if i.quic && i.b.allowQUIC(i.names, conf, spdy, quic) {
		i.b.g.quic[i.key] = true
	}
	if i.any = true; !slices.Contains(i.b.g.ACMENames, name) {
		i.b.g.ACMENames = append(i.b.g.ACMENames, name)
	}
}

// certificate returns what a name shows: what is issued for it, with an OCSP response
// where those are wanted and can be had.
func (i *issuer) certificate(name string, ssl *xmlconf.VHSSL) func() *tls.Certificate {
	m, stapled, t := i.b.kept.ACME, &i.b.kept.Issued, &i.l.TLS
	if ssl != nil && ssl.Written("enableStapling") {
		t = &ssl.TLS
	}
	if !t.Stapling {
		return func() *tls.Certificate { return m.Certificate(name) }
	}
	o := staples.Options{Responder: t.OCSPResponder, MaxAge: t.OCSPMaxAge}
	return func() *tls.Certificate {
		cert := m.Certificate(name)
		if cert == nil {
			return nil
		}
		der := stapled.Response(name, cert, o)
		if der == nil {
			return cert
		}
		with := *cert
		with.OCSPStaple = der
		return &with
	}
}
