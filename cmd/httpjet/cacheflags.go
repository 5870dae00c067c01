package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"httpjet/generation"
)

// cacheFlags are the flags of the page cache (spec §26).
type cacheFlags struct {
	o                  *generation.PageCache
	mem, hot, disk     string
	stale, staleOnFail int

	peers []string // refused: see read
}

func addCacheFlags(cmd *cobra.Command, o *generation.PageCache) *cacheFlags {
	fs := cmd.Flags()
	f := &cacheFlags{o: o}
	fs.BoolVar(&o.On, "page-cache", false, "page cache for every virtual host that does not say cacheEngine 0")
	fs.StringVar(&f.mem, "page-cache-mem", "128M", "memory of the page cache")
	fs.StringVar(&f.hot, "page-cache-hot-mem", "192M", "memory of the page cache with --page-cache-store-path")
	fs.StringVar(&f.disk, "page-cache-disk-mem", "2G", "files of the page cache")
	fs.StringVar(&o.StoreDir, "page-cache-store-path", "", "directory for files of the page cache, which survive a restart; cacheStorePath of the tree goes before it")
	fs.IntVar(&o.Admit, "page-cache-admit-threshold", 0, "request for a page that stores it, one more for every 256K; 0: the first, from half full memory on the second")
	fs.StringSliceVar(&o.VaryCookies, "page-cache-vary-cookies", nil, "cookies that applications may name in X-LiteSpeed-Vary; none given: any")
	fs.StringSliceVar(&o.PrivateCookies, "page-cache-private-cookies", nil, "cookies of which an answer that sets one is never stored")
	fs.BoolVar(&o.Private, "page-cache-private", false, "private entries, by the two cookies that follow")
	fs.StringVar(&o.SessionCookie, "page-cache-private-session-cookie", "", "cookie that tells whose a private entry is")
	fs.StringVar(&o.UserCookie, "page-cache-private-user-cookie", "", "cookie of requests that have private entries alone")
	fs.StringSliceVar(&o.Shared, "page-cache-shared-paths", nil, "paths below which these requests have public entries all the same")
	fs.StringSliceVar(&o.StandardHosts, "page-cache-standard-vhosts", nil, "virtual hosts in which Cache-Control: public with s-maxage asks for the cache")
	fs.IntVar(&f.stale, "page-cache-stale-default-secs", 0, "how long entries are served stale while they are made anew, at most 86400; 0: as the tree says")
	fs.IntVar(&f.staleOnFail, "page-cache-stale-if-error-default-secs", 0, "how long entries are served in the place of a server error, at most 86400")
	fs.StringSliceVar(&f.peers, "cache-peer", nil, "")
	fs.MarkHidden("cache-peer")
	return f
}

// read checks what was given.
func (f *cacheFlags) read() (err error) {
	if len(f.peers) > 0 { // R-CACHE-15: purges that do not arrive would be stale pages that nobody expects
		return fmt.Errorf("--cache-peer is not honoured by this version: have the application purge every server, or httpjet cache purge on each")
	}
	for _, n := range []struct {
		name, text string
		to         *int64
	}{{"mem", f.mem, &f.o.Mem}, {"hot-mem", f.hot, &f.o.HotMem}, {"disk-mem", f.disk, &f.o.DiskMem}} {
		if *n.to, err = parseSize(n.text); err != nil {
			return fmt.Errorf("--page-cache-%s: %w", n.name, err)
		}
	}
	for _, p := range f.o.Shared {
		if !strings.HasPrefix(p, "/") {
			return fmt.Errorf("--page-cache-shared-paths: %q does not start with a slash", p)
		}
	}
	if f.o.Private && (f.o.SessionCookie == "" || f.o.UserCookie == "") {
		return fmt.Errorf("--page-cache-private needs --page-cache-private-session-cookie and --page-cache-private-user-cookie")
	}
	if f.stale < 0 || f.stale > 86400 || f.staleOnFail < 0 || f.staleOnFail > 86400 || f.o.Admit < 0 || f.o.Admit > 255 {
		return fmt.Errorf("--page-cache-stale-default-secs and --page-cache-stale-if-error-default-secs are from 0 to 86400, --page-cache-admit-threshold to 255")
	}
	f.o.Stale, f.o.StaleIfError = time.Duration(f.stale)*time.Second, time.Duration(f.staleOnFail)*time.Second
	return nil
}

// parseSize reads a number of bytes, with K, M or G behind it.
func parseSize(text string) (int64, error) {
	unit := int64(1)
	number := text
	if n := len(text); n > 0 {
		switch text[n-1] | 0x20 {
		case 'k':
			unit, number = 1<<10, text[:n-1]
		case 'm':
			unit, number = 1<<20, text[:n-1]
		case 'g':
			unit, number = 1<<30, text[:n-1]
		}
	}
	var v int64
	if _, err := fmt.Sscanf(number+"\n", "%d\n", &v); err != nil || v <= 0 || v > 1<<60/unit {
		return 0, fmt.Errorf("%q is no size", text)
	}
	return v * unit, nil
}
