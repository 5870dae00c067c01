package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
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

// Ways to speak to a server.
const (
	overPlain = "plain" // HTTP/1.1
	overTLS   = "tls"   // the same over TLS
	overH2    = "h2"    // HTTP/2 over TLS
	overWS    = "ws"    // a WebSocket to an echoing server
)

// A socket is a connection of this program.
type socket struct {
	net.Conn
	tcp net.Conn // below TLS
	way string
	id  uint32 // of the last stream
	buf [2 + 64]byte
}

// open connects and makes one request: a file with an answer of one kibibyte, or
// the handshake of a WebSocket and its first message.
func open(address, path, way string) (*socket, error) {
	conn, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return nil, err
	}
	s := &socket{Conn: conn, tcp: conn, way: way}
	c := &tls.Config{InsecureSkipVerify: true, ServerName: host, NextProtos: []string{"http/1.1"}} // the server is ours
	switch way {
	case overH2:
		c.NextProtos = []string{"h2"}
		fallthrough
	case overTLS:
		s.Conn = tls.Client(conn, c)
	}
	if err := s.begin(path); err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

func (s *socket) begin(path string) error {
	s.SetDeadline(time.Now().Add(20 * time.Second))
	defer s.SetDeadline(time.Time{})
	ws := s.way == overWS
	text := request(path)
	switch {
	case ws:
		text = wsRequest(path)
	case s.way == overH2:
		return s.stream(path)
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

// stream makes a request over HTTP/2.
func (s *socket) stream(path string) error {
	var b []byte
	if s.id == 0 {
		b = append(append(b, preface...), 0, 0, 0, h2Settings, 0, 0, 0, 0, 0)
	}
	s.id += 1 + s.id&1 // 1, 3, 5 …
	// :method GET, :scheme https, :authority and :path, by HPACK without its table.
	block := append([]byte{0x82, 0x87, 0x01, byte(len(host))}, host...)
	block = append(append(block, 0x04, byte(len(path))), path...)
	b = append(b, 0, 0, byte(len(block)), h2Headers, h2Whole|h2End)
	b = append(binary.BigEndian.AppendUint32(b, s.id), block...)
	if _, err := s.Write(b); err != nil {
		return err
	}
	var body []byte
	for {
		var head [9]byte
		if _, err := io.ReadFull(s, head[:]); err != nil {
			return err
		}
		p := make([]byte, int(head[0])<<16+int(head[1])<<8+int(head[2]))
		if _, err := io.ReadFull(s, p); err != nil {
			return err
		}
		kind, flags := head[3], head[4]
		if binary.BigEndian.Uint32(head[5:]) != s.id {
			continue
		}
		if kind == h2Data {
			body = append(body, p...)
		}
		if kind != h2Data && kind != h2Headers || flags&h2End == 0 {
			continue
		}
		if !bytes.Equal(body, payload) {
			return fmt.Errorf("unexpected answer of %d bytes", len(body))
		}
		return nil
	}
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
func openAll(address, path string, n int, way string) ([]*socket, error) {
	all, errs := make([]*socket, n), make([]error, 32)
	var wait sync.WaitGroup
	for k := range errs {
		wait.Go(func() {
			for i := k; i < n && errs[k] == nil; i += len(errs) {
				all[i], errs[k] = open(address, path, way)
			}
		})
	}
	wait.Wait()
	return all, errors.Join(errs...)
}

// hold opens n connections, says so, and keeps them idle until its input ends,
// ten minutes at the most.
func hold(address, path string, n int, way string) error {
	all, err := openAll(address, path, n, way)
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
		if way == overWS {
			err = s.echo()
		} else {
			err = s.begin(path)
		}
		if err != nil {
			return fmt.Errorf("a connection had died: %v", err)
		}
		s.tcp.(*net.TCPConn).SetLinger(0)
		s.tcp.Close()
	}
	return nil
}

// messages keeps n WebSockets busy for some seconds, one message at a time on
// each.
func messages(address, path string, n, seconds int) error {
	all, err := openAll(address, path, n, overWS)
	if err != nil {
		return err
	}
	for _, o := range all {
		defer o.Close()
		o.SetDeadline(time.Now().Add(time.Duration(seconds)*time.Second + 10*time.Second))
	}
	return busy(n, seconds, func(i int) error { return all[i].echo() })
}

// busy calls f for each of n clients, again and again for some seconds, one call after the
// other, and prints the result.
func busy(n, seconds int, f func(client int) error) error {
	errs, took := make([]error, n), make([][]float64, n)
	began := time.Now()
	until := began.Add(time.Duration(seconds) * time.Second)
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() {
			for at := time.Now(); at.Before(until) && errs[i] == nil; {
				errs[i] = f(i)
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
