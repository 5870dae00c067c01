package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"weak"

	"httpjet/exchange"
)

var t0 = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func object(key, variant string, tags ...string) Object {
	return Object{Key: key, Variant: variant, Tags: tags, Status: 200, Body: Bytes([]byte(key + variant)),
		Fresh: t0.Add(time.Minute), Until: t0.Add(time.Hour)}
}

// names are the variants of a key that may be used.
func names(s *Store, key string) string {
	var list []string
	for _, e := range s.Find([]byte(key)) {
		switch e.State() {
		case Live:
			list = append(list, e.Variant)
		case Stale:
			list = append(list, e.Variant+"~")
		}
	}
	return strings.Join(list, " ")
}

func TestVariantsOfAKey(t *testing.T) {
	var left []string
	s := New(Options{MaxVariants: 3, Leave: func(e *Entry) { left = append(left, e.Variant) }})
	for _, v := range []string{"a", "b", "c"} {
		s.Put(object("/", v), s.Ticket())
	}
	s.Put(object("/other", "x"), s.Ticket())
	if got := names(s, "/"); got != "c b a" {
		t.Fatalf("variants %q, want c b a", got)
	}
	again := s.Put(object("/", "b"), s.Ticket())
	if got := names(s, "/"); got != "b c a" || !slices.Equal(left, []string{"b"}) {
		t.Fatalf("variants %q, left %q: want an equal variant replaced", got, left)
	}
	s.Use(s.Find([]byte("/"))[2]) // a
	s.Put(object("/", "d"), s.Ticket())
	if got := names(s, "/"); got != "d b a" {
		t.Fatalf("variants %q, want d b a: one that is not used goes", got)
	}
	if !s.Remove(again) || s.Remove(again) {
		t.Fatal("an entry is removed once")
	}
	if n := s.Delete("/"); n != 2 || names(s, "/") != "" || names(s, "/other") != "x" {
		t.Fatalf("deleted %d", n)
	}
	if c := s.Counts(); c.Entries != 1 {
		t.Fatalf("counts %+v", c)
	}
	s.Clear()
	if c := s.Counts(); c.Entries != 0 || c.Bytes != 0 {
		t.Fatalf("counts of an empty store: %+v", c)
	}
}

func TestTenThousandVariantsOfOneKeyStayBounded(t *testing.T) {
	s := New(Options{})
	for i := range 10000 {
		s.Put(object("/", fmt.Sprint(i)), s.Ticket())
	}
	if n := len(s.Find([]byte("/"))); n != defaultVariants {
		t.Fatalf("%d variants are kept, want %d", n, defaultVariants)
	}
	if names(s, "/")[:4] != "9999" {
		t.Fatal("the last one is not there")
	}
}

func TestPurgesOfTags(t *testing.T) {
	s := New(Options{})
	s.Put(object("/a", "", "shop", "a"), s.Ticket())
	s.Put(object("/b", "", "shop"), s.Ticket())
	s.Put(object("/c", "", "site", "a"), s.Ticket())
	before := s.Ticket()

	s.Purge("shop", true)
	if names(s, "/a")+names(s, "/b")+names(s, "/c") != "~~" {
		t.Fatal("a soft purge makes its entries stale, no other")
	}
	s.Purge("a", false)
	if s.Find([]byte("/a"))[0].State() != Gone || s.Find([]byte("/b"))[0].State() != Stale {
		t.Fatal("purge a")
	}
	// R-CACHE-12: what was being made before the purge is not stored behind it.
	if s.Put(object("/a", "", "a"), before) != nil {
		t.Fatal("a response from before the purge was stored")
	}
	if s.Put(object("/a", "", "a"), s.Ticket()) == nil {
		t.Fatal("a response from behind the purge was refused")
	}
	// Also if nobody had the tag then.
	before = s.Ticket()
	s.Purge("new", false)
	if s.Put(object("/n", "", "new"), before) != nil {
		t.Fatal("a purge of a tag that nobody has yet is forgotten")
	}
	s.Sweep(t0)
	if s.Put(object("/n", "", "new"), before) != nil {
		t.Fatal("a purge is forgotten with its tag")
	}
	if n := s.Counts().Tags; n != 3 { // shop, a, and what is left of neither
		t.Logf("%d tags", n)
	}
}

