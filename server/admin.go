package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"httpjet/front"
	"httpjet/generation"
	"httpjet/metrics"
	"httpjet/status"
	"httpjet/xmlconf"
)

// observe lets the metrics read what runs. It is called once, when there are metrics.
func (s *Server) observe() {
	s.kept.Metrics.Watch(metrics.Gauges{
		ActiveConnections: func() int { return s.front.Snapshot().Active },
		ActiveRequests:    func() int { return s.front.Snapshot().InFlight },
		ParkedConnections: func() int { return s.front.Snapshot().Parked },
		WebSocketRelays:   func() int { return s.front.Snapshot().Tunnels },
		Bugs:              func() int { return int(s.front.Snapshot().Bugs) },
		Overloaded:        func() int { return int(s.front.Snapshot().Overloaded) },
		Clients: func() metrics.Clients {
			n := s.kept.Clients.Snapshot()
			return metrics.Clients{Refused: uint64(n.Refused), Banned: uint64(n.Banned), Delayed: uint64(n.Delayed), Limited: uint64(n.Limited),
				Strangers: uint64(s.front.Snapshot().Strangers)}
		},
		HTTP2: s.http2Counts,
		TLS:   s.tlsCounts,
		Spans: func() metrics.Spans {
			n := &s.kept.Spans
			return metrics.Spans{Exported: n.Exported.Load(), Dropped: n.Dropped.Load(), Failures: n.Failures.Load()}
		},
		Lookups: func() metrics.Lookups {
			n := s.kept.Dialer.Resolver.Stats()
			return metrics.Lookups{Success: n.Success, NotFound: n.NotFound, Failure: n.Failure, StaleAnswers: n.StaleAnswers}
		},
		FastCGI: func() metrics.Gateway {
			if site := s.current.Load(); site != nil {
				return site.FastCGI(&s.kept.FastCGI)
			}
			return metrics.Gateway{}
		},
		LSAPI: func() metrics.Gateway {
			if site := s.current.Load(); site != nil {
				return site.LSAPI(&s.kept.LSAPI)
			}
			return metrics.Gateway{}
		},
		Started:    s.startedCounts,
		ProxyCache: s.kept.ProxyCacheCounts,
		Compression: func() metrics.Compression {
			n := s.kept.Encoders.Counts()
			return metrics.Compression{Gzip: n.Gzip, Brotli: n.Brotli, Zstd: n.Zstd, In: n.In, Out: n.Out, Refused: n.Refused, Memory: n.InUse}
		},
		PageCache: s.pageCacheCounts,
		Buffers:   s.bufferCounts,
		LiteSpeed: s.liteSpeedCounts,
		Rates: func() []metrics.Rate {
			if site := s.current.Load(); site != nil {
				return site.Rates()
			}
			return nil
		},
		Probed: func() []metrics.Probed {
			if site := s.current.Load(); site != nil { // none before the first is published
				return site.Probed()
			}
			return nil
		},
	})
	s.kept.Metrics.WatchGroups(func() metrics.Groups {
		if current := s.current.Load(); current != nil {
			return current.Groups()
		}
		return metrics.Groups{}
	})
	s.kept.Metrics.WatchRoutes(func() []metrics.Routed {
		if current := s.current.Load(); current != nil {
			return current.Routed()
		}
		return nil
	})
}

// startedCounts are those of applications that the server starts.
func (s *Server) startedCounts() metrics.Started {
	out := metrics.Started{States: map[string]int{}}
	for _, a := range s.apps.List() {
		out.States[a.State.String()]++
		out.Restarts += a.Restarts
	}
	return out
}

// bufferCounts are those of request bodies that are held.
func (s *Server) bufferCounts() metrics.Buffers {
	b := s.kept.Bodies
	return metrics.Buffers{Bytes: b.Bytes.Used(), MaxBytes: b.Bytes.Max(), Bodies: b.Count.InUse(), MaxBodies: b.Count.Max(), Refused: b.Refused()}
}

// liteSpeedCounts are those that only names of LiteSpeed's exporter tell.
func (s *Server) liteSpeedCounts() metrics.LiteSpeed {
	n := s.front.Snapshot()
	secure := s.front.Secure()
	out := metrics.LiteSpeed{Version: "httpjet/" + Version, Plain: n.Active - secure, Secure: secure, Idle: n.Parked, Requests: n.InFlight}
	if site := s.current.Load(); site != nil {
		out.MaxConnections = site.limits.MaxConns
		out.Apps = site.LiteSpeedApps()
	}
	return out
}

// http2Counts are those of the front end.
func (s *Server) http2Counts() metrics.HTTP2 {
	n := s.front.Snapshot().H2
	out := metrics.HTTP2{Resets: uint64(n.Resets), Refused: uint64(n.Refused), Ended: make(map[string]uint64, len(n.Ended))}
	for code, v := range n.Ended {
		out.Ended[code] = uint64(v)
	}
	return out
}

