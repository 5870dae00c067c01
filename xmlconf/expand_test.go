package xmlconf

import (
	"strings"
	"testing"
)

// R-CONV-7, LSX 1.5.
func TestExpand(t *testing.T) {
	e := Expander{}.With("SERVER_ROOT", "/srv/ls").With("VH_NAME", "app").With("VH_ROOT", "/home/app")
	f := func(text, want, unknown string) {
		t.Helper()
		got, names := e.Expand(text)
		if got != want || strings.Join(names, " ") != unknown {
			t.Errorf("Expand(%q) = %q, unknown %q; want %q, %q", text, got, names, want, unknown)
		}
	}
	f("plain", "plain", "")
	f("$SERVER_ROOT/conf", "/srv/ls/conf", "")
	f("${SERVER_ROOT}/conf", "/srv/ls/conf", "")
	f("$vh_name/$Vh_NaMe", "app/app", "")
	f("$VH_NAME_lsphp", "app_lsphp", "") // no word boundary
	f("uds://$VH_ROOT/x.sock", "uds:///home/app/x.sock", "")
	f("$DOC_ROOT/x", "$DOC_ROOT/x", "") // known, no value in this scope
	f("$NOPE/x", "$NOPE/x", "NOPE")
	f("${NOPE}", "${NOPE}", "NOPE")
	f("${VH_NAME", "${VH_NAME", "VH_NAME")
	f("/u/$1/$2 costs $ 5$", "/u/$1/$2 costs $ 5$", "")
	f("$VH_NAME$VH_NAME", "appapp", "")
}

// A value is not expanded again, so no value can run away.
func TestExpandOnce(t *testing.T) {
	e := Expander{}.With("VH_NAME", "$VH_NAME$VH_NAME")
	if got, _ := e.Expand("$VH_NAME"); got != "$VH_NAME$VH_NAME" {
		t.Errorf("got %q", got)
	}
}

func TestExpandPath(t *testing.T) {
	e := Expander{}.With("SERVER_ROOT", "/srv/ls").With("VH_ROOT", "/home/app")
	f := func(text, want string) {
		t.Helper()
		if got, _ := e.Path(text, "/srv/ls"); got != want {
			t.Errorf("Path(%q) = %q, want %q", text, got, want)
		}
	}
	f("", "")
	f("conf/x.xml", "/srv/ls/conf/x.xml")
	f("/etc/x/", "/etc/x")
	f("$VH_ROOT/html/", "/home/app/html")
	f("$DOC_ROOT/html", "$DOC_ROOT/html") // a later scope knows it
	f("$1/html", "/srv/ls/$1/html")
	f("/etc/*", "/etc/*")
}

// A long value that is named many times does not fill the memory.
func TestExpandBounded(t *testing.T) {
	e := Expander{}.With("VH_ROOT", strings.Repeat("x", 1<<20))
	if got, _ := e.Expand(strings.Repeat("$VH_ROOT", 1000)); len(got) > 3<<20 {
		t.Errorf("%d bytes", len(got))
	}
}
