package xmlconf

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxPeers bounds the addresses of a processor (R-GRP-1).
const maxPeers = 256

// connectDefault is what an initTimeout of 0 means (R-TMO-1).
const connectDefault = 10 * time.Second

// settle reads the addresses of p and tests what one tag cannot say. Faults of
// strict options are load errors (R-CONV-6).
func (p *ExtProcessor) settle(fs *Findings) {
	subject := fmt.Sprintf("extProcessor %q: ", p.Name)
	if p.InitTimeout == 0 {
		p.InitTimeout = connectDefault
	}
	switch p.Kind() {
	case KindProxy, KindFastCGI, KindLSAPI, KindAuthorizer:
		p.addresses(fs, subject)
	case KindReserved:
		fs.Warn("W-RESERVED", p.At("type"), "use fcgi", "%stype %q is reserved: what names it answers 503", subject, cut(p.Type))
	case KindUnsupported:
		fs.Warn("W-PROC-TYPE", p.At("type"), "use proxy, fcgi or lsapi", "%stype %q is not supported: what names it answers 503", subject, cut(p.Type))
	}
	if p.Kind() == KindProxy {
		p.policy(fs, subject)
	} else {
		for _, name := range []string{"loadBalancePolicy", "addressWeights", "cookieName", "stickyCookie", "maxInFlight", "addressDrain",
			"healthCheck", "circuitBreaker", "upstreamTLS", "retry", "peerRateLimit", "slowStart", "minHealthy",
			"attemptTimeout", "requestTimeout", "streamIdleTimeout"} {
			if p.Written(name) {
				fs.Fatal("E-LB-NONPROXY", p.At(name), "remove it, or use type proxy", "%s%s needs type proxy, not %q", subject, name, cut(p.Type))
			}
		}
		if p.Kind() != KindLoadBalancer { // its workers may be proxies
			idle(&p.Block, fs, subject, hopOptions)
		}
	}
	p.HealthCheck.settle(fs, subject)
	p.CircuitBreaker.settle(fs, subject)
	p.Retry.settle(fs, subject)
	p.ProxyTimeouts.settle(&p.Block, fs, subject)
	if c := p.StickyCookie; c != nil {
		if c.SameSite == "None" && c.Secure != "1" {
			fs.Fatal("E-STRICT", c.At("sameSite"), "set secure to 1", "%sstickyCookie: sameSite None needs secure", subject)
		}
		if !isOrigin(c.Path) || strings.Contains(c.Path, ";") {
			fs.Fatal("E-STRICT", c.At("path"), "start it with /", "%sstickyCookie: path %q is no path", subject, cut(c.Path))
		}
	}
	if p.Kind() == KindProxy {
		p.upstreamTLS(fs, subject)
	}
}

// upstreamTLS tests what goes together in TLS towards the peers (R-UP-3).
func (p *ExtProcessor) upstreamTLS(fs *Findings, subject string) {
	t := p.UpstreamTLS
	if t == nil {
		return
	}
	subject += "upstreamTLS: "
	if len(p.Targets) > 0 && p.Targets[0].TLSName == "" {
		fs.Fatal("E-STRICT", t.Where, "write https:// or h2s:// addresses, or remove it", "%sthe addresses are spoken to in clear text", subject)
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		fs.Fatal("E-STRICT", t.Where, "write both", "%scertFile and keyFile belong together", subject)
	}
	if ip, err := netip.ParseAddr(t.ServerName); t.ServerName != "" && !validHost(t.ServerName) && (err != nil || ip.Zone() != "") {
		fs.Fatal("E-STRICT", t.At("serverName"), "write a name or an IP address", "%sserverName %q is no host", subject, cut(t.ServerName))
	}
	if !t.Verify {
		fs.Warn("W-NOVERIFY", t.At("verify"), "name the peers' authority as caFile", "%scertificates of peers are not verified", subject)
	}
}

