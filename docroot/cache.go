package docroot

import (
	"hash/maphash"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"httpjet/exchange"
)

// How long an answer of Resolve is believed (R-STATIC-11). Time counts from
// before the look-up that made it. One goroutine looks again from renewAfter on,
// while others still use what is known; from life on nobody does.
const (
	life       = time.Second
	renewAfter = life / 2
)

const (
	shardCount   = 16
	shardEntries = 512 // 8,192 paths
	shardOpen    = 32  // 512 descriptors

	// memoryFile is the largest file kept in memory, whatever is configured. Larger
	// ones are kept open: sendfile(2) sends them without copying them into the
	// kernel once more.
	memoryFile = 64 << 10
	// memoryTotal bounds all files in memory, whatever is configured.
	memoryTotal = 1 << 30

	// settleTime is the age at which the times of a file tell its version from
	// every later one: file systems count in ticks of up to two seconds.
	settleTime = 3 * time.Second
)

// CacheOptions bound a Cache. The zero value keeps no file in memory.
type CacheOptions struct {
	MaxFile  int64 // largest file kept in memory, bytes; at most 64 KiB are used
	MaxBytes int64 // all files in memory, bytes; at most 1 GiB are used
}

// Cache remembers what paths of its Roots resolved to: for one second at most,
// in a bounded number of entries, and only what is asked for more than once.
// Small files are held in memory, others by an open descriptor that exchanges
// share. Of a script only its name is: whether it is there and may be run. One with
// path info is looked for each time, since every path of its would be another entry.
// Errors and redirects are not remembered.
//
// An entry is not revalidated part by part: Resolve is run again in full, with
// every rule of the Root, and the entry is replaced. So no rule can be forgotten
// here. What is saved over is the reading of content that is known to be the
// same.
//
// A Cache serves the roots of one generation: a change of the policy has other
// Roots and another Cache. It starts no goroutine; its owner calls Expire about
// once a second and Close at the end.
type Cache struct {
	maxFile, maxBytes int64 // of a file; of a shard
	start             time.Time
	seed              maphash.Seed
	shards            [shardCount]shard
}

// shard is a part of the paths. mu guards the fields below it; no file is opened,
// read or closed while it is held.
type shard struct {
	_  [64]byte // the locks of two shards share no cache line
	mu sync.RWMutex

	entries map[key]*entry
	bytes   int64 // of content
	open    int   // entries with a descriptor
	closed  bool
}

type key struct {
	root *Root
	path string
}

// entry is the answer for one path. All but renewing is immutable. An entry that
// is not ready only says that the path was asked for.
type entry struct {
	key
	born  time.Duration // since Cache.start: when its look-up began
	ready bool

	name, filename, suffix string
	info                   os.FileInfo
	version                version
	settled                bool    // version cannot be that of other content
	siblings               uint8   // as in Resource
	script                 bool    // only what the path names is known, not what is in the file
	content                []byte  // of a file in memory; never nil then
	shared                 *shared // of a file that is open
	memo                   *exchange.Memo
	copies                 *copies // of content; nil: it is not in memory

	renewing atomic.Bool // somebody looks again
}

// version tells contents of files apart. The change time is in it for those that
// set the modification time back, and for changes of permissions.
type version struct {
	dev, ino     uint64
	size         int64
	mtime, ctime syscall.Timespec
}

func versionOf(st *syscall.Stat_t) version {
	return version{st.Dev, st.Ino, st.Size, st.Mtim, st.Ctim}
}

// shared is a descriptor with several users, the cache being one. The last one
// closes it. It has no file position: users read at offsets.
type shared struct {
	file    *os.File
	fd      int // of file
	refs    atomic.Int32
	release func() // method value, made once
}

func newShared(f *os.File) *shared {
	s := &shared{file: f, fd: int(f.Fd())}
	s.release = s.drop
	return s
}

func (s *shared) drop() {
	switch n := s.refs.Add(-1); {
	case n == 0:
		s.file.Close()
	case n < 0:
		panic("BUG: docroot: shared descriptor released twice")
	}
}

