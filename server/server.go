// Package server owns everything that runs: the front end, the management listener,
// the control socket, what generations share, and the pointer to the generation in force. It loads,
// reloads on SIGHUP, reopens logs on SIGUSR1 and drains on SIGTERM or SIGINT.
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"httpjet/access"
	"httpjet/accesslog"
	"httpjet/acme"
	"httpjet/apps"
	"httpjet/budget"
	"httpjet/compress"
	"httpjet/control"
	"httpjet/extproc"
	"httpjet/front"
	"httpjet/generation"
	"httpjet/handover"
	"httpjet/metrics"
	"httpjet/pagecache"
	"httpjet/probes"
	"httpjet/staples"
	"httpjet/status"
	"httpjet/watch"
	"httpjet/xmlconf"
)

// Version of this build; the linker sets it.
var Version = "dev"

// Options are what the command line says.
type Options struct {
	Root string // server root with conf/httpd_config.xml

	// HTTPAddr and HTTPSAddr re-address the first plain and secure listener; both
	// "": every listener is bound at its own address (R-CLI-3).
	HTTPAddr, HTTPSAddr string
	RequestIDHeader     bool // answers carry the request id as X-Request-Id (R-PIPE-11)
	Watch               bool // reload when an input changes, unless watchConfig is 0 (R-CLI-4)

	// MetricsAddr is the address of the management listener. With MetricsDefault the
	// <management> of the tree goes before it; without, "" is off.
	MetricsAddr    string
	MetricsDefault bool

	// ControlSocket is the path of the control socket, relative to Root; "": off.
	ControlSocket string

	PageCache generation.PageCache

	// Launcher is the command that becomes a started application (apps.Enter).
	Launcher []string

	// KeptApplications is where applications are that outlive the server. The zero
	// value: none does.
	KeptApplications apps.KeptBy

	// Command is the program and the arguments of this process: an upgrade starts it
	// anew. nil: there are no upgrades.
	Command []string

	// Inherited are sockets that were bound before this process; nil: none.
	Inherited *handover.Set

	Stderr io.Writer // diagnostics, besides the error log; nil: dropped

	// Ready is called once, when all listeners accept: addresses by the name of
	// the listener and, as "metrics", of the management listener. nil: not called.
	Ready func(addrs map[string]string)
}

// Server runs generations.
type Server struct {
	opt   Options
	log   *slog.Logger
	logTo logTarget
	kept  generation.Kept
	apps  apps.Supervisor
	front front.Server
	ocsp  staples.Stapler
	acme  acme.Manager
	api   status.API

	started  time.Time
	draining atomic.Bool                   // the server is stopping
	reloaded atomic.Pointer[status.Reload] // how the last reload ended; nil: none yet
	admin    admins                        // owned by the goroutine of Run
	control  *control.Server               // likewise

	successor *handover.Successor     // of an upgrade under way; owned by the goroutine of Run
	udp       map[string]*net.UDPConn // inherited and not used yet, by generation.Listener.Key; likewise
	missing   bool                    // something that a process before this one has; likewise
	retrying  bool                    // in takeOver; likewise

	orders  chan order    // from the control socket
	stopped chan struct{} // closed when no more orders are taken
	history []past        // configurations that served before, the last one last; owned by the goroutine of Run

	pages  atomic.Pointer[pagecache.Cache] // nil: there was none yet
	stores []string                        // directories with files of page caches, see pageStores; nil: at the start; owned by the goroutine of Run

	watcher    *watch.Watcher // nil: files are not watched
	current    atomic.Pointer[site]
	quicSecret []byte                     // keys of QUIC are made of it; nil: not asked for yet; owned by the goroutine of Run
	listeners  map[string]*front.Listener // by generation.Listener.Key; owned by the goroutine of Run
	said       map[xmlconf.Finding]bool   // findings that were told last; owned by the goroutine of Run
	inForce    map[[2]string]bool         // codes and messages of those of the generation in force, wherever they stand; likewise
}

