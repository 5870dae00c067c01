package main

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Each request has a number in a field that the access log has. What is behind the
// number is known from it, so that a line of which a part is missing is found.
const (
	lineField  = "X-Soak-Line"
	lineFormat = "%L %>s %{" + lineField + "}i"
)

// lineForm is a line: request id, status, number, length, and that many letters. What
// was refused before its fields were read has neither.
var lineForm = regexp.MustCompile(`^(-|[0-9a-f]{32}) [1-5]\d\d (-|(\d+):(\d+):([a-p]*))$`)

// asked are the numbers of all requests of this process.
var asked numbers

// numbers knows which requests were answered. Any goroutine may use it.
type numbers struct {
	mu       sync.Mutex
	last     uint64
	answered []uint64 // a bit for each
}

// next is a new number.
func (a *numbers) next() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	return a.last
}

// note has a request that was answered in full: it must have a line.
func (a *numbers) note(n uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for uint64(len(a.answered)) <= n/64 {
		a.answered = append(a.answered, 0)
	}
	a.answered[n/64] |= 1 << (n % 64)
}

// lineOf is the value of lineField for a number, with some letters.
func lineOf(n uint64, letters int) string {
	return fmt.Sprintf("%d:%d:%s", n, letters, content("line"+strconv.FormatUint(n, 10), letters))
}

// lineOfSome makes lines long enough that the log is rotated every few seconds, but
// not so long that those of hours fill the disk.
func lineOfSome(n uint64) string {
	if n > 100_000 {
		return lineOf(n, rand.IntN(200))
	}
	return lineOf(n, rand.IntN(3000))
}

// An accessLog is what its files say, together.
type accessLog struct {
	files, lines int
	first        []uint64 // by number: the beginning of the id of the request that has it
	broken       []string // the first lines that are none, or that are there twice
	faults       int
}

// readLog looks through the access log, rotated files too, when all processes have
// ended.
func (s *soak) readLog() error {
	names, err := filepath.Glob(filepath.Join(s.root, "logs", "access*"))
	if err != nil {
		return err
	}
	log := &accessLog{first: make([]uint64, asked.last+1)}
	for _, name := range names {
		if err := log.read(name); err != nil {
			return fmt.Errorf("access log: %w", err)
		}
	}
	answered, missing := log.compare(asked.answered)
	fmt.Printf("access log: %d lines in %d files; %d requests were answered, %d of them have no line\n", log.lines, log.files, answered, missing)
	for _, line := range log.broken {
		s.fault(fmt.Errorf("access log: %s", line))
	}
	if log.faults > 0 || missing > 0 || answered == 0 {
		return fmt.Errorf("access log: %d broken lines, %d of %d answered requests are missing", log.faults, missing, answered)
	}
	return nil
}

// read reads a file, which may be compressed.
func (a *accessLog) read(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	a.files++
	in := bufio.NewReaderSize(r, 64<<10)
	for {
		line, err := in.ReadString('\n')
		switch {
		case err == io.EOF && line == "":
			return nil
		case err != nil && err != io.EOF:
			return fmt.Errorf("%s: %w", name, err)
		}
		a.lines++
		if text, ok := strings.CutSuffix(line, "\n"); !ok || !a.add(text) {
			if a.faults++; len(a.broken) < samplesKept {
				a.broken = append(a.broken, fmt.Sprintf("%s: broken or double: %.300q", filepath.Base(name), line))
			}
		}
	}
}

// add takes a line and reports whether it is whole and there for the first time. A
// number may come twice: clients repeat requests whose connection has ended.
func (a *accessLog) add(line string) bool {
	m := lineForm.FindStringSubmatch(line)
	if m == nil || m[2] == "-" {
		return m != nil
	}
	n, err := strconv.ParseUint(m[3], 10, 64)
	if err != nil || n >= uint64(len(a.first)) || m[2] != lineOf(n, len(m[5])) || m[1] == "-" {
		return false
	}
	id, err := strconv.ParseUint(m[1][:16], 16, 64)
	if err != nil || a.first[n] == id {
		return false
	}
	if a.first[n] == 0 {
		a.first[n] = id
	}
	return true
}

// compare counts the answered requests, and those of them that have no line.
func (a *accessLog) compare(answered []uint64) (all, missing int) {
	for i, word := range answered {
		all += bits.OnesCount64(word)
		for ; word != 0; word &= word - 1 {
			if a.first[i*64+bits.TrailingZeros64(word)] == 0 {
				missing++
			}
		}
	}
	return all, missing
}
