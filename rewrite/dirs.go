// Package rewrite knows what rewrite rules and .htaccess files say about a path.
// Compile makes a Program of rules, and Program.Run says what becomes of a request.
// Dirs reads .htaccess files and remembers them; a Chain is those on the way to one
// path: who may not come in (Chain.Verdict), which rules run there (Chain.Rules), and
// what else they say of the answer (Chain.Settings). It serves no file and sends no
// answer.
package rewrite

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"httpjet/exchange"
)

const (
	maxDirs  = 16384       // directories remembered (R-RW-1)
	maxDepth = 64          // directories on the way to a file
	maxName  = 257         // bytes of a remembered name with its slashes
	fresh    = time.Second // how long a directory is believed unseen (R-RW-1)
)

// Options says where .htaccess files are and how they are read.
type Options struct {
	Root     string           // document root, absolute
	FileName string           // accessFileName; "" is ".htaccess"
	MaxBytes int64            // largest file that is read; 0 is 1 MiB
	Now      func() time.Time // clock; nil is time.Now

	Prefix   string          // URL path that Root stands for; "" is "/"
	Override Override        // groups of directives that count; refusals always do
	Maps     map[string]*Map // of rules, by name
	Host     *Host           // what expressions may ask; nil: nothing

	// Realm makes the guard of users in files, absolute; groups may be "". name is
	// what clients are shown, required is as in Require: "valid-user", "user a b". It
	// may be called from several goroutines. nil: what asks for a password closes.
	Realm func(users, groups, name, required string) (Guard, error)

	// Report is told, once for every change of a file, which of its directives
	// have no effect. It may be called from several goroutines, with no lock
	// held; nil drops the notices.
	Report func([]Notice)
}

// Guard lets users in. Its error is the answer for others: 401 with a challenge, or
// 503 while it cannot tell.
type Guard interface {
	Admit(x *exchange.Exchange) error

	// Fault is why it cannot tell now, as of a file that cannot be read; nil if it can.
	Fault() error
}

// Override says which groups of directives a .htaccess file may use (allowOverride).
type Override uint8

// The groups, with the bits of LiteSpeed. Rules are those of rewriting, which
// autoLoadHtaccess allows by itself; FileInfo has them too.
const (
	OverrideLimit    Override = 1
	OverrideAuth     Override = 2
	OverrideFileInfo Override = 4
	OverrideIndexes  Override = 8
	OverrideOptions  Override = 16
	OverrideRules    Override = 32
	OverrideAll      Override = 63
)

// A Notice is what a .htaccess file says that is not done, or not as it seems.
type Notice struct {
	File      string
	Line      int
	Directive string // as written
	Why       string // "" for a directive that has no effect
	Restricts bool   // it would refuse requests: a rewrite rule with [F]
	Closes    bool   // what it is about answers 503, or may (R-SAFE-1)
	Known     bool   // a directive without effect, that changes no more than how a page looks
}

// Dirs reads the .htaccess files below one document root and remembers them.
// Any goroutine may use it. It starts none and holds no lock while it reads.
type Dirs struct {
	opt Options

	mu   sync.RWMutex
	dirs map[string]*dir // by path below the root, "/" to "/a/b/"
}

// dir is what is remembered of one directory. A dir whose seen is 0 was never
// looked at.
type dir struct {
	checked atomic.Int64 // Options.Now in ns when it was last looked at
	seen    atomic.Pointer[state]
}

// state is what one look at a directory found. It is immutable.
type state struct {
	end     ending
	file    *file // nil if there is no .htaccess file or it says nothing
	stamp   stamp // of the file that was read; zero: read it again next time
	notices []Notice
}

// file is one .htaccess file, parsed. It is immutable.
type file struct {
	access  *section // nil: it restricts nobody
	say     *section // the same tree, if something in it is said beside; else nil
	rules   *Program // nil: no directive of rewriting
	asks    bool     // something in it asks for variables: SetEnvIf
	guesses bool     // a SetEnvIf could not be read: nobody knows what is not set
	links   bool     // something in it is about symbolic links
}

