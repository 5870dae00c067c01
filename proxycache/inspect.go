package proxycache

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"httpjet/docroot"
	"httpjet/store"
)

// Listed is a kept response as people see it.
type Listed struct {
	URL     string   // as the client asked for it
	Vary    []string // fields that tell it from others of its URL
	Status  int
	Bytes   int64         // of the body
	Fresh   bool          // else it is stale
	Age     time.Duration // now, that of its origin included
	Left    time.Duration // it is fresh for so long; negative: it was
	Codings []string      // in which its body is kept too
}

// List returns the responses whose path begins so, the largest first, and how many there
// are; at most most of them.
func (c *Cache) List(path string, most int) (list []Listed, all int) {
	c.each(func(e *store.Entry, k *kept) {
		if p, _, _ := docroot.CleanPath(k.target); !strings.HasPrefix(p, path) {
			return
		}
		if all++; len(list) < 100*most {
			list = append(list, listed(e, k, time.Now()))
		}
	})
	slices.SortFunc(list, func(a, b Listed) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.URL, b.URL)) })
	return list[:min(len(list), most)], all
}

// Of returns the responses of one URL, whatever has selected them.
func (c *Cache) Of(scheme, host, target string) (list []Listed) {
	prefix := scheme + "\x00" + strings.ToLower(host) + "\x00"
	c.each(func(e *store.Entry, k *kept) {
		if k.target == target && strings.HasPrefix(e.Key, prefix) {
			list = append(list, listed(e, k, time.Now()))
		}
	})
	return list
}

// each calls f for what may be used.
func (c *Cache) each(f func(e *store.Entry, k *kept)) {
	now := time.Now()
	c.store.Each(func(e *store.Entry) bool {
		if e.State() == store.Live && now.Before(e.Until) {
			f(e, e.Info.(*kept))
		}
		return true
	})
}

func listed(e *store.Entry, k *kept, now time.Time) Listed {
	scheme, rest, _ := strings.Cut(e.Key, "\x00")
	host, _, _ := strings.Cut(rest, "\x00")
	left := k.life.TTL(now)
	return Listed{URL: scheme + "://" + host + k.target, Vary: e.Vary, Status: e.Status, Bytes: e.Body.Len(), Fresh: left > 0,
		Age: k.life.AgeAt(now), Left: left, Codings: e.Codings()}
}

// Purge drops what an operator names: * for all, a path or a URL for all schemes, hosts,
// queries and variants of it, a path with its query for that alone, each with * at its
// end for all that begin so; the words of scope and mode that the page cache knows change
// nothing here. What is being made is not kept behind it. It returns how many responses
// that is about, and the items that name none; with dry it only counts.
func (c *Cache) Purge(items string, dry bool) (entries int, bad []string) {
	var list []purge
	for item := range strings.SplitSeq(items, ",") {
		switch item = strings.TrimSpace(item); strings.ToLower(item) {
		case "", "public", "private", "stale":
			continue
		}
		p, ok := purgeOf(item)
		if !ok {
			bad = append(bad, item)
			continue
		}
		list = append(list, p)
	}
	c.each(func(e *store.Entry, _ *kept) {
		if slices.ContainsFunc(list, func(p purge) bool { return slices.ContainsFunc(e.Tags, p.about) }) {
			entries++
		}
	})
	for _, p := range list {
		switch {
		case dry:
		case p.prefix:
			c.store.PurgePrefix(p.tag, false)
		default:
			c.store.Purge(p.tag, false)
		}
	}
	return entries, bad
}

// purge is one thing to be purged.
type purge struct {
	tag    string
	prefix bool // all tags that begin so
}

func (p purge) about(tag string) bool {
	return tag == p.tag || p.prefix && strings.HasPrefix(tag, p.tag)
}

func purgeOf(item string) (purge, bool) {
	if item == "*" {
		return purge{prefix: true}, true
	}
	path, prefix := strings.CutSuffix(item, "*")
	if _, rest, isURL := strings.Cut(path, "://"); isURL {
		i := strings.IndexByte(rest, '/')
		if i < 0 {
			rest, i = "/", 0
		}
		path = rest[i:]
	}
	if !strings.HasPrefix(path, "/") {
		return purge{}, false // a tag: only the page cache knows such
	}
	clean, query, err := docroot.CleanPath(path)
	if query != "" {
		clean += "?" + query
	}
	return purge{tag: pathTag + clean, prefix: prefix}, err == nil
}

// pathTag is before a path in the tags of a response.
const pathTag = "\x00p\x00"

// tagsOf are the tags of a response: its key, for what changes it, and the paths by which
// operators name it, of the client and of what went upstream.
func tagsOf(key, target, sent string) []string {
	tags := []string{key}
	add := func(target string) {
		path, query, err := docroot.CleanPath(target)
		if err != nil {
			return
		}
		tags = append(tags, pathTag+path)
		if query != "" {
			tags = append(tags, pathTag+path+"?"+query)
		}
	}
	add(target)
	if sent != target {
		add(sent)
	}
	return tags
}
