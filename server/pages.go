package server

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"httpjet/control"
	"httpjet/generation"
	"httpjet/metrics"
	"httpjet/pagecache"
	"httpjet/status"
)

// PagesRequest is the body of POST /v1/cache/list, /v1/cache/why and /v1/cache/purge on
// the control socket.
type PagesRequest struct {
	VHost  string `json:"vhost"`   // "": all, or the one that the URL leads to
	Path   string `json:"path"`    // list: entries whose path begins so
	Most   int    `json:"most"`    // list: entries told
	URL    string `json:"url"`     // why
	Items  string `json:"items"`   // purge: as in X-LiteSpeed-Purge
	DryRun bool   `json:"dry_run"` // purge: count only

	// Only the caches of a proxied context of this uri, or of contexts that this processor
	// answers for. "": all, and the page cache.
	Context   string `json:"context"`
	Processor string `json:"processor"`
}

// PagesAnswer is the answer to them.
type PagesAnswer struct {
	Entries []PageEntry       `json:"entries,omitempty"`
	Count   int               `json:"count"`           // entries that there are, or that a purge is about
	Last    *pagecache.Reason `json:"last,omitempty"`  // why: of the last answer that was not stored
	Cached  bool              `json:"cached"`          // why: the virtual host has a page cache
	Proxied bool              `json:"proxied"`         // why: it has caches of proxied contexts
	VHost   string            `json:"vhost,omitempty"` // why, purge
}

// pageStores is the file below the server root that names the directories in which page
// caches keep files, a line each. It is how a process knows of those that only its
// predecessors had: what is purged now is not noted there.
const pageStores = "run/page-caches"

// openPages opens the files of the page caches of g, which is published next.
func (s *Server) openPages(g *generation.Generation) {
	stores := g.OpenStores(s.log)
	if c := s.kept.Pages; c != nil {
		c.Serve(g.CachedSites())
		s.pages.Store(c)
		for _, dir := range s.stores { // of a configuration before: purges are noted there as long as this process lives
			if c.Has(dir) && !slices.Contains(stores, dir) {
				stores = append(stores, dir)
			}
		}
	}
	noted := s.stores
	if noted == nil { // at the start
		noted = s.readStores()
		for _, dir := range noted {
			if !slices.Contains(stores, dir) && !s.distrust(dir) {
				stores = append(stores, dir) // for the next start
			}
		}
	}
	slices.Sort(stores)
	if s.stores = stores; slices.Equal(stores, noted) {
		return
	}
	if err := s.noteStores(); err != nil {
		s.log.Error("where page caches are cannot be noted: their files are of this process alone", "err", err)
		for _, dir := range stores {
			s.distrust(dir)
		}
	}
}

func (s *Server) distrust(dir string) bool {
	err := pagecache.Distrust(dir)
	if err != nil {
		s.log.Error("files of a page cache cannot be given up: remove them", "dir", dir, "err", err)
	}
	return err == nil
}

func (s *Server) readStores() (dirs []string) {
	text, err := os.ReadFile(filepath.Join(s.opt.Root, pageStores))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Error("it is not known where page caches were", "err", err)
	}
	for line := range strings.Lines(string(text)) {
		dirs = append(dirs, strings.TrimSuffix(line, "\n"))
	}
	return dirs
}

