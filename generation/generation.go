// Package generation builds an immutable generation from a configuration,
// publishes it by one pointer and retires the one before. It is the one place
// that knows all rooms; it only constructs. Building has no side effect but
// leases: no goroutine, no bind, no log file, no look-up of a name.
package generation

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"httpjet/access"
	"httpjet/accesslog"
	"httpjet/acme"
	"httpjet/apps"
	"httpjet/budget"
	"httpjet/compress"
	"httpjet/contexts"
	"httpjet/docroot"
	"httpjet/exchange"
	"httpjet/extproc"
	"httpjet/gateway"
	"httpjet/groups"
	"httpjet/keep"
	"httpjet/metrics"
	"httpjet/pagecache"
	"httpjet/probes"
	"httpjet/proxycache"
	"httpjet/staples"
	"httpjet/tlsconf"
	"httpjet/trace"
	"httpjet/tunnels"
	"httpjet/xmlconf"
)

// Options are what the command line adds to a configuration.
type Options struct {
	// HTTPAddr and HTTPSAddr re-address the first plain and the first secure
	// listener; other listeners are then not bound (R-CLI-3). Both "": every
	// listener is bound at its own address.
	HTTPAddr, HTTPSAddr string
	EchoID              bool   // answers carry the request id as X-Request-Id
	Version             string // of this build, for the Server field and applications
	PageCache           PageCache
	User                func() int // effective user of the process that starts programs; nil: this one's
	Log                 *slog.Logger
}

// Kept is what outlives a generation, by keys that are whole identities.
type Kept struct {
	Proxies  keep.Map[extproc.Target, ProxyClient]
	Apps     keep.Map[extproc.Target, *gateway.Client]
	Places   gateway.Places // of Apps
	FastCGI  gateway.Counts // of those that speak it
	LSAPI    gateway.Counts // likewise, of LSAPI
	Started  keep.Map[apps.Options, *apps.App]
	Groups   keep.Map[groupKey, *groups.State]
	Verdicts keep.Map[peerKey, *groups.Verdict]
	Seats    keep.Map[seatKey, *groups.Seat]
	Routes   keep.Map[routeKey, *metrics.Route]
	Clocks   keep.Map[peerKey, *probes.Clock]
	Counts   keep.Map[countKey, *probes.Counts]
	Sinks    keep.Map[accesslog.Options, *accesslog.Sink]
	Dialer   extproc.Dialer                 // of all clients
	Tunnels  keep.Map[string, *tunnels.Set] // by route, and by peer
	Realms   keep.Map[access.RealmOptions, *access.Realm]
	Clients  access.Clients
	Rates    keep.Map[access.RateOptions, *access.Rate]
	ACME     *acme.Manager // nil: nothing is issued, as in a check
	Tickets  keep.Map[tlsconf.TicketOptions, *tlsconf.Tickets]
	Staples  keep.Map[staples.Key, *staples.Staple]
	Issued   staples.Issued // of certificates of ACME
	Open     tunnels.Open   // counts them by generation
	Leaving  tunnels.Leaving

	Exporters keep.Map[trace.ExporterOptions, *trace.Exporter]
	Spans     trace.Counts
	Timelines keep.Map[int, *trace.Timelines] // by how many are kept

	Pages *pagecache.Cache // nil: no generation had one yet; set by Build

	ProxyCaches keep.Map[string, *proxycache.Cache]
	ProxyCached proxycache.Counts // of all of them

	Bodies   *budget.Bodies
	Encoders *compress.Encoders // of all answers; nil: none is coded
	Probes   *budget.Permits    // of probes in flight; nil: each generation has its own
	Metrics  *metrics.Metrics

	secretOnce sync.Once
	secret     []byte // of sticky cookies
}

// Listener is a listener as the configuration wants it.
type Listener struct {
	Name    string
	Network string // tcp, tcp4 or tcp6
	Address string // host:port
	Secure  bool
	At      xmlconf.Place // of its address, none for one of the command line
}

// Key is what a listener is known by to the front end and the table. It survives
// a reload, whatever the listener is called then.
func (l Listener) Key() string {
	scheme := "http"
	if l.Secure {
		scheme = "https"
	}
	return scheme + " " + l.Network + " " + l.Address
}