// tlsCounts are those of handshakes, QUIC and certificates.
func (s *Server) tlsCounts() metrics.TLS {
	n, orders := s.front.Snapshot(), s.acme.Counts()
	out := metrics.TLS{HandshakeErrors: uint64(n.TLSErrors), QUICConnections: n.QUIC.Open, QUICHandshakes: n.QUIC.Shaking, QUICRefused: uint64(n.QUIC.Refused),
		Issued: uint64(orders.Issued), Renewed: uint64(orders.Renewed), NotIssued: uint64(orders.Failed)}
	responses, failed := s.ocsp.Counts()
	out.Responses, out.NoResponses = uint64(responses), uint64(failed)
	for _, c := range s.certificates() {
		switch {
		case c.NotAfter == nil:
			out.Missing++
		default:
			out.Certificates = append(out.Certificates, metrics.Certificate{Name: c.Name, Source: c.Source, NotAfter: *c.NotAfter})
		}
		if c.Error != "" {
			out.Failing++
		}
	}
	return out
}

// certificates are those that clients are shown, of files and of ACME.
func (s *Server) certificates() (list []status.Certificate) {
	if current := s.current.Load(); current != nil {
		for _, leaf := range current.Shown {
			name, until := leaf.Subject.CommonName, leaf.NotAfter.UTC()
			if len(leaf.DNSNames) > 0 {
				name = leaf.DNSNames[0]
			}
			list = append(list, status.Certificate{Name: strings.ToValidUTF8(name, "?"), Source: "file", NotAfter: &until})
		}
	}
	for _, st := range s.acme.States() {
		c := status.Certificate{Name: st.Name, Source: "acme", Error: st.Err}
		if !st.NotAfter.IsZero() {
			until := st.NotAfter.UTC()
			c.NotAfter = &until
		}
		list = append(list, c)
	}
	return list
}

// state is the process as status shows it. Any goroutine may call it.
func (s *Server) state() status.State {
	n := s.front.Snapshot()
	out := status.State{Version: Version, Started: s.started, Draining: s.draining.Load(), Reload: status.Reload{Result: "none"},
		Active: n.InFlight, Open: n.Active, Tunnels: n.Tunnels, Leaving: s.leaving(), ByAge: s.openTunnels(), Apps: s.apps.List(), Caches: s.cacheDocument, Certificates: s.certificates()}
	if r := s.reloaded.Load(); r != nil {
		out.Reload = *r
	}
	if current := s.current.Load(); current != nil {
		out.Generation, out.Listeners = current.Generation, current.open
		out.Management = s.adminConfig(current.Generation)
		out.Finished, out.Classes = s.kept.Metrics.Requests()
		out.Errors = s.kept.Metrics.Errors()
	}
	return out
}

// listenersOf are the listeners of g for people, with the addresses they are bound
// at.
func listenersOf(g *generation.Generation, bound map[string]*front.Listener) []status.Listener {
	out := make([]status.Listener, 0, len(g.Listeners))
	for _, l := range g.Listeners {
		d := status.Listener{Name: l.Name, Address: l.Address, Secure: l.Secure, Protocols: []string{"h1"}}
		if b := bound[l.Key()]; b != nil {
			d.Address = b.Addr().String()
		}
		switch {
		case l.Secure:
			d.Protocols = []string{"h1", "h2"}
		case g.Limits.EnableH2C:
			d.Protocols = []string{"h1", "h2c"}
		}
		out = append(out, d)
	}
	return out
}

// adminConfig is the management listener that g wants; its Addr is "" for none. The
// command line goes before the tree where it says something (R-MGMT-1).
func (s *Server) adminConfig(g *generation.Generation) status.Config {
	c := status.Config{Addr: s.opt.MetricsAddr, Metrics: s.kept.Metrics.Handler(), API: &s.api, Log: s.log}
	m := g.Config.Server.Management
	if m == nil || c.Addr == "" && !s.opt.MetricsDefault {
		return c
	}
	if s.opt.MetricsDefault {
		c.Addr = m.Address
	}
	c.Pprof = m.Pprof
	for _, text := range m.AllowedCIDRs {
		if p, err := netip.ParsePrefix(text); err == nil { // others are load errors
			c.Allow = append(c.Allow, p)
		}
	}
	return c
}

// admins are the two places of the management; nil is one that is off.
type admins struct{ address, socket *status.Server }

// socketConfig is the management's Unix socket that g wants; its Socket is "" for none.
// The command line says nothing of it.
func (s *Server) socketConfig(g *generation.Generation) status.Config {
	c := status.Config{Metrics: s.kept.Metrics.Handler(), API: &s.api, Log: s.log}
	if m := g.Config.Server.Management; m != nil {
		c.Socket, c.Mode, c.Pprof = m.Socket, fs.FileMode(m.SocketMode), m.Pprof
	}
	c.Over = s.opt.Inherited.Alive()
	return c
}

// bindAdmin opens what g wants of the management and is not open where it is to be.
func (s *Server) bindAdmin(g *generation.Generation) (next admins, err error) {
	if next.address, err = s.bindAddress(g); err != nil {
		return admins{}, err
	}
	if next.socket, err = s.bindSocket(g); err != nil {
		next.close()
		return admins{}, err
	}
	return next, nil
}

