package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const wordPressUser, wordPressPassword = "tester", "walking house downstairs"

// wordPressRules is the .htaccess file that WordPress writes, byte for byte.
const wordPressRules = `
# BEGIN WordPress
# The directives (lines) between "BEGIN WordPress" and "END WordPress" are
# dynamically generated, and should only be modified via WordPress filters.
# Any changes to the directives between these markers will be overwritten.
<IfModule mod_rewrite.c>
RewriteEngine On
RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
RewriteBase /
RewriteRule ^index\.php$ - [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule . /index.php [L]
</IfModule>

# END WordPress
`

// A wordPress is WordPress over MariaDB behind one gateway.
type wordPress struct {
	r       *run
	dir     string // document root
	gateway string
	post    string // path of the post that was written
	*client
}

// wordpress serves Debian's WordPress: installed, written in and read by a browser's
// requests, behind PHP-FPM and behind lsphp.
func wordpress(r *run) error {
	dir := filepath.Join(r.dir, "wordpress")
	db, err := r.startMariaDB("wordpress")
	if err != nil {
		return err
	}
	defer db.stop()
	if err := prepareWordPress(r, dir, db.sock); err != nil {
		return err
	}
	installed := false
	return r.onEachPHP("wordpress", dir, func(gateway string, j *jet) error {
		w := &wordPress{r: r, dir: dir, gateway: gateway, client: j.plain()}
		if !installed {
			if !r.check("install", w.install) {
				return nil
			}
			installed = true
		}
		r.check(gateway+"-login", w.login)
		if gateway == "fpm" {
			r.check("permalinks", w.permalinks)
		}
		for _, c := range []struct {
			name string
			f    func() (string, error)
		}{
			{"post", w.write}, {"permalink", w.read}, {"upload", w.upload}, {"search", w.search}, {"comment", w.comment},
			{"files-and-admin", w.files}, {"logout", w.logout},
		} {
			r.check(gateway+"-"+c.name, c.f)
		}
		return nil
	})
}

// prepareWordPress puts the files together as the author's archive has them: the
// document root holds all, and its configuration too. Libraries stay the symbolic
// links to Debian's copies that its package has.
func prepareWordPress(r *run, dir, sock string) error {
	script := strings.ReplaceAll(`set -e
cp -r /usr/share/wordpress DIR && cd DIR
find . -type l | while read -r l; do ln -sfn "$(readlink -f "/usr/share/wordpress/$l")" "$l"; done
rm -f .htaccess wp-config.php
mkdir -p wp-content/uploads
`, "DIR", dir)
	if err := r.command("/bin/sh", "-c", script); err != nil {
		return err
	}
	err := writeFiles(dir, map[string]string{".htaccess": wordPressRules, "wp-config.php": strings.ReplaceAll(`<?php
define('DB_NAME', 'wordpress');
define('DB_USER', 'root');
define('DB_PASSWORD', '');
define('DB_HOST', 'localhost:SOCK');
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');
foreach (array('AUTH_KEY', 'SECURE_AUTH_KEY', 'LOGGED_IN_KEY', 'NONCE_KEY', 'AUTH_SALT', 'SECURE_AUTH_SALT', 'LOGGED_IN_SALT', 'NONCE_SALT') as $name) {
    define($name, 'interop ' . $name);
}
define('WP_HOME', 'http://' . ($_SERVER['HTTP_HOST'] ?? 'localhost'));
define('WP_SITEURL', WP_HOME);
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
define('WP_DEFAULT_THEME', 'twentytwentyone');
$table_prefix = 'wp_';
if (!defined('ABSPATH')) {
    define('ABSPATH', __DIR__ . '/');
}
require_once ABSPATH . 'wp-settings.php';
`, "SOCK", sock)})
	if err != nil {
		return err
	}
	return r.give(dir)
}

func (w *wordPress) install() (string, error) {
	if _, err := w.visit("/", 200, "five-minute WordPress installation"); err != nil { // leads to the installer
		return "", err
	}
	a, err := w.visit("/wp-admin/install.php?step=1", 200)
	if err != nil {
		return "", err
	}
	f, err := formOf(a, "setup")
	if err != nil {
		return "", err
	}
	for k, v := range map[string]string{"weblog_title": "Interop & more", "user_name": wordPressUser, "admin_password": wordPressPassword,
		"admin_password2": wordPressPassword, "pw_weak": "1", "admin_email": "tester@example.invalid", "Submit": "Install WordPress", "blog_public": "1"} {
		f.Set(k, v)
	}
	if a, err = w.submit(f, 200); err != nil {
		return "", err
	}
	if err := holds(a, "Success!"); err != nil {
		return "", err
	}
	_, err = w.visit("/", 200, "Interop &amp; more", "Hello world!")
	return "by its pages, over MariaDB; the start page has its first post", err
}

