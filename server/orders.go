package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"httpjet/check"
	"httpjet/control"
	"httpjet/generation"
	"httpjet/watch"
	"httpjet/xmlconf"
)

// ReloadRequest is the body of POST /v1/reload on the control socket.
type ReloadRequest struct {
	DryRun bool `json:"dry_run"` // build, bind and ask, but publish nothing
}

// ReloadAnswer is the answer to it, and to POST /v1/rollback.
type ReloadAnswer struct {
	Published  bool               `json:"published"`
	Generation uint64             `json:"generation"` // that serves now
	Hash       string             `json:"hash"`       // of the configuration that was built
	Refused    string             `json:"refused,omitempty"`
	Peers      []generation.Tried `json:"peers,omitempty"` // new ones that a dry run asked
	Difference *check.Difference  `json:"difference,omitempty"`
}

// DiffRequest is the body of POST /v1/diff: the tree below Root against the
// generation in force, which comes first unless Reverse.
type DiffRequest struct {
	Root    string `json:"root"` // absolute
	Reverse bool   `json:"reverse"`
}

// order is work for the goroutine of Run, which owns listeners and reloads.
type order struct {
	do   func()
	done chan struct{}
}

var errStopping = errors.New("the server is stopping")

// ask has the goroutine of Run do something, and waits.
func (s *Server) ask(ctx context.Context, do func()) error {
	o := order{do, make(chan struct{})}
	select {
	case s.orders <- o:
		<-o.done
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.stopped:
		return errStopping
	}
}

// reloadByOrder is POST /v1/reload.
func (s *Server) reloadByOrder(w http.ResponseWriter, r *http.Request) {
	var in ReloadRequest
	err := control.Read(r, &in)
	var out ReloadAnswer
	switch {
	case err != nil:
	case in.DryRun:
		out, err = s.rehearse(r.Context())
	default:
		var refused error
		if err = s.ask(r.Context(), func() { refused = s.reload() }); err == nil {
			err = refused
		}
		running := s.current.Load()
		out = ReloadAnswer{Published: err == nil, Generation: running.Number, Hash: running.Hash}
	}
	control.Answer(w, out, err)
}

// rehearseTime is how long the peers of a rehearsal have in all; the client waits
// longer.
const rehearseTime = 20 * time.Second

// rehearse builds a candidate, binds its new listeners and lets them go, asks its
// new peers, and says what would change. It publishes nothing.
func (s *Server) rehearse(ctx context.Context) (ReloadAnswer, error) {
	running := s.current.Load().Generation
	g, fs := s.build()
	defer g.Retire()
	out := ReloadAnswer{Generation: running.Number}
	if g != nil {
		out.Hash = g.Hash
	}
	if fs.Failed() {
		out.Refused = failed(fs).Error()
		return out, nil
	}
	var bind error
	if err := s.ask(ctx, func() {
		out.Refused = s.lost(g, fs)
		bind = s.tryBind(g)
	}); err != nil {
		return out, err
	}
	if bind != nil {
		out.Refused = bind.Error()
	}
	out.Difference = check.Compare(running, g)
	ctx, cancel := context.WithTimeout(ctx, rehearseTime)
	defer cancel()
	out.Peers = running.Rehearse(ctx, g)
	return out, nil
}

// tryBind binds what publish would, and lets it go.
func (s *Server) tryBind(g *generation.Generation) error {
	bound, err := s.bind(g)
	if err != nil {
		return err
	}
	defer closeAll(bound)
	next, err := s.bindAdmin(g)
	next.close() // it serves nobody: no wait
	return err
}

// historyMax is how many configurations can be gone back to.
const historyMax = 5

// remember keeps the configuration of a generation that next has replaced. A reload
// of the same files, as after each renewal of a certificate, is nothing to go back
// from: it would push out what is.
func (s *Server) remember(g, next *generation.Generation) {
	if g.Hash == next.Hash {
		return
	}
	s.history = append(s.history, past{g.Number, g.Config})
	if n := len(s.history); n > historyMax {
		s.history = append([]past(nil), s.history[n-historyMax:]...)
	}
}

