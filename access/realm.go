package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"httpjet/exchange"
)

// RealmOptions say where the users of a realm are. They are its whole identity: equal
// options are one realm, also for the next generation.
type RealmOptions struct {
	Users    string        // file of "user:hash[:groups]", absolute
	Groups   string        // file of "group: user user", absolute; "": only the groups of Users
	Cached   int           // verdicts about passwords that are kept; 0: none
	CacheFor time.Duration // how long they hold, if the files do not change
}

// recheck is how old what is known of the files may be (R-ACL-7).
const recheck = time.Second

// Bounds of what a client may try. Hashing costs more for a longer password.
const (
	maxName     = 255
	maxPassword = 512
)

// Realm knows the users and groups of two files. The files are looked at again once
// a second while they are asked for; a user file that is gone, unreadable or huge
// closes the realm until it is right again. Any number of goroutines may use it.
type Realm struct {
	o       RealmOptions
	secret  [32]byte      // of the keys of verdicts: none says anything about a password
	hashing chan struct{} // permits: passwords that are hashed at once
	checked atomic.Int64  // when the files were last looked at, Unix nanoseconds
	users   atomic.Pointer[users]
}

// NewRealm reads the files. A realm whose files cannot be read is closed (see
// Fault), and asks for them again later.
func NewRealm(o RealmOptions) *Realm {
	r := &Realm{o: o, hashing: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)))}
	rand.Read(r.secret[:])
	r.users.Store(load(o))
	r.checked.Store(time.Now().UnixNano())
	return r
}

// Retire is for keep.Map: there is nothing to give up.
func (r *Realm) Retire() {}

// Fault says why the realm lets nobody in, nil if it may.
func (r *Realm) Fault() error { return r.users.Load().err }

// GroupFault says why the group file says nothing, nil if it does.
func (r *Realm) GroupFault() error { return r.users.Load().groupErr }

// current returns what the files say, not older than recheck. One caller reads them
// again; the others go on with what was known.
func (r *Realm) current(now time.Time) *users {
	u := r.users.Load()
	last := r.checked.Load()
	if since := now.UnixNano() - last; since >= 0 && since < int64(recheck) || !r.checked.CompareAndSwap(last, now.UnixNano()) {
		return u
	}
	if u.changed(r.o) {
		u = load(r.o)
		r.users.Store(u)
	}
	return u
}

// verify returns the user that has name and password, nil for none. Its time does
// not tell whether there is such a name.
func (r *Realm) verify(ctx context.Context, now time.Time, u *users, name, password string) (*user, error) {
	who := u.byName[name]
	key := r.key(name, password)
	switch {
	case u.good.has(key, now):
		return who, nil
	case u.bad.has(key, now):
		return nil, nil
	}
	hash, known := u.dummy, who != nil && who.hash != nil
	if known {
		hash = who.hash
	}
	if hash == nil {
		return nil, nil // nobody at all can get in
	}
	select {
	case r.hashing <- struct{}{}:
	case <-ctx.Done():
		return nil, exchange.ErrClientGone
	}
	ok := hash.MatchesPassword(password) // compares in constant time
	<-r.hashing
	if !ok || !known {
		u.bad.add(key, now)
		return nil, nil
	}
	u.good.add(key, now)
	return who, nil
}

// key names a pair of name and password.
func (r *Realm) key(name, password string) [32]byte {
	var room [32 + maxName + 1 + maxPassword]byte
	b := append(room[:0], r.secret[:]...)
	b = append(append(append(b, name...), 0), password...) // a name has no NUL: it is one of a file, or none
	return sha256.Sum256(b)
}

// verdicts remembers pairs for a while, at most as many as it is allowed: when half
// of them are new the older half goes.
type verdicts struct {
	most int
	life time.Duration

	mu          sync.Mutex
	now, before map[[32]byte]int64 // end of the verdict, Unix nanoseconds
}

func newVerdicts(o RealmOptions) verdicts { return verdicts{most: o.Cached, life: o.CacheFor} }

func (v *verdicts) has(key [32]byte, now time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	end, ok := v.now[key]
	if !ok {
		end, ok = v.before[key]
	}
	return ok && now.UnixNano() < end
}

