package tlsconf

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"sync"
	"time"
)

// TicketLifetime is how long tickets are given out under one key where nothing else
// is said (sslSessionTicketLifetime).
const TicketLifetime = time.Hour

// ticketFileKey is the size of a key in a file of ticket keys, as other servers have
// it.
const ticketFileKey = 48

// maxTicketKeys bounds the keys of a file.
const maxTicketKeys = 64

// TicketOptions are the whole identity of ticket keys.
type TicketOptions struct {
	// Lifetime of a key: it makes tickets for so long, and takes them for as long again.
	// 0: TicketLifetime.
	Lifetime time.Duration
	Keys     string // of a file, in hex: the first makes tickets, all take them; "": random ones, which change
}

// LoadTicketKeys reads a file of 48-byte keys for TicketOptions.Keys. Servers that
// share it take one another's tickets.
func LoadTicketKeys(name string, seen func(name string, data []byte)) (string, error) {
	data, err := readFile(name)
	if seen != nil {
		seen(name, data)
	}
	if err != nil {
		return "", fmt.Errorf("ticket keys %v", err)
	}
	if len(data) == 0 || len(data)%ticketFileKey != 0 || len(data) > maxTicketKeys*ticketFileKey {
		return "", fmt.Errorf("ticket keys %s: %d bytes, not 1 to %d keys of %d bytes", name, len(data), maxTicketKeys, ticketFileKey)
	}
	keys := make([]byte, 0, len(data))
	for ; len(data) > 0; data = data[ticketFileKey:] {
		key := sha256.Sum256(data[:ticketFileKey]) // crypto/tls has 32 bytes for it
		keys = append(keys, key[:]...)
	}
	return hex.EncodeToString(keys), nil
}

// Tickets makes and takes the session tickets of TLS. It outlives generations and
// is shared by all listeners, so that a client resumes its session after a reload, and
// over HTTP/3 what it began over TCP. A ticket is good for the server name that it was
// made for only. Safe for many goroutines.
type Tickets struct {
	life  time.Duration
	fixed bool

	mu   sync.Mutex // guards next and keys; held for no I/O
	next time.Time  // when the keys change
	keys [][32]byte // the first makes tickets
	ring *tls.Config
}

// NewTickets returns tickets by o.
func NewTickets(o TicketOptions) *Tickets {
	t := &Tickets{life: o.Lifetime, ring: &tls.Config{}}
	if t.life <= 0 {
		t.life = TicketLifetime
	}
	for raw, _ := hex.DecodeString(o.Keys); len(raw) >= 32; raw = raw[32:] {
		t.keys, t.fixed = append(t.keys, [32]byte(raw)), true
	}
	if t.fixed {
		t.ring.SetSessionTicketKeys(t.keys)
	}
	return t
}

// Retire is for keep.Map: nothing has to be given back.
func (t *Tickets) Retire() {}

// rotate makes a new key when the one in use has had its time. The one before
// takes its tickets for as long again; a pause longer than that ends both.
func (t *Tickets) rotate(now time.Time) {
	if t.fixed {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Before(t.next) {
		return
	}
	var key [32]byte
	rand.Read(key[:])
	kept := [][32]byte{key}
	if len(t.keys) > 0 && now.Before(t.next.Add(t.life)) {
		kept = append(kept, t.keys[0])
	}
	t.keys, t.next = kept, now.Add(t.life)
	t.ring.SetSessionTicketKeys(kept)
}

// apply makes c use t; nil: crypto/tls has keys of its own.
func (t *Tickets) apply(c *tls.Config) {
	if t == nil {
		return
	}
	c.WrapSession = func(cs tls.ConnectionState, ss *tls.SessionState) ([]byte, error) {
		t.rotate(time.Now())
		ss.Extra = append(ss.Extra, []byte(ticketName+cs.ServerName))
		return t.ring.EncryptTicket(cs, ss)
	}
	c.UnwrapSession = func(identity []byte, cs tls.ConnectionState) (*tls.SessionState, error) {
		t.rotate(time.Now())
		ss, err := t.ring.DecryptTicket(identity, cs)
		if ss == nil || err != nil {
			return nil, err
		}
		for _, extra := range ss.Extra {
			if string(extra) == ticketName+cs.ServerName {
				return ss, nil
			}
		}
		return nil, nil // of another name: a full handshake shows the right certificate
	}
}

// ticketName marks the server name among what is kept with a session.
const ticketName = "httpjet name "
