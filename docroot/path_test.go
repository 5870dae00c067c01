package docroot

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"httpjet/exchange"
)

// R-PIPE-2, R-PIPE-3.
func TestCleanPath(t *testing.T) {
	f := func(target, path, query string) {
		t.Helper()
		p, q, err := CleanPath(target)
		if err != nil || p != path || q != query {
			t.Errorf("CleanPath(%q) = %q, %q, %v; want %q, %q", target, p, q, err, path, query)
		}
	}
	f("/", "/", "")
	f("/?", "/", "")
	f("/x?", "/x", "")
	f("/x??a=%zz", "/x", "?a=%zz")
	f("/a/b/", "/a/b/", "")
	f("//a///b//", "/a/b/", "")
	f("/a/./b/.", "/a/b/", "")
	f("/a/b/..", "/a/", "")
	f("/a/..", "/", "")
	f("/a/b/../c", "/a/c", "")
	f("/a%20b", "/a b", "")
	f("/%c3%A9", "/é", "")
	f("/a%252e", "/a%2e", "") // decoded once
	f("/a%3Fb?c", "/a?b", "c")
	f(`/a\..\b`, `/a\..\b`, "") // a backslash separates nothing
	f("/...", "/...", "")
	f("/..a/.b/c..", "/..a/.b/c..", "")
	f("/.well-known/x", "/.well-known/x", "")
}

// R-PIPE-2; G27 is the NUL.
func TestCleanPathRefuses(t *testing.T) {
	f := func(target string) {
		t.Helper()
		_, _, err := CleanPath(target)
		e, ok := errors.AsType[*exchange.Error](err)
		if !ok || e.Status != 400 || e.Reason != "bad_request" {
			t.Errorf("CleanPath(%q): %v, want a 400", target, err)
		}
	}
	f("")
	f("*")
	f("a/b")
	f("?x")
	f("/%")
	f("/%4")
	f("/%4g")
	f("/%zz/x")
	f("/%00")
	f("/index.php%00.jpg")
	f("/a%00/index.php")
	f("/a\x00")
	f("/\xff")
	f("/%ff")
	f("/%c0%af") // overlong slash
	f("/..")
	f("/a/../..")
	f("/%2e%2e/etc/passwd")
	f("/a/..%2f../etc")
}

// G54: every spelling of a dot segment ends in the same path, or in a 400.
func TestG54EncodedDotSegments(t *testing.T) {
	f := func(target, path string) {
		t.Helper()
		if p, _, err := CleanPath(target); err != nil || p != path {
			t.Errorf("CleanPath(%q) = %q, %v; want %q", target, p, err, path)
		}
	}
	f("/public/%2e%2e/internal", "/internal")
	f("/public/..%2finternal", "/internal")
	f("/public/%2E./internal", "/internal")
	f("/public/./../internal", "/internal")
	f("/public//../internal", "/internal")
	f("/public/%252e%252e/internal", "/public/%2e%2e/internal")
}

func TestCleanPathAllocatesNothing(t *testing.T) {
	n := testing.AllocsPerRun(100, func() {
		if _, _, err := CleanPath("/css/.well-known/a..b/site.css?v=3"); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzCleanPath(f *testing.F) {
	for _, s := range []string{"/", "/a/../b?x", "/%2e%2e/", "/a%2f..%2f..", "//", "/.", "/a/.", "/%c3%a9", "/\\", "*"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, target string) {
		path, query, err := CleanPath(target)
		if err != nil {
			if exchange.StatusOf(err) != 400 {
				t.Fatalf("status of %v", err)
			}
			return
		}
		if path == "" || path[0] != '/' || !isClean(path) || strings.Contains(path, "\x00") || !utf8.ValidString(path) {
			t.Fatalf("CleanPath(%q) = %q", target, path)
		}
		if _, q, _ := strings.Cut(target, "?"); q != query {
			t.Fatalf("query of %q is %q", target, query)
		}
		// What Encode writes names the same path again, on the same origin.
		again, _, err := CleanPath(Encode(path))
		if err != nil || again != path {
			t.Fatalf("Encode(%q) = %q, which is %q, %v", path, Encode(path), again, err)
		}
	})
}

func TestEncode(t *testing.T) {
	f := func(path, want string) {
		t.Helper()
		if got := Encode(path); got != want {
			t.Errorf("Encode(%q) = %q, want %q", path, got, want)
		}
	}
	f("/a/b.c", "/a/b.c")
	f("//evil.example/", "/evil.example/")
	f(`/\evil.example/`, "/%5Cevil.example/")
	f("/a b?c#d%e", "/a%20b%3Fc%23d%25e")
	f("/\r\nx: y", "/%0D%0Ax:%20y")
	f("/é", "/%C3%A9")
}

func TestSuffix(t *testing.T) {
	f := func(name, want string) {
		t.Helper()
		if got := Suffix(name); got != want {
			t.Errorf("Suffix(%q) = %q, want %q", name, got, want)
		}
	}
	f("/a.php", "php")
	f("/a.PhP", "php")
	f("/a.php.txt", "txt")
	f("/a.d/b", "")
	f("/.php", "php")
	f("/a.php.", "")
	f("/a.php ", "php ")
	f("/a.ȺPHP", "Ⱥphp") // U+023A keeps its two bytes
}

// R-STATIC-9.
func TestHidden(t *testing.T) {
	f := func(path string, want bool) {
		t.Helper()
		if got := Hidden(path); got != want {
			t.Errorf("Hidden(%q) = %v", path, got)
		}
	}
	f("/.htaccess", true)
	f("/a/.HTpasswd", true)
	f("/.ht", true)
	f("/.git/config", true)
	f("/a/.GIT", true)
	f("/a/.svn/", true)
	f("/.Hg/x", true)
	f("/.git./config", true)
	f("/.svn ", true)
	f("/.well-known/acme", false)
	f("/.gitignore", false)
	f("/a.git/x", false)
	f("/x.htaccess", false)
	f("/.", false)
	f("/", false)
	f("", false)
}

// R-FCGI-3: an encoded slash is no border of a script's name.
func TestNamed(t *testing.T) {
	f := func(target, name string, want bool) {
		t.Helper()
		path, _, err := CleanPath(target)
		if err != nil {
			t.Fatal(err)
		}
		if got := Named(target, path, name); got != want {
			t.Errorf("%s, %s: %v", target, name, got)
		}
	}
	f("/x.php", "/x.php", true)
	f("/%78.php?a=%2F", "/x.php", true)
	f("/x.php/a", "/x.php", true)
	f("/x.php/a%2fb", "/x.php", true) // of the path info
	f("/x.php/%2F", "/x.php", true)
	f("/x.php%2Fa", "/x.php", false)
	f("/x.php%2f", "/x.php", false)
	f("/a%2Fx.php", "/a/x.php", false)
	f("/%2Fx.php", "/x.php", false)
	f("/a%2F..%2Fx.php", "/x.php", false)
	f("/a/x%2f../x.php", "/a/x.php", false)
	f("/a/", "/a/index.php", true)
	f("/a%2F", "/a/index.php", false)
	f("/a/%2F", "/a/index.php", false)
	f("/b%2Fa/", "/b/a/index.php", false)
	f("/x%252Fy.php", "/x%2Fy.php", true)
}
