package proxycache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"httpjet/exchange"
	"httpjet/freshness"
)

// The reference is a shared cache written down naively from RFC 9111: a list, walked
// from its head, and one function that says what a request gets. It shares nothing
// with the cache; it knows the origin's pages as numbers and not as fields.

// page is what the origin has at a target.
type page struct {
	version int
	life    int  // seconds, -1: it says nothing
	sie     int  // stale-if-error
	tagged  bool // has an ETag, by its version
	varies  bool // by X
	forbid  int  // 0: nothing, 1: no-store, 2: private, 3: sets a cookie, 4: no-cache
}

func (p page) body(target, x string) string {
	if !p.varies {
		x = ""
	}
	return fmt.Sprintf("%s version %d for %s", target, p.version, x)
}

func (p page) fields() (list []string) {
	if p.life >= 0 {
		list = append(list, fmt.Sprintf("Cache-Control: max-age=%d, stale-if-error=%d", p.life, p.sie))
	}
	if p.tagged {
		list = append(list, fmt.Sprintf("ETag: %q", fmt.Sprint(p.version)))
	}
	if p.varies {
		list = append(list, "Vary: X")
	}
	return append(list, []string{"A: b", "Cache-Control: no-store", "cache-control: Private", "Set-Cookie: a=b", "Cache-Control: no-cache"}[p.forbid])
}

// note is what the reference remembers.
type note struct {
	page
	target, x, body string
	since           time.Time
}

type reference struct {
	notes []note // latest first
}

// request is what a client asks for.
type request struct {
	method, target, x string
	noCache, onlyKept bool
	knows             int // version in If-None-Match; 0: none
	ranged            bool
}

// result is what it gets: status, body, and whether the origin was asked.
type result struct {
	status int
	body   string
	asked  bool
}

func (r *reference) find(q request) int {
	return slices.IndexFunc(r.notes, func(n note) bool { return n.target == q.target && (!n.varies || n.x == q.x) })
}

func (r *reference) drop(i int) {
	if i >= 0 {
		r.notes = slices.Delete(r.notes, i, i+1)
	}
}

func keepable(p page) bool {
	switch {
	case p.forbid == 1, p.forbid == 2, p.forbid == 3:
		return false
	case p.forbid == 4, p.life < 0:
		return p.tagged
	}
	return p.life > 0 || p.sie > 0 || p.tagged
}

// ask says what q gets at a time from the cache before the origin's page p.
func (r *reference) ask(q request, p page, down bool, now time.Time) result {
	if q.method == "POST" {
		if down {
			return result{502, "", true}
		}
		r.notes = slices.DeleteFunc(r.notes, func(n note) bool { return n.target == q.target })
		return result{200, p.body(q.target, q.x), true}
	}
	i := r.find(q)
	if i >= 0 {
		n := r.notes[i]
		age := int(now.Sub(n.since) / time.Second)
		if age < n.life && n.forbid != 4 && !q.noCache {
			return give(q, n.body, n.page, false)
		}
	}
	if q.onlyKept {
		return result{504, "", false}
	}
	if down {
		if i >= 0 {
			n := r.notes[i]
			if n.life >= 0 && n.forbid != 4 && !q.noCache && int(now.Sub(n.since)/time.Second) < n.life+n.sie {
				return give(q, n.body, n.page, true)
			}
		}
		return result{502, "", true}
	}
	if i >= 0 && r.notes[i].tagged {
		if n := r.notes[i]; p.tagged && n.version == p.version { // 304
			r.drop(i)
			n.page, n.since = p, now
			if keepable(p) {
				r.notes = slices.Insert(r.notes, 0, n)
			}
			return give(q, n.body, n.page, true)
		}
		if q.method == "HEAD" {
			r.drop(i)
			return result{200, "", true}
		}
		r.store(q, p, i, now)
		return result{200, p.body(q.target, q.x), true} // the whole, whatever it has asked for
	}
	// The request goes on as it came.
	status := 200
	if q.knows != 0 && p.tagged && q.knows == p.version {
		return result{304, "", true}
	}
	if q.method == "HEAD" {
		if i >= 0 {
			if p.tagged || len(r.notes[i].body) != len(p.body(q.target, q.x)) {
				r.drop(i)
			}
		}
		return result{200, "", true}
	}
	r.store(q, p, i, now)
	return result{status, p.body(q.target, q.x), true}
}

func (r *reference) store(q request, p page, i int, now time.Time) {
	if !keepable(p) {
		r.drop(i)
		return
	}
	x := q.x
	if !p.varies {
		x = ""
	}
	r.notes = slices.DeleteFunc(r.notes, func(n note) bool { return n.target == q.target && n.varies == p.varies && n.x == x })
	r.notes = slices.Insert(r.notes, 0, note{p, q.target, x, p.body(q.target, q.x), now})
}

