package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

//go:embed assets/lscache.php
var lscachePHP string

// pageCache runs a small site that says what a plug-in for LiteSpeed's cache says, behind
// PHP-FPM and, in a full run, lsphp, with files that survive a restart.
func pageCache(r *run) error {
	programs := [][2]string{{"fpm", ""}}
	if r.mode == "full" {
		dir, err := r.lsphpDir()
		if err != nil {
			return err
		}
		programs = append(programs, [2]string{"lsphp", filepath.Join(dir, "lsphp")})
	}
	for _, p := range programs {
		if err := r.cachedSite(p[0], p[1]); err != nil {
			return err
		}
	}
	return nil
}

// A cachedSite is that site with the cache on.
type cachedSite struct {
	r *run
	j *jet
	*client
}

func (r *run) cachedSite(gateway, program string) error {
	pool, err := r.newPool("pages-"+gateway, program)
	if err != nil {
		return err
	}
	if err := pool.up(); err != nil {
		return err
	}
	defer pool.stop()
	name := "pages-" + gateway
	docs := filepath.Join(r.dir, "root-"+name, "htdocs")
	t := tree{name: name, secure: true, vhost: pool.vhost(docs, `
  <cache><cacheEngine>1</cacheEngine><storage><cacheStorePath>$SERVER_ROOT/cachedata</cacheStorePath></storage></cache>
  <rewrite><enable>1</enable><rules>
RewriteCond %{REQUEST_FILENAME} !-f
RewriteRule . /index.php [L]
</rules></rewrite>`), files: map[string]string{"htdocs/index.php": lscachePHP, "htdocs/index.html": "", "htdocs/data/post-1": "first", "htdocs/data/post-2": "second"}}
	s := &cachedSite{r: r}
	if s.j, err = r.serve(t); err != nil {
		return err
	}
	defer func() { r.down(s.j) }()
	if err := r.give(filepath.Join(docs, "data")); err != nil {
		return err
	}
	s.client = s.j.plain()
	s.client.Jar = nil
	r.check(gateway+"-application-sees-the-cache", s.sees)
	r.check(gateway+"-tags-and-purges", s.tags)
	r.check(gateway+"-stale-while-made-anew", s.stale)
	r.check(gateway+"-private-pages", s.private)
	r.check(gateway+"-vary-by-cookie", s.vary)
	r.check(gateway+"-purge-by-method", s.method)
	r.check(gateway+"-404-and-cookies", s.odd)
	r.check(gateway+"-nobody-gets-anothers-page", s.privacy)
	r.check(gateway+"-restart", func() (string, error) { return s.restart(t) })
	return nil
}

// page wants an answer to hold a text and to come from the cache as said.
func (s *cachedSite) page(path, cache, text string, header ...string) (*answer, error) {
	a, err := s.send("GET", path, nil, 0, header...)
	if err != nil {
		return nil, err
	}
	if got := a.Header.Get("X-Litespeed-Cache"); got != cache {
		return a, fmt.Errorf("%s: X-LiteSpeed-Cache %q, want %q; status %d", path, got, cache, a.StatusCode)
	}
	for name := range a.Header {
		if strings.HasPrefix(name, "X-Litespeed-") && name != "X-Litespeed-Cache" {
			return a, fmt.Errorf("%s: the client sees %s", path, name)
		}
	}
	return a, holds(a, text)
}

// pages are steps of page: path, cache, text, and a field of the request.
func (s *cachedSite) pages(steps ...[4]string) error {
	for _, p := range steps {
		var header []string
		if p[3] != "" {
			header = append(header, p[3])
		}
		if _, err := s.page(p[0], p[1], p[2], header...); err != nil {
			return err
		}
	}
	return nil
}

func (s *cachedSite) post(path, body string, header ...string) error {
	_, err := want(200)(s.send("POST", path, strings.NewReader(body), int64(len(body)), header...))
	return err
}

func (s *cachedSite) sees() (string, error) {
	a, err := s.get("/other", 200)
	if err == nil && a.Header.Get("X-Sees") != "on" {
		err = fmt.Errorf("X-LSCACHE is %q", a.Header.Get("X-Sees"))
	}
	return "", err
}

