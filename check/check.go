// Package check tells people what a configuration means before it is served:
// findings with position and hint, a summary, an exit code. It loads and builds
// exactly as the server does and publishes nothing.
package check

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"httpjet/budget"
	"httpjet/generation"
	"httpjet/metrics"
	"httpjet/xmlconf"
)

// Exit codes of R-CHECK-2; 2 is a bad command line.
const (
	OK     = 0
	Failed = 1
)

// Options say what is checked and how it is told.
type Options struct {
	Root    string // server root
	File    string // one server, vhost or template file instead; "": the tree below Root
	Strict  bool   // ERROR findings fail
	JSON    bool   // machine-readable output
	Version string
}

// Report is what a check found. Its JSON names are stable (R-CHECK-3).
type Report struct {
	Root        string    `json:"root"`
	Hash        string    `json:"generation_hash,omitempty"`
	Fingerprint string    `json:"fingerprint,omitempty"`
	Summary     *Summary  `json:"summary,omitempty"`
	Findings    []Finding `json:"findings"`
	OK          bool      `json:"ok"`
}

// Finding is xmlconf.Finding for machines.
type Finding struct {
	Code     string `json:"code"`
	Severity string `json:"severity"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
	Element  string `json:"element,omitempty"`
	Message  string `json:"message"`
	Hint     string `json:"hint,omitempty"`
}

// Run checks and writes the report to out. It returns the exit code.
func Run(o Options, out io.Writer) int {
	fs := &xmlconf.Findings{}
	r := Report{Root: o.Root}
	if abs, err := filepath.Abs(o.Root); err == nil {
		r.Root = abs
	}
	if o.File != "" {
		r.Root = o.File
		reportClosed(xmlconf.LoadFile(o.File, fs), fs)
	} else if cfg := xmlconf.LoadServer(o.Root, fs); cfg != nil {
		buildTree(cfg, &r, o, fs)
	}
	code := OK
	if fs.Failed() || o.Strict && fs.Count(xmlconf.Error) > 0 {
		code = Failed
	}
	r.OK = code == OK
	// The worst comes first: real trees have dozens of warnings around one error.
	all := fs.All()
	slices.SortStableFunc(all, func(a, b xmlconf.Finding) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	r.Findings = make([]Finding, 0, len(all))
	for _, f := range all {
		r.Findings = append(r.Findings, Finding{f.Code, f.Severity.String(), f.File, f.Line, f.Column, f.Element, f.Message, f.Hint})
	}
	if o.JSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		enc.Encode(r)
		return code
	}
	r.writeText(out, all)
	return code
}

// buildTree resolves the tree as the server would, and gives everything back.
func buildTree(cfg *xmlconf.Config, r *Report, o Options, fs *xmlconf.Findings) {
	kept := &generation.Kept{Metrics: metrics.New(), Bodies: &budget.Bodies{}}
	g := generation.Build(cfg, kept, generation.Options{Version: o.Version}, fs)
	defer g.Retire()
	r.Hash = cfg.Hash
	r.Fingerprint = fingerprint(cfg)
	r.Summary = summarize(cfg, g)
}

// reportClosed says of a single file what a build says of a tree: which
// restrictions are not enforced, so that what holds them answers 503.
func reportClosed(file any, fs *xmlconf.Findings) {
	report := func(what string, list []xmlconf.Restriction) {
		for _, r := range list {
			if !generation.Honours(r) {
				fs.Error("E-CLOSED", r.At, r.Hint(), "%s; %s answers 503", r.Fault(), what)
			}
		}
	}
	var host *xmlconf.VHost
	switch f := file.(type) {
	case *xmlconf.Server:
		report("every virtual host", f.Restrictions())
		for _, l := range f.Listeners {
			report(fmt.Sprintf("every virtual host of listener %q", l.Name), l.Restrictions())
		}
		for _, h := range f.VirtualHosts {
			report(fmt.Sprintf("virtual host %q", h.Name), h.Restrictions())
		}
	case *xmlconf.VHost:
		host = f
	case *xmlconf.Template:
		report("every member", f.Restrictions())
		host = f.HostConfig
	}
	if host == nil {
		return
	}
	report("the virtual host", host.Restrictions())
	for _, c := range host.Contexts {
		if c.Enabled {
			report(fmt.Sprintf("context %q", c.URI), c.Restrictions())
		}
	}
}

// fingerprint is FNV-1a 64 over the sorted lines "listener TAB domain TAB vhost"
// (R-CHECK-4): two trees with one fingerprint map the same names.
func fingerprint(cfg *xmlconf.Config) string {
	var lines []string
	for _, l := range cfg.Server.Listeners {
		for _, m := range cfg.Mappings(l) {
			for _, d := range m.Domains {
				lines = append(lines, l.Name+"\t"+strings.ToLower(d)+"\t"+m.VHost+"\n")
			}
		}
	}
	slices.Sort(lines)
	sum := fnv.New64a()
	for _, line := range lines {
		io.WriteString(sum, line)
	}
	return fmt.Sprintf("fnv1a64:%016x", sum.Sum64())
}