func TestPurgesOfPrefixes(t *testing.T) {
	s := New(Options{})
	s.Put(object("/a", "", "v1/x", "other"), s.Ticket())
	s.Put(object("/b", "", "v2/x"), s.Ticket())
	before := s.Ticket()
	s.PurgePrefix("v1/", false)
	if s.Find([]byte("/a"))[0].State() != Gone || s.Find([]byte("/b"))[0].State() != Live {
		t.Fatal("prefix")
	}
	if s.Put(object("/c", "", "v1/new"), before) != nil || s.Put(object("/c", "", "v2/new"), before) == nil {
		t.Fatal("a purge of a prefix is about tags that come later, of what was being made")
	}
	before = s.Ticket()
	s.PurgePrefix("v2/", true)
	if e := s.Put(object("/d", "", "v2/late"), before); e == nil || e.State() != Stale {
		t.Fatal("a soft purge of a prefix")
	}
	for i := range maxPrefixes + 1 {
		s.PurgePrefix(fmt.Sprint("p", i), false)
	}
	if s.Put(object("/e", "", "v3"), before) != nil {
		t.Fatal("more purges than are remembered count as about everything")
	}
}

func TestReplaceKeepsWhatPurgesSaid(t *testing.T) {
	left := 0
	s := New(Options{Leave: func(*Entry) { left++ }})
	e := s.Put(object("/a", "v", "t"), s.Ticket())
	o := e.Object
	o.Fresh = t0.Add(time.Hour)
	f := s.Replace(e, o, e.Ticket())
	if f == nil || names(s, "/a") != "v" || left != 0 || s.Counts().Entries != 1 {
		t.Fatal("replaced")
	}
	if s.Replace(e, o, e.Ticket()) != nil {
		t.Fatal("an entry that is not there was replaced")
	}
	old := s.Ticket()
	s.Purge("t", false)
	if s.Replace(f, o, old) != nil {
		t.Fatal("an entry that was purged came back")
	}
}

func TestBoundsHold(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
	}{
		{"bytes", Options{MaxBytes: 100 << 10}},
		{"entries", Options{MaxEntries: 50}},
		{"one entry", Options{MaxEntries: 1}},
		{"entries of many shards", Options{MaxEntries: 4000}},
		{"disk", Options{MaxDisk: 50 << 10}},
	} {
		t.Run(c.name, func(t *testing.T) {
			gone := 0
			c.o.Leave = func(*Entry) { gone++ }
			s := New(c.o)
			for i := range 6000 {
				o := object(fmt.Sprint("/", i), "", fmt.Sprint("t", i%10))
				o.Disk = 1000
				e := s.Put(o, s.Ticket())
				if e == nil {
					t.Fatal("refused")
				}
				n := s.Counts()
				if n.Bytes > s.opts.MaxBytes || c.o.MaxEntries > 0 && n.Entries > int64(c.o.MaxEntries) ||
					c.o.MaxDisk > 0 && n.Disk > c.o.MaxDisk {
					t.Fatalf("over the bounds: %+v", n)
				}
				if len(s.Find([]byte(o.Key))) != 1 {
					t.Fatal("what was put went at once")
				}
			}
			if int64(gone)+s.Counts().Entries != 6000 {
				t.Fatalf("%d left, %d are there", gone, s.Counts().Entries)
			}
		})
	}
	s := New(Options{MaxBytes: 4096})
	big := object("/big", "")
	big.Body = Bytes(make([]byte, 8192))
	if s.Put(big, 0) != nil {
		t.Fatal("an object larger than the store was put")
	}
}

func TestUsedEntriesStay(t *testing.T) {
	s := New(Options{MaxEntries: 100})
	for i := range 1000 {
		s.Put(object(fmt.Sprint("/", i), ""), 0)
		for _, hot := range []string{"/0", "/1", "/2"} {
			if list := s.Find([]byte(hot)); len(list) > 0 {
				s.Use(list[0])
			}
		}
	}
	for _, hot := range []string{"/0", "/1", "/2"} {
		if len(s.Find([]byte(hot))) == 0 {
			t.Errorf("%s is used all the time, and went", hot)
		}
	}
}

func TestBodiesThatLieElsewhereGoFirst(t *testing.T) {
	s := New(Options{MaxBytes: 64 << 10, Leave: func(*Entry) { t.Error("an entry left") }})
	for i := range 32 {
		o := object(fmt.Sprint("/", i), "", "tag")
		o.Body, o.Disk = Bytes(make([]byte, 4<<10)), 4<<10
		s.Put(o, s.Ticket())
	}
	if n := s.Counts(); n.Entries != 32 || n.Demoted == 0 || n.Bytes > 64<<10 {
		t.Fatalf("%+v", n)
	}
	s.Purge("tag", false)
	s.Each(func(e *Entry) bool {
		if e.State() != Gone {
			t.Errorf("%s was not purged", e.Key)
		}
		return true
	})
}

