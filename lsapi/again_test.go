package lsapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"httpjet/extproc"
	"httpjet/gateway"
)

// scripted is a connection that takes everything and answers with its reply, then with
// its error.
type scripted struct {
	net.Conn
	reply *bytes.Reader
	err   error
}

func (s *scripted) Write(p []byte) (int, error)      { return len(p), nil }
func (s *scripted) Close() error                     { return nil }
func (s *scripted) SetReadDeadline(time.Time) error  { return nil }
func (s *scripted) SetWriteDeadline(time.Time) error { return nil }

func (s *scripted) Read(p []byte) (int, error) {
	if s.reply.Len() == 0 {
		return 0, s.err
	}
	return s.reply.Read(p)
}

var errReset = &net.OpError{Op: "read", Net: "unix", Err: os.NewSyscallError("read", syscall.ECONNRESET)}

// R-LSAPI-3: an idempotent call that lsphp has not read is sent again, twice at most and
// after a pause. One that it may have read is not, be it that it ends cleanly.
func TestUnreadCallIsSentAgain(t *testing.T) {
	f := func(name string, call func() *extproc.Call, resets int, err error, reply, want string, wantDials int) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			dials, began := 0, time.Now()
			var counts gateway.Counts
			c := New(extproc.Target{Network: "unix", Address: "app", MaxConns: 1}, gateway.Options{Counts: &counts, Dial: func(context.Context, string, string) (net.Conn, error) {
				if dials++; dials <= resets {
					return &scripted{reply: bytes.NewReader([]byte(reply)), err: err}, nil
				}
				return &scripted{reply: bytes.NewReader(okReply()), err: io.EOF}, nil
			}})
			body, failed := fetch(c, call())
			if got := body + describe(failed); got != want || dials != wantDials {
				t.Errorf("%s: %q with %d dials, want %q with %d", name, got, dials, want, wantDials)
			}
			if paused := time.Since(began); paused != time.Duration(wantDials-1)*resetPause {
				t.Errorf("%s: paused for %v", name, paused)
			}
			if n := counts.Resets.Load(); n != uint64(wantDials-1) {
				t.Errorf("%s: %d counted", name, n)
			}
			if s := c.Stats(); s.Busy != 0 {
				t.Errorf("%s: %+v", name, s)
			}
		})
	}
	get := func() *extproc.Call { return request("GET", 0, nil) }
	ok := "ok" + describe(nil)
	f("once", get, 1, errReset, "", ok, 2)
	f("twice", get, 2, errReset, "", ok, 3)
	f("three times", get, 3, errReset, "", "502 lsapi_protocol", 3)
	f("behind a receipt", get, 1, errReset, string(packet(typeReceived, "")), "502 lsapi_protocol", 1)
	f("a clean end", get, 1, io.EOF, "", "502 lsapi_protocol", 1)
	f("POST", func() *extproc.Call { return request("POST", 3, strings.NewReader("abc")) }, 1, errReset, "", "502 lsapi_protocol", 1)
	f("PUT", func() *extproc.Call { return request("PUT", 3, strings.NewReader("abc")) }, 1, errReset, "", ok, 2)
	f("not to be sent again", func() *extproc.Call {
		c := get()
		c.NoReplay = true
		return c
	}, 1, errReset, "", "502 lsapi_protocol", 1)
}

// R-LSAPI-3: an lsphp that restarts is waited for, if nobody else could have the call;
// one that stays away is not waited for by each call anew.
func TestRefusedDialsAreTriedAgain(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	missing := &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.ENOENT)}
	f := func(name string, alone bool, initTimeout time.Duration, err error, back time.Duration, want string, after time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			c := New(extproc.Target{Network: "unix", Address: "app", MaxConns: 1, InitTimeout: initTimeout}, gateway.Options{Dial: func(context.Context, string, string) (net.Conn, error) {
				if time.Since(began) < back {
					return nil, err
				}
				return &scripted{reply: bytes.NewReader(okReply()), err: io.EOF}, nil
			}})
			get := func() (string, time.Duration) {
				began := time.Now()
				call := request("GET", 0, nil)
				call.Alone = alone
				body, err := fetch(c, call)
				if _, dial := errors.AsType[*extproc.DialError](err); err != nil && !dial {
					t.Errorf("%s: %v", name, err)
				}
				return body + describe(err), time.Since(began)
			}
			got, took := get()
			if got != want || took < after || took > after+refusedEvery {
				t.Errorf("%s: %q after %v, want %q after %v", name, got, took, want, after)
			}
			if strings.HasPrefix(want, "ok") || after < refusedFor {
				return
			}
			if got, took := get(); got != want || took != 0 {
				t.Errorf("%s, once more: %q after %v", name, got, took)
			}
			time.Sleep(back)
			if got, _ := get(); !strings.HasPrefix(got, "ok") {
				t.Errorf("%s, then: %q", name, got)
			}
		})
	}
	ok, gone := "ok"+describe(nil), "503 lsapi_unavailable"
	f("back at once", true, time.Minute, refused, time.Millisecond, ok, refusedEvery)
	f("back later", true, time.Minute, missing, 20*time.Second, ok, 20*time.Second)
	f("stays away", true, time.Minute, refused, time.Hour, gone, refusedFor)
	f("initTimeout", true, 3*time.Second, refused, time.Hour, gone, 3*time.Second)
	f("another peer", false, time.Minute, refused, time.Hour, gone, 0)
	f("another fault", true, time.Minute, &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.EACCES)}, time.Hour, gone, 0)
}