// site is a generation as the front end sees it.
type site struct {
	*generation.Generation
	limits front.Limits
	open   []status.Listener
}

func (s *site) Limits() *front.Limits { return &s.limits }

// QUIC implements front.QUICSite.
func (s *site) QUIC(listener string, hello *tls.ClientHelloInfo) (*tls.Config, error) {
	return s.ChooseQUIC(listener, hello)
}

// Upgrade is the signal by which the server is succeeded by its program as it is now:
// SIGRTMIN+1 of kill(1).
const Upgrade = syscall.Signal(35)

// Run serves until ctx is done or a signal ends it. It returns nil after an
// orderly end, else why it did not start.
func Run(ctx context.Context, opt Options) error {
	s := &Server{opt: opt, listeners: map[string]*front.Listener{}, started: time.Now(),
		orders: make(chan order), stopped: make(chan struct{})}
	s.api.State = s.state
	s.logTo.set(nil, slog.LevelInfo)
	s.kept.Metrics = metrics.New()
	diagnostics, flush := s.diagnostics()
	defer flush()
	s.log = accesslog.NewErrorLog(&s.logTo.level, &s.logTo, diagnostics)
	s.front.Log = s.log
	if s.opt.Inherited == nil {
		s.opt.Inherited = &handover.Set{}
	}
	defer s.opt.Inherited.Close()
	s.apps.Predecessor = s.opt.Inherited.Predecessor()
	s.acme.Log, s.kept.ACME = s.log, &s.acme
	s.ocsp.Log, s.ocsp.Staples, s.kept.Issued.Wake = s.log, s.staples, s.ocsp.Wake
	s.apps.Log, s.apps.Launcher, s.apps.Kept = s.log, opt.Launcher, opt.KeptApplications
	s.front.Current = func() front.Site { return s.current.Load() }

	// Each kind has room of its own: a burst of reloads becomes one (R-RELOAD-8)
	// and cannot push out the signal that stops the server.
	stops, others := make(chan os.Signal, 2), map[syscall.Signal]chan os.Signal{}
	signal.Notify(stops, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(stops)
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, Upgrade} {
		others[sig] = make(chan os.Signal, 1)
		signal.Notify(others[sig], sig)
		defer signal.Stop(others[sig])
	}

	s.ocsp.Start()
	if err := s.start(); err != nil {
		s.ocsp.Close()
		return err
	}
	background, stop := context.WithCancel(context.Background())
	idle, watched := make(chan struct{}), make(chan struct{})
	go s.expireIdle(background, idle)
	if opt.Watch {
		s.watcher = watch.New(watch.Options{Log: s.log})
	}
	swept := make(chan struct{})
	go s.sweepPages(background, swept)
	go s.watchFiles(background, watched)
	s.watch(s.current.Load().Generation)
	s.log.Info("ready")
	level := slog.LevelError
	if s.opt.Inherited.Predecessor() != 0 { // another configuration than the one before had
		level = slog.LevelInfo
	}
	for _, name := range s.opt.Inherited.Rest() {
		s.log.Log(ctx, level, "inherited socket is of no listener: closed", "socket", name)
	}
	notify(ready, s.current.Load().Number)
	if err := s.opt.Inherited.Ready(); err != nil {
		s.log.Warn("the process before has ended already", "err", err)
	}
	if s.opt.Ready != nil {
		s.opt.Ready(s.addresses())
	}
	s.serve(ctx, stops, others)
	close(s.stopped)
	if s.successor == nil {
		notify(stopping, 0)
	}
	stop()
	<-idle
	<-watched
	<-swept
	s.ocsp.Close()
	s.acme.Close()
	s.drain(stops)
	return nil
}

// staples returns all OCSP responses that are renewed.
func (s *Server) staples() []*staples.Staple {
	return append(s.kept.Staples.Values(), s.kept.Issued.Staples()...)
}

