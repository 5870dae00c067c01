package rewrite

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// op is what a condition asks.
type op uint8

const (
	matches op = iota
	equal
	less
	greater
	lessEqual
	greaterEqual
	numEqual
	numNot
	numLess
	numLessEqual
	numGreater
	numGreaterEqual
	isDirectory
	isRegular
	hasSize
	isLink
	isExecutable
	exists
	always
)

// cond is one RewriteCond.
type cond struct {
	line    int
	source  string // as written, for explanations
	test    template
	op      op
	pattern *pattern
	expr    *expression // of RewriteCond expr; the others are unused then
	text    string      // of a comparison
	number  int64
	not     bool
	or      bool // the next condition may hold instead
	nocase  bool
	decoded bool // its groups are decoded text
}

var numberOps = map[string]op{"-eq": numEqual, "-ne": numNot, "-lt": numLess, "-le": numLessEqual, "-gt": numGreater, "-ge": numGreaterEqual}

var fileOps = map[string]op{"-d": isDirectory, "-f": isRegular, "-F": isRegular, "-s": hasSize, "-l": isLink, "-h": isLink, "-L": isLink,
	"-x": isExecutable, "-e": exists, "-U": always}

// compileCond reads a condition. notes are told even if it fails.
func (c *compiler) compileCond(text string) (cond, error) {
	out := cond{line: c.line}
	args, rest, err := arguments(text, 2)
	if err != nil {
		return out, err
	}
	if len(args) < 2 {
		return out, fmt.Errorf("RewriteCond needs a text and a pattern")
	}
	expr, not := strings.CutPrefix(args[1].text, "!")
	if _, ok := numberOps[expr]; ok { // the number may stand behind a blank
		if more, n, err := arguments(text, 3); err == nil && len(more) == 3 && more[2].text[0] != '[' {
			expr, rest = expr+more[2].text, n
		}
	}
	out.not, out.source = not, strings.TrimSpace(text)
	list, err := flagList(text[rest:])
	if err != nil {
		return out, err
	}
	for _, f := range list {
		switch name, _, hasArg := splitFlag(f); {
		case name == "nc" && !hasArg:
			out.nocase = true
		case name == "or" && !hasArg:
			out.or = true
		case name == "nv" && !hasArg:
		default:
			return out, fmt.Errorf("RewriteCond has no flag %q", f)
		}
	}
	if strings.EqualFold(args[0].text, "expr") {
		out.expr, err = c.readExpression(args[1].text)
		return out, err
	}
	if out.test, err = c.readTemplate(args[0].text, false, false); err != nil {
		return out, err
	}
	out.decoded = out.test.decoded()
	return out, c.compileTest(&out, expr)
}

// compileTest reads what a condition asks of its text.
func (c *compiler) compileTest(out *cond, expr string) (err error) {
	for _, s := range []struct {
		sign string
		op   op
	}{{"<=", lessEqual}, {">=", greaterEqual}, {"=", equal}, {"<", less}, {">", greater}} {
		if text, ok := strings.CutPrefix(expr, s.sign); ok {
			out.op, out.text = s.op, strings.Clone(text)
			if out.nocase {
				out.text = strings.ToLower(out.text)
			}
			return nil
		}
	}
	if len(expr) >= 3 && expr[0] == '-' {
		if o, ok := numberOps[expr[:3]]; ok {
			out.op = o
			out.number, err = strconv.ParseInt(strings.TrimSpace(expr[3:]), 10, 64)
			if err != nil {
				return fmt.Errorf("%q compares with no number", expr)
			}
			return nil
		}
	}
	if o, ok := fileOps[expr]; ok {
		out.op = o
		return nil
	}
	out.pattern, err = c.newPattern(expr, out.nocase)
	return err
}

// holds asks the conditions of u, in their order. [OR] binds a condition to the
// next: there is no precedence.
func (r *run) holds(u *rule) (bool, error) {
	for i := 0; i < len(u.conds); i++ {
		k := &u.conds[i]
		ok, err := r.ask(k, u.back || r.explains)
		if err != nil {
			return false, err
		}
		switch {
		case ok && k.or:
			for i < len(u.conds) && u.conds[i].or {
				i++ // the last of them is skipped by the loop
			}
		case !ok && !k.or:
			return false, nil
		}
		if !ok && k.or && i == len(u.conds)-1 {
			return false, nil // nothing is left to hold instead
		}
	}
	return true, nil
}

// ask asks one condition. groups says if something uses what it captures.
func (r *run) ask(k *cond, groups bool) (bool, error) {
	if k.expr != nil {
		ok, err := k.expr.holds(r)
		if r.explains && err == nil {
			r.x.Detail("line %d: RewriteCond %s: %v", k.line, k.source, ok)
		}
		return ok, err
	}
	if k.op >= isDirectory && k.op <= exists && !r.explains {
		ok := r.stat(k.test, k.op != isLink).is(k.op) != k.not
		if r.tooLong {
			return false, errTooLong
		}
		return ok, nil
	}
	text := r.text(k.test)
	if r.tooLong {
		return false, errTooLong
	}
	var ok bool
	var err error
	if k.op != matches {
		ok = r.compare(k, text)
	} else if groups && !k.not {
		if ok, err = r.match(k.pattern, text, &r.condGroup); ok {
			r.condDecoded = k.decoded
		}
	} else {
		ok, err = r.match(k.pattern, text, nil)
	}
	if err != nil {
		return false, err
	}
	ok = ok != k.not
	if r.explains {
		verdict := "does not hold"
		if ok {
			verdict = "holds"
		}
		r.x.Detail("line %d: RewriteCond %s: %q %s%s", k.line, k.source, text, verdict, r.captured("%", &r.condGroup, ok && k.op == matches && !k.not))
	}
	return ok, nil
}

