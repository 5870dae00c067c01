package main

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"io"
	"mime/multipart"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
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

func (w *wiki) startPage() (string, error) {
	a, err := w.get("/", 302)
	if err != nil {
		return "", err
	}
	to, err := a.Location()
	if err != nil {
		return "", err
	}
	if a, err = w.get(to.RequestURI(), 200); err != nil {
		return "", err
	}
	if err := holds(a, "<title>start [httpjet interop]</title>", "This is the start page of the interop wiki."); err != nil {
		return "", err
	}
	return "/ leads to " + to.RequestURI() + ", 200 with its title", nil
}

func (w *wiki) static() (string, error) {
	const name = "/lib/tpl/dokuwiki/images/logo.png"
	a, err := w.get(name, 200)
	if err != nil {
		return "", err
	}
	file, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		return "", err
	}
	if got := a.Header.Get("Content-Type"); got != "image/png" {
		return "", fmt.Errorf("content type %q", got)
	}
	if _, err := w.get(name, 304, "If-None-Match: "+a.Header.Get("ETag")); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, %d bytes, 304 by its ETag", name, len(file)), same(a.body, file)
}

func (w *wiki) stylesheet() (string, error) {
	a, err := w.get("/lib/exe/css.php?t=dokuwiki", 200)
	if err != nil {
		return "", err
	}
	if got := a.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/css") {
		return "", fmt.Errorf("content type %q", got)
	}
	return fmt.Sprintf("%d bytes of CSS", len(a.body)), nil
}

// form is the fields of the first form in page with the given id.
func form(page []byte, id string) (url.Values, error) {
	text := string(page)
	i := strings.Index(text, `id="`+id+`"`)
	if i < 0 {
		return nil, fmt.Errorf("no form %q in:\n%.1500s", id, text)
	}
	text, _, _ = strings.Cut(text[i:], "</form>")
	v := url.Values{}
	for _, m := range regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		v.Set(m[1], html.UnescapeString(m[2]))
	}
	return v, nil
}

// post sends a form.
func (w *wiki) post(path string, v url.Values, status int) (*answer, error) {
	body := v.Encode()
	return want(status)(w.send("POST", path, strings.NewReader(body), int64(len(body)), "Content-Type: application/x-www-form-urlencoded"))
}

func (w *wiki) login() (string, error) {
	a, err := w.get("/doku.php/start?do=login", 200)
	if err != nil {
		return "", err
	}
	v, err := form(a.body, "dw__login")
	if err != nil {
		return "", err
	}
	v.Set("u", wikiUser)
	v.Set("p", wikiPassword)
	if _, err := w.post("/doku.php/start?do=login", v, 302); err != nil {
		return "", err
	}
	if a, err = w.get("/doku.php/start", 200); err != nil {
		return "", err
	}
	return "logged in by cookie", holds(a, "Logged in as", "Tester")
}

// save edits a page through its form; send posts it.
func (w *wiki) save(page, text string, send func(path string, v url.Values) (*answer, error)) error {
	a, err := w.get("/doku.php/"+page+"?do=edit", 200)
	if err != nil {
		return err
	}
	v, err := form(a.body, "dw__editform")
	if err != nil {
		return err
	}
	if v.Get("sectok") == "" {
		return errors.New("the edit form has no security token: the session was lost")
	}
	v.Set("wikitext", text)
	v.Set("summary", "by interop")
	v.Set("do[save]", "1")
	if _, err = send("/doku.php/"+page, v); err != nil {
		return err
	}
	stored, err := os.ReadFile(filepath.Join(w.dir, "data/pages", strings.ReplaceAll(page, ":", "/")+".txt"))
	if err != nil {
		return err
	}
	return same(bytes.TrimSpace(stored), []byte(text))
}

