package pagecache

import (
	"context"
	"hash/maphash"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"httpjet/exchange"
	"httpjet/store"
)

// Options are those of the one page cache of a process (spec §26).
type Options struct {
	MaxBytes int64 // memory of entries, bytes; 0: 128 MiB
	MaxDisk  int64 // all files, bytes; 0: 2 GiB

	// Admit is at which sighting of a key its answer is stored; every 256 KiB of its body
	// ask for one more. 0: at the first one while half of the memory is free, else at the
	// second. Private entries are always stored.
	Admit int

	LookedUp store.LookedUp // is told what look-ups took; nil: nobody

	Log *slog.Logger     // nil: dropped
	Now func() time.Time // nil: time.Now; of what runs in the background alone
}

// Cache holds the entries of all sites. It outlives generations. Any number of
// goroutines may use it. It starts none but refreshes, which Close joins.
type Cache struct {
	opt    Options
	log    *slog.Logger
	store  *store.Store
	sketch *store.Sketch

	misses    store.Flights // answers that are made for somebody who waits
	refreshes store.Flights // of stale entries
	private   atomic.Int64  // private entries, so that look-ups can be spared where there are none
	filling   atomic.Int64  // bytes of bodies that are being stored
	passes    [4096]atomic.Uint64
	reasons   [1024]atomic.Pointer[Reason]
	seed      maphash.Seed
	counts    [numCounts]atomic.Uint64

	ctx     context.Context // of refreshes
	cancel  context.CancelFunc
	running sync.WaitGroup
	mu      sync.Mutex
	closed  bool
	busy    int              // refreshes under way
	disks   map[string]*Disk // by directory
	sites   map[string]bool  // that have the cache; nil: all
	swept   time.Time        // of the goroutine that sweeps, like mark
	mark    store.Ticket     // the point before the last sweep
	purging sync.Mutex       // purges get their tickets in the order in which disks note them
}

// New returns an empty cache.
func New(o Options) *Cache {
	if o.MaxBytes <= 0 {
		o.MaxBytes = 128 << 20
	}
	if o.MaxDisk <= 0 {
		o.MaxDisk = 2 << 30
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	c := &Cache{opt: o, log: o.Log, sketch: store.NewSketch(int(min(o.MaxBytes/4096, 1<<20))), seed: maphash.MakeSeed(), disks: map[string]*Disk{}}
	c.store = store.New(store.Options{MaxBytes: o.MaxBytes, MaxDisk: o.MaxDisk, Leave: c.left})
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// info is what the cache keeps with an entry.
type info struct {
	site    string
	owner   string // of a private one
	host    string
	scheme  string
	target  string        // as it was asked for, without what no key holds
	etag    string        // of the entry, made if the application gave none
	stale   time.Duration // how long it is served stale while it is made anew
	onError time.Duration // how long in the place of an error
	disk    *Disk         // nil: in memory alone
	file    string        // its name there
	length  int64         // of the body in the file
	sum     uint32        // of the body in the file

	proven atomic.Pointer[stamp] // of the file when its body was last known to be that of sum; nil: it is not known
	age    atomic.Pointer[ageText]
}

// ageText is the Age of an entry, which is made once a second.
type ageText struct {
	seconds int64
	text    string
}

func infoOf(e *store.Entry) *info { return e.Info.(*info) }

// left is told of entries that the store gives out no more.
func (c *Cache) left(e *store.Entry) {
	i := infoOf(e)
	if i.owner != "" {
		c.private.Add(-1)
	}
	if i.disk != nil {
		i.disk.remove(i.file)
	}
}

// passed notes whether the last answer for a key could not be stored: nobody waits for
// such a one then. Keys share places; the latest counts.
func (c *Cache) passed(key []byte, pass bool) {
	h := maphash.Bytes(c.seed, key) | 1
	if place := &c.passes[h>>1%uint64(len(c.passes))]; pass {
		place.Store(h)
	} else {
		place.CompareAndSwap(h, 0)
	}
}

func (c *Cache) isPassed(key []byte) bool {
	h := maphash.Bytes(c.seed, key) | 1
	return c.passes[h>>1%uint64(len(c.passes))].Load() == h
}

// admits reports whether an answer with a body of n bytes is stored that was seen so
// often (R-CACHE-11).
func (c *Cache) admits(seen int, n int64) bool {
	need := c.opt.Admit
	if need <= 0 {
		if c.store.Bytes() < c.opt.MaxBytes/2 {
			return true
		}
		need = 2
	}
	return seen >= min(need+int(n/(256<<10)), 255)
}

// Purge does all of list. What is being made is not stored behind it; where files keep
// entries over a restart, they know of it before Purge returns.
func (c *Cache) Purge(list []Purge) {
	if len(list) == 0 {
		return
	}
	disks := c.allDisks()
	texts := make([][]byte, len(disks))
	c.purging.Lock()
	for i, d := range disks { // first, so that no file that is being read goes by it
		texts[i] = d.journal.note(list, c.store.Ticket()+1)
	}
	for _, p := range list {
		if p.Prefix {
			c.store.PurgePrefix(p.Tag, p.Soft)
		} else {
			c.store.Purge(p.Tag, p.Soft)
		}
	}
	c.purging.Unlock()
	c.counts[Purges].Add(uint64(len(list)))
	for i, d := range disks {
		if err := d.journal.write(texts[i]); err != nil {
			d.writeFailed(err)
		}
	}
}

// Serve says which sites have the cache from now on. What it has of another one is purged,
// and of one that comes back: nobody has told meanwhile what was to be purged. Files of
// other sites are not believed.
func (c *Cache) Serve(sites []string) {
	now := map[string]bool{}
	for _, s := range sites {
		now[s] = true
	}
	c.mu.Lock()
	was := c.sites
	c.sites = now
	c.mu.Unlock()
	if was == nil {
		return // at the start; files are read later
	}
	var list []Purge
	for s := range was {
		if !now[s] {
			list = append(list, Purge{Tag: siteTag(s)})
		}
	}
	for s := range now {
		if !was[s] {
			list = append(list, Purge{Tag: siteTag(s)})
		}
	}
	c.Purge(list)
}

func (c *Cache) serves(site string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sites == nil || c.sites[site]
}

func (c *Cache) allDisks() []*Disk {
	c.mu.Lock()
	defer c.mu.Unlock()
	disks := make([]*Disk, 0, len(c.disks))
	for _, d := range c.disks {
		disks = append(disks, d)
	}
	return disks
}

// Sweep takes out entries that are of no use any more, reads disks that were not read
// yet, and does so once for each half minute (R-CACHE-14). It is called by the one
// goroutine that the owner runs for it.
func (c *Cache) Sweep(ctx context.Context) {
	disks := c.allDisks()
	for _, d := range disks {
		d.retake()
		d.load(ctx, c)
	}
	now := c.opt.Now()
	if c.swept.IsZero() {
		c.swept = now
	}
	if since := now.Sub(c.swept); since >= 0 && since < sweepEvery {
		return
	}
	c.swept = now
	before := c.store.Ticket()
	c.counts[Swept].Add(uint64(c.store.Sweep(now)))
	for _, d := range disks {
		d.journal.forget(c.mark) // nothing that those purges were about has a file any more
	}
	c.mark = before // a sweep later, so that what was just being stored then is in the store
}

const sweepEvery = 30 * time.Second

// SweepLoop sweeps once a second until ctx is done. of returns the cache of the moment,
// nil for none.
func SweepLoop(ctx context.Context, of func() *Cache) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if c := of(); c != nil {
			c.Sweep(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Close ends the refreshes and waits for them. No exchange uses the cache any more.
func (c *Cache) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.running.Wait()
	for _, d := range c.disks {
		d.close()
	}
}

// begin takes the permit of a refresh.
func (c *Cache) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.busy == maxRefreshes {
		return false
	}
	c.busy++
	c.running.Add(1)
	return true
}

// refresh makes a stale entry anew, by an exchange of the server's own.
func (c *Cache) refresh(b *exchange.Exchange, h exchange.Handler, flight *store.Flight) {
	defer c.running.Done()
	defer flight.Land()
	defer func() {
		c.mu.Lock()
		c.busy--
		c.mu.Unlock()
	}()
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("panic while an entry was refreshed", "vhost", b.Route.VHost, "panic", p)
		}
	}()
	if err := exchange.Run(b, h); err != nil && c.ctx.Err() == nil {
		c.log.Debug("refresh failed", "vhost", b.Route.VHost, "err", err)
	}
}

