package pagecache

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"httpjet/store"
)

// journal remembers purges over a restart for as long as files may be there that they
// are about. Tickets of a process begin at 0, so the number of the process stands before
// them.
//
// A journal that is not there or cannot be read has forgotten what was purged: then
// nothing that older processes have stored is believed.
//
// As long as another process has the directory, purges wait in memory; open writes them
// behind those of that process.
type journal struct {
	path   string
	opened time.Time // set by open, like epoch
	epoch  uint64    // number of this process

	mu      sync.Mutex // of what follows
	waiting bool       // for open: numbers of lines are without epoch
	over    bool       // more purges wait than are remembered: everything from before is purged

	lines  []purgeLine // that hold
	before uint64      // everything stored before that is purged
	lost   bool        // all that is of another epoch is purged
	read   bool        // what older processes have stored was looked at
	broken bool        // it cannot be written: it was removed

	writer sync.Mutex // of the file: one writes it at a time
}

type purgeLine struct {
	seq    uint64
	prefix bool
	soft   bool // its entries stay, so it is not forgotten
	tag    string
}

const (
	epochShift  = 32
	maxJournal  = 64 << 20 // bytes
	maxPurges   = 4096     // that are remembered one by one
	journalHead = "httpjet purges 1\n"
)

// open reads the journal and begins an epoch. What has waited is noted. With beside,
// nothing from before is believed.
func (j *journal) open(beside bool) error {
	j.writer.Lock() // purges that come now are written behind it
	defer j.writer.Unlock()
	var old journal
	text, err := readBounded(j.path, maxJournal)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errChanged) {
		return err
	}
	if err != nil || !old.parse(text) {
		// An epoch of no other journal, so that nothing older is taken for its own.
		old = journal{lost: true, epoch: uint64(rand.Uint32N(1 << 31))}
	}
	j.mu.Lock()
	j.opened, j.epoch = time.Now(), old.epoch+1
	j.before, j.lost = old.before, old.lost || beside
	if j.over {
		j.before = j.sequence(0)
	}
	for i := range j.lines {
		j.lines[i].seq = j.sequence(j.lines[i].seq)
	}
	j.lines = append(old.lines, j.lines...)
	j.waiting = false
	j.mu.Unlock()
	return j.rewriteFile()
}

func readBounded(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = errChanged
	}
	return b, err
}

// parse reads what rewrite and add have written.
func (j *journal) parse(text []byte) bool {
	rest, ok := bytes.CutPrefix(text, []byte(journalHead))
	if !ok || len(rest) == 0 || rest[len(rest)-1] != '\n' {
		return false
	}
	for line := range bytes.Lines(rest) {
		kind, rest, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		number, quoted, _ := strings.Cut(rest, " ")
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			return false
		}
		switch kind {
		case "epoch":
			j.epoch = n
		case "lost":
			j.lost = true
		case "before":
			j.before = n
		case "tag", "prefix", "softtag", "softprefix":
			tag, err := strconv.Unquote(quoted)
			if err != nil {
				return false
			}
			base, soft := strings.CutPrefix(kind, "soft")
			j.lines = append(j.lines, purgeLine{n, base == "prefix", soft, tag})
		default:
			return false
		}
	}
	return j.epoch > 0
}

// sequence is the place of a ticket of this process in the order of all.
func (j *journal) sequence(ticket uint64) uint64 { return j.epoch<<epochShift | ticket }

func (l *purgeLine) append(b []byte) []byte {
	if l.soft {
		b = append(b, "soft"...)
	}
	kind := "tag "
	if l.prefix {
		kind = "prefix "
	}
	b = strconv.AppendUint(append(b, kind...), l.seq, 10)
	return append(strconv.AppendQuote(append(b, ' '), l.tag), '\n')
}

// rewrite writes the whole journal anew.
func (j *journal) rewrite() error {
	j.writer.Lock()
	defer j.writer.Unlock()
	return j.rewriteFile()
}

// rewriteFile is rewrite for whoever is the writer.
func (j *journal) rewriteFile() error {
	j.mu.Lock()
	b := []byte(journalHead)
	b = append(strconv.AppendUint(append(b, "epoch "...), j.epoch, 10), '\n')
	b = append(strconv.AppendUint(append(b, "before "...), j.before, 10), '\n')
	if j.lost {
		b = append(b, "lost 1\n"...)
	}
	for i := range j.lines {
		b = j.lines[i].append(b)
	}
	j.mu.Unlock()
	temp := j.path + ".new"
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(temp, j.path)
	}
	if err != nil {
		os.Remove(temp)
	}
	return err
}

// note remembers purges, which get ticket n or a later one.
func (j *journal) note(list []Purge, n store.Ticket) (text []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, p := range list {
		seq := uint64(n) + uint64(i)
		if !j.waiting {
			seq = j.sequence(seq)
		} else if len(j.lines) > maxPurges {
			j.over, j.lines = true, nil
		}
		l := purgeLine{seq, p.Prefix, p.Soft, p.Tag}
		j.lines = append(j.lines, l)
		text = l.append(text)
	}
	return text
}

// write puts what note has returned into the file, before anybody is told that the
// purges are done. If that is not possible, the file is removed: the next start then
// believes no entry.
func (j *journal) write(text []byte) error {
	j.mu.Lock()
	if j.waiting { // open writes them
		j.mu.Unlock()
		return nil
	}
	broken, many := j.broken, len(j.lines) > maxPurges
	if many { // the older half counts for everything
		half := len(j.lines) / 2
		j.before = max(j.before, j.lines[half-1].seq)
		j.lines = append([]purgeLine(nil), j.lines[half:]...)
	}
	j.mu.Unlock()
	var err error
	switch {
	case broken:
		return nil
	case many:
		err = j.rewrite()
	default:
		err = j.add(text)
	}
	if err != nil {
		j.mu.Lock()
		j.broken = true
		j.mu.Unlock()
		os.Remove(j.path)
	}
	return err
}

func (j *journal) add(b []byte) error {
	j.writer.Lock()
	defer j.writer.Unlock()
	f, err := os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close())
}

// about reports whether a purge that is remembered is about an object of a file.
func (j *journal) about(tags []string, seq uint64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if seq < j.before || j.lost && seq>>epochShift != j.epoch {
		return true
	}
	for i := range j.lines {
		l := &j.lines[i]
		if l.seq <= seq {
			continue
		}
		for _, t := range tags {
			if t == l.tag || l.prefix && strings.HasPrefix(t, l.tag) {
				return true
			}
		}
	}
	return false
}

// allRead notes that all files of older processes were looked at.
func (j *journal) allRead() {
	j.mu.Lock()
	j.read = true
	j.mu.Unlock()
	j.forget(0)
}

// forget drops purges up to a ticket: none of their entries has a file any more.
func (j *journal) forget(t store.Ticket) {
	j.mu.Lock()
	if j.waiting {
		j.mu.Unlock()
		return
	}
	last := j.sequence(uint64(t))
	kept := make([]purgeLine, 0, len(j.lines))
	for _, l := range j.lines {
		if l.soft || l.seq > last || !j.read {
			kept = append(kept, l)
		}
	}
	changed := len(kept) != len(j.lines) || j.lost && j.read || j.broken
	j.lines = kept
	if j.read {
		j.lost = false
	}
	j.mu.Unlock()
	if !changed {
		return
	}
	err := j.rewrite()
	j.mu.Lock()
	j.broken = err != nil
	j.mu.Unlock()
	if err != nil {
		os.Remove(j.path)
	}
}
