package h2

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2/hpack"

	"httpjet/exchange"
)

// FuzzHPACK: three blocks of a connection are decoded as the library does it, or are an
// error for both.
func FuzzHPACK(f *testing.F) {
	for _, make := range clients {
		blocks := make()
		f.Add(blocks[0], blocks[len(blocks)/2], blocks[len(blocks)-1], 64<<10)
	}
	f.Add([]byte{0x3f, 0xe1, 0x1f, 0x82}, []byte{0x20, 0x82}, []byte{0x40, 1, 'a', 0x83, 0xff, 0xff, 0xfb}, 100)
	f.Add([]byte{0x40, 1, 'a', 1, 'b', 0xbe}, []byte{0x7e, 1, 'c', 0xbf}, []byte{0x10, 0x81, 0x07, 0}, 40)
	f.Fuzz(func(t *testing.T, first, second, third []byte, most int) {
		if most = min(max(most, 0), 64<<10); len(first)+len(second)+len(third) > 64<<10 {
			return
		}
		own, head := new(Decoder), Head{}
		lib := &library{}
		lib.hp = hpack.NewDecoder(TableSize, lib.emit)
		for i, block := range [][]byte{first, second, third} {
			head.Fields = &exchange.Fields{}
			got := own.Decode(block, &head, most, i == 2)
			want := lib.decode(block, most, i == 2)
			switch {
			// The library takes a change of an empty table anywhere, and only one of another.
			case got == errLate, want != nil && strings.Contains(want.Error(), "table size update MUST"):
				return
			case (got == nil) != (want == nil):
				t.Fatalf("block %d: %v, the library says %v", i, got, want)
			case got != nil:
				return
			}
			if a, b := fieldsOf(&head), fieldsOf(&lib.head); !slices.Equal(a, b) {
				t.Fatalf("block %d:\n%q, the library says\n%q", i, a, b)
			}
			if own.table.size > TableSize || own.table.n > TableSize/32 || len(own.table.ring) > TableSize/32 {
				t.Fatalf("%d fields of %d bytes in a table of %d", own.table.n, own.table.size, len(own.table.ring))
			}
		}
	})
}

// library decodes into a Head by the library.
type library struct {
	hp   *hpack.Decoder
	head Head
}

func (l *library) emit(f hpack.HeaderField) {
	if of := newField(f.Name, f.Value, false); l.head.room(int(of.size)) {
		l.head.put(&of)
	}
}

func (l *library) decode(block []byte, most int, trailers bool) error {
	l.head = Head{Fields: &exchange.Fields{}, most: most, trailers: trailers, cookie: -1}
	_, err := l.hp.Write(block)
	if e := l.hp.Close(); err == nil {
		err = e
	}
	l.head.end()
	return err
}

// fieldsOf is all that a Head says.
func fieldsOf(h *Head) []string {
	all := []string{h.Method, h.Scheme, h.Authority, h.Path, h.Protocol, h.Host, h.Length, h.Priority, h.Malformed}
	flags := []byte{byte(h.Hosts), byte(h.Lengths), 0, 0}
	if h.Large {
		flags[2] = 1
	}
	if h.Expect {
		flags[3] = 1
	}
	all = append(all, string(flags))
	for name, value := range h.Fields.All() {
		all = append(all, name+": "+value)
	}
	return all
}

// FuzzHuffman: what the library has coded is decoded, and whatever is decoded is what the
// library makes of it.
func FuzzHuffman(f *testing.F) {
	f.Add([]byte("www.example.com"))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Add(bytes.Repeat([]byte{0, 10, 13, 22, 255, 'a'}, 7))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, ok := code.append(nil, hpack.AppendHuffmanString(nil, string(b))); !ok || !bytes.Equal(got, b) {
			t.Fatalf("%q becomes %q", b, got)
		}
		got, ok := code.append([]byte("x"), b)
		want, err := hpack.HuffmanDecodeToString(b)
		if ok != (err == nil) || ok && string(got) != "x"+want {
			t.Fatalf("%x is %q %v, the library says %q %v", b, got, ok, want, err)
		}
	})
}
