package front

import (
	"errors"
	"sync"
)

// Sizes of TLS records (RFC 8446 §5.2, RFC 5246 §6.2.3).
const (
	recordHead = 5
	recordMost = recordHead + 16384 + 2048 // with the expansion that TLS 1.2 allows
)

// recordBufs holds memory for ciphertext that has come. Two records have room.
var recordBufs = sync.Pool{New: func() any { return new([2 * recordMost]byte) }}

// records stands between a TLS connection and its socket once the connection speaks
// HTTP/2. Bytes reach TLS record by record, so that nothing is left in its own buffers: what
// has come and what has not is known here, and the wait for more holds no
// plaintext buffer. What TLS writes is gathered, and goes out by the connection's
// own writer.
//
// It stands there from the first byte of the handshake on: what TLS has taken
// ahead could not be taken back. Reads belong to one goroutine.
type records struct {
	s    *sock
	in   *[2 * recordMost]byte // nil: nothing has come
	r, w int
	left int  // bytes of the first record that TLS has not taken, once it has begun
	lazy bool // read only what is there: see errNoRecord

	take func() []byte // of ReadLazy, made once
	give func()

	mu     sync.Mutex
	gather bool // keep what TLS writes in out
	out    []byte
}

// errNoRecord says that no whole record is there. It looks like a timeout, after
// which TLS can go on.
var errNoRecord error = noRecord{}

type noRecord struct{}

func (noRecord) Error() string   { return "no whole record yet" }
func (noRecord) Timeout() bool   { return true }
func (noRecord) Temporary() bool { return true }

var errEmptyRead = errors.New("read into no memory")

func newRecords(s *sock) *records {
	t := &records{s: s}
	t.take, t.give = t.memory, t.release
	return t
}

// whole reports whether TLS can go on without waiting: a record is there to its end,
// or is so long that TLS refuses it.
func (t *records) whole() bool {
	if t.left > 0 {
		return t.w-t.r >= t.left
	}
	if t.w-t.r < recordHead {
		return false
	}
	n := t.length()
	return n > recordMost || t.w-t.r >= n
}

// length returns that of the record that begins at r, with its head.
func (t *records) length() int {
	return recordHead + int(t.in[t.r+3])<<8 + int(t.in[t.r+4])
}

// Read gives TLS bytes of one record, never of the next.
func (t *records) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, errEmptyRead
	}
	for t.left == 0 && t.w-t.r < recordHead || t.w == t.r {
		if t.lazy {
			return 0, errNoRecord
		}
		if err := t.fill(); err != nil {
			return 0, err
		}
	}
	if t.left == 0 {
		t.left = t.length()
	}
	n := copy(p[:min(len(p), t.left)], t.in[t.r:t.w])
	t.r += n
	t.left -= n
	if t.r == t.w {
		t.release()
	}
	return n, nil
}

// fill reads from the socket, once. It holds no memory while it waits, unless a part
// of a record is there.
func (t *records) fill() error {
	if t.r > 0 {
		t.w = copy(t.in[:], t.in[t.r:t.w])
		t.r = 0
	}
	n, err := t.s.readLazy(t.take, t.give)
	t.w += n
	if t.w == t.r {
		t.release()
	}
	return err
}

func (t *records) memory() []byte {
	if t.in == nil {
		t.in = recordBufs.Get().(*[2 * recordMost]byte)
	}
	return t.in[t.w:]
}

// release gives the memory back if nothing is in it.
func (t *records) release() {
	if t.r != t.w {
		return
	}
	if t.in != nil {
		recordBufs.Put(t.in)
	}
	t.in, t.r, t.w = nil, 0, 0
}

// rest takes out what has come but has not gone to TLS.
func (t *records) rest() []byte {
	var b []byte
	if t.w > t.r {
		b = append(b, t.in[t.r:t.w]...)
		t.r = t.w
	}
	t.release()
	return b
}

// keep gathers p if that is asked for.
func (t *records) keep(p []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gather {
		t.out = append(t.out, p...)
	}
	return t.gather
}

// lend gives memory to gather in, if there is none yet.
func (t *records) lend(memory []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.out == nil {
		t.out = memory[:0]
		return
	}
	h2Free(memory)
}

// swap takes what was gathered, with its memory.
func (t *records) swap() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.out
	t.out = nil
	return out
}
