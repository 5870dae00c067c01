package check

import (
	"cmp"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"httpjet/budget"
	"httpjet/generation"
	"httpjet/metrics"
	"httpjet/xmlconf"
)

// MigrationOptions say of what a migration report is made and how it is told.
type MigrationOptions struct {
	Root    string // server root
	File    string // one file instead; "": the tree below Root
	Format  string // one of MigrationFormats; "": text
	Version string
}

// MigrationFormats are what MigrationOptions.Format may be.
var MigrationFormats = []string{"text", "json", "markdown", "html"}

// Migration is the report for who moves a tree from LiteSpeed: each element of
// it with what becomes of it. Its JSON names are stable.
type Migration struct {
	Root    string    `json:"root"`
	Hash    string    `json:"generation_hash,omitempty"`
	Version string    `json:"version"`
	OK      bool      `json:"ok"` // the tree loads
	Total   Totals    `json:"total"`
	Scopes  []Scope   `json:"scopes"`
	Errors  []Finding `json:"errors"` // why something could not be read
}

// Scope is the server, or one virtual host or template.
type Scope struct {
	Name     string    `json:"scope"` // server, vhost:NAME, template:NAME
	Loaded   bool      `json:"loaded"`
	Total    Totals    `json:"total"`
	Elements []Element `json:"elements"`
}

// Element is one element that is written, or one default that differs from
// LiteSpeed's.
type Element struct {
	Element   string            `json:"element"`
	File      string            `json:"file"`
	Line      int               `json:"line"`
	Column    int               `json:"column"`
	Value     string            `json:"value"`
	Written   bool              `json:"written"`
	Treatment xmlconf.Treatment `json:"treatment"`
	Later     bool              `json:"later"` // a later version will honour it
	Reason    string            `json:"reason"`
	Risk      string            `json:"risk"`
}

// Totals count written elements by treatment; Defaults counts those that are not
// written and whose default differs.
type Totals struct {
	Elements int   `json:"elements"`
	Honoured Share `json:"honoured"`
	Changed  Share `json:"changed"`
	NoEffect Share `json:"no_effect"`
	Refused  Share `json:"refused"`
	Defaults int   `json:"defaults_changed"`
}

// Share is a number of elements and their part of all, in percent.
type Share struct {
	Count   int     `json:"count"`
	Percent float64 `json:"percent"`
}

// treatments in the order in which people have to look at them.
var treatments = []xmlconf.Treatment{xmlconf.Refused, xmlconf.Changed, xmlconf.NoEffect, xmlconf.Honoured}

// Migrate writes the migration report to out. It returns the exit code: Failed
// if the tree does not load; what could be read of it is reported all the same.
func Migrate(o MigrationOptions, out io.Writer) int {
	m := survey(o)
	if err := m.write(out, o.Format); err != nil || !m.OK {
		return Failed
	}
	return OK
}

// survey loads and builds the tree as a check does.
func survey(o MigrationOptions) *Migration {
	fs := &xmlconf.Findings{}
	m := &Migration{Root: o.Root, Version: o.Version, Scopes: []Scope{}, Errors: []Finding{}}
	if abs, err := filepath.Abs(o.Root); err == nil {
		m.Root = abs
	}
	var uses []xmlconf.Use
	if o.File != "" {
		m.Root = o.File
		var file any
		file, uses = xmlconf.SurveyFile(o.File, fs)
		reportClosed(file, fs)
		m.scope("file").Loaded = file != nil
	} else {
		var cfg *xmlconf.Config
		cfg, uses = xmlconf.Survey(o.Root, fs)
		m.scope("server").Loaded = cfg != nil
		if cfg != nil {
			m.Hash = cfg.Hash
			for _, h := range cfg.VHosts {
				m.scope("vhost:" + h.Name).Loaded = h.Conf != nil
			}
			kept := &generation.Kept{Metrics: metrics.New(), Bodies: &budget.Bodies{}}
			generation.Build(cfg, kept, generation.Options{Version: o.Version}, fs).Retire()
		}
	}
	m.OK = !fs.Failed()
	m.fill(uses, told(fs.All()))
	return m
}

// scope returns the scope of a name, made at the end if it is new.
func (m *Migration) scope(name string) *Scope {
	for i := range m.Scopes {
		if m.Scopes[i].Name == name {
			return &m.Scopes[i]
		}
	}
	m.Scopes = append(m.Scopes, Scope{Name: name, Loaded: true, Elements: []Element{}})
	return &m.Scopes[len(m.Scopes)-1]
}

// spot is where an element begins.
type spot struct {
	file         string
	line, column int
}