func TestSweep(t *testing.T) {
	s := New(Options{})
	for i := range 10 {
		o := object(fmt.Sprint("/", i), "", fmt.Sprint(i%2))
		o.Until = t0.Add(time.Duration(i) * time.Second)
		s.Put(o, s.Ticket())
	}
	if n := s.Sweep(t0.Add(4 * time.Second)); n != 5 {
		t.Fatalf("swept %d, want 5", n)
	}
	s.Purge("1", false)
	if n := s.Sweep(t0); n != 3 || s.Counts().Tags != 1 {
		t.Fatalf("swept %d, want the 3 purged; %d tags, want 1", n, s.Counts().Tags)
	}
}

func TestBodies(t *testing.T) {
	for _, size := range []int{0, 1, 511, 513, chunkSize - 1, chunkSize, chunkSize + 1, 3*chunkSize + 17} {
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(rand.Int())
		}
		b := Builder{Limit: int64(size)}
		for rest := want; len(rest) > 0; {
			n := min(len(rest), 1+rand.IntN(5000))
			if _, err := b.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if _, err := b.Write([]byte{1}); !errors.Is(err, ErrTooLarge) {
			t.Fatalf("a byte over the limit: %v", err)
		}
		body := b.Body()
		if body.Len() != int64(size) || body.Size() > int64(size)*9/8+1024 {
			t.Fatalf("length %d of %d, memory %d", body.Len(), size, body.Size())
		}
		for range 20 {
			off := rand.IntN(size + 1)
			n := rand.IntN(size - off + 1)
			var got bytes.Buffer
			if err := body.WriteRange(&got, int64(off), int64(n)); err != nil || !bytes.Equal(got.Bytes(), want[off:off+n]) {
				t.Fatalf("size %d: range %d+%d differs: %v", size, off, n, err)
			}
		}
	}
}

func TestFlights(t *testing.T) {
	var f Flights
	one, leads := f.Join("a")
	two, second := f.Join("a")
	_, other := f.Join("b")
	if !leads || second || !other || f.Len() != 2 {
		t.Fatal("one leads")
	}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if !two.Wait(t.Context(), time.Hour) {
				t.Error("gave up")
			}
		})
	}
	one.Land()
	one.Land()
	wg.Wait()
	if third, leads := f.Join("a"); !leads {
		t.Fatal("the next one leads again")
	} else if third.Wait(t.Context(), time.Nanosecond) {
		t.Fatal("waited for longer than it may")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if two, _ = f.Join("a"); two.Wait(ctx, time.Hour) {
		t.Fatal("waited without a client")
	}
}

func TestSketch(t *testing.T) {
	s := NewSketch(10000)
	for i := range 10000 {
		s.Saw(fmt.Append(nil, i))
	}
	wrong := 0
	for i := range 10000 {
		n := s.Saw(fmt.Append(nil, i))
		if n < 2 {
			t.Fatalf("key %d: seen %d times, told less than the truth", i, n)
		}
		if n > 2 {
			wrong++
		}
	}
	if wrong > 1000 {
		t.Errorf("%d of 10000 keys told too often", wrong)
	}
	for range 1000 {
		s.Saw([]byte("hot"))
	}
	if n := s.Saw([]byte("hot")); n < 100 {
		t.Errorf("hot: %d", n)
	}
}

// TestStoreUnderFire has everything happen at once, for the race detector; the counts
// must come out even.
func TestStoreUnderFire(t *testing.T) {
	var left sync.Map
	s := New(Options{MaxBytes: 256 << 10, MaxDisk: 200 << 10, MaxVariants: 4, Leave: func(e *Entry) {
		if _, twice := left.LoadOrStore(e, true); twice {
			t.Error("an entry left twice")
		}
	}})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for range 1000 {
				key, tag := fmt.Sprint("/", r.IntN(200)), fmt.Sprint("t", r.IntN(20))
				switch r.IntN(12) {
				case 0:
					s.Purge(tag, r.IntN(2) == 0)
				case 1:
					s.PurgePrefix("t1", r.IntN(2) == 0)
				case 2:
					s.Delete(key)
				case 3:
					s.Sweep(t0)
				case 4:
					s.Each(func(e *Entry) bool { return e.Key != key })
				case 5, 6:
					for _, e := range s.Find([]byte(key)) {
						s.Use(e)
						grow(s, e)
						e.Head()
						s.Replace(e, e.Object, e.Ticket())
					}
				default:
					o := object(key, fmt.Sprint(r.IntN(6)), tag, "all")
					o.Body, o.Disk = Bytes(make([]byte, r.IntN(4000))), 1000
					o.Fields = []exchange.Field{{Name: "Content-Type", Value: tag}}
					s.Put(o, s.Ticket())
				}
			}
		})
	}
	wg.Wait()
	s.Clear()
	s.Sweep(t0)
	if c := s.Counts(); c.Entries != 0 || c.Bytes != 0 || c.Disk != 0 || c.Tags != 0 {
		t.Fatalf("counts of an empty store: %+v", c)
	}
}

