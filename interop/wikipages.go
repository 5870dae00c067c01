package main

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

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