// Limits are the numbers that a front end keeps to (spec §39).
type Limits struct {
	MaxConnections, MaxInFlight   int
	ConnTimeout, KeepAliveTimeout time.Duration
	MaxKeepAlive                  int // requests of a connection, 0: no limit
	MaxURL, MaxHead, MaxFields    int
	ServerField                   string // value of Server, "": none
	EnableH2C                     bool
	Clients                       access.ClientLimits // of one client address
	Proxies                       *access.List        // who may send a PROXY header, as trusted entries; nil: nobody
	Grace, ShutdownDelay          time.Duration
}

// Generation is a configuration, resolved. It is immutable once built.
type Generation struct {
	Number    uint64
	Hash      string // SHA-256 of the input files
	Built     time.Time
	Config    *xmlconf.Config
	Inputs    map[string]string // SHA-256 of every file that was read, in hex, by absolute path; "": it could not be
	Listeners []Listener
	Limits    Limits
	Names     extproc.ResolverOptions // of the names of upstreams
	ACME      acme.Options            // account of ACMENames
	ACMENames []string                // names for which certificates are to be issued
	HTTP3     xmlconf.Quic            // settings of HTTP/3
	Shown     []*x509.Certificate     // certificates of files that are shown to clients

	// Degraded says what keeps parts of it from serving: virtual hosts that did
	// not load, secure listeners without a certificate. At start it serves
	// without them; a reload that adds to them is refused (R-CFG-5, R-RELOAD-4).
	Degraded []string

	table        *contexts.Table
	htaccess     []hostDirs // of all hosts, those of contexts too
	files        *docroot.Cache
	acme         *acme.Manager             // nil: none
	tls          map[string]*tlsconf.Names // by Listener.Key
	quic         map[string]bool           // likewise: listeners that are to have HTTP/3
	logs         map[string][]hostLog      // access logs of virtual hosts by name, where they have their own
	serverLogs   []hostLog                 // of all others
	clock        accesslog.Clock
	errorLog     io.Writer
	level        slog.Level
	sinks        []*accesslog.Sink
	metrics      *metrics.Metrics
	log          *slog.Logger
	certificates []string // inputs that are no configuration
	upstreams    []*upstream
	labels       map[[2]string]bool // scopes and names that upstreams have
	routes       map[routeKey]*metrics.Route
	rates        []*access.Rate   // limits of clients that it leases
	routed       []metrics.Routed // the same, in the order of the file
	leases       []func()
	started      []*apps.App
	tunnels      map[string]*tunnels.Set // that it leases
	probes       *probes.Scheduler
	peers        []probes.Peer // that it probes
	sites        []*pagecache.Site
	proxyCaches  []ProxyCache
	exporter     *trace.Exporter  // of spans; nil: they go nowhere
	timelines    *trace.Timelines // nil: nobody may ask for one
}

type hostLog struct {
	out    *accesslog.Sink
	format accesslog.Format
	layout *accesslog.Layout // in the place of format; nil: none
}

// line appends the line of x.
func (l *hostLog) line(buf []byte, x *exchange.Exchange, err error, c *accesslog.Clock) []byte {
	if l.layout != nil {
		return l.layout.Line(buf, x, err, c, x.Ended)
	}
	return l.format.Line(buf, x, err, c, x.Ended)
}

// Serve answers x by the table.
func (g *Generation) Serve(x *exchange.Exchange) error {
	err := g.table.Serve(x)
	if x.Timeline != nil && x.Detached() != nil { // spans end with the handshake (R-TRACE-3)
		g.recorded(x, err, time.Now())
	}
	return err
}

// Finished writes the access log and counts x after its last byte.
func (g *Generation) Finished(x *exchange.Exchange, err error) {
	took := x.Ended.Sub(x.Began)
	x.EndAttempt(x.Ended)
	if x.Timeline != nil {
		g.recorded(x, err, x.Ended)
	}
	g.metrics.Finished(x, err, took)
	g.routeOf(x).Finished(x.LoggedStatus(err), took)
	if err != nil {
		g.explain(x, err)
	}
	logs, own := g.logs[x.Route.VHost]
	if !own {
		logs = g.serverLogs
	}
	if len(logs) == 0 || x.Says("dontlog") {
		return
	}
	buf := lines.Get().(*[]byte)
	for i := range logs {
		*buf = logs[i].line((*buf)[:0], x, err, &g.clock)
		logs[i].out.Write(*buf) // never fails, and never waits
	}
	lines.Put(buf)
}

