// Package docroot opens what a request path names beneath a document root. It
// decides what a path may reach: confinement, symbolic links, denied
// directories, hidden names, permission masks; and which part of the path is
// the file: index files, script and path info. It serves nothing and matches no
// context.
//
// What is tested is the opened descriptor, and that descriptor is what is
// served: no name is looked up again behind a check.
package docroot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"httpjet/coding"
	"httpjet/exchange"
)

// Links is how symbolic links below the document root are treated (R-STATIC-8).
// Links in the path of the root itself are the operator's and always followed.
type Links uint8

const (
	NoLinks     Links = iota // a path through a link is not found
	FollowLinks              // links are followed
	OwnerLinks               // a link is followed if its owner owns what it leads to
)

// Options describe a Root.
type Options struct {
	Dir        string   // absolute directory or file; need not exist yet
	Prefix     string   // URL path that Dir stands for; "" and "/": all paths
	DocRoot    string   // reported as Resource.Root; "": Dir
	Links      Links    // symbolic links below Dir
	Restrained bool     // links may not lead out of Dir, or of Within
	Within     string   // directory around Dir for Restrained; "": Dir
	Index      []string // names tried in a directory, in order; "-" is skipped
	DenyDirs   []string // accessDenyDir: absolute paths, "/dir/*" a tree, "/dir" the files in it

	// Permission bits as in stat(2); 0 tests nothing. A file that lacks a
	// required bit or has a restricted one is refused. Scripts and the directory
	// of the file have masks of their own.
	Required         uint32
	Restricted       uint32
	RestrictedScript uint32
	RestrictedDir    uint32

	// Codings are looked for beside files: a.css.gz is a.css compressed, unless it
	// is older. Resource.Siblings tells which there are.
	Codings coding.Set

	// List makes a directory without an index file a listing.
	List bool

	// OwnedAs is a directory whose owner must own every file that is served
	// (forceStrictOwnership); "": anybody's files are.
	OwnedAs string

	// Cache remembers answers for up to a second; nil: every Resolve looks at the
	// disk. With a cache the isScript of all calls must say the same.
	Cache *Cache
}

// Root is a document root, or the directory of a context. It is immutable.
type Root struct {
	dir     string // clean, absolute
	prefix  string // URL prefix without its last slash
	docRoot string
	within  string // dir, or the directory around it that confines links
	deny    []denyDir
	o       Options
	links   []LinksOf // of With

	noKernel bool // behave as a kernel without openat2; for tests
}

// With is what holds for one Resolve in the place of what the Root says. The zero
// value changes nothing.
type With struct {
	Index      []string // names of index files, if OtherIndex is set
	OtherIndex bool
	List       int8      // directories without an index file: 1 a listing, -1 none, 0 as List of Options
	Links      []LinksOf // by At; those of Options bound them all
}

// LinksOf is how symbolic links of some directories are treated: those whose names
// begin at At or behind it in the path below the root, until the next LinksOf.
type LinksOf struct {
	At    int // bytes; 0 or less: all
	Links Links
}

// Stricter returns the one of two that refuses more links.
func (l Links) Stricter(o Links) Links {
	switch {
	case l == NoLinks || o == NoLinks:
		return NoLinks
	case l == OwnerLinks || o == OwnerLinks:
		return OwnerLinks
	}
	return FollowLinks
}

// Verdict says which kind of handler a resource is for.
type Verdict uint8

const (
	Static    Verdict = iota + 1 // the file is the answer
	Script                       // the file has the suffix of a script: never served as it is
	Directory                    // Resource.Listing is the answer
)

// New returns the root that o describes. It resolves links in DenyDirs but does
// not look at Dir.
func New(o Options) (*Root, error) {
	if !filepath.IsAbs(o.Dir) {
		return nil, fmt.Errorf("document root %q is not absolute", o.Dir)
	}
	if o.Prefix != "" && o.Prefix[0] != '/' {
		return nil, fmt.Errorf("prefix %q does not begin with a slash", o.Prefix)
	}
	r := &Root{dir: filepath.Clean(o.Dir), prefix: strings.TrimSuffix(o.Prefix, "/"), docRoot: o.DocRoot, o: o}
	if r.docRoot == "" {
		r.docRoot = r.dir
	}
	r.within = r.dir
	if w := filepath.Clean(o.Within); o.Within != "" && strings.HasPrefix(r.dir, strings.TrimSuffix(w, "/")+"/") {
		r.within = w
	}
	r.o.Index = nil
	for _, name := range o.Index {
		if name == "-" {
			continue
		}
		if name == "" || !isClean("/"+name) || strings.HasSuffix(name, "/") || strings.IndexByte(name, 0) >= 0 {
			return nil, fmt.Errorf("index file %q is not a plain relative name", name)
		}
		r.o.Index = append(r.o.Index, name)
	}
	var err error
	r.deny, err = newDenyDirs(o.DenyDirs)
	return r, err
}

