package generation

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"httpjet/access"
	"httpjet/contexts"
	"httpjet/rewrite"
	"httpjet/xmlconf"
)

// buildRealm sets who may have a context, by password (R-ACL-7). A realm that is not
// declared, or is of a kind that is not built, closes the context; one whose files
// cannot be read closes it for as long as they cannot. Where a context says only whom it
// requires, the realm is that of the context around it.
func (b *builder) buildRealm(h *host, c *xmlconf.Context, out *contexts.Context) {
	name, title := c.Realm, c.AuthName
	if name == "" && c.Required != "" && c.Written("required") {
		for _, around := range enclosing(h.Conf.Contexts, c) { // the innermost counts
			if around.Realm != "" {
				name, title = around.Realm, or(c.AuthName, around.AuthName)
			}
		}
		if name == "" {
			b.shut(c, out, c.At("required"), "name a realm", "required: neither the context nor one around it has a realm")
		}
	}
	if name == "" {
		return
	}
	decl := realmOf(h.Conf, name)
	switch {
	case decl == nil:
		hint := "declare it in realmList of the virtual host"
		if meant := xmlconf.Suggest(name, realmNames(h.Conf)); meant != "" {
			hint = "is " + meant + " meant?"
		}
		b.shut(c, out, c.At("realm"), hint, "realm "+name+" is not declared")
		return
	case !strings.EqualFold(decl.Type, "file"):
		b.shut(c, out, decl.At("type"), "use a realm of type file", "realm "+decl.Name+" is of type "+decl.Type+", which is not implemented")
		return
	case decl.UserDB == nil || decl.UserDB.Location == "":
		b.shut(c, out, decl.Where, "write userDB with its location", "realm "+decl.Name+" has no file of users")
		return
	}
	need, err := access.ParseRequired(c.Required)
	if err != nil {
		b.shut(c, out, c.At("required"), "write valid-user, user NAME, or group NAME", "required: "+err.Error())
		return
	}
	out.Realm = access.NewGuard(b.realm(h.Name, decl, fmt.Sprintf("context %q", c.URI), c.Required), or(title, decl.Name), need)
}

// buildPurgers is the guard of a host's purgeRealm, nil for none. A realm that cannot be
// had is an error of httpjet's own element: the tree does not load.
func (b *builder) buildPurgers(h *xmlconf.Host, own, server *xmlconf.Cache) *access.Guard {
	at := own
	if own.PurgeRealm == "" {
		at = server
	}
	name := at.PurgeRealm
	if name == "" {
		return nil
	}
	decl := realmOf(h.Conf, name)
	if decl == nil || !strings.EqualFold(decl.Type, "file") || decl.UserDB == nil || decl.UserDB.Location == "" {
		b.fs.Fatal("E-STRICT", at.At("purgeRealm"), "name a realm of type file in realmList of the virtual host, with its userDB",
			"virtual host %q: purgeRealm: realm %q is not declared, or has no file of users", h.Name, name)
		return nil
	}
	return access.NewGuard(b.realm(h.Name, decl, "purgeRealm", ""), decl.Name, access.Required{})
}

// realm leases the realm of a declaration of a host, with what clients have proved to it.
// who asks for it, and whom of its users it requires.
func (b *builder) realm(vhost string, decl *xmlconf.Realm, who, required string) *access.Realm {
	o := access.RealmOptions{Users: decl.UserDB.Location, Cached: decl.UserDB.MaxCacheSize,
		CacheFor: time.Duration(decl.UserDB.CacheTimeout) * time.Second}
	if decl.GroupDB != nil {
		o.Groups = decl.GroupDB.Location
	}
	r, release := b.kept.Realms.Acquire(o, func() *access.Realm { return access.NewRealm(o) })
	b.g.leases = append(b.g.leases, release)
	if err := r.Fault(); err != nil {
		b.fs.Error("E-REALM", decl.UserDB.At("location"), "make the file readable: lines of user:hash, as htpasswd -B writes them",
			"%s of virtual host %q: realm %q: %v; it answers 503 until the file can be read", who, vhost, decl.Name, err)
	}
	if err := r.GroupFault(); err != nil && strings.Contains(strings.ToLower(required), "group") {
		b.fs.Error("E-REALM", decl.GroupDB.At("location"), "make the file readable: lines of group: user user",
			"%s of virtual host %q: realm %q: %v; it answers 503 until the file can be read", who, vhost, decl.Name, err)
	}
	return r
}

func realmOf(v *xmlconf.VHost, name string) *xmlconf.Realm {
	for _, r := range v.Security.Realms {
		if r.Name == name {
			return r
		}
	}
	return nil
}

func realmNames(v *xmlconf.VHost) (names []string) {
	for _, r := range v.Security.Realms {
		names = append(names, r.Name)
	}
	return names
}

// maxFileRealms is how many realms the .htaccess files of a document root may name.
const maxFileRealms = 64

// fileRealms are the realms that .htaccess files name, by their files. They are found
// while requests are served.
type fileRealms struct {
	mu   sync.Mutex
	list map[access.RealmOptions]*access.Realm
}

// guard makes a guard for rewrite.Options.
func (f *fileRealms) guard(users, groups, name, required string) (rewrite.Guard, error) {
	need, err := access.ParseRequired(required)
	if err != nil {
		return nil, err
	}
	o := access.RealmOptions{Users: users, Groups: groups, Cached: 200, CacheFor: time.Minute}
	f.mu.Lock()
	r, full := f.list[o], len(f.list) >= maxFileRealms
	f.mu.Unlock()
	if r == nil && full {
		return nil, fmt.Errorf("more than %d files of users", maxFileRealms)
	}
	if r == nil {
		made := access.NewRealm(o) // reads: no lock is held
		f.mu.Lock()
		if r = f.list[o]; r == nil {
			if f.list == nil {
				f.list = map[access.RealmOptions]*access.Realm{}
			}
			r, f.list[o] = made, made
		}
		f.mu.Unlock()
	}
	return access.NewGuard(r, name, need), nil
}
