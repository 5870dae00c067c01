package generation

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"httpjet/contexts"
	"httpjet/staples"
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
	hosts := map[string]*xmlconf.Host{}
	for _, h := range b.cfg.VHosts {
		hosts[h.Name] = h
	}
	verify, ok := b.loadVerify(&l.TLS, &l.Block)
	if !ok {
		b.fs.Error("E-CERT", l.Where, "write CACertFile", "secure listener %q cannot tell whose client certificates are good; it is not opened", l.Name)
		return false
	}
	if !b.hasPair(&l.TLS, &l.Block) {
		b.fs.Info("I-NOCERT", l.Where, "", "listener %q has no certificate of its own", l.Name)
	} else if conf := b.loadCert(&l.TLS, b.tlsOptions(l, nil, verify), &l.Block, b.leftToListener(l, hosts)); conf != nil {
		names.Default, usable = conf, true
	}
	certs := map[*xmlconf.Host]*tls.Config{}
	asked := contexts.Certificates{Listener: verify, Hosts: map[*contexts.VHost]*tlsconf.Verify{}}
	for _, m := range b.cfg.Mappings(l) { // as mapHosts: the certificate is that of the host which answers
		h := hosts[m.VHost]
		if h == nil {
			continue // mapHosts said so
		}
		conf, known := certs[h]
		if !known {
			var own *tlsconf.Verify
			conf, own = b.hostCert(h, l, verify)
			certs[h], asked.Hosts[b.hosts[h.Name]] = conf, own
		}
		usable = usable || conf != nil
		for _, d := range m.Domains {
			names.Add(d, conf)
		}
	}
	quic := l.EnableQuic && b.g.HTTP3.QuicEnable
	is := &issuer{b: b, l: l, key: key, names: names, asked: &asked, quic: quic}
	if is.issue(hosts); !usable && !is.any {
		b.fs.Error("E-CERT", l.Where, "write keyFile and certFile of a matching pair", "secure listener %q has no usable certificate; it is not opened", l.Name)
		return false
	}
	b.g.tls[key] = names
	if quic && b.allowQUIC(names, names.Default, l.EnableSpdy, true) {
		b.g.quic[key] = true
	}
	for h, conf := range certs {
		if spdy, ok := ownQUIC(h, l); quic && b.allowQUIC(names, conf, spdy, ok) {
			b.g.quic[key] = true
		}
	}
	b.require(key, &asked)
	return true
}

// allowQUIC opens conf for HTTP/3 as the switches say, and reports whether it did.
func (b *builder) allowQUIC(names *tlsconf.Names, conf *tls.Config, spdy int, enabled bool) bool {
	return enabled && spdy&tlsconf.SpdyH3 != 0 && names.AllowQUIC(conf)
}

// ownQUIC returns the switches of HTTP/3 for a host with a certificate of its own.
func ownQUIC(h *xmlconf.Host, l *xmlconf.Listener) (spdy int, enabled bool) {
	if h.Conf == nil || h.Conf.VHSSL == nil {
		return l.EnableSpdy, true
	}
	if ssl := h.Conf.VHSSL; ssl.Written("enableSpdy") {
		return ssl.EnableSpdy, ssl.EnableQuic
	}
	return l.EnableSpdy, h.Conf.VHSSL.EnableQuic
}

// hostCert loads the vhssl certificate of a host, nil if it has none or it
// cannot be used: the listener's then serves. What the host asks of client
// certificates is what its vhssl says, else what the listener asks.
func (b *builder) hostCert(h *xmlconf.Host, l *xmlconf.Listener, verify *tlsconf.Verify) (*tls.Config, *tlsconf.Verify) {
	if h.Conf == nil || h.Conf.VHSSL == nil {
		return nil, verify
	}
	ssl := h.Conf.VHSSL
	own, _ := ownVerify(h)
	if own {
		t := ssl.TLS
		if t.CACertFile == "" && t.CACertPath == "" {
			t.CACertFile, t.CACertPath = l.CACertFile, l.CACertPath
		}
		var ok bool
		if verify, ok = b.loadVerify(&t, &ssl.Block); !ok {
			b.shutHost(h, ssl.At("clientVerify"), "write CACertFile", "it cannot tell whose client certificates are good")
			return nil, nil
		}
	}
	pair, at := &ssl.TLS, &ssl.Block
	if !b.hasPair(pair, at) {
		if pair, at = &l.TLS, &l.Block; !own || !b.hasPair(pair, at) {
			return nil, verify
		}
	}
	return b.loadCert(pair, b.tlsOptions(l, ssl, verify), at, b.domainsOf(h, l)), verify
}

