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

// Exit codes of R-CHECK-2.
const (
	OK     = 0
	Failed = 1
	Usage  = 2 // bad command line: also a baseline that cannot be read
)

// Options say what is checked and how it is told.
type Options struct {
	Root          string // server root
	File          string // one server, vhost or template file instead; "": the tree below Root
	Strict        bool   // ERROR findings fail
	FailOn        string // error, warn or info: findings of this severity and worse fail; "": none do
	Format        string // text, json or sarif; "": text
	Baseline      string // file of findings that are known: they are neither told nor counted
	WriteBaseline string // file that gets the findings of this check as known ones
	Version       string
	User          func() int // effective user of the server that is meant; nil: that of this process
	Stderr        io.Writer  // for what is no report; nil: discarded
}

// Formats are what Options.Format may be.
var Formats = []string{"text", "json", "sarif"}

// Report is what a check found. Its JSON names are stable (R-CHECK-3).
type Report struct {
	Root        string    `json:"root"`
	Hash        string    `json:"generation_hash,omitempty"`
	Fingerprint string    `json:"fingerprint,omitempty"`
	Summary     *Summary  `json:"summary,omitempty"`
	Findings    []Finding `json:"findings"`
	Known       int       `json:"known,omitempty"` // findings of the baseline, which are left out
	OK          bool      `json:"ok"`
}

// Finding is xmlconf.Finding for machines.
type Finding struct {
	Code     string `json:"code"`
	Severity string `json:"severity"`
	File     string `json:"file"`
	Line     int    `json:"line"`
	Column   int    `json:"column"`
	Element  string `json:"element"`
	Message  string `json:"message"`
	Hint     string `json:"hint"`
}

// Run checks and writes the report to out. It returns the exit code.
func Run(o Options, out io.Writer) int {
	var known baseline
	if o.Baseline != "" {
		var err error
		if known, err = readBaseline(o.Baseline); err != nil {
			o.complain("baseline: %v", err)
			return Usage
		}
	}
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
	r.Findings = told(fs.All())
	if o.WriteBaseline != "" {
		if err := writeBaseline(o.WriteBaseline, r.Findings); err != nil {
			o.complain("baseline: %v", err)
			return Usage
		}
	}
	r.Findings, r.Known = known.without(r.Findings)
	r.OK = !fs.Failed() && !fails(r.Findings, o)
	if err := r.write(out, o); err != nil {
		return Failed
	}
	if !r.OK {
		return Failed
	}
	return OK
}

// complain tells why there is no report.
func (o Options) complain(format string, args ...any) {
	if o.Stderr != nil {
		fmt.Fprintf(o.Stderr, "httpjet: "+format+"\n", args...)
	}
}

// told puts findings in order for people: the worst first, since real trees have
// dozens of warnings around one error.
func told(all []xmlconf.Finding) []Finding {
	slices.SortStableFunc(all, func(a, b xmlconf.Finding) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	out := make([]Finding, 0, len(all))
	for _, f := range all {
		out = append(out, Finding{f.Code, f.Severity.String(), f.File, f.Line, f.Column, f.Element, f.Message, f.Hint})
	}
	return out
}

// severities are the names of severities, the least first.
var severities = []string{"info", "warn", "error"}

// fails reports whether a finding is as bad as what may not be there.
func fails(all []Finding, o Options) bool {
	limit := slices.Index(severities, o.FailOn)
	if o.Strict && limit < 0 {
		limit = slices.Index(severities, "error")
	}
	return limit >= 0 && slices.ContainsFunc(all, func(f Finding) bool { return slices.Index(severities, f.Severity) >= limit })
}

func (r *Report) write(out io.Writer, o Options) error {
	switch o.Format {
	case "json":
		return writeJSON(out, r)
	case "sarif":
		return writeJSON(out, r.sarif(o.Version))
	}
	r.writeText(out)
	return nil
}

func writeJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// buildTree resolves the tree as the server would, and gives everything back.
func buildTree(cfg *xmlconf.Config, r *Report, o Options, fs *xmlconf.Findings) {
	kept := &generation.Kept{Metrics: metrics.New(), Bodies: &budget.Bodies{}}
	g := generation.Build(cfg, kept, generation.Options{Version: o.Version, User: o.User}, fs)
	defer g.Retire()
	r.Hash = cfg.Hash
	r.Fingerprint = fingerprint(cfg)
	r.Summary = summarize(cfg, g)
	if !fs.Failed() {
		g.ReportHtaccess(fs)
		runRuleTests(cfg.Root, g, fs)
	}
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