// serve handles signals until one of stops, or ctx, ends the server.
func (s *Server) serve(ctx context.Context, stops <-chan os.Signal, others map[syscall.Signal]chan os.Signal) {
	var changed <-chan []string
	if s.watcher != nil {
		changed = s.watcher.Changed()
	}
	var watchdog <-chan time.Time
	if every := alive(); every > 0 {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		watchdog = ticker.C
	}
	for {
		var again <-chan time.Time
		if s.missing {
			again = time.After(takeOverPeriod)
		}
		select {
		case <-ctx.Done():
			s.draining.Store(true)
			return
		case <-watchdog:
			daemon.SdNotify(false, daemon.SdNotifyWatchdog)
		case <-others[Upgrade]:
			s.upgradeBySignal()
		case <-s.succeeded():
			if s.succeed() {
				s.draining.Store(true)
				return
			}
		case <-again:
			s.takeOver()
		case sig := <-stops:
			s.draining.Store(true) // not ready from here on (R-STOP-1)
			s.log.Info("stopping", "signal", sig.String())
			return
		case <-others[syscall.SIGHUP]:
			s.reload()
			s.keepControl()
		case o := <-s.orders:
			o.do()
			close(o.done)
		case files := <-changed:
			s.log.Info("files changed", "number", len(files), "first", files[0])
			s.reload()
		case <-others[syscall.SIGUSR1]:
			s.reopenLogs()
		case <-others[syscall.SIGUSR2]:
			s.logTo.toggleDebug()
			s.log.Info("log level changed", "debug", s.logTo.level.Level() == slog.LevelDebug)
		}
	}
}

// start builds and publishes the first generation.
func (s *Server) start() error {
	g, fs := s.build()
	if fs.Failed() {
		defer g.Retire()
		return failed(fs)
	}
	s.observe()
	if err := s.publish(g, fs); err != nil {
		g.Retire()
		return err
	}
	s.announce(g)
	s.startControl()
	for _, d := range g.Degraded {
		s.log.Error("not served", "reason", d)
	}
	if os.Geteuid() == 0 {
		s.log.Warn("running as root; start it as an unprivileged user, with CAP_NET_BIND_SERVICE for ports below 1024")
	}
	return nil
}

// build loads the tree and resolves it; nothing is started. The candidate is nil
// if not even the server file could be read.
func (s *Server) build() (*generation.Generation, *xmlconf.Findings) {
	fs := &xmlconf.Findings{}
	cfg := xmlconf.LoadServer(s.opt.Root, fs)
	if cfg == nil {
		return nil, fs
	}
	if s.kept.Bodies == nil {
		t := &cfg.Server.Tuning
		s.kept.Dialer.Resolver = extproc.NewResolver(nil)
		s.kept.Probes = budget.NewPermits(probes.MaxInFlight)
		s.kept.Bodies = &budget.Bodies{Bytes: budget.NewBytes(t.TotalReqBufSize), Count: budget.NewPermits(t.MaxBufferedReqs)}
		if t.CompressMemory > 0 {
			s.kept.Encoders = compress.NewEncoders(t.CompressMemory)
			s.kept.Encoders.Took = s.kept.Metrics.Coded
		}
	}
	return generation.Build(cfg, &s.kept, s.generationOptions(), fs), fs
}

func (s *Server) generationOptions() generation.Options {
	return generation.Options{HTTPAddr: s.opt.HTTPAddr, HTTPSAddr: s.opt.HTTPSAddr, EchoID: s.opt.RequestIDHeader, Version: Version, PageCache: s.opt.PageCache, Log: s.log}
}

// failed is the error for findings that keep a tree from being served: the first
// fatal one, one line, with its position.
func failed(fs *xmlconf.Findings) error {
	var first error
	n := 0
	for _, f := range fs.All() {
		if f.Fatal {
			if n++; first == nil {
				first = errors.New(f.String())
			}
		}
	}
	if n > 1 {
		return fmt.Errorf("%w; and %d more: see httpjet check", first, n-1)
	}
	return first
}