// give is what of a kept body a request gets.
func give(q request, body string, p page, asked bool) result {
	switch {
	case q.knows != 0 && p.tagged && q.knows == p.version:
		return result{304, "", asked}
	case q.method == "HEAD":
		return result{200, "", asked}
	case q.ranged:
		return result{206, body[1:3], asked}
	}
	return result{200, body, asked}
}

// TestAgainstReference walks at random through requests, changes of pages, failures
// of the origin and steps of the clock, and compares every answer, and whether the
// origin was asked, with the reference (RFC 9111, R-PCACHE-1 to 6).
func TestAgainstReference(t *testing.T) {
	steps := 100_000
	if testing.Short() {
		steps = 10_000
	}
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) { walk(t, seed, steps/4) })
	}
}

func walk(t *testing.T, seed uint64, steps int) {
	random := rand.New(rand.NewPCG(seed, 9111))
	one := func(n int) bool { return random.IntN(n) == 0 }
	h, o := site(t, freshness.Rules{})
	pages := map[string]page{}
	targets := []string{"/a", "/b", "/c?d", "/c"}
	version, down := 0, false
	change := func(target string) {
		version++
		p := page{version: version, life: random.IntN(12) - 1, sie: random.IntN(3) * 5, tagged: !one(3), varies: one(3)}
		if one(3) {
			p.forbid = random.IntN(5)
		}
		pages[target] = p
	}
	o.says(func(x *exchange.Exchange) error {
		if down {
			return exchange.Fail(502, "upstream_transport", "down")
		}
		p := pages[x.Req.Target]
		if tag := x.Req.Fields.Get("If-None-Match"); tag != "" && p.tagged && tag == fmt.Sprintf("%q", fmt.Sprint(p.version)) {
			return reply(304, "", p.fields()...)(x)
		}
		return reply(200, p.body(x.Req.Target, x.Req.Fields.Get("X")), p.fields()...)(x)
	})
	ref := &reference{}
	seen := map[result]int{}
	var trail []string
	for step := range steps {
		switch {
		case step < len(targets):
			change(targets[step])
		case one(12):
			change(targets[random.IntN(len(targets))])
		case one(40):
			down = !down
		case one(3):
			time.Sleep(time.Duration(random.IntN(4)) * time.Second)
		}
		q := request{method: "GET", target: targets[random.IntN(len(targets))], x: []string{"", "1", "2"}[random.IntN(3)]}
		p, known := pages[q.target]
		if !known {
			continue
		}
		q.noCache, q.onlyKept, q.ranged = one(10), one(15), one(10)
		switch random.IntN(12) {
		case 0:
			q.method = "HEAD"
		case 1:
			q.method = "POST"
		}
		if one(5) {
			q.knows = max(1, p.version-random.IntN(2))
		}
		if q.method == "POST" {
			q = request{method: "POST", target: q.target, x: q.x}
		}
		var fields []string
		if q.x != "" {
			fields = append(fields, "X: "+q.x)
		}
		if q.noCache {
			fields = append(fields, "Cache-Control: no-cache")
		}
		if q.onlyKept {
			fields = append(fields, "Cache-Control: only-if-cached")
		}
		if q.knows != 0 {
			fields = append(fields, fmt.Sprintf("If-None-Match: %q", fmt.Sprint(q.knows)))
		}
		if q.ranged {
			fields = append(fields, "Range: bytes=1-2")
		}
		before := o.count()
		a := ask(h, q.method+" "+q.target, fields...)
		got := result{a.head.Status, a.body.String(), o.count() > before}
		want := ref.ask(q, p, down, time.Now())
		if got.status >= 500 {
			got.body = "" // a page of ours
		}
		if a.noBody {
			got.body = ""
		}
		if len(trail) > 12 {
			trail = trail[1:]
		}
		trail = append(trail, fmt.Sprintf("%+v of %+v, down %v: %+v %s", q, p, down, got, a.get("Cache-Status")))
		if got != want {
			t.Fatalf("seed %d, step %d: got %+v, want %+v\n%s", seed, step, got, want, strings.Join(trail, "\n"))
		}
		seen[result{status: got.status, asked: got.asked}]++
	}
	// What was compared is worth it only if all of it happened.
	for _, r := range []result{{status: 200}, {status: 200, asked: true}, {status: 206}, {status: 206, asked: true}, {status: 304}, {status: 304, asked: true}, {status: 502, asked: true}, {status: 504}} {
		if seen[r] < steps/1000 {
			t.Errorf("only %d answers %+v", seen[r], r)
		}
	}
}
