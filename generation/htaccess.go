package generation

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"strings"

	"httpjet/rewrite"
	"httpjet/xmlconf"
)

// maxHtaccessFindings bounds what is told of all .htaccess files of a tree.
const maxHtaccessFindings = 1000

// hostDirs are .htaccess files of a virtual host.
type hostDirs struct {
	host string
	dirs *rewrite.Dirs
}

// reportNotices logs what .htaccess files say that is not done, as they are read.
func (b *builder) reportNotices(list []rewrite.Notice) {
	for _, n := range list {
		level, text := slog.LevelInfo, ".htaccess directive has no effect"
		if n.Restricts {
			level = slog.LevelWarn
		}
		if n.Closes {
			text = ".htaccess directive closes"
		}
		b.opt.Log.Log(context.Background(), level, text, "file", n.File, "line", n.Line, "directive", n.Directive, "why", cmp.Or(n.Why, "it is not honoured"))
	}
}

// ReportHtaccess reads the .htaccess files below the document roots and tells of each
// directive that is not done, with file and line, for who checks a tree: serving reads
// them one by one, as requests come. Files below a directory that several hosts share
// are told once.
func (g *Generation) ReportHtaccess(fs *xmlconf.Findings) {
	seen := map[string]bool{}
	told := 0
	for _, h := range g.htaccess {
		if seen[h.dirs.Root()] {
			continue
		}
		seen[h.dirs.Root()] = true
		notices, whole := h.dirs.Survey()
		at := func(file string, line int) xmlconf.Place {
			if rel, err := filepath.Rel(g.Config.Root, file); err == nil && !strings.HasPrefix(rel, "..") {
				file = rel // as findings name files
			}
			return xmlconf.Place{Pos: xmlconf.Pos{File: file, Line: max(line, 1), Column: 1}}
		}
		for _, n := range notices {
			if told++; told > maxHtaccessFindings {
				whole = false
				break
			}
			reportNotice(fs, at(n.File, n.Line), h.host, n)
		}
		if !whole {
			fs.Info("I-HTACCESS", at(h.dirs.Root(), 1), "", "virtual host %q: there are more .htaccess files, or findings about them, than are looked at", h.host)
		}
	}
}

func reportNotice(fs *xmlconf.Findings, at xmlconf.Place, host string, n rewrite.Notice) {
	what := n.Why
	if n.Directive != "" {
		what = n.Directive + ": " + cmp.Or(n.Why, "it is not honoured")
	}
	switch {
	case n.Closes:
		fs.Error("E-CLOSED", at, "remove the directive, or guard the place in a way that is honoured", "virtual host %q: %s", host, what)
	case n.Known:
		fs.Info("I-HTACCESS", at, "", "virtual host %q: %s", host, what)
	default:
		fs.Warn("W-HTACCESS", at, "correct it, or remove it", "virtual host %q: %s", host, what)
	}
}
