package server

import (
	"context"
	"fmt"
	"maps"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"httpjet/generation"
	"httpjet/watch"
)

// watch sets what is watched when g has been built, which may have been refused.
func (s *Server) watch(g *generation.Generation) {
	if s.watcher == nil || g == nil {
		return // not even the server file could be read: what was watched stays
	}
	s.watcher.Watch(watched(s.current.Load().Generation, g))
}

// watched is the inputs of the running generation, and those of g, which was built
// last. A refused one is not built again before something changes. A generation with
// watchConfig 0 watches nothing, so that only SIGHUP turns it on again.
func watched(running, g *generation.Generation) watch.Sums {
	files := watch.Sums{}
	if !running.Config.Server.Tuning.WatchConfig {
		return files
	}
	for path := range running.Inputs { // g does without: that it has changed since is no news
		if _, used := g.Inputs[path]; !used {
			files[path] = watch.Sum(path)
		}
	}
	maps.Copy(files, g.Inputs)
	return files
}

// watchFiles tells of changes to inputs until ctx is done.
func (s *Server) watchFiles(ctx context.Context, done chan<- struct{}) {
	defer close(done)
	if s.watcher != nil {
		s.watcher.Run(ctx)
	}
}

// States that a service manager is told (sd_notify(3)).
const (
	ready     = "READY=1"
	reloading = "RELOADING=1"
	stopping  = "STOPPING=1"
)

// notify tells the service manager, if there is one that wants to know. It may
// not, and need not, know whether that arrived.
func notify(state string, number uint64) {
	switch state {
	case ready:
		state += fmt.Sprintf("\nSTATUS=serving generation %d", number)
	case reloading: // Type=notify-reload compares the time with that of its signal
		var now unix.Timespec
		if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) == nil {
			state += fmt.Sprintf("\nMONOTONIC_USEC=%d", now.Nano()/1000)
		}
	}
	daemon.SdNotify(false, state)
}