// Resolve opens the regular file that path, as CleanPath returned it, names.
// isScript reports if files with a suffix (lower case, no dot) are scripts; nil:
// none are. The caller closes the Resource.
//
// The path names a file itself, or a directory with an index file if it ends in
// a slash, or a script with path info behind it: then the longest leading part
// that is a file on disk is the script, whatever the rest looks like
// (R-FCGI-3). A directory without its slash is a redirect that keeps query
// (R-STATIC-3). Errors are *exchange.Error: 301, 403 access_denied, 404
// not_found, 503 overloaded without descriptors.
//
// With a cache the answer may be up to a second old (R-STATIC-11). A small file may
// come as Resource.Content instead of Resource.File, and a script without either: who
// runs it opens it by its name.
func (r *Root) Resolve(path, query string, isScript func(suffix string) bool) (exchange.Resource, Verdict, error) {
	return r.ResolveAt(time.Now(), path, query, isScript)
}

// ResolveAt is Resolve at a time that the caller knows, not later than now.
func (r *Root) ResolveAt(at time.Time, path, query string, isScript func(suffix string) bool) (exchange.Resource, Verdict, error) {
	c := r.o.Cache
	if c == nil {
		return r.lookUp(path, query, isScript)
	}
	k, now := key{r, path}, at.Sub(c.start)
	e, ok := c.find(k, now)
	if ok {
		if res, ok := e.resource(isScript); ok {
			return res, e.verdict(), nil
		}
	}
	res, verdict, err := r.lookUp(path, query, isScript)
	switch {
	case err == nil && verdict == Static:
		res = c.keep(k, now, e, res)
	case err == nil && verdict == Script && res.PathInfo == "":
		res = c.keepScript(k, now, e, res)
	case e != nil:
		c.drop(e)
	}
	return res, verdict, err
}

// ResolveWith is Resolve without the cache, as w says.
func (r *Root) ResolveWith(path, query string, w With, isScript func(suffix string) bool) (exchange.Resource, Verdict, error) {
	with := *r
	if w.OtherIndex {
		with.o.Index = w.Index
	}
	if w.List != 0 {
		with.o.List = w.List > 0
	}
	with.links = w.Links
	return with.lookUp(path, query, isScript)
}

// Links returns how symbolic links are treated where nobody says more.
func (r *Root) Links() Links { return r.o.Links }

// Lists reports whether a directory without an index file is listed.
func (r *Root) Lists() bool { return r.o.List }

// Filename returns the path on disk that path, as CleanPath returned it, stands for;
// below is the part of it that lies in the root. It is not ok outside of the prefix.
func (r *Root) Filename(path string) (name, below string, ok bool) {
	rel, ok := r.relative(path)
	return r.filename(rel), rel, ok
}

// lookUp is Resolve without the cache.
func (r *Root) lookUp(path, query string, isScript func(suffix string) bool) (exchange.Resource, Verdict, error) {
	none := exchange.Resource{}
	if Hidden(path) {
		return none, 0, denied("hidden name in the path")
	}
	rel, ok := r.relative(path)
	if !ok || !isClean(path) { // a rewrite may have made it
		return none, 0, notFound("path is outside %q", r.prefix)
	}
	q := lookup{r: r, path: path, rel: rel, isScript: isScript}
	var f *os.File
	var err error
	if strings.HasSuffix(path, "/") {
		f, err = q.openIndex()
	} else {
		f, err = q.openFile(query)
	}
	if err != nil {
		return none, 0, err
	}
	if f == nil {
		return q.list()
	}
	verdict, err := q.judge(f)
	if err != nil {
		f.Close()
		return none, 0, err
	}
	res := exchange.Resource{
		File: f, Info: q.info, Root: r.docRoot,
		Filename: r.filename(q.rel), Name: q.path, PathInfo: q.pathInfo,
	}
	if verdict == Static && r.o.Codings != 0 {
		res.Siblings = uint8(q.siblings())
	}
	return res, verdict, nil
}