// Keys are told apart by their text, whatever their hashes are.
func TestKeysWithTheSameHash(t *testing.T) {
	for _, bits := range []uint64{0, 1, 3, ^uint64(0)} {
		s := New(Options{})
		s.bits = bits
		want := map[string]map[string]bool{}
		r := rand.New(rand.NewPCG(bits, 5))
		for range 20_000 {
			key, variant := fmt.Sprint("/", r.IntN(6)), fmt.Sprint(r.IntN(3))
			switch r.IntN(8) {
			case 0:
				if n := s.Delete(key); n != len(want[key]) {
					t.Fatalf("bits %x: %d of %s deleted, %v were there", bits, n, key, want[key])
				}
				delete(want, key)
			case 1, 2:
				for _, e := range s.Find([]byte(key)) {
					if e.Variant == variant {
						s.Remove(e)
					}
				}
				delete(want[key], variant)
			default:
				s.Put(object(key, variant), 0)
				if want[key] == nil {
					want[key] = map[string]bool{}
				}
				want[key][variant] = true
			}
			list := s.Find([]byte(key))
			for _, e := range list {
				if e.Key != key || !want[key][e.Variant] {
					t.Fatalf("bits %x: %s: found %s %s", bits, key, e.Key, e.Variant)
				}
			}
			if len(list) != len(want[key]) {
				t.Fatalf("bits %x: %s: %d found, %v are there", bits, key, len(list), want[key])
			}
		}
		s.Clear()
		if tab := s.shards[0].table.Load(); tab.live != 0 || len(tab.slots) != leastSlots {
			t.Errorf("bits %x: %d keys of %d slots stay", bits, tab.live, len(tab.slots))
		}
	}
}

// What was replaced is held by nobody, whatever variants stay.
func TestReplacedEntriesAreNotHeld(t *testing.T) {
	s := New(Options{})
	first := weak.Make(s.Put(object("/", "a"), 0))
	s.Put(object("/", "b"), 0)
	s.Put(object("/", "a"), 0)
	s.Put(object("/", "c"), 0)
	runtime.GC()
	if first.Value() != nil {
		t.Error("the first one is held")
	}
	if got := names(s, "/"); got != "c a b" {
		t.Error(got)
	}
}

// Whoever has seen a purge return sees its entries gone, however many others ask for
// their state meanwhile and remember it.
func TestAPurgeIsSeenWhenItReturns(t *testing.T) {
	s := New(Options{})
	var stop atomic.Bool
	var wg sync.WaitGroup
	for g := range 3 {
		wg.Go(func() {
			for !stop.Load() {
				if g == 0 {
					s.fold()
				}
				for i := range 8 {
					for _, e := range s.Find([]byte{'/', byte(i)}) {
						e.State()
					}
				}
				runtime.Gosched()
			}
		})
	}
	for g := range 4 {
		wg.Go(func() {
			defer stop.Store(true)
			tag := fmt.Sprint("t", g)
			for n := range 2000 {
				var e *Entry
				for e == nil { // so many purges of prefixes may pass that no others are remembered
					e = s.Put(object(string([]byte{'/', byte(g)}), "", tag), s.Ticket())
				}
				if e.State() != Live {
					t.Errorf("%d: purged by nobody", n)
					return
				}
				soft := n%3 == 0
				if n%2 == 0 {
					s.Purge(tag, soft)
				} else {
					s.PurgePrefix(tag, soft)
				}
				if got := e.State(); got == Live || got == Gone && soft {
					t.Errorf("%d: state %d behind a purge, soft %v", n, got, soft)
					return
				}
			}
		})
	}
	wg.Wait()
}

