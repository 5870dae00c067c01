package xmlconf

// A Restriction is an element that keeps somebody out. Who does not honour it
// must close what it stands in (R-SAFE-1).
type Restriction struct {
	Element string // realm, accessControl, clientVerify, allowBrowse, authorizer, enabled, hotlinkCtrl, forceStrictOwnership
	At      Place
}

// Denies reports whether the list keeps anybody out: an allow list alone does not
// (LSX 2.6). It may be nil.
func (a *AccessControl) Denies() bool { return a != nil && len(a.Deny) > 0 }

// Restrictions returns what restricts context c, in a fixed order.
func (c *Context) Restrictions() []Restriction {
	var out []Restriction
	add := func(on bool, element string) {
		if on {
			out = append(out, Restriction{element, c.At(element)})
		}
	}
	add(c.Realm != "", "realm")
	add(c.AccessControl.Denies(), "accessControl")
	add(!c.AllowBrowse, "allowBrowse")
	add(c.Authorizer != "", "authorizer")
	return out
}

// Restrictions returns what restricts the whole host.
func (v *VHost) Restrictions() []Restriction {
	var out []Restriction
	if !v.Enabled {
		out = append(out, Restriction{"enabled", v.At("enabled")})
	}
	if v.Security.AccessControl.Denies() {
		out = append(out, Restriction{"accessControl", v.Security.At("accessControl")})
	}
	if h := v.Security.HotlinkCtrl; h != nil && h.Enable {
		out = append(out, Restriction{"hotlinkCtrl", h.At("enableHotlinkCtrl")})
	}
	if v.VHSSL != nil && v.VHSSL.ClientVerify == 2 {
		out = append(out, Restriction{"clientVerify", v.VHSSL.At("clientVerify")})
	}
	return out
}

// Restrictions returns what restricts every host of the listener.
func (l *Listener) Restrictions() []Restriction {
	if l.ClientVerify == 2 {
		return []Restriction{{"clientVerify", l.At("clientVerify")}}
	}
	return nil
}

// Restrictions returns what restricts every host of the server.
func (s *Server) Restrictions() []Restriction {
	var out []Restriction
	if s.Security.AccessControl.Denies() {
		out = append(out, Restriction{"accessControl", s.Security.At("accessControl")})
	}
	if h := s.Security.HotlinkCtrl; h != nil && h.Enable {
		out = append(out, Restriction{"hotlinkCtrl", h.At("enableHotlinkCtrl")})
	}
	if fa := &s.Security.FileAccess; fa.ForceStrictOwnership {
		out = append(out, Restriction{"forceStrictOwnership", fa.At("forceStrictOwnership")})
	}
	return out
}
