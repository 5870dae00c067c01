package metrics

import (
	"io"
	"strconv"
	"strings"
)

// A text writes series in the text format 0.0.4. The families whose number of series
// grows with the configuration are written by it, because a registry makes objects of
// each series, checks and sorts them, which takes seconds for thousands of groups.
type text struct {
	w    io.Writer
	buf  []byte
	err  error  // of w; nothing is written behind it
	name string // of the family
	head string // HELP and TYPE, until its first series
}

// fullBuffer is when what was made goes out.
const fullBuffer = 64 << 10 // bytes

// family begins one; it is told only if series follow. help has no line break and no
// backslash.
func (t *text) family(name, kind, help string) {
	t.name, t.head = name, "# HELP "+name+" "+help+"\n# TYPE "+name+" "+kind+"\n"
}

// begin writes a series up to its value: the family's name with a suffix, and labels
// as label makes them, in the order of their names.
func (t *text) begin(suffix string, labels ...string) {
	if len(t.buf) > fullBuffer {
		t.flush()
	}
	t.buf = append(t.buf, t.head...)
	t.head = ""
	t.buf = append(append(t.buf, t.name...), suffix...)
	for i, l := range labels {
		t.buf = append(append(t.buf, "{,"[min(i, 1)]), l...)
	}
	t.buf = append(t.buf, "} "...)
}

// count writes a series whose value is a whole number.
func (t *text) count(n uint64, labels ...string) { t.part("", n, labels...) }

// part is count for one of the series that make a summary or a histogram.
func (t *text) part(suffix string, n uint64, labels ...string) {
	t.begin(suffix, labels...)
	t.buf = append(strconv.AppendUint(t.buf, n, 10), '\n')
}

// sum is the sum of a summary or a histogram, in seconds.
func (t *text) sum(seconds float64, labels ...string) {
	t.begin("_sum", labels...)
	t.buf = append(strconv.AppendFloat(t.buf, seconds, 'g', -1, 64), '\n')
}

func (t *text) flush() {
	if t.err == nil {
		_, t.err = t.w.Write(t.buf)
	}
	t.buf = t.buf[:0]
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// label is a label as it stands in a series. What is no UTF-8 would make the whole
// answer unreadable.
func label(name, value string) string {
	return name + `="` + labelEscapes.Replace(strings.ToValidUTF8(value, "\uFFFD")) + `"`
}
