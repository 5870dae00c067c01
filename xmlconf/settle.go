package xmlconf

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// settle tests what one tag of the server file cannot say.
func (s *Server) settle(fs *Findings) {
	s.HtAccess.settle(fs)
	s.Logging.settle()
	s.Management.settle(fs)
	s.Tracing.settle(fs)
	if c := s.Acme; c != nil && c.Enable && c.Email == "" {
		fs.Fatal("E-STRICT", c.Where, "write email", "acme: email is missing")
	}
	if c := s.Acme; c != nil && (c.EABKeyID == "") != (c.EABKeyFile == "") {
		fs.Fatal("E-STRICT", c.Where, "write both, or neither", "acme: eabKeyId and eabMacKeyFile belong together")
	}
	for _, ln := range s.Listeners {
		ln.TLS.settle(&ln.Block, "listener "+strconv.Quote(ln.Name), fs)
		acmeNames(ln.AcmeDomains, ln.At("acmeDomains"), "listener "+strconv.Quote(ln.Name)+": ", fs)
	}
	if s.UseIPInProxyHeader == 1 || s.UseIPInProxyHeader == 4 {
		fs.Warn("W-TRUST-ALL", s.At("useIpInProxyHeader"), "use 2 and mark trusted proxies with T", // R-ACL-3
			"useIpInProxyHeader %d believes every client about its address", s.UseIPInProxyHeader)
	}
}

// settle tests numbers, addresses and the URL of the collector. Credentials in that
// would be in every message about it.
func (t *Tracing) settle(fs *Findings) {
	if t == nil {
		return
	}
	if rate, err := strconv.ParseFloat(t.SampleRate, 64); err != nil || !(rate >= 0 && rate <= 1) {
		fs.Fatal("E-STRICT", t.At("sampleRate"), "write 0 to 1", "tracing: sampleRate %q is no share", cut(t.SampleRate))
	}
	switch u, err := url.Parse(t.Endpoint); {
	case t.Exporter == "otlphttp" && t.Endpoint == "":
		fs.Fatal("E-STRICT", t.Where, "write endpoint", "tracing: exporter otlphttp needs an endpoint")
	case t.Endpoint == "":
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "":
		fs.Fatal("E-STRICT", t.At("endpoint"), "write http://127.0.0.1:4318", "tracing: endpoint is no URL of a collector")
	}
	for _, c := range t.TimelineFrom {
		if _, err := netip.ParsePrefix(c); err != nil {
			fs.Fatal("E-STRICT", t.At("timelineFrom"), "write 127.0.0.0/8, ::1/128", "tracing: timelineFrom %q is no network", cut(c))
		}
	}
}

// settle tells of client certificates that are asked for without being required:
// nobody asks for them yet. Required ones are a Restriction.
func (t *TLS) settle(b *Block, subject string, fs *Findings) {
	if t.ClientVerify == 1 || t.ClientVerify == 3 {
		fs.Warn("W-NOT-YET", b.At("clientVerify"), "", "%s: clientVerify %d is not honoured by this version: no client certificate is asked for", subject, t.ClientVerify)
	}
}

// settle tests the management listener (R-MGMT-1): a literal address, and an
// allow-list unless it is loopback.
func (m *Management) settle(fs *Findings) {
	if m == nil {
		return
	}
	at, err := netip.ParseAddrPort(m.Address)
	switch {
	case err != nil || at.Addr().Zone() != "":
		fs.Fatal("E-STRICT", m.At("address"), "write 127.0.0.1:9090", "management: address %q is no literal IP address with a port", cut(m.Address))
	case !at.Addr().Unmap().IsLoopback() && len(m.AllowedCIDRs) == 0:
		fs.Fatal("E-STRICT", m.At("address"), "write allowedCIDRs", "management: an address that is not loopback needs allowedCIDRs")
	case !at.Addr().Unmap().IsLoopback():
		fs.Warn("W-MGMT-REMOTE", m.At("address"), "", "management: %s can be reached from other machines", at)
	}
	switch {
	case m.SocketMode > 0o777:
		fs.Fatal("E-STRICT", m.At("socketMode"), "write 0660", "management: socketMode %04o has more than permissions", m.SocketMode)
	case m.Socket != "" && m.SocketMode&0o002 != 0:
		fs.Warn("W-MGMT-SOCKET", m.At("socketMode"), "", "management: everybody on this machine may ask at %s", cut(m.Socket))
	}
	for _, c := range m.AllowedCIDRs {
		if _, err := netip.ParsePrefix(c); err != nil {
			fs.Fatal("E-STRICT", m.At("allowedCIDRs"), "write 192.0.2.0/24", "management: %q is no network", cut(c))
		}
	}
}

// acmeNames tests names for automatic certificates (R-ACME-1): exact, without
// port or scheme.
func acmeNames(names []string, at Place, subject string, fs *Findings) {
	for _, n := range names {
		if !validHost(n) || !strings.Contains(n, ".") {
			fs.Fatal("E-STRICT", at, "write exact host names", "%sacmeDomains: %q is no host name", subject, cut(n))
		}
	}
}

// settle keeps accessFileName a name: with a slash it would leave the directory.
func (h *HtAccess) settle(fs *Findings) {
	if strings.Contains(h.AccessFileName, "/") {
		fs.Warn("W-RANGE", h.At("accessFileName"), "write a file name", "htAccess: accessFileName %q is no file name: the default .htaccess is used", cut(h.AccessFileName))
		h.AccessFileName = ".htaccess"
	}
}

// settle maps the older switches of an access log to logHeaders (LSX 2.3).
func (l *Logging) settle() {
	for _, a := range l.AccessLogs {
		if a.Written("logHeaders") || !a.Written("logReferer") && !a.Written("logUserAgent") {
			continue
		}
		a.LogHeaders = 0
		if a.LogReferer {
			a.LogHeaders |= 1
		}
		if a.LogUserAgent {
			a.LogHeaders |= 2
		}
	}
}
