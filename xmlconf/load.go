package xmlconf

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// Config is everything read from one server root.
type Config struct {
	Root   string // absolute
	Server *Server
	VHosts []*Host // declared hosts in file order, then members of templates
	Mime   *Mime
	Files  []File // all inputs, in the order of reading

	// Patterns are what include lines matched: another file that matches is an input
	// as soon as it is there.
	Patterns []Pattern

	Hash string // SHA-256 over names and contents of all inputs, hex (R-CFG-9)
}

// File is one input.
type File struct {
	Path   string
	SHA256 string // hex; empty if the file could not be read
}

// Pattern is a pattern of an include line and the files that it matched, absolute and
// sorted.
type Pattern struct {
	Path  string
	Files []string
}

// Host is one virtual host: a declaration, or a member of a template, with its
// settings.
type Host struct {
	Name     string
	Root     string     // vhRoot, absolute
	Decl     *VHostDecl // of a member: made from the template's switches
	Template string     // name of the template; empty: declared
	File     string     // file of Conf
	Conf     *VHost     // nil: declared, not loaded (R-CFG-5)

	// Listeners and Domains are the maps that do not stand in a listener: a
	// declaration's listeners with the file's vhDomain and vhAliases, or a
	// template's listeners with the member's.
	Listeners []string
	Domains   []string
}

// Mapping leads domains of a listener to a host, which need not be declared.
type Mapping struct {
	VHost   string
	Domains []string
	At      Place
}

// Mappings returns what listener l maps, in the order that decides between equal
// names (LSX 5.3): its own maps, then declarations and members that name it.
func (c *Config) Mappings(l *Listener) []Mapping {
	var out []Mapping
	for _, m := range l.Maps {
		out = append(out, Mapping{m.VHost, m.Domains, m.Where})
	}
	for _, h := range c.VHosts {
		if slices.Contains(h.Listeners, l.Name) {
			out = append(out, Mapping{h.Name, h.Domains, h.Decl.Where})
		}
	}
	return out
}

// loader owns the state of one load.
type loader struct {
	root  string // "" for a single file
	fs    *Findings
	dec   *decoder
	files []File

	patterns []Pattern
}

// ServerFile is the server file below a server root, and PlainServerFile the
// one of OpenLiteSpeed, which is read where the first is missing.
const (
	ServerFile      = "conf/httpd_config.xml"
	PlainServerFile = "conf/httpd_config.conf"
)

// Root elements of the three kinds of file.
const (
	serverRoot   = "httpServerConfig"
	hostRoot     = "virtualHostConfig"
	templateRoot = "virtualHostTemplate"
)

// LoadServer reads the server file below root, the vhost files and templates it
// names, and the MIME table. It returns nil if the server file cannot be used;
// fs.Failed tells whether what it returned may be published. It opens files and
// starts nothing (R-CFG-8).
func LoadServer(root string, fs *Findings) *Config { return load(root, fs, nil) }

func load(root string, fs *Findings, s *survey) *Config {
	abs, err := filepath.Abs(root)
	if err != nil {
		fs.Fatal("E-READ", Place{}, "", "server root %q: %v", root, err)
		return nil
	}
	l := &loader{root: abs, fs: fs, dec: newDecoder(fs)}
	l.dec.survey, l.dec.scope = s, "server"
	l.dec.vars = Expander{}.With("SERVER_ROOT", abs).With("HOSTNAME", hostname())
	n, err := l.parse(l.serverFile(), serverRoot)
	if err == nil {
		err = wantRoot(n, serverRoot)
	}
	if err != nil {
		if pe, ok := errors.AsType[*ParseError](err); ok && pe.Code == "E-READ" {
			pe.Hint = "the server root is " + abs + "; --root DIR names another"
		}
		l.report(err, true)
		return nil
	}
	c := &Config{Root: abs, Server: l.server(n)}
	c.VHosts = l.hosts(c.Server)
	c.Mime = l.mime(c.Server)
	c.Files, c.Patterns = l.files, l.patterns
	c.Hash = l.hash()
	return c
}

// rootTypes are the declarations of each kind of file.
var rootTypes = map[string]reflect.Type{
	serverRoot: reflect.TypeFor[Server](), hostRoot: reflect.TypeFor[VHost](), templateRoot: reflect.TypeFor[Template](),
}

func hostname() string {
	if h, err := os.Hostname(); err == nil && h != "" {
		return h
	}
	return "localhost"
}

