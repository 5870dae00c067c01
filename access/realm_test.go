package access

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"httpjet/exchange"
)

// Every hash is of the password "secret".
var hashes = map[string]string{
	"bcrypt": "$2a$04$mdJH67wmerBE0WJbMMGP7.D4PElNWebDajEiDw0nWvhXSP4VQT/sq",
	"htpwB":  "$2y$05$vBW3lHR7GYCDOLjt.FBMe.RDnH6wnmwlvQ0VCguTfb2/voJWFR0Ei",
	"apr1":   "$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/",
	"md5":    "$1$abcdefgh$cHJi5PXp/ki/ktXzqlk6I1",
	"sha1":   "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
	"sha256": "$5$abcdefgh$gruCpC7VkOTspMQTTSAR8mtlO9Upms.fwqE5y16JVM.",
	"sha512": "$6$abcdefgh$ltjgWl6579NluT/Vi1nwEvcil.G5Nbc4NiXZaNGStk8PSwGfQv72N2CKPPrVACtLtip/cZ/1GM/O6IND4WQhG.",
	"rounds": "$6$rounds=2000$abcdefgh$js.Oqma4t2Fwxd5k1k7HZc8PJANjCww6bXOf6rha5ucSTdmrEHzoB1xTT6hSCKIARQkqP2BCwtC1eCAzLkvzb1",
}

// noWire has no client behind it.
type noWire struct{ exchange.Wire }

func (noWire) Context() context.Context { return context.Background() }

