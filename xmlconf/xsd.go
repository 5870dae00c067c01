package xmlconf

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"
)

// Schema returns an XML schema (XSD 1.0) of one kind of file, for editors and
// validators: kind is server, vhost or template. It is made from the same
// declarations as the reader and is as free in order as that is. It accepts what
// the reader takes without a finding about the file's form: known elements in
// LiteSpeed's spelling, with values of the right type and range. "" for another
// kind.
func Schema(kind string) string {
	w := &xsdWriter{schemas: schemas{}, known: map[reflect.Type]bool{}, strict: map[reflect.Type]bool{}}
	root := map[string]string{"server": serverRoot, "vhost": hostRoot, "template": templateRoot}[kind]
	if root == "" {
		return ""
	}
	w.out.WriteString(xsdHead)
	fmt.Fprintf(&w.out, "  <xs:element name=%q type=%q/>\n", root, w.use(rootTypes[root], false))
	for len(w.queue) > 0 {
		t := w.queue[0]
		w.queue = w.queue[1:]
		w.block(t)
	}
	w.out.WriteString("</xs:schema>\n")
	return w.out.String()
}

// xsdHead holds the types that elements share. Blanks around values do not
// matter, and an empty element means "not set".
const xsdHead = `<?xml version="1.0" encoding="UTF-8"?>
<!-- Generated from the declarations in package xmlconf by: httpjet schema -->
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">
  <xs:simpleType name="unset">
    <xs:restriction base="xs:token"><xs:maxLength value="0"/></xs:restriction>
  </xs:simpleType>
  <xs:simpleType name="switch">
    <xs:restriction base="xs:token">
      <xs:enumeration value="0"/><xs:enumeration value="1"/><xs:enumeration value=""/>
    </xs:restriction>
  </xs:simpleType>
  <xs:simpleType name="suffixed">
    <xs:restriction base="xs:token"><xs:pattern value="[+\-]?[0-9]+[KMGkmg]"/></xs:restriction>
  </xs:simpleType>
  <xs:simpleType name="duration">
    <xs:restriction base="xs:token"><xs:pattern value="[0-9]+(ms|s|m|h)"/></xs:restriction>
  </xs:simpleType>
  <xs:simpleType name="octal">
    <xs:restriction base="xs:token"><xs:pattern value="[0-7]*"/></xs:restriction>
  </xs:simpleType>
  <xs:complexType name="any" mixed="true">
    <xs:sequence><xs:any minOccurs="0" maxOccurs="unbounded" processContents="skip"/></xs:sequence>
    <xs:anyAttribute processContents="skip"/>
  </xs:complexType>
`

// xsdWriter writes one type for each declared block, once.
type xsdWriter struct {
	schemas schemas
	known   map[reflect.Type]bool
	strict  map[reflect.Type]bool // stands in strict groups only
	queue   []reflect.Type
	out     strings.Builder
}

// use returns the name of a block's type, and has it written.
func (w *xsdWriter) use(t reflect.Type, strict bool) string {
	if !w.known[t] {
		w.known[t], w.strict[t] = true, strict
		w.queue = append(w.queue, t)
	}
	return t.Name()
}

// block writes the type of a block: any number of its elements in any order, as
// the order of LiteSpeed's files is free and a repeated element is no fault of
// form. Text between them is ignored by the reader, hence mixed.
func (w *xsdWriter) block(t reflect.Type) {
	fmt.Fprintf(&w.out, "  <xs:complexType name=%q mixed=\"true\">\n    <xs:choice minOccurs=\"0\" maxOccurs=\"unbounded\">\n", t.Name())
	s := w.schemas.of(t)
	w.elements(s, w.strict[t])
	// The group security is optional, like all wrappers (LSX 1.4).
	if g := s.byName["security"]; g != nil {
		inner := w.schemas.of(g.block())
		rest := &schema{}
		for _, e := range inner.elements {
			if !s.knows(e.name) && (e.list == "" || !s.knows(e.list)) {
				rest.elements = append(rest.elements, e)
			}
		}
		w.elements(rest, false)
	}
	w.out.WriteString("    </xs:choice>\n  </xs:complexType>\n")
}

// elements writes each element and the wrapper of a list.
func (w *xsdWriter) elements(s *schema, strict bool) {
	lists := map[string]bool{}
	for _, e := range s.elements {
		if e.list != "" && !lists[e.list] {
			lists[e.list] = true
			fmt.Fprintf(&w.out, "      <xs:element name=%q>\n        <xs:complexType mixed=\"true\"><xs:sequence>\n", e.list)
			w.element(e, strict, "          ", ` minOccurs="0" maxOccurs="unbounded"`)
			w.out.WriteString("        </xs:sequence></xs:complexType>\n      </xs:element>\n")
		}
		if e.list != "" && e.typ == textsType {
			continue // dir stands in accessDenyDir alone
		}
		w.element(e, strict, "      ", "")
	}
}