// serverFile chooses the server file. XML wins, as only one of two that may say
// different things can be meant.
func (l *loader) serverFile() string {
	first, plain := filepath.Join(l.root, ServerFile), filepath.Join(l.root, PlainServerFile)
	_, missing := os.Stat(first)
	if _, err := os.Stat(plain); err != nil {
		return first
	}
	if errors.Is(missing, os.ErrNotExist) {
		return plain
	}
	l.fs.Warn("W-TWO-FILES", Place{Pos: Pos{PlainServerFile, 1, 1}}, "remove the one that does not count",
		"%s is not read, because there is %s", PlainServerFile, ServerFile)
	return first
}

// parse reads a file and records it as an input. root is the root element that
// it has, or would have if it is of the plain dialect; "": judged by its content.
func (l *loader) parse(path, root string) (*Node, error) {
	data, err := l.read(path)
	if err != nil {
		return nil, &ParseError{"E-READ", Pos{l.short(path), 1, 1}, err.Error(), ""}
	}
	if !isPlain(path, data) {
		return Parse(l.short(path), data, l.fs)
	}
	n, err := parsePlain(l.short(path), data, root, l.includes(path))
	if err != nil {
		return nil, err
	}
	if root == "" {
		n.Name = plainKind(n)
	}
	if s := l.dec.schemas.of(rootTypes[n.Name]); !slices.ContainsFunc(n.Children, func(c *Node) bool { return s.knows(c.Name) }) {
		return nil, plainFail(n.Children[0].Pos, "write XML, or lines key value and blocks", "file holds no known setting; the first is %s", cut(n.Children[0].Name))
	}
	return n, nil
}

// isPlain tells the plain dialect from XML: by the file's suffix .xml, else by
// its first character, since XML in files called .conf is common.
func isPlain(path string, data []byte) bool {
	data = bytes.TrimLeft(bytes.TrimPrefix(data, []byte("\ufeff")), " \t\r\n")
	return !strings.EqualFold(filepath.Ext(path), ".xml") && len(data) > 0 && data[0] != '<'
}

// plainKind judges what a plain file is about, since it has no root element.
func plainKind(n *Node) string {
	switch has := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return n.child(name) != nil })
	}; {
	case has("virtualHostConfig"):
		return templateRoot
	case has("listener", "virtualHost", "vhTemplate", "serverName", "tuning", "mime"):
		return serverRoot
	}
	return hostRoot
}

// includes returns what reads the files of an include line in the file path:
// one file, the files of a directory, or those that a pattern matches, by name.
func (l *loader) includes(path string) includer {
	return func(pattern string) ([]plainFile, error) {
		base := l.root
		if base == "" {
			base = filepath.Dir(path)
		}
		full, _ := l.dec.vars.Path(pattern, base)
		names := []string{full}
		if st, err := os.Stat(full); err == nil && st.IsDir() {
			full = filepath.Join(full, "*")
		}
		if strings.ContainsAny(full, "*?[") {
			matches, err := filepath.Glob(full) // sorted by name
			if err != nil {
				return nil, err
			}
			names = slices.DeleteFunc(matches, func(name string) bool {
				st, err := os.Stat(name)
				return err == nil && st.IsDir()
			})
			l.patterns = append(l.patterns, Pattern{full, names})
		}
		if len(names) > maxIncludes {
			return nil, fmt.Errorf("more than %d files", maxIncludes)
		}
		var out []plainFile
		for _, name := range names {
			data, err := l.read(name)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", l.short(name), err)
			}
			out = append(out, plainFile{l.short(name), data})
		}
		return out, nil
	}
}

// read returns at most one byte more than a file may have. What is no regular
// file is not opened, so a FIFO cannot hold up a reload.
func (l *loader) read(path string) ([]byte, error) {
	file := File{Path: l.short(path)}
	defer func() { l.files = append(l.files, file) }()
	st, err := os.Stat(path)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	if !st.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	file.SHA256 = hex.EncodeToString(sum[:])
	return data, nil
}

// short is a path for people: relative to the server root if it lies below.
func (l *loader) short(path string) string {
	if rel, err := filepath.Rel(l.root, path); l.root != "" && err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return path
}