// Whoever looks at all entries holds up nobody: look-ups, stores and purges go on from
// within, and what leaves or comes does not confuse the walk.
func TestNobodyWaitsForAWalk(t *testing.T) {
	s := New(Options{})
	const n = 10_000
	for i := range n {
		s.Put(object(fmt.Sprint("/", i), "", "t"), 0)
	}
	seen := map[string]int{}
	s.Each(func(e *Entry) bool {
		seen[e.Key]++
		i := len(seen)
		if i < n/2 {
			s.Put(object(fmt.Sprint("/", n-i), "", "t"), s.Ticket()) // moves it to the front
			s.Put(object(fmt.Sprint("/new", i), "", "t"), s.Ticket())
		}
		if i%2 == 0 {
			s.Delete(e.Key)
		}
		s.Find([]byte(e.Key))
		s.Purge("other", false)
		return true
	})
	for i := range n {
		if key := fmt.Sprint("/", i); seen[key] == 0 {
			t.Fatalf("%s was not looked at", key)
		}
	}
	for i := range s.shards {
		for j := range s.shards[i].rings {
			if len(s.shards[i].rings[j].walks) != 0 {
				t.Fatal("a walk goes on")
			}
		}
	}
}

func TestALookUpTakesNoMemory(t *testing.T) {
	s := New(Options{})
	s.Put(object("/a?b=c", "", "x", "y"), 0)
	key := []byte("/a?b=c")
	if n := testing.AllocsPerRun(1000, func() {
		for _, e := range s.Find(key) {
			if e.State() == Live {
				s.Use(e)
			}
		}
	}); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

// TestMemoryOfManyEntries: 100,000 entries of 4 KiB in a live heap of at most 1.25
// times their bytes, and of not more than what the store counts.
func TestMemoryOfManyEntries(t *testing.T) {
	const n, size = 100_000, 4 << 10
	if testing.Short() {
		t.Skip("takes half a gigabyte")
	}
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	s := New(Options{MaxBytes: 1 << 30})
	for i := range n {
		url := fmt.Sprintf("example\x00https\x00www.example.org\x00/path/to/page/%d", i)
		s.Put(Object{Key: url, Status: 200, Body: Bytes(make([]byte, size)), Tags: []string{url, "example", fmt.Sprint("post", i%1000)},
			Fields: []exchange.Field{{Name: "Content-Type", Value: "text/html"}}, Until: t0}, s.Ticket())
	}
	used, counted := heap()-before, s.Counts().Bytes
	t.Logf("%d entries: heap %.3f of their bytes, counted %.3f", n, float64(used)/(n*size), float64(counted)/(n*size))
	if used > n*size*5/4 {
		t.Errorf("heap %d bytes, more than 1.25 of %d", used, n*size)
	}
	if used > counted*21/20 {
		t.Errorf("heap %d bytes, but %d are counted", used, counted)
	}
	runtime.KeepAlive(s)
}

func benchStore(n int) (*Store, [][]byte) {
	s := New(Options{MaxBytes: 8 << 30})
	keys := make([][]byte, n)
	for i := range n {
		key := fmt.Sprintf("example\x00https\x00www.example.org\x00/path/to/page/%d", i)
		keys[i] = []byte(key)
		s.Put(Object{Key: key, Status: 200, Tags: []string{"all", key}, Until: t0}, s.Ticket())
	}
	return s, keys
}

// cpu is the time that this process has had of CPUs.
func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A request makes its key in memory that is hot; the entries are not.
func BenchmarkLookUp(b *testing.B) {
	s, keys := benchStore(100_000)
	n := len(keys)
	begin := []byte(strings.TrimRight(string(keys[0]), "0"))
	keys = nil
	runtime.GC()
	b.ReportAllocs()
	i, missed := 0, 0
	key := make([]byte, 0, 100)
	used := cpu()
	for b.Loop() {
		key = strconv.AppendInt(append(key[:0], begin...), int64(i), 10)
		list := s.Find(key)
		if len(list) == 0 {
			missed++
		}
		for _, e := range list {
			if e.State() == Live {
				s.Use(e)
			}
		}
		if i += 7919; i >= n {
			i -= n
		}
	}
	b.ReportMetric(float64(cpu()-used)/float64(b.N), "cpu-ns/op") // others may want the CPU too
	if missed > 0 {
		b.Fatalf("%d keys were not found", missed)
	}
}

func BenchmarkPurgeOfAMillion(b *testing.B) {
	s, _ := benchStore(1_000_000)
	for b.Loop() {
		s.Purge("all", false)
	}
	start := time.Now()
	s.PurgePrefix("example\x00", false)
	b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "ms/prefix")
	start = time.Now()
	s.Sweep(t0)
	b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "ms/sweep")
}
