package rewrite

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Bounds of one Survey: a document root may hold millions of files.
const (
	maxSurveyNames = 200000   // looked at
	maxSurveyFiles = 2000     // .htaccess files read
	maxSurveyBytes = 64 << 20 // of them
	surveyBatch    = 1024     // names read at once
)

// survey is a Survey under way.
type survey struct {
	d            *Dirs
	names, files int
	bytes        int64
	notices      []Notice
	partial      bool
}

// Survey reads every .htaccess file below the root and returns what of them is not
// done, or not as it seems, by file and line, for who checks a configuration. It
// remembers nothing and follows no link. whole is false if there is more than it looks
// at: 200,000 names, 2,000 files of 64 MiB together.
func (d *Dirs) Survey() (notices []Notice, whole bool) {
	s := &survey{d: d}
	dirs := []string{"/"} // below the root, each with a slash at its end
	for len(dirs) > 0 && !s.partial {
		dir := dirs[len(dirs)-1]
		dirs = append(dirs[:len(dirs)-1], s.look(dir)...)
	}
	slices.SortStableFunc(s.notices, func(a, b Notice) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return s.notices, !s.partial
}

// look reads the file of one directory and returns the directories in it. What cannot be
// read holds nothing that would be served either.
func (s *survey) look(dir string) (dirs []string) {
	f, err := os.Open(filepath.Join(s.d.opt.Root, dir))
	if err != nil {
		return nil
	}
	defer f.Close()
	for {
		entries, err := f.ReadDir(surveyBatch)
		for _, e := range entries {
			switch {
			case e.Name() == s.d.opt.FileName: // a directory too: it cannot be read
				s.read(dir, e)
			case e.IsDir() && strings.Count(dir, "/") <= maxDepth:
				dirs = append(dirs, dir+e.Name()+"/")
			}
		}
		if s.names += len(entries); s.names > maxSurveyNames {
			s.partial = true
		}
		if err != nil || s.partial {
			return dirs
		}
	}
}

// read reads one file.
func (s *survey) read(dir string, e fs.DirEntry) {
	info, err := e.Info()
	if err != nil {
		return
	}
	if size := info.Size(); size <= s.d.opt.MaxBytes { // others are not read
		s.bytes += size
	}
	if s.files++; s.files > maxSurveyFiles || s.bytes > maxSurveyBytes {
		s.partial = true
		return
	}
	name := filepath.Join(s.d.opt.Root, dir, e.Name())
	f, told := s.d.load(name, dir)
	if len(told) == 0 && f != nil && f.access != nil && f.access.fault != 0 {
		told = []Notice{{File: name, Why: f.access.why + "; nothing below it is served", Restricts: true, Closes: f.access.fault == 503}}
	}
	s.notices = append(s.notices, told...)
}
