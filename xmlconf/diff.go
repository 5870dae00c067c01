package xmlconf

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Change is one element that two configurations give different values, or a part
// that only one of them has.
type Change struct {
	Part    string // where it stands: virtual host "shop", extProcessor "app"; "" for the server itself
	Element string // its name; "" if the whole part came or went
	Old     string // value before, as the file may have it; "" if there was none
	New     string // value after; "" if there is none
	Kind    ChangeKind
	Acts    bool // whether the element acts at all: its treatment is honoured or closes
	At      Place
}

// ChangeKind says what became of an element.
type ChangeKind uint8

const (
	OtherValue ChangeKind = iota
	Added
	Removed
	Moved // items are the same, in another order
)

func (k ChangeKind) String() string {
	return [...]string{"changed", "added", "removed", "moved"}[k]
}

// Diff returns what is different in b, in the order of the declarations. Values
// are compared as they were understood: what is written otherwise but means the
// same is no change.
func Diff(a, b *Config) []Change {
	d := differ{schemas: schemas{}, oldRoot: a.Root, newRoot: b.Root}
	d.block("", reflect.ValueOf(a.Server).Elem(), reflect.ValueOf(b.Server).Elem())
	d.hosts(a.VHosts, b.VHosts)
	return d.out
}

type differ struct {
	schemas          schemas
	oldRoot, newRoot string // the trees may be copies of one
	out              []Change
}

func (d *differ) add(c Change) { d.out = append(d.out, c) }

// came notes an item that only one of the two has. Hosts are compared with what
// is in their files, see hosts.
func (d *differ) came(part string, e *element, it item, kind ChangeKind) {
	if e.name != "virtualHost" {
		d.add(Change{Part: itemPart(part, e, it.name), Kind: kind, Acts: e.acts(), At: placeOf(it.v)})
	}
}

// below writes a path below the server root as the file may have it.
func below(root, s string) string {
	if s == root {
		return "$SERVER_ROOT"
	}
	return strings.ReplaceAll(s, root+"/", "$SERVER_ROOT/")
}

// Fingerprints make short texts that tell apart blocks of one type which mean
// different things, and nothing else: wording and place do not count. They
// remember what they have read of the types. The zero value is ready.
type Fingerprints struct {
	read schemas
	text []byte // of the block before, to be written over
}

// Of returns the fingerprint of a block, "" for nil.
func (p *Fingerprints) Of(block any) string {
	v := reflect.ValueOf(block)
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	if p.read == nil {
		p.read = schemas{}
	}
	p.text = appendBlock(p.text[:0], p.read, v)
	sum := sha256.Sum256(p.text)
	return hex.EncodeToString(sum[:])
}

// appendBlock writes what a block means, so that no two meanings are written alike:
// lengths stand before texts and lists.
func appendBlock(to []byte, all schemas, v reflect.Value) []byte {
	for _, e := range all.of(v.Type()).elements {
		if e.index == nil {
			continue
		}
		f := v.FieldByIndex(e.index)
		to = append(append(to, e.name...), '=')
		switch {
		case e.block() == nil:
			to = appendValue(to, f)
		case f.Kind() == reflect.Slice:
			to = appendLength(to, f.Len())
			for i := range f.Len() {
				to = appendBlock(to, all, reflect.Indirect(f.Index(i)))
			}
		case f.Kind() != reflect.Pointer || !f.IsNil():
			to = append(appendBlock(append(to, '{'), all, reflect.Indirect(f)), '}')
		}
	}
	return to
}

func appendLength(to []byte, n int) []byte {
	return append(strconv.AppendInt(to, int64(n), 10), ':')
}

