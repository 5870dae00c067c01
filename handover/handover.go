// Package handover passes bound sockets from one process to the next: from the
// service manager to the server (socket activation, sd_listen_fds(3)), and from a
// server to the one that succeeds it, another version perhaps. It does not know what
// the sockets are for, accepts nothing and ends nobody but a successor that fails.
package handover

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// variable tells a process what it succeeds: a testament.
const variable = "HTTPJET_HANDOVER"

// testament is what a predecessor says of the descriptors from firstFD on: the
// connection by which the two speak, then the sockets.
type testament struct {
	Predecessor int      `json:"pid"`
	Before      []int    `json:"before"`  // processes before it that have not ended
	Sockets     []string `json:"sockets"` // names of the predecessor
}

const firstFD = 3

const readyLine = "ready\n"

// Set is the sockets that this process found bound at its start. It belongs to one
// goroutine.
type Set struct {
	sockets     []*socket
	line        *os.File // to the predecessor; nil: there is none
	predecessor int
	alive       []int // processes before this one, the predecessor too
}

type socket struct {
	file *os.File
	name string // of the predecessor; "": of the service manager
}

// Inherited takes what the environment names, and takes it out of the environment. It
// is called once, before anything is started. An error names what is wrong with it.
func Inherited() (*Set, error) {
	s := &Set{}
	if text, ok := os.LookupEnv(variable); ok {
		os.Unsetenv(variable)
		var t testament
		if err := json.Unmarshal([]byte(text), &t); err != nil || t.Predecessor != os.Getppid() || len(t.Sockets) > 4096 || len(t.Before) > 4096 {
			return s, fmt.Errorf("%s is not for this process", variable)
		}
		s.predecessor, s.line = t.Predecessor, adopted(firstFD)
		s.alive = append(t.Before, t.Predecessor)
		for i, name := range t.Sockets {
			s.sockets = append(s.sockets, &socket{adopted(firstFD + 1 + i), name})
		}
		return s, nil
	}
	pid, n := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS")
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		os.Unsetenv(name)
	}
	if n == "" || pid != strconv.Itoa(os.Getpid()) {
		return s, nil // nothing, or somebody else's
	}
	count, err := strconv.Atoi(n)
	if err != nil || count < 0 || count > 4096 {
		return s, fmt.Errorf("LISTEN_FDS %q is no number of descriptors", n)
	}
	for i := range count {
		s.sockets = append(s.sockets, &socket{file: adopted(firstFD + i)})
	}
	return s, nil
}

// adopted is a descriptor that this process was started with; its children are not.
func adopted(fd int) *os.File {
	unix.CloseOnExec(fd)
	unix.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), "inherited "+strconv.Itoa(fd))
}

// Predecessor is the process that this one succeeds, 0 for none.
func (s *Set) Predecessor() int { return s.predecessor }

// Alive returns the processes before this one that have not ended. What only one
// process can have, such as the packets of a UDP port, is theirs until then.
func (s *Set) Alive() []int {
	s.alive = slices.DeleteFunc(s.alive, ended)
	return s.alive
}

// ended reports whether a process has ended, also if nobody has asked for its status.
func ended(pid int) bool {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer unix.Close(fd)
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}

// Ready tells the predecessor that this process serves, so that it may end.
func (s *Set) Ready() error {
	if s.line == nil {
		return nil
	}
	_, err := io.WriteString(s.line, readyLine)
	return err
}

// TCP returns the listening socket that is bound to an address, or that the
// predecessor calls name; nil if there is none. The caller closes it.
func (s *Set) TCP(name, network, address string) (net.Listener, error) {
	f := s.take(name, func(f *os.File) bool { return bound(f, network, address) })
	if f == nil {
		return nil, nil
	}
	defer f.Close()
	ln, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("inherited socket for %s: %w", address, err)
	}
	return ln, nil
}

// UDP is TCP for a socket of packets, at the address of one of TCP.
func (s *Set) UDP(name string, at *net.TCPAddr) (*net.UDPConn, error) {
	f := s.take(name, func(f *os.File) bool { return boundUDP(f, at.AddrPort()) })
	if f == nil {
		return nil, nil
	}
	defer f.Close()
	c, err := net.FilePacketConn(f)
	if err != nil {
		return nil, fmt.Errorf("inherited socket for %s: %w", at, err)
	}
	udp, ok := c.(*net.UDPConn)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("inherited socket for %s is not of UDP", at)
	}
	return udp, nil
}

// take takes a socket by its name, or one of the service manager that fits.
func (s *Set) take(name string, fits func(*os.File) bool) *os.File {
	for i, k := range s.sockets {
		if k.name == "" && fits(k.file) || k.name != "" && k.name == name {
			s.sockets = append(s.sockets[:i:i], s.sockets[i+1:]...)
			return k.file
		}
	}
	return nil
}

