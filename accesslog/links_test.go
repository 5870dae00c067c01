package accesslog

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A log may be a link to where there is room: what the link leads to is rotated and
// compressed there, the link stays, and so do rotated files from before it was one
// (R-LOG-1).
func TestRotationBehindALink(t *testing.T) {
	for _, way := range []string{"absolute", "relative", "of links", "to nothing yet"} {
		t.Run(way, func(t *testing.T) {
			logs, room := t.TempDir(), t.TempDir()
			behind := filepath.Join(room, "deep", "real.log")
			// logs/here is a link too, so that .. is not what it looks like.
			path, to := filepath.Join(logs, "here", "a.log"), behind
			err := errors.Join(os.Mkdir(filepath.Dir(behind), 0o755), os.Symlink(filepath.Dir(behind), filepath.Join(logs, "here")))
			switch way {
			case "relative":
				to = "../deep/real.log"
			case "of links":
				to = "next.log"
				err = errors.Join(err, os.Symlink("./real.log", filepath.Join(room, "deep", "next.log")))
			}
			if err = errors.Join(err, os.Symlink(to, path)); err != nil {
				t.Fatal(err)
			}
			if way != "to nothing yet" {
				err = os.WriteFile(behind, nil, 0o604)
			}
			if err != nil {
				t.Fatal(err)
			}
			before := rotatedThen(t, path, 1, "before\n")
			f := open(t, path, mebibyte)
			half := []byte(strings.Repeat("half of it\n", mebibyte/2/11+1))
			for range 5 {
				if _, err := f.Write(half); err != nil {
					t.Fatal(err)
				}
			}
			s := NewSink(Options{Path: path, Compress: true}, new(atomic.Uint64))
			if left, err := s.tidy(time.Now()); left || err != nil {
				t.Errorf("%v, left %v", err, left)
			}
			if now, err := os.Readlink(path); now != to || err != nil {
				t.Errorf("the link leads to %q: %v", now, err)
			}
			if is, err := os.Lstat(behind); err != nil || !is.Mode().IsRegular() || is.Size() != int64(len(half)) || way != "to nothing yet" && is.Mode() != 0o604 {
				t.Errorf("what it led to is %v: %v", is, err)
			}
			packed, err := filepath.Glob(filepath.Join(room, "deep", "real-*.log.gz"))
			if len(packed) != 4 || err != nil {
				t.Errorf("%q: %v", packed, err)
			}
			if _, err := os.Stat(before + ".gz"); err != nil {
				t.Error(err)
			}
			s.opt.KeepDays = 1
			if _, err := s.tidy(time.Now().AddDate(0, 0, 3)); err != nil {
				t.Error(err)
			}
			if left, err := filepath.Glob(filepath.Join(room, "deep", "*.gz")); len(left) != 0 || err != nil {
				t.Errorf("kept for too long: %q %v", left, err)
			}
		})
	}
}

// A link that goes round, or leads where nothing can be made, is an error and no loop; one
// that was moved to another file before a rotation leaves both as they are.
func TestLinksThatLeadNowhere(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.log")
	if err := os.Symlink("a.log", path); err != nil {
		t.Fatal(err)
	}
	if f, err := openFile(path, 0, nil); err == nil {
		f.Close()
		t.Error("a link to itself is open")
	}
	if _, err := behind(path); err == nil {
		t.Error("a link to itself has an end")
	}
	one, two := filepath.Join(dir, "one.log"), filepath.Join(dir, "two.log")
	if err := errors.Join(os.Remove(path), os.WriteFile(one, []byte("1\n"), 0o600), os.WriteFile(two, []byte("2\n"), 0o600), os.Symlink(one, path)); err != nil {
		t.Fatal(err)
	}
	f := open(t, path, mebibyte)
	if err := errors.Join(os.Remove(path), os.Symlink(two, path)); err != nil {
		t.Fatal(err)
	}
	if err := f.rotate(f.info); err != nil {
		t.Error(err)
	}
	if names, _ := contents(t, dir); len(names) != 3 || read(t, one) != "1\n" || read(t, two) != "2\n" {
		t.Errorf("%q", names)
	}
	if _, err := f.Write([]byte("next\n")); err != nil || read(t, two) != "2\nnext\n" {
		t.Errorf("%q %v", read(t, two), err)
	}
}

// Who may put a link into a directory of logs has nothing of other users rotated,
// compressed or removed; lines are written, and it is told.
func TestForeignLinkIsNotRotated(t *testing.T) {
	const other = 65534
	dir, room := t.TempDir(), t.TempDir()
	path, real := filepath.Join(dir, "a.log"), filepath.Join(room, "real.log")
	if err := errors.Join(os.WriteFile(real, nil, 0o600), os.Symlink(real, path)); err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(path, other, other); err != nil {
		t.Skip("not run: ", err)
	}
	old := rotatedThen(t, real, 9, "old\n")
	f := open(t, path, 10)
	for range 2 {
		if n, err := f.Write([]byte("a line\n")); n != 7 || err != nil && !errors.Is(err, ErrNotRotated) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if _, err := f.Write([]byte("a line\n")); !errors.Is(err, ErrNotRotated) || !strings.Contains(err.Error(), "a.log is a link of user 65534") {
		t.Error(err)
	}
	s := NewSink(Options{Path: path, KeepDays: 1, Compress: true}, new(atomic.Uint64))
	if _, err := s.tidy(time.Now()); err == nil || !strings.Contains(err.Error(), "is a link of user") {
		t.Error(err)
	}
	if names, _ := contents(t, room); len(names) != 2 || read(t, old) != "old\n" || read(t, real) != "a line\na line\na line\n" {
		t.Errorf("%q %q", names, read(t, real))
	}
	if err := os.Chown(real, other, other); err != nil { // his own
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("a line\n")); err != nil {
		t.Error(err)
	}
	if _, err := s.tidy(time.Now()); err != nil {
		t.Error(err)
	}
	if names, _ := contents(t, room); len(names) != 2 || read(t, real) != "a line\n" || !strings.HasSuffix(names[0], ".gz") {
		t.Errorf("%q", names)
	}
}
