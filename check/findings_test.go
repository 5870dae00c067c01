package check

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"httpjet/xmlconf"
)

const findingsHead = `# Findings

Generated from the catalogue in package check and the trees in check/testdata; do
not edit. Each example is what ` + "`httpjet check`" + ` says of a line in one of these trees.

| severity | means |
|---|---|
| error | something is closed, missing or not served as written; ` + "`--strict`" + ` fails. Where the text says that the tree does not load, check fails and a reload is refused in any case |
| warn | an answer differs from what the file says, or a limit does not hold |
| info | good to know; no answer changes |

A finding has code, severity, file, line, column (in bytes, from 1), the path of its
element, a message and mostly a hint. ` + "`check --format json`" + ` and ` + "`sarif`" + ` have them all.
`

// An example is a finding with the text it is about.
type example struct{ finding, line string }

// examples finds one for each code in the archives.
func examples(t *testing.T) map[string]example {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]example{}
	lint := regexp.MustCompile(`^  lint \w+ *: \[([EWI]-[A-Z-]+)\] (?:(\S+):(\d+):(\d+): )?(.*)$`)
	for _, name := range files {
		a, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := map[string][]string{}
		for _, f := range a.Files {
			text[f.Name] = strings.Split(string(f.Data), "\n")
		}
		for _, line := range text["findings"] {
			m := lint.FindStringSubmatch(line)
			if m == nil || out[m[1]].finding != "" {
				continue
			}
			e := example{finding: strings.TrimPrefix(strings.TrimSpace(line), "lint ")}
			var row, column int
			fmt.Sscan(m[3], &row)
			fmt.Sscan(m[4], &column)
			if lines := text[strings.TrimPrefix(m[2], "$ROOT/")]; row > 0 && row <= len(lines) && column > 0 && column <= len(lines[row-1]) {
				e.line = strings.TrimSpace(lines[row-1][column-1:])
			}
			out[m[1]] = e
		}
	}
	return out
}

func shorten(s string) string {
	if len(s) > 160 {
		return strings.ToValidUTF8(s[:160], "") + "..."
	}
	return s
}

// docs/findings.md has every code with what it means and an example that really
// produces it.
func TestFindingsDocs(t *testing.T) {
	all := examples(t)
	var doc strings.Builder
	doc.WriteString(findingsHead)
	for _, c := range Codes {
		fmt.Fprintf(&doc, "\n## %s\n\n%s. %s", c.Code, c.Severity, c.Means)
		if c.Do != "" {
			fmt.Fprintf(&doc, " %s", c.Do)
		}
		if c.Treatment != "" {
			fmt.Fprintf(&doc, " In `httpjet report`: *%s*.", c.Treatment)
		}
		doc.WriteString("\n")
		e := all[c.Code]
		switch {
		case c.Example != "":
			fmt.Fprintf(&doc, "\n    %s\n", c.Example)
		case e.finding == "":
			t.Errorf("no tree in testdata produces %s", c.Code)
		default:
			if e.line != "" {
				fmt.Fprintf(&doc, "\n    %s\n", shorten(e.line))
			}
			fmt.Fprintf(&doc, "\n    %s\n", e.finding)
		}
	}
	const file = "../docs/findings.md"
	if *update {
		if err := os.WriteFile(file, []byte(doc.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if doc.String() != string(want) {
		t.Error("docs/findings.md is out of date: run go test ./check -run TestFindingsDocs -update")
	}
}

// Every code that the source makes is in the catalogue, and the catalogue has no
// other.
func TestCodesOfTheSource(t *testing.T) {
	known, used := map[string]bool{}, map[string]bool{}
	for _, c := range Codes {
		known[c.Code] = true
	}
	for _, dir := range []string{"../xmlconf", "../generation", "../server", "."} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") || filepath.Base(file) == "codes.go" {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(`"([EWI]-[A-Z][A-Z-]+)"`).FindAllStringSubmatch(string(text), -1) {
				used[m[1]] = true
				if !known[m[1]] {
					t.Errorf("%s: the code %s is not in codes.go", file, m[1])
				}
			}
		}
	}
	for _, code := range []string{"W-NOT-YET", "I-NOT-YET", "W-NO-EFFECT", "I-NO-EFFECT"} {
		used[code] = true // put together in xmlconf
	}
	for code := range known {
		if !used[code] {
			t.Errorf("nothing makes the code %s", code)
		}
	}
}

// W-MORE: a file of nonsense makes no more findings than anybody reads.
func TestTooManyFindings(t *testing.T) {
	var text strings.Builder
	text.WriteString("<httpServerConfig>")
	for i := range 10_001 {
		fmt.Fprintf(&text, "\n<knob%d/>", i)
	}
	text.WriteString("</httpServerConfig>")
	dir := unpack(t, &txtar.Archive{Files: []txtar.File{{Name: "conf/httpd_config.xml", Data: []byte(text.String())}}})
	fs := &xmlconf.Findings{}
	xmlconf.LoadServer(dir, fs)
	all := fs.All()
	if last := all[len(all)-1]; len(all) != 10_001 || last.String() != "conf/httpd_config.xml:10002:1: warn W-MORE: further findings are not told" {
		t.Errorf("%d findings, the last is %s", len(all), last)
	}
}
