package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A result is what a client of this program prints when it has ended.
type result struct {
	Work    int64   // messages or bytes
	Seconds float64 // from the first to the last of them
	P99     float64 // milliseconds
}

func (r result) print() error { return json.NewEncoder(os.Stdout).Encode(r) }

// request is a request of a client of this program.
func request(path string, fields ...string) []byte {
	return []byte("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + strings.Join(append(fields, "\r\n"), "\r\n"))
}

// wsRequest opens a WebSocket. Every key is as good as another for a server that
// keeps no state; the answer to it is checked.
func wsRequest(path string) []byte {
	return request(path, "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: "+wsKey)
}

const wsKey = "AAECAwQFBgcICQoLDA0ODw=="

// fetch gets path n times in turn and throws the bodies away in the kernel, so
// that the client costs as little as it can.
func fetch(address, path string, n int) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// A stalled server ends the run.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 30}); err != nil {
		return err
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}); err != nil {
		return err
	}
	buf := make([]byte, 1<<20)
	began := time.Now()
	for range n {
		if _, err := unix.Write(fd, request(path)); err != nil {
			return err
		}
		if err := discard(fd, buf); err != nil {
			return err
		}
	}
	return result{Work: int64(n) * gib, Seconds: time.Since(began).Seconds()}.print()
}

// discard reads one answer of a GiB.
func discard(fd int, buf []byte) error {
	have := 0
	for !bytes.Contains(buf[:have], []byte("\r\n\r\n")) {
		n, err := unix.Read(fd, buf[have:])
		if err != nil || n == 0 {
			return fmt.Errorf("no answer: %v", err)
		}
		have += n
	}
	head := bytes.Index(buf[:have], []byte("\r\n\r\n")) + 4
	if !bytes.HasPrefix(buf, []byte("HTTP/1.1 200 ")) || field(buf[:head], "content-length") != strconv.Itoa(gib) {
		return fmt.Errorf("unexpected answer %q", buf[:head])
	}
	for left := gib - (have - head); left > 0; {
		n, _, err := unix.Recvfrom(fd, buf[:min(left, len(buf))], unix.MSG_TRUNC)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n == 0 {
			return fmt.Errorf("cut %d bytes before the end: %v", left, err)
		}
		left -= n
	}
	return nil
}

// message is what goes through a WebSocket, and frame it as a client sends it.
var (
	message = []byte(strings.Repeat("websocket message ", 4)[:64])
	frame   = maskedFrame(message)
)

func maskedFrame(data []byte) []byte {
	key := [4]byte{0x12, 0x34, 0x56, 0x78}
	b := append([]byte{0x82, 0x80 | byte(len(data))}, key[:]...)
	for i, c := range data {
		b = append(b, c^key[i&3])
	}
	return b
}

// A socket is a WebSocket to an echoing server.
type socket struct {
	net.Conn
	buf [2 + 64]byte
}

// open connects and makes one request: a file with an answer of one kibibyte, or
// the handshake of a WebSocket and its first message.
func open(address, path string, ws bool) (*socket, error) {
	conn, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return nil, err
	}
	s := &socket{Conn: conn}
	if err := s.begin(path, ws); err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

func (s *socket) begin(path string, ws bool) error {
	s.SetDeadline(time.Now().Add(20 * time.Second))
	defer s.SetDeadline(time.Time{})
	text := request(path)
	if ws {
		text = wsRequest(path)
	}
	if _, err := s.Write(text); err != nil {
		return err
	}
	in := bufio.NewReaderSize(s, 4<<10)
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return err
	}
	switch {
	case ws && (resp.StatusCode != 101 || resp.Header.Get("Sec-WebSocket-Accept") != acceptKey(wsKey)):
		return fmt.Errorf("no WebSocket: %s", resp.Status)
	case ws && in.Buffered() > 0:
		return errors.New("bytes after the handshake")
	case ws:
		return s.echo()
	}
	body, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != 200 || !bytes.Equal(body, payload)) {
		err = fmt.Errorf("unexpected answer %s", resp.Status)
	}
	return err
}

// echo sends one message and waits until it is back.
func (s *socket) echo() error {
	if _, err := s.Write(frame); err != nil {
		return err
	}
	if _, err := io.ReadFull(s, s.buf[:]); err != nil {
		return err
	}
	if s.buf[0] != 0x82 || s.buf[1] != 64 || !bytes.Equal(s.buf[2:], message) {
		return fmt.Errorf("unexpected frame %q", s.buf)
	}
	return nil
}

// openAll opens n connections, 32 at a time.
func openAll(address, path string, n int, ws bool) ([]*socket, error) {
	all, errs := make([]*socket, n), make([]error, 32)
	var wait sync.WaitGroup
	for k := range errs {
		wait.Go(func() {
			for i := k; i < n && errs[k] == nil; i += len(errs) {
				all[i], errs[k] = open(address, path, ws)
			}
		})
	}
	wait.Wait()
	return all, errors.Join(errs...)
}

// hold opens n connections, says so, and keeps them idle until its input ends,
// ten minutes at the most.
func hold(address, path string, n int, ws bool) error {
	all, err := openAll(address, path, n, ws)
	if err != nil {
		return err
	}
	if err := (result{Work: int64(n)}).print(); err != nil {
		return err
	}
	timeout := time.AfterFunc(10*time.Minute, func() { os.Exit(1) })
	defer timeout.Stop()
	io.Copy(io.Discard, os.Stdin) // ends with the input
	// Each must be as alive as it was; reset, they leave no port behind.
	for _, s := range all {
		if ws {
			err = s.echo()
		} else {
			err = s.begin(path, false)
		}
		if err != nil {
			return fmt.Errorf("a connection had died: %v", err)
		}
		s.Conn.(*net.TCPConn).SetLinger(0)
		s.Close()
	}
	return nil
}

// messages keeps n WebSockets busy for some seconds, one message at a time on
// each.
func messages(address, path string, n, seconds int) error {
	all, err := openAll(address, path, n, true)
	if err != nil {
		return err
	}
	errs, took := make([]error, n), make([][]float64, n)
	began := time.Now()
	until := began.Add(time.Duration(seconds) * time.Second)
	var wait sync.WaitGroup
	for i, s := range all {
		wait.Go(func() {
			defer s.Close()
			s.SetDeadline(until.Add(10 * time.Second))
			for at := time.Now(); at.Before(until) && errs[i] == nil; {
				errs[i] = s.echo()
				now := time.Now()
				took[i] = append(took[i], now.Sub(at).Seconds()*1e3)
				at = now
			}
		})
	}
	wait.Wait()
	r := result{Seconds: time.Since(began).Seconds()}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	every := slices.Concat(took...)
	slices.Sort(every)
	r.Work = int64(len(every))
	r.P99 = every[len(every)*99/100]
	return r.print()
}