// domainsOf returns what a listener maps to a host.
func (b *builder) domainsOf(h *xmlconf.Host, l *xmlconf.Listener) (names []string) {
	for _, m := range b.cfg.Mappings(l) {
		if m.VHost == h.Name {
			names = append(names, m.Domains...)
		}
	}
	return names
}

// leftToListener returns the names for which a listener shows its own certificate.
func (b *builder) leftToListener(l *xmlconf.Listener, hosts map[string]*xmlconf.Host) (names []string) {
	for _, m := range b.cfg.Mappings(l) {
		h := hosts[m.VHost]
		if h == nil || h.Conf != nil && h.Conf.VHSSL != nil && h.Conf.VHSSL.CertFile != "" {
			continue
		}
		auto := map[string]bool{}
		if on, _ := b.wantsIssued(h); on {
			for _, name := range b.exactNames(h, l) {
				auto[name] = true
			}
		}
		for _, d := range m.Domains {
			if !b.acme || !slices.Contains(l.AcmeDomains, d) && (h.Conf == nil || !slices.Contains(h.Conf.AcmeDomains, d)) && !auto[d] {
				names = append(names, d)
			}
		}
	}
	return names
}

// shutHost closes a host for a restriction that cannot be built (R-SAFE-1).
func (b *builder) shutHost(h *xmlconf.Host, at xmlconf.Place, hint, why string) {
	b.fs.Error("E-CLOSED", at, hint, "virtual host %q: %s; it answers 503", h.Name, why)
	if v := b.hosts[h.Name]; v != nil && v.Closed == "" {
		v.Closed = why
	}
}

// loadVerify reads what is asked of client certificates; false if that cannot be
// known.
func (b *builder) loadVerify(t *xmlconf.TLS, at *xmlconf.Block) (*tlsconf.Verify, bool) {
	v, err := tlsconf.LoadVerify(tlsconf.VerifyOptions{Mode: t.ClientVerify, Depth: t.VerifyDepth, CAFile: t.CACertFile, CAPath: t.CACertPath,
		CRLFile: t.CRLFile, CRLPath: t.CRLPath, Seen: b.input})
	if err != nil {
		b.fs.Error("E-CERT", at.At("clientVerify"), "name the authorities of client certificates in CACertFile", "clientVerify %d: %v", t.ClientVerify, err)
		b.g.Degraded = append(b.g.Degraded, err.Error())
		return nil, false
	}
	return v, true
}

// require makes the table insist on what a listener and its hosts ask for.
func (b *builder) require(key string, asked *contexts.Certificates) {
	any := asked.Listener.Asks()
	port, _ := strconv.Atoi(key[strings.LastIndexByte(key, ':')+1:]) // the one that is bound
	for v, verify := range asked.Hosts {
		any = any || verify.Asks()
		if verify.Requires() && v.CertPort == 0 {
			v.CertPort = cmp.Or(port, 443) // 0: of a test, the system chooses
		}
	}
	if any {
		b.g.table.Certificates[key] = asked
	}
}

