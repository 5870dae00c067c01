package xmlconf

import "fmt"

// Pos is a place in a file. Line and Column count from 1; Column counts bytes.
type Pos struct {
	File   string
	Line   int
	Column int
}

// String is file:line:column.
func (p Pos) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column) }

// Place is a position and the path of the element that stands there.
type Place struct {
	Pos
	Element string
}

// Text is one value with the position of its first character.
type Text struct {
	Value string
	Pos   Pos
}

// Block is what every decoded element carries: where it stands and which of its
// children are written with a value.
type Block struct {
	Where Place

	set  map[string]mark // by declared name; nil: nothing written
	lost []Restriction   // in what was dropped from the block
}

// mark is where a written child stands.
type mark struct{ pos, text Pos }

func (b *Block) mark(name string, n *Node) {
	if b.set == nil {
		b.set = map[string]mark{}
	}
	if _, ok := b.set[name]; !ok {
		b.set[name] = mark{n.Pos, n.TextPos}
	}
}

// Written reports whether the child element has a value in the file, so that a
// default can be told from the same value written down. A value that was out of
// range counts as not written.
func (b *Block) Written(element string) bool {
	_, ok := b.set[element]
	return ok
}

// At returns the place of a written child, else that of the block.
func (b *Block) At(element string) Place {
	if m, ok := b.set[element]; ok {
		return Place{m.pos, b.Where.Element + "/" + element}
	}
	return b.Where
}

// TextAt returns the place of the first character of a child's text, so that a
// line of a text block can be named.
func (b *Block) TextAt(element string) Place {
	at := b.At(element)
	if m, ok := b.set[element]; ok && m.text.Line > 0 {
		at.Pos = m.text
	}
	return at
}
