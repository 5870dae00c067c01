package generation

import (
	"regexp"
	"slices"
	"strings"

	"httpjet/xmlconf"
)

// maxProbesAtOnce is how many probes of the process are in flight (R-PROBE-4).
const maxProbesAtOnce = 16

// reportProbes tells when more peers are probed than the permits allow while none
// of them answers: then some probes are skipped (R-CHECK-5).
func (b *builder) reportProbes() {
	busy := 0.0
	for _, p := range b.peers {
		if p.Check.Interval > 0 {
			busy += p.Check.Timeout.Seconds() / p.Check.Interval.Seconds()
		}
	}
	if busy > maxProbesAtOnce {
		b.fs.Warn("W-PROBE-CAP", b.cfg.Server.Where, "make timeout shorter or interval longer",
			"%d peers are probed: if none answers, %.0f probes run at once, of which %d may", len(b.peers), busy, maxProbesAtOnce)
	}
}

// reportPlainMaps tells of hosts that require a client certificate and are mapped
// on a plain listener, where none can be shown (R-CHECK-5).
func (b *builder) reportPlainMaps() {
	wants := map[string]bool{}
	for _, h := range b.cfg.VHosts {
		wants[h.Name] = h.Conf != nil && h.Conf.VHSSL != nil && h.Conf.VHSSL.ClientVerify == 2
	}
	for _, l := range b.cfg.Server.Listeners {
		for _, m := range b.cfg.Mappings(l) {
			wants[m.VHost] = wants[m.VHost] || l.Secure && l.ClientVerify == 2
		}
	}
	for _, l := range b.cfg.Server.Listeners {
		for _, m := range b.cfg.Mappings(l) {
			if !l.Secure && wants[m.VHost] && b.hosts[m.VHost] != nil {
				b.fs.Warn("W-NOMTLS-PLAIN", m.At, "map it on secure listeners alone",
					"virtual host %q requires client certificates and is mapped on the plain listener %q", m.VHost, l.Name)
			}
		}
	}
}

// reportShadowed tells of rewrite rules whose [P] never counts, since a proxy
// context has all the paths they match (D-1, R-CHECK-5).
func (b *builder) reportShadowed(h *host) {
	r := &h.Conf.Rewrite
	if !r.Enable || r.Rules == "" {
		return
	}
	n := -1
	for line := range strings.Lines(r.Rules) {
		n++
		prefix, ok := proxiedPrefix(line)
		if !ok {
			continue
		}
		i := slices.IndexFunc(h.Conf.Contexts, func(c *xmlconf.Context) bool { return coversAll(c, prefix) })
		if i < 0 {
			continue
		}
		at := r.TextAt("rules")
		if n > 0 {
			at.Line, at.Column = at.Line+n, 1
		}
		b.fs.Warn("W-P-SHADOWED", at, "remove the rule, or make the context narrower",
			"virtual host %q: the proxy context %q has every path that this [P] rule matches", h.Name, h.Conf.Contexts[i].URI)
	}
}

// proxiedPrefix returns what every path begins with that a rule with the flag P
// matches; false for other lines, and where that is not known.
func proxiedPrefix(line string) (string, bool) {
	words := strings.Fields(line)
	if len(words) < 4 || !strings.EqualFold(words[0], "RewriteRule") {
		return "", false
	}
	flags := strings.Trim(strings.Join(words[3:], ""), "[]")
	proxied := slices.ContainsFunc(strings.Split(flags, ","), func(f string) bool {
		return strings.EqualFold(f, "P") || strings.EqualFold(f, "proxy")
	})
	pattern, anchored := strings.CutPrefix(words[1], "^")
	if !proxied || !anchored || !strings.HasPrefix(pattern, "/") {
		return "", false
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return "", false
	}
	prefix, _ := re.LiteralPrefix()
	return prefix, prefix != "" && !strings.Contains(pattern, "|") // an alternative has another beginning
}

// coversAll reports whether c is a proxy context that every path with the prefix
// lies in.
func coversAll(c *xmlconf.Context, prefix string) bool {
	match, uri := c.Match()
	if !c.Enabled || match != "prefix" || !strings.EqualFold(c.Type, "proxy") || c.Methods != nil {
		return false
	}
	if strings.HasSuffix(uri, "/") {
		return strings.HasPrefix(prefix, uri)
	}
	return strings.HasPrefix(prefix, uri+"/")
}