// NewCache returns an empty cache.
func NewCache(o CacheOptions) *Cache {
	c := &Cache{
		maxFile: min(o.MaxFile, memoryFile), maxBytes: min(o.MaxBytes, memoryTotal) / shardCount,
		start: time.Now(), seed: maphash.MakeSeed(),
	}
	for i := range c.shards {
		c.shards[i].entries = map[key]*entry{}
	}
	return c
}

func (c *Cache) shard(path string) *shard {
	return &c.shards[maphash.String(c.seed, path)%shardCount]
}

// find returns the entry for k, nil if there is none, and whether it may be used.
// If it has a descriptor the caller then owns a share of it.
func (c *Cache) find(k key, now time.Duration) (e *entry, ok bool) {
	s := c.shard(k.path)
	s.mu.RLock()
	e = s.entries[k]
	ok = e != nil && e.usable(now)
	if ok && e.shared != nil {
		e.shared.refs.Add(1)
	}
	s.mu.RUnlock()
	return e, ok
}

// usable reports whether e answers a request at now. The one caller that is told
// to look again must replace or drop e.
func (e *entry) usable(now time.Duration) bool {
	age := now - e.born
	return e.ready && age < life && (age < renewAfter || !e.renewing.CompareAndSwap(false, true))
}

// verdict is what Resolve says of what e holds.
func (e *entry) verdict() Verdict {
	if e.script {
		return Script
	}
	return Static
}

// resource returns what e holds. It does not if the suffix has become a script's
// (R-STATIC-10) or is one no more, or if the file behind the descriptor is not what it was: a change
// in place is seen at once. Then it gives the share up.
func (e *entry) resource(isScript func(string) bool) (res exchange.Resource, ok bool) {
	ok = e.script == (isScript != nil && isScript(e.suffix))
	if e.shared != nil {
		var st syscall.Stat_t
		if ok = ok && syscall.Fstat(e.shared.fd, &st) == nil && versionOf(&st) == e.version; !ok {
			e.shared.drop()
			return res, false
		}
		res.File, res.Release = e.shared.file, e.shared.release
	}
	res.Info, res.Root, res.Filename, res.Name = e.info, e.root.docRoot, e.filename, e.name
	res.Content, res.Memo, res.Siblings = e.content, e.memo, e.siblings
	if e.copies != nil {
		res.Copies = e.copies
	}
	return res, ok
}

// keep remembers the static file that a look-up begun at born has found, and
// returns it in the form in which it is to be served. old is the entry so far:
// a path that is new is only noted, so that what is asked for once, as by a
// crawler, takes no memory.
func (c *Cache) keep(k key, born time.Duration, old *entry, res exchange.Resource) exchange.Resource {
	st, ok := res.Info.Sys().(*syscall.Stat_t)
	if !ok {
		panic("BUG: docroot: file information without a stat")
	}
	e := &entry{key: k, born: born, info: res.Info, version: versionOf(st)}
	if old == nil {
		e.path = strings.Clone(k.path) // a part of the request head until now
		c.put(e)
		return res
	}
	e.path, e.ready = old.path, true
	e.filename, e.name, e.suffix = res.Filename, strings.Clone(res.Name), Suffix(res.Filename)
	e.siblings = res.Siblings
	e.settled = time.Since(time.Unix(st.Ctim.Unix())) > settleTime
	same := old.ready && old.settled && old.version == e.version && old.name == e.name && old.filename == e.filename
	if same {
		e.memo = old.memo
	} else {
		e.memo = &exchange.Memo{}
	}
	switch {
	case same && old.content != nil:
		e.content, e.copies = old.content, old.copies
	case st.Size > c.maxFile || !c.hasRoom(e.path, st.Size):
		return c.keepOpen(e, res)
	default:
		if e.content, ok = read(res.File, e.version); !ok {
			c.drop(old)
			return res
		}
		e.copies = &copies{cache: c, key: e.key}
	}
	if c.put(e) {
		res.File.Close()
		res.File, res.Content, res.Memo, res.Copies = nil, e.content, e.memo, e.copies
	}
	return res
}