// element writes one declaration with its documentation.
func (w *xsdWriter) element(e *element, strict bool, indent, occurs string) {
	strict = strict || e.strict
	doc := e.doc
	if e.hasDef && e.block() == nil && e.def != "-1" {
		doc += "; default " + e.shownDefault()
	}
	doc += " [" + e.note() + "]"
	note := "<xs:annotation><xs:documentation>" + xsdText(doc) + "</xs:documentation></xs:annotation>"
	name := indent + `<xs:element name="` + e.name + `"` + occurs
	switch inner := e.block(); {
	case inner != nil:
		fmt.Fprintf(&w.out, "%s type=%q>%s</xs:element>\n", name, w.use(inner, strict), note)
	case e.unit == "block":
		fmt.Fprintf(&w.out, "%s type=\"any\">%s</xs:element>\n", name, note)
	default:
		w.value(e, strict, name, note)
	}
}

// value writes an element that holds text, with the narrowest type that takes
// all the reader does.
func (w *xsdWriter) value(e *element, strict bool, name, note string) {
	whole := map[reflect.Type]bool{reflect.TypeFor[int](): true, reflect.TypeFor[int64](): true, reflect.TypeFor[time.Duration](): true}
	switch {
	case e.index != nil && e.typ == reflect.TypeFor[bool]():
		fmt.Fprintf(&w.out, "%s type=\"switch\">%s</xs:element>\n", name, note)
	case e.index != nil && e.typ == reflect.TypeFor[uint32]():
		fmt.Fprintf(&w.out, "%s type=\"octal\">%s</xs:element>\n", name, note)
	case e.index != nil && whole[e.typ]:
		fmt.Fprintf(&w.out, "%s>%s\n        <xs:simpleType><xs:union memberTypes=%q>%s</xs:union></xs:simpleType>\n      </xs:element>\n",
			name, note, strings.TrimSpace("unset "+e.suffixes(strict)), e.integers())
	case e.index != nil && e.typ == reflect.TypeFor[string]() && e.limits != "":
		fmt.Fprintf(&w.out, "%s>%s\n        <xs:simpleType><xs:union memberTypes=\"unset\">%s</xs:union></xs:simpleType>\n      </xs:element>\n", name, note, e.words(strict))
	default:
		fmt.Fprintf(&w.out, "%s type=\"xs:string\">%s</xs:element>\n", name, note)
	}
}

// suffixes names the types of numbers with a suffix, whose range no schema can
// express.
func (e *element) suffixes(strict bool) string {
	switch {
	case e.typ == reflect.TypeFor[time.Duration]() && strict:
		return "duration"
	case e.typ == reflect.TypeFor[time.Duration]():
		return ""
	}
	return "suffixed"
}

// integers is a type for each part of the range, which has "|" between them.
func (e *element) integers() string {
	var out strings.Builder
	for part := range strings.SplitSeq(e.limits, "|") {
		lo, hi, interval := strings.Cut(part, "..")
		if !interval {
			hi = lo
		}
		out.WriteString(`<xs:simpleType><xs:restriction base="xs:integer">`)
		for _, b := range []struct{ facet, text string }{{"minInclusive", lo}, {"maxInclusive", hi}} {
			if b.text == "" {
				continue
			}
			n, _, ok := number(b.text)
			if e.typ == reflect.TypeFor[time.Duration]() {
				n, _, ok = duration(b.text)
				n = int64(math.Ceil(float64(n) / float64(time.Second)))
			}
			if !ok {
				panic("BUG: bad range " + e.limits)
			}
			fmt.Fprintf(&out, `<xs:%s value="%d"/>`, b.facet, n)
		}
		out.WriteString(`</xs:restriction></xs:simpleType>`)
	}
	return out.String()
}

// words is a type of the words of the range: as they are declared, for editors
// to offer, and in any case where the reader takes that.
func (e *element) words(strict bool) string {
	var list, any strings.Builder
	for i, word := range strings.Split(e.limits, "|") {
		fmt.Fprintf(&list, `<xs:enumeration value="%s"/>`, xsdText(word))
		if i > 0 {
			any.WriteByte('|')
		}
		for _, r := range word {
			if lower, upper := strings.ToLower(string(r)), strings.ToUpper(string(r)); lower != upper {
				any.WriteString("[" + upper + lower + "]")
			} else {
				any.WriteString(string(r))
			}
		}
	}
	out := `<xs:simpleType><xs:restriction base="xs:token">` + list.String() + `</xs:restriction></xs:simpleType>`
	if !strict {
		out += `<xs:simpleType><xs:restriction base="xs:token"><xs:pattern value="` + any.String() + `"/></xs:restriction></xs:simpleType>`
	}
	return out
}

// xsdText escapes text for an element or an attribute.
func xsdText(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;").Replace(s)
}
