package server

import (
	"context"
	"fmt"
	"time"

	"httpjet/metrics"
	"httpjet/status"
)

// startAdmin opens the admin listener, if there is to be one (R-MGMT-1).
func (s *Server) startAdmin() error {
	s.kept.Metrics.Watch(metrics.Gauges{
		ActiveConnections: func() int { return s.front.Snapshot().Active },
		ActiveRequests:    func() int { return s.front.Snapshot().InFlight },
		WebSocketRelays:   func() int { return s.front.Snapshot().Tunnels },
		Bugs:              func() int { return int(s.front.Snapshot().Bugs) },
		Lookups: func() metrics.Lookups {
			n := s.kept.Dialer.Resolver.Stats()
			return metrics.Lookups{Success: n.Success, NotFound: n.NotFound, Failure: n.Failure, StaleAnswers: n.StaleAnswers}
		},
		Probed: func() []metrics.Probed {
			if site := s.current.Load(); site != nil { // none before the first is published
				return site.Probed()
			}
			return nil
		},
	})
	s.kept.Metrics.WatchGroups(func() []metrics.Group {
		if current := s.current.Load(); current != nil {
			return current.Groups()
		}
		return nil
	})
	if s.opt.MetricsAddr == "" {
		return nil
	}
	admin, err := status.New(status.Config{Addr: s.opt.MetricsAddr, Metrics: s.kept.Metrics.Handler(), Log: s.log})
	if err != nil {
		return fmt.Errorf("--metrics-addr: %w", err)
	}
	if err := admin.Listen(); err != nil {
		return fmt.Errorf("--metrics-addr: %w", err)
	}
	admin.Start()
	s.admin = admin
	return nil
}

// stopAdmin ends the admin listener last, so that a drain can be watched.
func (s *Server) stopAdmin() {
	if s.admin == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), adminGrace)
	defer cancel()
	s.admin.Shutdown(ctx)
}

// adminGrace is how long answers of the admin listener may take to finish.
const adminGrace = 2 * time.Second
