package xmlconf

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Treatment is what becomes of an element, in the words of the migration report.
type Treatment string

const (
	Honoured Treatment = "honoured"
	Changed  Treatment = "changed"   // acts, but not as in LiteSpeed
	NoEffect Treatment = "no_effect" // accepted and kept; nothing acts on it
	Refused  Treatment = "refused"   // what it stands in answers 503, or does not load
)

// A Use is one element of a tree with its treatment, or a default in force that
// is not LiteSpeed's.
type Use struct {
	Place
	Scope     string // server, vhost:NAME, template:NAME
	Value     string // as written, cut; without what may be secret
	Written   bool   // false: it is absent, and Value is the default that holds
	Treatment Treatment
	Later     bool   // has no effect yet
	Why       string // what differs, or why nothing acts on it
	Risk      string // what may go wrong for who relied on it
}

// Survey is LoadServer that also returns every element it met.
func Survey(root string, fs *Findings) (*Config, []Use) {
	s := &survey{}
	c := load(root, fs, s)
	return c, s.uses
}

// SurveyFile is LoadFile that also returns every element it met.
func SurveyFile(path string, fs *Findings) (any, []Use) {
	s := &survey{}
	v := loadFile(path, fs, s)
	return v, s.uses
}

// survey collects uses; nil collects none.
type survey struct{ uses []Use }

// maxUses bounds what a template with many members can make us keep.
const maxUses = 2_000_000

func (s *survey) add(u Use) {
	if s != nil && len(s.uses) < maxUses {
		s.uses = append(s.uses, u)
	}
}

// note adds a written element with the treatment that is declared for it, or for
// the group around it that is not honoured.
func (d *decoder) note(c *Node, e *element, isDefault bool, sc scope) {
	if d.survey == nil {
		return
	}
	u := Use{Place: sc.place(c, e.name), Scope: d.scope, Value: shown(c, e), Written: true}
	by := e
	if sc.under != nil {
		by, isDefault = sc.under, false
	}
	r := reasons[by.why]
	switch by.as {
	case later:
		u.Treatment, u.Later, u.Why, u.Risk = NoEffect, true, "not built yet", "httpjet acts as if it were not written"
		if isDefault {
			u.Treatment, u.Later, u.Why, u.Risk = Honoured, false, "", ""
		}
	case closes:
		u.Treatment, u.Why = Refused, "it restricts and is not honoured yet: what it stands in answers 503"
		if isDefault {
			u.Treatment, u.Why = Honoured, ""
		}
	case noEffect, obsolete:
		u.Treatment, u.Why, u.Risk = NoEffect, r.why, r.risk
		if isDefault {
			u.Risk = ""
		}
	default:
		u.Treatment = Honoured
		if e.changed != "" && e.applies(c, sc.node) {
			u.Treatment, u.Why = Changed, e.changed
		}
	}
	d.survey.add(u)
}

// noteLost adds an element that is not read, and says why.
func (d *decoder) noteLost(c *Node, name string, strict bool, why, risk string, sc scope) {
	if d.survey == nil {
		return
	}
	u := Use{sc.place(c, name), d.scope, shown(c, &element{name: name}), true, NoEffect, false, why, risk}
	if strict {
		u.Treatment, u.Risk = Refused, "the tree does not load"
	}
	d.survey.add(u)
}

// noteDefaults adds the defaults of a block that hold and are not LiteSpeed's,
// with those of the groups that are not written.
func (d *decoder) noteDefaults(s *schema, v reflect.Value, b *Block, sc scope) {
	if d.survey == nil || sc.quiet {
		return
	}
	for _, e := range s.elements {
		switch {
		case e.index == nil || b.Written(e.name):
		case e.litespeed != "" && (e.as != later || !e.minor):
			d.survey.add(Use{Place{b.Where.Pos, sc.path + "/" + e.name}, d.scope, e.def, false, Changed, false,
				"not written: " + e.def + " holds; in LiteSpeed it is " + e.litespeed, ""})
		case e.block() != nil && e.as == honoured && v.FieldByIndex(e.index).Kind() == reflect.Struct:
			inner := v.FieldByIndex(e.index)
			absent := Block{Where: b.Where}
			d.noteDefaults(d.schemas.of(inner.Type()), inner, &absent, scope{path: sc.path + "/" + e.name})
		}
	}
}

// applies reports whether e's departure concerns element c of block n. The tag
// when is "=0", a value of its own, or "type=proxy|fcgi", one of another child.
func (e *element) applies(c, n *Node) bool {
	sibling, values, ok := strings.Cut(e.when, "=")
	if !ok {
		return true
	}
	text := c.Text
	if sibling != "" {
		text = n.value(sibling)
	}
	return slices.ContainsFunc(strings.Split(values, "|"), func(v string) bool { return strings.EqualFold(v, text) })
}

// shown is the value of an element for people: short, and without what may be
// secret, since a report is handed on.
func shown(c *Node, e *element) string {
	lines := strings.Count(c.Text, "\n") + 1
	switch name := strings.ToLower(e.name); {
	case len(c.Children) > 0:
		if label := labelOf(c); label != "" {
			return cut(label)
		}
		return ""
	case c.Text == "":
		return ""
	case strings.Contains(name, "passwd"):
		return "..."
	case name == "env":
		name, _, _ := strings.Cut(c.Text, "=")
		return cut(name) + "=..."
	case e.unit == "text" || e.unit == "block" || lines > 1:
		return fmt.Sprintf("%d lines", lines)
	case name == "address":
		return redact(c.Text)
	}
	return cut(c.Text)
}
