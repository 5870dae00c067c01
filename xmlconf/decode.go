package xmlconf

import (
	"reflect"
	"strings"
)

// decoder turns nodes into the declared structs. It lives for one load, so that
// something unknown is told once for a file and path.
type decoder struct {
	fs      *Findings
	schemas schemas
	told    map[string]bool // file, path and spelling
	vars    Expander
	hints   int     // suggestions made
	survey  *survey // nil: nobody asks
	scope   string  // of what is decoded, for the survey
}

// maxHints bounds the time spent on suggestions for a file full of nonsense.
const maxHints = 200

func newDecoder(fs *Findings) *decoder {
	return &decoder{fs: fs, schemas: schemas{}, told: map[string]bool{}}
}

// scope is what a block inherits from the blocks around it.
type scope struct {
	path    string // of the block, as Finding.Element
	subject string // starts each message: extProcessor "app": healthCheck
	strict  bool   // every fault is a load error (R-CONV-6)
	quiet   bool   // a block around it has been reported as a whole

	node  *Node    // of the block
	under *element // a group around it that is switched on and not honoured
}

// place is where a child of the block stands.
func (s scope) place(n *Node, name string) Place { return Place{n.Pos, s.path + "/" + name} }

// say puts the subject before a sentence.
func (s scope) say(msg string) string {
	if s.subject == "" {
		return msg
	}
	return s.subject + ": " + msg
}

// decode fills the struct that out points to from n, which may be nil: then all
// values are defaults.
func (d *decoder) decode(n *Node, out any, path string) {
	d.block(n, reflect.ValueOf(out).Elem(), scope{path: path})
}

// block fills one struct: defaults first, then the children in file order, so
// that the first of two scalars wins and items keep their order. It is the only
// place that decides what a child is.
func (d *decoder) block(n *Node, v reflect.Value, sc scope) {
	s := d.schemas.of(v.Type())
	b := v.FieldByName("Block").Addr().Interface().(*Block)
	b.Where = Place{Element: sc.path}
	d.defaults(s, v, sc)
	if n == nil {
		return
	}
	b.Where.Pos = n.Pos
	n = d.hoist(n, s)
	sc.node = n
	defer d.noteDefaults(s, v, b, sc)
	if sc.strict && n.Text != "" {
		d.fs.Fatal("E-STRICT", b.Where, "", "%s", sc.say("text between its elements"))
	}
	seen := map[*element]*Node{}
	wrapped := map[*element]*Node{}
	for _, c := range n.Children {
		key := strings.ToLower(c.Name)
		// A wrapper is found first, so that <accessDenyDir> holds <dir> and a
		// <context> may stand without <contextList>.
		if e := s.byList[key]; e != nil {
			d.spelling(c, e.list, sc)
			// Of two lists the first is read, but denied directories add up.
			if wrapped[e] != nil && e.typ != textsType {
				d.duplicate(c, wrapped[e], e.list, e, b, sc)
				continue
			}
			wrapped[e] = c
			d.items(c, e, b, v, sc)
			continue
		}
		e := s.byName[key]
		if e == nil {
			d.unknown(c, s, b, sc)
			continue
		}
		d.spelling(c, e.name, sc)
		if seen[e] != nil && !e.repeated() {
			d.duplicate(c, seen[e], e.name, e, b, sc)
			continue
		}
		seen[e] = c
		d.element(c, e, b, v, sc)
	}
}

// defaults sets every value and every group of v to what holds where nothing is
// written.
func (d *decoder) defaults(s *schema, v reflect.Value, sc scope) {
	for _, e := range s.elements {
		if e.index == nil {
			continue
		}
		f := v.FieldByIndex(e.index)
		switch {
		case e.block() != nil:
			if f.Kind() == reflect.Struct {
				d.block(nil, f, scope{path: sc.path + "/" + e.name})
			}
		case e.hasDef:
			f.Set(d.defaultOf(e))
		}
	}
}