func appendValue(to []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.String:
		return append(appendLength(to, v.Len()), v.String()...)
	case reflect.Bool:
		return append(strconv.AppendBool(to, v.Bool()), ';')
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return append(strconv.AppendInt(to, v.Int(), 10), ';')
	case reflect.Slice:
		to = appendLength(to, v.Len())
		for i := range v.Len() {
			to = appendValue(to, v.Index(i))
		}
		return to
	}
	if t, ok := v.Interface().(Text); ok { // where it stands does not count
		return append(appendLength(to, len(t.Value)), t.Value...)
	}
	s := fmt.Sprint(v.Interface())
	return append(appendLength(to, len(s)), s...)
}

// hosts compares the hosts by name, whether they are declared or members of a
// template.
func (d *differ) hosts(a, b []*Host) {
	byName := func(list []*Host, name string) *Host {
		if i := slices.IndexFunc(list, func(h *Host) bool { return h.Name == name }); i >= 0 {
			return list[i]
		}
		return nil
	}
	for _, h := range a {
		if byName(b, h.Name) == nil {
			d.add(Change{Part: hostPart(h), Kind: Removed, Acts: true, At: h.Decl.Where})
		}
	}
	for _, h := range b {
		old := byName(a, h.Name)
		if old == nil {
			d.add(Change{Part: hostPart(h), Kind: Added, Acts: true, At: h.Decl.Where})
			continue
		}
		part := hostPart(h)
		if old.Conf != nil && h.Conf != nil {
			d.block(part, reflect.ValueOf(old.Conf).Elem(), reflect.ValueOf(h.Conf).Elem())
		} else if (old.Conf == nil) != (h.Conf == nil) {
			loaded := func(h *Host) string {
				if h.Conf == nil {
					return "not loaded"
				}
				return "loaded"
			}
			d.add(Change{Part: part, Element: "configFile", Old: loaded(old), New: loaded(h), Acts: true, At: h.Decl.Where})
		}
		if old.Template != h.Template {
			d.add(Change{Part: part, Element: "vhTemplate", Old: old.Template, New: h.Template, Acts: true, At: h.Decl.Where})
		}
	}
}

func hostPart(h *Host) string { return "virtual host " + strconv.Quote(h.Name) }

// block compares two structs of the same type.
func (d *differ) block(part string, a, b reflect.Value) {
	for _, e := range d.schemas.of(a.Type()).elements {
		if e.index == nil {
			continue
		}
		fa, fb := a.FieldByIndex(e.index), b.FieldByIndex(e.index)
		switch {
		case fa.Kind() == reflect.Slice && e.block() != nil:
			d.items(part, e, fa, fb)
		case e.block() != nil:
			d.group(part, e, fa, fb)
		default:
			d.value(part, e, fa, fb, b)
		}
	}
}

// group compares one block that may stand once.
func (d *differ) group(part string, e *element, a, b reflect.Value) {
	part = inside(part, e.name)
	if a.Kind() != reflect.Pointer {
		d.block(part, a, b)
		return
	}
	switch {
	case a.IsNil() && b.IsNil():
	case a.IsNil():
		d.add(Change{Part: part, Kind: Added, Acts: e.acts(), At: placeOf(b.Elem())})
	case b.IsNil():
		d.add(Change{Part: part, Kind: Removed, Acts: e.acts(), At: placeOf(a.Elem())})
	default:
		d.block(part, a.Elem(), b.Elem())
	}
}

// items compares lists of blocks. Those of equal names are the same item; without
// a name they are told apart by what they hold.
func (d *differ) items(part string, e *element, a, b reflect.Value) {
	old, now := named(a), named(b)
	var before, after []string // of those that are in both
	for _, it := range old {
		if find(now, it.name) == nil {
			d.came(part, e, it, Removed)
		} else {
			before = append(before, it.name)
		}
	}
	for _, it := range now {
		was := find(old, it.name)
		if was == nil {
			d.came(part, e, it, Added)
			continue
		}
		after = append(after, it.name)
		d.block(itemPart(part, e, it.name), was.v, it.v)
	}
	if !slices.Equal(before, after) {
		d.add(Change{Part: part, Element: e.name, Old: strings.Join(before, ", "), New: strings.Join(after, ", "), Kind: Moved, Acts: e.acts()})
	}
}

