package apps

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// KeeperOptions describe the process that applications outlive the server in.
type KeeperOptions struct {
	Dir      string   // of its lock and socket; made if it is not there
	Launcher []string // as that of a Supervisor
	Log      *slog.Logger

	// Linger is how long an application goes on that no server wants: longer than a
	// restart of the server takes. 0: a minute.
	Linger time.Duration
	// UntilUnused ends the keeper once nobody has wanted anything for as long, and when
	// one without it begins, which takes its place.
	UntilUnused bool
	// Ready is called when servers can come; nil: nobody asks.
	Ready func()
}

const (
	lingerTime = time.Minute
	lockTime   = 5 * time.Second // for a keeper that is about to end
	yieldTime  = time.Minute     // for one that has to end all its applications first
	maxClaims  = 4096            // connections at once
)

// keeper holds applications that outlive servers, for all servers of one root, of which
// an upgrade has two. An application belongs to whoever claims it by its whole options;
// one that nobody claims any more ends after Linger, or at once if the last claim was
// given up.
type keeper struct {
	o    KeeperOptions
	sup  Supervisor
	wake chan struct{} // room for one: look again at what may end

	mu      sync.Mutex
	apps    map[Options]*keptApp
	conns   map[*net.UnixConn]bool
	unused  time.Time // since when nobody has wanted anything
	yields  bool      // another keeper takes the place
	running sync.WaitGroup
}

// keptApp is one application with the claims to it. Its fields are guarded by the
// keeper's mu.
type keptApp struct {
	k       *keeper
	app     *App
	swapped chan struct{} // closed when app is another one
	claims  map[*claimant]bool
	orphan  time.Time // since when nobody claims it

	listeners atomic.Pointer[[]*claimant] // of claims; needs no lock
}

// claimant is one connection of a server.
type claimant struct {
	nc    *net.UnixConn
	lines chan *line // for its log; what finds no room is lost
}

// Keep keeps applications for the servers of one root until ctx is done, or until
// nobody needs it. It returns when all of them have ended. Its error says why it did
// not begin.
func Keep(ctx context.Context, o KeeperOptions) error {
	if o.Linger <= 0 {
		o.Linger = lingerTime
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return err
	}
	lock, err := lockKeeper(ctx, o.Dir, !o.UntilUnused)
	if err != nil {
		return err
	}
	defer lock.Close()
	path := filepath.Join(o.Dir, keeperName)
	if err := free(path); err != nil { // with the lock nobody of ours can be there
		return err
	}
	os.Remove(path)
	ln, err := listenKeeper(path)
	if err != nil {
		return err
	}
	k := &keeper{o: o, wake: make(chan struct{}, 1), apps: map[Options]*keptApp{}, conns: map[*net.UnixConn]bool{}, unused: time.Now()}
	k.sup = Supervisor{Log: o.Log, Launcher: o.Launcher}
	k.running.Add(1)
	go k.accept(ln)
	if o.Ready != nil {
		o.Ready()
	}
	k.watch(ctx)
	ln.Close() // and removes its name
	k.mu.Lock()
	for nc := range k.conns {
		nc.Close()
	}
	k.conns = nil
	k.mu.Unlock()
	k.running.Wait()
	k.sup.Close()
	return nil
}

// lockKeeper takes the lock of a directory and writes the process number into it. A
// keeper that ends is waited for; take asks one that a server has started to end.
func lockKeeper(ctx context.Context, dir string, take bool) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	most := lockTime
	if take {
		most = yieldTime
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for n := 0; ; n++ {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			break
		}
		if ctx.Err() != nil || !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			var who [20]byte
			n, _ := f.ReadAt(who[:], 0)
			f.Close()
			return nil, fmt.Errorf("process %s keeps the applications of %s already", strings.TrimSpace(string(who[:n])), dir)
		}
		if take && n%50 == 0 && yieldKeeper(dir) == errStays {
			cancel() // it is a service of its own too
		}
		sleep(ctx, 20*time.Millisecond)
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = fmt.Fprintln(f, os.Getpid())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// errStays says that a keeper does not give way.
var errStays = errors.New("it is no keeper that a server has started")

// yieldKeeper asks the keeper of a directory to end.
func yieldKeeper(dir string) error {
	t, err := askKeeper(dir, wish{Version: protocolVersion, Yield: true})
	if err == nil && t.Refused != "" {
		err = errStays
	}
	return err
}

// askKeeper asks the keeper of a directory something that has one answer.
func askKeeper(dir string, q wish) (t told, err error) {
	nc, _, err := dialKeeper(dir)
	if err != nil {
		return t, err
	}
	defer nc.Close()
	if err = say(nc, q); err == nil {
		nc.SetReadDeadline(time.Now().Add(askTime))
		err = hear(bufio.NewReader(nc), &t)
	}
	return t, err
}