// past is a configuration that has served.
type past struct {
	number uint64
	config *xmlconf.Config
}

// rollbackByOrder is POST /v1/rollback: the configuration that served before
// serves again, whatever the files hold. A change of a file, or SIGHUP, reads the
// files again.
func (s *Server) rollbackByOrder(w http.ResponseWriter, r *http.Request) {
	var out ReloadAnswer
	var refused error
	err := s.ask(r.Context(), func() { out, refused = s.rollback() })
	if err == nil {
		err = refused
	}
	control.Answer(w, out, err)
}

func (s *Server) rollback() (ReloadAnswer, error) {
	notify(reloading, 0)
	defer func() { notify(ready, s.current.Load().Number) }()
	n := len(s.history)
	if n == 0 {
		return ReloadAnswer{}, errors.New("no configuration has served before this one")
	}
	back, before := s.history[n-1], slices.Clone(s.history[:n-1])
	fs := &xmlconf.Findings{}
	g := generation.Build(back.config, &s.kept, s.generationOptions(), fs)
	left := s.current.Load().Generation
	err := error(nil)
	if fs.Failed() {
		err = failed(fs)
	} else if lost := s.lost(g, fs); lost != "" {
		err = errors.New(lost)
	} else {
		err = s.publish(g, fs)
	}
	s.noteReload(err)
	if err != nil {
		g.Retire()
		return ReloadAnswer{}, fmt.Errorf("the configuration of generation %d cannot serve any more: %w", back.number, err)
	}
	s.history = before // the one that was left is not gone back to
	s.watchAsItIs(left, g)
	s.log.Info("rolled back; the files are read again when one changes", "generation", g.Number, "as", back.number)
	s.announce(g)
	return ReloadAnswer{Published: true, Generation: g.Number, Hash: g.Hash}, nil
}

// watchAsItIs watches the inputs of generations from what they hold now: those of the
// one that was left too, since its files are what will be read again.
func (s *Server) watchAsItIs(left, g *generation.Generation) {
	if s.watcher == nil {
		return
	}
	files := watch.Sums{}
	if g.Config.Server.Tuning.WatchConfig {
		for _, of := range []*generation.Generation{left, g} {
			for path := range of.Inputs {
				files[path] = watch.Sum(path)
			}
		}
	}
	s.watcher.Watch(files)
}

// explainByOrder is POST /v1/explain.
func (s *Server) explainByOrder(w http.ResponseWriter, r *http.Request) {
	var q check.Question
	err := control.Read(r, &q)
	var d *check.Decision
	if err == nil {
		if d, err = check.Decide(s.current.Load().Generation, q); err != nil {
			err = &control.Refusal{Status: http.StatusBadRequest, Token: "bad_request", Message: err.Error()}
		}
	}
	control.Answer(w, d, err)
}

// diffByOrder is POST /v1/diff.
func (s *Server) diffByOrder(w http.ResponseWriter, r *http.Request) {
	var in DiffRequest
	if err := control.Read(r, &in); err != nil {
		control.Answer(w, nil, err)
		return
	}
	if !filepath.IsAbs(in.Root) { // the directory of who asks is not ours
		control.Answer(w, nil, &control.Refusal{Status: http.StatusBadRequest, Token: "bad_request", Message: "root is no absolute path"})
		return
	}
	fs := &xmlconf.Findings{}
	var g *generation.Generation
	if cfg := xmlconf.LoadServer(in.Root, fs); cfg != nil {
		g = generation.Build(cfg, &s.kept, s.generationOptions(), fs)
	}
	defer g.Retire()
	if fs.Failed() {
		control.Answer(w, nil, failed(fs))
		return
	}
	running := s.current.Load().Generation
	if in.Reverse {
		control.Answer(w, check.Compare(g, running), nil)
		return
	}
	control.Answer(w, check.Compare(running, g), nil)
}