// defaultOf is the declared default, which need not lie in the range: it may
// stand for "not set".
func (d *decoder) defaultOf(e *element) reflect.Value {
	free := *e
	if e.typ.Kind() != reflect.String {
		free.limits = ""
	}
	val, _, bad := parseValue(&free, e.def, true)
	if bad != nil {
		panic("BUG: default of " + e.name + ": " + bad.msg)
	}
	if e.unit == "path" {
		p, _ := d.vars.Path(e.def, d.vars.Root())
		val = p
	}
	return reflect.ValueOf(val)
}

// hoist moves children that belong into the group security there, because the
// wrapper is optional (LSX 1.4). n itself is not changed.
func (d *decoder) hoist(n *Node, s *schema) *Node {
	group := s.byName["security"]
	if group == nil {
		return n
	}
	inner := d.schemas.of(group.block())
	var stay, move []*Node
	for _, c := range n.Children {
		key := strings.ToLower(c.Name)
		if s.byName[key] == nil && s.byList[key] == nil && (inner.byName[key] != nil || inner.byList[key] != nil) {
			move = append(move, c)
		} else {
			stay = append(stay, c)
		}
	}
	if len(move) == 0 {
		return n
	}
	out := *n
	for i, c := range stay {
		if strings.EqualFold(c.Name, group.name) {
			joined := *c
			joined.Children = append(joined.Children[:len(joined.Children):len(joined.Children)], move...)
			stay[i] = &joined
			move = nil
			break
		}
	}
	if move != nil {
		stay = append(stay, &Node{Name: group.name, Pos: move[0].Pos, Children: move})
	}
	out.Children = stay
	return &out
}

// items decodes the children of a wrapper. The wrapper is no block of its own:
// what it holds lands in the struct around it, as if it were not there.
func (d *decoder) items(list *Node, e *element, b *Block, v reflect.Value, sc scope) {
	sc.path += "/" + e.list
	for _, c := range list.Children {
		if !strings.EqualFold(c.Name, e.name) {
			d.unknown(c, &schema{elements: []*element{{name: e.name}}}, b, sc)
			continue
		}
		d.spelling(c, e.name, sc)
		d.element(c, e, b, v, sc)
	}
}

// element decodes one child that is declared. A blank one means "not set", so it
// is neither marked as written nor reported.
func (d *decoder) element(c *Node, e *element, b *Block, v reflect.Value, sc scope) {
	sc.strict = sc.strict || e.strict
	if e.index == nil {
		if !c.blank() {
			b.mark(e.name, c)
			isDefault := c.Text == e.def && e.hasDef
			d.treat(c, e, isDefault, sc)
			d.note(c, e, isDefault, sc)
			if e.name == apacheConf {
				d.drop(c, b, sc)
			}
			if e.unit != "block" {
				d.leaf(c, e, b, sc)
			}
		}
		return
	}
	f := v.FieldByIndex(e.index)
	if e.block() != nil {
		d.group(c, e, b, f, sc)
		return
	}
	d.leaf(c, e, b, sc)
	if c.Text == "" {
		if sc.strict && e.typ.Kind() == reflect.Slice {
			b.mark(e.name, c) // an empty list of a strict element is a value
			f.SetZero()
		}
		return
	}
	text := c.Text
	if e.expand {
		text = d.expand(text, c, e, sc)
	}
	if e.typ == textsType {
		f.Set(reflect.Append(f, reflect.ValueOf(Text{text, c.TextPos})))
		d.note(c, e, false, sc)
		if !b.Written(e.name) {
			b.mark(e.name, c)
			d.treat(c, e, false, sc)
		}
		return
	}
	d.scalar(c, e, text, b, f, sc)
}