// listenKeeper opens the socket, which only root and the own user may use.
func listenKeeper(path string) (*net.UnixListener, error) {
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		ln.Close()
		return nil, err
	}
	return ln, nil
}

// accept takes connections until the socket is closed.
func (k *keeper) accept(ln *net.UnixListener) {
	defer k.running.Done()
	for {
		nc, err := ln.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, most of all
			sleep(context.Background(), backlogWait)
			continue
		}
		k.mu.Lock()
		fits := k.conns != nil && len(k.conns) < maxClaims
		if fits {
			k.conns[nc] = true
			k.running.Add(1)
		}
		k.mu.Unlock()
		if !fits {
			nc.Close()
			continue
		}
		go k.serve(nc)
	}
}

// watch ends what nobody has wanted for long enough, until ctx is done or the keeper
// itself is not needed.
func (k *keeper) watch(ctx context.Context) {
	for {
		next, needed := k.sweep(time.Now())
		if !needed {
			k.o.Log.Info("this keeper of applications is not needed any more: it ends")
			return
		}
		t := time.NewTimer(next)
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-k.wake:
			t.Stop()
		case <-t.C:
		}
	}
}

// sweep ends what is an orphan for too long. It returns when to come again, and whether
// the keeper is needed.
func (k *keeper) sweep(now time.Time) (next time.Duration, needed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	next = time.Hour
	for _, ka := range k.apps {
		if len(ka.claims) > 0 {
			continue
		}
		left := k.o.Linger - now.Sub(ka.orphan)
		if left <= 0 {
			k.o.Log.Info("application ends: no server wants it", "app", ka.app.opt.Name)
			k.end(ka)
			continue
		}
		next = min(next, left)
	}
	if k.yields {
		return 0, false
	}
	if !k.o.UntilUnused || len(k.apps) > 0 || len(k.conns) > 0 {
		return next, true
	}
	left := k.o.Linger - now.Sub(k.unused)
	return min(next, max(left, 0)), left > 0
}

// end retires an application; the caller holds mu.
func (k *keeper) end(ka *keptApp) {
	delete(k.apps, ka.app.opt)
	k.unused = time.Now()
	ka.app.Retire()
}

// serve is one connection of a server.
func (k *keeper) serve(nc *net.UnixConn) {
	defer k.leave(nc)
	who, err := credentials(nc)
	if err != nil || !trusted(who) {
		return // the mode of the socket lets nobody else in; and says nothing
	}
	br := bufio.NewReader(nc)
	var q wish
	nc.SetReadDeadline(time.Now().Add(askTime))
	if err := hear(br, &q); err != nil {
		return
	}
	switch {
	case q.Version != protocolVersion:
		say(nc, told{Refused: fmt.Sprintf("it speaks version %d of the protocol, the other side %d: end it, and the next one starts by itself", protocolVersion, q.Version)})
	case q.Yield && !k.o.UntilUnused:
		say(nc, told{Refused: errStays.Error()})
	case q.Yield:
		say(nc, told{})
		k.mu.Lock()
		k.yields = true
		k.mu.Unlock()
	case q.Renew:
		say(nc, told{Number: k.renew()})
	case q.Want == nil || !filepath.IsAbs(q.Want.Socket) || !filepath.IsAbs(q.Want.program()):
		say(nc, told{Refused: "no application is named"})
	default:
		nc.SetReadDeadline(time.Time{})
		c := &claimant{nc: nc, lines: make(chan *line, 64)}
		ka := k.claim(*q.Want, q.Over, c)
		over, gone := make(chan struct{}), make(chan struct{})
		go ka.tell(c, over, gone)
		var last wish
		err := hear(br, &last) // that it wants no more, or nothing at the end of the server
		close(over)
		nc.Close()
		<-gone
		k.release(ka, c, err == nil && last.Drop)
	}
}

// leave ends a connection.
func (k *keeper) leave(nc *net.UnixConn) {
	nc.Close()
	k.mu.Lock()
	delete(k.conns, nc)
	k.unused = time.Now()
	k.mu.Unlock()
	k.look()
	k.running.Done()
}

// look has watch look again.
func (k *keeper) look() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// claim finds or starts the application of o for c. Another one at its socket that
// nobody claims, for its options have changed while there was no server, ends behind
// it.
func (k *keeper) claim(o Options, over []int, c *claimant) *keptApp {
	k.mu.Lock()
	defer k.mu.Unlock()
	o = New(o).opt // with its defaults, as all are known by
	ka := k.apps[o]
	if ka == nil {
		ka = &keptApp{k: k, swapped: make(chan struct{}), claims: map[*claimant]bool{}}
		ka.app = k.start(ka, o, over)
		k.apps[o] = ka
	}
	ka.claims[c] = true
	ka.list()
	for _, other := range k.apps {
		if other != ka && other.app.opt.Socket == o.Socket && len(other.claims) == 0 {
			k.end(other)
		}
	}
	return ka
}

