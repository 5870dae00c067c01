// Package watch tells when the contents of files have changed: the files of a
// configuration and the certificates it names. It compares contents, knows no
// configuration, and decides nothing.
//
// Editors and tools change a file in many ways: they write into it, rename
// another over it, delete and create it, point a link elsewhere (as Kubernetes
// does with config maps). So what is watched is not the file, which may be
// another one afterwards, but every directory entry on the way to it. Among the
// files may be patterns: what they hold is which files there are.
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

	refuse   func(dir string) error // of tests: why there are no events of a directory
	compared func(Sums)             // of tests: told after each comparison
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
	events *fsnotify.Watcher   // nil: there are none
	files  Sums                // what was told or used last
	near   map[string]names    // entries that matter, by directory
	added  map[string]bool     // directories, and files that are mounts, that events come from
	below  map[string][]string // files whose way leads through a directory
	blind  map[string]bool     // files that are polled
	looks  map[string]look     // of the files that are polled
	quiet  <-chan time.Time    // when the files are compared
	first  time.Time           // first event since they were compared
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
	if r.compared != nil {
		r.compared(r.files)
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
	near, base := r.near[filepath.Dir(name)], filepath.Base(name)
	if r.added[name] || near[base] {
		return true
	}
	for pattern := range near {
		if matched, err := filepath.Match(pattern, base); isPattern(pattern) && matched && err == nil {
			return true
		}
	}
	return false
}

// place watches every directory on the way to each file. A directory that has
// been replaced has lost its watch; adding one that is there costs nothing.
func (r *run) place() {
	r.near, r.below, r.blind = map[string]names{}, map[string][]string{}, map[string]bool{}
	want := map[string]bool{}
	for path := range r.files {
		for _, p := range places(path) {
			r.placeOne(path, p, want)
		}
	}
	r.watch(want)
	r.looked()
}

// placeOne finds the directories on the way to one place of a file.
func (r *run) placeOne(path, place string, want map[string]bool) {
	steps, mount := way(place)
	seen := r.events != nil && len(steps) > 0 && !remote(steps[len(steps)-1].dir)
	for _, s := range steps {
		if r.near[s.dir] == nil {
			r.near[s.dir] = names{}
		}
		r.near[s.dir][s.name] = true
		r.below[s.dir] = append(r.below[s.dir], path)
		want[s.dir] = true
	}
	if mount {
		want[place] = true
		r.below[place] = append(r.below[place], path)
	}
	if !seen {
		r.blind[path] = true
	}
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
		err := r.add(dir)
		if r.added[dir] = err == nil; err != nil {
			delete(r.added, dir)
			r.o.Log.Debug("no events of a directory, its files are polled", "directory", dir, "why", err)
			for _, path := range r.below[dir] {
				r.blind[path] = true
			}
		}
	}
}

func (r *run) add(dir string) error {
	if r.refuse != nil {
		return r.refuse(dir)
	}
	return r.events.Add(dir)
}

// looked reports whether a polled file looks different than at the last time.
func (r *run) looked() (changed bool) {
	looks := make(map[string]look, len(r.blind))
	for path := range r.blind {
		l := lookAt(path)
		if was, known := r.looks[path]; known && was != l {
			changed = true
		}
		looks[path] = l
	}
	r.looks = looks
	return changed
}
