package peers

import (
	"io"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A mortal dies with its connections, idle ones too, and is back at its address.
func TestMortal(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		m := &Mortal{Network: network, Serve: func(l net.Listener) {
			http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "alive") }))
		}}
		if network == "unix" {
			m.Address = filepath.Join(t.TempDir(), "m.sock")
		}
		address := ""
		for round := range 3 {
			if err := m.Up(); err != nil {
				t.Fatal(err)
			}
			if address == "" {
				address = m.Address
			}
			idle, err := net.Dial(network, address)
			if err != nil {
				t.Fatalf("%s, round %d: %v", network, round, err)
			}
			io.WriteString(idle, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			idle.SetDeadline(time.Now().Add(time.Minute))
			if n, err := idle.Read(make([]byte, 15)); n == 0 {
				t.Fatalf("%s, round %d: %v", network, round, err)
			}
			if m.Ailing(time.Now(), 0) {
				t.Errorf("%s, round %d: ails when it is up", network, round)
			}
			m.Down()
			m.Down()
			if _, err := io.Copy(io.Discard, idle); err != nil {
				if e, ok := err.(net.Error); ok && e.Timeout() {
					t.Errorf("%s, round %d: a connection has outlived it", network, round)
				}
			}
			idle.Close()
			if c, err := net.Dial(network, address); err == nil {
				c.Close()
				t.Errorf("%s, round %d: accepts when it is dead", network, round)
			}
			if !m.Ailing(time.Now(), time.Hour) {
				t.Errorf("%s, round %d: does not ail when it is down", network, round)
			}
		}
	}
}

// No address is one of those that were given before.
func TestFreePort(t *testing.T) {
	var given []string
	for range 20 {
		at, err := FreePort(given...)
		if err != nil {
			t.Fatal(err)
		}
		for _, was := range given {
			if at == was {
				t.Fatalf("%s twice", at)
			}
		}
		given = append(given, at)
	}
}