func (w *wordPress) login() (string, error) {
	a, err := w.get("/wp-login.php", 200)
	if err != nil {
		return "", err
	}
	f, err := formOf(a, "loginform")
	if err != nil {
		return "", err
	}
	f.Set("log", wordPressUser)
	f.Set("pwd", "not it")
	if a, err = w.submit(f, 200); err != nil {
		return "", err
	}
	if err := holds(a, "is incorrect"); err != nil {
		return "", err
	}
	f.Set("pwd", wordPressPassword)
	if _, err := w.submit(f, 302); err != nil {
		return "", err
	}
	_, err = w.visit("/wp-admin/", 200, "wp-admin-bar-my-account", "Dashboard")
	return "refused with a wrong password, then the dashboard", err
}

// permalinks changes the form of addresses by the page of settings.
func (w *wordPress) permalinks() (string, error) {
	a, err := w.visit("/wp-admin/options-permalink.php", 200)
	if err != nil {
		return "", err
	}
	f, err := formOf(a, "form")
	if err != nil {
		return "", err
	}
	f.Set("selection", "custom")
	f.Set("permalink_structure", "/%year%/%postname%/")
	f.Set("submit", "Save Changes")
	if _, err := w.follow(w.submit(f, 302)); err != nil {
		return "", err
	}
	if _, err := w.visit("/", 200, "/hello-world/"); err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(w.dir, ".htaccess"))
	if err == nil && strings.TrimSpace(string(text)) != strings.TrimSpace(wordPressRules) {
		err = fmt.Errorf(".htaccess is now %q", text)
	}
	return "/%year%/%postname%/; .htaccess is as WordPress writes it", err
}

// rest calls the REST interface, which has addresses below /wp-json/.
func (w *wordPress) rest(method, path string, in, out any, status int) error {
	a, err := w.get("/wp-admin/admin-ajax.php?action=rest-nonce", 200)
	if err != nil {
		return err
	}
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	a, err = want(status)(w.send(method, "/wp-json/wp/v2/"+path, unsized(body), -1, "Content-Type: application/json", "X-WP-Nonce: "+string(a.body)))
	if err != nil {
		return err
	}
	return json.Unmarshal(a.body, out)
}

func (w *wordPress) write() (string, error) {
	var made struct{ Link string }
	err := w.rest("POST", "posts", map[string]string{"title": "Café & crème " + w.gateway, "status": "publish",
		"content": "<p>Quokka" + w.gateway + " said “hello”.</p>"}, &made, 201)
	if err != nil {
		return "", err
	}
	path, ok := strings.CutPrefix(made.Link, w.base)
	if !ok {
		return "", fmt.Errorf("the post is at %q", made.Link)
	}
	w.post = path
	return "by /wp-json/ with a nonce, published at " + path, nil
}

func (w *wordPress) read() (string, error) {
	if !strings.Contains(w.post, "/cafe-creme-"+w.gateway+"/") {
		return "", fmt.Errorf("the post is at %q", w.post)
	}
	a, err := w.visit(w.post, 200, "Quokka"+w.gateway, "<title>Café &#038; crème "+w.gateway)
	if err != nil {
		return "", err
	}
	if err := lacks(a, "<?php"); err != nil {
		return "", err
	}
	// Without its slash, and by its number, WordPress sends to the one address.
	if _, err := w.get(strings.TrimSuffix(w.post, "/"), 301); err != nil {
		return "", err
	}
	for _, path := range []string{"/feed/", "/category/uncategorized/", "/author/" + wordPressUser + "/", w.post[:6]} {
		if _, err := w.visit(path, 200, "Quokka"+w.gateway); err != nil {
			return "", err
		}
	}
	if _, err := w.visit("/nothing/here/", 404, "Interop &amp; more"); err != nil {
		return "", err
	}
	return w.post + ", its redirect, feed, category, author and year; a 404 of WordPress", nil
}

