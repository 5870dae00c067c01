package main

import (
	"bytes"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

//go:embed assets/probe.php
var probePHP string

// The wiki's one account.
const wikiUser, wikiPassword = "tester", "walking house"

// A wiki is DokuWiki under PHP-FPM or lsphp, served by httpjet.
type wiki struct {
	r       *run
	lsphp   string // the program; "": PHP-FPM
	dir     string // document root
	conf    string // PHP-FPM's configuration
	sock    string
	fpm     *process
	*client // logged in after login
}

// dokuwiki serves Debian's DokuWiki as an operator would: its files under a
// document root with its own .htaccess files, PHP by a FastCGI processor on a
// Unix socket, four workers.
func dokuwiki(r *run) error {
	w := &wiki{r: r, dir: filepath.Join(r.dir, "wiki"), conf: filepath.Join(r.dir, "fpm.conf"), sock: filepath.Join(r.dir, "fpm.sock")}
	return w.all()
}

// all runs the checks of a wiki.
func (w *wiki) all() error {
	r, name, kind := w.r, filepath.Base(w.dir), "fcgi"
	if w.lsphp != "" {
		kind = "lsapi"
	}
	if err := w.prepare(); err != nil {
		return err
	}
	if err := w.startFPM(); err != nil {
		return err
	}
	defer func() { w.fpm.stop() }()
	j, err := r.serve(tree{name: name, vhost: strings.NewReplacer("{{dir}}", w.dir, "{{sock}}", w.sock, "{{kind}}", kind).Replace(`
  <docRoot>{{dir}}</docRoot>
  <index>
    <useServer>0</useServer>
    <indexFiles>index.php</indexFiles>
  </index>
  <extProcessorList>
    <extProcessor>
      <type>{{kind}}</type>
      <name>php</name>
      <address>uds:/{{sock}}</address>
      <maxConns>4</maxConns>
      <initTimeout>20</initTimeout>
      <persistConn>1</persistConn>
      <pcKeepAliveTimeout>10</pcKeepAliveTimeout>
      <autoStart>0</autoStart>
    </extProcessor>
  </extProcessorList>
  <scriptHandlerList>
    <scriptHandler>
      <suffix>php</suffix>
      <type>{{kind}}</type>
      <handler>php</handler>
    </scriptHandler>
  </scriptHandlerList>`)})
	if err != nil {
		return err
	}
	defer r.down(j)
	w.client = j.plain()

	r.check("start-page", w.startPage)
	r.check("static-through-symlink", w.static)
	r.check("stylesheet-by-php", w.stylesheet)
	r.check("login", w.login)
	r.check("edit-save-read-back", w.edit)
	r.check("search", w.search)
	r.check("path-info", w.pathInfo)
	r.check("refused-folders", w.refused)
	r.check("media-upload-600K", w.upload)
	r.check("save-by-chunked-post", w.chunkedSave)
	r.check("chunked-body-exact-length", w.chunkedProbe)
	r.check("large-answer-32M", w.large)
	r.check("forty-at-once-on-four-workers", w.crowd)
	r.check("missing-script-404", w.missing)
	r.check("status-and-cookies", w.status)
	r.check("stderr-to-error-log", func() (string, error) { return w.stderr(j) })
	r.check("events-from-php", w.events)
	r.check("short-addresses-by-htaccess", w.short)
	r.check("logout", w.logout)
	r.check("install", w.install)
	r.check("aborted-downloads-free-workers", w.abort)
	r.check("slow-uploads-hold-no-worker", w.slow)
	r.check("expect-100-continue", w.expect)
	r.check("source-never-sent-without-fpm", w.withoutFPM)
	r.check("back-with-fpm", func() (string, error) { return w.back(j) })
	return nil
}

// prepare copies Debian's three parts together. Configuration and data lie in
// the document root, as in the author's own archive, so that only .htaccess
// keeps visitors out. Templates and plug-ins stay symbolic links that leave the
// document root, as in Debian's.
func (w *wiki) prepare() error {
	outside := w.dir + "-lib"
	script := strings.NewReplacer("WIKI", w.dir, "OUTSIDE", outside).Replace(`set -e
cp -r /usr/share/dokuwiki WIKI
cp -r /var/lib/dokuwiki/lib OUTSIDE
for d in tpl plugins; do rm -rf WIKI/lib/$d; ln -s OUTSIDE/$d WIKI/lib/$d; done
rm -f WIKI/.htaccess && cp /etc/dokuwiki/htaccess WIKI/.htaccess
mkdir WIKI/conf && cp /etc/dokuwiki/*.conf /etc/dokuwiki/*.css /etc/dokuwiki/dokuwiki.php /etc/dokuwiki/license.php \
  /etc/dokuwiki/mediameta.php /etc/dokuwiki/plugins*.php /etc/dokuwiki/manifest.json /etc/dokuwiki/.htaccess WIKI/conf/
for d in attic cache index locks log media media_attic media_meta meta pages tmp; do mkdir -p WIKI/data/$d; done
cp /etc/dokuwiki/.htaccess WIKI/data/.htaccess
sed -i 's#/etc/dokuwiki/#WIKI/conf/#g' WIKI/inc/preload.php
`)
	if err := w.r.command("/bin/sh", "-c", script); err != nil {
		return err
	}
	sum := sha1.Sum([]byte(wikiPassword))
	if err := writeFiles(w.dir, map[string]string{
		"conf/local.php": fmt.Sprintf(`<?php
$conf['title'] = 'httpjet interop';
$conf['savedir'] = '%s/data';
$conf['userewrite'] = 2;
$conf['useacl'] = 1;
$conf['superuser'] = '!!not set!!';
`, w.dir),
		"conf/acl.auth.php":     "# <?php exit()?>\n*\t@ALL\t1\n*\t@user\t8\n",
		"conf/users.auth.php":   "# <?php exit()?>\n" + wikiUser + ":" + hex.EncodeToString(sum[:]) + ":Tester:tester@example.invalid:user\n",
		"data/pages/start.txt":  "====== Welcome ======\nThis is the start page of the interop wiki.\n",
		"data/pages/secret.txt": "DATA-MUST-NOT-LEAK\n",
		"probe.php":             probePHP,
	}); err != nil {
		return err
	}
	pool := `[global]
daemonize = no
error_log = {{dir}}/fpm.log
[wiki]
listen = {{sock}}
listen.mode = 0666
pm = static
pm.max_children = 4
catch_workers_output = yes
php_value[session.save_path] = {{dir}}/sessions
php_value[upload_max_filesize] = 16M
php_value[post_max_size] = 16M
php_admin_value[opcache.revalidate_freq] = 0
`
	if err := os.MkdirAll(filepath.Join(w.r.dir, "sessions"), 0o777); err != nil {
		return err
	}
	// As root the workers run as www-data, who owns what the wiki writes.
	if os.Geteuid() == 0 {
		pool += "user = www-data\ngroup = www-data\n"
		if err := w.r.command("chown", "-R", "www-data", w.dir, filepath.Join(w.r.dir, "sessions")); err != nil {
			return err
		}
	}
	return os.WriteFile(w.conf, []byte(strings.NewReplacer("{{dir}}", w.r.dir, "{{sock}}", w.sock).Replace(pool)), 0o644)
}

func (w *wiki) startFPM() (err error) {
	if w.lsphp != "" {
		w.fpm, err = w.r.startLSPHP(w.lsphp, w.sock, 4)
		return err
	}
	if w.fpm, err = w.r.start("php-fpm8.2", "-F", "-y", w.conf); err != nil {
		return err
	}
	return w.fpm.ready(w.r.ctx, dial("unix", w.sock))
}

// holds is an error unless every text is in the answer's body.
func holds(a *answer, texts ...string) error {
	for _, t := range texts {
		if !bytes.Contains(a.body, []byte(t)) {
			return fmt.Errorf("%s holds no %q:\n%.1500s", a.Request.URL.Path, t, a.body)
		}
	}
	return nil
}

func (w *wiki) pathInfo() (string, error) {
	a, err := w.get("/doku.php/some:page", 200)
	if err != nil {
		return "", err
	}
	if err := holds(a, "<title>some:page [httpjet interop]</title>", "Saved through httpjet"); err != nil {
		return "", err
	}
	if a, err = w.get("/probe.php/a/b%20c?x=1&y", 200, "X-Odd: yes"); err != nil {
		return "", err
	}
	return "/doku.php/some:page is the page", holds(a, "SCRIPT_NAME=/probe.php\n", "PATH_INFO=/a/b c\n", "QUERY_STRING=x=1&y\n", "REQUEST_URI=/probe.php/a/b%20c?x=1&y\n", "HTTP_X_ODD=yes\n")
}

func (w *wiki) refused() (string, error) {
	paths := []string{
		"/data/", "/data/pages/secret.txt", "/conf/", "/conf/local.php", "/conf/users.auth.php", "/conf/users.auth.php/x",
		"/inc/", "/inc/init.php", "/bin/", "/bin/dwpage.php", "/vendor/autoload.php", "/.htaccess", "/data/.htaccess",
		"/VERSION", "/lib/../data/pages/secret.txt", "/%64ata/pages/secret.txt", "/./data//pages/secret.txt", "/data/missing",
	}
	var errs []error
	for _, p := range paths {
		a, err := w.get(p, 403)
		if err == nil {
			err = leaks(a)
		}
		errs = append(errs, err)
	}
	return fmt.Sprintf("%d paths answer 403", len(paths)), errors.Join(errs...)
}

// leaks is an error if an answer holds something of a file that is not for
// visitors.
func leaks(a *answer) error {
	if m := regexp.MustCompile(`DATA-MUST-NOT-LEAK|SOURCE-OF-PROBE|<\?php|tester:`).Find(a.body); m != nil {
		return fmt.Errorf("%s %s answers %d with %q inside", a.Request.Method, a.Request.URL.RequestURI(), a.StatusCode, m)
	}
	return nil
}