// closeUncertified closes hosts that require a certificate of their clients, where no
// listener is open that could ask for one (R-SAFE-1).
func (b *builder) closeUncertified() {
	hosts := map[string]*xmlconf.Host{}
	for _, h := range b.cfg.VHosts {
		hosts[h.Name] = h
		if own, mode := ownVerify(h); own && mode == tlsconf.VerifyRequired {
			b.closeUnasked(h, h.Conf.VHSSL.At("clientVerify"))
		}
	}
	s := b.cfg.Server
	for _, l := range slices.Concat(s.Listeners, s.Refused) {
		if !l.Secure || l.ClientVerify != tlsconf.VerifyRequired {
			continue
		}
		for _, m := range b.cfg.Mappings(l) {
			if h := hosts[m.VHost]; h != nil {
				if own, _ := ownVerify(h); !own {
					b.closeUnasked(h, l.At("clientVerify"))
				}
			}
		}
	}
}

// ownVerify returns the clientVerify of a host's vhssl, false if it says nothing.
func ownVerify(h *xmlconf.Host) (own bool, mode int) {
	if h.Conf == nil || h.Conf.VHSSL == nil || !h.Conf.VHSSL.Written("clientVerify") {
		return false, 0
	}
	return true, h.Conf.VHSSL.ClientVerify
}

func (b *builder) closeUnasked(h *xmlconf.Host, at xmlconf.Place) {
	if v := b.hosts[h.Name]; v != nil && v.CertPort == 0 && v.Closed == "" {
		b.shutHost(h, at, "map it on a secure listener that can be opened", "it requires client certificates, and no listener is open that could ask for one")
	}
}

// hasPair reports whether a certificate is named; half of one is told.
func (b *builder) hasPair(t *xmlconf.TLS, at *xmlconf.Block) bool {
	if (t.CertFile == "") != (t.KeyFile == "") {
		b.fs.Error("E-CERT", at.Where, "write both, or neither", "certFile and keyFile belong together: one of them is missing")
	}
	return t.CertFile != "" && t.KeyFile != ""
}

// tlsOptions are the settings of a listener for itself, or for a host with a vhssl
// of its own.
func (b *builder) tlsOptions(l *xmlconf.Listener, ssl *xmlconf.VHSSL, verify *tlsconf.Verify) tlsconf.Options {
	t := &b.cfg.Server.Tuning
	o := tlsconf.Options{Protocols: l.SSLProtocol, Spdy: l.EnableSpdy, Client: verify, Variants: t.SSLMultiCerts,
		NoTickets: !t.SSLTickets || !l.SessionTickets, Tickets: b.tickets, Seen: b.input}
	list, at := t.SSLDefaultCiphers, t.At("sslDefaultCiphers")
	if l.Ciphers != "" {
		list, at = l.Ciphers, l.At("ciphers")
	}
	if ssl != nil {
		o.NoTickets = o.NoTickets || !ssl.SessionTickets
		if ssl.Written("enableSpdy") {
			o.Spdy = ssl.EnableSpdy
		}
		if ssl.Ciphers != "" {
			list, at = ssl.Ciphers, ssl.At("ciphers")
		}
	}
	o.Ciphers = b.readCiphers(list, at)
	return o
}

// readCiphers reads a cipher list, nil if there is none or it allows nothing that may
// be used.
func (b *builder) readCiphers(list string, at xmlconf.Place) []uint16 {
	if list == "" {
		return nil
	}
	ids, unknown := tlsconf.Ciphers(list)
	if len(unknown) > 0 {
		b.warnOnce("W-CIPHERS", at, "remove what openssl ciphers does not know either", "ciphers: %q is unknown and left out", unknown[0])
	}
	if ids == nil {
		b.warnOnce("W-CIPHERS", at, "name suites with ECDHE", "ciphers: the list allows no suite that may be used; the default holds")
	}
	return ids
}

// warnOnce warns of what several listeners may come upon.
func (b *builder) warnOnce(code string, at xmlconf.Place, hint, format string, args ...any) {
	key := code + at.Pos.String() + fmt.Sprintf(format, args...)
	if !b.warned[key] {
		b.warned[key] = true
		b.fs.Warn(code, at, hint, format, args...)
	}
}

