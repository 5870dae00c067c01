package xmlconf

import (
	"slices"
	"strings"
)

// A plainRule says what a block of the plain dialect is in XML.
type plainRule struct {
	element string // its element
	label   string // child that holds the text behind the block's name
	group   string // group around it that the plain dialect does not write
	bare    bool   // the same without a block of its own
}

// plainRules is the name map of blocks, by lower-case name; a block that is not
// in it has one name in both. See LSX 1.1.
var plainRules = map[string]plainRule{
	"errorlog":     {element: "log", label: "fileName", group: "logging", bare: true},
	"accesslog":    {element: "accessLog", label: "fileName", group: "logging", bare: true},
	"virtualhost":  {element: "virtualHost", label: "name", bare: true},
	"listener":     {element: "listener", label: "name", bare: true},
	"vhtemplate":   {element: "vhTemplate", label: "name", bare: true},
	"member":       {element: "member", label: "vhName", bare: true},
	"extprocessor": {element: "extProcessor", label: "name", bare: true},
	"context":      {element: "context", label: "uri", bare: true},
	"websocket":    {element: "websocket", label: "uri", bare: true},
	"realm":        {element: "realm", label: "name"}, // a context names one with the same word
	"errorpage":    {element: "errorPage", label: "errCode", bare: true},
	"module":       {element: "module", label: "name", bare: true},
	"map":          {element: "map", label: "name"}, // of rewrite; listeners have lines
	"geoipdb":      {element: "geoipDB", label: "geoipDBFile", group: "ipToGeo", bare: true},
	"urlfilter":    {element: "urlFilter", label: "uri", group: "urlFilterList", bare: true},
}

// A plainSetting is a line: a key, and its value or the label of its block.
type plainSetting struct {
	key, value   string
	pos, valueAt Pos
}

// node is the setting as an element with text.
func (s plainSetting) node() *Node {
	return &Node{Name: s.key, Pos: s.pos, Text: s.value, TextPos: s.valueAt, Plain: true}
}

// part is one part of the setting's value as a child element.
func (s plainSetting) part(name, value string) *Node {
	at := s.valueAt
	if i := strings.Index(s.value, value); i > 0 {
		at.Column += i
	}
	return &Node{Name: name, Pos: s.pos, Text: value, TextPos: at, Plain: true}
}

// place returns the node of a line in block b; nil if it became part of another.
func (s plainSetting) place(b *plainBlock) *Node {
	in, key := strings.ToLower(b.node.Name), strings.ToLower(s.key)
	switch {
	case in == "listener" && key == "map":
		host, domains, _ := strings.Cut(strings.ReplaceAll(s.value, "\t", " "), " ")
		return &Node{Name: "vhostMap", Pos: s.pos, Plain: true,
			Children: []*Node{s.part("vhost", host), s.part("domain", strings.TrimSpace(domains))}}
	case b.textOf() == "param" && !slices.Contains(moduleKeys, key):
		b.lines = append(b.lines, Text{strings.TrimSpace(s.key + " " + s.value), s.pos})
		return nil
	}
	rule := plainRules[key]
	if !rule.bare {
		return s.node()
	}
	n := &Node{Name: rule.element, Pos: s.pos, Plain: true}
	if s.value != "" {
		n.Children = []*Node{{Name: rule.label, Pos: s.valueAt, Text: s.value, TextPos: s.valueAt, Plain: true}}
	}
	return inGroup(b.node, rule.group, n)
}

// moduleKeys are the settings of a module that are no parameters of it.
var moduleKeys = []string{"ls_enabled", "enabled", "internal", "note", "param", "urlfilterlist", "urlfilter"}

// inGroup puts n into the group of the parent: into the one that is there, and
// then returns nil, or into a new one.
func inGroup(parent *Node, group string, n *Node) *Node {
	if group == "" {
		return n
	}
	if g := parent.child(group); g != nil {
		g.Children = append(g.Children, n)
		return nil
	}
	return &Node{Name: group, Pos: n.Pos, Children: []*Node{n}, Plain: true}
}

// rewriteLine reports whether a line of a rewrite block is a directive of Apache
// instead of a setting.
func rewriteLine(text string) bool {
	word, _, _ := strings.Cut(strings.ReplaceAll(text, "\t", " "), " ")
	return len(word) > len("rewrite") && strings.EqualFold(word[:len("rewrite")], "rewrite") || text[0] == '<'
}

// handlers turns the lines "add type:handler suffixes" of a scripthandler block
// into one scriptHandler each.
func (p *plainParser) handlers(b *plainBlock, block *Node) error {
	for _, c := range block.Children {
		if !strings.EqualFold(c.Name, "add") {
			if err := p.keep(b, c, c.Pos); err != nil { // known nowhere: told by the decoder
				return err
			}
			continue
		}
		s := plainSetting{value: c.Text, pos: c.Pos, valueAt: c.TextPos}
		app, suffixes, _ := strings.Cut(strings.ReplaceAll(c.Text, "\t", " "), " ")
		typ, name, _ := strings.Cut(app, ":")
		n := &Node{Name: "scriptHandler", Pos: c.Pos, Plain: true}
		n.Children = []*Node{s.part("type", typ), s.part("handler", name), s.part("suffix", strings.Trim(suffixes, " []"))}
		if err := p.keep(b, n, c.Pos); err != nil {
			return err
		}
	}
	return nil
}
