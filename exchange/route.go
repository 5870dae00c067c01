package exchange

import (
	"os"
	"sync/atomic"
	"time"
)

// Kind is a kind of handler.
type Kind uint8

const (
	Unrouted  Kind = iota // refused before a handler was chosen, or answered without one
	Files                 // static
	Proxy                 // an HTTP upstream
	FastCGI               // a FastCGI application
	LSAPI                 // an LSAPI application
	WebSocket             // a WebSocket map
)

func (k Kind) String() string {
	return [...]string{"none", "static", "proxy", "fastcgi", "lsapi", "websocket"}[k]
}

// Route is what the table chose for an exchange. Logs and metrics read it.
type Route struct {
	Kind  Kind   // what kind of handler answers
	VHost string // virtual host name, "" before one was found
	Label string // uri of the context as configured, or "static", "script", "unmatched"
	Scope string // scope of the upstream, "server" or "vhost:<name>"; "" if none
	Group string // name of the upstream's processor; "" if none

	// Foreign: the Host is mapped to this virtual host by the catch-all alone, on a
	// listener that maps names (R-LSN-4). No cache takes part.
	Foreign bool
}

// Resource is what the path of an exchange resolved to on disk. The table sets
// it for routes that need a file; static and script serve it. Run closes it.
type Resource struct {
	File     *os.File    // the opened regular file; nil if Content holds it or the route needs none
	Content  []byte      // the whole file if it is held in memory, else nil; shared, never written to
	Info     os.FileInfo // of the file
	Root     string      // document root, absolute
	Filename string      // absolute path by which the file was opened (SCRIPT_FILENAME)
	Name     string      // part of Req.Path that names it, index file included (SCRIPT_NAME)
	PathInfo string      // rest of Req.Path behind Name, "" or starting with '/'

	Type     string // media type of the file, also where the answer names none (304) or another one; "": not known
	Siblings uint8  // codings in which it lies beside itself, a set of package coding
	Coding   string // Content-Encoding of the file: it was taken in the place of Name; "" for none

	// Listing is set in the place of a file for a directory that is to be listed.
	Listing *Listing

	// A file that others are sending too: it has no position of its own, and
	// Release gives it back. nil: File is this exchange's own.
	Release func()
	Memo    *Memo  // of this version of a file that is remembered; else nil
	Copies  Copies // of Content in other codings; nil: none are kept
}

// Listing is what a directory holds for everybody to see.
type Listing struct {
	Entries []Entry
	More    bool // there are others, which are not told
}

// Entry is one name in a directory.
type Entry struct {
	Name     string
	Dir      bool
	Size     int64 // bytes, of a file
	Modified time.Time
}

// Close closes File or gives it back. The second call does nothing.
func (r *Resource) Close() {
	f, release := r.File, r.Release
	r.File, r.Release = nil, nil
	switch {
	case release != nil:
		release()
	case f != nil:
		f.Close()
	}
}

// Memo holds what a handler has worked out about one version of a file, for the
// next exchange with it. Any number of exchanges use it at once; what is in it is
// only read. A nil Memo holds nothing.
type Memo struct{ v atomic.Pointer[any] }

// Get returns what was put last, nil for nothing.
func (m *Memo) Get() any {
	if m == nil {
		return nil
	}
	if v := m.v.Load(); v != nil {
		return *v
	}
	return nil
}

// Put keeps v.
func (m *Memo) Put(v any) {
	if m != nil {
		m.v.Store(&v)
	}
}
