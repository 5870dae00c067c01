package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// An entry is one server in a scenario.
type entry struct {
	label string
	server
	path string
}

// A limit is what httpjet's value may be at most: a ratio to another entry's, or
// a value if against is empty.
type limit struct {
	against string
	most    float64
}

// A scenario is one kind of work and the servers that can do it.
type scenario struct {
	group, name string
	says        string // what is done, for readers of the table
	unit        string // of Value
	memory      bool   // measures memory: a new process for each sample, no CPU
	entries     []entry
	limits      []limit
	needs       func() string                                            // what is missing, so that it is left out; nil: nothing
	also        func(*bench, context.Context, cores) ([]*running, error) // starts what else stands behind the servers; nil: nothing
	take        func(*bench, context.Context, cores, entry, *running) (sample, error)
}

// at is the servers, each asked for path.
func at(path string, servers ...server) []entry {
	var all []entry
	for _, s := range servers {
		all = append(all, entry{s.name, s, path})
	}
	return all
}

const (
	perRequest = "CPU µs/request"
	perGiB     = "CPU s/GiB"
	perMessage = "CPU µs/message"
	perTurn    = "µs/request"
	perConn    = "KiB/connection"
	perLookUp  = "CPU ns/look-up"
	perAnswer  = "CPU ms/answer"
)

