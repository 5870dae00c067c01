package main

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

const mediaWikiUser, mediaWikiPassword = "Tester", "walking house upstairs"

// mediaWikiRules is the .htaccess of short addresses, as MediaWiki's manual has it.
const mediaWikiRules = `RewriteEngine On
RewriteRule ^/?wiki(/.*)?$ %{DOCUMENT_ROOT}/w/index.php [L]
RewriteRule ^/*$ %{DOCUMENT_ROOT}/w/index.php [L]
`

// A mediaWiki is MediaWiki over SQLite behind one gateway.
type mediaWiki struct {
	r       *run
	dir     string // document root
	gateway string
	*client
}

// mediawiki serves Debian's MediaWiki: installed by its command line, then used by a
// browser's requests, behind PHP-FPM and behind lsphp.
func mediawiki(r *run) error {
	dir := filepath.Join(r.dir, "mediawiki")
	data := dir + "-data"
	installed := false
	return r.onEachPHP("mediawiki", dir, func(gateway string, j *jet) error {
		w := &mediaWiki{r: r, dir: dir, gateway: gateway, client: j.plain()}
		if !installed {
			if !r.check("install", func() (string, error) { return w.install(data) }) {
				return nil
			}
			installed = true
		}
		for _, c := range []struct {
			name string
			f    func() (string, error)
		}{
			{"short-addresses", w.short}, {"styles-and-scripts", w.styles}, {"login", w.login}, {"create-and-edit", w.edit}, {"odd-titles", w.titles},
			{"upload", w.upload}, {"search", w.search}, {"api-and-path-info", w.api}, {"refused-folders", w.refused}, {"logout", w.logout},
		} {
			r.check(gateway+"-"+c.name, c.f)
		}
		return nil
	})
}

// prepareMediaWiki puts Debian's parts together as the author's archive has them: all
// in one folder of the document root.
const prepareMediaWiki = `set -e
mkdir -p WIKI DATA && cp -r /usr/share/mediawiki WIKI/w
cd WIKI/w && rm -f LocalSettings.php config extensions images && mv extensions-core extensions
mkdir images cache && cp /var/lib/mediawiki/images/.htaccess images/ && cp /var/lib/mediawiki/cache/.htaccess cache/
php8.2 maintenance/install.php --dbtype sqlite --dbname wiki --dbpath DATA --server BASE --scriptpath /w --lang en --pass "PASSWORD" Interop USER
`

// mediaWikiSettings are settings beside the installer's. lsphp is built without OpenSSL,
// so secrets of sessions are not encrypted in its store.
const mediaWikiSettings = `
$wgSessionInsecureSecrets = true;
$wgArticlePath = '/wiki/$1';
$wgUsePathInfo = true;
$wgEnableUploads = true;
$wgUseImageMagick = false;
$wgMainCacheType = CACHE_NONE;
$wgSessionCacheType = CACHE_DB;
$wgShowExceptionDetails = true;
$wgServer = 'http://' . ( $_SERVER['HTTP_HOST'] ?? 'localhost' );
`

func (w *mediaWiki) install(data string) (string, error) {
	script := strings.NewReplacer("WIKI", w.dir, "DATA", data, "BASE", w.base, "PASSWORD", mediaWikiPassword, "USER", mediaWikiUser).Replace(prepareMediaWiki)
	if err := w.r.command("/bin/sh", "-c", script); err != nil {
		return "", err
	}
	settings := filepath.Join(w.dir, "w/LocalSettings.php")
	text, err := os.ReadFile(settings)
	if err != nil {
		return "", err
	}
	if err := writeFiles(w.dir, map[string]string{".htaccess": mediaWikiRules, "w/LocalSettings.php": string(text) + mediaWikiSettings}); err != nil {
		return "", err
	}
	return "by maintenance/install.php, over SQLite", w.r.give(data, filepath.Join(w.dir, "w/images"), filepath.Join(w.dir, "w/cache"))
}

func (w *mediaWiki) short() (string, error) {
	if _, err := w.visit("/", 200, `"wgPageName":"Main_Page"`, "MediaWiki has been installed"); err != nil {
		return "", err
	}
	if _, err := w.visit("/wiki/Main_Page", 200, `"wgPageName":"Main_Page"`); err != nil {
		return "", err
	}
	if _, err := w.visit("/wiki/Nothing_here", 404, "There is currently no text in this page"); err != nil {
		return "", err
	}
	a, err := w.visit("/wiki/Main_Page?action=history", 200, `"wgAction":"history"`)
	if err != nil {
		return "", err
	}
	return "/, /wiki/Main_Page, 404 of a page, action=history", lacks(a, "<?php")
}

var reference = regexp.MustCompile(`(?:href|src)="(/w/load\.php[^"]*)"`)

