package xmlconf

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Bounds of include lines: a tree that needs more is a loop or a mistake.
const (
	maxIncludeDepth = 8
	maxIncludes     = 1000
)

// A plainFile is one file that an include line named.
type plainFile struct {
	name string // for positions
	data []byte
}

// includer reads the files that an include line names; nil: none are allowed.
type includer func(pattern string) ([]plainFile, error)

// plainParser reads OpenLiteSpeed's plain-text dialect: lines "key value", blocks
// "name value {" to "}", values of several lines "key <<<END_key" to "END_key",
// comments behind # at the start of a line, and include lines. It makes the tree
// that the same settings in XML would be, so that the declarations are applied
// to both; the name map is in plain_names.go.
type plainParser struct {
	include  includer
	elements int
	includes int
}

// plainBlock is a block that is being read.
type plainBlock struct {
	node  *Node
	depth int
	at    Pos // of its first line

	// What is a line of text in XML: rules of rewrite, parameters of a module.
	lines []Text
}

// textOf names the child that holds the lines of a block which are no settings;
// "" if every line is one.
func (b *plainBlock) textOf() string {
	switch strings.ToLower(b.node.Name) {
	case "rewrite":
		return "rules"
	case "module":
		return "param"
	}
	return ""
}

// finish makes the lines of text a child, behind what a setting of its name
// holds. Empty lines keep each at the line of the file that it has.
func (b *plainBlock) finish() {
	if b.lines == nil {
		return
	}
	c := b.node.child(b.textOf())
	if c == nil {
		c = &Node{Name: b.textOf(), Pos: b.lines[0].Pos, Plain: true}
		b.node.Children = append(b.node.Children, c)
	}
	if c.Text == "" {
		c.TextPos = b.lines[0].Pos
	}
	var text strings.Builder
	text.WriteString(c.Text)
	line := c.TextPos.Line + strings.Count(c.Text, "\n")
	for _, l := range b.lines {
		for text.Len() > 0 && (line < l.Pos.Line && l.Pos.File == c.TextPos.File || !strings.HasSuffix(text.String(), "\n")) {
			text.WriteByte('\n')
			line++
		}
		text.WriteString(l.Value)
	}
	c.Text = text.String()
}

// parsePlain reads one file of the plain dialect; root is the root element of
// the same file in XML. Names keep their spelling. What is not the dialect is a
// *ParseError with code E-CONF.
func parsePlain(file string, data []byte, root string, include includer) (*Node, error) {
	p := &plainParser{include: include}
	n := &Node{Name: root, Pos: Pos{file, 1, 1}, Plain: true}
	if err := p.read(plainFile{file, data}, &plainBlock{node: n, at: n.Pos}, 0); err != nil {
		return nil, err
	}
	if len(n.Children) == 0 {
		return nil, plainFail(n.Pos, "", "file holds no setting")
	}
	return n, nil
}

func plainFail(at Pos, hint, format string, args ...any) *ParseError {
	return &ParseError{"E-CONF", at, fmt.Sprintf(format, args...), hint}
}

// read adds the lines of one file to b. A block ends in the file it began in.
func (p *plainParser) read(f plainFile, b *plainBlock, depth int) error {
	start := Pos{f.name, 1, 1}
	if len(f.data) > maxFile {
		return plainFail(start, "", "file is larger than %d MiB", maxFile>>20)
	}
	data := bytes.TrimPrefix(f.data, []byte("\ufeff"))
	if at, bad := notText(f.name, data); bad {
		return plainFail(at, "", "file is no UTF-8 text")
	}
	ls := &plainLines{file: f.name, rest: string(data)}
	return p.block(ls, b, true, depth)
}

// notText finds the first byte that no text file has.
func notText(file string, data []byte) (Pos, bool) {
	at := bytes.IndexFunc(data, func(r rune) bool { return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f })
	if !utf8.Valid(data) {
		for i := 0; i < len(data); {
			r, size := utf8.DecodeRune(data[i:])
			if r == utf8.RuneError && size == 1 {
				if at < 0 || i < at {
					at = i
				}
				break
			}
			i += size
		}
	}
	if at < 0 {
		return Pos{}, false
	}
	line := bytes.Count(data[:at], []byte("\n")) + 1
	return Pos{file, line, at - bytes.LastIndexByte(data[:at], '\n')}, true
}