// addresses fills Targets. A proxy processor with an unreadable address is a
// load error (R-CONV-8); others stay without targets.
func (p *ExtProcessor) addresses(fs *Findings, subject string) {
	use, report := AppAddress, fs.Error
	if p.Kind() == KindProxy {
		use, report = ProxyAddress, fs.Fatal
	}
	if len(p.Addresses) == 0 {
		fs.Error("E-ADDR", p.Where, "write host:port", "%saddress is missing: what names it answers 503", subject)
		return
	}
	if len(p.Addresses) > maxPeers {
		report("E-ADDR", p.Where, "", "%smore than %d addresses", subject, maxPeers)
		return
	}
	for _, text := range p.Addresses {
		at := Place{text.Pos, p.Where.Element + "/address"}
		a, err := ParseAddress(text.Value, use)
		if err != nil {
			report("E-ADDR", at, hintOf(err), "%saddress %q %v", subject, redact(text.Value), err)
			p.Targets = nil
			return
		}
		if slices.ContainsFunc(p.Targets, func(t Address) bool { return t.Network == a.Network && t.Address == a.Address }) {
			report("E-ADDR", at, "remove one", "%saddress %s is written twice", subject, a.Address)
			continue
		}
		if len(p.Targets) > 0 && p.Targets[0].Scheme != a.Scheme {
			report("E-GRP-PROTO", at, "use one protocol for all addresses", "%sprotocols %s and %s are mixed", subject, p.Targets[0].Scheme, a.Scheme)
		}
		p.Targets = append(p.Targets, a)
	}
}

// redact hides user information of an address that is told to people.
func redact(s string) string {
	if at := strings.LastIndexByte(s, '@'); at >= 0 {
		head := ""
		if i := strings.Index(s, "://"); i >= 0 && i < at {
			head = s[:i+3]
		}
		s = head + "..." + s[at:]
	}
	return cut(s)
}

// policy tests what goes together in a group of proxy peers (spec section 9).
func (p *ExtProcessor) policy(fs *Findings, subject string) {
	if n := len(p.AddressWeights); n > 0 && n != len(p.Addresses) {
		fs.Fatal("E-STRICT", p.At("addressWeights"), "write one weight for each address", "%saddressWeights has %d weights for %d addresses", subject, n, len(p.Addresses))
	}
	switch p.LoadBalancePolicy {
	case "primary-first", "round-robin", "least-conn":
		if len(p.AddressWeights) > 0 {
			fs.Warn("W-WEIGHTS-UNUSED", p.At("addressWeights"), "use weighted-round-robin or weighted-least-active", "%sloadBalancePolicy %s does not look at addressWeights", subject, p.LoadBalancePolicy)
		}
	}
	switch p.LoadBalancePolicy {
	case "primary-first", "ip-hash", "cookie-hash":
		if p.SlowStart > 0 {
			fs.Warn("W-NO-EFFECT", p.At("slowStart"), "use a policy of turns or loads", "%sslowStart has no effect with loadBalancePolicy %s", subject, p.LoadBalancePolicy)
		}
	}
	switch {
	case p.MinHealthy == 0:
	case p.HealthCheck == nil:
		fs.Warn("W-NO-EFFECT", p.At("minHealthy"), "write a healthCheck", "%sminHealthy has no effect without healthCheck", subject)
	case len(p.Addresses) == 1:
		fs.Warn("W-MIN-HEALTHY", p.At("minHealthy"), "remove one of them", "%sminHealthy with one address: its healthCheck never takes it out", subject)
	}
	if p.LoadBalancePolicy == "cookie-hash" && p.CookieName == "" {
		fs.Fatal("E-STRICT", p.At("loadBalancePolicy"), "write cookieName", "%sloadBalancePolicy cookie-hash needs cookieName", subject)
	}
	if p.LoadBalancePolicy == "sticky" && p.CookieName == "" {
		p.CookieName = "SERVERID"
	}
	if p.CookieName != "" && !isToken(p.CookieName) {
		fs.Fatal("E-STRICT", p.At("cookieName"), "", "%scookieName %q is no cookie name", subject, cut(p.CookieName))
	}
	for _, d := range p.AddressDrain {
		n, err := strconv.Atoi(d)
		if a, aerr := ParseAddress(d, ProxyAddress); err != nil && aerr == nil {
			n = slices.IndexFunc(p.Targets, func(t Address) bool { return t.Network == a.Network && t.Address == a.Address })
		} else if err != nil {
			n = -1
		}
		if n < 0 || n >= len(p.Targets) {
			fs.Fatal("E-STRICT", p.At("addressDrain"), "write an ordinal from 0, or an address of this processor", "%saddressDrain names no peer: %q", subject, redact(d))
			continue
		}
		p.Drained = append(p.Drained, n)
	}
}