// ending says whether the way down goes on below a directory.
type ending uint8

const (
	goesOn  ending = iota
	missing        // there is no such directory
	isFile         // the name is that of a file: the rest is PATH_INFO
)

// stamp tells versions of a file apart. The change time is in it so that a
// change of permissions is seen too.
type stamp struct {
	mtime, ctime int64
	size         int64
	dev, ino     uint64
}

// NewDirs returns an empty cache. It reads nothing.
func NewDirs(opt Options) *Dirs {
	if opt.FileName == "" {
		opt.FileName = ".htaccess"
	}
	if opt.MaxBytes == 0 {
		opt.MaxBytes = 1 << 20
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	opt.Prefix = strings.TrimSuffix(opt.Prefix, "/")
	return &Dirs{opt: opt, dirs: map[string]*dir{}}
}

// Root is the directory whose files it reads.
func (d *Dirs) Root() string { return d.opt.Root }

// Request is what .htaccess files decide about.
type Request struct {
	Path   string     // below the root: decoded and normalised, starting with '/'
	Name   string     // name of the file; "": the last part of Path that names one
	Method string     // "": not known, so rules for some methods close
	Client netip.Addr // zero: not known, so rules for addresses close

	URL string // path as the client sees it; "": Path below the prefix

	X *exchange.Exchange // nil: not known, so rules for variables and expressions close

	host    *Host
	guesses bool          // some SetEnvIf could not be read
	spent   time.Duration // on the backtracking engine

	challenge *exchange.Error // of the guard that was asked last
}

// Verdict is what the chain of .htaccess files says. The zero value lets the
// request in.
type Verdict struct {
	Status int    // 0: allowed; 4xx: denied; 503: closed, a restriction cannot be honoured
	File   string // the file that decided
	Line   int    // in File; 0 for the file as a whole
	Why    string // the directive or fault, for the log

	challenge *exchange.Error // of a guard that asks for a password; nil: none does
}

// Err returns v as the answer of a handler, nil if it lets the request in.
func (v Verdict) Err() error {
	switch v.Status {
	case 0:
		return nil
	case 503:
		return exchange.Fail(503, "closed", "%s:%d: %s", v.File, v.Line, v.Why)
	}
	if v.challenge != nil {
		return v.challenge
	}
	return exchange.Fail(v.Status, "access_denied", "%s:%d: %s", v.File, v.Line, v.Why)
}

// Check returns the error for the request x whose file is named by the end of path,
// nil if it is let in.
func (d *Dirs) Check(path string, x *exchange.Exchange) error {
	c := d.Walk(path)
	c.Ask(x)
	return c.Verdict(Request{Method: x.Req.Method, Client: x.Req.Client, X: x}).Err()
}

// CheckFile returns the error for a file on disk, below the root, that answers
// for the URL path url; nil if it is let in. It is for files that url does not
// lead to by itself: those of a context with its own location.
func (d *Dirs) CheckFile(file, url string, x *exchange.Exchange) error {
	path, ok := strings.CutPrefix(file, strings.TrimSuffix(d.opt.Root, "/"))
	if !ok {
		path = "" // refused: no rule is known for it
	}
	c := d.Walk(path)
	c.Ask(x)
	return c.Verdict(Request{URL: url, Method: x.Req.Method, Client: x.Req.Client, X: x}).Err()
}

// Verdict asks the .htaccess files from the document root down to the directory
// of r.Path. Any deny on the way wins; a grant further down lifts nothing
// (R-RW-4). A restriction that is not understood closes its directory (R-SAFE-1).
func (d *Dirs) Verdict(r Request) Verdict {
	c := d.Walk(r.Path)
	return c.Verdict(r)
}

// Chain is the .htaccess files on the way to one path, as they were when Walk looked.
// The zero Chain has none.
type Chain struct {
	d       *Dirs
	path    string
	name    string // of the file that the path means
	refused string // why nothing on the path may be served
	n       int
	first   [8]found // outermost first
	more    []found  // those behind first
}

// found is a file, and where its directory ends in the path.
type found struct {
	*file
	end int
}

// Walk finds the files on the way to path, which is below the root, decoded and
// normalised, and starts with '/'. It takes memory only where more than eight are.
func (d *Dirs) Walk(path string) Chain {
	c := Chain{d: d, path: path}
	if !strings.HasPrefix(path, "/") || strings.Contains(path, "/../") || strings.HasSuffix(path, "/..") {
		c.refused = "path is not normalised"
		return c
	}
	now := d.opt.Now().UnixNano()
	for start, depth := 0, 0; ; depth++ {
		i := strings.IndexByte(path[start:], '/')
		if i < 0 {
			c.name = path[start:]
			return c
		}
		end := start + i + 1
		if depth > maxDepth {
			c.refused = "directories are too deep"
			return c
		}
		s := d.look(path[:end], now)
		if s.file != nil {
			c.add(found{s.file, end})
		}
		switch s.end {
		case missing:
			c.name = path[strings.LastIndexByte(path, '/')+1:]
			return c
		case isFile:
			c.name = path[start : end-1]
			return c
		}
		start = end
	}
}

func (c *Chain) add(f found) {
	if c.n < len(c.first) {
		c.first[c.n] = f
	} else {
		c.more = append(c.more, f)
	}
	c.n++
}

// at returns a file; 0 is the outermost.
func (c *Chain) at(i int) *file { return c.found(i).file }

// endOf returns where the directory of a file ends in the path.
func (c *Chain) endOf(i int) int { return c.found(i).end }

func (c *Chain) found(i int) *found {
	if i < len(c.first) {
		return &c.first[i]
	}
	return &c.more[i-len(c.first)]
}

// Empty reports that no file on the way says anything.
func (c *Chain) Empty() bool { return c.n == 0 && c.refused == "" }

// Verdict says who may not come in. r.Path is not read.
func (c *Chain) Verdict(r Request) Verdict {
	if c.Empty() {
		return Verdict{}
	}
	if r.URL == "" {
		r.URL = c.url()
	}
	if r.Name == "" {
		r.Name = c.name
	}
	var v Verdict
	if c.refused != "" {
		v = Verdict{Status: 503, File: c.d.opt.Root, Why: c.refused}
	}
	r.host = c.d.opt.Host
	for i := range c.n {
		r.guesses = r.guesses || c.at(i).guesses
	}
	for i := c.n - 1; i >= 0 && !denies(v.Status); i-- {
		f := c.at(i)
		if f.access == nil {
			continue
		}
		if w := f.access.ask(&r); denies(w.Status) || v.Status == 0 {
			v = w
		}
	}
	return v
}

// url is the path as clients know it.
func (c *Chain) url() string { return c.d.opt.Prefix + c.path }

// Rules is a place among the rules of a chain: those of one file. The zero value is
// none.
type Rules struct {
	*Program
	chain *Chain
	i     int
}

// Rules returns those of the innermost file that says anything of rewriting, as
// Apache does. on is what holds as long as no file says RewriteEngine.
func (c *Chain) Rules(on bool) Rules {
	inner := -1
	for i := range c.n {
		p := c.at(i).rules
		if p == nil {
			continue
		}
		inner = i
		if says, written := p.Engine(); written {
			on = says
		}
	}
	if inner < 0 || !on {
		return Rules{}
	}
	return Rules{c.at(inner).rules, c, inner}
}

// Around returns the rules that r inherits, those of the next file around it that has
// some; before: they run first.
func (r Rules) Around() (outer Rules, before bool) {
	if r.Program == nil || r.inherit == inheritNone {
		return Rules{}, false
	}
	for i := r.i - 1; i >= 0; i-- {
		if p := r.chain.at(i).rules; p != nil {
			return Rules{p, r.chain, i}, r.inherit == inheritBefore
		}
	}
	return Rules{}, false
}

// look returns the state of one directory, at most a second old at now. While one
// goroutine looks again the others go on with what was known.
func (d *Dirs) look(path string, now int64) *state {
	if len(path)-strings.LastIndexByte(path[:len(path)-1], '/') > maxName {
		return d.read(path, nil) // as good as certainly not there: not worth the memory
	}
	d.mu.RLock()
	e := d.dirs[path]
	d.mu.RUnlock()
	if e == nil {
		e = d.remember(strings.Clone(path))
	}
	old := e.seen.Load()
	last := e.checked.Load()
	if old != nil && (now-last < int64(fresh) && now >= last || !e.checked.CompareAndSwap(last, now)) {
		return old
	}
	s := d.read(path, old)
	e.seen.Store(s)
	e.checked.Store(now)
	return s
}

// remember adds a directory; a full cache forgets an arbitrary one.
func (d *Dirs) remember(path string) *dir {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.dirs[path]; e != nil {
		return e
	}
	if len(d.dirs) >= maxDirs {
		for k := range d.dirs {
			delete(d.dirs, k)
			break
		}
	}
	e := &dir{}
	d.dirs[path] = e
	return e
}

// read looks at the directory on disk. old is what was known, nil for nothing.
func (d *Dirs) read(path string, old *state) *state {
	name := filepath.Join(d.opt.Root, filepath.FromSlash(path), d.opt.FileName)
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(name); err == nil {
			return &state{file: faulty(name, 403, "a link that leads nowhere")}
		}
		if path != "/" {
			if _, err := os.Stat(filepath.Dir(name)); errors.Is(err, fs.ErrNotExist) {
				return &state{end: missing}
			}
		}
		return &state{}
	case errors.Is(err, syscall.ENOTDIR):
		return &state{end: isFile}
	case errors.Is(err, syscall.ENAMETOOLONG):
		return &state{end: missing} // no directory can have that name
	case err != nil:
		return &state{file: faulty(name, 403, "unreadable: "+cause(err))}
	}
	at := stampOf(info)
	if old != nil && old.stamp == at {
		return old
	}
	if d.opt.Now().UnixNano()-at.ctime < int64(fresh) {
		at = stamp{} // it may change once more within the tick of its time stamps
	}
	s := &state{stamp: at}
	s.file, s.notices = d.load(name, path)
	if len(s.notices) > 0 && d.opt.Report != nil && (old == nil || !slices.Equal(old.notices, s.notices)) {
		d.opt.Report(s.notices)
	}
	return s
}

