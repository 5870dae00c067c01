package wsrelay

import (
	"io"
	"strings"
	"testing"
)

// lazily is a source that lets its reader hold nothing while it waits.
type lazily struct {
	io.Reader
	held func() bool
	t    *testing.T
}

func (l *lazily) ReadLazy(take func() []byte, give func()) (int, error) {
	take()
	give()
	if l.held() {
		l.t.Error("memory held during the wait")
	}
	return l.Read(take())
}

func TestBufferOfALazySource(t *testing.T) {
	text := strings.Repeat("x", 3*quietSize)
	l := &lazily{Reader: strings.NewReader(text), t: t}
	b := newBuffer(l)
	l.held = func() bool { return b.quiet != nil || b.busy != nil }
	var got strings.Builder
	for {
		p, err := b.read()
		got.WriteString(string(p))
		if err == io.EOF {
			break
		}
	}
	b.free()
	if got.String() != text || l.held() {
		t.Errorf("%d bytes of %d", len(got.String()), len(text))
	}
}

func TestBufferGrowsWithABulk(t *testing.T) {
	b := newBuffer(strings.NewReader(strings.Repeat("x", slowSize+busySize+1)))
	f := func(want int, busy bool) {
		t.Helper()
		p, err := b.read()
		if len(p) != want || err != nil || (b.busy != nil) != busy {
			t.Errorf("%d bytes, %v, want %d", len(p), err, want)
		}
	}
	f(slowSize, false)
	f(busySize, true)
	f(1, true)
	if p, err := b.read(); len(p) != 0 || err != io.EOF || b.busy != nil {
		t.Error(len(p), err)
	}
}