// ask is a request of a user; "" has no Authorization field.
func ask(name, password string) *exchange.Exchange {
	x := &exchange.Exchange{}
	x.Reset(noWire{})
	if name != "" {
		x.Req.Fields.Add("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(name+":"+password)))
	}
	return x
}

// status is the answer to x, 200 if it is let in.
func status(t *testing.T, g *Guard, x *exchange.Exchange) int {
	t.Helper()
	err := g.Admit(x)
	if err == nil {
		return 200
	}
	e, ok := errors.AsType[*exchange.Error](err)
	if !ok {
		t.Fatal(err)
	}
	if x.Req.User != "" {
		t.Errorf("%d, and the user is %q", e.Status, x.Req.User)
	}
	if (e.Status == 401) != (len(e.Fields) == 1 && e.Fields[0].Name == "WWW-Authenticate") {
		t.Errorf("%d with %v", e.Status, e.Fields)
	}
	return e.Status
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func need(t *testing.T, text string) Required {
	t.Helper()
	r, err := ParseRequired(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// R-ACL-7: every kind of hash that is promised, and no other one.
func TestHashes(t *testing.T) {
	var file strings.Builder
	for kind, hash := range hashes {
		file.WriteString(kind + ":" + hash + "\n")
	}
	file.WriteString("plain:secret\ndes:rl0uE1Y2mCkfA\nempty:\ncut:$6$abcdefgh\ncut2:$5$rounds=x$a$b\nfew:$5$rounds=10$abcdefgh$gruCpC7VkOTspMQTTSAR8mtlO9Upms.fwqE5y16JVM.\n" +
		"many:$5$rounds=99999999$abcdefgh$gruCpC7VkOTspMQTTSAR8mtlO9Upms.fwqE5y16JVM.\ncost:$2a$31$mdJH67wmerBE0WJbMMGP7.D4PElNWebDajEiDw0nWvhXSP4VQT/sq\n" +
		"apr1:" + hashes["md5"] + "x\n") // the first entry of a user counts
	g := NewGuard(NewRealm(RealmOptions{Users: writeFile(t, filepath.Join(t.TempDir(), "u"), file.String())}), "R", Required{})
	for kind := range hashes {
		x := ask(kind, "secret")
		if s := status(t, g, x); s != 200 || x.Req.User != kind {
			t.Errorf("%s: %d, user %q", kind, s, x.Req.User)
		}
		for _, wrong := range []string{"", "Secret", "secret ", "secret\x00", hashes[kind], strings.Repeat("x", 600)} {
			if s := status(t, g, ask(kind, wrong)); s != 401 {
				t.Errorf("%s with %q: %d", kind, wrong, s)
			}
		}
	}
	for _, name := range []string{"plain", "des", "empty", "cut", "cut2", "few", "many", "cost", "nobody", strings.Repeat("n", 300)} {
		for _, password := range []string{"secret", ""} {
			if s := status(t, g, ask(name, password)); s != 401 {
				t.Errorf("%s: %d", name, s)
			}
		}
	}
}

// What is no Basic authorization is asked for one, and two are none.
func TestCredentials(t *testing.T) {
	g := NewGuard(NewRealm(RealmOptions{Users: writeFile(t, filepath.Join(t.TempDir(), "u"), "sha1:"+hashes["sha1"])}), "a \"b\"\\\r\nc", Required{})
	good := "Basic " + base64.StdEncoding.EncodeToString([]byte("sha1:secret"))
	f := func(want int, values ...string) {
		t.Helper()
		x := ask("", "")
		for _, v := range values {
			x.Req.Fields.Add("Authorization", v)
		}
		if s := status(t, g, x); s != want {
			t.Errorf("%q: %d, want %d", values, s, want)
		}
	}
	f(200, good)
	f(200, strings.Replace(good, "Basic", "bAsIc  ", 1))
	f(401)
	f(401, "")
	f(401, "Basic")
	f(401, good, good)
	f(401, strings.Replace(good, "Basic", "Bearer", 1))
	f(401, "Basic !!!")
	f(401, "Basic "+base64.StdEncoding.EncodeToString([]byte("sha1")))
	f(401, "Basic "+base64.StdEncoding.EncodeToString([]byte("sha1\x00:secret")))
	f(401, good+"x")
	f(401, "Basic "+strings.Repeat("A", 1<<20))
	e, _ := errors.AsType[*exchange.Error](g.Admit(ask("", "")))
	if e.Fields[0].Value != `Basic realm="a \"b\"\\c"` || e.Reason != "unauthorized" {
		t.Errorf("%s %v", e.Reason, e.Fields)
	}
}

// R-ACL-7: required names users, groups, or anybody.
func TestRequired(t *testing.T) {
	dir := t.TempDir()
	h := hashes["sha1"]
	users := writeFile(t, filepath.Join(dir, "u"), "ann:"+h+"\nbob:"+h+":staff,ops\r\n# remark:x\n\ncyd:"+h)
	groups := writeFile(t, filepath.Join(dir, "g"), "staff: cyd\nboss: ann bob\nboss: cyd\n")
	r := NewRealm(RealmOptions{Users: users, Groups: groups})
	for text, want := range map[string]string{
		"": "ann bob cyd", "valid-user": "ann bob cyd", "user ann cyd": "ann cyd", "group staff": "bob cyd", "group ops": "bob",
		"group boss": "ann bob cyd", "group nobody": "", "user ann\ngroup ops": "ann bob", " USER  bob ": "bob",
	} {
		var in strings.Builder
		for _, name := range []string{"ann", "bob", "cyd"} {
			if status(t, NewGuard(r, "R", need(t, text)), ask(name, "secret")) == 200 {
				in.WriteString(" " + name)
			}
		}
		if strings.TrimSpace(in.String()) != want {
			t.Errorf("%q lets in%s", text, in.String())
		}
	}
	for _, text := range []string{"ann", "user", "group", "valid-user ann", "user ann\nnonsense", "ldap-group x"} {
		if _, err := ParseRequired(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// R-ACL-7: a user file that vanishes or is huge closes the realm, one that changes
// counts within a second, and verdicts do not outlive it.
func TestUserFileChanges(t *testing.T) {
	name := writeFile(t, filepath.Join(t.TempDir(), "u"), "ann:"+hashes["apr1"])
	synctest.Test(t, func(t *testing.T) {
		o := RealmOptions{Users: name, Cached: 200, CacheFor: time.Hour}
		g := NewGuard(NewRealm(o), "R", Required{})
		f := func(user string, want int) {
			t.Helper()
			time.Sleep(time.Second) // of the bubble
			if s := status(t, g, ask(user, "secret")); s != want {
				t.Errorf("%s: %d, want %d", user, s, want)
			}
		}
		f("ann", 200)
		f("ann", 200) // by the verdict
		f("bob", 401)
		writeFile(t, name, "bob:"+hashes["apr1"]+"\nx:y\n")
		f("ann", 401)
		f("bob", 200)
		os.Remove(name)
		f("bob", 503)
		writeFile(t, name, "ann:"+hashes["apr1"])
		f("ann", 200)
		writeFile(t, name, strings.Repeat("#\n", maxUserFile/2)+"ann:"+hashes["apr1"])
		f("ann", 503)
		writeFile(t, name, "ann:"+hashes["apr1"]+"\n"+strings.Repeat("x", maxUserLine+1))
		f("ann", 503)
		os.Remove(name)
		if err := syscall.Mkfifo(name, 0o644); err != nil {
			t.Fatal(err)
		}
		f("ann", 503)
		os.Remove(name)
		writeFile(t, name, "")
		f("ann", 401)
	})
}

// A group file that cannot be read closes what asks for a group, and nothing else.
func TestGroupFileGone(t *testing.T) {
	dir := t.TempDir()
	users := writeFile(t, filepath.Join(dir, "u"), "ann:"+hashes["sha1"]+":own")
	r := NewRealm(RealmOptions{Users: users, Groups: filepath.Join(dir, "none")})
	if r.Fault() != nil || r.GroupFault() == nil {
		t.Error(r.Fault(), r.GroupFault())
	}
	for text, want := range map[string]int{"": 200, "user ann": 200, "group own": 200, "group x": 503, "user bob": 401} {
		if s := status(t, NewGuard(r, "R", need(t, text)), ask("ann", "secret")); s != want {
			t.Errorf("%q: %d, want %d", text, s, want)
		}
	}
	if s := status(t, NewGuard(r, "R", need(t, "group x")), ask("", "")); s != 401 {
		t.Error(s)
	}
}

// Verdicts are kept for a while, and no more of them than allowed.
func TestVerdictsAreBounded(t *testing.T) {
	v := newVerdicts(RealmOptions{Cached: 10, CacheFor: time.Minute})
	key := func(i int) (k [32]byte) { copy(k[:], fmt.Sprint("k", i)); return k }
	now := time.Unix(1000, 0)
	for i := range 1000 {
		v.add(key(i), now)
		if n := len(v.now) + len(v.before); n > 10 {
			t.Fatalf("%d verdicts", n)
		}
	}
	if !v.has(key(999), now) || v.has(key(1), now) || v.has(key(999), now.Add(time.Minute)) {
		t.Error("the wrong verdicts are kept")
	}
	none := newVerdicts(RealmOptions{CacheFor: time.Minute})
	if none.add(key(1), now); none.has(key(1), now) {
		t.Error("kept although none may be")
	}
}

// A verdict that is remembered costs no hash: the hash of the user is taken away.
func TestVerdictsSaveHashing(t *testing.T) {
	name := writeFile(t, filepath.Join(t.TempDir(), "u"), "ann:"+hashes["bcrypt"])
	r := NewRealm(RealmOptions{Users: name, Cached: 10, CacheFor: time.Hour})
	g := NewGuard(r, "R", Required{})
	if s := status(t, g, ask("ann", "secret")); s != 200 {
		t.Fatal(s)
	}
	if s := status(t, g, ask("ann", "wrong")); s != 401 {
		t.Fatal(s)
	}
	r.users.Load().byName["ann"].hash = forbidden{t}
	if s := status(t, g, ask("ann", "secret")); s != 200 {
		t.Error(s)
	}
	if s := status(t, g, ask("ann", "wrong")); s != 401 {
		t.Error(s)
	}
}

type forbidden struct{ t *testing.T }

func (f forbidden) MatchesPassword(string) bool {
	f.t.Error("a password was hashed again")
	return true
}

func BenchmarkAdmitKnown(b *testing.B) {
	name := filepath.Join(b.TempDir(), "u")
	os.WriteFile(name, []byte("ann:"+hashes["bcrypt"]), 0o644)
	g := NewGuard(NewRealm(RealmOptions{Users: name, Cached: 10, CacheFor: time.Hour}), "R", Required{})
	x := ask("ann", "secret")
	b.ReportAllocs()
	for b.Loop() {
		if err := g.Admit(x); err != nil {
			b.Fatal(err)
		}
	}
}
