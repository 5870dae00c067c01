package apps

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// What a server and a keeper say to each other: lines of JSON on a Unix socket, one
// connection for each application that a server wants. The connection is the server's
// claim: it lasts as long as the connection does.

// protocolVersion changes with what the lines mean. A keeper outlives the program that
// it was started by, so both sides compare.
const protocolVersion = 1

// Bounds of the lines, and of the waits for one.
const (
	maxLength = 1 << 20
	askTime   = 10 * time.Second
)

// wish is what a server says: first one with Want, Renew or Yield, then at most one with
// Drop.
type wish struct {
	Version int
	Want    *Options `json:",omitempty"` // the application to keep
	Over    []int    `json:",omitempty"` // processes whose sockets it may take the names of
	Renew   bool     `json:",omitempty"` // have new processes in the place of all there are
	Yield   bool     `json:",omitempty"` // end, for a keeper that is a service of its own
	Drop    bool     `json:",omitempty"` // the claim ends for good, not with its server
}

// told is what a keeper says.
type told struct {
	Refused string    `json:",omitempty"` // why there is no more; the connection ends
	Info    *Info     `json:",omitempty"` // of the application, at each change
	Again   time.Time `json:",omitzero"`  // the next start of one that has failed
	Before  []int     `json:",omitempty"` // processes of the one before, while that serves
	Line    *line     `json:",omitempty"` // for the server's log
	Number  int       `json:",omitempty"` // of applications that are renewed
}

// line is a record of the log.
type line struct {
	Level slog.Level
	Text  string
	Attrs []string // key, value, key, …
}

// Names in the directory of a keeper: the lock, with its process number as text, the
// socket, and what it says while no server listens.
const (
	lockName    = "applications.lock"
	keeperName  = "applications.sock"
	journalName = "applications.log"
)

// errNoKeeper says that nobody keeps applications for a directory.
var errNoKeeper = errors.New("no process keeps applications")

// dialKeeper connects to the keeper of a directory. One that another user runs is
// refused: it would be told what applications are started with.
func dialKeeper(dir string) (nc *net.UnixConn, pid int, err error) {
	path := filepath.Join(dir, keeperName)
	c, err := net.DialTimeout("unix", path, askTime)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) {
		return nil, 0, errNoKeeper
	}
	if err != nil {
		return nil, 0, fmt.Errorf("the keeper of applications cannot be reached: %w", err)
	}
	nc = c.(*net.UnixConn)
	who, err := credentials(nc)
	if err == nil && !trusted(who) {
		err = fmt.Errorf("%s is of process %d of user %d, which is neither root nor the server's own: remove it", path, who.Pid, who.Uid)
	}
	if err != nil {
		nc.Close()
		return nil, 0, err
	}
	return nc, int(who.Pid), nil
}

// trusted reports whether the other side is root or the own user.
func trusted(who *unix.Ucred) bool { return who.Uid == 0 || int(who.Uid) == os.Geteuid() }

// say writes one line, within askTime.
func say(nc *net.UnixConn, what any) error {
	b, err := json.Marshal(what)
	if err != nil {
		panic("BUG: a line is plain data: " + err.Error())
	}
	nc.SetWriteDeadline(time.Now().Add(askTime))
	_, err = nc.Write(append(b, '\n'))
	return err
}

// hear reads one line.
func hear(br *bufio.Reader, into any) error {
	var b []byte
	for {
		part, err := br.ReadSlice('\n')
		if len(b)+len(part) > maxLength {
			return errors.New("a line is too long")
		}
		b = append(b, part...)
		if err == nil {
			return json.Unmarshal(b, into)
		}
		if err != bufio.ErrBufferFull {
			return err
		}
	}
}

// plain reports whether o passes through JSON as it is.
func (o *Options) plain() bool {
	for _, s := range []string{o.Scope, o.Name, o.Socket, o.Command, o.Env} {
		if !utf8.ValidString(s) {
			return false
		}
	}
	return true
}