func (v *verdicts) add(key [32]byte, now time.Time) {
	if v.most <= 0 || v.life <= 0 {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.now == nil || len(v.now) >= max(1, v.most/2) {
		v.before, v.now = v.now, map[[32]byte]int64{}
	}
	v.now[key] = now.Add(v.life).UnixNano()
}

// Required says which users of a realm may have something. The zero value is every
// user.
type Required struct {
	users, groups []string
}

// ParseRequired reads "valid-user", "user a b" or "group a b"; "" is valid-user.
// Several lines are alternatives.
func ParseRequired(text string) (Required, error) {
	var r Required
	for line := range strings.Lines(text) {
		w := words(strings.TrimSpace(line))
		switch {
		case len(w) == 0:
		case strings.EqualFold(w[0], "valid-user") && len(w) == 1:
			return Required{}, nil
		case strings.EqualFold(w[0], "user") && len(w) > 1:
			r.users = append(r.users, w[1:]...)
		case strings.EqualFold(w[0], "group") && len(w) > 1:
			r.groups = append(r.groups, w[1:]...)
		default:
			return Required{}, fmt.Errorf("%q is none of valid-user, user NAME, group NAME", strings.TrimSpace(line))
		}
	}
	return r, nil
}

// anybody reports whether every user will do.
func (r *Required) anybody() bool { return len(r.users)+len(r.groups) == 0 }

// met reports whether who is one of those that r names. The error is of a group file
// that would have to be asked.
func (r *Required) met(who *user, u *users) (bool, error) {
	if r.anybody() || slices.Contains(r.users, who.name) {
		return true, nil
	}
	for _, g := range r.groups {
		if _, in := u.groups[g][who.name]; in || slices.Contains(who.groups, g) {
			return true, nil
		}
	}
	if len(r.groups) > 0 {
		return false, u.groupErr
	}
	return false, nil
}

// Guard lets the users of a realm in and asks all others for their password (HTTP
// Basic, RFC 7617). It is immutable.
type Guard struct {
	realm     *Realm
	need      Required
	challenge []exchange.Field
}

// NewGuard returns the guard of something that needs users of a realm. Text is what
// the client shows who asks for a password.
func NewGuard(r *Realm, text string, need Required) *Guard {
	text = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return -1
		}
		return c
	}, text)
	text = strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text)
	return &Guard{realm: r, need: need, challenge: []exchange.Field{{Name: "WWW-Authenticate", Value: `Basic realm="` + text + `"`}}}
}

// Admit returns nil for a request of a user who may have what g guards, and notes
// the user in x.Req.User. All others get 401 with the challenge; while the realm
// cannot tell who is who, everybody gets 503.
func (g *Guard) Admit(x *exchange.Exchange) error {
	now := x.Recent()
	u := g.realm.current(now)
	if u.err != nil {
		return exchange.Fail(503, "closed", "realm: %w", u.err)
	}
	name, password, ok := credentials(&x.Req.Fields)
	if !ok {
		return g.refuse("no credentials")
	}
	who, err := g.realm.verify(x.Context(), now, u, name, password)
	if err != nil {
		return err
	}
	if who == nil {
		return g.refuse("wrong user or password")
	}
	ok, err = g.need.met(who, u)
	if err != nil {
		return exchange.Fail(503, "closed", "realm: groups: %w", err)
	}
	if !ok {
		return g.refuse("the user is none of those who are required")
	}
	x.Req.User = who.name
	return nil
}

// Fault is why nobody is let in, or nobody of the groups that are required, until a file
// can be read; nil if there is no such reason.
func (g *Guard) Fault() error {
	if err := g.realm.Fault(); err != nil || len(g.need.groups) == 0 {
		return err
	}
	return g.realm.GroupFault()
}

func (g *Guard) refuse(why string) error {
	e := exchange.Fail(401, "unauthorized", "%s", why)
	e.Fields = g.challenge
	return e
}

// credentials reads the one Authorization field of a request. They are decoded on
// the stack: nothing is allocated for a name or password that is turned away by its
// size.
func credentials(f *exchange.Fields) (name, password string, ok bool) {
	value, n := "", 0
	for v := range f.Values("Authorization") {
		value = v
		n++
	}
	scheme, coded, found := strings.Cut(value, " ")
	coded = strings.Trim(coded, " ")
	if n != 1 || !found || !strings.EqualFold(scheme, "Basic") || len(coded) > base64.StdEncoding.EncodedLen(maxName+1+maxPassword) {
		return "", "", false
	}
	raw, err := base64.StdEncoding.DecodeString(coded)
	if err != nil {
		return "", "", false
	}
	name, password, ok = strings.Cut(string(raw), ":")
	if len(name) > maxName || len(password) > maxPassword || strings.IndexByte(name, 0) >= 0 {
		return "", "", false
	}
	return name, password, ok
}