// startRefresh begins to make e anew unless somebody does already, or too many are made.
func (c *Cache) startRefresh(x *exchange.Exchange, e *store.Entry, h exchange.Handler) {
	if x.Explaining() {
		return
	}
	flight, leads := c.refreshes.Join(e.Key + "\x00" + e.Variant)
	if !leads {
		return
	}
	if !c.begin() {
		flight.Land()
		return
	}
	b := exchange.NewBackground(c.ctx, x)
	if infoOf(e).owner == "" {
		anonymous(&b.Req.Fields, e.Vary)
	}
	go c.refresh(b, h, flight)
}

// anonymous takes off a request what could make the answer one user's: what is stored for
// all is asked for by nobody. Cookies that tell variants apart stay.
func anonymous(f *exchange.Fields, vary []string) {
	f.Del("Authorization")
	kept := ""
	for name, value := range cookies(f) {
		keep := name == varyCookie
		for _, v := range vary {
			keep = keep || v == byCookie+name || strings.EqualFold(v, byField+"cookie")
		}
		if keep {
			if kept != "" {
				kept += "; "
			}
			kept += name + "=" + value
		}
	}
	if f.Del("Cookie"); kept != "" {
		f.Add("Cookie", kept)
	}
}

// Count names what a cache counts.
type Count int

const (
	Hits Count = iota
	HitsStale
	HitsOnError
	Misses
	Bypasses
	Stores
	StoresPrivate
	Rejected // by admission
	Refused  // stores that a purge had overtaken
	ByRule   // answers that rules kept out
	NotAsked // for which nobody asked
	NoStore  // the answer forbade it
	Private  // the answer was private and nobody had private entries
	Other    // answers that are not stored for another reason
	Purges
	Expired // misses for which there was an old entry
	Swept
	ReadErrors // of files
	WriteErrors
	FullErrors
	numCounts
)

func (c *Cache) count(n Count) { c.counts[n].Add(1) }

// Totals are numbers of a cache.
type Totals struct {
	Stored     store.Counts
	Private    int64 // private entries
	Refreshing int   // refreshes under way
	MaxDisk    int64

	counts [numCounts]uint64
}

// Get returns a count since the start.
func (t Totals) Get(n Count) uint64 { return t.counts[n] }

// Totals returns what is stored, and what was done since the start.
func (c *Cache) Totals() Totals {
	t := Totals{Stored: c.store.Counts(), Private: c.private.Load(), MaxDisk: c.opt.MaxDisk}
	for i := range t.counts {
		t.counts[i] = c.counts[i].Load()
	}
	c.mu.Lock()
	t.Refreshing = c.busy
	c.mu.Unlock()
	return t
}
