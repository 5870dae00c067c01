// Package watch tells when the contents of files have changed: the files of a
// configuration and the certificates it names. It compares contents, knows no
// configuration, and decides nothing.
//
// Editors and tools change a file in many ways: they write into it, rename
// another over it, delete and create it, point a link elsewhere (as Kubernetes
// does with config maps). So what is watched is not the file, which may be
// another one afterwards, but every directory entry on the way to it.
package watch

import (
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Options of a Watcher. The zero value is useful.
type Options struct {
	Quiet time.Duration // files are compared after this long without an event; 0: 500 ms (R-CLI-4)
	Late  time.Duration // but at the latest this long after the first event; 0: 1.5 s
	Poll  time.Duration // how often files are looked at for which there are no events; 0: 2 s

	// Blind makes every file one for which there are no events. Otherwise these
	// are the files of network file systems, and those whose directories cannot
	// be watched.
	Blind bool

	Log *slog.Logger // receives why there are no events; nil: dropped
}

// Sums are the contents of files: SHA-256 in hex by absolute path, "" for a file
// that could not be read.
type Sums map[string]string

// Watcher watches a set of files. Run must be running for anything to be told.
type Watcher struct {
	o       Options
	sets    chan Sums
	changed chan []string
}

// New returns a watcher of no files.
func New(o Options) *Watcher {
	for _, d := range []struct {
		v    *time.Duration
		dflt time.Duration
	}{{&o.Quiet, 500 * time.Millisecond}, {&o.Late, 1500 * time.Millisecond}, {&o.Poll, 2 * time.Second}} {
		if *d.v <= 0 {
			*d.v = d.dflt
		}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Watcher{o: o, sets: make(chan Sums, 1), changed: make(chan []string, 1)}
}

// Watch sets the files and what they held when they were used. A file that holds
// something else already is a change. It does not block; the last call counts.
func (w *Watcher) Watch(files Sums) {
	for {
		select {
		case w.sets <- files:
			return
		default:
		}
		select {
		case <-w.sets: // one that Run has not seen
		default:
		}
	}
}

// Changed delivers the paths, sorted, of files that hold something else than
// when they were told last, or than Watch said. It is told once.
func (w *Watcher) Changed() <-chan []string { return w.changed }

// run is the state of Run.
type run struct {
	*Watcher
	events *fsnotify.Watcher // nil: there are none
	files  Sums              // what was told or used last
	near   map[string]names  // entries that matter, by directory
	added  map[string]bool   // directories, and files that are mounts, that events come from
	blind  []string          // files that are polled
	looks  map[string]look   // of the files that are polled
	quiet  <-chan time.Time  // when the files are compared
	first  time.Time         // first event since they were compared
}

type names map[string]bool

// Run watches until ctx is done. It is one goroutine, owned by the caller.
func (w *Watcher) Run(ctx context.Context) {
	r := &run{Watcher: w, added: map[string]bool{}, looks: map[string]look{}}
	if !w.o.Blind {
		events, err := fsnotify.NewWatcher()
		if err != nil {
			w.o.Log.Warn("files are polled", "why", err)
		} else {
			r.events = events
			defer events.Close()
		}
	}
	r.loop(ctx)
}

func (r *run) loop(ctx context.Context) {
	poll := time.NewTicker(r.o.Poll)
	defer poll.Stop()
	var events <-chan fsnotify.Event
	var faults <-chan error
	if r.events != nil {
		events, faults = r.events.Events, r.events.Errors
	}
	for {
		select {
		case <-ctx.Done():
			return
		case r.files = <-r.sets:
			r.files = maps.Clone(r.files)
			r.place()
			r.wait() // what has changed before gave no event
		case e := <-events:
			if r.matters(e.Name) {
				r.wait()
			}
		case err := <-faults: // events were lost
			r.o.Log.Debug("file events", "err", err)
			r.wait()
		case <-poll.C:
			if r.looked() {
				r.wait()
			}
		case <-r.quiet:
			r.place() // the way to a file may be another one now
			r.compare()
		}
	}
}

// wait puts the comparison off until there is quiet, but not for ever.
func (r *run) wait() {
	now := time.Now()
	if r.quiet == nil {
		r.first = now
	}
	r.quiet = time.After(min(r.o.Quiet, max(0, r.first.Add(r.o.Late).Sub(now))))
}

// compare tells which files have changed.
func (r *run) compare() {
	r.quiet = nil
	var paths []string
	for path, was := range r.files {
		if sum := Sum(path); sum != was {
			r.files[path] = sum
			paths = append(paths, path)
		}
	}
	if paths == nil {
		return
	}
	select { // what was told and not taken yet is told along
	case earlier := <-r.changed:
		paths = append(paths, earlier...)
	default:
	}
	slices.Sort(paths)
	r.changed <- slices.Compact(paths)
}

// matters reports whether an event is about an entry on the way to a file, or
// about something that is watched itself and has gone.
func (r *run) matters(name string) bool {
	return r.added[name] || r.near[filepath.Dir(name)][filepath.Base(name)]
}

// place watches every directory on the way to each file. A directory that has
// been replaced has lost its watch; adding one that is there costs nothing.
func (r *run) place() {
	r.near, r.blind = map[string]names{}, nil
	want := map[string]bool{}
	for path := range r.files {
		steps, mount := way(path)
		seen := r.events != nil && len(steps) > 0 && !remote(steps[len(steps)-1].dir)
		for _, s := range steps {
			if r.near[s.dir] == nil {
				r.near[s.dir] = names{}
			}
			r.near[s.dir][s.name] = true
			want[s.dir] = true
		}
		if mount {
			want[path] = true
		}
		if !seen {
			r.blind = append(r.blind, path)
		}
	}
	r.watch(want)
	r.looked()
}

// watch makes events come from the directories in want and from no others.
func (r *run) watch(want map[string]bool) {
	if r.events == nil {
		return
	}
	for dir := range r.added {
		if !want[dir] {
			r.events.Remove(dir)
			delete(r.added, dir)
		}
	}
	for dir := range want {
		err := r.events.Add(dir)
		if r.added[dir] = err == nil; err != nil {
			delete(r.added, dir)
			r.o.Log.Debug("no events of a directory, its files are polled", "directory", dir, "why", err)
			r.pollBelow(dir)
		}
	}
}

// pollBelow polls the files whose way leads through dir.
func (r *run) pollBelow(dir string) {
	for path := range r.files {
		steps, _ := way(path)
		if slices.ContainsFunc(steps, func(s step) bool { return s.dir == dir }) && !slices.Contains(r.blind, path) {
			r.blind = append(r.blind, path)
		}
	}
}

// looked reports whether a polled file looks different than at the last time.
func (r *run) looked() (changed bool) {
	looks := make(map[string]look, len(r.blind))
	for _, path := range r.blind {
		l := lookAt(path)
		if was, known := r.looks[path]; known && was != l {
			changed = true
		}
		looks[path] = l
	}
	r.looks = looks
	return changed
}