var scenarios = []scenario{
	{
		group: "proxy", name: "proxy", unit: perRequest, take: (*bench).wrk,
		says:    "HTTP/1.1 proxy, 1 KiB",
		entries: at("/app/1k", nginx, haproxy, caddy, httpjet),
		limits:  []limit{{"nginx", 0.80}, {"haproxy", 0.90}, {"caddy", 0.20}},
	},
	{
		group: "observed", name: "observed", unit: perRequest, take: (*bench).wrk,
		says:    "HTTP/1.1 proxy, 1 KiB, httpjet alone: lines of access log in JSON and a traceparent for each request, against combined lines and no trace; metrics in both",
		entries: []entry{{"httpjet", observed, "/app/1k"}, {"httpjet-combined", httpjet, "/app/1k"}},
		limits:  []limit{{"httpjet-combined", 1.06}},
	},
	{
		group: "observed", name: "scrape", unit: perAnswer, take: (*bench).answered,
		says:    "httpjet alone: a scrape of /metrics with 2,000 groups of 4 peers; at 15 s between two, 300 ms are 2 % of a core",
		entries: []entry{{"httpjet", grouped, "/metrics"}},
		limits:  []limit{{"", 150}},
	},
	{
		group: "observed", name: "dashboard", unit: perAnswer, take: (*bench).answered,
		says:    "httpjet alone: what the page of the management listener asks for with 1,000 peers; it does so every 2 s, of which 20 ms are 1 %",
		entries: []entry{{"httpjet", thousand, "/api/v1/status /api/v1/upstreams"}},
		limits:  []limit{{"", 20}},
	},
	{
		group: "direct", name: "direct", unit: perTurn, take: (*bench).beside,
		says:    "HTTP/1.1 proxy, 1 KiB, 100 connections, httpjet alone: through it, against the upstream without it; time, not cost",
		entries: []entry{{"httpjet", httpjet, "/app/1k"}, {"direct", httpjet, "/app/1k"}},
		limits:  []limit{{"direct", 2.00}},
	},
	{
		group: "stream", name: "stream", unit: perGiB, take: (*bench).stream,
		says: "HTTP/1.1 proxy, streams of 1 GiB in turn",
		entries: append(at("/app/stream", nginx, caddy, httpjet),
			entry{"haproxy", haproxy, "/app/stream"}, entry{"haproxy-splice", haproxy, "/app/splice"}),
		limits: []limit{{"nginx", 0.40}, {"haproxy-splice", 1.10}},
	},
	{
		group: "static", name: "static-1k", unit: perRequest, take: (*bench).wrk,
		says:    "HTTP/1.1, a file of 1 KiB",
		entries: at("/1k.txt", nginx, caddy, httpjet),
		limits:  []limit{{"nginx", 0.80}},
	},
	{
		group: "static", name: "static-100k", unit: perRequest, take: (*bench).wrk,
		says:    "HTTP/1.1, a file of 100 KiB",
		entries: at("/100k.txt", nginx, caddy, httpjet),
		limits:  []limit{{"nginx", 1.05}},
	},
	{
		group: "compress", name: "compress", unit: perRequest, take: (*bench).gzipped,
		says:    "HTTP/1.1, a page of 100 KiB in gzip, compressed for each request: nginx at level 6 as httpjet, Caddy at its own",
		entries: at("/zip/page.html", nginx, caddy, httpjet),
	},
	{
		group: "cache", name: "cache", unit: perRequest, take: (*bench).wrk,
		says:    "HTTP/1.1, a response of 1 KiB of a proxied route, from the cache; nginx's lies on tmpfs",
		entries: at("/cached/1k", nginx, haproxy, varnish, httpjet),
		limits:  []limit{{"nginx", 0.55}, {"haproxy", 0.75}, {"varnish", 0.30}},
	},
	{
		group: "cache", name: "cache-page", unit: perRequest, take: (*bench).wrk,
		says:    "HTTP/1.1, a page of 1 KiB of a local application, from the page cache; nginx's and Varnish's are of a proxied route",
		entries: append(at("/cached/1k", nginx, varnish), entry{"httpjet", httpjet, "/paged/1k"}),
		limits:  []limit{{"nginx", 0.55}, {"varnish", 0.30}},
	},
	{
		group: "cache", name: "cache-look-up", unit: perLookUp, memory: true, take: (*bench).lookUps,
		says:    "the store of the caches alone: a look-up among 100,000 keys",
		entries: []entry{{"httpjet", httpjet, ""}},
		limits:  []limit{{"", 1000}},
	},
	{
		group: "cache", name: "cache-purge", unit: "ms", memory: true, take: (*bench).purged,
		says:    "the store alone, 1,000,000 small entries: a purge of their tag (httpjet), and the sweep that gives their memory back",
		entries: []entry{{"httpjet", httpjet, "tag"}, {"sweep", httpjet, "sweep"}},
		limits:  []limit{{"", 50}},
	},
	{
		group: "cache", name: "cache-purge-prefix", unit: "ms", memory: true, take: (*bench).purged,
		says:    "the same by a prefix that all of their 1,000,000 own tags have",
		entries: []entry{{"httpjet", httpjet, "prefix"}},
		limits:  []limit{{"", 50}},
	},
	{
		group: "cache", name: "cache-hits-at-purge", unit: "p99 µs", memory: true, take: (*bench).stalled,
		says:    "the store alone: look-ups while 1,000,000 entries are purged by their tag, against those with nothing beside",
		entries: []entry{{"quiet", httpjet, "quiet"}, {"httpjet", httpjet, "tag"}},
		limits:  []limit{{"quiet", 2}},
	},
	{
		group: "cache", name: "cache-hits-at-prefix", unit: "p99 µs", memory: true, take: (*bench).stalled,
		says:    "the same while 1,000,000 tags with a prefix are purged",
		entries: []entry{{"quiet", httpjet, "quiet"}, {"httpjet", httpjet, "prefix"}},
		limits:  []limit{{"quiet", 2}},
	},
	{
		group: "cache", name: "cache-hits-at-sweep", unit: "p99 µs", memory: true, take: (*bench).stalled,
		says:    "the same while 1,000,000 entries are swept",
		entries: []entry{{"quiet", httpjet, "quiet"}, {"httpjet", httpjet, "sweep"}},
		limits:  []limit{{"quiet", 2}},
	},
	{
		group: "fastcgi", name: "fastcgi", unit: perRequest, take: (*bench).wrk,
		says:    "FastCGI to a trivial responder, 1 KiB",
		entries: at("/fcgi/1k", nginx, haproxy, caddy, httpjet),
		limits:  []limit{{"nginx", 0.95}, {"caddy", 0.25}},
	},
	{
		group: "php", name: "php", unit: perTurn, take: (*bench).wall, also: (*bench).startPHP,
		needs:   needsPHP,
		says:    "a trivial script, httpjet alone: lsphp over LSAPI, against php-fpm of the same build over FastCGI, 4 workers each; time, not cost",
		entries: []entry{{"httpjet", httpjet, "/hello.php"}, {"httpjet-fpm", httpjet, "/hello.fpm"}},
		limits:  []limit{{"httpjet-fpm", 1.00}},
	},
	{
		group: "php", name: "fpm", unit: perRequest, take: (*bench).few, also: (*bench).startPHP, needs: needsPHP,
		says:    "a trivial script on php-fpm, kept connections: as many clients as it has children, 4, since nginx serves no more at a time",
		entries: at("/hello.fpm", nginx, caddy, httpjet),
		limits:  []limit{{"nginx", 0.95}, {"caddy", 0.25}},
	},
	{
		group: "idle", name: "idle", unit: perConn, memory: true, take: heldBy(overPlain),
		says:    "idle HTTP/1.1 connections, each after one request for 1 KiB; HAProxy answers from memory",
		entries: at("/1k.txt", nginx, haproxy, caddy, httpjet),
		limits:  []limit{{"", 6}},
	},
	{
		group: "idle", name: "idle-tls", unit: perConn, memory: true, take: heldBy(overTLS),
		says:    "idle HTTP/1.1 connections over TLS 1.3, each after one request for 1 KiB",
		entries: at("/1k.txt", nginx, haproxy, httpjet),
		limits:  []limit{{"", 10}},
	},
	{
		group: "idle", name: "idle-h2", unit: perConn, memory: true, take: heldBy(overH2),
		says:    "idle HTTP/2 connections over TLS 1.3, each after one request for 1 KiB",
		entries: at("/1k.txt", nginx, haproxy, httpjet),
		limits:  []limit{{"", 20}},
	},
	{
		group: "websocket", name: "websocket", unit: perMessage, take: (*bench).messages,
		says:    "WebSocket relay, 64 bytes there and back",
		entries: at("/app/ws", nginx, haproxy, httpjet),
		limits:  []limit{{"haproxy", 1.00}},
	},
	{
		group: "websocket", name: "relays", unit: perConn, memory: true, take: heldBy(overWS),
		says:    "idle WebSocket relays, each after one message",
		entries: at("/app/ws", nginx, haproxy, httpjet),
		limits:  []limit{{"", 10}},
	},
	{
		group: "h2-upstream", name: "h2-upstream", unit: perRequest, take: (*bench).wrk,
		says:    "HTTP/1.1 proxy, 1 KiB, httpjet alone: its upstream by HTTP/2 in clear text, against HTTP/1.1",
		entries: []entry{{"httpjet", httpjet, "/app2/1k"}, {"httpjet-h1", httpjet, "/app/1k"}},
	},
	{
		group: "group", name: "group", unit: perRequest, take: (*bench).wrk,
		says:    "HTTP/1.1 proxy, 1 KiB, httpjet alone: ten peers, weighted turns, health checks and breakers, against one address",
		entries: []entry{{"httpjet", httpjet, "/app3/1k"}, {"httpjet-single", httpjet, "/app/1k"}},
		limits:  []limit{{"httpjet-single", 1.03}},
	},
	{
		group: "tls", name: "tls-proxy", unit: perRequest, take: (*bench).wrkTLS,
		says:    "HTTP/1.1 over TLS 1.3, proxied, 1 KiB",
		entries: at("/app/1k", nginx, haproxy, httpjet),
		limits:  []limit{{"nginx", 1.00}},
	},
	{
		group: "stream", name: "stream-h2", unit: perGiB, take: (*bench).h2stream,
		says:    "HTTP/2 over TLS 1.3, proxied, streams of 1 GiB in turn",
		entries: at("/app/stream", nginx, haproxy, httpjet),
		limits:  []limit{{"nginx", 1.10}},
	},
	{
		group: "h2", name: "h2-static", unit: perRequest, take: (*bench).h2load,
		says:    "HTTP/2 over TLS 1.3, a file of 1 KiB, 16 connections of 16 streams",
		entries: at("/1k.txt", nginx, caddy, httpjet),
		limits:  []limit{{"nginx", 0.35}},
	},
	{
		group: "h2", name: "h2-proxy", unit: perRequest, take: (*bench).h2load,
		says:    "HTTP/2 over TLS 1.3, proxied, 1 KiB, 16 connections of 16 streams",
		entries: at("/app/1k", nginx, haproxy, caddy, httpjet),
		limits:  []limit{{"nginx", 0.60}, {"haproxy", 0.80}},
	},
	{
		group: "h2-single", name: "h2-single-static", unit: perRequest, take: (*bench).h2single,
		says:    "HTTP/2 over TLS 1.3, a file of 1 KiB, 64 connections of one stream",
		entries: at("/1k.txt", nginx, httpjet),
		limits:  []limit{{"nginx", 0.85}},
	},
	{
		group: "h2-single", name: "h2-single-proxy", unit: perRequest, take: (*bench).h2single,
		says:    "HTTP/2 over TLS 1.3, proxied, 1 KiB, 64 connections of one stream",
		entries: at("/app/1k", nginx, haproxy, httpjet),
		limits:  []limit{{"nginx", 0.85}},
	},
	{
		group: "h3", name: "h3-static", unit: perRequest, take: (*bench).h3load,
		says:    "HTTP/3, a file of 1 KiB, 16 connections of 16 streams; no nginx of Debian's has QUIC",
		entries: at("/1k.txt", caddy, httpjet),
	},
	{
		group: "h3", name: "h3-proxy", unit: perRequest, take: (*bench).h3load,
		says:    "HTTP/3, proxied, 1 KiB, 16 connections of 16 streams",
		entries: at("/app/1k", caddy, httpjet),
	},
}

