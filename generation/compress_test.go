package generation

import (
	"strings"
	"testing"

	"httpjet/coding"
	"httpjet/compress"
)

// coded serves a site with compression and returns the body without its coding.
func coded(t *testing.T, p safetyParts) func(path string, fields ...string) (status int, body, codings, vary, tag string) {
	t.Helper()
	p.encoders = compress.NewEncoders(64 << 20)
	ask, fs := p.site(t)
	if len(fs.All()) > 0 {
		t.Error(fmtAll(fs))
	}
	return func(path string, fields ...string) (status int, body, codings, vary, tag string) {
		t.Helper()
		x, got := ask("GET", path, fields...)
		f := &x.Resp.Fields
		codings = f.Get("Content-Encoding")
		for _, c := range coding.All {
			if c.Name() != codings {
				continue
			}
			plain, err := compress.Decode(nil, c, []byte(got), compress.Limits{Max: 1 << 20})
			if err != nil {
				t.Errorf("%s: %v", path, err)
			}
			got = string(plain)
		}
		if n := p.encoders.Counts().InUse; n != 0 {
			t.Errorf("%s: %d bytes of encoders are in use", path, n)
		}
		return x.Resp.Status, got, codings, f.Get("Vary"), f.Get("ETag")
	}
}

var (
	page  = strings.Repeat("<p>a page that has a lot to say</p>\n", 50)
	large = strings.Repeat("0123456789", 20_000)
)

// R-COMP-1, R-COMP-2, G66: files are compressed for who takes it; validators and Vary
// are those of the answer that was sent, in 200, 206 and 304.
func TestG66FilesAreCompressed(t *testing.T) {
	br, _ := compress.NewEncoders(64<<20).Encode(nil, coding.Brotli, 5, []byte("sibling "+page))
	ask := coded(t, safetyParts{files: map[string]string{"p.html": page, "l.txt": large, "x.png": page, "s.txt": "small", "b.js": page, "b.js.br": string(br)},
		server: `<tuning><gzipMaxFileSize>100K</gzipMaxFileSize></tuning>`})
	f := func(path, accept string, status int, body, codings, vary string, fields ...string) (tag string) {
		t.Helper()
		s, got, c, v, tag := ask(path, append(fields, "Accept-Encoding: "+accept)...)
		if s != status || got != body || c != codings || v != vary {
			t.Errorf("%s for %q: %d, %d bytes, coding %q, vary %q; want %d, %d bytes, %q, %q", path, accept, s, len(got), c, v, status, len(body), codings, vary)
		}
		return tag
	}
	const ae = "Accept-Encoding"
	for range 3 { // from the disk, then as it is remembered
		plain := f("/p.html", "", 200, page, "", ae)
		gz := f("/p.html", "gzip", 200, page, "gzip", ae)
		if want := strings.Replace(plain, `;;;"`, `;gz"`, 1); gz != want || gz == plain {
			t.Errorf("tags %s and %s", plain, gz)
		}
		f("/p.html", "gzip, br", 200, page, "br", ae)
		f("/p.html", "gzip, deflate, br, zstd", 200, page, "zstd", ae) // as browsers ask over TLS
		if got := f("/p.html", "gzip", 304, "", "", ae, "If-None-Match: "+gz); got != gz {
			t.Errorf("304 with %s", got)
		}
		f("/p.html", "", 304, "", "", ae, "If-None-Match: "+plain)
		f("/p.html", "", 200, page, "", ae, "If-None-Match: "+gz)
		if got := f("/p.html", "gzip", 206, page[:5], "", ae, "Range: bytes=0-4"); got != plain {
			t.Errorf("206 with %s", got)
		}
		f("/p.html", "gzip", 206, page[:5], "", ae, "Range: bytes=0-4", "If-Range: "+plain)
		f("/p.html", "gzip", 200, page, "", ae, "Range: bytes=0-4", "If-Range: "+gz)
		f("/l.txt", "gzip", 200, large, "", "")
		f("/x.png", "gzip", 200, page, "", "")
		f("/x.png", "gzip", 206, page[:1], "", "", "Range: bytes=0-0")
		f("/s.txt", "gzip", 200, "small", "", "")
		f("/b.js", "br", 200, "sibling "+page, "br", ae) // goes before
		f("/b.js", "gzip", 200, page, "gzip", ae)
	}
}

