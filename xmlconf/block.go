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

// Text is one value with its position.
type Text struct {
	Value string
	Pos   Pos
}

// Block is what every decoded element carries: where it stands and which of its
// children are written with a value.
type Block struct {
	Where Place

	set map[string]Pos // by declared name; nil: nothing written
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
	pos, ok := b.set[element]
	if !ok {
		return b.Where
	}
	return Place{pos, b.Where.Element + "/" + element}
}
