package apps

import (
	"os"
	"testing"
	"time"
)

// A changed application serves when it is ready, and the one before until then; a
// request that the one before has is finished there.
func TestReplacedWithoutAGap(t *testing.T) {
	r := newRig(t, "serve")
	old := r.start()
	busy, err := dial(t, old)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := question(t, busy)

	r.opt.Env = r.env("slow")
	next := r.start()
	old.Retire()
	await(t, next, "not starting", in(Starting))
	if pid, mode := ask(t, next); pid != first || mode != "serve" {
		t.Errorf("while the next one starts, %d %s serves", pid, mode)
	}
	os.WriteFile(r.file, nil, 0o600)
	await(t, next, "not ready", in(Ready))
	if _, mode := ask(t, next); mode != "slow" {
		t.Errorf("then %s serves", mode)
	}
	if pid, _ := question(t, busy); pid != first {
		t.Error("the request in flight was cut")
	}
	busy.Close()
	await(t, old, "not ended", in(Ended))
	gone(t, first)
	ask(t, next) // the name of the socket is that of the next
}

// One that does not come up replaces nothing.
func TestAFailedSuccessorReplacesNothing(t *testing.T) {
	r := newRig(t, "serve")
	old := r.start()
	first, _ := ask(t, old)
	r.opt.Env = r.env("exit")
	bad := r.start()
	old.Retire()
	await(t, bad, "has not failed", in(Failed))
	if pid, _ := ask(t, bad); pid != first {
		t.Error("another process")
	}
	// The reload after it brings the same one as at first, or any that works.
	r.opt.Env = r.env("stubborn")
	good := r.start()
	bad.Retire()
	await(t, good, "not ready", in(Ready))
	if _, mode := ask(t, good); mode != "stubborn" {
		t.Error(mode)
	}
	await(t, old, "not ended", in(Ended))
	await(t, bad, "not ended", in(Ended))
}

func TestReloadDuringTheStart(t *testing.T) {
	r := newRig(t, "mute")
	old := r.start()
	await(t, old, "not starting", func(i Info) bool { return len(i.PIDs) == 1 })
	pid := old.Info().PIDs[0]
	r.opt.Env = r.env("serve")
	next := r.start()
	old.Retire()
	if _, mode := ask(t, next); mode != "serve" {
		t.Error(mode)
	}
	await(t, old, "not ended", in(Ended))
	gone(t, pid)
}

func TestServerEndsDuringTheStart(t *testing.T) {
	r := newRig(t, "mute")
	a := r.start()
	i := await(t, a, "not starting", func(i Info) bool { return len(i.PIDs) == 1 })
	began := time.Now()
	r.sup.Close()
	gone(t, i.PIDs[0])
	if a.Info().State != Ended {
		t.Errorf("%+v after %s", a.Info(), time.Since(began))
	}
}

func TestGoneApplicationLeavesNothing(t *testing.T) {
	r := newRig(t, "serve")
	a := r.start()
	pid, _ := ask(t, a)
	a.Retire()
	a.Retire()
	await(t, a, "not ended", in(Ended))
	gone(t, pid)
	if _, err := os.Lstat(r.opt.Socket); err == nil {
		t.Error("its socket is there")
	}
	r.sup.Close()
	if n := len(r.sup.List()); n != 0 {
		t.Errorf("%d in the list", n)
	}
}

// What ignores SIGTERM is killed.
func TestStubbornApplication(t *testing.T) {
	r := newRig(t, "stubborn")
	a := r.start()
	pid, _ := ask(t, a)
	r.sup.Close()
	gone(t, pid)
}

func TestUsedAfterClose(t *testing.T) {
	r := newRig(t, "serve")
	r.sup.Close()
	a := r.start()
	if s := a.Info(); len(s.PIDs) != 0 {
		t.Errorf("%+v", s)
	}
	a.Retire()
}