func (s *cachedSite) tags() (string, error) {
	err := errors.Join(
		s.pages([4]string{"/post/1", "miss", "first", ""}, [4]string{"/post/1", "hit", "first", ""}, [4]string{"/post/2", "miss", "second", ""},
			[4]string{"/feed", "miss", "feed", ""}, [4]string{"/feed", "hit", "feed", ""}),
		s.post("/edit/1", "first, edited"),
		s.pages([4]string{"/post/1", "miss", "first, edited", ""}, [4]string{"/post/2", "hit", "second", ""}, [4]string{"/feed", "miss", "feed", ""}),
		s.post("/flush", ""),
		s.pages([4]string{"/post/1", "miss", "first, edited", ""}, [4]string{"/post/2", "miss", "second", ""}),
	)
	return "", err
}

// stale has a page purged softly: who asks next gets the old one at once, and soon all
// get a new one.
func (s *cachedSite) stale() (string, error) {
	if err := s.pages([4]string{"/", "miss", "home", ""}); err != nil {
		return "", err
	}
	if err := s.post("/edit/2", "second, edited"); err != nil {
		return "", err
	}
	old, err := s.page("/", "hit", "home")
	if err != nil {
		return "", err
	}
	if strings.Contains(string(old.body), "second, edited") {
		return "", errors.New("the first one who asked has waited")
	}
	for range 200 {
		a, err := s.page("/", "hit", "home")
		if err != nil {
			return "", err
		}
		if strings.Contains(string(a.body), "second, edited") {
			return "", nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return "", errors.New("it is not made anew")
}

func (s *cachedSite) private() (string, error) {
	const ann, bob = "Cookie: wordpress_logged_in_e08=ann", "Cookie: wordpress_logged_in_e08=bob"
	err := errors.Join(
		s.pages([4]string{"/account", "miss", "account of ann", ann}, [4]string{"/account", "miss", "account of bob", bob},
			[4]string{"/account", "hit,private", "account of ann", ann}, [4]string{"/account", "hit,private", "account of bob", bob}, [4]string{"/account", "", "", ""}),
		s.post("/mine", "", ann),
		s.pages([4]string{"/account", "miss", "account of ann", ann}, [4]string{"/account", "hit,private", "account of bob", bob}))
	return "", err
}

func (s *cachedSite) vary() (string, error) {
	return "", s.pages([4]string{"/post/2?v", "miss", "plain: ", ""}, [4]string{"/post/2?v", "miss", "dark: ", "Cookie: theme=dark"},
		[4]string{"/post/2?v", "hit", "dark: ", "Cookie: other=1; theme=dark"}, [4]string{"/post/2?v", "hit", "plain: ", "Cookie: other=1"})
}

func (s *cachedSite) method() (string, error) {
	if err := s.pages([4]string{"/post/2?m", "miss", "second", ""}, [4]string{"/post/2?m", "hit", "second", ""}); err != nil {
		return "", err
	}
	if _, err := want(405)(s.send("PURGE", "/post/2", nil, 0, "X-Forwarded-For: 192.0.2.1")); err != nil {
		return "", err
	}
	if _, err := want(200)(s.send("PURGE", "/post/2", nil, 0)); err != nil {
		return "", err
	}
	return "", s.pages([4]string{"/post/2?m", "miss", "second", ""})
}

// odd: an error that the application wants kept, and a cookie that is nobody else's.
func (s *cachedSite) odd() (string, error) {
	for _, cache := range []string{"miss", "hit"} {
		if a, err := s.page("/post/99", cache, "nothing"); err != nil || a.StatusCode != 404 {
			return "", fmt.Errorf("a 404: %v", err)
		}
	}
	if err := s.post("/edit/1", "x"); err != nil { // purges /feed
		return "", err
	}
	for _, cache := range []string{"miss", "hit"} {
		if a, err := s.page("/feed", cache, "feed"); err != nil || (a.Header.Get("Set-Cookie") == "") != (cache == "hit") {
			return "", fmt.Errorf("Set-Cookie on a %s: %v", cache, err)
		}
	}
	return "", nil
}

// privacy has users and guests ask, edit and purge at once, over HTTP/1.1 and HTTP/2: no
// body crosses.
func (s *cachedSite) privacy() (string, error) {
	h2, err := s.j.secure(false)
	if err != nil {
		return "", err
	}
	h2.Jar = nil
	ctx, cancel := context.WithTimeout(s.r.ctx, time.Duration(s.r.pick(5, 60))*time.Second)
	defer cancel()
	var asked, hits, purges atomic.Int64
	var all sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		c := s.client
		if i%2 == 1 {
			c = h2
		}
		user := []string{"ann", "bob", ""}[i%3]
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 11))
			for ctx.Err() == nil && errs[i] == nil {
				asked.Add(1)
				switch r.IntN(25) {
				case 0:
					purges.Add(1)
					errs[i] = crossOrder(c, user, []string{"/edit/1", "/edit/2", "/flush", "/mine"}[r.IntN(4)])
				default:
					var hit bool
					hit, errs[i] = crossPage(c, user, []string{"/account", "/post/1", "/post/2", "/"}[r.IntN(4)])
					if hit {
						hits.Add(1)
					}
				}
			}
		})
	}
	all.Wait()
	if hits.Load() == 0 {
		errs = append(errs, errors.New("nothing came from the cache"))
	}
	return fmt.Sprintf("%d requests, %d from the cache, %d purges", asked.Load(), hits.Load(), purges.Load()), errors.Join(errs...)
}