// reportFindings logs what does not act as written; a reload repeats nothing
// that the generation before had said.
func (s *Server) reportFindings(fs *xmlconf.Findings) {
	said := map[xmlconf.Finding]bool{}
	for _, f := range fs.All() {
		said[f] = true
		if s.said[f] {
			continue
		}
		level := slog.LevelDebug
		switch f.Severity {
		case xmlconf.Error:
			level = slog.LevelError
		case xmlconf.Warn:
			level = slog.LevelWarn
		}
		s.log.Log(context.Background(), level, f.Text())
	}
	s.said = said
}

// publish makes g the generation in force, in this order: bind new listeners, that
// of the management last (the last step that may fail), start logs, store the
// pointer, stop the probes of the generation before and start those of g, stop
// removed listeners, accept on new ones, retire the generation before. The findings
// go to the log of g.
func (s *Server) publish(g *generation.Generation, fs *xmlconf.Findings) error {
	bound, err := s.bind(g)
	if err != nil {
		return err
	}
	admin, err := s.bindAdmin(g)
	if err != nil {
		closeAll(bound)
		return err
	}
	for _, sink := range g.Sinks() {
		sink.Start(s.reportLog)
	}
	s.logTo.set(g.ErrorLog())
	if e := g.Exporter(); e != nil {
		e.Start(s.log)
	}
	s.reportFindings(fs)
	s.inForce = map[[2]string]bool{}
	for _, f := range fs.All() {
		s.inForce[[2]string{f.Code, f.Message}] = true
	}
	next := newSite(g, &s.kept.Clients)
	for key, l := range s.listeners {
		if bound[key] == nil {
			bound[key] = l
		}
	}
	next.open = listenersOf(g, bound)
	s.bindQUIC(g, bound)
	s.front.SetLimits(&next.limits)
	s.kept.Dialer.Resolver.Configure(g.Names)
	g.KeepTunnels()
	s.openPages(g)
	for key, l := range s.listeners {
		if !wants(g, key) {
			l.StayWith(s.current.Load())
		}
	}
	old := s.current.Swap(next)
	if old != nil {
		old.StopProbes()
	}
	if err := s.acme.Manage(g.ACME, g.ACMENames); err != nil {
		s.log.Error("no certificates are issued", "err", err)
	}
	g.StartProbes()
	g.StartApplications(&s.apps)
	for key, l := range s.listeners {
		if !wants(g, key) {
			delete(s.listeners, key)
			l.Close()
			s.log.Info("listener closed", "address", l.Addr())
		}
	}
	for _, l := range g.Listeners {
		if nl := bound[l.Key()]; nl != s.listeners[l.Key()] {
			s.listeners[l.Key()] = nl
			s.front.Serve(nl)
			s.log.Info("listening", "listener", l.Name, "address", nl.Addr(), "secure", l.Secure)
		}
	}
	s.serveQUIC(g)
	s.dropQUIC(false)
	s.switchAdmin(g, admin)
	if old != nil {
		s.kept.Leaving.SetDelay(g.Config.Server.Tuning.TunnelCloseDelay)
		s.remember(old.Generation, g)
		old.Retire()
	}
	if n := len(g.Config.Server.Listeners) - len(g.Listeners); n > 0 {
		s.log.Warn("listeners are not opened", "number", n, "of", len(g.Config.Server.Listeners))
	}
	s.ocsp.Wake()
	m := g.Config.Server.Management
	s.kept.Metrics.EnableLiteSpeed(m != nil && m.LiteSpeed)
	s.kept.Metrics.Published(g.Number, time.Now())
	return nil
}

// announce logs a generation that was published.
func (s *Server) announce(g *generation.Generation) {
	s.log.Info("published", "generation", g.Number, "hash", g.Hash, "hosts", len(g.Config.VHosts), "listeners", len(g.Listeners))
}

