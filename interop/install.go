package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// wsVersion is the pinned version of the npm package "ws".
const wsVersion = "8.23.0"

// needed lists what must be there and the Debian package that brings it; by names
// the sections that need it, "" all.
type need struct{ file, pkg, by string }

var needed = []need{
	{"curl", "curl", ""},
	{"php-fpm8.2", "php8.2-fpm", ""},
	{"/usr/share/dokuwiki/doku.php", "dokuwiki", ""},
	{"nginx", "nginx-light", ""},
	{"apache2", "apache2", ""},
	{"h2load", "nghttp2-client", ""},
	{"node", "nodejs", ""},
	{"npm", "npm", ""},
	{"xmllint", "libxml2-utils", ""},
	{"slowhttptest", "slowhttptest", ""},
	{"/usr/lib/python3/dist-packages/h2", "python3-h2", "http2-frames"},
	{"haproxy", "haproxy", "framing"},
	{"php", "php8.2-cli", "framing"},
	{"sslscan", "sslscan", "tls"},
	{"testssl", "testssl.sh", "tls"},
	{"openssl", "openssl", "tls"},
	{"/usr/share/wordpress/wp-login.php", "wordpress", "wordpress"},
	{"/usr/share/wordpress/wp-content/themes/twentytwentyone/style.css", "wordpress-theme-twentytwentyone", "wordpress"},
	{"mariadbd", "mariadb-server", "wordpress"},
	{"/usr/lib/php/20220829/mysqli.so", "php8.2-mysql", "wordpress"},
	{"/usr/share/mediawiki/index.php", "mediawiki", "mediawiki"},
	{"/usr/lib/php/20220829/pdo_sqlite.so", "php8.2-sqlite3", "mediawiki"},
	{"chromium", "chromium", "dashboard chromium"},
	{"promtool", "prometheus", "documents"},
	{"debootstrap", "debootstrap", "package"},
	{"git", "git", "fastcgi"},
	{"spawn-fcgi", "spawn-fcgi", "fastcgi"},
	{"fcgiwrap", "fcgiwrap", "fastcgi"},
	{"/usr/share/doc/libfcgi-perl", "libfcgi-perl", "fastcgi applications"},
}

// there reports if a program is in the path, or a file at its place.
func there(file string) bool {
	if filepath.IsAbs(file) {
		_, err := os.Stat(file)
		return err == nil
	}
	_, err := exec.LookPath(file)
	return err == nil
}

// install brings the missing programs of the sections that run. Debian keeps some of
// them in sbin, which an ordinary user's path may lack.
func (r *run) install(runs func(section string) bool) error {
	os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	needed := slices.DeleteFunc(slices.Clone(needed), func(n need) bool {
		return n.by != "" && !slices.ContainsFunc(strings.Fields(n.by), runs)
	})
	var missing []string
	for _, n := range needed {
		if !there(n.file) {
			missing = append(missing, n.pkg)
		}
	}
	if len(missing) > 0 {
		fmt.Println("-- installing", strings.Join(missing, " "))
		if err := r.apt(missing); err != nil {
			return err
		}
		for _, n := range needed {
			if !there(n.file) {
				return fmt.Errorf("%s is missing after its package %s was installed", n.file, n.pkg)
			}
		}
	}
	r.node = filepath.Join(r.dir, "node")
	if err := os.MkdirAll(r.node, 0o755); err != nil {
		return err
	}
	return r.command("npm", "install", "--prefix", r.node, "--no-audit", "--no-fund", "--loglevel=error", "ws@"+wsVersion)
}

// apt installs packages without a question. DokuWiki would ask which web server
// to configure: none.
func (r *run) apt(packages []string) error {
	script := `set -e
export DEBIAN_FRONTEND=noninteractive
echo 'dokuwiki dokuwiki/system/configure-webserver multiselect ' | debconf-set-selections || true
apt-get update -q
apt-get install -q -y --no-install-recommends ` + strings.Join(packages, " ")
	if os.Geteuid() != 0 {
		return r.command("sudo", "/bin/sh", "-c", script)
	}
	return r.command("/bin/sh", "-c", script)
}

// installed is how to ask for the version of a package that some sections need alone,
// nil if it is not there.
func installed(pkg string) []string {
	if !there("/usr/share/doc/" + pkg) {
		return nil
	}
	return []string{"dpkg-query", "-W", "-f", "${Version}", pkg}
}

// versions asks every program for its version, for the summary.
func (r *run) versions() error {
	for _, p := range []struct {
		name string
		cmd  []string
		re   string
	}{
		{"httpjet", []string{r.bin, "version"}, `\S+\s*$`},
		{"Go", []string{"go", "version"}, `go\d\S*`},
		{"PHP-FPM", []string{"php-fpm8.2", "-v"}, `\d+\.\d+\.\d+`},
		{"DokuWiki", []string{"cat", "/usr/share/dokuwiki/VERSION"}, `\S.*`},
		{"nginx", []string{"nginx", "-v"}, `\d+\.\d+\.\d+`},
		{"curl", []string{"curl", "--version"}, `\d+\.\d+\.\d+`},
		{"h2load", []string{"h2load", "--version"}, `nghttp2/\S+`},
		{"Node.js", []string{"node", "--version"}, `\d\S*`},
		{"slowhttptest", []string{"dpkg-query", "-W", "-f", "${Version}", "slowhttptest"}, `\d+\.\d+\.\d+`},
		{"WordPress", installed("wordpress"), `\d+\.\d+\.\d+`},
		{"MariaDB", installed("mariadb-server"), `\d+\.\d+\.\d+`},
		{"MediaWiki", installed("mediawiki"), `\d+\.\d+\.\d+`},
		{"python3-h2", installed("python3-h2"), `\d+\.\d+\.\d+`},
		{"Git", installed("git"), `\d+\.\d+\.\d+`},
		{"fcgiwrap", installed("fcgiwrap"), `\d\S*`},
		{"Perl FCGI", installed("libfcgi-perl"), `\d\S*`},
	} {
		if p.cmd == nil {
			continue
		}
		out, err := exec.CommandContext(r.ctx, p.cmd[0], p.cmd[1:]...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %v\n%s", p.name, err, tail(out))
		}
		v := strings.TrimSpace(regexp.MustCompile(p.re).FindString(string(out)))
		r.programs = append(r.programs, [2]string{p.name, v})
	}
	r.programs = append(r.programs, [2]string{"npm ws", wsVersion})
	return nil
}
