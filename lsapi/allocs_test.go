package lsapi

import (
	"context"
	"io"
	"net"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"httpjet/extproc"
	"httpjet/gateway"
)

// TestAllocations pins what a call without a body costs on a kept connection: the
// conversation and the text of the head.
func TestAllocations(t *testing.T) {
	info, ok := debug.ReadBuildInfo()
	if ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector makes pools forget")
	}
	cn := &again{reply: okReply()}
	c := New(extproc.Target{MaxConns: 1, KeepAlive: time.Hour, Network: "unix", Address: "app"}, gateway.Options{
		Dial: func(context.Context, string, string) (net.Conn, error) { return cn, nil },
	})
	call, body := request("GET", 0, nil, "HTTP_HOST=a", "HTTP_X_FOO=b", "REMOTE_ADDR=::1"), make([]byte, 1<<10)
	trip := func() {
		r, err := c.Do(context.Background(), call)
		if err != nil {
			t.Fatal(err)
		}
		for err == nil {
			_, err = r.Body.Read(body)
		}
		if err != io.EOF || r.Close() != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		trip()
	}
	if got := testing.AllocsPerRun(200, trip); got > 3 {
		t.Errorf("%v allocations per call, want at most 3", got)
	}
}

// again is a connection that answers every write.
type again struct {
	scriptConn
	reply []byte
}

func (c *again) Write(p []byte) (int, error) {
	c.pieces = append(c.pieces[:0], c.reply)
	return len(p), nil
}
