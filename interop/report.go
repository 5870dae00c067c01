package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// write puts the results of this run, and nothing else, into a Markdown file.
func (r *run) write(file string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Real programs\n\nWritten by `go run ./interop %s --write`; do not edit.\n\n", r.mode)
	fmt.Fprintf(&b, "%s, %d CPUs (%s), %s, load average %.4s at the end: %d checks, %d failed, %.0f s.\n\n", r.began.UTC().Format("2 January 2006"),
		runtime.NumCPU(), cpuModel(), kernel(), loadAverage(), len(r.results), r.failed(), time.Since(r.began).Seconds())
	fmt.Fprint(&b, "| program | version |\n|---|---|\n")
	for _, p := range r.programs {
		fmt.Fprintf(&b, "| %s | %s |\n", p[0], p[1])
	}
	section := ""
	for _, x := range r.results {
		if x.section != section {
			section = x.section
			fmt.Fprintf(&b, "\n## %s\n\n| check | result | |\n|---|---|---|\n", section)
		}
		verdict, detail := "ok", x.detail
		if x.err != nil {
			verdict, detail = "**FAIL**", x.err.Error()
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", x.name, verdict, cell(detail))
	}
	return os.WriteFile(file, []byte(b.String()), 0o644)
}

// cell makes a text fit into one table cell.
func cell(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return strings.NewReplacer("|", `\|`, "<", "&lt;").Replace(s[:min(len(s), 300)])
}

func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo") // unknown is a fair answer
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func kernel() string {
	text, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return "Linux " + strings.TrimSpace(string(text))
}

// loadAverage tells how busy the machine was: times are to be read with it.
func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg")
	return string(text)
}
