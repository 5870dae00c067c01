package xmlconf

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
	Hash   string // SHA-256 over names and contents of all inputs, hex (R-CFG-9)
}

// File is one input.
type File struct {
	Path   string
	SHA256 string // hex; empty if the file could not be read
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
}

// ServerFile is the server file below a server root.
const ServerFile = "conf/httpd_config.xml"

// LoadServer reads the server file below root, the vhost files and templates it
// names, and the MIME table. It returns nil if the server file cannot be used;
// fs.Failed tells whether what it returned may be published. It opens files and
// starts nothing (R-CFG-8).
func LoadServer(root string, fs *Findings) *Config {
	abs, err := filepath.Abs(root)
	if err != nil {
		fs.Fatal("E-READ", Place{}, "", "server root %q: %v", root, err)
		return nil
	}
	l := &loader{root: abs, fs: fs, dec: newDecoder(fs)}
	l.dec.vars = Expander{}.With("SERVER_ROOT", abs).With("HOSTNAME", hostname())
	n, err := l.parse(filepath.Join(abs, ServerFile))
	if err == nil {
		err = wantRoot(n, "httpServerConfig")
	}
	if err != nil {
		if pe, ok := errors.AsType[*ParseError](err); ok && pe.Code == "E-READ" {
			pe.Hint = "the server root is " + abs + "; --root DIR names another"
			if _, err := os.Stat(filepath.Join(abs, "conf/httpd_config.conf")); err == nil {
				pe.Hint = abs + " holds OpenLiteSpeed's conf/httpd_config.conf, which is not read; write XML"
			}
		}
		l.report(err, true)
		return nil
	}
	c := &Config{Root: abs, Server: l.server(n)}
	c.VHosts = l.hosts(c.Server)
	c.Mime = l.mime(c.Server)
	c.Files = l.files
	c.Hash = l.hash()
	return c
}

func hostname() string {
	if h, err := os.Hostname(); err == nil && h != "" {
		return h
	}
	return "localhost"
}

// parse reads a file and records it as an input.
func (l *loader) parse(path string) (*Node, error) {
	data, err := l.read(path)
	if err != nil {
		return nil, &ParseError{"E-READ", Pos{l.short(path), 1, 1}, err.Error(), ""}
	}
	return Parse(l.short(path), data, l.fs)
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
	l.dec.decode(n, s, "httpServerConfig")
	if s.ServerName == "" || strings.Contains(s.ServerName, "$") {
		s.ServerName = hostname()
	}
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
func LoadFile(path string, fs *Findings) any {
	l := &loader{fs: fs, dec: newDecoder(fs)}
	n, err := l.parse(path)
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
