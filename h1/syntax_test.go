package h1

import (
	"io"
	"strings"
	"testing"
)

// What looks at eight bytes at once finds every byte at every place.
func TestValidIsTheTable(t *testing.T) {
	for n := range 20 {
		for at := range n {
			for c := range 256 {
				s := strings.Repeat("\xff", at) + string([]byte{byte(c)}) + strings.Repeat("~", n-at-1)
				if got, want := ValidValue(s), class[c]&classValue != 0; got != want {
					t.Fatalf("%q: %v, want %v", s, got, want)
				}
			}
		}
	}
	for n := 1; n < 20; n++ {
		for at := range n {
			for c := range 256 {
				s := strings.Repeat("-", at) + string([]byte{byte(c)}) + strings.Repeat("z", n-at-1)
				if got, want := ValidToken(s), class[c]&classToken != 0; got != want {
					t.Fatalf("%q: %v, want %v", s, got, want)
				}
			}
		}
	}
	if ValidToken("") || !ValidToken("A-Za!") || !ValidToken("AZazAZaz-AZ") {
		t.Error("tokens")
	}
	if !ValidValue("\t\t\t\t\t\t\t\t\t") || ValidValue("\t\t\t\t\t\t\t\x00\t") || !ValidValue("") {
		t.Error("horizontal tabs")
	}
}

// Next hands out what is at hand of the body and nothing behind it, and leaves the
// rest to Read.
func TestNext(t *testing.T) {
	f := func(name string, framing Framing, at, want, rest string, end error) {
		t.Helper()
		r := NewReader(strings.NewReader(at))
		if err := r.Wait(); err != nil {
			t.Fatal(err)
		}
		b := r.Body(framing)
		p, err := b.Next()
		if string(p) != want || err != end {
			t.Errorf("%s: %q %v", name, p, err)
		}
		more, err := io.ReadAll(b)
		if string(more) != rest || framing != 20 && err != nil {
			t.Errorf("%s: then %q %v", name, more, err)
		}
		if p, err := b.Next(); len(p) > 0 || framing != 20 && err != io.EOF {
			t.Errorf("%s: at the end %q %v", name, p, err)
		}
	}
	f("whole", 4, "bodyHTTP/1.1 200", "body", "", io.EOF)
	f("none", 0, "HTTP/1.1 200", "", "", io.EOF)
	f("part", 20, "body", "body", "", nil)
	f("until close", UntilClose, "body", "body", "", nil)
	f("chunked", Chunked, "4\r\nbody\r\n0\r\n\r\n", "", "body", nil)
}
