package generation

import (
	"crypto/tls"
	"slices"
	"strings"

	"httpjet/acme"
	"httpjet/contexts"
	"httpjet/domains"
	"httpjet/tlsconf"
	"httpjet/xmlconf"
)

// buildACME reads what there is to know of the account for automatic certificates
// (R-ACME-1). Nothing is asked of anybody.
func (b *builder) buildACME() {
	c := b.cfg.Server.Acme
	if c == nil || !c.Enable {
		return
	}
	o := acme.Options{Dir: c.CacheDir, Directory: c.DirectoryURL, Email: c.Email, EABKeyID: c.EABKeyID}
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
		for _, name := range i.b.issued(h.Conf.AcmeDomains, h.Conf.At("acmeDomains")) {
			i.add(name, h, h.Conf.At("acmeDomains"))
		}
	}
	for _, name := range i.b.issued(i.l.AcmeDomains, i.l.At("acmeDomains")) {
		h, _ := mapped.Find(name)
		i.add(name, h, i.l.At("acmeDomains"))
	}
}

// issued returns the names of an acmeDomains, none if nothing is issued.
func (b *builder) issued(list []string, at xmlconf.Place) (names []string) {
	if len(list) > 0 && !b.acme {
		b.warnOnce("W-ACME", at, "write <acme><enable>1</enable><email>...</email></acme> in the server file", "acmeDomains: acme is not enabled, so no certificate is issued")
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
	m := i.b.kept.ACME
	if err := tlsconf.Issued(conf, name, i.names.Of(name), func() *tls.Certificate { return m.Certificate(name) }); err != nil {
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
