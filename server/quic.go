package server

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"httpjet/front"
	"httpjet/generation"
)

// quicSecret is the file below the server root that keys of QUIC are made of: with it
// clients of a process that has ended learn at once that their connections are gone.
const quicSecret = "run/quic.key"

// bindQUIC binds UDP beside the secure listeners that are to have HTTP/3, and makes g tell
// of it. A port that cannot be had leaves its listener without: TCP is served on.
func (s *Server) bindQUIC(g *generation.Generation, bound map[string]*front.Listener) {
	for _, l := range g.Listeners {
		fl := bound[l.Key()]
		if !g.WantsQUIC(l.Key()) {
			continue
		}
		if fl.HasQUIC() {
			s.tellQUIC(g, l, fl)
			continue
		}
		switch err := s.takeQUIC(l.Key(), fl); {
		case s.awaits(err):
			if !s.retrying {
				s.log.Info("HTTP/3 begins when the process before has ended, which has the UDP port", "listener", l.Name)
			}
			continue
		case err != nil:
			s.log.Error("no HTTP/3: its UDP port cannot be had; it is tried again at the next reload", "listener", l.Name, "err", err)
			continue
		}
		s.tellQUIC(g, l, fl)
	}
}

func (s *Server) tellQUIC(g *generation.Generation, l generation.Listener, fl *front.Listener) {
	if at, ok := fl.Addr().(*net.TCPAddr); ok {
		g.TellQUIC(l.Key(), at.Port)
	}
}

// takeQUIC gives fl the UDP socket that this process has inherited for it, as soon as
// nobody before it reads from that; if there is none, one that is bound now.
func (s *Server) takeQUIC(key string, fl *front.Listener) error {
	at, ok := fl.Addr().(*net.TCPAddr)
	udp := s.udp[key]
	if udp == nil && ok {
		var err error
		if udp, err = s.opt.Inherited.UDP(quicName+key, at); err != nil {
			return err
		}
	}
	if udp == nil {
		return fl.BindQUIC()
	}
	if len(s.opt.Inherited.Alive()) > 0 {
		if s.udp == nil {
			s.udp = map[string]*net.UDPConn{}
		}
		s.udp[key] = udp
		return errAhead
	}
	delete(s.udp, key)
	fl.AdoptQUIC(udp)
	return nil
}

// errAhead says that a process before this one still uses a UDP port.
var errAhead = errors.New("the process before uses it")

// quicFile is the UDP socket of a listener for a successor, nil if it has none.
func (s *Server) quicFile(key string, l *front.Listener) (*os.File, error) {
	if udp := s.udp[key]; udp != nil {
		return udp.File()
	}
	return l.QUICFile()
}

// dropQUIC closes the UDP sockets that were never used: all, or those of listeners that
// are gone.
func (s *Server) dropQUIC(all bool) {
	for key, udp := range s.udp {
		if all || s.listeners[key] == nil {
			udp.Close()
			delete(s.udp, key)
		}
	}
}

// serveQUIC accepts over QUIC where g wants it, and no more where it does not.
func (s *Server) serveQUIC(g *generation.Generation) {
	for _, l := range g.Listeners {
		fl := s.listeners[l.Key()]
		switch {
		case !g.WantsQUIC(l.Key()):
			if fl.HasQUIC() {
				s.log.Info("HTTP/3 ends", "listener", l.Name)
			}
			fl.StopQUIC()
		case fl.HasQUIC():
			o := front.QUIC{HandshakeTimeout: g.HTTP3.QuicHandshakeTimeout, IdleTimeout: g.HTTP3.QuicIdleTimeout, MaxStreams: g.HTTP3.QuicMaxStreams}
			o.ResetKey, o.TokenKey = s.quicKeys()
			began, err := s.front.ServeQUIC(fl, o)
			if err != nil {
				s.log.Error("no HTTP/3", "listener", l.Name, "err", err)
			} else if began {
				s.log.Info("listening for HTTP/3", "listener", l.Name, "address", fl.Addr())
			}
		}
	}
}

// quicKeys returns the keys of this server root. Where they cannot be kept, they are of
// this process.
func (s *Server) quicKeys() (reset, token [32]byte) {
	if s.quicSecret == nil {
		secret, err := keepSecret(filepath.Join(s.opt.Root, quicSecret))
		if err != nil {
			s.log.Warn("keys of QUIC cannot be kept: after a restart clients of before wait until their connections time out", "err", err)
		}
		s.quicSecret = secret
	}
	return sha256.Sum256(append([]byte("httpjet quic reset "), s.quicSecret...)), sha256.Sum256(append([]byte("httpjet quic token "), s.quicSecret...))
}

// keepSecret reads a secret of 32 bytes from a file, or makes one and writes it for the
// own user alone. The secret is good also with an error.
func keepSecret(name string) ([]byte, error) {
	secret, err := readSecret(name)
	if err == nil {
		return secret, nil
	}
	secret = make([]byte, 32)
	rand.Read(secret)
	if !errors.Is(err, fs.ErrNotExist) {
		return secret, err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return secret, err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".quic") // for the own user alone
	if err != nil {
		return secret, err
	}
	_, err = f.Write(secret)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return secret, err
}

// readSecret refuses a file that others may read.
func readSecret(name string) ([]byte, error) {
	fi, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() || fi.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s: not a file of the own user alone (chmod 600)", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	secret, err := io.ReadAll(io.LimitReader(f, 33))
	if err == nil && len(secret) != 32 {
		err = fmt.Errorf("%s: %d bytes, not 32", name, len(secret))
	}
	return secret, err
}
