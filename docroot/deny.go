package docroot

import (
	"fmt"
	"path/filepath"
	"strings"

	"httpjet/exchange"
)

// Hidden reports whether a segment of path is never served, whatever the
// configuration says: names beginning with ".ht", and ".git", ".svn", ".hg", in
// any ASCII case (R-STATIC-9). Dots and blanks behind a name do not change it:
// there are file systems that drop them.
func Hidden(path string) bool {
	for i := 0; i+1 < len(path); {
		j := strings.Index(path[i:], "/.")
		if j < 0 {
			return false
		}
		i += j + 1
		seg, _, _ := strings.Cut(path[i:], "/")
		if hiddenName(seg) {
			return true
		}
	}
	return false
}

// hiddenName judges one segment, which begins with a dot.
func hiddenName(seg string) bool {
	if len(seg) >= 3 && exchange.EqualName(seg[:3], ".ht") {
		return true
	}
	seg = strings.TrimRight(seg, ". ")
	return exchange.EqualName(seg, ".git") || exchange.EqualName(seg, ".svn") || exchange.EqualName(seg, ".hg")
}

// denyDir is one accessDenyDir entry.
type denyDir struct {
	dir  string // the directory, or the prefix of a tree
	tree bool
}

// newDenyDirs reads the entries. The real path of a directory is denied with the
// name it was configured by, for an entry may pass through a symbolic link.
func newDenyDirs(patterns []string) ([]denyDir, error) {
	var list []denyDir
	for _, p := range patterns {
		if !filepath.IsAbs(p) {
			return nil, fmt.Errorf("denied directory %q is not absolute", p)
		}
		dir, tree := strings.CutSuffix(p, "*")
		if strings.ContainsRune(dir, '*') {
			return nil, fmt.Errorf("denied directory %q: a star may only stand at the end", p)
		}
		partial := tree && !strings.HasSuffix(dir, "/") // "/etc/p*"
		dir = filepath.Clean(dir)
		list = append(list, newDenyDir(dir, tree, partial))
		if partial {
			continue
		}
		if real, err := filepath.EvalSymlinks(dir); err == nil && real != dir {
			list = append(list, newDenyDir(real, tree, false))
		}
	}
	return list, nil
}

func newDenyDir(dir string, tree, partial bool) denyDir {
	if tree && !partial && dir != "/" {
		dir += "/"
	}
	return denyDir{dir: dir, tree: tree}
}

// denies reports whether the file of that real path may not be served: a tree
// covers everything below it, a bare directory the files that lie in it, the path of
// a file that file.
func (d denyDir) denies(real string) bool {
	if d.tree {
		return strings.HasPrefix(real, d.dir)
	}
	return real == d.dir || filepath.Dir(real) == d.dir
}
