package server

import (
	"context"
	"net/http"
	"path/filepath"

	"httpjet/control"
	"httpjet/generation"
	"httpjet/status"
)

// DrainRequest is the body of POST /v1/drain and /v1/undrain on the control socket.
type DrainRequest struct {
	Group string `json:"group"` // name of a processor, or scope/name
	Peer  string `json:"peer"`  // ordinal, or address as in the configuration
}

// DrainAnswer is the answer to it.
type DrainAnswer struct {
	Scope    string `json:"scope"`
	Group    string `json:"group"`
	Peer     int    `json:"peer"`    // ordinal
	Address  string `json:"address"` // of the peer: who may ask here may know it
	Draining bool   `json:"draining"`
	Active   int    `json:"active"`   // requests that are with the peer; 0: it may be stopped
	Eligible int    `json:"eligible"` // peers of the group that can have requests
}

// ControlPath is where the control socket of a server root is: path, relative to
// the root.
func ControlPath(root, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(root, path)
}

// commands are what the control socket answers: documents and metrics of the management
// listener, for who may not have a port, and what changes something at run time.
func (s *Server) commands() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /", &status.API{State: s.state, Whole: true})
	mux.Handle("GET /metrics", s.kept.Metrics.Handler())
	mux.HandleFunc("POST /v1/drain", func(w http.ResponseWriter, r *http.Request) { s.drainPeer(w, r, true) })
	mux.HandleFunc("POST /v1/undrain", func(w http.ResponseWriter, r *http.Request) { s.drainPeer(w, r, false) })
	mux.HandleFunc("POST /v1/reload", s.reloadByOrder)
	mux.HandleFunc("POST /v1/upgrade", s.upgradeByOrder)
	mux.HandleFunc("POST /v1/rollback", s.rollbackByOrder)
	mux.HandleFunc("POST /v1/explain", s.explainByOrder)
	mux.HandleFunc("POST /v1/diff", s.diffByOrder)
	mux.HandleFunc("POST /v1/cache/list", s.listPages)
	mux.HandleFunc("POST /v1/cache/why", s.whyPage)
	mux.HandleFunc("POST /v1/cache/purge", s.purgePages)
	return mux
}

// drainPeer sets or clears a drain that lasts until the process ends (R-DRAIN-2).
func (s *Server) drainPeer(w http.ResponseWriter, r *http.Request, drain bool) {
	var in DrainRequest
	if err := control.Read(r, &in); err != nil {
		control.Answer(w, nil, err)
		return
	}
	d, err := s.current.Load().Drain(in.Group, in.Peer, drain)
	if err == nil {
		s.log.Info("peer drain changed", "scope", d.Scope, "group", d.Group, "peer", d.Ordinal, "draining", d.Draining, "active", d.Active)
	}
	control.Answer(w, answerOf(d), err)
}

func answerOf(d generation.Drained) DrainAnswer {
	return DrainAnswer{d.Scope, d.Group, d.Ordinal, d.Address, d.Draining, d.Active, d.Eligible}
}

// startControl opens the control socket, once there is a generation. A server that
// cannot have one serves all the same: it may not be allowed to write there.
func (s *Server) startControl() {
	path := ControlPath(s.opt.Root, s.opt.ControlSocket)
	if path == "" {
		return
	}
	c := control.New(control.Config{Path: path, Handler: s.commands(), Log: s.log, Over: s.opt.Inherited.Alive()})
	if err := c.Listen(); err != nil {
		s.log.Warn("no control socket: httpjet status, reload, rollback, drain and the like cannot ask this server", "err", err)
		return
	}
	c.Start()
	s.control = c
}

// keepControl opens the control socket again if it has been removed, or could not be
// opened before. SIGHUP asks for it.
func (s *Server) keepControl() {
	if s.control != nil && !s.control.Lost() {
		return
	}
	s.stopControl()
	s.control = nil
	s.startControl()
}

func (s *Server) stopControl() {
	if s.control == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), adminGrace)
	defer cancel()
	s.control.Shutdown(ctx)
}
