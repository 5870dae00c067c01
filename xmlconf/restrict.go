package xmlconf

import (
	"reflect"
	"strings"
)

// A Restriction is an element that keeps somebody out. Who does not honour it
// must close what it stands in (R-SAFE-1).
type Restriction struct {
	Element string // realm, accessControl, clientVerify, allowBrowse, authorizer, enabled, hotlinkCtrl, forceStrictOwnership
	At      Place
	Lost    bool // it stands where nothing reads it: Element may be any that restricts
}

// Fault says why the restriction does not act, for who does not honour it.
func (r Restriction) Fault() string {
	switch {
	case r.Element == apacheConf:
		return r.Element + " refuses requests and is not honoured"
	case r.Lost:
		return r.Element + " is not read at this place"
	}
	return r.Element + " is not honoured yet"
}

// Hint is what to do about it.
func (r Restriction) Hint() string {
	switch {
	case r.Element == apacheConf:
		return "guard the paths with accessControl of a context, and remove it"
	case r.Lost:
		return "write it where it is read, once, or remove it"
	}
	return "remove the element, or keep what it guards on a server that honours it"
}

// Denies reports whether the list keeps anybody out: an allow list alone does not
// (LSX 2.6). It may be nil.
func (a *AccessControl) Denies() bool { return a != nil && len(a.Deny) > 0 }

// Restrictions returns what restricts context c, in a fixed order.
func (c *Context) Restrictions() []Restriction {
	var out []Restriction
	add := func(on bool, element string) {
		if on {
			out = append(out, Restriction{Element: element, At: c.At(element)})
		}
	}
	add(c.Realm != "", "realm")
	add(c.AccessControl.Denies(), "accessControl")
	add(!c.AllowBrowse, "allowBrowse")
	add(c.Authorizer != "", "authorizer")
	return append(out, c.lost...)
}

// Restrictions returns what restricts the whole host.
func (v *VHost) Restrictions() []Restriction {
	var out []Restriction
	if !v.Enabled {
		out = append(out, Restriction{Element: "enabled", At: v.At("enabled")})
	}
	if v.Security.AccessControl.Denies() {
		out = append(out, Restriction{Element: "accessControl", At: v.Security.At("accessControl")})
	}
	if h := v.Security.HotlinkCtrl; h != nil && h.Enable {
		out = append(out, Restriction{Element: "hotlinkCtrl", At: h.At("enableHotlinkCtrl")})
	}
	if v.VHSSL != nil && v.VHSSL.ClientVerify == 2 {
		out = append(out, Restriction{Element: "clientVerify", At: v.VHSSL.At("clientVerify")})
	}
	return append(out, v.lost...)
}

// Restrictions returns what restricts every host of the listener.
func (l *Listener) Restrictions() []Restriction {
	var out []Restriction
	if l.ClientVerify == 2 { // nobody can show a certificate to a plain one
		out = append(out, Restriction{Element: "clientVerify", At: l.At("clientVerify"), Lost: !l.Secure})
	}
	return append(out, l.lost...)
}

// Restrictions returns what a declaration would restrict if it were read there.
func (d *VHostDecl) Restrictions() []Restriction { return d.lost }

// Restrictions returns what a template's own level would restrict if it were
// read there.
func (t *Template) Restrictions() []Restriction { return t.lost }

// Restrictions returns what restricts every host of the server.
func (s *Server) Restrictions() []Restriction {
	var out []Restriction
	if s.Security.AccessControl.Denies() {
		out = append(out, Restriction{Element: "accessControl", At: s.Security.At("accessControl")})
	}
	if h := s.Security.HotlinkCtrl; h != nil && h.Enable {
		out = append(out, Restriction{Element: "hotlinkCtrl", At: h.At("enableHotlinkCtrl")})
	}
	if fa := &s.Security.FileAccess; fa.ForceStrictOwnership {
		out = append(out, Restriction{Element: "forceStrictOwnership", At: fa.At("forceStrictOwnership")})
	}
	return append(out, s.lost...)
}

// drop notes what restricts in an element that is not read: a second one where
// the first wins, an item that is skipped, one that stands where nobody looks.
// LiteSpeed ignores it and lets everybody in; R-SAFE-1 does not.
func (d *decoder) drop(c *Node, b *Block, sc scope) {
	n := restricting(c)
	if n == nil && strings.EqualFold(c.Name, "enabled") && isOff(c.Text) && sc.ofHost() {
		n = c
	}
	if n != nil && len(b.lost) < maxLost {
		b.lost = append(b.lost, Restriction{Element: n.Name, At: sc.place(n, n.Name), Lost: true})
	}
}

// misspelt is drop for an element that would restrict under the name that was
// probably meant.
func (d *decoder) misspelt(c *Node, meant string, b *Block, sc scope) {
	as := *c
	as.Name = meant
	if restricting(c) == nil && restricting(&as) != nil && len(b.lost) < maxLost {
		b.lost = append(b.lost, Restriction{Element: c.Name, At: sc.place(c, c.Name), Lost: true})
	}
}

// maxLost bounds what one block tells; one is enough to close it.
const maxLost = 8

// inherit takes over what the block of a group lost, unless it is of a kind that
// is closed by itself.
func (b *Block) inherit(group reflect.Value) {
	switch group.Type() {
	case reflect.TypeFor[Context](), reflect.TypeFor[VHost](), reflect.TypeFor[Listener](),
		reflect.TypeFor[VHostDecl](), reflect.TypeFor[TemplateDecl](), reflect.TypeFor[Member]():
		return
	}
	b.lost = append(b.lost, group.FieldByName("Block").Interface().(Block).lost...)
}

// apacheConf holds directives of Apache, as text.
const apacheConf = "apacheConf"

// apacheRefuses reports whether one of the directives in text may keep somebody
// out.
func apacheRefuses(text string) bool {
	for line := range strings.Lines(text) {
		words := strings.Fields(strings.ToLower(line))
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "require":
			if strings.Join(words, " ") != "require all granted" {
				return true
			}
		case "deny", "authtype", "authuserfile", "sslverifyclient", "sslrequire", "sslrequiressl":
			return true
		}
	}
	return false
}

// ofHost reports whether the block is about a whole host.
func (s scope) ofHost() bool {
	last := s.path[strings.LastIndexByte(s.path, '/')+1:]
	return last == "virtualHost" || last == "member" || strings.HasPrefix(strings.ToLower(last), "virtualhost") && last != "virtualHostList"
}

// isOff reports whether the text of a switch is there and means off.
func isOff(text string) bool {
	v, _, _ := parseBool(text, false)
	return text != "" && v == false
}

// restricting returns the first element in the tree n that restricts by its name
// and value, wherever it stands; nil if there is none.
func restricting(n *Node) *Node {
	found := false
	switch strings.ToLower(n.Name) {
	case "apacheconf":
		found = apacheRefuses(n.Text)
	case "realm": // with children it defines one, which restricts nothing
		found = n.Text != "" && len(n.Children) == 0
	case "deny", "authorizer", "suspendedvhosts", "suffix":
		found = !n.blank()
	case "accessdenydir":
		found = !n.blank() || len(n.Children) > 0
	case "allowbrowse", "enablescript":
		found = isOff(n.Text)
	case "restrained", "enablehotlinkctrl", "forcestrictownership":
		found = n.Text != "" && !isOff(n.Text)
	case "clientverify":
		v, _, ok := number(n.Text)
		found = n.Text != "" && (!ok || v == 2)
	}
	if found {
		return n
	}
	for _, c := range n.Children {
		if r := restricting(c); r != nil {
			return r
		}
	}
	return nil
}