// relative cuts the prefix of the root off: "" for the root itself.
func (r *Root) relative(path string) (rel string, ok bool) {
	rest, ok := strings.CutPrefix(path, r.prefix)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return strings.Trim(rest, "/"), true
}

func (r *Root) filename(rel string) string {
	switch {
	case rel == "":
		return r.dir
	case r.dir == "/":
		return "/" + rel
	}
	return r.dir + "/" + rel
}

// lookup is the search for one path. Its fields end as the parts of the
// resource.
type lookup struct {
	r        *Root
	path     string // URL path of the file, index name included
	rel      string // the same below the root, without slashes at its ends
	pathInfo string
	isScript func(string) bool
	info     os.FileInfo
}

// openFile opens what the path without a slash at its end names.
func (q *lookup) openFile(query string) (*os.File, error) {
	f, err := q.read(q.rel)
	if err == nil {
		if !q.info.IsDir() {
			return f, nil
		}
		f.Close()
	}
	switch {
	case err == nil || errors.Is(err, unix.EACCES) && q.r.isDir(q.rel):
		location := Encode(q.path + "/")
		if query != "" {
			location += "?" + encodeQuery(query)
		}
		return nil, exchange.Redirect(301, location)
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENAMETOOLONG): // path info may be of any length
		return q.openSplit()
	}
	return nil, failure(err)
}

// read opens rel and takes its information.
func (q *lookup) read(rel string) (*os.File, error) {
	f, err := q.r.open(rel)
	if err != nil {
		return nil, err
	}
	if q.info, err = f.Stat(); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// openIndex opens the first index file of a directory. A path like "/x.php/"
// may also end in a slash. No file and no error: the directory is to be listed.
func (q *lookup) openIndex() (*os.File, error) {
	mode, err := q.r.mode(q.rel)
	switch {
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENAMETOOLONG), err == nil && mode&unix.S_IFMT != unix.S_IFDIR:
		return q.openSplit()
	case err != nil:
		return nil, failure(err)
	}
	for _, name := range q.r.o.Index {
		rel := name
		if q.rel != "" {
			rel = q.rel + "/" + name
		}
		f, err := q.read(rel)
		switch {
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), isRefusedLink(err):
			continue
		case err != nil:
			return nil, failure(err)
		case q.info.IsDir():
			f.Close()
			continue
		}
		q.path, q.rel = q.path+name, rel
		return f, nil
	}
	if q.r.o.List {
		return nil, nil
	}
	return nil, notFound("directory without an index file")
}

// openSplit finds the file that a leading part of the path names. A file has no
// children, so there is at most one such part and the first is the longest. The
// walk is as deep as the directories on disk, however long the path is.
func (q *lookup) openSplit() (*os.File, error) {
	base := len(q.r.prefix)
	if q.r.prefix != "" {
		if mode, err := q.r.mode(""); err == nil && mode&unix.S_IFMT != unix.S_IFDIR {
			return q.openScript(base, "") // the context's location is a file
		}
	}
	for i := base + 1; ; i++ {
		j := strings.IndexByte(q.path[i:], '/')
		if j < 0 {
			return nil, notFound("no file on the path")
		}
		i += j
		rel := q.path[base+1 : i]
		mode, err := q.r.mode(rel)
		if err != nil {
			return nil, failure(err)
		}
		if mode&unix.S_IFMT != unix.S_IFDIR {
			return q.openScript(i, rel)
		}
	}
}

// openScript opens rel, which path[:end] names. Only scripts take path info; the
// suffix asked about is that of the existing file.
func (q *lookup) openScript(end int, rel string) (*os.File, error) {
	if q.isScript == nil || !q.isScript(Suffix(q.r.filename(rel))) {
		return nil, notFound("path info behind a file that is no script")
	}
	f, err := q.read(rel)
	if err != nil {
		return nil, failure(err)
	}
	q.path, q.pathInfo, q.rel = q.path[:end], q.path[end:], rel
	return f, nil
}