func (w *wordPress) upload() (string, error) {
	a, err := w.visit("/wp-admin/media-new.php?browser-uploader", 200)
	if err != nil {
		return "", err
	}
	f, err := formOf(a, "file-form")
	if err != nil {
		return "", err
	}
	data := picture(500)
	f.Set("action", "upload-attachment")
	f.Del("post_id") // 0: of no post
	f.action = "/wp-admin/async-upload.php"
	if a, err = w.submitFile(f, "async-upload", "noise-"+w.gateway+".png", data, w.gateway == "fpm", 200); err != nil {
		return "", err
	}
	var told struct {
		Success bool
		Data    struct{ URL, Message string }
	}
	if err := json.Unmarshal(a.body, &told); err != nil || !told.Success {
		return "", fmt.Errorf("%v: %.500s", err, a.body)
	}
	at, ok := strings.CutPrefix(told.Data.URL, w.base)
	if !ok {
		return "", fmt.Errorf("the file is at %q", told.Data.URL)
	}
	if a, err = w.get(at, 200); err != nil {
		return "", err
	}
	if kind := a.Header.Get("Content-Type"); kind != "image/png" {
		return "", fmt.Errorf("content type %q", kind)
	}
	return fmt.Sprintf("%s, %d bytes, fetched back unchanged", at, len(data)), same(a.body, data)
}

func (w *wordPress) search() (string, error) {
	for _, path := range []string{"/?s=Quokka" + w.gateway, "/search/Quokka" + w.gateway + "/"} {
		if _, err := w.visit(path, 200, w.post, "We found 1 result"); err != nil {
			return "", err
		}
	}
	_, err := w.visit("/?s="+url.QueryEscape("Nandu & ? "+w.gateway), 200, "but nothing matched your search terms")
	return "/?s= and /search/, found and not found", err
}

func (w *wordPress) comment() (string, error) {
	a, err := w.visit(w.post, 200)
	if err != nil {
		return "", err
	}
	f, err := formOf(a, "commentform")
	if err != nil {
		return "", err
	}
	f.Set("comment", "A wombat "+w.gateway+" agrees.")
	if _, err = w.submit(f, 302); err != nil {
		return "", err
	}
	_, err = w.visit(w.post, 200, "A wombat "+w.gateway+" agrees.")
	return "by a form, on the page", err
}

// files are what a page has a browser fetch, symbolic links among them, and what
// nobody may have.
func (w *wordPress) files() (string, error) {
	a, err := w.visit("/wp-admin/", 200)
	if err != nil {
		return "", err
	}
	seen := 0
	for _, m := range regexp.MustCompile(`(?:href|src)=['"](?:`+w.base+`)?(/wp-(?:admin|includes)/[^'"]*\.(?:css|js|php)\?[^'"]*)['"]`).FindAllSubmatch(a.body, -1) {
		path := strings.NewReplacer("&amp;", "&", "&#038;", "&").Replace(string(m[1]))
		if !strings.Contains(path, "load-") && strings.Contains(path, ".php") {
			continue
		}
		b, err := w.get(path, 200)
		if err != nil {
			return "", err
		}
		if len(b.body) == 0 {
			return "", fmt.Errorf("%s is empty", path)
		}
		seen++
	}
	if seen < 2 {
		return "", fmt.Errorf("the dashboard names %d files", seen)
	}
	if _, err := w.get("/wp-includes/js/underscore.min.js", 200); err != nil {
		return "", err
	}
	if _, err := w.get("/.htaccess", 403); err != nil {
		return "", err
	}
	a, err = w.get("/wp-config.php", 200)
	if err == nil && len(a.body) > 0 {
		err = errors.New("wp-config.php has an answer with a body")
	}
	return fmt.Sprintf("%d files of the dashboard, load-styles.php and load-scripts.php among them", seen), err
}

func (w *wordPress) logout() (string, error) {
	a, err := w.visit("/wp-admin/", 200)
	if err != nil {
		return "", err
	}
	m := regexp.MustCompile(`href=["'][^"']*(/wp-login\.php\?action=logout[^"']*)["']`).FindSubmatch(a.body)
	if m == nil {
		return "", errors.New("the dashboard has no way to log out")
	}
	if _, err := w.get(strings.NewReplacer("&amp;", "&", "&#038;", "&").Replace(string(m[1])), 302); err != nil {
		return "", err
	}
	if a, err = w.get("/wp-admin/", 302); err != nil {
		return "", err
	}
	if to := a.Header.Get("Location"); !strings.Contains(to, "/wp-login.php") {
		return "", fmt.Errorf("/wp-admin/ leads to %q", to)
	}
	return "a stranger is sent to the login", nil
}