// run measures a scenario. Each round runs every server once and begins with
// another one, so that a machine that slows down or warms up does so for all.
func (s scenario) run(ctx context.Context, b *bench, c cores) error {
	all, err := s.startAll(ctx, b, c)
	defer func() {
		for _, r := range b.up {
			r.stop()
		}
		b.up = nil
	}()
	if err != nil {
		return err
	}
	rounds := b.rounds
	if s.memory {
		rounds = min(rounds, 3) // it hardly varies
	}
	for round := range rounds {
		for i := range s.entries {
			e := s.entries[(round+i)%len(s.entries)]
			said, err := b.undisturbed(ctx, !s.memory, func() (sample, error) {
				x, err := s.take(b, ctx, c, e, all[e.name])
				x.Scenario, x.Server, x.Cores, x.Round = s.name, e.label, c.name, round+1
				return x, err
			})
			if err != nil {
				return fmt.Errorf("%s: %v\n%s", e.label, err, all[e.name].said())
			}
			fmt.Fprintf(os.Stderr, "  round %d of %d  %s\n", round+1, rounds, said)
		}
	}
	for _, r := range b.up {
		if err := r.inEarnest(); err != nil {
			return err
		}
	}
	return nil
}

// startAll starts the upstream and, unless each sample has its own, the servers,
// and warms them: pools are filled, files cached. b.up is what runs, also after
// an error.
func (s scenario) startAll(ctx context.Context, b *bench, c cores) (map[string]*running, error) {
	up, err := b.startUpstream(c)
	if err != nil {
		return nil, err
	}
	b.up = []*running{up}
	if s.also != nil {
		more, err := s.also(b, ctx, c)
		b.up = append(b.up, more...)
		if err != nil {
			return nil, err
		}
	}
	fmt.Fprintf(os.Stderr, "%s: %s; cores: %s; %s\n", s.name, s.says, c.name, s.unit)
	all := map[string]*running{}
	if s.memory {
		return all, nil
	}
	for _, e := range s.entries {
		if all[e.name] == nil {
			r, err := b.start(ctx, e.server, c)
			if err != nil {
				return nil, err
			}
			all[e.name] = r
			b.up = append(b.up, r)
		}
		if e.path == "/app3/1k" { // its group is cold until its probes have passed
			if err := all[e.name].ready(ctx, e.path); err != nil {
				return nil, fmt.Errorf("%s: %v\n%s", e.label, err, all[e.name].said())
			}
		}
		if _, err := s.take(b.brief(), ctx, c, e, all[e.name]); err != nil {
			return nil, fmt.Errorf("%s: %v\n%s", e.label, err, all[e.name].said())
		}
	}
	return all, nil
}