// boundUDP reports whether a file is a UDP socket at an address.
func boundUDP(f *os.File, want netip.AddrPort) bool {
	fd := int(f.Fd())
	unix.SetNonblock(fd, true) // Fd has made it blocking
	if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_DGRAM {
		return false
	}
	at, ok := address4or6(fd)
	return ok && at.Port() == want.Port() && (at.Addr().Unmap() == want.Addr().Unmap() || at.Addr().IsUnspecified() && want.Addr().IsUnspecified())
}

// bound reports whether a file is a listening TCP socket at an address: of that family,
// or of any for network tcp, with any address for one without.
func bound(f *os.File, network, address string) bool {
	fd := int(f.Fd())
	unix.SetNonblock(fd, true) // Fd has made it blocking
	if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_STREAM {
		return false
	}
	if accepts, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || accepts == 0 {
		return false
	}
	at, ok := address4or6(fd)
	if !ok {
		return false
	}
	want, err := net.ResolveTCPAddr(network, address)
	if err != nil || want.Port != int(at.Port()) {
		return false
	}
	ip, _ := netip.AddrFromSlice(want.IP)
	ip = ip.Unmap()
	switch {
	case !ip.IsValid() || ip.IsUnspecified():
		return at.Addr().IsUnspecified() && !(network == "tcp4" && at.Addr().Is6()) && !(network == "tcp6" && at.Addr().Is4())
	default:
		return at.Addr().Unmap() == ip
	}
}

func address4or6(fd int) (netip.AddrPort, bool) {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}, false
	}
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port)), true
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port)), true
	}
	return netip.AddrPort{}, false
}

// Rest closes the sockets that nobody has taken and says what they are.
func (s *Set) Rest() (closed []string) {
	for _, k := range s.sockets {
		what := k.name
		if at, ok := address4or6(int(k.file.Fd())); ok && what == "" {
			what = at.String()
		}
		if what == "" {
			what = "descriptor " + strings.TrimPrefix(k.file.Name(), "inherited ")
		}
		closed = append(closed, what)
		k.file.Close()
	}
	s.sockets = nil
	return closed
}

// Close closes what is left and joins.
func (s *Set) Close() {
	s.Rest()
	if s.line != nil {
		s.line.Close()
	}
}

// Offer is a socket for a successor, which asks for it by its name.
type Offer struct {
	Name string
	File *os.File // stays the caller's
}

// Successor is a process that was started to take over.
type Successor struct {
	cmd  *exec.Cmd
	line *os.File
	done chan struct{}
	err  error
}

// patience is how long a successor may take until it serves.
const patience = 25 * time.Second

// Start starts command, the program and its arguments, with sockets. before are the
// processes before this one that have not ended (Set.Alive). Standard output and error
// are those of this process.
func Start(command []string, offers []Offer, before []int) (*Successor, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	near, far := os.NewFile(uintptr(pair[0]), "successor"), os.NewFile(uintptr(pair[1]), "predecessor")
	defer far.Close()
	t := testament{Predecessor: os.Getpid(), Before: before, Sockets: []string{}}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{far}
	for _, o := range offers {
		t.Sockets = append(t.Sockets, o.Name)
		cmd.ExtraFiles = append(cmd.ExtraFiles, o.File)
	}
	text, err := json.Marshal(t)
	if err != nil {
		panic("BUG: handover: " + err.Error())
	}
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); name != "WATCHDOG_PID" { // the new process is watched in place of this one
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, variable+"="+string(text))
	if err := cmd.Start(); err != nil {
		near.Close()
		return nil, err
	}
	near.SetReadDeadline(time.Now().Add(patience))
	s := &Successor{cmd: cmd, line: near, done: make(chan struct{})}
	go await(s)
	return s, nil
}

// await waits until the successor is ready, or has ended.
func await(s *Successor) {
	defer close(s.done)
	buf := make([]byte, len(readyLine))
	n, err := io.ReadFull(s.line, buf)
	if string(buf[:n]) == readyLine {
		s.line.Close()
		return // when that process ends is nobody's business here
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.cmd.Process.Kill()
	} else { // it is ending: that its exit status be known
		defer time.AfterFunc(5*time.Second, func() { s.cmd.Process.Kill() }).Stop()
	}
	end := s.cmd.Wait()
	s.line.Close()
	if s.err = fmt.Errorf("it ended before it was ready: %w", end); errors.Is(err, os.ErrDeadlineExceeded) {
		s.err = fmt.Errorf("it was not ready after %v", patience)
	}
}

// Pid is the process of the successor.
func (s *Successor) Pid() int { return s.cmd.Process.Pid }

// Done is closed when it is decided whether the successor serves; then Err says why
// it does not, nil if it does.
func (s *Successor) Done() <-chan struct{} { return s.done }

// Err is valid when Done is closed.
func (s *Successor) Err() error { return s.err }
