package pagecache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"httpjet/exchange"
)

// reference is a page cache as one would write it on a page: a list of entries, of which
// each request looks at all. It shares no code with the package.
type reference struct {
	entries []*refEntry
}

type refEntry struct {
	id             string // host, target, role and owner
	path           string
	owner          string
	tags           []string
	body           string
	fresh          time.Time
	stale, onError time.Duration
	soft           bool
}

func (r *reference) find(id string, now time.Time) *refEntry {
	for _, e := range r.entries {
		if e.id == id && now.Before(e.fresh.Add(max(e.stale, e.onError))) {
			return e
		}
	}
	return nil
}

func (r *reference) put(e *refEntry) {
	r.drop(func(o *refEntry) bool { return o.id == e.id })
	r.entries = append(r.entries, e)
}

func (r *reference) drop(which func(*refEntry) bool) {
	kept := r.entries[:0]
	for _, e := range r.entries {
		if !which(e) {
			kept = append(kept, e)
		}
	}
	r.entries = kept
}

// modelPage is what one URL of the application says: it follows from its number.
type modelPage struct {
	path, query          string
	life, stale, onError int
	private, byRole      bool
	tags                 []string
	pad                  int
}

func modelPages() (list []modelPage) {
	for i := range 24 {
		p := modelPage{path: fmt.Sprintf("/p%d/%d", i%3, i), life: []int{0, 10, 60, 500}[i%4], stale: []int{0, 30, 200}[i%3],
			onError: []int{0, 100}[i/2%2], private: i%5 == 1, byRole: i%7 == 3, tags: []string{fmt.Sprint("t", i%6), fmt.Sprint("group", i%2)}}
		if i%8 == 5 {
			p.query = "a=1"
		}
		if i == 7 {
			p.pad = 70 << 10
		}
		list = append(list, p)
	}
	return list
}

type model struct {
	t     *testing.T
	r     *rand.Rand
	dir   string
	site  *Site
	ref   reference
	pages []modelPage
	made  atomic.Int64
	fails bool
}

// body is what a page says to a request, n that it has told so far.
func (p *modelPage) body(host, role, owner string, n int64) string {
	return fmt.Sprintf("%s%s?%s role=%s owner=%s %d %s", host, p.path, p.query, role, owner, n, strings.Repeat("x", p.pad))
}

func (m *model) page(p *modelPage) app {
	return func(x *exchange.Exchange) (int, string, string) {
		if m.fails {
			return -502, "", ""
		}
		role, owner := "", ""
		for line := range strings.SplitSeq(x.Req.Fields.Get("Cookie"), "; ") {
			if v, ok := strings.CutPrefix(line, "role="); ok && p.byRole {
				role = v
			}
			if v, ok := strings.CutPrefix(line, "PHPSESSID="); ok && p.private {
				owner = v
			}
		}
		kind := "public"
		if p.private {
			kind = "private"
		}
		f := fmt.Sprintf("X-LiteSpeed-Cache-Control: %s,max-age=%d,max-stale=%d,stale-if-error=%d\nX-LiteSpeed-Tag: %s\n",
			kind, p.life, p.stale, p.onError, strings.Join(p.tags, ","))
		if p.byRole {
			f += "X-LiteSpeed-Vary: cookie=role\n"
		}
		return 200, f, p.body(x.Req.Host, role, owner, m.made.Add(1))
	}
}

func (m *model) open() { m.site = onDisk(m.t, m.dir, Options{}) }

// request asks for a page, and for what the reference expects.
func (m *model) request() {
	p := &m.pages[m.r.IntN(len(m.pages))]
	host := []string{"a.test", "b.test"}[m.r.IntN(2)]
	role := []string{"", "admin", "editor"}[m.r.IntN(3)]
	owner := []string{"", "ann", "bob"}[m.r.IntN(3)]
	m.fails = m.r.IntN(10) == 0
	q := get{host: host, target: p.path, now: time.Now()}
	if p.query != "" {
		q.target += "?" + p.query
	}
	var crumbs []string
	if role != "" {
		crumbs = append(crumbs, "role="+role)
	}
	if owner != "" {
		crumbs = append(crumbs, "PHPSESSID="+owner)
	}
	if crumbs != nil {
		q.fields = []string{"Cookie: " + strings.Join(crumbs, "; ")}
	}
	want := m.expect(p, host, role, owner)
	got := m.site.ask(q, m.page(p))
	m.site.Cache.running.Wait() // a refresh
	if got.body != want && !(want == "" && got.status == 502) || got.cut {
		m.t.Fatalf("%v: %.200q (%s), want %.200q", q, got.body, got.cache, want)
	}
}

// expect says what the client gets, "" for an error, and does to the reference what the
// request does.
func (m *model) expect(p *modelPage, host, role, owner string) string {
	now := time.Now()
	if !p.byRole {
		role = ""
	}
	if !p.private {
		owner = ""
	}
	id := strings.Join([]string{host, p.path, p.query, role, owner}, "|")
	storable := p.life > 0 && (!p.private || owner != "")
	make := func(n int64) string {
		body := p.body(host, role, owner, n)
		life := time.Duration(p.life) * time.Second
		if p.private && life > 5*time.Minute {
			life = 5 * time.Minute
		}
		if storable {
			m.ref.put(&refEntry{id: id, path: p.path, owner: owner, tags: p.tags, body: body, fresh: now.Add(life),
				stale: time.Duration(p.stale) * time.Second, onError: time.Duration(p.onError) * time.Second})
		}
		return body
	}
	e := m.ref.find(id, now)
	if e != nil {
		late := now.Sub(e.fresh)
		switch {
		case late < 0 && !e.soft:
			return e.body
		case late < e.stale || e.soft:
			old := e.body
			if !m.fails {
				make(m.made.Load() + 1)
			}
			return old
		case m.fails && late < e.onError:
			return e.body
		}
	}
	if m.fails {
		return ""
	}
	return make(m.made.Load() + 1)
}

