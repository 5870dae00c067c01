package metrics

import (
	"strings"
	"testing"
)

func TestCompression(t *testing.T) {
	m := New()
	m.Watch(Gauges{Compression: func() Compression {
		return Compression{Gzip: 1, Brotli: 2, Zstd: 3, In: 400, Out: 50, Refused: 6, Memory: 7}
	}})
	text := scrape(t, m)
	for _, want := range []string{`httpjet_compressed_total{coding="gzip"} 1`, `httpjet_compressed_total{coding="br"} 2`, `httpjet_compressed_total{coding="zstd"} 3`,
		`httpjet_compressed_bytes_total{direction="in"} 400`, `httpjet_compressed_bytes_total{direction="out"} 50`, "httpjet_compress_refused_total 6", "httpjet_compress_memory_bytes 7"} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("%s is missing", want)
		}
	}
}
