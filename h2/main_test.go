package h2

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"

	"httpjet/exchange"
)

// decodeAll decodes a block by the library.
func decodeAll(t testing.TB, block []byte) []hpack.HeaderField {
	t.Helper()
	f, err := hpack.NewDecoder(0, nil).DecodeFull(block)
	if err != nil {
		t.Fatalf("%x: %v", block, err)
	}
	return f
}

func TestAppendFields(t *testing.T) {
	long := strings.Repeat("v", 5000)
	b := AppendStatus(nil, 418)
	b = AppendLength(b, 1234567890123)
	var want strings.Builder
	want.WriteString(":status=418 content-length=1234567890123")
	for _, f := range []exchange.Field{{Name: "Content-Type", Value: "text/plain"}, {Name: "X-A", Value: ""}, {Name: "VARY", Value: long},
		{Name: strings.Repeat("N", 200), Value: "x"}, {Name: "Set-Cookie", Value: "a=b"}, {Name: "Via", Value: strings.Repeat("w", 127)}} {
		b = AppendField(b, f.Name, f.Value)
		want.WriteString(" " + strings.ToLower(f.Name) + "=" + f.Value)
	}
	var got strings.Builder
	for _, f := range decodeAll(t, b) {
		got.WriteString(" " + f.Name + "=" + f.Value)
	}
	if got.String()[1:] != want.String() {
		t.Errorf("%.300q", got.String())
	}
	for status := 100; status < 600; status++ {
		if f := decodeAll(t, AppendStatus(nil, status)); len(f) != 1 || f[0].Name != ":status" || f[0].Value != fmt.Sprint(status) {
			t.Errorf("%d: %v", status, f)
		}
	}
}

// The names that are abbreviated are those of RFC 7541 appendix A.
func TestStaticNames(t *testing.T) {
	n := 0
	for i := 1; i <= 61; i++ {
		f, err := hpack.NewDecoder(0, nil).DecodeFull([]byte{0x80 | byte(i)})
		if err != nil {
			t.Fatal(err)
		}
		if j := staticName(f[0].Name); j != 0 {
			n++
			if g, _ := hpack.NewDecoder(0, nil).DecodeFull([]byte{0x80 | byte(j)}); g[0].Name != f[0].Name {
				t.Errorf("%s is %d", f[0].Name, j)
			}
		}
	}
	if n < 27 {
		t.Errorf("%d names found", n)
	}
}

func TestParseRank(t *testing.T) {
	f := func(s string, urgency uint8, incremental bool) {
		t.Helper()
		if r := ParseRank(s); r != (Rank{urgency, incremental}) {
			t.Errorf("%q: %v", s, r)
		}
	}
	f("", 3, true)
	f("u=0", 0, false)
	f("u=7, i", 7, true)
	f("i,u=1", 1, true)
	f("i=?0, u=2;x=1", 2, false)
	f("i=?1;a", 3, true)
	f("u=8", 3, false)
	f("u=-1", 3, false)
	f("u=\"1\"", 3, false)
	f("a=b,,", 3, false)
}

func TestSettings(t *testing.T) {
	f := func(want Code, payload ...byte) {
		t.Helper()
		p := DefaultPeer
		err := p.Apply(payload)
		ce, _ := errors.AsType[*ConnError](err)
		if ce == nil && want != NoError || ce != nil && ce.Code != want {
			t.Errorf("%x: %v, want %v", payload, err, want)
		}
	}
	f(NoError)
	f(NoError, 0, 4, 0x7f, 0xff, 0xff, 0xff)
	f(FlowControlError, 0, 4, 0x80, 0, 0, 0)
	f(ProtocolError, 0, 2, 0, 0, 0, 2)
	f(ProtocolError, 0, 5, 0, 0, 0x3f, 0xff)
	f(ProtocolError, 0, 5, 1, 0, 0, 0)
	f(NoError, 0, 9, 0, 0, 0, 1)
	f(ProtocolError, 0, 9, 0, 0, 0, 2) // RFC 9218 §2.1
	f(NoError, 0xff, 0xff, 1, 2, 3, 4)
	f(FrameSizeError, 0, 4, 0)
	w := Window(MaxWindow)
	if w.Add(1) || !w.Add(-MaxWindow) || w != 0 {
		t.Error(w)
	}
}

func TestBudget(t *testing.T) {
	b := NewBudget(3)
	for range 3 {
		if !b.Spend(1) {
			t.Fatal("spent")
		}
	}
	b.Earn(1)
	if !b.Spend(1) || b.Spend(1) {
		t.Error("what was earned, and no more")
	}
	b = NewBudget(3)
	b.Earn(10)
	if b.left != 3 {
		t.Error("more than full")
	}
}

// FuzzH2Head: no block makes the decoder panic, take more than it may, or let
// anything through that is no field.
func FuzzH2Head(f *testing.F) {
	var enc strings.Builder
	e := hpack.NewEncoder(&enc)
	for _, fd := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":path", "/"}, {":authority", "a"}, {"cookie", "a=b"}, {"cookie", "c"}, {"x", "y"}} {
		e.WriteField(hpack.HeaderField{Name: fd[0], Value: fd[1]})
	}
	f.Add([]byte(enc.String()), []byte{0x82}, 4096)
	f.Add([]byte{0x82, 0x86, 0x84, 0x41, 0x8c, 0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff}, []byte{0x3f, 0xe1, 0x1f}, 100)
	f.Fuzz(func(t *testing.T, first, second []byte, most int) {
		if most = min(max(most, 0), 64<<10); len(first)+len(second) > 64<<10 {
			return
		}
		d := &Decoder{}
		var h Head
		for i, block := range [][]byte{first, second} {
			h.Fields = &exchange.Fields{}
			if d.Decode(block, &h, most, i == 1) != nil {
				return
			}
			size := 0
			for name, value := range h.Fields.All() {
				size += len(name) + len(value)
				if h.Malformed == "" && (!validName(name) || !validValue(value) || ofH1(name)) {
					t.Fatalf("%q: %q", name, value)
				}
			}
			if size > most {
				t.Fatalf("%d bytes of %d", size, most)
			}
		}
	})
}

func ofH1(name string) bool {
	switch name {
	case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "host", "content-length":
		return true
	}
	return false
}

// FuzzH2Frame: payloads are taken apart within their bounds.
func FuzzH2Frame(f *testing.F) {
	f.Add([]byte{0, 0, 4, 1, 0x2c, 0, 0, 0, 1, 1, 2, 3, 4})
	f.Add([]byte("\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < HeaderSize {
			return
		}
		h := ParseHeader(b)
		p := b[HeaderSize:]
		h.Length = len(p)
		if h.Check() != nil {
			return
		}
		switch h.Type {
		case Data:
			if got, err := Unpad(h, p); err == nil && len(got) > len(p) {
				t.Fatal("longer")
			}
		case Headers:
			Fragment(h, p)
		case Settings:
			peer := DefaultPeer
			if peer.Apply(p) == nil && (peer.Window < 0 || peer.Window > MaxWindow || peer.Frame < MaxFrame) {
				t.Fatal(peer)
			}
		case PriorityUpdate:
			if _, r := Update(p); r.Urgency > 7 {
				t.Fatal(r)
			}
		case WindowUpdate:
			if n := Increment(p); n < 0 || n > MaxWindow {
				t.Fatal(n)
			}
		}
	})
}