// purge has a request say a purge, by whom, and the reference do it.
func (m *model) purge() {
	owner := []string{"", "ann", "bob"}[m.r.IntN(3)]
	private := m.r.IntN(4) == 0
	soft := m.r.IntN(3) == 0
	p := &m.pages[m.r.IntN(len(m.pages))]
	var item string
	var about func(*refEntry) bool
	own := func(e *refEntry) bool { return e.owner == "" }
	if private {
		own = func(e *refEntry) bool { return owner != "" && e.owner == owner }
	}
	any := func(e *refEntry) bool { return !private || own(e) } // public purges of URLs and of all
	hasTag := func(e *refEntry, ok func(string) bool) bool {
		return slices.ContainsFunc(e.tags, ok)
	}
	switch m.r.IntN(12) {
	case 0:
		item, about = "*", any
	case 1, 2, 3:
		item, about = p.path, func(e *refEntry) bool { return any(e) && e.path == p.path }
	case 4:
		item, about = "/p1/*", func(e *refEntry) bool { return any(e) && strings.HasPrefix(e.path, "/p1/") }
	case 5:
		item, about = "group*", func(e *refEntry) bool {
			return own(e) && hasTag(e, func(t string) bool { return strings.HasPrefix(t, "group") })
		}
	default:
		tag := fmt.Sprint("t", m.r.IntN(7))
		item, about = "tag="+tag, func(e *refEntry) bool { return own(e) && hasTag(e, func(t string) bool { return t == tag }) }
	}
	if soft {
		for _, e := range m.ref.entries {
			e.soft = e.soft || about(e)
		}
		item = "stale," + item
	} else {
		m.ref.drop(about)
	}
	if private {
		item = "private," + item
	}
	q := get{target: "/purge", now: time.Now(), method: "POST"}
	if owner != "" {
		q.fields = []string{"Cookie: PHPSESSID=" + owner}
	}
	m.site.ask(q, says(200, "X-LiteSpeed-Purge: "+item, "done"))
}

// restart ends the process: private entries and those that are softly purged are gone.
func (m *model) restart() {
	m.site.Cache.Close()
	m.open()
	m.ref.drop(func(e *refEntry) bool { return e.owner != "" || e.soft })
}

// Random requests, purges, steps of the clock, sweeps and restarts against the reference:
// no difference.
func TestAgainstAReference(t *testing.T) {
	steps := 100_000
	if testing.Short() {
		steps = 5_000
	}
	synctest.Test(t, func(t *testing.T) {
		seed := uint64(steps)
		m := &model{t: t, r: rand.New(rand.NewPCG(seed, 7)), dir: t.TempDir(), pages: modelPages()}
		m.open()
		for range steps {
			switch n := m.r.IntN(1000); {
			case n < 900:
				m.request()
			case n < 915:
				m.purge()
			case n < 990:
				time.Sleep(time.Duration(m.r.IntN(30_000)) * time.Millisecond)
			case n < 998:
				m.site.Cache.Sweep(t.Context())
			default:
				m.restart()
			}
		}
		n := m.site.Cache.Totals()
		t.Logf("since the last restart: %d hits, %d stale, %d for errors, %d misses", n.Get(Hits), n.Get(HitsStale), n.Get(HitsOnError), n.Get(Misses))
		m.site.Cache.Close()
	})
}

// Two users with cookies and guests, misses, hits and purges at once: no body crosses.
func TestPrivacyUnderFire(t *testing.T) {
	s := newSite(Options{})
	users := []string{"", "ann", "bob"}
	page := func(private bool) app {
		return func(x *exchange.Exchange) (int, string, string) {
			who, _ := cookie(&x.Req.Fields, "PHPSESSID")
			if private {
				return 200, "X-LiteSpeed-Cache-Control: private,max-age=60,max-stale=60\nX-LiteSpeed-Tag: a", "of:" + who + ":"
			}
			return 200, "X-LiteSpeed-Cache-Control: public,max-age=60,max-stale=60\nX-LiteSpeed-Tag: a", "of all:"
		}
	}
	var crossed, hits atomic.Int64
	var wg sync.WaitGroup
	n := 4000
	if testing.Short() {
		n = 500
	}
	for g := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 3))
			now := time.Now()
			for range n {
				who := users[r.IntN(3)]
				q := get{target: fmt.Sprint("/private/", r.IntN(5)), now: now}
				if who != "" {
					q.fields = []string{"Cookie: PHPSESSID=" + who}
				}
				switch r.IntN(10) {
				case 0:
					s.ask(q, says(200, "X-LiteSpeed-Purge: "+[]string{"*", "private,*", "tag=a", "private,stale,tag=a", "/private/1", "stale,*"}[r.IntN(6)], "x"))
				case 1, 2:
					q.target = fmt.Sprint("/public/", r.IntN(5))
					if got := s.ask(q, page(false)); got.body != "of all:" {
						crossed.Add(1)
					}
				case 3:
					now = now.Add(10 * time.Second)
				default:
					got := s.ask(q, page(true))
					if got.body != "of:"+who+":" {
						crossed.Add(1)
						t.Errorf("%q got %q", who, got.body)
					}
					if !got.made {
						hits.Add(1)
					}
				}
			}
		})
	}
	wg.Wait()
	s.Cache.Close()
	if crossed.Load() > 0 || hits.Load() == 0 {
		t.Errorf("%d crossed, %d hits", crossed.Load(), hits.Load())
	}
}
