package rewrite

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"httpjet/exchange"
)

// unreadable is the guard of users in a file that cannot be read.
type unreadable string

func (u unreadable) Admit(*exchange.Exchange) error { return u.Fault() }
func (u unreadable) Fault() error                   { return fmt.Errorf("%s: %w", string(u), os.ErrNotExist) }

// A survey reads the files of a whole tree, and follows no link.
func TestSurvey(t *testing.T) {
	tr := newTree(t)
	tr.opt.Override = OverrideAll
	tr.write(".htaccess", "MadeUp on")
	tr.write("a/b/.htaccess", "\nRequire ldap-user ann\nRewriteEngine on\nRewriteRule ^x$ y [Q]")
	tr.opt.Realm = func(users, groups, name, required string) (Guard, error) {
		return unreadable(users), nil
	}
	tr.write("c/.htaccess", "AuthType Basic\nAuthName c\nAuthUserFile /no/such\nRequire valid-user")
	tr.write("folder/.htaccess/x", "")
	tr.write("big/.htaccess", "#"+strings.Repeat("x", 1<<20))
	tr.write("zero/.htaccess", "Require all granted\x00")
	tr.write("deep/"+strings.Repeat("d/", maxDepth)+".htaccess", "MadeUp on")
	root := tr.Root()
	for link, to := range map[string]string{"again": ".", "lost/.htaccess": "nowhere"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, link)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	notices, whole := tr.Survey()
	want := []string{"/.htaccess:1 MadeUp", "/a/b/.htaccess:2 Require closes", "/a/b/.htaccess:4 rewriting",
		"/big/.htaccess:0  closes", "/c/.htaccess:4 Require closes", "/folder/.htaccess:0  closes", "/lost/.htaccess:0  refuses", "/zero/.htaccess:0  closes"}
	var got []string
	for _, n := range notices {
		s := strings.TrimPrefix(n.File, root) + ":" + string(rune('0'+n.Line)) + " " + n.Directive
		if n.Closes {
			s += " closes"
		} else if n.Restricts {
			s += " refuses"
		}
		got = append(got, s)
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") || !whole {
		t.Errorf("whole %v:\n%s", whole, strings.Join(got, "\n"))
	}
}