// start starts an application of o; the caller holds mu.
func (k *keeper) start(ka *keptApp, o Options, over []int) *App {
	a := New(o)
	a.shared, a.over, a.log = true, over, slog.New(relay{ka: ka, next: k.o.Log.Handler()})
	k.sup.Start(a)
	return a
}

// release ends the claim of c. dropped: it was given up, and not lost with its server.
func (k *keeper) release(ka *keptApp, c *claimant, dropped bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(ka.claims, c)
	ka.list()
	if len(ka.claims) > 0 || k.apps[ka.app.opt] != ka {
		return
	}
	ka.orphan = time.Now()
	if dropped || k.sup.successor(ka.app) != nil {
		k.end(ka)
	}
}

// renew has a new application in the place of each, which serves until that is ready.
func (k *keeper) renew() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, ka := range k.apps {
		old := ka.app
		ka.app = k.start(ka, old.opt, nil)
		old.Retire()
		close(ka.swapped)
		ka.swapped = make(chan struct{})
	}
	return len(k.apps)
}

// tell tells c of the application until over is closed: what it does, at each change,
// and what it says.
func (ka *keptApp) tell(c *claimant, over <-chan struct{}, gone chan<- struct{}) {
	defer close(gone)
	for {
		ka.k.mu.Lock()
		newest, swapped := ka.app, ka.swapped
		ka.k.mu.Unlock()
		next, again := newest.changes()
		i := newest.Info()
		t := told{Info: &i, Again: again}
		var changed <-chan struct{} // of the one before, while that serves
		if a := serving(newest); a != nil && a != newest {
			changed, _ = a.changes()
			t.Before = a.Info().PIDs
		}
		err := say(c.nc, t)
		for wait := true; err == nil && wait; {
			select {
			case l := <-c.lines:
				err = say(c.nc, told{Line: l})
			case <-changed:
				wait = false
			case <-next:
				wait = false
			case <-swapped:
				wait = false
			case <-over:
				return
			}
		}
		if err != nil {
			c.nc.Close() // serve hears of it
			<-over
			return
		}
	}
}

// list has the lines of the application go to who claims it; the caller holds mu.
func (ka *keptApp) list() {
	l := slices.Collect(maps.Keys(ka.claims))
	ka.listeners.Store(&l)
}

// relay is the log of one application: its lines go to the servers that claim it, and
// to the keeper's own log while there is none.
type relay struct {
	ka    *keptApp
	next  slog.Handler
	attrs []slog.Attr
}

// Enabled implements slog.Handler.
func (r relay) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

// Handle implements slog.Handler.
func (r relay) Handle(ctx context.Context, rec slog.Record) error {
	l := r.ka.listeners.Load()
	if l == nil || len(*l) == 0 {
		return r.next.WithAttrs(r.attrs).Handle(ctx, rec)
	}
	said := &line{Level: rec.Level, Text: rec.Message}
	add := func(a slog.Attr) bool {
		said.Attrs = append(said.Attrs, a.Key, a.Value.String())
		return true
	}
	for _, a := range r.attrs {
		add(a)
	}
	rec.Attrs(add)
	for _, c := range *l {
		select {
		case c.lines <- said:
		default:
		}
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (r relay) WithAttrs(attrs []slog.Attr) slog.Handler {
	r.attrs = append(slices.Clip(r.attrs), attrs...)
	return r
}

// WithGroup implements slog.Handler; nothing here groups.
func (r relay) WithGroup(string) slog.Handler { return r }

// readyWord is what a keeper in the background says when servers can come.
const readyWord = "ready"

// SayReady says on a keeper's standard output, which Detach reads, that servers can
// come.
func SayReady() { fmt.Println(readyWord) }

// Detach starts command, which is to Keep and call SayReady, in a session of its own
// and returns when servers can come. What it writes to standard error goes to a file in
// dir. It is the whole work of a process that ends then, so that the keeper is no child
// of a server.
func Detach(command []string, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	journal, err := os.OpenFile(filepath.Join(dir, journalName), os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	defer journal.Close()
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Stderr, cmd.SysProcAttr = "/", journal, &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	said, err := bufio.NewReader(io.LimitReader(out, 4096)).ReadString('\n')
	if strings.TrimSpace(said) == readyWord {
		return cmd.Process.Release()
	}
	if err != nil {
		cmd.Wait()
	}
	return errors.New(strings.TrimSpace(said))
}

// Renew has the keeper of a directory start new processes in the place of all that it
// keeps, without a gap. It returns how many applications those are.
func Renew(dir string) (int, error) {
	t, err := askKeeper(dir, wish{Version: protocolVersion, Renew: true})
	if err == nil && t.Refused != "" {
		err = errors.New(t.Refused)
	}
	return t.Number, err
}
