package rewrite

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// CacheKind is a directive about the page cache (LSX 10.5).
type CacheKind uint8

const (
	CacheLookup         CacheKind = iota // On
	CacheEnable                          // Private, Path: answers are stored without being asked for
	CacheDisable                         // Private, Path
	CacheMaxExpire                       // Time
	CacheMaxStaleAge                     // Time
	CacheKeyModify                       // Text
	CacheIgnoreControl                   // On: Cache-Control of answers does not count
	CachePublicStorage                   // On: answers are stored without being asked for
	CachePrivateStorage                  // likewise, privately
)

// CacheDirective is one of them.
type CacheDirective struct {
	Kind    CacheKind
	On      bool
	Private bool          // about private entries
	Path    string        // below which it holds; "": everywhere
	Time    time.Duration // not negative
	Text    string
}

// Cache calls f with what is said about the page cache, the outer files first.
func (s *Settings) Cache(f func(*CacheDirective)) {
	for _, said := range s.list {
		for i := range said.cache {
			f(&said.cache[i])
		}
	}
}

var cacheKinds = map[string]CacheKind{"cachelookup": CacheLookup, "cacheenable": CacheEnable, "cachedisable": CacheDisable,
	"cachemaxexpire": CacheMaxExpire, "cachemaxstaleage": CacheMaxStaleAge, "cachekeymodify": CacheKeyModify,
	"cacheignorecachecontrol": CacheIgnoreControl, "cacheenablepublic": CachePublicStorage, "cacheenableprivate": CachePrivateStorage}

// cacheDirective reads a directive about the page cache.
func (s *said) cacheDirective(lower string, args []string) error {
	if lower == "cacheengine" || lower == "cacheroot" {
		return fmt.Errorf("the server's configuration says whether there is a page cache, and where")
	}
	d := CacheDirective{Kind: cacheKinds[lower]}
	switch d.Kind {
	case CacheLookup, CacheIgnoreControl, CachePublicStorage, CachePrivateStorage:
		if !isOff(args[0]) && !isOn(args[0]) {
			return fmt.Errorf("%q is neither on nor off", args[0])
		}
		d.On = isOn(args[0])
	case CacheEnable, CacheDisable:
		for _, a := range args {
			switch {
			case strings.EqualFold(a, "public"):
			case strings.EqualFold(a, "private"):
				d.Private = true
			case strings.HasPrefix(a, "/"):
				d.Path = strings.Clone(a)
			default:
				return fmt.Errorf("%q is neither public, private nor a path", a)
			}
		}
	case CacheMaxExpire, CacheMaxStaleAge:
		n, err := strconv.ParseInt(args[0], 10, 32)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is no number of seconds", args[0])
		}
		d.Time = time.Duration(n) * time.Second
	case CacheKeyModify:
		d.Text = strings.Clone(strings.Join(args, " "))
	}
	s.cache = append(s.cache, d)
	return nil
}

func isOn(s string) bool {
	s = strings.ToLower(s)
	return s == "on" || s == "1" || s == "true" || s == "yes"
}
