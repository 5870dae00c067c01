package check

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/owenrumney/go-sarif/v3/pkg/report/v210/sarif"
	"github.com/rogpeppe/go-internal/txtar"
)

// run checks and returns the report and the exit code.
func run(t *testing.T, o Options) (string, int) {
	t.Helper()
	var out, complaint bytes.Buffer
	o.Stderr = &complaint
	code := Run(o, &out)
	return out.String() + complaint.String(), code
}

// archive unpacks a tree of testdata.
func archive(t *testing.T, name string) string {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return unpack(t, a)
}

// R-CHECK-2: what fails, by severity. Warnings never fail --strict.
func TestExitCodes(t *testing.T) {
	f := func(tree string, o Options, want int) {
		t.Helper()
		o.Root = archive(t, tree)
		if out, code := run(t, o); code != want {
			t.Errorf("%s %+v: exit %d, want %d\n%s", tree, o, code, want, out)
		}
	}
	const clean, warns, errors, fatal = "clean.txt", "two_files.txt", "listeners.txt", "strict.txt"
	f(clean, Options{Strict: true, FailOn: "info"}, OK)
	f(warns, Options{}, OK)
	f(warns, Options{Strict: true}, OK)
	f(warns, Options{FailOn: "error"}, OK)
	f(warns, Options{FailOn: "warn"}, Failed)
	f(warns, Options{FailOn: "info"}, Failed)
	f(warns, Options{Strict: true, FailOn: "warn"}, Failed)
	f(errors, Options{}, OK)
	f(errors, Options{Strict: true}, Failed)
	f(errors, Options{FailOn: "error"}, Failed)
	f(fatal, Options{}, Failed)
	f(clean, Options{Baseline: "/nowhere"}, Usage)
}

// Known findings are neither told nor counted, wherever they move; a second one
// of a kind is new, and what does not load fails all the same.
func TestBaseline(t *testing.T) {
	root := archive(t, "listeners.txt")
	file := filepath.Join(t.TempDir(), "known.json")
	if out, code := run(t, Options{Root: root, Strict: true, WriteBaseline: file}); code != Failed || !strings.Contains(out, "failed:") {
		t.Fatalf("exit %d\n%s", code, out)
	}
	out, code := run(t, Options{Root: root, FailOn: "info", Baseline: file})
	if code != OK || strings.Contains(out, "lint") || !strings.Contains(out, "ok: 0 errors, 0 warnings, 0 remarks, ") || !strings.HasSuffix(out, " known\n") {
		t.Errorf("with its own baseline: exit %d\n%s", code, out)
	}
	conf := filepath.Join(root, "conf/httpd_config.xml")
	text, err := os.ReadFile(conf)
	if err != nil {
		t.Fatal(err)
	}
	change := func(from, to string) {
		t.Helper()
		if err := os.WriteFile(conf, []byte(strings.Replace(string(text), from, to, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	change("<httpServerConfig>", "<httpServerConfig>\n\n\n")
	if out, code := run(t, Options{Root: root, FailOn: "info", Baseline: file}); code != OK {
		t.Errorf("three lines further down: exit %d\n%s", code, out)
	}
	change("<httpServerConfig>", "<httpServerConfig><newKnob>1</newKnob>")
	if out, code := run(t, Options{Root: root, FailOn: "warn", Baseline: file}); code != Failed || strings.Count(out, "lint") != 1 || !strings.Contains(out, "newKnob") {
		t.Errorf("a new finding: exit %d\n%s", code, out)
	}
	change("</httpServerConfig>", "")
	run(t, Options{Root: root, WriteBaseline: file})
	if out, code := run(t, Options{Root: root, Baseline: file}); code != Failed {
		t.Errorf("a tree that does not load, with all findings known: exit %d\n%s", code, out)
	}

	b := baseline{identity{"W-DUP", "f", "e", "m"}: 1}
	same := Finding{Code: "W-DUP", File: "f", Element: "e", Message: "m"}
	if rest, known := b.without([]Finding{same, same}); len(rest) != 1 || known != 1 {
		t.Errorf("of two findings like a known one %d are new", len(rest))
	}
}

// A JSON report serves as a baseline; other files do not.
func TestBaselineForms(t *testing.T) {
	root := archive(t, "two_files.txt")
	file := filepath.Join(t.TempDir(), "report.json")
	out, _ := run(t, Options{Root: root, Format: "json"})
	if err := os.WriteFile(file, []byte(out), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, code := run(t, Options{Root: root, FailOn: "info", Baseline: file}); code != OK {
		t.Errorf("exit %d\n%s", code, out)
	}
	for _, text := range []string{"", "{}", "[]", "{"} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, code := run(t, Options{Root: root, Baseline: file}); code != Usage || !strings.HasPrefix(out, "httpjet: baseline: ") {
			t.Errorf("%q: exit %d, %s", text, code, out)
		}
	}
}

// The SARIF log of every tree in testdata is valid by the standard's own schema,
// and says what the JSON report does.
func TestSARIF(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no trees in testdata", err)
	}
	levels := map[string]string{"error": "error", "warning": "warn", "note": "info"}
	for _, name := range files {
		a, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		o := options(unpack(t, a), a)
		o.Format, o.Version = "sarif", "v1"
		text, _ := run(t, o)
		dec := json.NewDecoder(strings.NewReader(text))
		dec.DisallowUnknownFields() // the library would not validate what it does not know
		if err := dec.Decode(&sarif.Report{}); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		log, err := sarif.FromString(text)
		if err != nil {
			t.Fatal(err)
		}
		// The library validates its own structs, whose zero values of what we do
		// not write are no values of the standard.
		language := "en-US"
		log.Runs[0].NewlineSequences = []string{"\n"}
		log.Runs[0].Language, log.Runs[0].Tool.Driver.Language = language, language
		if err := log.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var want Report
		o.Format = "json"
		text, _ = run(t, o)
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		got := log.Runs[0]
		if len(got.Results) != len(want.Findings) {
			t.Fatalf("%s: %d results, %d findings", name, len(got.Results), len(want.Findings))
		}
		for i, r := range got.Results {
			f := want.Findings[i]
			if *r.RuleID != f.Code || levels[r.Level] != f.Severity || !strings.HasPrefix(*r.Message.Text, f.Message) || *got.Tool.Driver.Rules[r.RuleIndex].ID != f.Code {
				t.Errorf("%s: result %+v is not finding %+v", name, r, f)
			}
			if at := r.Locations[0].PhysicalLocation; !strings.HasSuffix(*at.ArtifactLocation.URI, f.File) || *at.Region.StartLine != f.Line || *at.Region.StartColumn != f.Column {
				t.Errorf("%s: %s stands at %+v", name, f.Code, at)
			}
		}
	}
}

// Codes are sorted, described, and of the severity that their letter says.
func TestCodes(t *testing.T) {
	if !slices.IsSortedFunc(Codes, func(a, b Code) int { return strings.Compare(a.Code, b.Code) }) {
		t.Error("codes are not in order")
	}
	for i, c := range Codes {
		if want := map[byte]string{'E': "error", 'W': "warn", 'I': "info"}[c.Code[0]]; c.Severity != want || c.Means == "" {
			t.Errorf("%+v", c)
		}
		if i > 0 && Codes[i-1].Code == c.Code {
			t.Errorf("%s is described twice", c.Code)
		}
	}
}