func (w *wiki) edit() (string, error) {
	err := w.save("some:page", "====== Some page ======\nSaved through httpjet: café & <b>.", func(path string, v url.Values) (*answer, error) {
		return w.post(path, v, 302)
	})
	if err != nil {
		return "", err
	}
	a, err := w.get("/doku.php?id=some:page", 200)
	if err != nil {
		return "", err
	}
	return "some:page saved by POST, token and cookie kept", holds(a, "Saved through httpjet: café &amp; &lt;b&gt;.")
}

// search finds a page whose words the wiki has indexed, which a picture on each page
// has a browser ask for.
func (w *wiki) search() (string, error) {
	if _, err := w.get("/lib/exe/taskrunner.php?id=some%3Apage&1", 200); err != nil {
		return "", err
	}
	if _, err := w.visit("/doku.php/start?do=search&q=Saved+httpjet", 200, "search_fullpage_result", `href="/doku.php/some:page?`); err != nil {
		return "", err
	}
	a, err := w.visit("/doku.php/start?do=search&q=Nandu", 200, "Nothing was found")
	if err != nil {
		return "", err
	}
	return "found, and not found", lacks(a, "/doku.php/some:page?s")
}

// short switches the wiki to addresses that are rewritten, by taking the comment signs
// off the rules in the .htaccess file that comes with it, and back.
func (w *wiki) short() (string, error) {
	script := strings.ReplaceAll(`set -e; cd WIKI
cp .htaccess htaccess.was && cp conf/local.php local.was
sed -i -e '/^#RewriteEngine on/s/^#//' -e '/^#RewriteRule ^_media/,/^#RewriteRule ^index/s/^#//' .htaccess
echo '$conf["userewrite"] = 1;' >>conf/local.php`, "WIKI", w.dir)
	if err := w.r.command("/bin/sh", "-c", script); err != nil {
		return "", err
	}
	defer w.r.command("/bin/sh", "-c", strings.ReplaceAll("cd WIKI && mv htaccess.was .htaccess && mv local.was conf/local.php", "WIKI", w.dir))
	for _, path := range []string{"/some:page", "/some:page?do=show"} {
		if _, err := w.visit(path, 200, "<title>some:page", "Saved through httpjet"); err != nil {
			return "", err
		}
	}
	if _, err := w.visit("/", 200, "This is the start page of the interop wiki.", `href="/start"`); err != nil {
		return "", err
	}
	if _, err := w.visit("/_export/raw/some:page", 200, "====== Some page ======"); err != nil {
		return "", err
	}
	if _, err := w.visit("/no:such:page", 200, "<title>no:such:page [httpjet interop]"); err != nil {
		return "", err
	}
	a, err := w.visit("/_media/noise.zip", 200)
	if err != nil {
		return "", err
	}
	if len(a.body) != 600_000 {
		return "", fmt.Errorf("/_media/noise.zip has %d bytes", len(a.body))
	}
	if _, err := w.statuses(403, "DATA-MUST-NOT-LEAK", "/data/pages/secret.txt", "/conf/local.php", "/.htaccess", "/VERSION"); err != nil {
		return "", err
	}
	return "/some:page, /_media/, /_export/ by the rules of its .htaccess, without a reload", nil
}

func (w *wiki) logout() (string, error) {
	a, err := w.visit("/doku.php/start", 200, "Logged in as")
	if err != nil {
		return "", err
	}
	m := regexp.MustCompile(`href="(/doku\.php/start\?do=logout[^"]*)"`).FindSubmatch(a.body)
	if m == nil {
		return "", errors.New("the page has no way to log out")
	}
	if _, err := w.follow(w.get(html.UnescapeString(string(m[1])), 302)); err != nil {
		return "", err
	}
	if a, err = w.visit("/doku.php/start", 200, "Log In"); err != nil {
		return "", err
	}
	return "a stranger again", lacks(a, "Logged in as")
}