// explain logs why an answer of ours is a server error, or was cut: the access
// log holds the status only. A client that went away, and what it did wrong, is
// told at debug level.
func (g *Generation) explain(x *exchange.Exchange, err error) {
	level, status := slog.LevelDebug, exchange.StatusOf(err)
	if status >= 500 {
		level = slog.LevelWarn
	}
	if !g.log.Enabled(context.Background(), level) || errors.Is(err, exchange.ErrPanic) { // which is logged
		return
	}
	args := []any{"status", status, "reason", exchange.ReasonOf(err), "vhost", x.Route.VHost, "route", x.Route.Label, "group", x.Route.Group, "request", x.Req.ID}
	if x.TraceID != "" {
		args = append(args, "trace", x.TraceID)
	}
	g.log.Log(context.Background(), level, "request failed", append(args, "err", err)...)
}

// lines holds buffers for lines of the access log.
var lines = sync.Pool{New: func() any { b := make([]byte, 0, 512); return &b }}

// TLS chooses the certificate of a listener for a handshake.
func (g *Generation) TLS(listener string, hello *tls.ClientHelloInfo) (*tls.Config, error) {
	if g.acme != nil && acme.IsChallenge(hello) {
		return g.acme.Handshake(hello.ServerName)
	}
	names := g.tls[listener]
	if names == nil {
		return nil, fmt.Errorf("listener %q has no certificate", listener)
	}
	return names.Choose(hello.ServerName)
}

// ChooseQUIC chooses the certificate of a listener for a handshake of QUIC.
func (g *Generation) ChooseQUIC(listener string, hello *tls.ClientHelloInfo) (*tls.Config, error) {
	names := g.tls[listener]
	if names == nil {
		return nil, fmt.Errorf("listener %q has no certificate", listener)
	}
	return names.ChooseQUIC(hello.ServerName)
}

// WantsQUIC reports whether a listener is to have HTTP/3.
func (g *Generation) WantsQUIC(listener string) bool { return g.quic[listener] }

// TellQUIC makes answers over TLS of a listener say at which port it speaks HTTP/3. It
// is called once its socket is bound: before g is published, or after an upgrade, when
// the process before has given it up and g serves already. One goroutine calls it.
func (g *Generation) TellQUIC(listener string, port int) {
	told := map[string]string{listener: fmt.Sprintf(`h3=":%d"; ma=86400`, port)}
	if before := g.table.AltSvc.Load(); before != nil {
		for other, says := range *before {
			if other != listener {
				told[other] = says
			}
		}
	}
	g.table.AltSvc.Store(&told)
}

// Trusted reports whether the server's list trusts an address.
func (g *Generation) Trusted(a netip.Addr) bool { return g.table.Access.Trusted(a) }

// Files is the cache of its files. Its owner expires it once a second.
func (g *Generation) Files() *docroot.Cache { return g.files }

// Sinks are the log files in use.
func (g *Generation) Sinks() []*accesslog.Sink { return g.sinks }

// ErrorLog is where the error log goes and its least level.
func (g *Generation) ErrorLog() (io.Writer, slog.Level) { return g.errorLog, g.level }

// KeepTunnels is called when g is about to be published: tunnels of what it has are
// not closed, although their time may run.
func (g *Generation) KeepTunnels() {
	for _, s := range g.tunnels {
		s.Stay()
	}
}

// Retire ends the probes and gives the leases up. The generation serves no new
// exchange; those that began with it finish on it, and what owns sockets drains
// itself. A nil generation has nothing to give up.
func (g *Generation) Retire() {
	if g == nil {
		return
	}
	g.StopProbes()
	for _, release := range g.leases {
		release()
	}
	g.leases = nil
	g.files.Close()
}

// numbers counts generations of the process.
var numbers atomic.Uint64