// block reads lines into b until its closing brace, or the end of the file for
// the lines of a whole file.
func (p *plainParser) block(ls *plainLines, b *plainBlock, whole bool, depth int) error {
	for ls.next() {
		switch {
		case ls.text == "" || ls.text[0] == '#':
			continue
		case ls.text[0] == '}':
			if rest := strings.TrimSpace(ls.text[1:]); rest != "" && rest[0] != '#' {
				return plainFail(ls.pos(), "write it on the next line", "text behind }")
			}
			if whole {
				return plainFail(ls.pos(), "remove it, or open its block", "} closes nothing")
			}
			return nil
		}
		if err := p.line(ls, b, depth); err != nil {
			return err
		}
	}
	if !whole {
		return plainFail(b.at, "close it with }", "block %s is not closed", cut(b.node.Name))
	}
	return nil
}

// line reads one setting or block.
func (p *plainParser) line(ls *plainLines, b *plainBlock, depth int) error {
	at := ls.pos()
	if b.textOf() == "rules" && rewriteLine(ls.text) {
		b.lines = append(b.lines, Text{ls.text, at})
		return p.keep(b, nil, at)
	}
	s := plainSetting{pos: at}
	text, opens := opening(ls.text)
	s.key, s.value = text, ""
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		s.key, s.value = text[:i], strings.TrimLeft(text[i:], " \t")
	}
	s.valueAt = Pos{at.File, at.Line, at.Column + len(text) - len(s.value)}
	if s.value == "" {
		s.valueAt = Pos{}
	}
	if !opens {
		if strings.EqualFold(s.key, "include") && s.value != "" {
			return p.includeLine(s, b, depth)
		}
		if end, ok := strings.CutPrefix(s.value, "<<<"); ok && end != "" {
			if err := ls.heredoc(&s, strings.TrimSpace(end)); err != nil {
				return err
			}
		} else {
			ls.continued(&s)
			opens = ls.braceAlone()
		}
	}
	if !opens {
		return p.keep(b, s.place(b), at)
	}
	if b.depth == maxDepth {
		return plainFail(at, "", "blocks are nested deeper than %d", maxDepth)
	}
	return p.open(ls, b, s, depth)
}

// open reads the block that setting s begins.
func (p *plainParser) open(ls *plainLines, b *plainBlock, s plainSetting, depth int) error {
	inner := &plainBlock{node: s.node(), depth: b.depth + 1, at: s.pos}
	if strings.EqualFold(s.key, "phpIniOverride") { // its lines belong to PHP
		if err := ls.raw(inner.node, s.pos); err != nil {
			return err
		}
		return p.keep(b, inner.node, s.pos)
	}
	rule := plainRules[strings.ToLower(s.key)]
	if rule.element != "" {
		inner.node.Name = rule.element
	}
	if s.value != "" {
		label := rule.label
		if label == "" {
			return plainFail(s.valueAt, "remove it", "block %s has no name of its own", cut(s.key))
		}
		inner.node.Text, inner.node.TextPos = "", Pos{}
		inner.node.Children = []*Node{{Name: label, Pos: s.valueAt, Text: s.value, TextPos: s.valueAt, Plain: true}}
		p.elements++
	}
	if err := p.block(ls, inner, false, depth); err != nil {
		return err
	}
	inner.finish()
	if strings.EqualFold(s.key, "scripthandler") {
		return p.handlers(b, inner.node)
	}
	return p.keep(b, inGroup(b.node, rule.group, inner.node), s.pos)
}

// keep adds a node to the block, within the bounds of a tree. nil is one that
// was merged into another.
func (p *plainParser) keep(b *plainBlock, n *Node, at Pos) error {
	if p.elements++; p.elements > maxElements {
		return plainFail(at, "", "file holds more than %d settings", maxElements)
	}
	if n != nil {
		b.node.Children = append(b.node.Children, n)
	}
	return nil
}

// includeLine reads the files that the line names into b. One that cannot be
// read could hold a restriction, so the file it stands in cannot be used.
func (p *plainParser) includeLine(s plainSetting, b *plainBlock, depth int) error {
	if p.include == nil || depth == maxIncludeDepth {
		return plainFail(s.pos, "", "include is nested deeper than %d", maxIncludeDepth)
	}
	files, err := p.include(s.value)
	if err != nil {
		return plainFail(s.pos, "correct the path, or remove the line", "include %s: %v", cut(s.value), err)
	}
	if p.includes += len(files); p.includes > maxIncludes {
		return plainFail(s.pos, "", "more than %d files are included", maxIncludes)
	}
	for _, f := range files {
		if err := p.read(f, b, depth+1); err != nil {
			return err
		}
	}
	return nil
}
