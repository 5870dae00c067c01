package main

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What has become of a log by mistake is found: lines without an end or a middle, lines
// that are there twice, and none for a request.
func TestAccessLog(t *testing.T) {
	const id, other = "0123456789abcdef0123456789abcdef ", "1123456789abcdef0123456789abcdef "
	one, two := id+"200 "+lineOf(1, 300)+"\n", id+"503 "+lineOf(2, 0)+"\n"
	for _, c := range []struct {
		text            string
		faults, missing int
	}{
		{one + two, 0, 0},
		{one + two + "- 400 -\n" + id + "408 -\n", 0, 0},
		{one + two + other + "200 " + lineOf(1, 300) + "\n", 0, 0}, // the client has repeated it
		{one, 0, 1},
		{"", 0, 2},
		{one + two + one, 1, 0},
		{one[:100] + two, 1, 2},
		{one[100:] + two, 1, 1},
		{one[:60] + one[70:] + two, 1, 1},
		{one + two[:40], 1, 1},
		{one + two + id + "200 " + lineOf(9, 3) + "\n", 1, 0},
		{strings.Replace(one, "300:", "299:", 1) + two, 1, 1},
		{one + two + "\n", 1, 0},
	} {
		name := filepath.Join(t.TempDir(), "access.log.gz")
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		z := gzip.NewWriter(f)
		z.Write([]byte(c.text))
		z.Close()
		f.Close()
		a := &accessLog{first: make([]uint64, 3)}
		if err := a.read(name); err != nil {
			t.Fatal(err)
		}
		if all, missing := a.compare([]uint64{1<<1 | 1<<2}); all != 2 || a.faults != c.faults || missing != c.missing {
			t.Errorf("%.200q: %d broken, %d of %d missing; want %d, %d", c.text, a.faults, missing, all, c.faults, c.missing)
		}
	}
}