// settle tests a health check (spec section 11); h may be nil. A fault is a load
// error, so that a bad check never becomes none.
func (h *HealthCheck) settle(fs *Findings, subject string) {
	if h == nil {
		return
	}
	bad := func(element, hint, format string, args ...any) {
		fs.Fatal("E-STRICT", h.At(element), hint, "%shealthCheck: %s", subject, fmt.Sprintf(format, args...))
	}
	if h.Timeout > h.Interval {
		bad("timeout", "", "timeout %v is longer than interval %v", h.Timeout, h.Interval)
	}
	switch {
	case h.Path == "" && h.Mode != "connect":
		h.Path = "/"
	case h.Path != "" && h.Mode == "connect":
		bad("path", "set mode to GET or HEAD", "path does not go with mode connect")
	case h.Path != "" && !isOrigin(h.Path):
		bad("path", "start it with /", "path %q is not in origin form", cut(h.Path))
	}
	if h.Host != "" {
		port := "80"
		if _, err := splitHost(h.Host, &port); err != nil {
			bad("host", hintOf(err), "host %v", err)
		}
	}
	if n, err := strconv.Atoi(h.ExpectedStatus); h.ExpectedStatus != "2xx" && (err != nil || n < 200 || n > 599) {
		bad("expectedStatus", "write 200 to 599, or 2xx", "expectedStatus %q is no status", cut(h.ExpectedStatus))
	}
}

// isOrigin accepts a path with an optional query, without bytes that HTTP
// forbids in a request target.
func isOrigin(s string) bool {
	return strings.HasPrefix(s, "/") && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '#' || r == '\\' })
}

// isToken accepts the tokens of RFC 9110 section 5.6.2: methods, cookie names.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
	})
}

// settle tests and lower-cases the words of failOn (R-BRK-4); c may be nil.
func (c *CircuitBreaker) settle(fs *Findings, subject string) {
	if c == nil {
		return
	}
	for i, w := range c.FailOn {
		c.FailOn[i] = strings.ToLower(w)
		n, err := strconv.Atoi(w)
		if !slices.Contains([]string{"transport", "timeout", "5xx"}, c.FailOn[i]) && (err != nil || n < 500 || n > 599) {
			fs.Fatal("E-STRICT", c.At("failOn"), "use transport, timeout, 5xx, or 500 to 599", "%scircuitBreaker: failOn %q is unknown", subject, cut(w))
		}
	}
}

// settle tests the words of a retry policy (spec section 16); r may be nil.
// Methods become upper case, as requests spell them.
func (r *Retry) settle(fs *Findings, subject string) {
	if r == nil {
		return
	}
	for i, w := range r.RetryOn {
		r.RetryOn[i] = strings.ToLower(w)
		if !slices.Contains([]string{"connect-failure", "reset", "timeout", "500", "502", "503", "504", "5xx"}, r.RetryOn[i]) {
			fs.Fatal("E-STRICT", r.At("retryOn"), "use connect-failure, reset, timeout, 500, 502, 503, 504 or 5xx", "%sretry: retryOn %q is unknown", subject, cut(w))
		}
	}
	for i, m := range r.RetryMethods {
		r.RetryMethods[i] = strings.ToUpper(m)
		switch r.RetryMethods[i] {
		case "GET", "HEAD", "OPTIONS":
		case "PUT", "DELETE", "POST", "PATCH":
			fs.Warn("W-RETRY-WRITES", r.At("retryMethods"), "such requests need an Idempotency-Key", "%sretry: %s is repeated", subject, r.RetryMethods[i])
		default:
			fs.Fatal("E-STRICT", r.At("retryMethods"), "use GET, HEAD, OPTIONS, PUT, DELETE, POST or PATCH", "%sretry: method %q cannot be repeated", subject, cut(m))
		}
	}
}

// settle tells of a timeout that a shorter one makes idle; b is the block around t.
func (t *ProxyTimeouts) settle(b *Block, fs *Findings, subject string) {
	if t.RequestTimeout > 0 && t.AttemptTimeout >= t.RequestTimeout {
		fs.Warn("W-NO-EFFECT", b.At("attemptTimeout"), "make it shorter", "%sattemptTimeout has no effect: it is not shorter than requestTimeout", subject)
	}
}