// fill sorts the uses into scopes, with what the findings say of them, and
// counts.
func (m *Migration) fill(uses []xmlconf.Use, findings []Finding) {
	about := map[spot][]Finding{}
	for _, f := range findings {
		if f.File != "" {
			about[spot{f.File, f.Line, f.Column}] = append(about[spot{f.File, f.Line, f.Column}], f)
		}
	}
	index := map[string]*Scope{}
	for i := range m.Scopes {
		index[m.Scopes[i].Name] = &m.Scopes[i]
	}
	seen := map[spot]bool{}
	for _, u := range uses {
		if index[u.Scope] == nil { // of a template without members
			m.scope(u.Scope)
			for i := range m.Scopes {
				index[m.Scopes[i].Name] = &m.Scopes[i]
			}
		}
		e := Element{u.Element, u.File, u.Line, u.Column, u.Value, u.Written, u.Treatment, u.Later, u.Why, u.Risk}
		at := spot{u.File, u.Line, u.Column}
		if u.Written {
			seen[at] = true
			for _, f := range about[at] {
				e.learn(f)
			}
		}
		s := index[u.Scope]
		s.Elements = append(s.Elements, e)
	}
	m.unplaced(findings, seen)
	for i := range m.Scopes {
		s := &m.Scopes[i]
		slices.SortStableFunc(s.Elements, func(a, b Element) int {
			return cmp.Or(cmp.Compare(slices.Index(treatments, a.Treatment), slices.Index(treatments, b.Treatment)), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
		})
		for _, e := range s.Elements {
			s.Total.count(e)
			m.Total.count(e)
		}
		s.Total.share()
	}
	m.Total.share()
}

// unplaced keeps what findings say of files and of whole blocks, which are no
// element with a value. It goes to the first scope with an element of the file.
func (m *Migration) unplaced(findings []Finding, seen map[spot]bool) {
	home := map[string]*Scope{}
	inside := map[string]bool{} // file and path of blocks whose elements are told
	for i := range m.Scopes {
		for _, e := range m.Scopes[i].Elements {
			inside[e.File+"\x00"+e.Element[:max(0, strings.LastIndexByte(e.Element, '/'))]] = true
			if home[e.File] == nil {
				home[e.File] = &m.Scopes[i]
			}
		}
	}
	for _, f := range findings {
		t, s := treatmentOf(f), home[f.File]
		switch {
		case seen[spot{f.File, f.Line, f.Column}] || t == "":
		case inside[f.File+"\x00"+f.Element] && (strings.HasSuffix(f.Code, "-NOT-YET") || strings.HasSuffix(f.Code, "-NO-EFFECT")):
		case f.Element == "" || s == nil:
			m.Errors = append(m.Errors, f)
		default:
			s.Elements = append(s.Elements, Element{f.Element, f.File, f.Line, f.Column, "", true, t, false, f.Message, ""})
		}
	}
}

// treatmentOf is what a finding makes of the element it names; "": nothing.
func treatmentOf(f Finding) xmlconf.Treatment {
	if strings.Contains(f.Message, "answers 503") || strings.Contains(f.Message, "answer 503") {
		return xmlconf.Refused
	}
	if i := slices.IndexFunc(Codes, func(c Code) bool { return c.Code == f.Code }); i >= 0 {
		return Codes[i].Treatment
	}
	return ""
}

// learn takes over what a finding says of the element, where that is worse than
// what is declared of it.
func (e *Element) learn(f Finding) {
	t := treatmentOf(f)
	rank := func(t xmlconf.Treatment) int {
		return slices.Index([]xmlconf.Treatment{xmlconf.Honoured, xmlconf.Changed, xmlconf.NoEffect, xmlconf.Refused}, t)
	}
	if t == "" || rank(t) < rank(e.Treatment) {
		return
	}
	if t != e.Treatment || e.Reason == "" || f.Severity == "error" {
		e.Reason, e.Risk = f.Message, ""
		if f.Hint != "" {
			e.Reason += " (" + f.Hint + ")"
		}
	}
	e.Treatment = t
	e.Later = e.Later || f.Code == "W-NOT-YET" || f.Code == "I-NOT-YET"
}

func (t *Totals) count(e Element) {
	if !e.Written {
		t.Defaults++
		return
	}
	t.Elements++
	switch e.Treatment {
	case xmlconf.Honoured:
		t.Honoured.Count++
	case xmlconf.Changed:
		t.Changed.Count++
	case xmlconf.NoEffect:
		t.NoEffect.Count++
	case xmlconf.Refused:
		t.Refused.Count++
	}
}

// share fills the percentages, to one decimal.
func (t *Totals) share() {
	for _, s := range []*Share{&t.Honoured, &t.Changed, &t.NoEffect, &t.Refused} {
		if t.Elements > 0 {
			s.Percent = math.Round(float64(s.Count)*1000/float64(t.Elements)) / 10
		}
	}
}