// What server, host and rules say of compression.
func TestCompressSettings(t *testing.T) {
	f := func(p safetyParts, accept, codings string) {
		t.Helper()
		p.files = map[string]string{"p.html": page, "p.css": page, "list/" + strings.Repeat("n", 200): "x"}
		ask := coded(t, p)
		if s, got, c, _, _ := ask("/p.html", "Accept-Encoding: "+accept); s != 200 || got != page || c != codings {
			t.Errorf("%s%s for %q: %d, coding %q, want %q", p.server, p.vhost, accept, s, c, codings)
		}
	}
	const every = "gzip, br, zstd"
	f(safetyParts{}, every, "zstd")
	f(safetyParts{server: `<tuning><enableZstdCompress>0</enableZstdCompress></tuning>`}, every, "br")
	f(safetyParts{server: `<tuning><enableZstdCompress>0</enableZstdCompress><enableBrCompress>0</enableBrCompress></tuning>`}, every, "gzip")
	f(safetyParts{server: `<tuning><enableGzipCompress>0</enableGzipCompress></tuning>`}, "gzip", "")
	f(safetyParts{vhost: `<enableGzip>0</enableGzip>`}, every, "br")
	f(safetyParts{vhost: `<enableBr>0</enableBr>`}, "gzip, br", "gzip")
	f(safetyParts{vhost: `<enableGzip>0</enableGzip><enableBr>0</enableBr>`}, every, "")
	f(safetyParts{server: `<tuning><compressibleTypes>default, !text/html</compressibleTypes></tuning>`}, every, "")
	f(safetyParts{server: `<tuning><compressibleTypes>text/*</compressibleTypes></tuning>`}, every, "zstd")
	f(safetyParts{server: `<tuning><enableDynGzipCompress>0</enableDynGzipCompress></tuning>`}, "gzip", "gzip") // files are not dynamic
	f(safetyParts{vhost: `<rewrite><enable>1</enable><rules>RewriteRule ^ - [E=no-gzip:1]</rules></rewrite>`}, every, "")
	f(safetyParts{vhost: `<rewrite><enable>1</enable><rules>RewriteRule ^ - [E=no-br:1,E=no-zstd:1]</rules></rewrite>`}, every, "gzip")
	f(safetyParts{vhost: `<context><uri>/</uri><extraHeaders>Cache-Control: no-transform</extraHeaders></context>`}, every, "")

	// A page for errors, and a listing, which is not a file.
	p := safetyParts{files: map[string]string{"e.html": page, "list/" + strings.Repeat("n", 200): "x"},
		server: `<tuning><enableDynZstdCompress>0</enableDynZstdCompress><enableDynBrCompress>0</enableDynBrCompress></tuning>`,
		vhost:  `<index><autoIndex>1</autoIndex></index><errorPage><errCode>404</errCode><url>/e.html</url></errorPage>`}
	ask := coded(t, p)
	if s, got, c, v, tag := ask("/missing", "Accept-Encoding: "+every); s != 404 || got != page || c != "zstd" || v == "" || tag != "" {
		t.Errorf("page for 404: %d, coding %q, vary %q, tag %q", s, c, v, tag)
	}
	if s, got, c, _, _ := ask("/list/", "Accept-Encoding: "+every); s != 200 || !strings.Contains(got, "nnnn") || c != "gzip" {
		t.Errorf("listing: %d, coding %q", s, c)
	}
	if s, _, c, _, _ := ask("/list", "Accept-Encoding: "+every); s != 301 || c != "" {
		t.Errorf("redirect: %d, coding %q", s, c)
	}
	// A .gz beside a file is not sent either where rules take gzip away.
	p = safetyParts{files: map[string]string{"b.js": page, "b.js.gz": "SIBLING"}, vhost: `<rewrite><enable>1</enable><rules>RewriteRule ^ - [E=no-gzip:1]</rules></rewrite>`}
	if _, got, c, v, _ := coded(t, p)("/b.js", "Accept-Encoding: gzip"); got != page || c != "" || v == "" {
		t.Errorf("no-gzip and a sibling: coding %q, vary %q", c, v)
	}
}

// Elements of compressibleTypes that are no types are told of.
func TestCompressibleTypesAreChecked(t *testing.T) {
	_, fs := safetyParts{server: `<tuning><compressibleTypes>default, html</compressibleTypes></tuning>`}.site(t)
	if got := fmtAll(fs); !strings.Contains(got, "W-SKIPPED") || !strings.Contains(got, `"html" is no media type`) {
		t.Error(got)
	}
}