// install runs the wiki's own installer, in a folder that has nothing but what it
// comes with, and looks at the wiki that it made.
func (w *wiki) install() (string, error) {
	script := strings.NewReplacer("WIKI", w.dir, "OUTSIDE", w.dir+"-lib").Replace(`set -e
mkdir WIKI/new && cd WIKI/new && cp -r /usr/share/dokuwiki/. . && rm -f .htaccess
for d in tpl plugins; do rm -rf lib/$d; ln -s OUTSIDE/$d lib/$d; done
cp -r WIKI/conf conf && rm -f conf/local.php conf/users.auth.php conf/acl.auth.php conf/plugins.local.php
for d in attic cache index locks log media media_attic media_meta meta pages tmp; do mkdir -p data/$d; done
cp /etc/dokuwiki/.htaccess data/
sed -i 's#/etc/dokuwiki/#WIKI/new/conf/#g; s#/var/lib/dokuwiki/#WIKI/new/#g' inc/preload.php
cp -r /var/lib/dokuwiki/data/pages/. data/pages/
`)
	if err := w.r.command("/bin/sh", "-c", script); err != nil {
		return "", err
	}
	if err := w.r.give(filepath.Join(w.dir, "new")); err != nil {
		return "", err
	}
	a, err := w.get("/new/install.php", 200)
	if err != nil {
		return "", err
	}
	if err := holds(a, "DokuWiki Installer"); err != nil {
		return "", err
	}
	f := &webForm{action: "/new/install.php", Values: url.Values{"l": {"en"}, "d[title]": {"Installed"}, "d[acl]": {"on"}, "d[superuser]": {"boss"}, "d[fullname]": {"The Boss"},
		"d[email]": {"boss@example.invalid"}, "d[password]": {wikiPassword}, "d[confirm]": {wikiPassword}, "d[policy]": {"0"}, "d[license]": {"cc-by-sa"}, "submit": {"Save"}}}
	if a, err = w.submit(f, 200); err != nil {
		return "", err
	}
	if err := holds(a, "The configuration was finished successfully"); err != nil {
		return "", err
	}
	if _, err := w.visit("/new/doku.php?id=start", 200, "<title>start [Installed]"); err != nil {
		return "", err
	}
	return "by install.php", second(w.statuses(403, "boss", "/new/conf/users.auth.php", "/new/conf/local.php", "/new/data/pages/", "/new/inc/init.php"))
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

// upload sends a file through the media manager and fetches it again.
func (w *wiki) upload() (string, error) {
	a, err := w.get("/doku.php/start?do=media&ns=&tab_files=upload", 200)
	if err != nil {
		return "", err
	}
	v, err := form(a.body, "dw__upload")
	if err != nil {
		return "", err
	}
	data := noise(600_000)
	var body bytes.Buffer
	m := multipart.NewWriter(&body)
	m.WriteField("sectok", v.Get("sectok"))
	m.WriteField("ns", "")
	m.WriteField("mediaid", "noise.zip")
	f, _ := m.CreateFormFile("qqfile", "noise.zip") // a bytes.Buffer takes everything
	f.Write(data)
	m.Close()
	a, err = want(200)(w.send("POST", "/lib/exe/ajax.php?call=mediaupload", &body, int64(body.Len()), "Content-Type: "+m.FormDataContentType()))
	if err != nil {
		return "", err
	}
	if err := holds(a, `"success":true`); err != nil {
		return "", err
	}
	if a, err = w.get("/lib/exe/fetch.php?media=noise.zip", 200); err != nil {
		return "", err
	}
	return "multipart upload fetched back unchanged", same(a.body, data)
}

func (w *wiki) chunkedSave() (string, error) {
	var text strings.Builder
	text.WriteString("====== Long ======\n")
	for i := range 6000 {
		fmt.Fprintf(&text, "Line %d of a page that is sent in chunks.\n", i)
	}
	page := strings.TrimSpace(text.String())
	err := w.save("long", page, func(path string, v url.Values) (*answer, error) {
		return want(302)(w.send("POST", path, unsized([]byte(v.Encode())), -1, "Content-Type: application/x-www-form-urlencoded"))
	})
	return fmt.Sprintf("a page of %d bytes, length not declared", len(page)), err
}

func (w *wiki) chunkedProbe() (string, error) {
	for _, n := range []int{0, 1, 256<<10 - 1, 256 << 10, 256<<10 + 1, 3 << 20} {
		data := noise(n)
		expect := []string{fmt.Sprintf("CONTENT_LENGTH=%d\n", n), fmt.Sprintf("READ=%d\n", n), fmt.Sprintf("SHA256=%x\n", sha256.Sum256(data))}
		for _, declared := range []bool{false, true} {
			body, length := unsized(data), int64(-1)
			if declared {
				body, length = io.Reader(bytes.NewReader(data)), int64(n)
			}
			a, err := want(200)(w.send("POST", "/probe.php", body, length, "Content-Type: application/octet-stream"))
			if err != nil {
				return "", fmt.Errorf("%d bytes, declared %t: %v", n, declared, err)
			}
			if n == 0 && !declared {
				expect = expect[1:] // an empty body may leave CONTENT_LENGTH unset
			}
			if err := holds(a, expect...); err != nil {
				return "", fmt.Errorf("%d bytes, declared %t: %v", n, declared, err)
			}
		}
	}
	return "0 B to 3 MiB around the 256 KiB border, chunked and declared, SHA-256 equal", nil
}

func (w *wiki) large() (string, error) {
	const n = 32 << 20
	a, err := w.get(fmt.Sprintf("/probe.php?bytes=%d", n), 200)
	if err != nil {
		return "", err
	}
	return "32 MiB from PHP", same(a.body, bytes.Repeat([]byte("0123456789abcdef"), n/16))
}

// crowd sends more requests at once than PHP has workers: they wait their turn.
func (w *wiki) crowd() (string, error) {
	const n = 40
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			body := fmt.Sprintf("body of %d", i)
			a, err := want(200)(w.send("POST", "/probe.php", strings.NewReader(body), int64(len(body))))
			if err == nil {
				err = holds(a, fmt.Sprintf("SHA256=%x\n", sha256.Sum256([]byte(body))))
			}
			errs[i] = err
		})
	}
	all.Wait()
	return "each got its own answer", errors.Join(errs...)
}

