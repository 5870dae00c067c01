package xmlconf

import (
	"maps"
	"slices"
	"strings"
)

// OpenLiteSpeed has its page cache as a module, whose parameters are lines of text
// (LSX 10.1). cacheModule makes the element cache of them, so that everything about it is
// declared and judged in one place. A cache that is written as an element goes before the
// module.

// cacheParams are the parameters that have an element, in lower case, and where it stands.
var cacheParams = map[string][2]string{
	"enablecache": {"cachePolicy", "enableCache"}, "enableprivatecache": {"cachePolicy", "enablePrivateCache"},
	"checkpubliccache": {"cachePolicy", "checkPublicCache"}, "checkprivatecache": {"cachePolicy", "checkPrivateCache"},
	"qscache": {"cachePolicy", "qsCache"}, "reqcookiecache": {"cachePolicy", "reqCookieCache"}, "respcookiecache": {"cachePolicy", "respCookieCache"},
	"ignorereqcachectrl": {"cachePolicy", "ignoreReqCacheCtrl"}, "ignorerespcachectrl": {"cachePolicy", "ignoreRespCacheCtrl"},
	"expireinseconds": {"cachePolicy", "expireInSeconds"}, "privateexpireinseconds": {"cachePolicy", "privateExpireInSeconds"},
	"maxstaleage": {"cachePolicy", "maxStaleAge"}, "maxcacheobjsize": {"cachePolicy", "maxCacheObjSize"},
	"cachekeymod": {"cachePolicy", "cacheKeyMod"}, "cachekeymodify": {"cachePolicy", "cacheKeyMod"}, "respectcacheable": {"cachePolicy", "respectCacheable"},
	"storagepath": {"storage", "cacheStorePath"}, "cachestorepath": {"storage", "cacheStorePath"},
	"nocachedomain": {"", "noCacheDomain"}, "nocacheurl": {"", "noCacheUrl"},
}

// otherParams are parameters of the module that httpjet does not follow, with the value
// that makes no difference.
var otherParams = map[string]string{"no-vary": "0", "addetag": "0", "purgeuri": "", "reqheadervary": ""}

// modules tells of those that are of no use.
func modules(list []*Module, fs *Findings) {
	for _, m := range list {
		if !strings.EqualFold(m.Name, "cache") && m.Enabled {
			fs.Warn("W-NOT-YET", m.Where, "", "module %q is not honoured by this version", cut(m.Name))
		}
	}
}

// cacheModule returns the tree of a server or host with the element cache that its module
// cache stands for. n itself, which hosts of a template share, stays as it is.
func (d *decoder) cacheModule(n *Node, path string) *Node {
	if n == nil {
		return nil
	}
	list := n.Children
	for _, c := range n.Children {
		if strings.EqualFold(c.Name, "moduleList") {
			list = slices.Concat(list, c.Children)
		}
	}
	for _, m := range list {
		if !strings.EqualFold(m.Name, "module") || !strings.EqualFold(m.value("name"), "cache") {
			continue
		}
		at := Place{m.Pos, path + "/moduleList/module"}
		if n.child("cache") != nil {
			d.fs.Warn("W-CACHE-MODULE", at, "write its parameters in cachePolicy", "module cache is not read beside an element cache")
			break
		}
		with := *n
		with.Children = append(slices.Clone(n.Children), d.moduleCache(m, at, path == serverRoot))
		return &with
	}
	return n
}

// moduleCache is the element cache of a module. What a host does not say is the server's.
func (d *decoder) moduleCache(m *Node, at Place, server bool) *Node {
	out := &Node{Name: "cache", Pos: m.Pos, TextPos: m.Pos, Plain: true}
	engine, why := "", m
	for _, name := range []string{"ls_enabled", "enabled"} {
		if c := m.child(name); engine == "" && c != nil && c.Text != "" {
			engine, why = map[bool]string{false: "0", true: "1"}[open(c.Text)], c
		}
	}
	if engine == "" && server {
		engine = "1"
	}
	for _, line := range textLines(m.child("param")) {
		key, value, _ := strings.Cut(strings.ReplaceAll(line.Value, "\t", " "), " ")
		value = strings.TrimSpace(value)
		key = strings.ToLower(key)
		if to, ok := cacheParams[key]; ok {
			out.put(to[0], &Node{Name: to[1], Pos: line.Pos, Text: value, TextPos: line.Pos, Plain: true})
			continue
		}
		at.Pos = line.Pos
		switch same, known := otherParams[key]; {
		case known && value == same:
		case key == "reqheadervary": // what is told apart elsewhere would be one object
			engine, why = "0", &Node{Pos: line.Pos}
			d.fs.Warn("W-CACHE-MODULE", at, "have the application send Vary", "module cache: reqHeaderVary is not honoured by this version: there is no page cache here")
		case known:
			d.fs.Warn("W-CACHE-MODULE", at, "", "module cache: %s is not honoured by this version", cut(key))
		default:
			hint := ""
			if w := Suggest(key, slices.Sorted(maps.Keys(cacheParams))); w != "" {
				hint = "write " + cacheParams[w][1]
			}
			d.fs.Warn("W-CACHE-MODULE", at, hint, "module cache: %q is no parameter", cut(key))
		}
	}
	if engine != "" {
		out.Children = append(out.Children, &Node{Name: "cacheEngine", Pos: why.Pos, Text: engine, TextPos: why.Pos, Plain: true})
	}
	return out
}

// put adds a child to a group of n, "" for n itself. A setting that may stand on several
// lines adds up; <clear> begins anew.
func (n *Node) put(group string, c *Node) {
	if group != "" {
		g := n.child(group)
		if g == nil {
			g = &Node{Name: group, Pos: c.Pos, TextPos: c.Pos, Plain: true}
			n.Children = append(n.Children, g)
		}
		n = g
	}
	was := n.child(c.Name)
	clear := strings.EqualFold(c.Text, "<clear>")
	switch {
	case was == nil && !clear:
		n.Children = append(n.Children, c)
	case clear:
		n.Children = slices.DeleteFunc(n.Children, func(o *Node) bool { return o == was })
	case c.Name == "noCacheUrl" || c.Name == "cacheKeyMod":
		was.Text += "\n" + c.Text
	case c.Name == "noCacheDomain":
		was.Text += ", " + c.Text
	default:
		n.Children = append(n.Children, c) // a second one, which is told
	}
}

// textLines are the lines of a text that say something, with their places.
func textLines(n *Node) (list []Text) {
	if n == nil {
		return nil
	}
	at := n.TextPos
	for line := range strings.Lines(n.Text) {
		if text := strings.TrimSpace(line); text != "" && text[0] != '#' {
			list = append(list, Text{text, at})
		}
		at.Line++
		at.Column = 1
	}
	return list
}
