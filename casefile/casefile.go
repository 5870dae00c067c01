// Package casefile runs the transcripts that tests are written in: files of
// commands and of what each of them said. It is for tests only.
//
// A case is one or more lines of input, a line of four dashes, and the output up
// to an empty line. Lines that begin with # between cases are comments:
//
//	# the first is preferred
//	reserve
//	----
//	peer 0 (active 1)
//
// With -update the outputs are rewritten; the difference is reviewed like code.
package casefile

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the outputs of case files")

// Run runs each file that matches the pattern as a subtest. start is called once
// for a file and returns what answers its inputs, in their order.
func Run(t *testing.T, pattern string, start func(t *testing.T) func(input string) string) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no case file matches %s: %v", pattern, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := replay(t, file, string(text), start(t))
			if *update && got != string(text) {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// replay answers the inputs of text and returns it with the outputs it got.
func replay(t *testing.T, file, text string, answer func(input string) string) string {
	var out strings.Builder
	lines := strings.SplitAfter(text, "\n")
	for i := 0; i < len(lines); {
		if lines[i] == "\n" || lines[i] == "" || lines[i][0] == '#' {
			out.WriteString(lines[i])
			i++
			continue
		}
		first := i + 1
		var input strings.Builder
		for ; i < len(lines) && lines[i] != "----\n"; i++ {
			input.WriteString(lines[i])
		}
		if i == len(lines) {
			t.Fatalf("%s:%d: a case without ----", file, first)
		}
		var want strings.Builder
		for i++; i < len(lines) && lines[i] != "\n" && lines[i] != ""; i++ {
			want.WriteString(lines[i])
		}
		got := answer(strings.TrimSuffix(input.String(), "\n"))
		if got != "" && !strings.HasSuffix(got, "\n") {
			got += "\n"
		}
		if got != want.String() && !*update {
			t.Errorf("%s:%d: %sgot\n%swant\n%s", file, first, input.String(), got, want.String())
		}
		out.WriteString(input.String() + "----\n" + got)
	}
	return out.String()
}
