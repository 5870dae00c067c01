package pagecache

import (
	"errors"
	"io"
	"strings"

	"httpjet/docroot"
	"httpjet/exchange"
)

// Names of tags, each with its namespace: of a site, and of an owner in it. An entry has
// that of its site, those of its URL, and its own; a private one also that of its owner.
func siteTag(site string) string { return site + "\x00" }

func ownTag(site, own, name string) string { return site + "\x00" + own + "\x00t\x00" + name }

func pathTag(site, own, path string) string { return site + "\x00" + own + "\x00u\x00" + path }

func ownerTag(site, own string) string { return site + "\x00" + own + "\x00" }

// A Purge is one thing that an application or an operator wants purged.
type Purge struct {
	Tag    string // name of a tag of the store
	Prefix bool   // all that begin so
	Soft   bool   // stale instead of gone
	Text   string // as it was written
}

// readPurges reads a purge field (LSX 10.4, R-CACHE-12): groups separated by semicolons,
// each with words about its scope before its items. own is the namespace of private
// entries of who asks, "" if he has none: his private purges are then about nothing.
func readPurges(site, own, field string) (list []Purge, bad []string) {
	for group := range strings.SplitSeq(field, ";") {
		private, stale := false, false
		for item := range elements(group) {
			switch strings.ToLower(item) {
			case "public":
				private = false
				continue
			case "private":
				private = true
				continue
			case "stale":
				stale = true
				continue
			}
			name, soft := strings.CutSuffix(item, "~s")
			if !soft {
				name, soft = strings.CutSuffix(item, "~stale")
			}
			if private && own == "" {
				continue
			}
			space := ""
			if private {
				space = own
			}
			p, ok := purgeOf(site, space, name)
			if !ok {
				bad = append(bad, item)
				continue
			}
			p.Soft, p.Text = soft || stale, item
			list = append(list, p)
		}
	}
	return list, bad
}

// purgeOf is the purge of one item.
func purgeOf(site, own, name string) (Purge, bool) {
	name = strings.TrimSpace(name)
	tagged := false
	if len(name) >= 4 && strings.EqualFold(name[:4], "tag=") {
		name, tagged = name[4:], true
	}
	prefix := false
	if name != "*" || tagged {
		name, prefix = strings.CutSuffix(name, "*")
	}
	switch {
	case name == "" && !prefix:
		return Purge{}, false
	case name == "*" || name == "": // of all tags
		if own == "" {
			return Purge{Tag: siteTag(site)}, true
		}
		return Purge{Tag: ownerTag(site, own)}, true
	case !tagged && isURL(name):
		path, ok := purgePath(name)
		return Purge{Tag: pathTag(site, own, path), Prefix: prefix}, ok
	}
	return Purge{Tag: ownTag(site, own, name), Prefix: prefix}, true
}

func isURL(name string) bool {
	return name[0] == '/' || strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://")
}

// purgePath is the path that a URL names, as entries have it: all hosts, schemes, queries
// and variants of it are meant, unless it has a query itself.
func purgePath(url string) (string, bool) {
	if url[0] != '/' {
		_, rest, _ := strings.Cut(url, "://")
		i := strings.IndexByte(rest, '/')
		if i < 0 {
			return "/", true
		}
		url = rest[i:]
	}
	path, query, err := docroot.CleanPath(url)
	if err != nil {
		return "", false
	}
	if query != "" {
		path += "?" + query
	}
	return path, true
}

// urlTags are the tags that an entry has by what was asked for.
func urlTags(site, own, target string) []string {
	path, query, err := docroot.CleanPath(target)
	if err != nil {
		return nil
	}
	tags := []string{pathTag(site, own, path)}
	if query != "" {
		tags = append(tags, pathTag(site, own, path+"?"+query))
	}
	return tags
}

// tagsOf are all tags of an entry: those that fields name, and its own. Every private
// entry goes with the public purges of its URL and of its site too: too much is purged
// rather than too little.
func tagsOf(site, own, target string, fields []string) []string {
	tags := append([]string{siteTag(site)}, urlTags(site, "", target)...)
	if own != "" {
		tags = append(append(tags, ownerTag(site, own)), urlTags(site, own, target)...)
	}
	for _, field := range fields {
		for name := range elements(field) {
			space := own
			if rest, public := strings.CutPrefix(name, "public:"); public {
				name, space = rest, ""
			}
			if len(tags) < maxTags {
				tags = append(tags, ownTag(site, space, name))
			}
		}
	}
	return tags
}

// maxTags bounds the tags of one entry. One with more is not stored: a purge by one that
// was left out would miss it.
const maxTags = 1000

// IsPurge reports whether a method is one by which a client purges a URL (LSX 10.4).
func IsPurge(method string) bool { return method == "PURGE" || method == "REFRESH" }

// purge answers PURGE and REFRESH: all entries of the URL go, or are made anew behind the
// next one who asks. A client without a right to it is told that there is no such method,
// and an application sees none; a proxied one may have a cache of its own and sees all.
func (r *Run) purge(q Question, h exchange.Handler) error {
	x, s := r.x, r.site
	path, ok := purgePath(x.Req.Target)
	r.outcome, r.reason = bypass, "method"
	if ok && q.Purge {
		s.Cache.Purge([]Purge{{Tag: pathTag(s.Name, "", path), Soft: x.Req.Method == "REFRESH", Text: x.Req.Target}})
	}
	switch {
	case !q.Local:
		return h.Serve(x)
	case !q.Purge:
		return &exchange.Error{Status: 405, Reason: "method_not_allowed", Err: errors.New("this client may not purge"),
			Fields: []exchange.Field{{Name: "Allow", Value: "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"}}}
	case !ok:
		return exchange.Fail(400, "bad_request", "the URL names nothing that can be purged")
	}
	x.Resp.Fields.Set("Content-Type", "text/plain")
	x.Resp.Fields.Set("Cache-Control", "private, no-store")
	x.Resp.Length = int64(len(purgedText))
	if err := x.Start(200); err != nil {
		return err
	}
	_, err := io.WriteString(x, purgedText)
	return err
}

const purgedText = "purged\n"

// purge does what a field of an answer says.
func (c *Cache) purge(x *exchange.Exchange, site, own string, fields []string) {
	for _, field := range fields {
		list, bad := readPurges(site, own, field)
		for _, item := range bad {
			c.log.Warn("purge names nothing that can be purged", "vhost", site, "item", item, "request", x.Req.ID)
		}
		c.Purge(list)
	}
}
