package check

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "rewrite the expected findings in testdata")

// TestMain proves with every test that a check starts nothing (R-CHECK-1).
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// unpack writes the files of an archive to a new server root.
func unpack(t *testing.T, a *txtar.Archive) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range a.Files {
		path := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestFindings checks the trees in testdata: what each file says in its first
// line is told in the findings at its end.
func TestFindings(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no trees in testdata", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			if last := len(a.Files) - 1; a.Files[last].Name == "findings" {
				want = string(a.Files[last].Data)
				a.Files = a.Files[:last]
			}
			dir := unpack(t, a)
			var out strings.Builder
			Run(options(dir, a), &out)
			got := findings(strings.ReplaceAll(out.String(), dir, "$ROOT"))
			if got == want {
				return
			}
			if !*update {
				t.Fatalf("findings are\n%s\nwant\n%s", got, want)
			}
			a.Files = append(a.Files, txtar.File{Name: "findings", Data: []byte(got)})
			if err := os.WriteFile(name, txtar.Format(a), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// options are for a whole tree, or for the file that the archive's text names
// in a line "file: NAME".
// A line "user: root" has the server be root; it is nobody in particular else, whoever
// runs the test.
func options(dir string, a *txtar.Archive) Options {
	uid := 1000
	o := Options{Root: dir, User: func() int { return uid }}
	for line := range strings.Lines(string(a.Comment)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "file: "); ok {
			o.Root, o.File = "", filepath.Join(dir, name)
		}
		if strings.TrimSpace(line) == "user: root" {
			uid = 0
		}
	}
	return o
}

// findings is the part of a report behind its summary.
func findings(text string) string {
	var out strings.Builder
	told := false
	for line := range strings.Lines(text) {
		told = told || strings.HasPrefix(line, "vhost-map-fingerprint:") || strings.HasPrefix(line, "  lint ")
		if told && !strings.HasPrefix(line, "vhost-map-fingerprint:") {
			out.WriteString(line)
		}
	}
	return out.String()
}

const tree = `
-- conf/httpd_config.xml --
<httpServerConfig>
  <serverName>check.test</serverName>
  <virtualHost><name>b</name><vhRoot>$SERVER_ROOT</vhRoot><configFile>conf/host.xml</configFile></virtualHost>
  <virtualHost><name>a</name><vhRoot>$SERVER_ROOT</vhRoot><configFile>conf/host.xml</configFile></virtualHost>
  <listener><name>Two</name><address>*:81</address><vhostMap><vhost>b</vhost><domain>B.test, *</domain></vhostMap></listener>
  <listener><name>One</name><address>*:80</address>
    <vhostMap><vhost>b</vhost><domain>b.test</domain></vhostMap>
    <vhostMap><vhost>a</vhost><domain>a.test</domain></vhostMap></listener>
</httpServerConfig>
-- conf/host.xml --
<virtualHostConfig>
  <docRoot>$SERVER_ROOT/$VH_NAME/</docRoot>
  <extProcessor><type>proxy</type><name>app</name><address>app.test</address></extProcessor>
  <context><type>proxy</type><uri>/x/</uri><handler>app</handler></context>
  <context><type>proxy</type><uri>/y/</uri><handler>nobody</handler></context>
</virtualHostConfig>
-- a/index.html --
-- b/index.html --
`

// R-CHECK-4: the fingerprint is of the sorted maps, whatever their order.
func TestFingerprint(t *testing.T) {
	report := func(text string) Report {
		t.Helper()
		var out bytes.Buffer
		Run(Options{Root: unpack(t, txtar.Parse([]byte(text))), Format: "json"}, &out)
		var r Report
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	sum := fnv.New64a()
	fmt.Fprint(sum, "One\ta.test\ta\nOne\tb.test\tb\nTwo\t*\tb\nTwo\tb.test\tb\n")
	want := fmt.Sprintf("fnv1a64:%016x", sum.Sum64())
	first := report(tree)
	if first.Fingerprint != want {
		t.Errorf("fingerprint %s, want %s", first.Fingerprint, want)
	}
	moved := report(strings.Replace(tree, "B.test, *", "*, b.test", 1))
	if moved.Fingerprint != want || moved.Hash == first.Hash {
		t.Errorf("another order: %s, want %s; the files have hash %s", moved.Fingerprint, want, moved.Hash)
	}
	if r := report(strings.Replace(tree, "<domain>a.test", "<domain>c.test", 1)); r.Fingerprint == want {
		t.Error("another map has the same fingerprint")
	}
}

// R-CHECK-3: the JSON report has stable names and no others; arrays are arrays.
func TestJSON(t *testing.T) {
	dir := unpack(t, txtar.Parse([]byte(tree)))
	var out bytes.Buffer
	if code := Run(Options{Root: dir, Format: "json", Strict: true}, &out); code != Failed {
		t.Errorf("code %d", code)
	}
	var r struct {
		Root        string `json:"root"`
		Hash        string `json:"generation_hash"`
		Fingerprint string `json:"fingerprint"`
		Summary     struct {
			ServerName string `json:"server_name"`
			Tuning     string `json:"tuning"`
			Listeners  []struct {
				Name, Address string
				Secure, Opens bool
				Maps          int
			} `json:"listeners"`
			Processors []struct {
				Scope, Name, Type string
				Addresses         []string
			} `json:"processors"`
			VHosts []struct {
				Name    string `json:"name"`
				Loaded  bool   `json:"loaded"`
				DocRoot string `json:"doc_root"`
			} `json:"vhosts"`
		} `json:"summary"`
		Findings []struct {
			Code, Severity, File, Element, Message, Hint string
			Line, Column                                 int
		} `json:"findings"`
		OK *bool `json:"ok"`
	}
	dec := json.NewDecoder(&out)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		t.Fatal(err)
	}
	if r.Root != dir || len(r.Hash) != 64 || r.OK == nil || *r.OK || r.Summary.ServerName != "check.test" {
		t.Errorf("report is %+v", r)
	}
	if l := r.Summary.Listeners; len(l) != 2 || l[1].Name != "One" || l[1].Address != "*:80" || !l[1].Opens || l[1].Maps != 2 {
		t.Errorf("listeners are %+v", l)
	}
	if p := r.Summary.Processors; len(p) != 2 || p[0].Scope != "vhost:b" || p[0].Name != "app" || p[0].Type != "proxy" || p[0].Addresses[0] != "http://app.test:80" {
		t.Errorf("processors are %+v", p)
	}
	if v := r.Summary.VHosts; len(v) != 2 || v[0].Name != "b" || !v[0].Loaded || v[0].DocRoot != filepath.Join(dir, "b") {
		t.Errorf("virtual hosts are %+v", v)
	}
	if len(r.Findings) != 1 { // one, though two hosts have the file
		t.Fatalf("findings are %+v", r.Findings)
	}
	f := r.Findings[0]
	if f.Code != "E-CTX-UNRESOLVED" || f.Severity != "error" || f.File != "conf/host.xml" || f.Line != 5 || f.Column == 0 ||
		f.Element != "virtualHostConfig/context/handler" || f.Message == "" || f.Hint == "" {
		t.Errorf("finding is %+v", f)
	}
}

// An empty report has empty arrays, not null.
func TestJSONOfNothing(t *testing.T) {
	var out bytes.Buffer
	dir := unpack(t, txtar.Parse([]byte("-- conf/httpd_config.xml --\n<httpServerConfig/>\n")))
	Run(Options{Root: dir, Format: "json"}, &out)
	if strings.Contains(out.String(), "null") {
		t.Errorf("report holds null:\n%s", &out)
	}
	for _, name := range []string{"listeners", "processors", "vhosts"} {
		if !strings.Contains(out.String(), `"`+name+`": []`) {
			t.Errorf("report has no empty array %q:\n%s", name, &out)
		}
	}
}

// A check leaves the tree as it is: no log directory, no socket (R-CFG-8).
func TestCheckWritesNothing(t *testing.T) {
	dir := unpack(t, txtar.Parse([]byte(tree)))
	var out bytes.Buffer
	Run(Options{Root: dir}, &out)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 3 || entries[2].Name() != "conf" {
		t.Errorf("the root holds %v", entries)
	}
}