// judge decides if the opened file may be served, and as what.
func (q *lookup) judge(f *os.File) (Verdict, error) {
	if !q.info.Mode().IsRegular() {
		return 0, denied("not a regular file")
	}
	if Hidden(q.path) { // an index name
		return 0, denied("hidden name in the path")
	}
	st, ok := q.info.Sys().(*syscall.Stat_t)
	if !ok {
		panic("BUG: docroot: file information without a stat")
	}
	// The name on disk decides: a context may give a file any path.
	name := q.r.filename(q.rel)
	script := q.isScript != nil && q.isScript(Suffix(name))
	if !script && q.isScript != nil && q.isScript(Suffix(strings.TrimRight(name, ". "))) {
		// Some file systems drop these bytes and open the script. Where they are
		// part of the name, it is not one that may be run.
		return 0, denied("name of a script with dots or blanks behind it")
	}
	if err := q.r.checkMode(st.Mode, script); err != nil {
		return 0, err
	}
	if !q.r.owns(st.Uid) {
		return 0, denied("file has another owner than the virtual host")
	}
	if err := q.checkReal(f, st.Nlink == 0, script); err != nil {
		return 0, err
	}
	if script {
		return Script, nil
	}
	return Static, nil
}

func (r *Root) checkMode(mode uint32, script bool) error {
	switch {
	case script && mode&r.o.RestrictedScript != 0:
		return denied("script has restricted permission bits")
	case !script && mode&r.o.Required != r.o.Required:
		return denied("file lacks required permission bits")
	case !script && mode&r.o.Restricted != 0:
		return denied("file has restricted permission bits")
	}
	return nil
}

// owns reports whether files of a user may be served. Without the directory that
// says whose they are, none are.
func (r *Root) owns(uid uint32) bool {
	if r.o.OwnedAs == "" {
		return true
	}
	var st unix.Stat_t
	return unix.Stat(r.o.OwnedAs, &st) == nil && st.Uid == uid
}

// checkReal tests where the opened file really lies (R-STATIC-9). Below the real
// root no segment may be hidden; outside of it the whole path counts. A link
// whose own name is no script's may not uncover the source of one (R-STATIC-10).
func (q *lookup) checkReal(f *os.File, unlinked, script bool) error {
	r := q.r
	// Without links the real path below the root is the path; links in the path
	// of the root are followed even then.
	plain := r.o.Links == NoLinks && q.rel != ""
	if plain && len(r.deny) == 0 && r.o.RestrictedDir == 0 {
		return nil
	}
	real, err := realPath(int(f.Fd()))
	if err != nil {
		return denied("real path unknown")
	}
	if unlinked {
		real = strings.TrimSuffix(real, " (deleted)")
	}
	for _, d := range r.deny {
		if d.denies(real) {
			return denied("file in a denied directory")
		}
	}
	if r.o.RestrictedDir != 0 {
		var st unix.Stat_t
		if err := unix.Stat(filepath.Dir(real), &st); err != nil || st.Mode&r.o.RestrictedDir != 0 {
			return denied("directory has restricted permission bits")
		}
	}
	if plain || real == r.filename(q.rel) {
		return nil
	}
	if Hidden(q.below(real)) {
		return denied("hidden name in the real path")
	}
	if !script && q.isScript != nil && q.isScript(Suffix(real)) {
		return denied("link to a script")
	}
	return nil
}

// below is a real path as seen from the real root; the whole path outside of it.
func (q *lookup) below(real string) string {
	if root, err := realDir(q.r.dir); err == nil {
		if rest, ok := strings.CutPrefix(real, strings.TrimSuffix(root, "/")+"/"); ok {
			return "/" + rest
		}
	}
	return real
}

func denied(why string) error { return exchange.Fail(403, "access_denied", "%s", why) }

func notFound(format string, args ...any) error {
	return exchange.Fail(404, "not_found", format, args...)
}

// failure is the answer for an open that failed. A refused link is not found
// rather than forbidden: it fails closed without telling that it exists.
func failure(err error) error {
	status, reason := 500, "internal"
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENAMETOOLONG),
		errors.Is(err, unix.EINVAL), isRefusedLink(err):
		status, reason = 404, "not_found"
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM),
		errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENODEV): // ENXIO: a socket
		status, reason = 403, "access_denied"
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM):
		status, reason = 503, "overloaded"
	}
	return &exchange.Error{Status: status, Reason: reason, Err: err}
}

// isRefusedLink reports the two ways in which a lookup ends at a link that it
// may not follow: any link (or a loop), or one that leaves the root.
func isRefusedLink(err error) bool {
	return errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EXDEV)
}
