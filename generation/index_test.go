package generation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"httpjet/xmlconf"
)

// LiteSpeed 6.3: useServer is 1 unless written; then the host's own list counts
// for nothing, and a finding says so.
func TestIndexFiles(t *testing.T) {
	f := func(inner, want string, told bool) {
		t.Helper()
		fs := &xmlconf.Findings{}
		file := filepath.Join(t.TempDir(), "site.xml")
		if err := os.WriteFile(file, []byte("<virtualHostConfig><docRoot>/srv</docRoot>"+inner+"</virtualHostConfig>"), 0o644); err != nil {
			t.Fatal(err)
		}
		v := xmlconf.LoadFile(file, fs).(*xmlconf.VHost)
		b := &builder{cfg: &xmlconf.Config{Server: &xmlconf.Server{IndexFiles: []string{"s.html"}}}, fs: fs}
		if got := strings.Join(b.indexFiles(v), " "); got != want {
			t.Errorf("%s: %q, want %q", inner, got, want)
		}
		if got := strings.Contains(fmtAll(fs), "W-INDEX"); got != told {
			t.Errorf("%s: told %v: %s", inner, got, fmtAll(fs))
		}
	}
	f("", "s.html", false)
	f("<index><indexFiles>own.html</indexFiles></index>", "s.html", true)
	f("<index><useServer>1</useServer><indexFiles>own.html</indexFiles></index>", "s.html", true)
	f("<index><useServer>0</useServer><indexFiles>own.html, b.html</indexFiles></index>", "own.html b.html", false)
	f("<index><useServer>2</useServer><indexFiles>own.html</indexFiles></index>", "own.html s.html", false)
	f("<index><useServer>0</useServer></index>", "", false)
	f("<indexFiles>old.html</indexFiles>", "old.html", false)
}

func fmtAll(fs *xmlconf.Findings) string {
	var b strings.Builder
	for _, f := range fs.All() {
		b.WriteString(f.String() + "\n")
	}
	return b.String()
}
