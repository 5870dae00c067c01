package h2

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/net/http2/hpack"

	"httpjet/exchange"
)

// plain decodes a block into a list in which every field stands as it came, by what Head
// says of a request.
func plain(d *Decoder, block []byte) (string, error) {
	h := Head{Fields: &exchange.Fields{}}
	err := d.Decode(block, &h, 1<<20, false)
	var b strings.Builder
	for _, f := range [][2]string{{":method", h.Method}, {":scheme", h.Scheme}, {":path", h.Path}, {":authority", h.Authority}} {
		if f[1] != "" {
			fmt.Fprintf(&b, "%s: %s\n", f[0], f[1])
		}
	}
	for name, value := range h.Fields.All() {
		fmt.Fprintf(&b, "%s: %s\n", name, value)
	}
	return b.String(), err
}

// table tells the dynamic table, the newest field first.
func table(d *Decoder) string {
	var b strings.Builder
	for i := range d.table.n {
		f := d.table.at(i)
		fmt.Fprintf(&b, "%s: %s\n", f.name, f.value)
	}
	return b.String()
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The examples of RFC 7541 appendix C.3 and C.4: three requests on one connection,
// without and with Huffman code.
func TestRFC7541AppendixC(t *testing.T) {
	for name, blocks := range map[string][3]string{
		"C.3": {"8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
			"8286 84be 5808 6e6f 2d63 6163 6865",
			"8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65"},
		"C.4": {"8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
			"8286 84be 5886 a8eb 1064 9cbf",
			"8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf"},
	} {
		d := &Decoder{}
		for i, want := range []struct {
			fields, table string
			size          int
		}{
			{":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\n", ":authority: www.example.com\n", 57},
			{":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\ncache-control: no-cache\n",
				"cache-control: no-cache\n:authority: www.example.com\n", 110},
			{":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\ncustom-key: custom-value\n",
				"custom-key: custom-value\ncache-control: no-cache\n:authority: www.example.com\n", 164},
		} {
			got, err := plain(d, unhex(t, blocks[i]))
			if err != nil || got != want.fields || table(d) != want.table || d.table.size != want.size {
				t.Errorf("%s.%d: %v, %d bytes\n%s--\n%s", name, i+1, err, d.table.size, got, table(d))
			}
		}
	}
}

// RFC 7541 appendix C.2 and C.6: single fields, and a table of 256 bytes that evicts.
func TestRFC7541Fields(t *testing.T) {
	f := func(block, fields, tab string) {
		t.Helper()
		d := &Decoder{}
		h := Head{Fields: &exchange.Fields{}}
		err := d.Decode(unhex(t, block), &h, 1<<20, false)
		got := ""
		for name, value := range h.Fields.All() {
			got += name + ": " + value + "\n"
		}
		if h.Path != "" {
			got = ":path: " + h.Path + "\n"
		}
		if err != nil || got != fields || table(d) != tab {
			t.Errorf("%s: %v\n%s--\n%s", block, err, got, table(d))
		}
	}
	f("400a 6375 7374 6f6d 2d6b 6579 0d63 7573 746f 6d2d 6865 6164 6572", "custom-key: custom-header\n", "custom-key: custom-header\n") // C.2.1
	f("040c 2f73 616d 706c 652f 7061 7468", ":path: /sample/path\n", "")                                                                // C.2.2
	f("1008 7061 7373 776f 7264 0673 6563 7265 74", "password: secret\n", "")                                                           // C.2.3
	d := &Decoder{}
	for i, block := range []string{"3fe1 01 4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
		"4883 640e ff c1 c0 bf", "88 c1 61 96 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c0 5a83 9bd9 ab77 ad 94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07"} {
		if err := d.Decode(unhex(t, block), nil, 0, false); err != nil {
			t.Fatal(i, err)
		}
	}
	want := "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1\ncontent-encoding: gzip\ndate: Mon, 21 Oct 2013 20:13:22 GMT\n"
	if table(d) != want || d.table.size != 215 {
		t.Errorf("C.6.3: %d bytes\n%s", d.table.size, table(d))
	}
}

// The tables are those of the library: every symbol, and every entry.
func TestHPACKTables(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
		one := strings.Repeat(string(all[i:i+1]), 8)
		if n := hpack.HuffmanEncodeLength(one); n != uint64(codeLengths[i]) {
			t.Errorf("symbol %d has %d bits", i, n)
		}
	}
	for range 200 { // each symbol in front of and behind each other one, in time
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		text := all[:rand.IntN(len(all)+1)]
		got, ok := code.append([]byte("before"), hpack.AppendHuffmanString(nil, string(text)))
		if !ok || string(got) != "before"+string(text) {
			t.Fatalf("%q becomes %q", text, got)
		}
	}
	for i := 1; i <= staticLen; i++ {
		f, err := hpack.NewDecoder(0, nil).DecodeFull([]byte{0x80 | byte(i)})
		if err != nil || f[0].Name != staticFields[i].name || f[0].Value != staticFields[i].value {
			t.Errorf("entry %d: %v %v", i, f, err)
		}
	}
	for name := range knownNames {
		if !validName(name) && name[0] != ':' {
			t.Errorf("%q", name)
		}
	}
}

