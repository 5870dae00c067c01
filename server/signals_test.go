package server

import (
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// heldLog blocks at the first line that holds a text until it is released.
type heldLog struct {
	text    string
	reached chan struct{}
	release chan struct{}
	lines   chan string
}

func (l *heldLog) Write(p []byte) (int, error) {
	l.lines <- string(p)
	if strings.Contains(string(p), l.text) {
		close(l.reached)
		<-l.release
	}
	return len(p), nil
}

// R-RELOAD-8: reloads that are asked for while one is under way become one, and
// however many they are the signal that stops the server is not lost.
func TestSignalsDuringReload(t *testing.T) {
	seen := make(chan os.Signal, 100)
	signal.Notify(seen, syscall.SIGHUP, syscall.SIGTERM)
	defer signal.Stop(seen)
	send := func(sig syscall.Signal) {
		t.Helper()
		if err := syscall.Kill(os.Getpid(), sig); err != nil {
			t.Fatal(err)
		}
		select {
		case <-seen: // the server has it too: one pass hands a signal to all
		case <-time.After(patience):
			t.Fatal("the signal does not arrive")
		}
	}
	// The number of the next generation depends on the tests before.
	log := &heldLog{text: "reload refused", reached: make(chan struct{}), release: make(chan struct{}), lines: make(chan string, 1000)}
	root := treeOf(t, "")
	ready, done := make(chan map[string]string, 1), make(chan error, 1)
	go func() {
		done <- Run(t.Context(), Options{Root: root, HTTPAddr: "127.0.0.1:0", Stderr: log, Ready: func(a map[string]string) { ready <- a }})
	}()
	select {
	case <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	good, err := os.ReadFile(root + "/conf/httpd_config.xml")
	if err != nil {
		t.Fatal(err)
	}
	put(t, root, "conf/httpd_config.xml", "<broken")
	send(syscall.SIGHUP)
	select {
	case <-log.reached:
	case <-time.After(patience):
		t.Fatal("no reload")
	}
	put(t, root, "conf/httpd_config.xml", string(good))
	for range 20 {
		send(syscall.SIGHUP)
	}
	send(syscall.SIGTERM)
	close(log.release)
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		syscall.Kill(os.Getpid(), syscall.SIGTERM)
		<-done
		t.Fatal("the signal that stops the server was lost")
	}
	close(log.lines)
	published := 0
	for line := range log.lines {
		if strings.Contains(line, "INFO published") {
			published++
		}
	}
	if published > 2 { // the first generation, and at most one more
		t.Errorf("20 requests for a reload led to %d reloads", published-1)
	}
}
