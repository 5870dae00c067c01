package coding

import (
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
