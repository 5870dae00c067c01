package xmlconf

import (
	"os"
	"path/filepath"
	"testing"
)

// TestCorpus reads real files of other people: each must give findings, none may
// crash, and nearly all must load.
func TestCorpus(t *testing.T) {
	dir := os.Getenv("HTTPJET_CORPUS")
	if dir == "" {
		t.Skip("HTTPJET_CORPUS names no folder of configuration files")
	}
	var files []string
	for _, pattern := range []string{"*.xml", "*/*.xml"} {
		m, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, m...)
	}
	loaded := 0
	for _, file := range files {
		var fs Findings
		LoadFile(file, &fs)
		if !fs.Failed() {
			loaded++
		}
		for _, f := range fs.All() {
			if f.File == "" || f.Line == 0 || f.Code == "" || f.Message == "" {
				t.Errorf("%s: finding without a place or text: %+v", file, f)
			}
			if f.Fatal {
				t.Logf("%s", f)
			}
		}
		t.Logf("%s: %d errors, %d warnings", filepath.Base(file), fs.Count(Error), fs.Count(Warn))
	}
	t.Logf("%d of %d files load", loaded, len(files))
	if len(files) == 0 || loaded*37 < len(files)*30 {
		t.Errorf("%d of %d files load, want at least 30 of 37", loaded, len(files))
	}
}
