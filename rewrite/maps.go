package rewrite

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	maxMapFile = 16 << 20 // bytes of the file of a map
	maxMapLine = 64 << 10
)

// Map is a lookup table of rules (RewriteMap): a file, or a function. The zero Map
// finds nothing. A file that changes is read again, at most once a second.
type Map struct {
	function func(string) string
	file     string
	random   bool // a value is a list, of which one is given

	checked atomic.Int64 // Host.Now in ns
	read    atomic.Pointer[table]
	mu      sync.Mutex // held while the file is read, by one; the others use what was
}

// table is what a file held. It is immutable.
type table struct {
	stamp  stamp
	values map[string]string
}

// NewMap opens the map of location: txt:FILE, rnd:FILE or int:FUNCTION, where FUNCTION
// is toupper, tolower, escape or unescape. A relative FILE is below dir. A file that
// cannot be read now is an error with a map that reads it later.
func NewMap(location, dir string) (*Map, error) {
	kind, source, _ := strings.Cut(location, ":")
	switch kind = strings.ToLower(strings.TrimSpace(kind)); kind {
	case "int":
		f := functions[strings.ToLower(source)]
		if f == nil {
			return &Map{}, fmt.Errorf("there is no function %q", source)
		}
		return &Map{function: f}, nil
	case "txt", "rnd":
		if source == "" {
			return &Map{}, fmt.Errorf("%s: without a file", kind)
		}
		if !filepath.IsAbs(source) {
			source = filepath.Join(dir, source)
		}
		m := &Map{file: source, random: kind == "rnd"}
		t, err := readTable(source, nil)
		m.read.Store(t)
		return m, err
	}
	return &Map{}, fmt.Errorf("type %q is not honoured", kind)
}

var functions = map[string]func(string) string{
	"toupper":  strings.ToUpper,
	"tolower":  strings.ToLower,
	"escape":   func(s string) string { return string(appendEncoded(nil, s, inPath)) },
	"unescape": decode,
}

// find looks key up.
func (m *Map) find(key string, h *Host) (string, bool) {
	if m.function != nil {
		return m.function(key), true
	}
	t := m.read.Load()
	if t == nil {
		return "", false
	}
	if now := h.now().UnixNano(); now-m.checked.Load() >= int64(fresh) && m.mu.TryLock() {
		m.checked.Store(now)
		if again, err := readTable(m.file, t); err == nil { // else the last one that could be read serves
			m.read.Store(again)
			t = again
		}
		m.mu.Unlock()
	}
	s, ok := t.values[key]
	if ok && m.random {
		s = oneOf(s, h)
	}
	return s, ok
}

func oneOf(list string, h *Host) string {
	n := strings.Count(list, "|") + 1
	pick := rand.IntN
	if h.Rand != nil {
		pick = h.Rand
	}
	for range pick(n) {
		_, list, _ = strings.Cut(list, "|")
	}
	list, _, _ = strings.Cut(list, "|")
	return list
}

// readTable reads a file: a key, blanks and a value in a line, comments from #. It
// returns old if the file is still that one, and an empty table with an error.
func readTable(name string, old *table) (*table, error) {
	empty := &table{values: map[string]string{}}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return empty, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return empty, err
	case !info.Mode().IsRegular() || info.Size() > maxMapFile:
		return empty, fmt.Errorf("%s is no regular file of at most %d bytes", name, maxMapFile)
	}
	at := stampOf(info)
	if old != nil && old.stamp == at {
		return old, nil
	}
	text, err := io.ReadAll(io.LimitReader(f, maxMapFile))
	if err != nil {
		return empty, err
	}
	if time.Since(time.Unix(0, at.ctime)) < fresh {
		at = stamp{} // it may change once more within the tick of its time stamps
	}
	t := &table{stamp: at, values: map[string]string{}}
	for row := range strings.Lines(string(text)) {
		key, value := keyAndValue(row)
		if _, there := t.values[key]; key != "" && !there && len(row) <= maxMapLine {
			t.values[key] = value
		}
	}
	return t, nil
}

func keyAndValue(row string) (key, value string) {
	row = strings.TrimSpace(row)
	if row == "" || row[0] == '#' {
		return "", ""
	}
	i := strings.IndexAny(row, " \t")
	if i < 0 {
		return row, ""
	}
	value = strings.TrimSpace(row[i:])
	if i := strings.IndexAny(value, " \t"); i >= 0 {
		value = value[:i]
	}
	return row[:i], value
}
