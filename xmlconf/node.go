package xmlconf

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Bounds of one file (R-CFG-7). The number of elements bounds the memory of the
// tree, since the shortest element is four bytes.
const (
	maxFile     = 8 << 20
	maxDepth    = 32
	maxElements = 100_000
)

// A Node is one element. Text is its own character data without the blanks at
// both ends; stray text between children is in it too and never looked at.
type Node struct {
	Name     string // as written
	Pos      Pos    // of its start tag
	Text     string
	TextPos  Pos  // of the first character of Text
	Plain    bool // of the plain-text dialect, where the case of names means nothing
	Children []*Node
}

// blank reports whether the element holds nothing: it then means "not set".
func (n *Node) blank() bool { return n.Text == "" && len(n.Children) == 0 }

// equal reports whether two elements hold the same.
func (n *Node) equal(m *Node) bool {
	return strings.EqualFold(n.Name, m.Name) && n.Text == m.Text && slices.EqualFunc(n.Children, m.Children, (*Node).equal)
}

// child returns the first child called name in any case, or nil.
func (n *Node) child(name string) *Node {
	for _, c := range n.Children {
		if strings.EqualFold(c.Name, name) {
			return c
		}
	}
	return nil
}

// value returns the text of the first child called name, "" without one.
func (n *Node) value(name string) string {
	if c := n.child(name); c != nil {
		return c.Text
	}
	return ""
}

// A ParseError says why a file is no tree.
type ParseError struct {
	Code string // E-XML, E-CONF, E-OLD-SCHEMA
	Pos
	Msg  string
	Hint string
}

func (e *ParseError) Error() string { return fmt.Sprintf("%s: %s", e.Pos, e.Msg) }

// parser owns the state of one Parse call.
type parser struct {
	dec      *xml.Decoder
	file     string
	fs       *Findings
	elements int
	root     *Node
	open     []*Node  // from the root to the current element
	text     [][]byte // of each open element
	doctype  bool
}

// Parse reads one file. Names keep their spelling, text is UTF-8 with LF line
// ends, and only the predefined and numeric entities exist. Entity declarations,
// internal DTD subsets and attributes are refused with a *ParseError; what is
// merely odd becomes a finding.
func Parse(file string, data []byte, fs *Findings) (*Node, error) {
	p := &parser{file: file, fs: fs}
	if len(data) > maxFile {
		return nil, p.fail("E-XML", Pos{file, 1, 1}, "", "file is larger than %d MiB", maxFile>>20)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	p.dec = xml.NewDecoder(bytes.NewReader(data))
	p.dec.CharsetReader = asciiOnly
	for {
		at := p.pos()
		tok, err := p.dec.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, p.syntax(err)
		}
		if err := p.token(tok, at); err != nil {
			return nil, err
		}
	}
	if p.root == nil {
		return nil, p.fail("E-XML", p.pos(), "", "file holds no element")
	}
	return p.root, nil
}

func (p *parser) token(tok xml.Token, at Pos) error {
	switch t := tok.(type) {
	case xml.StartElement:
		return p.start(t, at)
	case xml.EndElement:
		p.end()
	case xml.CharData:
		p.chars(t, at)
	case xml.Directive:
		return p.directive(t, at)
	}
	return nil // comments and processing instructions
}

// start opens an element. Each bound is tested before the node is kept.
func (p *parser) start(t xml.StartElement, at Pos) error {
	p.elements++
	n := &Node{Name: t.Name.Local, Pos: at}
	switch {
	case len(p.open) == 0 && p.root != nil:
		return p.fail("E-XML", at, "", "second root element <%s>", n.Name)
	case len(p.open) == maxDepth:
		return p.fail("E-XML", at, "", "elements are nested deeper than %d", maxDepth)
	case p.elements > maxElements:
		return p.fail("E-XML", at, "", "file holds more than %d elements", maxElements)
	}
	for _, a := range t.Attr {
		if a.Name.Space == "xmlns" || a.Name.Local == "xmlns" || a.Name.Space == "http://www.w3.org/XML/1998/namespace" {
			continue
		}
		return p.fail("E-OLD-SCHEMA", at, "write settings as elements, as LiteSpeed does since 2005",
			"attribute %s on <%s>: the schema with attributes is not supported", a.Name.Local, n.Name)
	}
	if old := oldSchema(n.Name); old != "" {
		return p.fail("E-OLD-SCHEMA", at, "use "+old, "<%s> belongs to the schema from before 2005, which is not supported", n.Name)
	}
	if len(p.open) == 0 {
		p.root = n
	} else {
		parent := p.open[len(p.open)-1]
		parent.Children = append(parent.Children, n)
	}
	p.open = append(p.open, n)
	p.text = append(p.text, nil)
	return nil
}