func newSite(g *generation.Generation, clients *access.Clients) *site {
	l := &g.Limits
	return &site{Generation: g, limits: front.Limits{
		ConnTimeout: l.ConnTimeout, KeepAliveTimeout: l.KeepAliveTimeout, MaxKeepAliveReq: l.MaxKeepAlive,
		MaxTarget: l.MaxURL, MaxHead: l.MaxHead, MaxFields: l.MaxFields,
		MaxConns: l.MaxConnections, MaxInFlight: l.MaxInFlight,
		Clients:   front.Clients{Known: clients, Limits: l.Clients, Exempt: g.Trusted, Proxies: l.Proxies},
		EnableH2C: l.EnableH2C, ServerHeader: l.ServerField,
	}}
}

// wants reports whether g has the listener of a key.
func wants(g *generation.Generation, key string) bool {
	return slices.ContainsFunc(g.Listeners, func(l generation.Listener) bool { return l.Key() == key })
}

// bind opens the listeners that g has and the running generation has not. If one
// fails, those opened before it are closed again.
func (s *Server) bind(g *generation.Generation) (map[string]*front.Listener, error) {
	bound := map[string]*front.Listener{}
	for _, l := range g.Listeners {
		if s.listeners[l.Key()] != nil {
			continue
		}
		nl, err := s.listen(g, l)
		if err != nil {
			closeAll(bound)
			return nil, errors.New(xmlconf.Finding{Code: "E-BIND", Severity: xmlconf.Error, Pos: l.At.Pos,
				Message: fmt.Sprintf("listener %q: %v", l.Name, err), Hint: bindHint(err)}.String())
		}
		bound[l.Key()] = nl
	}
	return bound, nil
}

func closeAll(bound map[string]*front.Listener) {
	for _, l := range bound {
		l.Close()
	}
}

// bindHint is what helps against the usual faults of a bind.
func bindHint(err error) string {
	switch {
	case errors.Is(err, syscall.EACCES):
		return "a port below 1024 needs root or CAP_NET_BIND_SERVICE"
	case errors.Is(err, syscall.EADDRINUSE):
		return "ss -ltnp shows who has it"
	}
	return ""
}

// listen binds l. Where a listener that g has no more is at the address, as when
// TLS is switched on, its socket passes on: no client is refused in between.
func (s *Server) listen(g *generation.Generation, l generation.Listener) (*front.Listener, error) {
	k := front.Key{Network: l.Network, Address: l.Address, Secure: l.Secure}
	for key, old := range s.listeners {
		if old.Key.Network == k.Network && old.Key.Address == k.Address && !wants(g, key) {
			ln, err := old.Share()
			if err != nil {
				return nil, err
			}
			return s.front.Adopt(l.Key(), k, ln), nil
		}
	}
	if ln, err := s.opt.Inherited.TCP(l.Key(), l.Network, l.Address); err != nil || ln != nil {
		if err != nil {
			return nil, err
		}
		return s.front.Adopt(l.Key(), k, ln), nil
	}
	return s.front.Listen(l.Key(), k)
}

// reload builds a candidate and publishes it, or says why not and goes on as
// before (R-RELOAD-1, R-RELOAD-4).
func (s *Server) reload() error {
	notify(reloading, 0)
	defer func() { notify(ready, s.current.Load().Number) }()
	g, fs := s.build()
	defer func() { s.watch(g) }()
	err := error(nil)
	if fs.Failed() {
		err = failed(fs)
	} else if lost := s.lost(g, fs); lost != "" {
		err = errors.New(lost)
		s.reportFindings(fs)
	} else {
		err = s.publish(g, fs)
	}
	s.noteReload(err)
	if err != nil {
		g.Retire()
		s.log.Error("reload refused, the running generation stays", "generation", s.current.Load().Number, "err", err)
		return err
	}
	s.announce(g)
	return nil
}

// noteReload keeps the outcome for metrics and status (R-RELOAD-8).
func (s *Server) noteReload(err error) {
	at := time.Now().UTC()
	r := &status.Reload{Result: "success", At: &at}
	if err != nil {
		r.Result, r.Error = "failure", err.Error()
	}
	s.reloaded.Store(r)
	s.kept.Metrics.Reloaded(err)
}

