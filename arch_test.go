// Package httpjet_test guards the house: which package may import which, that
// every package says what it is, and that every goroutine is in the census.
package httpjet_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "httpjet"

// levels lists the packages from the ground up. A package may import packages
// of lower levels only; a package that is not listed fails the test.
var levels = []string{
	/* 0 ground   */ "exchange xmlconf keep budget domains watch tunnels coding unixsocket",
	/* 1 wires    */ "store rawio epoll h1 h2 tlsconf staples acme access docroot handover accesslog metrics trace headers apps freshness compress",
	/* 2 upstream */ "extproc pagecache rewrite framing",
	/* 3          */ "forward gateway streaming groups",
	/* 4 gateways */ "fastcgi lsapi",
	/* 5 handlers */ "proxy proxycache script static listing wsrelay probes",
	/* 6          */ "contexts",
	/* 7          */ "generation",
	/* 8          */ "check status control front",
	/* 9          */ "server",
	/* 10         */ "demo",
	/* 11         */ "cmd/httpjet",
	/* around the server */ "internal/peers",
	/* tests and tools */ "exchange/exchangetest lsapi/lsapitest casefile interop bench soak demo/mock",
}

// census names every function that a goroutine may run. Test files and the
// harnesses under interop, bench and soak, and what they share, are not counted.
var census = []string{
	"accesslog.flush", "accesslog.sweep",
	"acme.run", // and those of certmagic, which end with its cache and a few seconds after its locks
	"control.serve",
	"apps.run", "apps.watchEnd", "apps.prove", "apps.wait", "apps.read", "apps.follow", // of started applications
	"apps.accept", "apps.serve", "apps.tell", // of the process that keeps them
	"demo.serveApplication", "demo.serveWebSocket", "demo.serveFastCGI", // the demonstration's own backends
	"extproc.pumpBody", "extproc.tryAddress", "extproc.lookUp",
	"extproc.feed", "extproc.passHints", // of calls over HTTP/2
	"proxy.feed",
	"proxycache.run", // of a response that is made anew
	"gateway.pumpBody",
	"generation.rehearsePeer", "probes.run", "probes.probe",
	"front.accept", "front.serveConn", "front.readH2", "front.writeH2", "front.watchSockets", "front.giveBack",
	"front.acceptQUIC", "front.serveH3", "front.sayGoAway", // and those of packages quic and http3, which end with their connection or transport
	"handover.await",
	"server.watchSignals", "server.watchFiles", "server.expireIdle", "server.sweepPages",
	"pagecache.refresh",
	"staples.run",
	"trace.run",
	"status.serve",
	"wsrelay.copyUp",
}

func goFiles(t *testing.T) map[string][]string {
	t.Helper()
	dirs := map[string][]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "tools" || name == "node_modules") {
			return filepath.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(name, ".go") {
			dir := filepath.ToSlash(filepath.Dir(path))
			dirs[dir] = append(dirs[dir], path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

func TestImportsPointDown(t *testing.T) {
	level := map[string]int{}
	for i, line := range levels {
		for p := range strings.FieldsSeq(line) {
			level[module+"/"+p] = i
		}
	}
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		from, ok := level[f[0]]
		if !ok {
			if f[0] != module {
				t.Errorf("%s has no level: add it to levels", f[0])
			}
			continue
		}
		for _, imp := range f[1:] {
			if to, ours := level[imp]; ours && to >= from {
				t.Errorf("%s (level %d) imports %s (level %d)", f[0], from, imp, to)
			}
		}
	}
}

func TestEveryPackageHasADoc(t *testing.T) {
	for dir, files := range goFiles(t) {
		doc := ""
		for _, file := range files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if f.Doc != nil {
				doc = f.Doc.Text()
			}
		}
		if len(doc) < 40 {
			t.Errorf("%s: no package comment that says what the package is", dir)
		}
	}
}

// TestEveryGoroutineIsInTheCensus finds go statements and WaitGroup.Go: each starts
// a named function or method that the census lists, and all that it lists are
// started somewhere.
func TestEveryGoroutineIsInTheCensus(t *testing.T) {
	found := map[string]bool{}
	for dir, files := range goFiles(t) {
		if dir == "interop" || dir == "bench" || dir == "soak" || dir == "internal/peers" || strings.HasSuffix(dir, "exchangetest") || dir == "lsapi/lsapitest" {
			continue
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				var started ast.Expr
				switch n := n.(type) {
				case *ast.GoStmt:
					started = n.Call.Fun
				case *ast.CallExpr:
					if fn, ok := n.Fun.(*ast.SelectorExpr); ok && fn.Sel.Name == "Go" && len(n.Args) == 1 {
						started = n.Args[0]
					}
				}
				if started == nil {
					return true
				}
				name := ""
				switch fn := started.(type) {
				case *ast.Ident:
					name = fn.Name
				case *ast.SelectorExpr:
					name = fn.Sel.Name
				}
				full := f.Name.Name + "." + name
				if found[full] = true; !slices.Contains(census, full) {
					t.Errorf("%s: a goroutine runs %q, which is not in the census", fset.Position(n.Pos()), full)
				}
				return true
			})
		}
	}
	for _, name := range census {
		if !found[name] {
			t.Errorf("the census lists %s, which nothing starts", name)
		}
	}
}