func (w *wiki) missing() (string, error) {
	if _, err := w.get("/nothing-here.php", 404); err != nil {
		return "", err
	}
	_, err := w.get("/nothing-here.php/x", 404)
	return "", err
}

// status is a status, a repeated field and a field with odd characters.
func (w *wiki) status() (string, error) {
	a, err := w.get("/probe.php?status=418", 418)
	if err != nil {
		return "", err
	}
	if got := a.Header.Values("Set-Cookie"); len(got) != 2 || a.Header.Get("X-Odd-Answer") != `a:b "c"` {
		return "", fmt.Errorf("cookies %q, X-Odd-Answer %q", got, a.Header.Get("X-Odd-Answer"))
	}
	return "418 with two cookies", holds(a, "status 418\n")
}

// stderr is what a script logs: for the operator, never for the visitor.
func (w *wiki) stderr(j *jet) (string, error) {
	a, err := w.get("/probe.php?log=odd+noise", 200)
	if err != nil {
		return "", err
	}
	if err := same(a.body, []byte("logged\n")); err != nil {
		return "", err
	}
	text := []byte{}
	err = j.ready(context.Background(), func() error { // lines are written together
		text, err = os.ReadFile(filepath.Join(j.root, "logs", "error.log"))
		if err == nil && !bytes.Contains(text, []byte("from the probe: odd noise")) {
			err = fmt.Errorf("the error log does not hold it; it ends with\n%s", tail(text))
		}
		return err
	})
	if err != nil {
		return "", err
	}
	if bytes.Contains(text, []byte("noise\t")) {
		return "", errors.New("a control character reached the error log as it was")
	}
	return "escaped, and not in the answer", nil
}