// settle tests what one tag of a context cannot say; uri and stripPrefix of
// proxy contexts follow R-CTX-6.
func (c *Context) settle(fs *Findings) {
	subject := fmt.Sprintf("context %q: ", cut(c.URI))
	proxy := strings.EqualFold(c.Type, "proxy")
	c.settleMatch(fs, subject, proxy)
	if c.StripPrefix != "" && !plainPath(c.StripPrefix) {
		fs.Fatal("E-STRICT", c.At("stripPrefix"), "write a path that starts with one /", "%sstripPrefix %q is no plain path", subject, cut(c.StripPrefix))
	}
	if match, _ := c.Match(); c.StripPrefix != "" && (match == "prefix" || match == "exact") && !nested(c.URI, c.StripPrefix) {
		fs.Warn("W-NO-EFFECT", c.At("stripPrefix"), "write a prefix of uri", "%sstripPrefix %q has no effect: no path of the context starts with it", subject, cut(c.StripPrefix))
	}
	if w := c.PathRewrite; w != nil {
		if _, err := regexp.Compile(w.Pattern); err != nil || w.Pattern == "" {
			fs.Fatal("E-STRICT", w.At("pattern"), "write an expression of RE2", "%spathRewrite: pattern is no expression", subject)
		}
		if !strings.HasPrefix(w.Replacement, "/") && !strings.HasPrefix(w.Replacement, "$") {
			fs.Fatal("E-STRICT", w.At("replacement"), "start it with /", "%spathRewrite: replacement cannot start with /", subject)
		}
	}
	if c.Written("methods") && len(c.Methods) == 0 {
		fs.Fatal("E-STRICT", c.At("methods"), "remove it for all methods", "%smethods names none", subject)
	}
	for i, m := range c.Methods {
		if !isToken(m) {
			fs.Fatal("E-STRICT", c.At("methods"), "", "%smethod %q is no token", subject, cut(m))
		}
		c.Methods[i] = strings.ToUpper(m)
	}
	if !proxy && !strings.EqualFold(c.Type, "loadbalancer") {
		idle(&c.Block, fs, subject, append([]string{"stripPrefix", "pathRewrite", "retry", "attemptTimeout", "requestTimeout", "streamIdleTimeout"}, hopOptions...))
	}
	c.Retry.settle(fs, subject)
	c.ProxyTimeouts.settle(&c.Block, fs, subject)
}

// nested reports whether one of two prefixes lies in the other.
func nested(a, b string) bool {
	a, b = strings.TrimRight(a, "/")+"/", strings.TrimRight(b, "/")+"/"
	return strings.HasPrefix(a, b) || strings.HasPrefix(b, a)
}

// settleMatch tests how uri is to match. Prefixes of other types than proxy are
// read as LiteSpeed does; uriMatch is httpjet's own and always strict.
func (c *Context) settleMatch(fs *Findings, subject string, proxy bool) {
	match, expr := c.Match()
	switch {
	case match != c.URIMatch && c.Written("uriMatch"):
		fs.Fatal("E-STRICT", c.At("uriMatch"), "remove it, or exp:", "%suri starts with exp:, so that uriMatch %s cannot be meant", subject, c.URIMatch)
	case match == "regex" && match == c.URIMatch:
		if _, err := regexp.Compile(expr); err != nil {
			fs.Fatal("E-STRICT", c.At("uri"), "write an expression of RE2", "%suri is no expression", subject)
		}
	case match == "exact" || match == "pattern" || match == "prefix" && proxy:
		if !plainPath(c.URI) {
			fs.Fatal("E-STRICT", c.At("uri"), "write the decoded path", "%suri holds a query, fragment, escape, blank, backslash, // or dot segment, or starts without /", subject)
		}
	}
}

// hopOptions are the options of a request on its way to an HTTP upstream.
var hopOptions = []string{"preserveHost", "forwardedFor", "forwardedProto", "forwardedHost", "addVia", "wsIdleTimeout", "traceMode"}

// idle tells of options that only type proxy knows.
func idle(b *Block, fs *Findings, subject string, options []string) {
	for _, name := range options {
		if b.Written(name) {
			fs.Warn("W-NO-EFFECT", b.At(name), "remove it, or use type proxy", "%s%s has no effect without type proxy", subject, name)
		}
	}
}

// plainPath accepts what R-CTX-6 allows.
func plainPath(p string) bool {
	if !strings.HasPrefix(p, "/") || strings.Contains(p, "//") || strings.ContainsFunc(p, func(r rune) bool {
		return r <= ' ' || r == 0x7f || strings.ContainsRune(`?#%\`, r)
	}) {
		return false
	}
	for seg := range strings.SplitSeq(p, "/") {
		if seg == "." || seg == ".." {
			return false
		}
	}
	return true
}