// brief is b with the shortest samples.
func (b *bench) brief() *bench {
	short := *b
	short.seconds, short.gib = 1, 1
	return &short
}

// said is the end of what a server printed.
func (r *running) said() string {
	if r == nil {
		return "" // it had a process for each sample
	}
	return r.out.String()
}

// perUnit takes a sample of CPU time around f.
func (b *bench) perUnit(r *running, scale float64, f func() (result, error)) (sample, error) {
	var x sample
	err := b.watch(&x, r, func() error {
		did, err := f()
		x.Work, x.Seconds, x.P99 = did.Work, did.Seconds, did.P99
		return err
	})
	if err == nil {
		x.Value = x.CPU * scale / float64(x.Work)
	}
	return x, err
}

func (b *bench) wrk(ctx context.Context, c cores, e entry, r *running) (sample, error) {
	name := host
	if strings.HasPrefix(e.path, "/paged/") {
		name = pagedHost
		if err := r.hits(ctx, e.path); err != nil {
			return sample{}, err
		}
	}
	return b.wrkAt(ctx, c, name, "http://"+r.http+e.path, r)
}

func (b *bench) wrkTLS(ctx context.Context, c cores, e entry, r *running) (sample, error) {
	return b.wrkAt(ctx, c, host, "https://"+r.https+e.path, r)
}

