package server

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"syscall"
	"time"

	"httpjet/control"
	"httpjet/handover"

	"github.com/coreos/go-systemd/v22/daemon"
)

// UpgradeAnswer is the answer to POST /v1/upgrade.
type UpgradeAnswer struct {
	Process int `json:"pid"` // that serves now
}

// adminName is what the management listener's socket is called in a handover, and
// quicName stands before the key of the listener whose UDP port a socket is.
const (
	adminName = "management"
	quicName  = "quic "
)

// upgrade starts the program of this process anew, with the sockets that are bound.
// This process serves on until the other one is ready, and then ends like at SIGTERM,
// without waiting for load balancers: nobody is refused. If the other one does not
// become ready, nothing has happened.
func (s *Server) upgrade() (*handover.Successor, error) {
	switch {
	case s.successor != nil:
		return nil, errors.New("an upgrade is under way")
	case len(s.opt.Command) == 0:
		return nil, errors.New("this server does not know by what command it was started")
	}
	var offers []handover.Offer
	defer func() {
		for _, o := range offers {
			o.File.Close()
		}
	}()
	for key, l := range s.listeners {
		f, err := l.File()
		if err != nil {
			return nil, err
		}
		offers = append(offers, handover.Offer{Name: key, File: f})
		if f, err = s.quicFile(key, l); err != nil {
			return nil, err
		}
		if f != nil {
			offers = append(offers, handover.Offer{Name: quicName + key, File: f})
		}
	}
	if s.admin.address != nil {
		f, err := s.admin.address.File()
		if err != nil {
			return nil, err
		}
		offers = append(offers, handover.Offer{Name: adminName, File: f})
	}
	next, err := handover.Start(s.opt.Command, offers, s.opt.Inherited.Alive())
	if err != nil {
		return nil, err
	}
	s.log.Info("upgrade begins", "program", s.opt.Command[0], "pid", next.Pid(), "sockets", len(offers))
	s.successor = next
	return next, nil
}

// upgradeBySignal is upgrade where only the log hears of it.
func (s *Server) upgradeBySignal() {
	if _, err := s.upgrade(); err != nil {
		s.log.Error("no upgrade", "err", err)
	}
}

// succeeded is closed when it is decided what has become of an upgrade.
func (s *Server) succeeded() <-chan struct{} {
	if s.successor == nil {
		return nil
	}
	return s.successor.Done()
}

// succeed reports whether the successor serves, so that this process is to end.
func (s *Server) succeed() bool {
	next := s.successor
	if err := next.Err(); err != nil {
		s.successor = nil
		s.log.Error("no upgrade: this process serves on", "err", err)
		s.keepControl() // the other one may have taken the paths
		s.keepSocket()
		return false
	}
	s.log.Info("upgraded: the other process serves, this one ends", "pid", next.Pid())
	daemon.SdNotify(false, fmt.Sprintf("MAINPID=%d", next.Pid()))
	return true
}

// upgradeByOrder is POST /v1/upgrade: it answers when the other process is ready or
// has failed.
func (s *Server) upgradeByOrder(w http.ResponseWriter, r *http.Request) {
	var in struct{}
	var next *handover.Successor
	err := control.Read(r, &in)
	if err == nil {
		var refused error
		if err = s.ask(r.Context(), func() { next, refused = s.upgrade() }); err == nil {
			err = refused
		}
	}
	if err != nil {
		control.Answer(w, nil, err)
		return
	}
	<-next.Done()
	control.Answer(w, UpgradeAnswer{next.Pid()}, next.Err())
}

// UDP ports are handed over, but used only when the processes before this one have
// ended: until then the packets are theirs. One that is bound anew then, because it was
// not handed over, is tried for as long as a drain may last (gracefulShutdownTimeout),
// and a little more.
const (
	takeOverPeriod = time.Second
	takeOverTime   = time.Hour + time.Minute
)

// awaits reports whether a process before this one may still have what this one cannot
// get, and notes that something is missing.
func (s *Server) awaits(err error) bool {
	if !errors.Is(err, errAhead) && (!errors.Is(err, syscall.EADDRINUSE) ||
		s.opt.Inherited.Predecessor() == 0 || time.Since(s.started) > takeOverTime) {
		return false
	}
	s.missing = true
	return true
}

// takeOver tries again what is missing. It says nothing of what is missing still.
func (s *Server) takeOver() {
	s.missing, s.retrying = false, true
	g := s.current.Load().Generation
	s.bindQUIC(g, s.listeners)
	s.serveQUIC(g)
	s.retrying = false
}

// alive is how often the service manager is told that the server lives, 0 for never
// (WatchdogSec=). The goroutine of Run tells it, so that one that hangs is noticed.
func alive() time.Duration {
	d, err := daemon.SdWatchdogEnabled(false)
	if err != nil || os.Getenv("NOTIFY_SOCKET") == "" {
		return 0
	}
	return d / 2
}