func userCookie(user string) []string {
	if user == "" {
		return nil
	}
	return []string{"Cookie: wordpress_logged_in_e08=" + user}
}

func crossOrder(c *client, user, path string) error {
	_, err := want(200)(c.send("POST", path, strings.NewReader("text"), 4, userCookie(user)...))
	return err
}

// crossPage asks for a page and looks for users in it.
func crossPage(c *client, user, path string) (hit bool, err error) {
	a, err := c.send("GET", path, nil, 0, userCookie(user)...)
	if err != nil {
		return false, err
	}
	if path == "/account" && user == "" && a.StatusCode == 403 {
		return false, nil
	}
	if a.StatusCode != 200 {
		return false, fmt.Errorf("%s: status %d", path, a.StatusCode)
	}
	text := string(a.body)
	for _, other := range []string{"ann", "bob"} {
		if other != user && strings.Contains(text, other) {
			return false, fmt.Errorf("%s: %q has a page of %s: %.200q", path, user, other, text)
		}
	}
	if path == "/account" && strings.Count(text, "<i>"+user+"</i>") != 400 {
		return false, fmt.Errorf("%s is not whole: %d bytes", path, len(text))
	}
	return strings.HasPrefix(a.Header.Get("X-Litespeed-Cache"), "hit"), nil
}

// restart ends the server and starts it again: what was public is there, what was purged
// is not.
func (s *cachedSite) restart(t tree) (string, error) {
	if err := errors.Join(s.post("/flush", ""), s.pages([4]string{"/post/1", "miss", "", ""}, [4]string{"/post/2", "miss", "", ""}), s.post("/edit/2", "late")); err != nil {
		return "", err
	}
	if err := s.j.stop(); err != nil {
		return "", err
	}
	var err error
	if s.j.process, err = s.r.start(s.r.bin, "--root", s.j.root, "serve", "--metrics-addr", s.j.metrics); err != nil {
		return "", err
	}
	if err := s.j.ready(s.r.ctx, dial("tcp", s.j.http)); err != nil {
		return "", err
	}
	if err := s.readsFiles(); err != nil {
		return "", err
	}
	return "", s.pages([4]string{"/post/1", "hit", "", ""}, [4]string{"/post/2", "miss", "late", ""})
}

// readsFiles waits until the server has read its files.
func (s *cachedSite) readsFiles() error {
	for range 200 {
		text, err := os.ReadFile(filepath.Join(s.j.root, "logs", "error.log"))
		if err != nil {
			return err
		}
		if strings.Count(string(text), "page cache read") > 1 {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return errors.New("the files are not read")
}