// wrkAt loads r by wrk, which asks for url at a host of that name.
func (b *bench) wrkAt(ctx context.Context, c cores, name, url string, r *running) (sample, error) {
	return b.perUnit(r, 1e6, func() (result, error) {
		out, err := b.load(ctx, c, "wrk", "-t", strconv.Itoa(c.threads), "-c", strconv.Itoa(b.connections),
			"-d", strconv.Itoa(b.seconds)+"s", "--latency", "-H", "Host: "+name, url)
		if err != nil {
			return result{}, err
		}
		return parseWrk(out)
	})
}

// gzipped is wrk as a client that takes gzip, which it gets.
func (b *bench) gzipped(ctx context.Context, c cores, e entry, r *running) (sample, error) {
	if err := r.gzips(ctx, e.path); err != nil {
		return sample{}, err
	}
	return b.perUnit(r, 1e6, func() (result, error) {
		out, err := b.load(ctx, c, "wrk", "-t", strconv.Itoa(c.threads), "-c", strconv.Itoa(b.connections),
			"-d", strconv.Itoa(b.seconds)+"s", "--latency", "-H", "Host: "+host, "-H", "Accept-Encoding: gzip", "http://"+r.http+e.path)
		if err != nil {
			return result{}, err
		}
		return parseWrk(out)
	})
}

func (b *bench) h2load(ctx context.Context, c cores, e entry, r *running) (sample, error) {
	return b.h2loadOf(ctx, c, e, r, 16, 16)
}

func (b *bench) h2single(ctx context.Context, c cores, e entry, r *running) (sample, error) {
	return b.h2loadOf(ctx, c, e, r, 64, 1)
}

// h2loadOf loads r by so many connections of so many streams.
func (b *bench) h2loadOf(ctx context.Context, c cores, e entry, r *running, connections, streams int) (sample, error) {
	return b.perUnit(r, 1e6, func() (result, error) {
		out, err := b.load(ctx, c, "h2load", "-t", strconv.Itoa(c.threads), "-c", strconv.Itoa(connections), "-m", strconv.Itoa(streams), "-D", strconv.Itoa(b.seconds),
			"--tls13-ciphers=TLS_AES_128_GCM_SHA256", "--connect-to="+r.https, "https://"+host+e.path)
		if err != nil {
			return result{}, err
		}
		return parseH2load(out)
	})
}

func (b *bench) stream(ctx context.Context, c cores, e entry, r *running) (sample, error) {
	return b.perUnit(r, gib, func() (result, error) {
		return b.own(ctx, c, "fetch", r.http, e.path, strconv.Itoa(b.gib))
	})
}

// h2stream fetches streams of a GiB over HTTP/2, one after the other, with windows that
// no distance fills.
func (b *bench) h2stream(ctx context.Context, c cores, e entry, r *running) (sample, error) {
	return b.perUnit(r, gib, func() (result, error) {
		out, err := b.load(ctx, c, "h2load", "-n", strconv.Itoa(b.gib), "-c", "1", "-m", "1", "-w", "24", "-W", "24",
			"--tls13-ciphers=TLS_AES_128_GCM_SHA256", "--connect-to="+r.https, "https://"+host+e.path)
		if err != nil {
			return result{}, err
		}
		did, err := parseH2load(out)
		did.Work *= gib
		return did, err
	})
}

func (b *bench) messages(ctx context.Context, c cores, e entry, r *running) (sample, error) {
	return b.perUnit(r, 1e6, func() (result, error) {
		return b.own(ctx, c, "messages", r.http, e.path, strconv.Itoa(b.connections), strconv.Itoa(b.seconds))
	})
}
