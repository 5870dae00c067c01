package coding

import (
	"strings"
	"testing"

	"httpjet/exchange"
)

// R-COMP-1 and fault 14 of what was observed: gzip;q=0 is a refusal.
func TestChoose(t *testing.T) {
	f := func(want Set, offered Set, fields ...string) {
		t.Helper()
		var req exchange.Fields
		for _, v := range fields {
			req.Add("accept-encoding", v)
		}
		if got := Choose(req.Tokens("Accept-Encoding"), offered); got != want {
			t.Errorf("%q of %03b: %03b, want %03b", fields, offered, got, want)
		}
	}
	all := Zstd | Brotli | Gzip
	f(0, all)
	f(0, all, "")
	f(0, 0, "gzip")
	f(Gzip, all, "gzip")
	f(Gzip, all, "GZIP")
	f(Gzip, all, "x-gzip")
	f(Zstd, all, "gzip, br, zstd")
	f(Brotli, all, "gzip, deflate, br")
	f(Gzip, Gzip, "gzip, deflate, br, zstd")
	f(0, Gzip, "br")
	f(0, all, "gzip;q=0")
	f(0, all, "gzip; q=0.000, *;q=0")
	f(Gzip, all, "gzip;q=1.0, br;q=0.9, zstd;q=0.1")
	f(Brotli, all, "gzip;q=0.5", "br;q=0.501")
	f(Zstd, all, "*")
	f(Brotli, all, "*;q=0.5, zstd;q=0")
	f(0, all, "*;q=0")
	f(0, all, "identity;q=1, gzip;q=0.5")
	f(Gzip, all, "identity;q=0, gzip;q=0.001")
	f(Gzip, all, "identity, gzip")
	f(0, all, "gzip;q=2")
	f(0, all, "gzip;q=1.001")
	f(0, all, "gzip;q=0.0001")
	f(0, all, "gzip;q=-1")
	f(0, all, "gzip;level=9")
	f(0, all, "gzip;")
	f(0, all, "deflate, compress")
}

func TestNames(t *testing.T) {
	for _, c := range All {
		if c.Name() == "" || c.Suffix()[0] != '.' {
			t.Error(c)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("two codings have a name")
		}
	}()
	(Gzip | Zstd).Name()
}

// FuzzChoose looks for a coding that a client has not listed, and for fields that are
// read in another way than their elements (R-COMP-1, G58).
func FuzzChoose(f *testing.F) {
	for _, s := range []string{"gzip", "gzip, br;q=0.5, zstd;q=0", "*;q=0.1, identity;q=0", "gzip;q=1.000,,, br ; q=0.001", "x-gzip;q=\x00"} {
		f.Add(s, uint8(7))
	}
	f.Fuzz(func(t *testing.T, field string, offer uint8) {
		offered := Set(offer) & 7
		var req exchange.Fields
		req.Add("Accept-Encoding", field)
		got := Choose(req.Tokens("Accept-Encoding"), offered)
		var a Accept
		if a.AddField(field); a.Best(offered) != got {
			t.Errorf("%q: %03b as a field, %03b as elements", field, a.Best(offered), got)
		}
		if got == 0 {
			return
		}
		lower := strings.ToLower(field)
		if got&offered == 0 || !strings.Contains(lower, got.Name()) && !strings.Contains(lower, "*") {
			t.Errorf("%q of %03b: %s", field, offered, got.Name())
		}
		if a.Best(got) != got {
			t.Errorf("%q: %s is not taken when it is all there is", field, got.Name())
		}
	})
}