// What RFC 7541 calls an error is one, and says where it stands.
func TestHPACKStrict(t *testing.T) {
	f := func(want *ConnError, blocks ...string) {
		t.Helper()
		d := &Decoder{}
		for i, block := range blocks {
			err := d.Decode(unhex(t, block), nil, 0, false)
			if i < len(blocks)-1 && err != nil {
				t.Fatal(err)
			}
			if i == len(blocks)-1 && (want != nil && err != want || want == nil && err != nil) {
				t.Errorf("%q: %v, want %v", blocks, err, want)
			}
		}
	}
	f(errIndex, "80")                   // §6.1: index 0
	f(errIndex, "be")                   // 62 of an empty table
	f(errIndex, "40 01 61 01 62", "bf") // 63 of one field
	f(nil, "40 01 61 01 62", "be")      // which is 62
	f(errIndex, "7f 00 01 61")          // the name of a literal
	f(errInteger, "ff ff ff ff ff 7f")  // §5.1: 2^35 and more
	f(errInteger, "ff 80 80 80 80 80 80 80 80 80 00")
	f(errIndex, "ff 80 80 80 80 80 80 80 80 00") // nine octets are allowed: 127
	f(errTruncated, "ff 80")
	f(errTruncated, "00")
	f(errTruncated, "00 01")
	f(errTruncated, "00 01 61")
	f(errTruncated, "00 01 61 02 62")
	f(errTruncated, "00 01 61 ff ff ff 03 00")
	f(errUpdate, "3f e2 1f") // §4.2: 4097
	f(nil, "3f e1 1f")       // 4096
	f(nil, "20 3f e1 1f 82") // the least and the last of several changes
	f(errLate, "82 20")      // behind a field
	f(errLate, "20 82 20")
	f(nil, "82", "20")                       // of the next block
	f(errHuffman, "00 01 61 82 07 ff")       // §5.2: a whole byte of padding
	f(errHuffman, "00 01 61 81 06")          // padding of zeros
	f(errHuffman, "00 01 61 84 ff ff ff ff") // the symbol that must not be sent
	f(errHuffman, "00 01 61 84 ff ff ff fc")
	f(nil, "00 01 61 81 07")           // "0" and padding
	f(errHuffman, "00 82 07 ff 01 61") // in a name
}