// hash covers the inputs by name and content; a missing one counts as such.
func (l *loader) hash() string {
	h := sha256.New()
	for _, f := range l.files {
		fmt.Fprintf(h, "%s\x00%s\n", f.Path, f.SHA256)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// wantRoot refuses a file of another kind.
func wantRoot(n *Node, name string) error {
	if strings.EqualFold(n.Name, name) {
		return nil
	}
	return &ParseError{"E-ROOT", n.Pos, fmt.Sprintf("root element is <%s>, not <%s>", cut(n.Name), name), ""}
}

// report tells why a file could not be used.
func (l *loader) report(err error, fatal bool) {
	pe, ok := errors.AsType[*ParseError](err)
	if !ok {
		panic("BUG: " + err.Error())
	}
	l.fs.Add(Finding{Code: pe.Code, Severity: Error, Fatal: fatal, Pos: pe.Pos, Message: pe.Msg, Hint: pe.Hint})
}

// server decodes the server file and settles what one element cannot say.
func (l *loader) server(n *Node) *Server {
	s := &Server{}
	n = l.dec.cacheModule(n, serverRoot)
	l.dec.decode(n, s, serverRoot)
	modules(s.Modules, l.fs)
	if s.ServerName == "" || strings.Contains(s.ServerName, "$") {
		s.ServerName = hostname()
	}
	s.PHP.declare(s, l.root)
	s.ExtProcessors = l.processors(s.ExtProcessors)
	s.VirtualHosts = distinct(s.VirtualHosts, "virtualHost", l.fs, func(v *VHostDecl) (string, string, Place) { return v.Name, v.Name, v.At("name") })
	s.Templates = distinct(s.Templates, "vhTemplate", l.fs, func(t *TemplateDecl) (string, string, Place) { return t.Name, t.Name, t.At("name") })
	declared := s.Listeners
	s.Listeners = distinct(s.Listeners, "listener", l.fs, func(t *Listener) (string, string, Place) { return t.Name, t.Name, t.At("name") })
	l.listeners(s.Listeners)
	for _, ln := range declared {
		if !slices.Contains(s.Listeners, ln) {
			s.Refused = append(s.Refused, ln)
		}
	}
	s.settle(l.fs)
	return s
}

// distinct drops items whose key stands before (LSX: the first stays). identify
// returns key, name and place of an item.
func distinct[T any](items []T, what string, fs *Findings, identify func(T) (string, string, Place)) []T {
	seen := map[string]bool{}
	var out []T
	for _, it := range items {
		key, name, at := identify(it)
		if seen[key] {
			fs.Error("E-DUPNAME", at, "rename one", "%s %q is declared twice: the first one is used", what, cut(name))
			continue
		}
		seen[key] = true
		out = append(out, it)
	}
	return out
}

// listeners reads their addresses. One that cannot be used leaves Bind empty;
// the other listeners start (LSX 5.1).
func (l *loader) listeners(all []*Listener) {
	for _, ln := range all {
		a, err := ParseListenAddress(ln.Address)
		if err != nil {
			l.fs.Error("E-ADDR", ln.At("address"), hintOf(err), "listener %q: address %q %v: the listener is not opened", ln.Name, cut(ln.Address), err)
			continue
		}
		ln.Bind = a
	}
}

// processors settles each and drops duplicates of one scope and type (R-CFG-10).
func (l *loader) processors(all []*ExtProcessor) []*ExtProcessor {
	all = distinct(all, "extProcessor", l.fs, func(p *ExtProcessor) (string, string, Place) {
		kind := fmt.Sprint(p.Kind())
		if p.Kind() == KindUnsupported {
			kind = strings.ToLower(p.Type)
		}
		return kind + "::" + p.Name, p.Name, p.At("name")
	})
	for _, p := range all {
		p.settle(l.fs)
	}
	return all
}

// LoadFile reads one file by its root element, for a check of a file that has no
// server around it: variables without a value stay as text. It returns a
// *Server, a *VHost, a *Template, or nil.
func LoadFile(path string, fs *Findings) any { return loadFile(path, fs, nil) }

func loadFile(path string, fs *Findings, s *survey) any {
	l := &loader{fs: fs, dec: newDecoder(fs)}
	l.dec.survey, l.dec.scope = s, "file"
	n, err := l.parse(path, "")
	if err != nil {
		l.report(err, true)
		return nil
	}
	return l.document(n)
}

func (l *loader) document(n *Node) any {
	switch strings.ToLower(n.Name) {
	case "httpserverconfig":
		return l.server(n)
	case "virtualhostconfig":
		v := &VHost{}
		l.vhost(n, v, n.Name, l.dec.vars)
		if v.DocRoot == "" {
			l.fs.Error("E-UNLOADED", v.Where, "write docRoot", "docRoot is missing: the host would not be loaded")
		}
		return v
	case "virtualhosttemplate":
		t := &Template{}
		l.dec.decode(n, t, n.Name)
		if t.HostConfig != nil {
			l.settle(t.HostConfig, l.dec.vars)
		}
		return t
	case "adminconfig":
		l.fs.Info("I-ADMIN", Place{n.Pos, n.Name}, "", "configuration of the WebAdmin console: httpjet has none and does not need this file")
		return nil
	}
	l.report(&ParseError{"E-ROOT", n.Pos, fmt.Sprintf("root element <%s> is unknown", cut(n.Name)),
		"use httpServerConfig, virtualHostConfig or virtualHostTemplate"}, true)
	return nil
}