// keepScript remembers where the script is that a look-up begun at born has found, and
// closes the file: nobody reads it here.
func (c *Cache) keepScript(k key, born time.Duration, old *entry, res exchange.Resource) exchange.Resource {
	e := &entry{key: k, born: born, script: true, info: res.Info}
	if old == nil {
		e.path = strings.Clone(k.path) // a part of the request head until now
	} else {
		e.path, e.ready = old.path, true
		e.filename, e.name, e.suffix = res.Filename, strings.Clone(res.Name), Suffix(res.Filename)
	}
	c.put(e)
	res.Close()
	return res
}

// keepOpen shares the descriptor of res.
func (c *Cache) keepOpen(e *entry, res exchange.Resource) exchange.Resource {
	e.shared = newShared(res.File)
	e.shared.refs.Store(2) // the cache's and the caller's
	if c.put(e) {
		res.Release, res.Memo = e.shared.release, e.memo
	}
	return res
}

// read returns the content of f, false if it is not of that version any more at
// the end: somebody writes to it.
func read(f *os.File, v version) ([]byte, bool) {
	b := make([]byte, v.size)
	if n, err := f.ReadAt(b, 0); n < len(b) || err != nil {
		return nil, false
	}
	info, err := f.Stat()
	if err != nil {
		return nil, false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return b, ok && versionOf(st) == v
}

// hasRoom reports whether size bytes are worth reading. The answer is put's.
func (c *Cache) hasRoom(path string, size int64) bool {
	s := c.shard(path)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return !s.closed && s.bytes+size <= c.maxBytes
}

// put stores e in place of what there is for its path. It returns false if there
// is no room or something newer, and then nothing older is left either. Nothing is
// pushed out: what nobody asks for goes within two seconds by itself, and what is
// asked for stays, however many other paths come by.
func (c *Cache) put(e *entry) bool {
	s := c.shard(e.path)
	s.mu.Lock()
	old := s.entries[e.key]
	if old != nil && old.born > e.born {
		s.mu.Unlock()
		return false
	}
	if old != nil {
		s.remove(old)
	}
	ok := !s.closed && len(s.entries) < shardEntries && s.bytes+e.size() <= c.maxBytes &&
		(e.shared == nil || s.open < shardOpen)
	if ok {
		s.entries[e.key] = e
		s.bytes += e.size()
		if e.shared != nil {
			s.open++
		}
	}
	s.mu.Unlock()
	old.close()
	return ok
}

// drop removes e, if it is still there.
func (c *Cache) drop(e *entry) {
	s := c.shard(e.path)
	s.mu.Lock()
	here := s.entries[e.key] == e
	if here {
		s.remove(e)
	}
	s.mu.Unlock()
	if here {
		e.close()
	}
}

// remove takes e out; the caller holds the lock and closes e after it.
func (s *shard) remove(e *entry) {
	delete(s.entries, e.key)
	s.bytes -= e.size()
	if e.shared != nil {
		s.open--
	}
}

// close gives the cache's share of the descriptor up. Only the one who has
// removed e calls it.
func (e *entry) close() {
	if e != nil && e.shared != nil {
		e.shared.drop()
	}
}

// Expire drops the entries that are too old to be used at now.
func (c *Cache) Expire(now time.Time) {
	c.sweep(func(e *entry) bool { return now.Sub(c.start)-e.born >= life }, false)
}

// Close drops all entries; nothing is remembered from then on. Files that are
// being sent are closed when they are given back.
func (c *Cache) Close() {
	c.sweep(func(*entry) bool { return true }, true)
}

func (c *Cache) sweep(gone func(*entry) bool, last bool) {
	for i := range c.shards {
		s := &c.shards[i]
		var closing []*entry
		s.mu.Lock()
		s.closed = s.closed || last
		for _, e := range s.entries {
			if !gone(e) {
				continue
			}
			s.remove(e)
			if e.shared != nil {
				closing = append(closing, e)
			}
		}
		s.mu.Unlock()
		for _, e := range closing {
			e.close()
		}
	}
}
