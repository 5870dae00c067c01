package server

import (
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// inUse returns the goroutines and descriptors of the process.
func inUse(t *testing.T) (goroutines, files int) {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("descriptors cannot be counted here: ", err)
	}
	return runtime.NumGoroutine(), len(list)
}

// G48: 200 reloads do not multiply probes, goroutines or descriptors.
func TestG48ReloadsDoNotMultiplyProbes(t *testing.T) {
	var asked atomic.Int64
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked.Add(1) }))
	defer backend.Close()
	root := treeOf(t, `<extProcessor><type>proxy</type><name>app</name><address>`+backend.Listener.Addr().String()+`</address>
		<healthCheck><mode>GET</mode><interval>1</interval><timeout>1</timeout><rise>1</rise></healthCheck></extProcessor>
		<context><type>proxy</type><uri>/app/</uri><handler>app</handler></context>`)
	began := time.Now()
	r := run(t, root)
	r.log.await(t, "from=cold to=up")
	goroutines, files := inUse(t)
	for range 200 {
		if line := r.reload(t); !strings.Contains(line, "published") {
			t.Fatal(line)
		}
	}
	n, took := asked.Load(), time.Since(began)
	if most := int64(took/time.Second) + 2; n > most {
		t.Errorf("%d probes in %v, want at most %d", n, took, most)
	}
	deadline := time.Now().Add(patience)
	for asked.Load() < n+2 { // it goes on
		if time.Now().After(deadline) {
			t.Fatal("no more probes")
		}
		<-time.After(10 * time.Millisecond)
	}
	const slack = 8 // a probe in flight, its backend's connection
	for {
		g, f := inUse(t)
		if g <= goroutines+slack && f <= files+slack {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines and %d descriptors, at first %d and %d", g, f, goroutines, files)
		}
		<-time.After(10 * time.Millisecond)
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}