// scalar decodes one value. A bad one of LiteSpeed keeps the default, which is in
// place already, and counts as not written: nobody may act on it.
func (d *decoder) scalar(c *Node, e *element, text string, b *Block, f reflect.Value, sc scope) {
	val, note, bad := parseValue(e, text, sc.strict)
	silent := e.as == noEffect || e.as == obsolete
	switch at := sc.place(c, e.name); {
	case bad != nil && sc.strict:
		d.fs.Fatal(strictCode(e.name), at, bad.hint, "%s", sc.say(e.name+" "+bad.msg))
		d.noteLost(c, e.name, true, bad.msg, "", sc)
		return
	case bad != nil:
		if !silent {
			d.fs.Warn(bad.code, at, bad.hint, "%s", sc.say(e.name+" "+bad.msg+defaultNote(e)))
		}
		d.drop(c, b, sc)
		d.noteLost(c, e.name, false, bad.msg+defaultNote(e), "", sc)
		return
	case note != nil && !silent:
		d.fs.Warn(note.code, at, note.hint, "%s", sc.say(e.name+" "+note.msg))
	}
	was := f.Interface() // the default
	f.Set(reflect.ValueOf(val))
	b.mark(e.name, c)
	isDefault := reflect.DeepEqual(was, val)
	d.treat(c, e, isDefault, sc)
	d.note(c, e, isDefault, sc)
}

func defaultNote(e *element) string {
	if !e.hasDef || e.def == "-1" {
		return ": it is left out"
	}
	return ": the default " + e.def + " is used"
}

// strictCode keeps one well-known code; the others share one.
func strictCode(name string) string {
	if name == "loadBalancePolicy" {
		return "E-LB-POLICY"
	}
	return "E-STRICT"
}

// group decodes a child that has a struct of its own. A blank one of LiteSpeed
// means "not set"; a blank strict one is there, with its defaults, so that a
// health check never vanishes.
func (d *decoder) group(c *Node, e *element, b *Block, f reflect.Value, sc scope) {
	if c.blank() && !sc.strict && f.Kind() != reflect.Slice {
		return
	}
	inner := scope{path: sc.path + "/" + e.name, strict: sc.strict, quiet: sc.quiet || e.as != honoured, under: sc.under}
	if inner.under == nil && e.as != honoured && (e.gate == "" || open(c.value(e.gate))) {
		inner.under = e
	}
	inner.subject = sc.say(e.name)
	if label := labelOf(c); label != "" && f.Kind() == reflect.Slice {
		inner.subject = sc.say(e.name + ` "` + cut(label) + `"`)
	}
	item := f
	if f.Kind() != reflect.Struct {
		item = reflect.New(e.block()).Elem()
	}
	if missing := d.missing(c, item.Type()); missing != "" && f.Kind() == reflect.Slice {
		d.fs.Warn("W-SKIPPED", Place{c.Pos, inner.path}, "", "%s", scope{subject: inner.subject}.say("skipped, it has no "+missing))
		d.drop(c, b, sc)
		d.noteLost(c, e.name, false, "skipped, it has no "+missing, "", sc)
		return
	}
	if e.changed != "" {
		d.note(c, e, false, sc)
	}
	d.block(c, item, inner)
	b.inherit(item)
	b.mark(e.name, c)
	d.treat(c, e, false, sc)
	switch f.Kind() {
	case reflect.Pointer:
		f.Set(item.Addr())
	case reflect.Slice:
		f.Set(reflect.Append(f, item.Addr()))
	}
}

// missing names the first required element that item c does not hold.
func (d *decoder) missing(c *Node, t reflect.Type) string {
	for _, e := range d.schemas.of(t).elements {
		if e.must && c.value(e.name) == "" {
			return e.name
		}
	}
	return ""
}

// labelOf is the name by which people know an item.
func labelOf(n *Node) string {
	for _, name := range []string{"name", "vhName", "uri", "vhost", "suffix", "errCode"} {
		if v := n.value(name); v != "" {
			return v
		}
	}
	return ""
}

