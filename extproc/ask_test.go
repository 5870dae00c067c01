package extproc

import (
	"bytes"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"httpjet/rawio"
)

// A kept connection whose socket takes nothing at the moment gets the request when
// it does: EAGAIN says that it is a timeout, but no deadline has passed.
func TestRequestWaitsForAFullSocket(t *testing.T) {
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s")) // whose buffers do not grow
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ours, err := net.Dial("unix", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	ours.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	for chunk := make([]byte, 1); err == nil; { // to the last byte
		_, err = ours.Write(chunk)
	}
	ours.SetWriteDeadline(time.Now().Add(time.Minute))
	c := newH1conn(ours, ours)
	c.setReadBy(time.Now().Add(time.Minute))
	c.ask = []byte("GET / HTTP/1.1\r\n\r\n")
	b := make([]byte, 16)
	m := rawio.Memory{Take: func() []byte { return b }}
	_, err = c.raw.Ask(c.ask, m)
	full, ok := err.(*rawio.AskError)
	if !ok || full.Sent != 0 {
		t.Fatalf("the socket is not full: %v", err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		defer theirs.Close()
		var last []byte
		buf := make([]byte, 64<<10)
		for !bytes.HasSuffix(last, []byte("\r\n\r\n")) {
			n, err := theirs.Read(buf)
			if err != nil {
				return
			}
			last = append(last, buf[:n]...)
			last = last[max(0, len(last)-4):]
		}
		io.WriteString(theirs, "answer")
	}()
	n, err := c.askLess(c.ask, full, m)
	if err != nil || string(b[:n]) != "answer" {
		t.Errorf("%q, %v", b[:n], err)
	}
	ours.Close()
	<-served
}