func (s *Server) noteStores() error {
	path := filepath.Join(s.opt.Root, pageStores)
	if len(s.stores) == 0 {
		return os.Remove(path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	temp := path + ".new"
	if err := os.WriteFile(temp, []byte(strings.Join(s.stores, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

var errNoPages = errors.New("no virtual host of this server has a page cache, and no context one of its own")

// most is how many entries a list has.
const most = 1000

func (s *Server) listPages(w http.ResponseWriter, r *http.Request) {
	var in PagesRequest
	var out PagesAnswer
	err := control.Read(r, &in)
	switch {
	case err != nil:
	case in.oneContext() && len(s.proxied(&in, in.VHost)) == 0:
		err = errNoContext
	case s.pages.Load() == nil && len(s.proxied(&in, "")) == 0:
		err = errNoPages
	default:
		if in.Most <= 0 || in.Most > most {
			in.Most = most
		}
		out.Entries, out.Count = s.listAll(&in)
	}
	control.Answer(w, out, err)
}

func (s *Server) whyPage(w http.ResponseWriter, r *http.Request) {
	var in PagesRequest
	var out PagesAnswer
	err := control.Read(r, &in)
	if err == nil {
		out, err = s.why(in)
	}
	control.Answer(w, out, err)
}

func (s *Server) why(in PagesRequest) (out PagesAnswer, err error) {
	u, err := url.Parse(in.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return out, fmt.Errorf("%q is no http or https URL", in.URL)
	}
	g := s.current.Load().Generation
	site, name := g.PageCacheOf(in.VHost, u.Host)
	out.VHost = name
	if name == "" {
		return out, fmt.Errorf("no virtual host answers for %q", u.Host)
	}
	target := u.EscapedPath()
	if target == "" {
		target = "/"
	}
	if u.RawQuery != "" {
		target += "?" + u.RawQuery
	}
	if site != nil && !in.oneContext() {
		list, last := site.Why(u.Scheme, u.Host, target)
		out.Cached, out.Entries, out.Last = true, pageEntries(list), last
	}
	for _, c := range s.proxied(&in, name) {
		out.Proxied = true
		out.Entries = append(out.Entries, proxyEntries(&c, c.Cache.Of(u.Scheme, u.Host, target))...)
	}
	out.Count = len(out.Entries)
	return out, nil
}

func (s *Server) purgePages(w http.ResponseWriter, r *http.Request) {
	var in PagesRequest
	var out PagesAnswer
	err := control.Read(r, &in)
	if err == nil {
		out, err = s.purge(in)
	}
	control.Answer(w, out, err)
}

func (s *Server) purge(in PagesRequest) (out PagesAnswer, err error) {
	g := s.current.Load().Generation
	site, name := g.PageCacheOf(in.VHost, "")
	if in.oneContext() {
		site = nil
	}
	proxied := s.proxied(&in, name)
	switch {
	case in.VHost == "":
		return out, errors.New("name the virtual host whose entries are to be purged")
	case name == "":
		return out, fmt.Errorf("virtual host %q is not declared", in.VHost)
	case in.oneContext() && len(proxied) == 0:
		return out, errNoContext
	case site == nil && len(proxied) == 0:
		return out, fmt.Errorf("virtual host %q has no page cache, and its contexts have none", in.VHost)
	case strings.TrimSpace(in.Items) == "":
		return out, errors.New("name what is to be purged: *, /path, tag=NAME")
	}
	n, bad := purgeAll(site, name, proxied, in.Items, in.DryRun)
	if bad != nil {
		return out, fmt.Errorf("%q names nothing that can be purged", bad[0])
	}
	out.Count, out.VHost = n, name
	if !in.DryRun {
		s.log.Info("cache purged", "vhost", name, "items", in.Items, "entries", n)
	}
	return out, nil
}

// pageCacheCounts are those of the page cache, 0 as long as there is none.
func (s *Server) pageCacheCounts() metrics.PageCache {
	c := s.pages.Load()
	if c == nil {
		return metrics.PageCache{}
	}
	t := c.Totals()
	return metrics.PageCache{
		Hits: t.Get(pagecache.Hits), StaleHits: t.Get(pagecache.HitsStale), ErrorHits: t.Get(pagecache.HitsOnError),
		Misses: t.Get(pagecache.Misses), Bypasses: t.Get(pagecache.Bypasses), Stored: t.Get(pagecache.Stores),
		StoredPrivate: t.Get(pagecache.StoresPrivate), Rejected: t.Get(pagecache.Rejected), Refused: t.Get(pagecache.Refused),
		ByRule: t.Get(pagecache.ByRule), NotAsked: t.Get(pagecache.NotAsked), Private: t.Get(pagecache.Private),
		NoStore: t.Get(pagecache.NoStore), Other: t.Get(pagecache.Other), Purges: t.Get(pagecache.Purges),
		Expired: t.Get(pagecache.Expired), Swept: t.Get(pagecache.Swept), Evicted: t.Stored.Evicted,
		ReadErrors: t.Get(pagecache.ReadErrors), WriteErrors: t.Get(pagecache.WriteErrors), FullErrors: t.Get(pagecache.FullErrors),
		Entries: t.Stored.Entries, Bytes: t.Stored.Bytes, DiskBytes: t.Stored.Disk, DiskMax: t.MaxDisk, Tags: int64(t.Stored.Tags),
		Refreshing: int64(t.Refreshing),
	}
}

// cacheDocument is what /api/v1/cache tells.
func (s *Server) cacheDocument() status.Caches {
	n, p := s.pageCacheCounts(), s.kept.ProxyCacheCounts()
	out := status.Caches{ProxyCache: status.ProxyCache{Entries: p.Entries, Bytes: p.Bytes, Hits: p.Hits, Misses: p.Misses, Contexts: s.contextCaches()}}
	if c := s.pages.Load(); c != nil {
		out.PageCache = &status.PageCache{Entries: n.Entries, Private: c.Totals().Private, Bytes: n.Bytes, DiskBytes: n.DiskBytes, DiskMax: n.DiskMax, Tags: n.Tags,
			Hits: n.Hits, StaleHits: n.StaleHits, ErrorHits: n.ErrorHits, Misses: n.Misses, Bypasses: n.Bypasses,
			Stores: n.Stored + n.StoredPrivate, Purges: n.Purges, Evictions: n.Evicted, Refreshing: n.Refreshing}
	}
	return out
}