// close lets go of what serves nobody yet.
func (a admins) close() {
	for _, one := range []*status.Server{a.address, a.socket} {
		if one != nil {
			one.Shutdown(context.Background())
		}
	}
}

// bindAddress opens the management listener of g, unless the running one is where it
// is to be. It is nil if there is none to open.
func (s *Server) bindAddress(g *generation.Generation) (*status.Server, error) {
	c := s.adminConfig(g)
	if c.Addr == "" || s.admin.address != nil && s.admin.address.Serves(c) {
		return nil, nil
	}
	admin, err := status.New(c)
	var ln net.Listener
	if err == nil {
		ln, err = s.opt.Inherited.TCP(adminName, "tcp", c.Addr)
	}
	switch {
	case err != nil:
	case ln != nil:
		admin.Adopt(ln)
	default:
		err = admin.Listen()
	}
	if err == nil {
		return admin, nil
	}
	m := g.Config.Server.Management
	if m == nil || !s.opt.MetricsDefault {
		return nil, fmt.Errorf("--metrics-addr: %w", err)
	}
	hint := bindHint(err)
	if s.admin.address != nil && errors.Is(err, syscall.EADDRINUSE) {
		hint = "the running listener may hold it: another port, or a restart"
	}
	return nil, errors.New(xmlconf.Finding{Code: "E-BIND", Severity: xmlconf.Error, Pos: m.At("address").Pos, Message: err.Error(), Hint: hint}.String())
}

// bindSocket does the same for the socket, which it also makes again where somebody has
// removed it.
func (s *Server) bindSocket(g *generation.Generation) (*status.Server, error) {
	c := s.socketConfig(g)
	if c.Socket == "" || s.admin.socket != nil && s.admin.socket.Serves(c) {
		return nil, nil
	}
	socket, err := status.New(c)
	switch {
	case err != nil:
	case c.Socket == ControlPath(s.opt.Root, s.opt.ControlSocket):
		err = fmt.Errorf("management socket: %s is the control socket", c.Socket)
	default:
		err = socket.Listen()
	}
	if err == nil {
		return socket, nil
	}
	return nil, errors.New(xmlconf.Finding{Code: "E-BIND", Severity: xmlconf.Error, Pos: g.Config.Server.Management.At("socket").Pos, Message: err.Error(),
		Hint: "a path that nobody else has, in a directory that this user may write to"}.String())
}

// switchAdmin makes the management that of g: next, if it was opened for it, else the
// running one with what g says of it, or none.
func (s *Server) switchAdmin(g *generation.Generation, next admins) {
	address, socket := s.adminConfig(g), s.socketConfig(g)
	s.admin.address = s.switchOne(s.admin.address, next.address, address, address.Addr != "")
	s.admin.socket = s.switchOne(s.admin.socket, next.socket, socket, socket.Socket != "")
}

// switchOne returns what answers from now on in the place of old.
func (s *Server) switchOne(old, next *status.Server, c status.Config, wanted bool) *status.Server {
	if next == nil && wanted {
		old.Update(c)
		return old
	}
	if next != nil {
		next.Start()
		name := "metrics"
		if c.Socket != "" {
			name = "management"
		}
		s.log.Info("listening", "listener", name, "address", next.Where(), "secure", false)
	}
	if old != nil {
		shutAdmin(old)
		s.log.Info("listener closed", "address", old.Where())
	}
	return next
}

// keepSocket makes the management's socket again if a successor that did not come to
// serve has taken its path.
func (s *Server) keepSocket() {
	g := s.current.Load().Generation
	next, err := s.bindSocket(g)
	if err != nil {
		s.log.Error("no management socket", "err", err)
		return
	}
	c := s.socketConfig(g)
	s.admin.socket = s.switchOne(s.admin.socket, next, c, c.Socket != "")
}

// stopAdmin ends the management; in a drain it is the last, so that the drain can be
// watched.
func (s *Server) stopAdmin() {
	for _, one := range []*status.Server{s.admin.address, s.admin.socket} {
		if one != nil {
			shutAdmin(one)
		}
	}
	s.admin = admins{}
}

func shutAdmin(one *status.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), adminGrace)
	defer cancel()
	one.Shutdown(ctx)
}

// adminGrace is how long answers to operators may take to finish.
const adminGrace = 2 * time.Second

// openTunnels is the tunnels that are open, by generation.
func (s *Server) openTunnels() (out []status.Tunnels) {
	for _, n := range s.kept.Open.List() {
		out = append(out, status.Tunnels{Generation: n.Generation, Open: n.Open})
	}
	return out
}

// leaving is the tunnels that will be closed.
func (s *Server) leaving() (out []status.Leaving) {
	for _, l := range s.kept.Leaving.List() {
		out = append(out, status.Leaving{Name: l.Name, Open: l.Open, CloseAt: l.Due.UTC()})
	}
	return out
}