// lost names something that g would not serve and the running generation does, behind
// the first of the findings of g that may say why; "" if there is nothing. What was
// missing before does not stand in the way.
func (s *Server) lost(g *generation.Generation, fs *xmlconf.Findings) string {
	running := s.current.Load().Degraded
	i := slices.IndexFunc(g.Degraded, func(d string) bool { return !slices.Contains(running, d) })
	if i < 0 {
		return ""
	}
	for _, f := range fs.All() {
		if f.Severity == xmlconf.Error && !s.inForce[[2]string{f.Code, f.Message}] {
			return f.String() + "; " + g.Degraded[i]
		}
	}
	return g.Degraded[i]
}

func (s *Server) reopenLogs() {
	for _, sink := range s.current.Load().Sinks() {
		sink.Start(s.reportLog) // one that could not be opened before
		if err := sink.Reopen(); err != nil {
			s.log.Error("log file cannot be reopened; the old one stays in use", "err", err)
		}
	}
	s.log.Info("logs reopened")
}

// reportLog tells of a log file that cannot be written or rotated; each sink says so once
// until it is over. If it is the error log's own, standard error still has it.
func (s *Server) reportLog(err error) {
	msg := "log file cannot be written"
	if errors.Is(err, accesslog.ErrNotRotated) {
		msg = "log file cannot be rotated"
	}
	s.log.Error(msg, "err", err)
}

// drain ends the server (R-STOP-1 to 4): no new connections, work in flight has
// its time, a second signal ends it at once.
func (s *Server) drain(stops <-chan os.Signal) {
	limits := &s.current.Load().Generation.Limits
	ctx, cancel := context.WithTimeout(context.Background(), limits.ShutdownDelay+limits.Grace)
	watched := make(chan struct{})
	go watchSignals(ctx, cancel, stops, watched)
	if limits.ShutdownDelay > 0 && s.successor == nil {
		wait, stop := context.WithTimeout(ctx, limits.ShutdownDelay)
		<-wait.Done()
		stop()
	}
	if s.successor != nil {
		s.stopAdmin() // the other process answers at that address
	}
	end := s.front.Drain
	if s.successor != nil {
		end = s.front.Yield
	}
	if cut := end(ctx); cut > 0 {
		s.log.Warn("stopped before all work was done", "cut", cut)
	}
	s.dropQUIC(true)
	cancel()
	<-watched
	s.stopControl()
	s.stopAdmin()
	s.log.Info("stopped")
	if c := s.pages.Load(); c != nil {
		c.Close()
	}
	s.apps.Leave() // what outlives the server is left to the next one
	s.current.Load().Retire()
	s.apps.Close()
	s.kept.Dialer.Resolver.Close()
}

// watchSignals cancels the drain at a second signal.
func watchSignals(ctx context.Context, cancel context.CancelFunc, stops <-chan os.Signal, done chan<- struct{}) {
	defer close(done)
	select {
	case <-ctx.Done():
	case <-stops:
		cancel()
	}
}

// expireIdle closes idle upstream connections of all pools and forgets files.
func (s *Server) expireIdle(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	extproc.ExpireIdle(ctx, func() []extproc.Expirer {
		list := []extproc.Expirer{&s.kept.Leaving, s.current.Load().Files()}
		for _, c := range s.kept.Proxies.Values() {
			list = append(list, c)
		}
		for _, c := range s.kept.ProxyCaches.Values() {
			list = append(list, c)
		}
		for _, c := range s.kept.Apps.Values() {
			list = append(list, c)
		}
		return list
	})
}

// sweepPages keeps the page cache clean.
func (s *Server) sweepPages(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	pagecache.SweepLoop(ctx, s.pages.Load)
}

func (s *Server) addresses() map[string]string {
	addrs := map[string]string{}
	for _, l := range s.current.Load().Listeners {
		addrs[l.Name] = s.listeners[l.Key()].Addr().String()
	}
	if s.admin.address != nil {
		addrs["metrics"] = s.admin.address.Addr().String()
	}
	return addrs
}