// oldSchema names what replaced a list of the schema from before 2005; "" if
// name is none.
func oldSchema(name string) string {
	switch strings.ToLower(name) {
	case "fcgilist", "servletenginelist":
		return "extProcessorList"
	case "vhostlistenermaplist":
		return "listener/vhostMapList"
	case "tcplistener", "ssllistener":
		return "listener with secure 0 or 1"
	case "handlertype":
		return "type and handler"
	}
	return ""
}

func (p *parser) end() {
	i := len(p.open) - 1
	p.open[i].Text = string(bytes.TrimSpace(p.text[i]))
	p.open, p.text = p.open[:i], p.text[:i]
}

// chars adds character data. The first character that is no blank fixes TextPos,
// so that a finding about the third rule of a block names its line.
func (p *parser) chars(t xml.CharData, at Pos) {
	if len(p.open) == 0 {
		return
	}
	i := len(p.open) - 1
	n := p.open[i]
	if lead := len(t) - len(bytes.TrimLeft(t, " \t\r\n")); n.TextPos.Line == 0 && lead < len(t) {
		n.TextPos = at
		if k := bytes.Count(t[:lead], []byte("\n")); k > 0 {
			n.TextPos.Line += k
			n.TextPos.Column = lead - bytes.LastIndexByte(t[:lead], '\n')
		} else {
			n.TextPos.Column += lead
		}
	}
	p.text[i] = append(p.text[i], t...)
}

// directive accepts a DOCTYPE that declares nothing.
func (p *parser) directive(t xml.Directive, at Pos) error {
	word, _, _ := strings.Cut(string(t), " ")
	if !strings.EqualFold(strings.TrimSpace(word), "DOCTYPE") {
		return p.fail("E-XML", at, "remove it", "declaration <!%s> is refused", cut(word))
	}
	if bytes.ContainsAny(t, "[<") {
		return p.fail("E-XML", at, "remove the part in brackets", "DOCTYPE with declarations of its own is refused")
	}
	if p.doctype || p.root != nil {
		return p.fail("E-XML", at, "remove it", "DOCTYPE at this place is refused")
	}
	p.doctype = true
	p.fs.Warn("W-DOCTYPE", Place{Pos: at}, "remove it", "DOCTYPE is ignored")
	return nil
}

func (p *parser) pos() Pos {
	line, col := p.dec.InputPos()
	return Pos{p.file, line, col}
}

func (p *parser) fail(code string, at Pos, hint, format string, args ...any) *ParseError {
	return &ParseError{code, at, fmt.Sprintf(format, args...), hint}
}

// syntax turns a decoder's error into ours, with the place where it stopped.
func (p *parser) syntax(err error) *ParseError {
	msg, hint := err.Error(), ""
	if se, ok := errors.AsType[*xml.SyntaxError](err); ok {
		msg = se.Msg
	}
	if strings.HasPrefix(msg, "invalid character entity") {
		hint = "write & as &amp;, or use a CDATA section"
	}
	return p.fail("E-XML", p.pos(), hint, "not well-formed: %s", strings.TrimPrefix(msg, "xml: "))
}

// asciiOnly accepts the declared encodings that are UTF-8 already.
func asciiOnly(charset string, r io.Reader) (io.Reader, error) {
	switch strings.ToLower(charset) {
	case "utf8", "us-ascii", "ascii":
		return r, nil
	}
	return nil, fmt.Errorf("encoding %q is not supported, only UTF-8", cut(charset))
}

// cut bounds text that goes into a message.
func cut(s string) string {
	const limit = 80
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}
