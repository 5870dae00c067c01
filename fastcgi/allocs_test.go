package fastcgi

import (
	"bytes"
	"context"
	"io"
	"runtime/debug"
	"slices"
	"testing"
)

// TestAllocations pins what a call without a body costs on a kept connection: the
// conversation and the text of the head.
func TestAllocations(t *testing.T) {
	info, ok := debug.ReadBuildInfo()
	if ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector makes pools forget")
	}
	end := appendHeader(nil, header{typ: typeStdin})
	reply := replyBytes(t, okReply)
	c := newClient(t, rawApp(t, func(_ int, p *peer) {
		buf, n := make([]byte, 4<<10), 0
		for {
			m, err := p.Read(buf[n:])
			if err != nil {
				return
			}
			if n += m; bytes.HasSuffix(buf[:n], end) {
				p.Write(reply)
				n = 0
			}
		}
	}), Options{})
	call, body := get(), make([]byte, 1<<10)
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
	if got := testing.AllocsPerRun(200, trip); got > 2 {
		t.Errorf("%v allocations per call, want at most 2", got)
	}
}
