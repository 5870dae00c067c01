package check

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"httpjet/exchange"
	"httpjet/generation"
	"httpjet/xmlconf"
)

const (
	ruleTestSuffix  = ".rewrite-test"
	maxRuleTestFile = 1 << 20 // bytes
	maxRuleTests    = 10000   // in all files
	maxUnmatched    = 200     // rules that are told
)

// runRuleTests runs the files *.rewrite-test below conf of a tree: what the operator
// expects of rules. Each line is a request and what becomes of it,
//
//	[METHOD] URL [| Field: value]... => [STATUS] [TARGET] [| Field: value]...
//
// where TARGET is the path and query that handlers get, or of a redirect its Location.
// Rules that none of the requests has matched are told when there are such files.
func runRuleTests(root string, g *generation.Generation, out *xmlconf.Findings) {
	rules, tests := map[string]bool{}, 0
	conf := filepath.Join(root, "conf")
	err := filepath.WalkDir(conf, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ruleTestSuffix) {
			return nil // what cannot be read is no file of tests; the tree itself is told elsewhere
		}
		text, err := readRuleTests(path)
		if rel, e := filepath.Rel(root, path); e == nil {
			path = rel // as findings name files
		}
		if err != nil {
			out.Error("E-REWRITE-TEST", xmlconf.Place{Pos: xmlconf.Pos{File: path}}, "make it a readable file of at most 1 MiB", "it cannot be read: %v", err)
			return nil
		}
		line := 0
		for row := range strings.Lines(text) {
			line++
			if row = strings.TrimSpace(row); row == "" || row[0] == '#' {
				continue
			}
			if tests++; tests > maxRuleTests {
				return fmt.Errorf("more than %d tests", maxRuleTests)
			}
			at := xmlconf.Place{Pos: xmlconf.Pos{File: path, Line: line, Column: 1}}
			if fault := runRuleTest(g, row, rules); fault != "" {
				out.Error("E-REWRITE-TEST", at, "correct the rules, or what is expected; httpjet explain tells each step", "%s: %s", row, fault)
			}
		}
		return nil
	})
	if err != nil {
		out.Error("E-REWRITE-TEST", xmlconf.Place{Pos: xmlconf.Pos{File: conf}}, "write fewer tests", "%v", err)
	}
	told := 0
	for _, place := range slices.Sorted(maps.Keys(rules)) {
		if file, line, ok := cutLast(place, ":"); ok && !rules[place] && told < maxUnmatched {
			told++
			n, _ := strconv.Atoi(line) // made of a number
			out.Info("I-REWRITE-COVERAGE", xmlconf.Place{Pos: xmlconf.Pos{File: file, Line: n, Column: 1}}, "add a request that it matches, or remove the rule", "no test has matched this rule")
		}
	}
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func readRuleTests(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("it is no regular file")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxRuleTestFile+1))
	switch {
	case err != nil:
		return "", err
	case len(text) > maxRuleTestFile || bytes.IndexByte(text, 0) >= 0:
		return "", fmt.Errorf("it is no text of at most %d bytes", maxRuleTestFile)
	}
	return string(text), nil
}

// runRuleTest runs one line, and says what is wrong; "" if nothing is.
func runRuleTest(g *generation.Generation, row string, rules map[string]bool) string {
	asks, expects, ok := strings.Cut(row, "=>")
	if !ok {
		return "a test is a request, => and what is expected"
	}
	q, err := readQuestion(asks)
	if err != nil {
		return err.Error()
	}
	d, err := decide(g, q, rules)
	if err != nil {
		return err.Error()
	}
	parts := strings.Split(expects, "|")
	words := strings.Fields(parts[0])
	if len(words) > 0 {
		if status, err := strconv.Atoi(words[0]); err == nil {
			words = words[1:]
			if d.Status != status {
				return fmt.Sprintf("the status is %d %s", d.Status, d.Reason)
			}
		}
	}
	switch {
	case len(words) > 1:
		return "a target has no blanks"
	case len(words) == 1 && d.Location != "" && d.Location != words[0]:
		return "it is redirected to " + d.Location
	case len(words) == 1 && d.Location == "" && d.target != words[0]:
		return "the target is " + d.target
	}
	for _, p := range parts[1:] {
		name, value, _ := strings.Cut(p, ":")
		if got := d.field(strings.TrimSpace(name)); got != strings.TrimSpace(value) {
			return fmt.Sprintf("field %s is %q", strings.TrimSpace(name), got)
		}
	}
	return ""
}

func readQuestion(text string) (Question, error) {
	parts := strings.Split(text, "|")
	words := strings.Fields(parts[0])
	q := Question{}
	switch len(words) {
	case 1:
		q.URL = words[0]
	case 2:
		q.Method, q.URL = words[0], words[1]
	default:
		return q, fmt.Errorf("a request is [METHOD] URL")
	}
	for _, p := range parts[1:] {
		name, value, ok := strings.Cut(p, ":")
		if !ok {
			return q, fmt.Errorf("%q is no field", strings.TrimSpace(p))
		}
		q.Fields = append(q.Fields, exchange.Field{Name: strings.TrimSpace(name), Value: strings.TrimSpace(value)})
	}
	return q, nil
}

// field is a field of the answer, as far as this server makes it.
func (d *Decision) field(name string) string {
	for _, f := range d.fields {
		if exchange.EqualName(f.Name, name) {
			return f.Value
		}
	}
	return ""
}