// A field that is larger than the table empties it and is served; a smaller table keeps what
// has room (RFC 7541 §4.3, §4.4).
func TestHPACKEviction(t *testing.T) {
	d := &Decoder{}
	var enc bytes.Buffer
	add := func(name, value string) {
		t.Helper()
		enc.Reset()
		e := hpack.NewEncoder(&enc)
		e.WriteField(hpack.HeaderField{Name: name, Value: value}) // literal with indexing, for its table is empty
		if err := d.Decode(enc.Bytes(), nil, 0, false); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 40 { // rings grow in between
		add(fmt.Sprintf("x-%02d", i), strings.Repeat("v", 64))
	}
	if d.table.n != 40 || d.table.size != 40*100 {
		t.Fatal(d.table.n, d.table.size)
	}
	add("x-40", strings.Repeat("v", 64))
	if d.table.n != 40 || !strings.HasPrefix(table(d), "x-40: ") || strings.Contains(table(d), "x-00") {
		t.Errorf("the oldest is not gone: %.100s", table(d))
	}
	if err := d.Decode([]byte{0x3f, 0xb2, 0x01}, nil, 0, false); err != nil || d.table.n != 2 || len(table(d)) != 2*(4+2+64+1) {
		t.Errorf("%v %d: %s", err, d.table.n, table(d))
	}
	// 5000 bytes with indexing, by hand: the library would not.
	big := append([]byte{0x40, 1, 'b'}, appendInt(nil, 0, 0x7f, 5000)...)
	h := Head{Fields: &exchange.Fields{}}
	if err := d.Decode(append(big, strings.Repeat("v", 5000)...), &h, 1<<16, true); err != nil || d.table.n != 0 || d.table.size != 0 || len(h.Fields.Get("b")) != 5000 {
		t.Errorf("%v %d %d", err, d.table.n, d.table.size)
	}
	for _, f := range d.table.ring {
		if f != (field{}) {
			t.Errorf("what is gone is kept: %v", f)
		}
	}
}

// What the table holds is no more than it counts: a name that is taken over from a longer
// field does not keep that.
func TestHPACKNamesKeepNoField(t *testing.T) {
	d := &Decoder{}
	long := append([]byte{0x40, 1, 'n'}, appendInt(nil, 0, 0x7f, 3000)...)
	if err := d.Decode(append(long, strings.Repeat("v", 3000)...), nil, 0, false); err != nil {
		t.Fatal(err)
	}
	if err := d.Decode([]byte{0x40 | 62, 1, 'w'}, nil, 0, false); err != nil {
		t.Fatal(err)
	}
	a, b := d.table.at(0), d.table.at(1)
	if a.name != "n" || b.name != "n" || !sameMemory(a.name, a.value) || sameMemory(b.name, a.value) {
		t.Errorf("%q: %q is in the memory of an older field", a.name, a.value)
	}
}

// sameMemory reports whether b follows a in memory.
func sameMemory(a, b string) bool {
	return uintptr(unsafe.Pointer(unsafe.StringData(a)))+uintptr(len(a)) == uintptr(unsafe.Pointer(unsafe.StringData(b)))
}

// Real clients: a page by a browser, what nghttp2 sends, one that puts nothing in a table.
var clients = map[string]func() [][]byte{
	"browser": func() [][]byte {
		var blocks [][]byte
		var b bytes.Buffer
		e := hpack.NewEncoder(&b)
		for _, path := range []string{"/", "/assets/site.4f3a9c.css", "/assets/app.81be02.js", "/img/logo.svg", "/api/v1/items?page=2&sort=-created"} {
			b.Reset()
			for _, f := range [][2]string{{":method", "GET"}, {":authority", "www.shop.example"}, {":scheme", "https"}, {":path", path},
				{"sec-ch-ua", `"Chromium";v="130", "Google Chrome";v="130", "Not?A_Brand";v="99"`}, {"sec-ch-ua-mobile", "?0"}, {"sec-ch-ua-platform", `"Linux"`},
				{"upgrade-insecure-requests", "1"}, {"user-agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36"},
				{"accept", "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8"}, {"sec-fetch-site", "same-origin"},
				{"sec-fetch-mode", "navigate"}, {"sec-fetch-dest", "document"}, {"referer", "https://www.shop.example/"}, {"accept-encoding", "gzip, deflate, br, zstd"},
				{"accept-language", "en-US,en;q=0.9,de;q=0.8"}, {"cookie", "session=8f2b1c9d0e7a4655a1b2c3d4e5f60718"}, {"cookie", "theme=dark"}, {"priority", "u=0, i"}} {
				e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1], Sensitive: f[0] == ":path" || f[0] == "cookie" && len(f[1]) < 20})
			}
			blocks = append(blocks, slices.Clone(b.Bytes()))
		}
		return blocks
	},
	"h2load": func() [][]byte {
		var b bytes.Buffer
		e := hpack.NewEncoder(&b)
		var blocks [][]byte
		for range 2 {
			b.Reset()
			for _, f := range [][2]string{{":path", "/1k.txt"}, {":scheme", "https"}, {":authority", "www.shop.example"}, {":method", "GET"}, {"user-agent", "h2load nghttp2/1.52.0"}} {
				e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1], Sensitive: f[0] == ":path"})
			}
			blocks = append(blocks, slices.Clone(b.Bytes()))
		}
		return blocks
	},
	"literal": func() [][]byte {
		var b bytes.Buffer
		e := hpack.NewEncoder(&b)
		for _, f := range [][2]string{{":method", "GET"}, {":authority", "www.shop.example"}, {":scheme", "https"}, {":path", "/api/v1/items?page=2&sort=-created"},
			{"user-agent", "crawler/1.0 (+https://crawler.example/about)"}, {"accept", "*/*"}, {"x-trace", "4bf92f3577b34da6a3ce929d0e0e4736"}} {
			e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1], Sensitive: true})
		}
		return [][]byte{b.Bytes()}
	},
}

// BenchmarkDecode decodes the requests of a client once the connection is warm, by this
// package and by the library.
func BenchmarkDecode(b *testing.B) {
	for _, name := range []string{"browser", "h2load", "literal"} {
		blocks := clients[name]()
		warm := blocks[min(1, len(blocks)-1):]
		b.Run(name+"/own", func(b *testing.B) {
			d, h := &Decoder{}, Head{Fields: &exchange.Fields{}}
			d.Decode(blocks[0], &h, 64<<10, false)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				h.Fields.Reset()
				if d.Decode(warm[i%len(warm)], &h, 64<<10, false) != nil || h.Malformed != "" {
					b.Fatal(h.Malformed)
				}
			}
		})
		b.Run(name+"/library", func(b *testing.B) {
			h := Head{Fields: &exchange.Fields{}}
			d := hpack.NewDecoder(TableSize, func(f hpack.HeaderField) {
				of := newField(f.Name, f.Value, false)
				if h.room(int(of.size)) {
					h.put(&of)
				}
			})
			d.Write(blocks[0])
			d.Close()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				h.Fields.Reset()
				h = Head{Fields: h.Fields, most: 64 << 10, cookie: -1, crumbs: h.crumbs[:0]}
				if _, err := d.Write(warm[i%len(warm)]); err != nil || d.Close() != nil {
					b.Fatal(err)
				}
				if h.end(); h.Malformed != "" {
					b.Fatal(h.Malformed)
				}
			}
		})
	}
}

// A status of another length would be read as a part of the next field.
func TestStatusOfThreeDigits(t *testing.T) {
	for _, status := range []int{-1, 0, 99, 1000} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d is encoded", status)
				}
			}()
			AppendStatus(nil, status)
		}()
	}
}