// styles fetches what the main page has a browser fetch.
func (w *mediaWiki) styles() (string, error) {
	a, err := w.visit("/wiki/Main_Page", 200)
	if err != nil {
		return "", err
	}
	list := reference.FindAllSubmatch(a.body, -1)
	if len(list) < 2 {
		return "", fmt.Errorf("only %d addresses of load.php", len(list))
	}
	for _, m := range list {
		b, err := w.get(strings.ReplaceAll(string(m[1]), "&amp;", "&"), 200)
		if err != nil {
			return "", err
		}
		if kind := b.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/") || len(b.body) < 100 {
			return "", fmt.Errorf("%s is %q of %d bytes", m[1], kind, len(b.body))
		}
	}
	const logo = "w/resources/assets/change-your-logo.svg"
	file, err := os.ReadFile(filepath.Join(w.dir, logo))
	if err != nil {
		return "", err
	}
	if a, err = w.get("/"+logo, 200); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d by load.php, one file", len(list)), same(a.body, file)
}

func (w *mediaWiki) login() (string, error) {
	a, err := w.visit("/wiki/Special:UserLogin", 200)
	if err != nil {
		return "", err
	}
	f, err := formOf(a, "userlogin")
	if err != nil {
		return "", err
	}
	f.Set("wpName", mediaWikiUser)
	f.Set("wpPassword", "not it")
	if a, err = w.submit(f, 200); err != nil {
		return "", err
	}
	if err := holds(a, "Incorrect username or password"); err != nil {
		return "", err
	}
	if f, err = formOf(a, "userlogin"); err != nil {
		return "", err
	}
	f.Set("wpName", mediaWikiUser)
	f.Set("wpPassword", mediaWikiPassword)
	if _, err := w.submit(f, 302); err != nil {
		return "", err
	}
	_, err = w.visit("/wiki/Main_Page", 200, `"wgUserName":"`+mediaWikiUser+`"`)
	return "refused with a wrong password, then logged in", err
}

// save edits a page, whose title is written as in an address.
func (w *mediaWiki) save(title, text string) error {
	a, err := w.visit("/w/index.php?action=edit&title="+title, 200)
	if err != nil {
		return err
	}
	f, err := formOf(a, "editform")
	if err != nil {
		return err
	}
	f.Set("wpTextbox1", text)
	f.Set("wpSummary", "by interop")
	f.Set("wpSave", "Save")
	_, err = w.submit(f, 302)
	return err
}

func (w *mediaWiki) edit() (string, error) {
	title := "Page_of_" + w.gateway
	if err := w.save(title, "First text of '''"+w.gateway+"'''."); err != nil {
		return "", err
	}
	if _, err := w.visit("/wiki/"+title, 200, "First text of <b>"+w.gateway+"</b>."); err != nil {
		return "", err
	}
	long := strings.Repeat("Line of a long page, café & <nowiki><b></nowiki>.\n\n", 4000) + "Zebrafinch" + w.gateway
	if err := w.save(title, long); err != nil {
		return "", err
	}
	if _, err := w.visit("/wiki/"+title, 200, "Zebrafinch"+w.gateway, "café &amp; &lt;b&gt;"); err != nil {
		return "", err
	}
	a, err := w.visit("/wiki/"+title+"?action=raw", 200)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("created, then edited to %d bytes, read back", len(long)), same(bytes.TrimSpace(a.body), []byte(long))
}

// titles are pages whose address is not what it looks like.
func (w *mediaWiki) titles() (string, error) {
	list := []string{"AC/DC", "C++ & what?", "100% sure", "Ünï cödé", "Sub/page/of it", "A.php", "Semi;colon, (bracket)", `"Quoted"`, "Dots..in", "Tilde~star*"}
	for _, title := range list {
		title += " " + w.gateway
		at := url.QueryEscape(strings.ReplaceAll(title, " ", "_"))
		if err := w.save(at, "Text of "+w.gateway); err != nil {
			return "", fmt.Errorf("%s: %w", title, err)
		}
		// MediaWiki's own form of the address leaves some bytes as they are.
		for _, path := range []string{strings.ReplaceAll(at, "%2F", "/"), strings.NewReplacer("%2F", "/", "%3A", ":", "%3B", ";", "%2C", ",", "%28", "(", "%29", ")", "%2A", "*", "%7E", "~").Replace(at)} {
			if _, err := w.visit("/wiki/"+path, 200, "Text of "+w.gateway); err != nil {
				return "", fmt.Errorf("%s: %w", title, err)
			}
		}
	}
	return fmt.Sprintf("%d titles with percent signs, slashes, quotes, letters", len(list)), nil
}

