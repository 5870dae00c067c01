package rewrite

import (
	"io/fs"
	"path/filepath"
	"strings"
)

// Bounds of one Survey: a document root may hold millions of files.
const (
	maxSurveyNames = 200000 // looked at
	maxSurveyFiles = 2000   // .htaccess files read
)

// Survey reads every .htaccess file below the root and returns what of them is not
// done, or not as it seems, for who checks a configuration. It remembers nothing and
// follows no link. whole is false if there is more than it looks at: 200,000 names,
// 2,000 files.
func (d *Dirs) Survey() (notices []Notice, whole bool) {
	names, files := 0, 0
	whole = true
	root := filepath.Clean(d.opt.Root)
	// What cannot be read holds nothing that would be served either.
	_ = filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if names++; names > maxSurveyNames || files >= maxSurveyFiles {
			whole = false
			return filepath.SkipAll
		}
		switch {
		case err != nil && e != nil && e.IsDir():
			return filepath.SkipDir
		case err != nil:
			return nil
		case e.IsDir() && strings.Count(name[len(root):], "/") > maxDepth:
			return filepath.SkipDir
		case e.IsDir() || e.Name() != d.opt.FileName:
			return nil
		}
		files++
		rel := strings.TrimPrefix(filepath.Dir(name), strings.TrimSuffix(root, "/"))
		f, told := d.load(name, rel+"/")
		if len(told) == 0 && f != nil && f.access != nil && f.access.fault != 0 {
			told = []Notice{{File: name, Why: f.access.why + "; nothing below it is served", Restricts: true, Closes: f.access.fault == 503}}
		}
		notices = append(notices, told...)
		return nil
	})
	return notices, whole
}
