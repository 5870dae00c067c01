package pagecache

import (
	"slices"
	"strings"
	"time"

	"httpjet/exchange"
)

// Policy is what is looked up and stored in one place: a virtual host, a context, a
// directory. It is not changed once it is built; .htaccess files change a copy.
type Policy struct {
	LookUp, LookUpPrivate bool // checkPublicCache, checkPrivateCache
	Store, StorePrivate   bool // without the application asking: enableCache, enablePrivateCache

	Life, PrivateLife time.Duration // where the application gives none; 0: not stored
	MaxLife           time.Duration // 0: no bound but the one of private entries
	MaxObject         int64         // bytes of a body
	MaxStale          time.Duration // how long one is served stale while it is made anew
	StaleIfError      time.Duration // how long in the place of a server error
	Statuses          []int         // stored; nil: 200, and what the application asks for

	Respect       bool // Cache-Control of an answer may forbid what X-LiteSpeed-Cache-Control allows
	IgnoreAnswer  bool // Cache-Control of an answer does not count where the application did not ask
	ObeyRequest   bool // Cache-Control of a request may bypass the cache
	NoQueries     bool // requests with a query bypass it
	NoCookies     bool // requests with cookies do not store without the application asking
	NoSetCookies  bool // nor do answers that set one
	KeyMod        KeyMod
	Disabled      string   // why nothing is looked up or stored here; "": it is
	DisabledBelow []string // paths that CacheDisable names
}

// Defaults are those of a policy of which nothing is written.
func Defaults() Policy {
	return Policy{LookUp: true, LookUpPrivate: true, Life: 900 * time.Second, MaxObject: 100 << 20, MaxStale: 200 * time.Second}
}

// What holds whatever is written (R-CACHE-8, R-CACHE-9, spec §39).
const (
	maxPrivateLife = 300 * time.Second
	maxStale       = 86400 * time.Second
	maxLife        = 366 * 24 * time.Hour
	maxVaryNames   = 8
	flightWait     = 10 * time.Second
	maxRefreshes   = 8
	longValue      = 64 // bytes of a cookie or field in a variant, longer ones are hashed
)

// Site is the cache of one virtual host.
type Site struct {
	Cache  *Cache
	Name   string // of the virtual host
	Policy Policy
	Disk   *Disk  // nil: in memory alone
	Dir    string // where Disk is to be, for who opens it; "": nowhere

	NoHosts []string // host names that are never cached, lower case
	NoPaths []string // parts of paths that are never cached; ^ and $ hold them at an end

	// VaryCookies are the only cookies by which an application may tell variants apart;
	// nil: any.
	VaryCookies []string

	// PrivateCookies are cookies of which answers that set one are never stored.
	PrivateCookies []string

	// SessionCookie is the cookie that tells whose a private entry is; "": those that
	// look like one. A request with UserCookie has only private entries, but for paths
	// below Shared; "": no request is such.
	SessionCookie, UserCookie string
	Shared                    []string

	Standard bool       // Cache-Control: public of an answer asks for the cache too
	Report   ReportKind // how answers tell what the cache did
}

// ReportKind is how answers tell what the cache did.
type ReportKind uint8

const (
	ReportLiteSpeed ReportKind = iota // X-LiteSpeed-Cache: hit
	ReportStandard                    // Cache-Status (RFC 9211)
	ReportNothing
)

// excluded reports why nothing of a host and path is cached; "" if it is.
func (s *Site) excluded(host, path string) string {
	for _, h := range s.NoHosts {
		if exchange.EqualName(h, host) {
			return "noCacheDomain"
		}
	}
	for _, p := range s.NoPaths {
		if pathMatches(p, path) {
			return "noCacheUrl"
		}
	}
	return ""
}

// pathMatches is the match of noCacheUrl: a part of the path, with ^ at its beginning and
// $ at its end as borders.
func pathMatches(pattern, path string) bool {
	p, begin := strings.CutPrefix(pattern, "^")
	p, end := strings.CutSuffix(p, "$")
	switch {
	case begin && end:
		return path == p
	case begin:
		return strings.HasPrefix(path, p)
	case end:
		return strings.HasSuffix(path, p)
	}
	return strings.Contains(path, p)
}

// shared reports whether a path has public entries for users too.
func (s *Site) shared(path string) bool {
	return slices.ContainsFunc(s.Shared, func(p string) bool {
		return strings.HasPrefix(path, p) && (len(path) == len(p) || strings.HasSuffix(p, "/") || path[len(p)] == '/')
	})
}

// KeyMod are the parameters of a query that no key holds.
type KeyMod struct{ drops []drop }

type drop struct {
	name   string
	prefix bool // all names that begin so
}

// Add adds what one line of CacheKeyModify or cacheKeyMod says: words -qs:NAME,
// -qs:NAME* and clear, which takes off what was there before. It returns a word that it
// does not know, "" if it knows all.
func (k *KeyMod) Add(line string) (unknown string) {
	drops := slices.Clone(k.drops)
	for word := range strings.FieldsSeq(line) {
		lower := strings.ToLower(word)
		switch {
		case lower == "clear":
			drops = nil
		case strings.HasPrefix(lower, "-qs:") && len(word) > 4:
			name, prefix := strings.CutSuffix(word[4:], "*")
			drops = append(drops, drop{strings.Clone(name), prefix})
		case unknown == "":
			unknown = word
		}
	}
	k.drops = drops
	return unknown
}

// append adds a query as keys hold it, with its question mark if anything is left.
func (k *KeyMod) append(b []byte, query string) []byte {
	if query == "" {
		return b
	}
	if len(k.drops) == 0 {
		return append(append(b, '?'), query...)
	}
	sep := byte('?')
	for len(query) > 0 {
		var part string
		part, query, _ = strings.Cut(query, "&")
		if k.dropped(part) {
			continue
		}
		b = append(append(b, sep), part...)
		sep = '&'
	}
	return b
}

func (k *KeyMod) dropped(part string) bool {
	name, _, _ := strings.Cut(part, "=")
	for i := range k.drops {
		d := &k.drops[i]
		if name == d.name || d.prefix && strings.HasPrefix(name, d.name) {
			return true
		}
	}
	return false
}