// picture is a PNG of noise.
func picture(side int) []byte {
	m := image.NewNRGBA(image.Rect(0, 0, side, side))
	copy(m.Pix, noise(len(m.Pix)))
	var b bytes.Buffer
	png.Encode(&b, m) // a bytes.Buffer takes everything
	return b.Bytes()
}

func (w *mediaWiki) upload() (string, error) {
	a, err := w.visit("/wiki/Special:Upload", 200)
	if err != nil {
		return "", err
	}
	f, err := formOf(a, "mw-upload-form")
	if err != nil {
		return "", err
	}
	data := picture(400)
	name := "Noise_" + w.gateway + ".png"
	f.Set("wpDestFile", name)
	f.Set("wpUploadDescription", "Noise")
	f.Set("wpUpload", "Upload file")
	f.Set("wpIgnoreWarning", "1")
	if a, err = w.follow(w.submitFile(f, "wpUploadFile", name, data, w.gateway == "fpm", 302)); err != nil {
		return "", err
	}
	at := regexp.MustCompile(`href="(/w/images/[^"]*` + name + `)"`).FindSubmatch(a.body)
	if at == nil {
		return "", fmt.Errorf("%s names no file:\n%.1500s", a.Request.URL, a.body)
	}
	if a, err = w.get(string(at[1]), 200); err != nil {
		return "", err
	}
	if kind := a.Header.Get("Content-Type"); kind != "image/png" {
		return "", fmt.Errorf("content type %q", kind)
	}
	return fmt.Sprintf("%d bytes by the form, fetched back unchanged", len(data)), same(a.body, data)
}

func (w *mediaWiki) search() (string, error) {
	if _, err := w.visit("/w/index.php?fulltext=1&search=Zebrafinch"+w.gateway, 200, "Page of "+w.gateway, "mw-search-result"); err != nil {
		return "", err
	}
	_, err := w.visit("/w/index.php?search=Page+of+"+w.gateway, 200, `"wgPageName":"Page_of_`+w.gateway+`"`)
	return "a word of a page, and a title", err
}

// api are entry points that see a path behind their own name.
func (w *mediaWiki) api() (string, error) {
	if _, err := w.visit("/w/rest.php/v1/page/Page_of_"+w.gateway+"/bare", 200, `"key":"Page_of_`+w.gateway+`"`); err != nil {
		return "", err
	}
	if _, err := w.visit("/w/index.php/Page_of_"+w.gateway, 200, "Zebrafinch"); err != nil {
		return "", err
	}
	_, err := w.visit("/w/api.php?action=query&format=json&titles=Main+Page", 200, `"title":"Main Page"`)
	return "rest.php/v1/page, index.php/TITLE, api.php", err
}

func (w *mediaWiki) refused() (string, error) {
	// images/.htaccess says php_flag engine off: what visitors upload does not run,
	// and is not shown either.
	if err := writeFiles(w.dir, map[string]string{"w/images/upload.php": "<?php echo 'RAN', '-IT';\n"}); err != nil {
		return "", err
	}
	if a, err := w.get("/w/images/upload.php", 403); err != nil || lacks(a, "RAN-IT", "<?php") != nil {
		return "", fmt.Errorf("a script among uploads: %v", err)
	}
	return w.statuses(403, "<?php", "/w/includes/", "/w/includes/WebStart.php", "/w/includes/installer/Installer.php", "/w/maintenance/update.php",
		"/w/maintenance/archives/", "/w/languages/messages/MessagesEn.php", "/w/vendor/autoload.php", "/w/cache/", "/w/cache/x",
		"/.htaccess", "/w/images/.htaccess", "/w/%69ncludes/WebStart.php", "/wiki/../w/includes/WebStart.php", "/w//includes/WebStart.php/x")
}

func (w *mediaWiki) logout() (string, error) {
	a, err := w.visit("/wiki/Special:UserLogout", 200)
	if err != nil {
		return "", err
	}
	f, err := formOf(a, "mw-logout-form")
	if err != nil { // the form has no name in some versions
		token := regexp.MustCompile(`name="wpEditToken"[^>]*value="([^"]*)"|value="([^"]*)" name="wpEditToken"`).FindSubmatch(a.body)
		if token == nil {
			return "", err
		}
		f = &webForm{Values: url.Values{"wpEditToken": {string(token[1]) + string(token[2])}}, action: "/wiki/Special:UserLogout"}
	}
	if _, err := w.follow(w.submit(f, 200)); err != nil {
		if _, err = w.follow(w.submit(f, 302)); err != nil {
			return "", err
		}
	}
	a, err = w.visit("/wiki/Main_Page", 200, `"wgUserName":null`)
	if err != nil {
		return "", err
	}
	return "a stranger again", lacks(a, `"wgUserName":"`+mediaWikiUser+`"`)
}
