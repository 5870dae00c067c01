package xmlconf

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

const docsHead = `# Configuration elements

Generated from the declarations in package xmlconf; do not edit. Each table is
one kind of block, with the places where it may stand. Names are matched in any
case, list wrappers may be left out, and an empty element means "not set".

| treatment | means |
|---|---|
| honoured | acts as described, and as in LiteSpeed |
| changed | acts, with the difference from LiteSpeed that the last column tells |
| later | known, not honoured by this version: finding W-NOT-YET when it is set to something other than its default |
| closes | restricts, not honoured by this version: what it stands in answers 503, finding E-CLOSED |
| noeffect | accepted, never has an effect: finding W-NO-EFFECT or the one named |
| obsolete | leftover of old versions, silent |

A *strict* element makes loading fail when its value is wrong, when it is written
twice, or when it holds something unknown. Everywhere else a value out of range is
replaced by the default, with finding W-RANGE; it is never clamped.

A *minor* element that is not honoured changes no answer and lifts no limit: numbers
of caches, compression and sockets, identities of programs that httpjet does not
start. Its finding is a remark, I-NOT-YET or I-NO-EFFECT, which ` + "`check`" + ` lists last and
the server logs at level DEBUG only.

Where LiteSpeed has another default, it stands in parentheses: a file that does not
write the element acts differently here. ` + "`httpjet report`" + ` lists what of this concerns a
tree, with positions and values; there later, noeffect and obsolete are *no_effect*,
and closes is *refused*.

Where a block may stand is marked when it is not honoured there; then none of its
elements acts, whatever its table says of them.
`

// Docs renders docs/config.md from the declarations.
func Docs() string {
	w := &docsWriter{schemas: schemas{}, places: map[reflect.Type][]string{}}
	w.visit(reflect.TypeFor[Server](), "httpServerConfig")
	w.visit(reflect.TypeFor[VHost](), "virtualHostConfig")
	w.visit(reflect.TypeFor[Template](), "virtualHostTemplate")
	w.out.WriteString(docsHead)
	for _, t := range w.order {
		w.section(t)
	}
	return w.out.String()
}

type docsWriter struct {
	schemas schemas
	order   []reflect.Type
	places  map[reflect.Type][]string
	out     strings.Builder
}

// visit notes where a block may stand and goes into the blocks it holds, once.
func (w *docsWriter) visit(t reflect.Type, place string) {
	known := len(w.places[t]) > 0
	w.places[t] = append(w.places[t], place)
	if known {
		return
	}
	w.order = append(w.order, t)
	path, _, _ := strings.Cut(place, " ")
	for _, e := range w.schemas.of(t).elements {
		if inner := e.block(); inner != nil {
			at := path + "/" + e.path()
			if note := e.note(); note != "honoured" {
				at += " (" + note + ")"
			}
			w.visit(inner, at)
		}
	}
}

func (w *docsWriter) section(t reflect.Type) {
	fmt.Fprintf(&w.out, "\n## %s\n\n", t.Name())
	for _, p := range w.places[t] {
		path, note, _ := strings.Cut(p, " ")
		fmt.Fprintf(&w.out, "- %s\n", strings.TrimSpace("`"+path+"` "+note))
	}
	w.out.WriteString("\n| element | type | unit | range | default | treatment | meaning |\n|---|---|---|---|---|---|---|\n")
	for _, e := range w.schemas.of(t).elements {
		fmt.Fprintf(&w.out, "| `%s` | %s | %s | %s | %s | %s | %s |\n", e.path(), e.kind(), e.unitName(), cell(e.limits),
			cell(e.shownDefault()), e.note(), cell(e.meaning()))
	}
}

func (e *element) path() string {
	if e.list == "" {
		return e.name
	}
	return e.list + "/" + e.name
}

// note is the treatment with strictness and the code of its finding.
func (e *element) note() string {
	words := []string{e.as.String()}
	if e.as == honoured && e.changed != "" {
		words[0] = "changed"
	}
	if e.strict {
		words = append(words, "strict")
	}
	if e.minor {
		words = append(words, "minor")
	}
	if e.code != "" {
		words = append(words, e.code)
	}
	return strings.Join(words, ", ")
}

func (e *element) shownDefault() string {
	if e.def == "-1" && strings.Contains(e.doc, "absent:") {
		return ""
	}
	def := e.def
	if e.hasDef && e.unit == "path" {
		def = "$SERVER_ROOT/" + e.def
	}
	if e.litespeed != "" {
		def += " (" + e.litespeed + ")"
	}
	return def
}

// meaning is the sentence of the element, with what differs, or why it has no
// effect and what that may cost.
func (e *element) meaning() string {
	s := e.doc
	if e.changed != "" {
		s += ". Changed"
		if sibling, values, ok := strings.Cut(e.when, "="); ok && sibling != "" {
			s += " where " + sibling + " is " + strings.ReplaceAll(values, "|", " or ")
		} else if ok {
			s += " for " + strings.ReplaceAll(values, "|", " and ")
		}
		s += ": " + e.changed
	}
	if r := reasons[e.why]; r.why != "" && e.why != "remark" {
		s += ". No effect: " + r.why
		if r.risk != "" {
			s += ". Risk: " + r.risk
		}
	}
	return s
}

// unitName is the unit of a value, "" for text and numbers without one.
func (e *element) unitName() string {
	switch e.unit {
	case "s":
		return "seconds"
	case "size":
		return "bytes"
	case "octal", "path", "text":
		return e.unit
	case "log":
		return "path"
	case "acl":
		return "addresses"
	}
	return ""
}

// kind is the type of a value for people.
func (e *element) kind() string {
	if t := e.block(); t != nil {
		if e.repeated() {
			return "[" + t.Name() + "](#" + strings.ToLower(t.Name()) + "), repeated"
		}
		return "[" + t.Name() + "](#" + strings.ToLower(t.Name()) + ")"
	}
	if e.index == nil && e.unit == "block" {
		return "any"
	}
	if e.index == nil {
		return "text"
	}
	var kind string
	switch e.typ {
	case reflect.TypeFor[bool]():
		kind = "0, 1"
	case reflect.TypeFor[[]string](), reflect.TypeFor[[]int]():
		kind = "list"
	case textsType:
		kind = "text, repeated"
	case reflect.TypeFor[time.Duration]():
		kind = "duration"
	case reflect.TypeFor[string]():
		kind = "text"
	default:
		kind = "number"
	}
	return kind
}

// cell keeps a text inside its cell.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
