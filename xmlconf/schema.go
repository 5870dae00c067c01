package xmlconf

import (
	"reflect"
	"slices"
	"strings"
)

// treatment is what httpjet does with an element that is written.
type treatment uint8

const (
	honoured treatment = iota
	later              // known, not honoured yet: W-NOT-YET, I-NOT-YET if minor
	closes             // restricts; not honoured yet: its host or context is closed (R-SAFE-1)
	noEffect           // accepted, never has an effect: W-NO-EFFECT, I-NO-EFFECT if minor
	obsolete           // leftover of old versions: silent
)

var treatmentNames = [...]string{"honoured", "later", "closes", "noeffect", "obsolete"}

func (t treatment) String() string { return treatmentNames[t] }

// element is one declaration: what the tags of a field say.
type element struct {
	name   string // of the element, or of an item
	list   string // optional wrapper of repeated items; "" if none
	index  []int  // of the field; nil: known, without a value
	typ    reflect.Type
	unit   string
	limits string // tag range
	def    string // tag default
	hasDef bool
	as     treatment
	strict bool
	minor  bool // what its treatment takes away changes no answer and lifts no limit
	expand bool
	must   bool // an item without it is skipped
	gate   string
	code   string
	doc    string

	changed   string // how it departs from LiteSpeed
	when      string // condition of changed; see applies
	litespeed string // LiteSpeed's default, where it differs
	why       string // key of reasons, of what has no effect
}

var (
	blockType = reflect.TypeFor[Block]()
	textsType = reflect.TypeFor[[]Text]()
)

// repeated reports whether several siblings are legal.
func (e *element) repeated() bool {
	if e.index == nil {
		return e.unit == "block" // nothing is read from it, so nothing can win
	}
	return e.typ == textsType || e.typ.Kind() == reflect.Slice && e.typ.Elem().Kind() == reflect.Pointer
}

// block returns the struct type of a group or item, nil for a value.
func (e *element) block() reflect.Type {
	t := e.typ
	if t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || e.index == nil || t == textsType.Elem() {
		return nil
	}
	return t
}

// schema is the declarations of one struct, in the order of the struct.
type schema struct {
	elements []*element
	byName   map[string]*element // lower case
	byList   map[string]*element // lower-case wrappers
}

// schemas reads declarations once for each type. It belongs to one decoder.
type schemas map[reflect.Type]*schema

func (m schemas) of(t reflect.Type) *schema {
	if s := m[t]; s != nil {
		return s
	}
	s := &schema{byName: map[string]*element{}, byList: map[string]*element{}}
	s.read(t, nil)
	m[t] = s
	return s
}

// read goes through embedded structs, so that a host's and a listener's TLS
// settings are declared once.
func (s *schema) read(t reflect.Type, index []int) {
	for i := range t.NumField() {
		f := t.Field(i)
		at := append(index[:len(index):len(index)], i)
		if f.Anonymous {
			if f.Type != blockType {
				s.read(f.Type, at)
			}
			continue
		}
		if _, ok := f.Tag.Lookup("conf"); ok {
			s.add(newElement(f, at))
		}
	}
}

// newElement reads the tags of one field; a word it does not know is a mistake of
// ours, not of a file.
func newElement(f reflect.StructField, at []int) *element {
	e := &element{
		index: at, typ: f.Type, unit: f.Tag.Get("unit"), limits: f.Tag.Get("range"),
		expand: f.Tag.Get("expand") == "1" || f.Tag.Get("unit") == "path",
		must:   f.Tag.Get("required") == "1",
		gate:   f.Tag.Get("gate"), code: f.Tag.Get("code"), doc: f.Tag.Get("doc"),
		changed: f.Tag.Get("changed"), when: f.Tag.Get("when"), litespeed: f.Tag.Get("litespeed"), why: f.Tag.Get("why"),
	}
	if f.Name == "_" {
		e.index = nil
	}
	e.def, e.hasDef = f.Tag.Lookup("default")
	e.name = f.Tag.Get("conf")
	if list, item, ok := strings.Cut(e.name, "/"); ok {
		e.list, e.name = list, item
	}
	for word := range strings.SplitSeq(f.Tag.Get("as"), ",") {
		switch i := slices.Index(treatmentNames[:], word); {
		case word == "": // no tag: honoured
		case i >= 0:
			e.as = treatment(i)
		case word == "strict":
			e.strict = true
		case word == "minor":
			e.minor = true
		default:
			panic("BUG: unknown treatment " + word)
		}
	}
	return e
}

// add refuses a second declaration of a name, which would never be found.
func (s *schema) add(e *element) {
	key := strings.ToLower(e.name)
	if s.byName[key] != nil {
		panic("BUG: element " + e.name + " is declared twice")
	}
	s.byName[key] = e
	if e.list != "" {
		s.byList[strings.ToLower(e.list)] = e
	}
	s.elements = append(s.elements, e)
}

// knows reports whether an element of this name, in any case, may stand in the
// block.
func (s *schema) knows(name string) bool {
	key := strings.ToLower(name)
	return s.byName[key] != nil || s.byList[key] != nil
}

// names returns every name that may stand in the block, for suggestions.
func (s *schema) names() []string {
	var all []string
	for _, e := range s.elements {
		all = append(all, e.name)
		if e.list != "" {
			all = append(all, e.list)
		}
	}
	return all
}
