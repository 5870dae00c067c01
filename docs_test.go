package httpjet_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"httpjet/exchange"
)

// TestTourNamesExist looks up every function that docs/tour.md names, as
// package.Function or package.Type.Method.
func TestTourNamesExist(t *testing.T) {
	known := map[string]bool{}
	for _, files := range goFiles(t) {
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok {
					continue
				}
				name := f.Name.Name + "."
				if fn.Recv != nil {
					typ := fn.Recv.List[0].Type
					if star, ok := typ.(*ast.StarExpr); ok {
						typ = star.X
					}
					switch typ := typ.(type) {
					case *ast.Ident:
						name += typ.Name + "."
					case *ast.IndexListExpr:
						name += typ.X.(*ast.Ident).Name + "."
					}
				}
				known[name+fn.Name.Name] = true
			}
		}
	}
	text, err := os.ReadFile("docs/tour.md")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("`([a-z0-9]+(?:\\.[A-Za-z0-9]+){1,2})`").FindAllStringSubmatch(string(text), -1)
	if len(names) < 30 {
		t.Fatalf("only %d names found", len(names))
	}
	for _, m := range names {
		if !known[m[1]] {
			t.Errorf("docs/tour.md names %s, which does not exist", m[1])
		}
	}
}

// TestREADMECommands runs the README's $ lines in one shell, in their order, in
// a copy of the tree. Lines below a command are its output and must appear.
// make test and make demo are run by .ci/run.
func TestREADMECommands(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the binary")
	}
	for _, tool := range []string{"bash", "curl", "make"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("not run: ", err)
		}
	}
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	script, want := "set -e\n", []string{}
	after := false
	for line := range strings.Lines(string(text)) {
		line, code := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
		cmd, isCmd := strings.CutPrefix(line, "$ ")
		switch {
		case !code:
			after = false
		case isCmd && (cmd == "make test" || cmd == "make demo"):
		case isCmd:
			script += cmd + "\n"
			after = true
		case after:
			want = append(want, line)
		}
	}
	cmd := exec.Command("bash", "-c", script)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, w := range want {
		if !strings.Contains(string(out), w) {
			t.Errorf("output lacks %q:\n%s", w, out)
		}
	}
	if len(want) < 2 || strings.Count(script, "\n") < 8 {
		t.Fatalf("too little found in README.md:\n%s", script)
	}
}

// TestReasonTokensAreInTheVocabulary looks for every reason token of the code in
// docs/vocabulary.md: those that the client is told in their own list, the others
// in the second one.
func TestReasonTokensAreInTheVocabulary(t *testing.T) {
	text, err := os.ReadFile("docs/vocabulary.md")
	if err != nil {
		t.Fatal(err)
	}
	_, lists, _ := strings.Cut(string(text), "## Reason tokens")
	told, untold, _ := strings.Cut(lists, "Not told to the client")
	listed := func(list string) (tokens []string) {
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(list, -1) {
			tokens = append(tokens, m[1])
		}
		return tokens
	}
	if got, want := listed(told), exchange.ProxyReasons(); !slices.Equal(got, want) {
		t.Errorf("told to the client: %q, in the code %q", got, want)
	}
	known := append(listed(told), listed(untold)...)
	used := regexp.MustCompile(`(?:\bFail\(\w+, |\banswer\(\d+, |Reason: |ReasonOf\(\w+\) == )"([a-z_]+)"`)
	n := 0
	for _, files := range goFiles(t) {
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range used.FindAllStringSubmatch(string(b), -1) {
				if n++; !slices.Contains(known, m[1]) {
					t.Errorf("%s: the token %s is not in docs/vocabulary.md", file, m[1])
				}
			}
		}
	}
	if n < 50 {
		t.Fatalf("only %d tokens found in the code", n)
	}
}
