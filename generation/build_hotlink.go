package generation

import (
	"strconv"
	"strings"

	"httpjet/contexts"
	"httpjet/xmlconf"
)

// buildHotlink sets which pages may show the files of a host: its own block decides, or
// the server's where it has none. One that guards nothing, or that is not understood,
// closes the host (R-SAFE-1).
func (b *builder) buildHotlink(h *xmlconf.Host, v *contexts.VHost) {
	c := h.Conf.Security.HotlinkCtrl
	if c == nil || !c.Enable && !c.Written("enableHotlinkCtrl") {
		c = b.cfg.Server.Security.HotlinkCtrl
	}
	if c == nil || !c.Enable {
		return
	}
	out := &contexts.Hotlink{Direct: c.AllowDirectAccess, Redirect: c.RedirectURI}
	for _, s := range c.Suffixes {
		suffix := strings.ToLower(strings.TrimPrefix(s, "."))
		if strings.ContainsFunc(suffix, notOfSuffix) { // no file has it: nothing would be guarded
			b.shutHost(h, c.At("suffixes"), "write letters, digits, _ and -, with a comma between two suffixes", "hotlinkCtrl: "+strconv.Quote(s)+" is no suffix")
			return
		}
		out.Suffixes = append(out.Suffixes, suffix)
	}
	if len(out.Suffixes) == 0 {
		b.shutHost(h, c.At("enableHotlinkCtrl"), "write suffixes, or remove the block", "hotlinkCtrl names no suffixes")
		return
	}
	for _, host := range c.AllowedHosts {
		host = strings.ToLower(host)
		switch {
		case c.OnlySelf:
		case strings.ContainsAny(host, "[]()/:"):
			b.fs.Warn("W-ACCESS", c.At("allowedHosts"), "write a name, or one with *", "hotlinkCtrl: %q is no name of a host; the entry is left out", host)
		default:
			out.Allowed.Add(host, true)
		}
	}
	v.Hotlink = out
}