// captured lists groups for an explanation.
func (r *run) captured(sign string, groups *[10]string, show bool) string {
	if !show {
		return ""
	}
	var b strings.Builder
	for i, g := range groups {
		if i > 0 && g != "" {
			fmt.Fprintf(&b, " %s%d=%q", sign, i, g)
		}
	}
	return b.String()
}

func (r *run) compare(k *cond, text string) bool {
	switch k.op {
	case equal, less, greater, lessEqual, greaterEqual:
		if k.nocase {
			text = strings.ToLower(text)
		}
		switch n := strings.Compare(text, k.text); k.op {
		case equal:
			return n == 0
		case less:
			return n < 0
		case greater:
			return n > 0
		case lessEqual:
			return n <= 0
		default:
			return n >= 0
		}
	case numEqual, numNot, numLess, numLessEqual, numGreater, numGreaterEqual:
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil {
			return false
		}
		return [...]bool{n == k.number, n != k.number, n < k.number, n <= k.number, n > k.number, n >= k.number}[k.op-numEqual]
	case always:
		return true
	}
	return r.look([]byte(text), k.op != isLink).is(k.op)
}

// Info is what file tests ask of a path.
type Info struct {
	Exists, Regular, Dir, Link, Executable bool
	Size                                   int64

	BelowFile bool // it is not there, as something on the way is a file
}

func (i Info) is(o op) bool {
	switch o {
	case isDirectory:
		return i.Dir
	case isRegular:
		return i.Regular
	case hasSize:
		return i.Regular && i.Size > 0
	case isLink:
		return i.Link
	case isExecutable:
		return i.Regular && i.Executable
	}
	return i.Exists
}

// stat looks at the path that a template makes. The last look at each is remembered for
// the run: blocks ask -f and -d of one name. Nothing is allocated.
func (r *run) stat(t template, follow bool) Info {
	if len(t) == 1 && t[0].kind == value && t[0].v == requestFilename {
		r.locate()
		return r.statName(follow)
	}
	at := len(r.tested)
	for i := range t {
		if p := &t[i]; p.kind == value && p.v == requestFilename {
			r.locate()
			r.tested = append(r.tested, r.name...)
		} else {
			r.tested = append(r.tested, r.part(p)...)
		}
		if len(r.tested)-at > maxResult {
			r.tooLong = true
			r.tested = r.tested[:0]
			return Info{}
		}
	}
	r.tested = append(r.tested, 0)[:len(r.tested)] // with room, see statx
	return r.statTested(at, follow)
}

// statTested looks at the path that lies at the end of tested, behind the last one.
func (r *run) statTested(at int, follow bool) Info {
	if at > 0 && r.testedAs == follow && bytes.Equal(r.tested[:at], r.tested[at:]) {
		r.tested = r.tested[:at]
		return r.testedInfo
	}
	r.tested = append(r.tested[:0], r.tested[at:]...)
	r.testedAs, r.testedInfo = follow, r.look(r.tested, follow)
	return r.testedInfo
}

// look looks at a path on disk.
func (r *run) look(path []byte, follow bool) Info {
	if r.host.Stat != nil {
		return r.host.Stat(string(path), follow)
	}
	if len(path) == 0 || bytes.IndexByte(path, 0) >= 0 {
		return Info{}
	}
	switch errno := statx(path, follow, &r.st); errno {
	case 0:
	case unix.ENOTDIR:
		return Info{BelowFile: true}
	case unix.ENOSYS, unix.EPERM: // a kernel, or a sandbox, without statx
		return lookAt(string(path), follow)
	default:
		return Info{}
	}
	mode := uint32(r.st.Mode)
	kind := mode & unix.S_IFMT
	return Info{Exists: true, Regular: kind == unix.S_IFREG, Dir: kind == unix.S_IFDIR, Link: kind == unix.S_IFLNK,
		Executable: mode&0o111 != 0, Size: int64(r.st.Size)}
}

func lookAt(path string, follow bool) Info {
	var st syscall.Stat_t
	stat := syscall.Stat
	if !follow {
		stat = syscall.Lstat
	}
	for {
		switch err := stat(path, &st); err {
		case nil:
			kind := st.Mode & syscall.S_IFMT
			return Info{Exists: true, Regular: kind == syscall.S_IFREG, Dir: kind == syscall.S_IFDIR, Link: kind == syscall.S_IFLNK,
				Executable: os.FileMode(st.Mode)&0o111 != 0, Size: st.Size}
		case syscall.EINTR:
		case syscall.ENOTDIR:
			return Info{BelowFile: true}
		default:
			return Info{}
		}
	}
}