type item struct {
	name string
	v    reflect.Value
}

func find(list []item, name string) *item {
	if i := slices.IndexFunc(list, func(it item) bool { return it.name == name }); i >= 0 {
		return &list[i]
	}
	return nil
}

// named gives every item of a list a name of its own.
func named(list reflect.Value) []item {
	var out []item
	for i := range list.Len() {
		v := list.Index(i)
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		name := nameOf(v)
		for n := 2; find(out, name) != nil; n++ {
			name = fmt.Sprintf("%s (%d)", nameOf(v), n)
		}
		out = append(out, item{name, v})
	}
	return out
}

// nameOf is what an item is known by.
func nameOf(v reflect.Value) string {
	for _, field := range []string{"Name", "URI", "VHost", "Suffix", "FileName", "Code"} {
		if f := v.FieldByName(field); f.IsValid() {
			return fmt.Sprint(f.Interface())
		}
	}
	return "" // named makes numbers of it
}

// value compares what a scalar or a list of texts holds.
func (d *differ) value(part string, e *element, a, b, holder reflect.Value) {
	old, now := below(d.oldRoot, text(a)), below(d.newRoot, text(b))
	if old == now {
		return
	}
	kind := OtherValue
	switch {
	case old == "":
		kind = Added
	case now == "":
		kind = Removed
	}
	if e.name == "env" || e.name == "phpIniOverride" {
		if old, now = variables(a), variables(b); old == now {
			now += " with another value"
		}
	}
	if old, now = userInfo.ReplaceAllString(old, "://...@"), userInfo.ReplaceAllString(now, "://...@"); old == now {
		now += " with other user information"
	}
	c := Change{Part: part, Element: e.name, Old: old, New: now, Kind: kind, Acts: e.acts(), At: placeOf(holder)}
	if bl, ok := holder.FieldByName("Block").Interface().(Block); ok {
		c.At = bl.At(e.name)
	}
	d.add(c)
}

// text writes a value as a file may have it.
func text(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case string:
		return x
	case bool:
		if x {
			return "1"
		}
		return "0"
	case []Text:
		var list []string
		for _, t := range x {
			list = append(list, t.Value)
		}
		return strings.Join(list, ", ")
	}
	if v.Kind() == reflect.Slice {
		var list []string
		for i := range v.Len() {
			list = append(list, fmt.Sprint(v.Index(i).Interface()))
		}
		return strings.Join(list, ", ")
	}
	return fmt.Sprint(v.Interface())
}

// userInfo is what stands before the host of a URL, as in a rule with [P].
var userInfo = regexp.MustCompile(`://[^/@\s]*@`)

// variables are the names in a list of NAME=value, or in lines of PHP's settings:
// values may be secrets, whatever characters are in them.
func variables(v reflect.Value) string {
	var names []string
	switch x := v.Interface().(type) {
	case []Text:
		for _, t := range x {
			name, _, _ := strings.Cut(t.Value, "=")
			names = append(names, name)
		}
	case string:
		for line := range strings.Lines(x) {
			if words := strings.Fields(line); len(words) > 1 {
				names = append(names, words[1]) // behind php_value and the like
			}
		}
	default:
		panic("BUG: xmlconf: variables of another type")
	}
	return strings.Join(names, ", ")
}

func (e *element) acts() bool { return e.as == honoured || e.as == closes }

// inside is the name of a part in another one.
func inside(part, name string) string {
	if part == "" {
		return name
	}
	return part + ", " + name
}

func itemPart(part string, e *element, name string) string {
	if e.name == "virtualHost" {
		return "virtual host " + strconv.Quote(name)
	}
	return inside(part, e.name) + " " + strconv.Quote(name)
}

func placeOf(v reflect.Value) Place {
	if f := v.FieldByName("Block"); f.IsValid() {
		if b, ok := f.Interface().(Block); ok {
			return b.Where
		}
	}
	return Place{}
}