// events come from PHP as they are flushed.
func (w *wiki) events() (string, error) { return delay(w.client, "/probe.php?events=50", 50) }

// abort leaves many downloads in the middle. Each held a worker; all four have
// to be there again at once, though their connections cannot be.
func (w *wiki) abort() (string, error) {
	for range 12 {
		resp, err := w.Get(w.base + "/probe.php?bytes=50000000")
		if err != nil {
			return "", err
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, 100_000)); err != nil {
			return "", err
		}
		resp.Body.Close()
	}
	return "12 downloads left in the middle, then forty requests answered", second(w.crowd())
}

func second(_ string, err error) error { return err }

// slow holds more uploads open than there are workers. None of them is complete,
// so none may have a worker (R-FCGI-6).
func (w *wiki) slow() (string, error) {
	host := strings.TrimPrefix(w.base, "http://")
	for range 8 {
		c, err := net.Dial("tcp", host)
		if err != nil {
			return "", err
		}
		defer c.Close()
		if _, err := fmt.Fprintf(c, "POST /probe.php HTTP/1.1\r\nHost: %s\r\nContent-Length: 1000\r\n\r\nhalf of it", host); err != nil {
			return "", err
		}
	}
	return "8 unfinished uploads, forty requests answered meanwhile", second(w.crowd())
}

// expect has the body wait for 100 Continue; curl is the client that insists.
func (w *wiki) expect() (string, error) {
	out, err := exec.CommandContext(w.r.ctx, "curl", "-sS", "-v", "--max-time", "20", "--expect100-timeout", "15", "-H", "Expect: 100-continue", "-d", "x=1", w.base+"/probe.php").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("curl: %v: %s", err, tail(out))
	}
	if !bytes.Contains(out, []byte("< HTTP/1.1 100")) || !bytes.Contains(out, []byte("READ=3\n")) {
		return "", fmt.Errorf("curl saw:\n%s", tail(out))
	}
	return "100, then the answer", nil
}

// withoutFPM stops PHP-FPM and asks for scripts in every way that has once made
// some server send their source.
func (w *wiki) withoutFPM() (string, error) {
	if err := w.fpm.stop(); err != nil {
		return "", err
	}
	paths := []string{"/doku.php", "/doku.php/some:page", "/", "/index.php", "/probe.php", "/probe.php/", "/probe.php?x", "/%70robe.php", "/lib/../probe.php", "/lib/exe/css.php"}
	var errs []error
	for _, p := range paths {
		for _, method := range []string{"GET", "POST", "HEAD"} {
			a, err := want(503)(w.send(method, p, nil, 0))
			if err == nil {
				err = leaks(a)
			}
			errs = append(errs, err)
		}
	}
	// A range or a condition is answered by the file server, if anything is.
	_, err := w.get("/probe.php", 503, "Range: bytes=0-9")
	errs = append(errs, err)
	// A suffix in capitals is another file's name; it must not become the source.
	a, err := w.send("GET", "/probe.PHP", nil, 0)
	if err == nil {
		err = leaks(a)
	}
	errs = append(errs, err)
	return fmt.Sprintf("%d paths answer 503", len(paths)), errors.Join(errs...)
}

func (w *wiki) back(j *jet) (string, error) {
	if err := w.startFPM(); err != nil {
		return "", err
	}
	began := time.Now()
	err := j.ready(context.Background(), func() error { // retryTimeout leaves a broken application alone for 10 s
		a, err := w.get("/doku.php/some:page", 200)
		if err != nil {
			return err
		}
		return holds(a, "Saved through httpjet")
	})
	return fmt.Sprintf("served again without a reload, after %.0f s", time.Since(began).Seconds()), err
}
