package apps

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// orderVariable holds what a launcher is to become. It is not in the arguments,
// which every user of the machine may read.
const orderVariable = "HTTPJET_APPLICATION"

// exitNotFound is the status of a launcher that found no program, as a shell's.
const exitNotFound, exitRefused = 127, 126

// order is what the launcher does before it becomes the application.
type order struct {
	Command  []string
	Limits   Limits
	Identity Identity
	Parent   int // the server: the application ends with it
}

func orderOf(o Options) order {
	return order{Command: strings.Split(o.Command, "\x00"), Limits: o.Limits, Identity: o.Identity, Parent: os.Getpid()}
}

// String is the order as a variable.
func (o order) String() string {
	b, err := json.Marshal(o)
	if err != nil {
		panic("BUG: an order is plain data: " + err.Error())
	}
	return orderVariable + "=" + string(b)
}

// Enter makes this process the application that the server ordered: limits, then
// identity, then the program. It returns the exit status only if that fails, which
// it has told on standard error. It is the launcher's whole work and may end any
// other process that calls it.
func Enter() int {
	text, ok := os.LookupEnv(orderVariable)
	var o order
	if !ok || json.Unmarshal([]byte(text), &o) != nil || len(o.Command) == 0 {
		fmt.Fprintln(os.Stderr, "the server starts applications by this command; it is of no other use")
		return exitRefused
	}
	runtime.LockOSThread() // some of it is the thread's, and the thread becomes the program
	if err := o.prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitRefused
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, orderVariable+"=") })
	err := o.limitMemory() // the last step: from here on there may be no room for anything else
	if err == nil {
		err = syscall.Exec(o.Command[0], o.Command, env)
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", o.Command[0], err)
	if errors.Is(err, syscall.ENOENT) {
		return exitNotFound
	}
	return exitRefused
}

func (o *order) prepare() error {
	l := &o.Limits
	if l.SetUmask {
		syscall.Umask(l.Umask)
	}
	if l.SetNice {
		if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, l.Nice); err != nil {
			return fmt.Errorf("priority %d: %w", l.Nice, err)
		}
	}
	if err := limit(unix.RLIMIT_NPROC, l.ProcSoft, l.ProcHard); err != nil {
		return fmt.Errorf("limit of processes: %w", err)
	}
	if err := limit(unix.RLIMIT_CPU, l.CPUSoft, l.CPUHard); err != nil {
		return fmt.Errorf("limit of CPU time: %w", err)
	}
	if id := o.Identity; id.Set {
		// Groups first: without root nothing of this may be changed any more.
		if err := syscall.Setgroups([]int{id.GID}); err != nil {
			return fmt.Errorf("supplementary groups: %w", err)
		}
		if err := syscall.Setresgid(id.GID, id.GID, id.GID); err != nil {
			return fmt.Errorf("group %d: %w", id.GID, err)
		}
		if err := syscall.Setresuid(id.UID, id.UID, id.UID); err != nil {
			return fmt.Errorf("user %d: %w", id.UID, err)
		}
	}
	// A server that is killed takes its applications along. The signal is set
	// behind the change of identity, which clears it.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGTERM), 0, 0, 0); err != nil {
		return fmt.Errorf("signal of the server's end: %w", err)
	}
	if os.Getppid() != o.Parent {
		return errors.New("the server has ended")
	}
	return nil
}

func (o *order) limitMemory() error {
	return limit(unix.RLIMIT_AS, o.Limits.MemSoft, o.Limits.MemHard)
}

// limit sets a limit; a zero leaves that half as it is.
func limit(what int, soft, hard uint64) error {
	if soft == 0 && hard == 0 {
		return nil
	}
	var r unix.Rlimit
	if err := unix.Getrlimit(what, &r); err != nil {
		return err
	}
	if hard != 0 {
		r.Max = hard
	}
	if soft != 0 {
		r.Cur = soft
	}
	r.Cur = min(r.Cur, r.Max)
	return unix.Setrlimit(what, &r)
}
