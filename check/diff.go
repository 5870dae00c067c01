package check

import (
	"fmt"
	"io"
	"strings"

	"httpjet/budget"
	"httpjet/compress"
	"httpjet/generation"
	"httpjet/metrics"
	"httpjet/xmlconf"
)

// Difference is what is different between two configurations. Its JSON names are
// stable.
type Difference struct {
	Changes []Changed           `json:"changes"` // of the files
	Effects []generation.Effect `json:"effects"` // on what runs
}

// Changed is xmlconf.Change for machines.
type Changed struct {
	Part    string `json:"part,omitempty"`
	Element string `json:"element,omitempty"`
	Kind    string `json:"kind"` // changed, added, removed, moved
	Old     string `json:"old,omitempty"`
	New     string `json:"new,omitempty"`
	Acts    bool   `json:"acts"` // false: the element has no effect
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
}

// Diff compares the trees below two roots and writes the difference to out. It
// returns the exit code; an error says which tree does not load.
func Diff(o Options, a, b string, out io.Writer) (code int, err error) {
	kept := &generation.Kept{Metrics: metrics.New(), Bodies: &budget.Bodies{}}
	old, err := load(o, a, kept)
	defer old.Retire()
	if err != nil {
		return Failed, fmt.Errorf("%s: %w", a, err)
	}
	next, err := load(o, b, kept)
	defer next.Retire()
	if err != nil {
		return Failed, fmt.Errorf("%s: %w", b, err)
	}
	Compare(old, next).Write(out, o.Format == "json")
	return OK, nil
}

// load builds the tree below a root; an error is the first that keeps it from
// being served. The generation may be nil.
func load(o Options, root string, kept *generation.Kept) (*generation.Generation, error) {
	fs := &xmlconf.Findings{}
	cfg := xmlconf.LoadServer(root, fs)
	if cfg == nil {
		return nil, firstFatal(fs)
	}
	if n := cfg.Server.Tuning.CompressMemory; n > 0 && kept.Encoders == nil {
		kept.Encoders = compress.NewEncoders(n)
	}
	g := generation.Build(cfg, kept, generation.Options{Version: o.Version, User: o.User}, fs)
	if fs.Failed() {
		return g, firstFatal(fs)
	}
	return g, nil
}

// Compare tells what is different in next, and what publishing it after old would
// do. Both were built with one Kept.
func Compare(old, next *generation.Generation) *Difference {
	d := &Difference{Changes: []Changed{}, Effects: old.Effects(next)}
	for _, c := range xmlconf.Diff(old.Config, next.Config) {
		d.Changes = append(d.Changes, Changed{c.Part, c.Element, c.Kind.String(), c.Old, c.New, c.Acts, c.At.File, c.At.Line})
	}
	if d.Effects == nil {
		d.Effects = []generation.Effect{}
	}
	return d
}

// Write writes d as JSON or as text.
func (d *Difference) Write(out io.Writer, asJSON bool) {
	if asJSON {
		writeJSON(out, d)
		return
	}
	var b strings.Builder
	if len(d.Changes) == 0 {
		b.WriteString("no element has another value\n")
	}
	for _, c := range d.Changes {
		b.WriteString(c.text())
	}
	for _, e := range d.Effects {
		fmt.Fprintf(&b, "%s %s: %s", e.What, e.Name, e.Does)
		if e.Text != "" {
			b.WriteString(", " + e.Text)
		}
		b.WriteByte('\n')
	}
	io.WriteString(out, b.String())
}

func (c *Changed) text() string {
	var b strings.Builder
	sign := map[string]string{"added": "+", "removed": "-", "changed": "~", "moved": "~"}[c.Kind]
	b.WriteString(sign + " ")
	switch {
	case c.Part != "" && c.Element != "":
		b.WriteString(c.Part + ": " + c.Element)
	default:
		b.WriteString(c.Part + c.Element)
	}
	switch c.Kind {
	case "changed":
		fmt.Fprintf(&b, " %s -> %s", word(c.Old), word(c.New))
	case "moved":
		fmt.Fprintf(&b, ": order %s -> %s", c.Old, c.New)
	case "added":
		if c.New != "" {
			b.WriteString(" " + word(c.New))
		}
	case "removed":
		if c.Old != "" {
			b.WriteString(" " + word(c.Old))
		}
	}
	if !c.Acts {
		b.WriteString(" (has no effect)")
	}
	if c.File != "" {
		fmt.Fprintf(&b, "  [%s:%d]", c.File, c.Line)
	}
	return b.String() + "\n"
}

// word makes one line of a value that may have many.
func word(s string) string {
	if strings.ContainsAny(s, "\r\n") {
		return fmt.Sprintf("%q", s)
	}
	return s
}
