package contexts

import (
	"cmp"
	"slices"
	"strings"
)

// prefixes finds the prefix contexts around a path without looking at the others.
// There is one group for each length of a uri, the longest first, because the
// longest wins; a path that has no segment boundary there skips the group.
type prefixes []prefixGroup

// prefixGroup is the contexts whose uris have one length.
type prefixGroup struct {
	n        int
	uris     []string     // ascending, each once
	contexts [][]*Context // of each uri, in document order
}

func newPrefixes(list []*Context) prefixes {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *Context) int {
		return cmp.Or(len(b.URI)-len(a.URI), strings.Compare(a.URI, b.URI))
	})
	var p prefixes
	last := ""
	for _, c := range list {
		if len(p) == 0 || p[len(p)-1].n != len(c.URI) {
			p = append(p, prefixGroup{n: len(c.URI)})
		}
		g := &p[len(p)-1]
		if c.URI != last {
			g.uris, g.contexts = append(g.uris, c.URI), append(g.contexts, nil)
		}
		last = c.URI
		i := len(g.uris) - 1
		g.contexts[i] = append(g.contexts[i], c)
	}
	return p
}

// covering returns the contexts of the one uri of the group in which path lies:
// by underPrefix, or because only its last slash is missing in the path.
func (g *prefixGroup) covering(path string) []*Context {
	n := g.n
	switch {
	case n > len(path)+1:
		return nil
	case n > len(path): // the slash at the end is missing
		for i := g.search(path); i < len(g.uris) && g.uris[i][:n-1] == path; i++ {
			if g.uris[i][n-1] == '/' {
				return g.contexts[i]
			}
		}
		return nil
	case path[n-1] != '/' && n < len(path) && path[n] != '/':
		return nil
	}
	if i := g.search(path[:n]); i < len(g.uris) && g.uris[i] == path[:n] {
		return g.contexts[i]
	}
	return nil
}

// search returns the ordinal of the first uri that is not before s.
func (g *prefixGroup) search(s string) int {
	low, high := 0, len(g.uris)
	for low < high {
		if mid := int(uint(low+high) / 2); g.uris[mid] < s {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}
