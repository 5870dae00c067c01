package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"httpjet/internal/peers"
)

//go:embed assets/cache-tests.mjs
var cacheTestsMJS string

// undiciVersion is the pinned version of what the suite needs from npm.
const undiciVersion = "7.16.0"

// The least that a run has to pass, of 160 and 105.
const leastRequired, leastOptimal = 150, 80

// conformance is the document that a run writes its results to.
const conformance = "docs/cache-conformance.md"

// wontPass says why required and optimal tests are known to fail. Another one that
// fails is told as a failure of the run.
var wontPass = map[string]string{
	"headers-store-Set-Cookie":                      "nothing with Set-Cookie is kept: no client gets the cookie of another",
	"other-set-cookie":                              "nothing with Set-Cookie is kept",
	"headers-store-Transfer-Encoding":               "an upstream that sends a transfer coding nobody knows is answered 502",
	"method-POST":                                   "only responses to GET are kept",
	"vary-normalise-lang-order":                     "many origins take the order of languages for a preference, so that it counts",
	"vary-normalise-lang-select":                    "variants are chosen by the values that selected them, not by Content-Language",
	"conditional-lm-fresh-no-lm":                    "the response without Last-Modified is newer than the date of the condition",
	"partial-store-partial-reuse-partial":           "parts are answered from a whole that is kept, and not kept themselves",
	"partial-store-partial-reuse-partial-byterange": "as above",
	"partial-store-partial-reuse-partial-absent":    "as above",
	"partial-store-partial-reuse-partial-suffix":    "as above",
	"partial-store-partial-complete":                "as above",
	"interim-102":                                   "of interim responses 103 alone is passed on",
}

// cacheTest is one test of the suite, with its result.
type cacheTest struct {
	Suite, ID, Kind string
	passed          bool
	why             string
}

// cacheTests runs the public suite http-tests/cache-tests against a proxyCache with
// its defaults. CACHE_TESTS names a checkout, which is copied and not written to.
func cacheTests(r *run) error {
	from := os.Getenv("CACHE_TESTS")
	if from == "" {
		return errors.New("CACHE_TESTS names no checkout of https://github.com/http-tests/cache-tests")
	}
	dir := filepath.Join(r.dir, "cache-tests")
	if err := writeFiles(dir, map[string]string{"list.mjs": cacheTestsMJS}); err != nil {
		return err
	}
	for _, part := range []string{"test-engine", "tests"} {
		if err := os.CopyFS(filepath.Join(dir, part), os.DirFS(filepath.Join(from, part))); err != nil {
			return err
		}
	}
	if err := r.command("npm", "install", "--prefix", dir, "--no-audit", "--no-fund", "--loglevel=error", "undici@"+undiciVersion); err != nil {
		return err
	}
	origin, err := r.cacheOrigin(dir)
	if err != nil {
		return err
	}
	defer origin.stop()
	var list []cacheTest
	r.check("suite", func() (string, error) {
		list, err = r.cacheVerdicts(dir, origin.address)
		return fmt.Sprintf("%d tests", len(list)), err
	})
	if len(list) == 0 {
		return nil
	}
	r.check("required", func() (string, error) { return cacheTally(list, "required", leastRequired) })
	r.check("optimal", func() (string, error) { return cacheTally(list, "optimal", leastOptimal) })
	r.check("nothing-new-fails", func() (string, error) {
		for _, t := range list {
			if t.Kind != "check" && !t.passed && wontPass[t.ID] == "" {
				return "", fmt.Errorf("%s: %s", t.ID, t.why)
			}
		}
		return "", nil
	})
	return writeConformance(list)
}

// cacheServer is the origin of the suite.
type cacheServer struct {
	*process
	address string
}

