package generation

import (
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"syscall"

	"httpjet/apps"
	"httpjet/xmlconf"
)

// What an administrator sets to confine programs, and who they run as. What httpjet does
// not do keeps the program from being started: it would run with more rights than it was
// given (R-SAFE-1).

// A refusal says why a program is not started, by which element.
type refusal struct {
	at   xmlconf.Place
	why  string
	hint string
}

// confinement finds what confines the programs of a host, nil for those of the server,
// and is not honoured; nil if nothing does.
func (b *builder) confinement(h *xmlconf.Host) *refusal {
	s := b.cfg.Server
	if p := s.ChrootPath; s.EnableChroot && p != "" && p != "/" {
		return &refusal{s.At("enableChroot"), "the server is to be confined to " + p + " by enableChroot, and httpjet is not",
			"write enableChroot 0, with RootDirectory= or ProtectSystem= in the systemd unit; or start the program otherwise, with autoStart 0"}
	}
	switches := func(b *xmlconf.Block, c *xmlconf.Sandbox, cgroups int) []confiner {
		return []confiner{{b, "bubbleWrap", c.BubbleWrap}, {b, "namespace", c.Namespace}, {b, "cgroups", cgroups}}
	}
	server := slices.Concat(switches(&s.Block, &s.Sandbox, 0), switches(&s.Security.Block, &s.Security.Sandbox, 0), switches(&s.Security.CGI.Block, &xmlconf.Sandbox{}, s.Security.CGI.Cgroups))
	for _, c := range server {
		if c.value == 2 {
			return c.refuse("")
		}
	}
	if h == nil {
		return nil
	}
	host := slices.Concat(switches(&h.Decl.Block, &h.Decl.Sandbox, h.Decl.Cgroups), switches(&h.Conf.Block, &h.Conf.Confined.Sandbox, h.Conf.Cgroups),
		switches(&h.Conf.Security.Block, &h.Conf.Security.Sandbox, 0))
	for _, c := range host {
		off := slices.ContainsFunc(server, func(s confiner) bool { return s.name == c.name && s.value == 0 && s.in.Written(s.name) })
		if c.value == 2 && !off {
			return c.refuse(" of virtual host " + h.Name)
		}
	}
	mode, path, in := h.Decl.ChrootMode, h.Decl.ChrootPath, &h.Decl.Block
	if h.Conf.Written("chrootMode") {
		mode, path, in = h.Conf.ChrootMode, h.Conf.ChrootPath, &h.Conf.Block
	}
	if mode == 1 || mode == 2 && path != "/" {
		return (&confiner{in, "chrootMode", mode}).refuse(" of virtual host " + h.Name)
	}
	return nil
}

// confiner is a switch as it stands in one place.
type confiner struct {
	in    *xmlconf.Block
	name  string
	value int
}

func (c *confiner) refuse(of string) *refusal {
	return &refusal{c.in.At(c.name), fmt.Sprintf("%s %d%s confines programs, which httpjet does not", c.name, c.value, of),
		"write " + c.name + " 0, or start the program confined by a unit of its own, with autoStart 0"}
}

// names are a user and a group as they are configured.
type names struct{ user, group string }

// hostNames are who the programs of a host are by its own word; empty if it has none.
func hostNames(h *xmlconf.Host) names {
	for _, n := range []names{{h.Conf.SuexecUser, h.Conf.SuexecGroup}, {h.Decl.SuexecUser, h.Decl.SuexecGroup}, {h.Decl.VHUser, h.Decl.VHGroup}} {
		if n != (names{}) {
			return n
		}
	}
	return names{}
}

// own reports whether the programs of a host are its own, even those of the server's
// processors: they run as somebody else, or are not started at all.
func (b *builder) own(h *xmlconf.Host) bool {
	return setUID(h) || hostNames(h) != (names{}) || b.confinement(h) != nil && b.confinement(nil) == nil
}