// treat reports what a written element does not do: as a warning, or as a remark
// if it is minor, so that the few that change an answer can be seen. Restrictions
// (closes) are silent here: whether they are honoured is known where the host is
// built. A value that is the default changes nothing and is not reported, nor is
// a group whose gate is shut.
func (d *decoder) treat(c *Node, e *element, isDefault bool, sc scope) {
	if sc.quiet || isDefault || e.gate != "" && !open(c.value(e.gate)) {
		return
	}
	code, msg, hint, report := "NOT-YET", " is not honoured by this version", "", d.fs.Warn
	switch e.as {
	case later:
	case noEffect:
		code, msg, hint = "NO-EFFECT", " has no effect", e.doc
	default:
		return
	}
	if e.minor {
		code, report = "I-"+code, d.fs.Info
	} else {
		code = "W-" + code
	}
	at := sc.place(c, e.name)
	if e.code != "" {
		code = e.code
	} else if (e.as == noEffect || !strings.Contains(sc.path, "/context")) && !d.once("treat", at) {
		return // the thirteenth priority says nothing new; each context is a place of its own
	}
	report(code, at, hint, "%s", sc.say(e.name+msg))
}

// open reports whether the text of a gate means anything but off.
func open(text string) bool { return text != "" && text != "0" && !strings.EqualFold(text, "off") }

// expand replaces variables; a path becomes absolute on the way, because no later
// step knows which of the roots it was relative to.
func (d *decoder) expand(text string, c *Node, e *element, sc scope) string {
	var unknown []string
	switch {
	case e.unit == "path", e.unit == "log" && text != "stdout" && text != "stderr":
		text, unknown = d.vars.Path(text, d.vars.Root())
	default:
		text, unknown = d.vars.Expand(text)
	}
	for _, name := range unknown {
		d.fs.Warn("W-VAR", sc.place(c, e.name), "", "%s", sc.say(e.name+" holds the unknown variable $"+cut(name)+", which stays as text"))
	}
	return text
}

// leaf reports children of an element that has none.
func (d *decoder) leaf(c *Node, e *element, b *Block, sc scope) {
	if len(c.Children) == 0 {
		return
	}
	d.drop(c, b, sc)
	sc.path += "/" + e.name
	for _, k := range c.Children {
		d.unknown(k, &schema{}, b, sc)
	}
}

// unknown reports an element that is not declared, once for a file and path.
func (d *decoder) unknown(c *Node, s *schema, b *Block, sc scope) {
	d.drop(c, b, sc)
	at := sc.place(c, c.Name)
	d.noteLost(c, c.Name, sc.strict, "unknown, as it is to LiteSpeed", "it may be misspelt", sc)
	if !d.once("unknown", at) {
		return
	}
	hint := ""
	if d.hints < maxHints {
		d.hints++
		if w := Suggest(c.Name, s.names()); w != "" {
			hint = "use <" + w + ">"
			d.misspelt(c, w, b, sc)
		}
	}
	if sc.strict {
		d.fs.Fatal("E-STRICT", at, hint, "%s", sc.say("unknown element <"+cut(c.Name)+">"))
		return
	}
	d.fs.Warn("W-UNKNOWN", at, hint, "%s", sc.say("unknown element <"+cut(c.Name)+"> is ignored"))
}

// spelling tells once when a name is written in another case than LiteSpeed's
// writers do: other readers of the file may not find it.
func (d *decoder) spelling(c *Node, want string, sc scope) {
	if at := sc.place(c, c.Name); c.Name != want && !c.Plain && d.once("spelling", at) {
		d.fs.Warn("W-CASE", at, "write <"+want+">", "%s", sc.say("<"+cut(c.Name)+"> is read as <"+want+">"))
	}
}

// duplicate reports a second element where one is read: the first wins.
func (d *decoder) duplicate(c, first *Node, name string, e *element, b *Block, sc scope) {
	if !c.equal(first) {
		d.drop(c, b, sc)
	}
	d.noteLost(c, name, sc.strict || e.strict, "written twice: the first one is used", "", sc)
	if sc.strict || e.strict {
		d.fs.Fatal("E-STRICT", sc.place(c, name), "remove one", "%s", sc.say(name+" is written twice"))
		return
	}
	d.fs.Warn("W-DUP", sc.place(c, name), "remove one", "%s", sc.say(name+" is written twice: the first one is used"))
}

// once reports whether what is told about a file and path for the first time.
func (d *decoder) once(what string, at Place) bool {
	key := what + "\x00" + at.File + "\x00" + strings.ToLower(at.Element)
	if d.told[key] {
		return false
	}
	d.told[key] = true
	return true
}