// buildTickets leases the keys of session tickets. A file of keys that cannot be used
// leaves random ones: sessions are then resumed by this process only.
func (b *builder) buildTickets() {
	t := &b.cfg.Server.Tuning
	o := tlsconf.TicketOptions{Lifetime: t.SSLTicketLifetime}
	if t.SSLTicketKeyFile != "" {
		keys, err := tlsconf.LoadTicketKeys(t.SSLTicketKeyFile, b.input)
		if err != nil {
			b.fs.Warn("W-TICKETS", t.At("sslSessionTicketKeyFile"), "openssl rand 48 makes a key", "%v; random keys are used", err)
		}
		o.Keys = keys
	}
	tickets, release := b.kept.Tickets.Acquire(o, func() *tlsconf.Tickets { return tlsconf.NewTickets(o) })
	b.tickets = tickets
	b.g.leases = append(b.g.leases, release)
}

func (b *builder) loadCert(t *xmlconf.TLS, o tlsconf.Options, at *xmlconf.Block, names []string) *tls.Config {
	o.CertFile, o.KeyFile = t.CertFile, t.KeyFile
	if t.CertChain && t.CACertFile != "" {
		o.ChainFile = t.CACertFile
	}
	conf, err := tlsconf.Load(o)
	if err != nil {
		b.fs.Error("E-CERT", at.At("certFile"), "check that both files exist, are readable and belong together", "%v", err)
		b.g.Degraded = append(b.g.Degraded, err.Error())
		return nil
	}
	for _, c := range conf.Certificates {
		b.reportCert(t, at, c.Leaf, names)
		if !slices.ContainsFunc(b.g.Shown, c.Leaf.Equal) {
			b.g.Shown = append(b.g.Shown, c.Leaf)
		}
	}
	if t.Stapling {
		b.staple(t, at, conf)
	}
	return conf
}

// reportCert warns of a certificate that clients do not take.
func (b *builder) reportCert(t *xmlconf.TLS, at *xmlconf.Block, leaf *x509.Certificate, names []string) {
	now := time.Now()
	switch {
	case now.Before(leaf.NotBefore):
		b.warnOnce("W-CERT-EXPIRY", at.At("certFile"), "see that the clock is right", "certificate %s begins at %s", t.CertFile, leaf.NotBefore.UTC().Format(time.RFC3339))
	case leaf.NotAfter.Sub(now) < expirySoon:
		b.warnOnce("W-CERT-EXPIRY", at.At("certFile"), "renew it and reload", "certificate %s ends at %s", t.CertFile, leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	for _, name := range names {
		if !strings.ContainsAny(name, "*?:[") && net.ParseIP(name) == nil && leaf.VerifyHostname(strings.TrimSuffix(name, ".")) != nil {
			b.warnOnce("W-CERT-NAME", at.At("certFile"), "issue it for that name too", "certificate %s is not for %s, which is mapped to it: clients refuse it there", t.CertFile, name)
			return
		}
	}
}

// staple makes conf send OCSP responses along. A certificate for which none can be had
// is sent without.
func (b *builder) staple(t *xmlconf.TLS, at *xmlconf.Block, conf *tls.Config) {
	var responses []func() []byte
	for _, c := range conf.Certificates {
		o := staples.Options{Leaf: c.Leaf, Responder: t.OCSPResponder, MaxAge: t.OCSPMaxAge}
		if len(c.Certificate) > 1 {
			o.Issuer, _ = x509.ParseCertificate(c.Certificate[1]) // Load has parsed it
		}
		if err := o.Check(); err != nil {
			b.warnOnce("W-STAPLING", at.At("enableStapling"), "", "certificate %s: no OCSP response can be had: %v", t.CertFile, err)
			responses = append(responses, nil)
			continue
		}
		s, release := b.kept.Staples.Acquire(o.Key(), func() *staples.Staple { return staples.New(o) })
		b.g.leases = append(b.g.leases, release)
		responses = append(responses, s.Response)
	}
	tlsconf.Staple(conf, responses)
}

// expirySoon is the rest of a certificate's life that is warned of (R-CHECK-5).
const expirySoon = 14 * 24 * time.Hour
