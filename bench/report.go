package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// A spread is the median of some values, the least and the most of them.
type spread struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

func spreadOf(v []float64) spread {
	if len(v) == 0 {
		return spread{}
	}
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	return spread{(v[(n-1)/2] + v[n/2]) / 2, v[0], v[n-1]}
}

func (s spread) String() string {
	if s.Median == 0 {
		return "–"
	}
	return fmt.Sprintf("%s [%s–%s]", short(s.Median), short(s.Least), short(s.Most))
}

// short is a number with three digits that count.
func short(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// A row is the result of one server in one scenario.
type row struct {
	Scenario  string  `json:"scenario"`
	Cores     string  `json:"cores"`
	Server    string  `json:"server"`
	Unit      string  `json:"unit"`
	Rounds    int     `json:"rounds"`
	Disturbed int     `json:"disturbed"` // rounds of which no sample was quiet
	Value     spread  `json:"value"`
	Rate      spread  `json:"rate"` // units of work a second
	P99       spread  `json:"p99_ms"`
	Ratio     spread  `json:"httpjet_to_it"` // of each round's two values
	Limit     float64 `json:"limit,omitempty"`
}

// rows sums up the samples that count.
func (b *bench) rows(s scenario, cores string) []row {
	used := map[string]map[int]sample{} // by server and round
	for _, x := range b.samples {
		if x.Used && x.Scenario == s.name && x.Cores == cores {
			if used[x.Server] == nil {
				used[x.Server] = map[int]sample{}
			}
			used[x.Server][x.Round] = x
		}
	}
	var all []row
	for _, e := range s.entries {
		r := row{Scenario: s.name, Cores: cores, Server: e.label, Unit: s.unit}
		var value, rate, p99, ratio []float64
		for round, x := range used[e.label] {
			value, p99 = append(value, x.Value), append(p99, x.P99)
			if x.Seconds > 0 {
				rate = append(rate, float64(x.Work)/x.Seconds)
			}
			if ours, ok := used["httpjet"][round]; ok && e.label != "httpjet" && x.Value > 0 {
				ratio = append(ratio, ours.Value/x.Value)
			}
			if x.Disturbed {
				r.Disturbed++
			}
		}
		r.Rounds = len(value)
		r.Value, r.Rate, r.P99, r.Ratio = spreadOf(value), spreadOf(rate), spreadOf(p99), spreadOf(ratio)
		for _, l := range s.limits {
			if l.against == e.label || l.against == "" && e.label == "httpjet" {
				r.Limit = l.most
			}
		}
		if r.Rounds > 0 {
			all = append(all, r)
		}
	}
	return all
}

// verdict compares a ratio, or httpjet's own value, with its limit.
func (r row) verdict() string {
	if r.Limit == 0 {
		return ""
	}
	v := r.Ratio.Median
	if r.Server == "httpjet" {
		v = r.Value.Median
	}
	if v <= r.Limit {
		return fmt.Sprintf("≤ %.2f met", r.Limit)
	}
	return fmt.Sprintf("≤ %.2f MISSED", r.Limit)
}

// table is all rows as Markdown that is aligned for terminals too.
func table(rows []row) string {
	lines := [][]string{{"scenario", "cores", "server", "unit", "value", "a second", "p99 ms", "httpjet ÷ it", "limit"}}
	disturbed := 0
	for _, r := range rows {
		rate := "–"
		if r.Rate.Median > 0 && r.Unit == perGiB {
			rate = short(r.Rate.Median/gib) + " GiB"
		} else if r.Rate.Median > 0 {
			rate = short(r.Rate.Median)
		}
		lines = append(lines, []string{r.Scenario, r.Cores, r.Server, r.Unit, r.Value.String(), rate, r.P99.String(), r.Ratio.String(), r.verdict()})
		disturbed += r.Disturbed
	}
	width := make([]int, len(lines[0]))
	for _, l := range lines {
		for i, cell := range l {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var out strings.Builder
	for n, l := range lines {
		for i, cell := range l {
			out.WriteString("| " + cell + strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell)+1))
		}
		out.WriteString("|\n")
		if n == 0 {
			for _, w := range width {
				out.WriteString("|" + strings.Repeat("-", w+2))
			}
			out.WriteString("|\n")
		}
	}
	if disturbed > 0 {
		fmt.Fprintf(&out, "\n%d samples that count were disturbed by foreign CPU in every try: not fit to be published.\n", disturbed)
	}
	return out.String()
}

// headline says what a table is of.
func (b *bench) headline() string {
	m, p := machine(), b.programs()
	return fmt.Sprintf("%s, %d rounds of %d s: httpjet %s (%s), nginx %s, HAProxy %s, Caddy %s; %s CPUs (%s), Linux %s.",
		b.began.UTC().Format("2 January 2006"), b.rounds, b.seconds, b.commit, p["go"],
		p["nginx"], p["haproxy"], p["caddy"], m["cpus"], m["model"], m["linux"])
}

// document shows the table of the last full run, between two marks.
const (
	document   = "docs/performance.md"
	tableBegin = "<!-- table: written by go run ./bench -save -->\n"
	tableEnd   = "<!-- end of table -->\n"
)

// publish puts a table into a document, if no sample that counts was disturbed.
func publish(file, said string, rows []row) error {
	for _, r := range rows {
		if r.Disturbed > 0 {
			fmt.Fprintln(os.Stderr, file, "is left alone: the machine was not quiet")
			return nil
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	head, rest, begins := strings.Cut(string(text), tableBegin)
	_, tail, ends := strings.Cut(rest, tableEnd)
	if !begins || !ends {
		return fmt.Errorf("%s: the marks of the table are missing", file)
	}
	return os.WriteFile(file, []byte(head+tableBegin+said+tableEnd+tail), 0o644)
}

// A report is what -save keeps of a scenario.
type report struct {
	Date     time.Time         `json:"date"`
	Command  []string          `json:"command"`
	Machine  map[string]string `json:"machine"`
	Programs map[string]string `json:"programs"`
	Settings map[string]any    `json:"settings"`
	Rows     []row             `json:"rows"`
	Samples  []sample          `json:"samples"`
}

// save writes a scenario's report to bench/results. It never replaces a file.
func (b *bench) save(s scenario, rows []row) error {
	r := report{
		Date: b.began.UTC().Truncate(time.Second), Command: append([]string{"bench"}, os.Args[1:]...),
		Machine: machine(), Programs: b.programs(), Rows: rows,
		Settings: map[string]any{
			"rounds": b.rounds, "seconds": b.seconds, "connections": b.connections, "gib": b.gib, "idle": b.idle,
			"relays": b.relays, "settle": b.settle.String(), "foreign": b.threshold, "repeats": b.repeats, "patience": b.patience.String(),
		},
	}
	for _, x := range b.samples {
		if x.Scenario == s.name {
			r.Samples = append(r.Samples, x)
		}
	}
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	const dir = "bench/results"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	stem := filepath.Join(dir, r.Date.Format(time.DateOnly)+"-"+s.name)
	name := stem + ".json"
	for n := 2; ; n++ {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if os.IsExist(err) {
			name = fmt.Sprintf("%s-%d.json", stem, n)
			continue
		}
		if err != nil {
			return err
		}
		_, err = f.Write(append(text, '\n'))
		if closed := f.Close(); err == nil {
			err = closed
		}
		fmt.Fprintln(os.Stderr, "saved", name)
		return err
	}
}
