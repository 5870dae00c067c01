package pagecache

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"httpjet/docroot"
	"httpjet/store"
)

// Listed is an entry as people see it.
type Listed struct {
	VHost   string   `json:"vhost"`
	URL     string   `json:"url"`
	Private bool     `json:"private"`        // of one user, who is not told
	Vary    []string `json:"vary,omitempty"` // what tells it from other entries of its URL
	Status  int      `json:"status"`
	Bytes   int64    `json:"bytes"` // of the body
	State   string   `json:"state"` // fresh, stale, or purged: made stale by a purge
	Age     int64    `json:"age_s"`
	Fresh   int64    `json:"fresh_s"` // for so long from now on; negative: it was
	Tags    []string `json:"tags,omitempty"`
	File    bool     `json:"file"`              // it survives a restart
	Codings []string `json:"codings,omitempty"` // in which its body is in memory too
}

// List returns the entries of a virtual host, "" for all, whose path begins so, the
// largest first, and how many there are; at most most of them.
func (c *Cache) List(vhost, path string, most int) (list []Listed, all int) {
	now := c.opt.Now()
	c.store.Each(func(e *store.Entry) bool {
		i := infoOf(e)
		if vhost != "" && i.site != vhost || e.State() == store.Gone || !now.Before(e.Until) || !strings.HasPrefix(pathOf(i.target), path) {
			return true
		}
		if all++; len(list) < 100*most {
			list = append(list, i.listed(e, now))
		}
		return true
	})
	slices.SortFunc(list, func(a, b Listed) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.VHost, b.VHost), cmp.Compare(a.URL, b.URL))
	})
	return list[:min(len(list), most)], all
}

func pathOf(target string) string {
	path, _, _ := docroot.CleanPath(target)
	return path
}

func (i *info) listed(e *store.Entry, now time.Time) Listed {
	l := Listed{VHost: i.site, URL: i.scheme + "://" + i.host + i.target, Private: i.owner != "", Status: e.Status, Bytes: max(e.Body.Len(), i.length),
		State: "fresh", Age: int64(now.Sub(e.Stored) / time.Second), Fresh: int64(e.Fresh.Sub(now) / time.Second), File: i.disk != nil, Codings: e.Codings()}
	switch {
	case e.State() == store.Stale:
		l.State = "purged"
	case !now.Before(e.Fresh):
		l.State = "stale"
	}
	for _, v := range e.Vary {
		l.Vary = append(l.Vary, strings.NewReplacer(byCookie, "cookie ", byField, "field ").Replace(v))
	}
	for _, t := range e.Tags {
		if _, name, is := strings.Cut(t, "\x00t\x00"); is {
			l.Tags = append(l.Tags, name)
		}
	}
	return l
}

// Reason says why an answer was not stored.
type Reason struct {
	Why string    `json:"why"`
	At  time.Time `json:"at"`
	key string
}

// noted remembers why the last answer for a key was not stored. Keys share places, so
// that an old one is forgotten for a new one.
func (c *Cache) noted(key []byte, why string, at time.Time) {
	place := &c.reasons[maphash.Bytes(c.seed, key)%uint64(len(c.reasons))]
	if r := place.Load(); r == nil || r.Why != why || r.key != string(key) || at.Sub(r.At) > time.Second {
		place.Store(&Reason{Why: why, At: at, key: string(key)})
	}
}

// Why tells of a URL without a user: its entries, those of its other variants and of
// users included, and why the last answer was not stored, if that is remembered.
func (s *Site) Why(scheme, host, target string) (list []Listed, last *Reason) {
	c := s.Cache
	now := c.opt.Now()
	key := appendKey(nil, s.Name, scheme, host, target, &s.Policy.KeyMod)
	if r := c.reasons[maphash.Bytes(c.seed, key)%uint64(len(c.reasons))].Load(); r != nil && r.key == string(key) {
		last = r
	}
	c.store.Each(func(e *store.Entry) bool {
		if k := e.Key; (k == string(key) || strings.HasPrefix(k, string(key)+"\x00")) && e.State() != store.Gone && now.Before(e.Until) {
			list = append(list, infoOf(e).listed(e, now))
		}
		return true
	})
	return list, last
}

// PurgeItems purges what an operator names as an application does in
// X-LiteSpeed-Purge, and returns how many entries that is about; with dry it only
// counts. Items that name nothing are returned.
func (c *Cache) PurgeItems(vhost, items string, dry bool) (entries int, bad []string) {
	list, bad := readPurges(vhost, "", items)
	c.store.Each(func(e *store.Entry) bool {
		if e.State() != store.Gone && slices.ContainsFunc(list, func(p Purge) bool { return p.about(e.Tags) }) {
			entries++
		}
		return true
	})
	if !dry {
		c.Purge(list)
	}
	return entries, bad
}

func (p *Purge) about(tags []string) bool {
	return slices.ContainsFunc(tags, func(t string) bool { return t == p.Tag || p.Prefix && strings.HasPrefix(t, p.Tag) })
}