// load reads one file. It is checked again once it is open, for it may have
// been replaced; O_NONBLOCK keeps a pipe from blocking the open.
func (d *Dirs) load(name, path string) (*file, []Notice) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return faulty(name, 403, "unreadable: "+cause(err)), nil
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return faulty(name, 403, "unreadable: "+cause(err)), nil
	case !info.Mode().IsRegular():
		return faulty(name, 503, "not a regular file"), nil
	case info.Size() > d.opt.MaxBytes:
		return faulty(name, 503, "file too large"), nil
	}
	text, err := io.ReadAll(io.LimitReader(f, d.opt.MaxBytes+1))
	switch {
	case err != nil:
		return faulty(name, 403, "unreadable: "+cause(err)), nil
	case int64(len(text)) > d.opt.MaxBytes:
		return faulty(name, 503, "file too large"), nil
	case bytes.IndexByte(text, 0) >= 0:
		return faulty(name, 503, "not a text file"), nil
	}
	return d.parse(name, path, string(text))
}

// faulty stands for a file that cannot be used: it refuses everything.
func faulty(name string, status int, why string) *file {
	return &file{access: &section{file: name, fault: status, why: why}}
}

// cause is err without the file name, which the verdict carries already.
func cause(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

func stampOf(info fs.FileInfo) stamp {
	s := stamp{mtime: info.ModTime().UnixNano(), size: info.Size()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.ctime, s.dev, s.ino = st.Ctim.Nano(), st.Dev, st.Ino
	}
	return s
}