// privileged are users and groups that no program is given (LSX 3.2).
var privileged = []string{"root", "lsadm", "sudo", "wheel", "shadow"}

// identity is who a program runs as: whom extUser and extGroup name, else its host, else
// the owner of the document root of a host with setUIDMode 2, else, as root, the user and
// group of the server. It is not set if that is the server's own. why says what keeps
// the program from running as them (R-LSAPI-6).
func (b *builder) identity(d *xmlconf.ExtProcessor, h *xmlconf.Host) (id apps.Identity, why string) {
	n := names{d.ExtUser, d.ExtGroup}
	if n == (names{}) && h != nil {
		n = hostNames(h)
	}
	r := &b.cfg.Server.Security.CGI
	id = apps.Identity{Set: true, UID: b.euid(), GID: os.Getegid()}
	switch {
	case n != (names{}):
		if why = n.lookUp(&id); why != "" {
			return id, why
		}
	case h != nil && setUID(h):
		info, err := os.Stat(h.Conf.DocRoot)
		if err != nil {
			return id, "setUIDMode 2 of virtual host " + h.Name + ": its docRoot cannot be looked at"
		}
		st := info.Sys().(*syscall.Stat_t)
		id.UID, id.GID = int(st.Uid), int(st.Gid)
	default:
		return b.serverIdentity(d)
	}
	if b.euid() != 0 && id.UID == b.euid() && id.GID == os.Getegid() {
		return apps.Identity{}, ""
	}
	if r.ForceGID > 0 {
		id.GID = r.ForceGID
	}
	switch {
	case id.UID < r.MinUID:
		return id, fmt.Sprintf("user id %d is below minUID %d", id.UID, r.MinUID)
	case id.GID < r.MinGID:
		return id, fmt.Sprintf("group id %d is below minGID %d", id.GID, r.MinGID)
	case b.euid() != 0:
		return id, "httpjet does not run as root, so it cannot start a program as another user"
	}
	return id, ""
}

// lookUp finds the ids of the names.
func (n names) lookUp(id *apps.Identity) (why string) {
	if n.user != "" {
		u, err := user.Lookup(n.user)
		if err != nil {
			return "there is no user " + n.user
		}
		id.UID, _ = strconv.Atoi(u.Uid)
		id.GID, _ = strconv.Atoi(u.Gid)
	}
	if n.group != "" {
		g, err := user.LookupGroup(n.group)
		if err != nil {
			return "there is no group " + n.group
		}
		id.GID, _ = strconv.Atoi(g.Gid)
	}
	for _, name := range []string{n.user, n.group} {
		if slices.Contains(privileged, name) {
			return name + " is too mighty for a program"
		}
	}
	return ""
}

// serverIdentity is who a program of nobody in particular runs as: as root the user and
// group that the server names, for LiteSpeed is those itself; else, and without them,
// httpjet itself.
func (b *builder) serverIdentity(d *xmlconf.ExtProcessor) (id apps.Identity, why string) {
	if b.euid() != 0 {
		return id, ""
	}
	s := b.cfg.Server
	if s.User == "" || s.User == "root" {
		b.fs.Warn("W-ROOT", d.At("path"), "write extUser, or user of the server; or start httpjet as another user",
			"extProcessor %q: its program runs as root, as httpjet does", d.Name)
		return id, ""
	}
	id.Set = true
	if why = (names{user: s.User}).lookUp(&id); why != "" {
		return id, why
	}
	if g, err := user.LookupGroup(s.Group); err == nil && !slices.Contains(privileged, s.Group) { // distributions differ: nobody, nogroup
		id.GID, _ = strconv.Atoi(g.Gid)
	}
	if id.UID == 0 || id.GID == 0 {
		return id, "user " + s.User + " of the server is root"
	}
	return id, ""
}

// euid is the user that programs are started by.
func (b *builder) euid() int {
	if b.opt.User != nil {
		return b.opt.User()
	}
	return os.Geteuid()
}