func (r *run) cacheOrigin(dir string) (*cacheServer, error) {
	address, err := peers.FreePort()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(address)
	p, err := r.start("env", "npm_config_protocol=http", "npm_config_port="+port, "npm_config_pidfile="+filepath.Join(dir, "pid"),
		"node", filepath.Join(dir, "test-engine/server/server.mjs"))
	if err != nil {
		return nil, err
	}
	if err := p.ready(r.ctx, dial("tcp", address)); err != nil {
		p.stop()
		return nil, err
	}
	return &cacheServer{p, address}, nil
}

// cacheVerdicts runs all tests through httpjet and says what became of each.
func (r *run) cacheVerdicts(dir, origin string) ([]cacheTest, error) {
	j, err := r.serve(tree{name: "cached", vhost: strings.ReplaceAll(`
  <docRoot>$VH_ROOT/htdocs</docRoot>
  <extProcessorList><extProcessor><type>proxy</type><name>origin</name><address>{{origin}}</address></extProcessor></extProcessorList>
  <contextList><context><type>proxy</type><uri>/</uri><handler>origin</handler><proxyCache><enable>1</enable></proxyCache></context></contextList>`,
		"{{origin}}", origin)})
	if err != nil {
		return nil, err
	}
	defer r.down(j)
	resp, err := http.Get("http://" + j.http + "/test/")
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	var list []cacheTest
	var results map[string]json.RawMessage
	if err := r.nodeJSON(&list, filepath.Join(dir, "list.mjs")); err != nil {
		return nil, err
	}
	if err := r.nodeJSON(&results, filepath.Join(dir, "test-engine/cli.mjs"), "npm_config_base=http://"+j.http, "npm_package_config_id="); err != nil {
		return nil, err
	}
	for i := range list {
		t := &list[i]
		var why [2]string
		switch result, ran := results[t.ID]; {
		case !ran:
			return nil, fmt.Errorf("%s did not run", t.ID)
		case string(result) == "true":
			t.passed = true
		case json.Unmarshal(result, &why) == nil:
			t.why = why[1]
		}
	}
	return list, nil
}

// nodeJSON runs a script to its end and reads what it prints.
func (r *run) nodeJSON(into any, script string, env ...string) error {
	cmd := exec.CommandContext(r.ctx, "node", "--no-warnings", script)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %v", filepath.Base(script), err)
	}
	return json.Unmarshal(out, into)
}

func cacheTally(list []cacheTest, kind string, least int) (string, error) {
	passed, all := 0, 0
	for _, t := range list {
		if t.Kind == kind {
			if all++; t.passed {
				passed++
			}
		}
	}
	text := fmt.Sprintf("%d of %d", passed, all)
	if passed < least {
		return "", fmt.Errorf("%s, at least %d must pass", text, least)
	}
	return text, nil
}

// writeConformance puts the results between the marks of the document.
func writeConformance(list []cacheTest) error {
	const begin, end = "<!-- results: written by make interop-cache -->\n", "<!-- end of results -->"
	text, err := os.ReadFile(conformance)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, okEnd := strings.Cut(rest, end)
	if !ok || !okEnd {
		return fmt.Errorf("%s has no marks", conformance)
	}
	var b strings.Builder
	b.WriteString(head + begin)
	b.WriteString("\n| kind | passed | of |\n|---|--:|--:|\n")
	for _, kind := range []string{"required", "optimal", "check"} {
		passed, of, _ := strings.Cut(must(cacheTally(list, kind, 0)), " of ")
		fmt.Fprintf(&b, "| %s | %s | %s |\n", kind, passed, of)
	}
	b.WriteString("\nRequired and optimal tests that fail:\n\n| test | kind | why |\n|---|---|---|\n")
	for _, kind := range []string{"required", "optimal"} {
		for _, t := range list {
			if t.Kind == kind && !t.passed {
				why := wontPass[t.ID]
				if why == "" {
					why = t.why
				}
				fmt.Fprintf(&b, "| `%s` | %s | %s |\n", t.ID, kind, why)
			}
		}
	}
	b.WriteString("\n" + end + tail)
	return os.WriteFile(conformance, []byte(b.String()), 0o644)
}

func must(s string, err error) string {
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return s
}
