package pagecache

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"httpjet/coding"
	"httpjet/compress"
)

// encoders are those of tests.
func encoders() *compress.Encoders { return compress.NewEncoders(64 << 20) }

// codedBy is body as an application codes it.
func codedBy(t *testing.T, c coding.Set, body string) string {
	t.Helper()
	b, ok := encoders().Encode(nil, c, 6, []byte(body))
	if !ok {
		t.Fatal("not smaller")
	}
	return string(b)
}

// lines is a body of about n bytes that becomes much smaller.
func lines(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "<li>line %d of a page</li>\n", i*i)
	}
	return b.String()
}

// codes is the filter of a host that compresses.
func codes(t *testing.T) *compress.Filter {
	t.Helper()
	types, bad := compress.ParseTypes([]string{"default"})
	if bad != nil {
		t.Fatal(bad)
	}
	all := coding.Gzip | coding.Brotli | coding.Zstd
	return compress.New(compress.Options{Encoders: encoders(), Types: types, Dynamic: all, Levels: compress.Levels{Gzip: 6, Brotli: 5, Zstd: 3}, Proxied: true})
}

// R-CACHE-7: what the application has coded itself is stored decoded, and each client
// gets it in a coding that he takes, with a tag of that coding and a Vary.
func TestCodedBodiesAreStoredDecoded(t *testing.T) {
	page := lines(50_000)
	for _, c := range []struct {
		name string
		by   coding.Set
	}{{"gzip", coding.Gzip}, {"x-gzip", coding.Gzip}, {"GZIP", coding.Gzip}, {"br", coding.Brotli}, {"zstd", coding.Zstd}} {
		for _, disk := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, files %v", c.name, disk), func(t *testing.T) {
				s := newSite(Options{})
				defer s.Cache.Close()
				if disk {
					var err error
					if s.Disk, err = s.Cache.Disk(t.TempDir()); err != nil {
						t.Fatal(err)
					}
				}
				raw := codedBy(t, c.by, page)
				now, f := time.Now(), codes(t)
				fields := opted + "Content-Type: text/html\nContent-Encoding: " + c.name + "\nETag: \"of-coded\"\nContent-Digest: x\nContent-MD5: y\nLast-Modified: Mon, 02 Jan 2006 15:04:05 GMT\n"
				first := s.ask(get{target: "/", now: now, filter: f, fields: []string{"Accept-Encoding: gzip, br, zstd"}}, says(200, fields+fmt.Sprintf("Content-Length: %d", len(raw)), raw))
				if first.body != raw || first.fields.Get("Content-Encoding") != c.name || !first.fields.HasToken("Vary", "Accept-Encoding") || first.fields.Get("ETag") != `"of-coded"` {
					t.Fatalf("who asked first: %v", first.fields)
				}
				tags := map[string]bool{`"of-coded"`: true}
				for _, takes := range []string{"identity", "gzip", "br", "zstd"} {
					q := get{target: "/", now: now, filter: f, fields: []string{"Accept-Encoding: " + takes}}
					got := s.ask(q, says(200, "", "asked again"))
					body, coded := got.body, got.fields.Get("Content-Encoding")
					if takes != "identity" {
						b, err := compress.Decode(nil, knownCoding(takes), []byte(got.body), compress.Limits{Max: 1 << 20})
						if err != nil {
							t.Fatal(takes, err)
						}
						body = string(b)
					}
					if body != page || coded != strings.TrimPrefix(takes, "identity") || got.cache != "hit" || !got.fields.HasToken("Vary", "Accept-Encoding") {
						t.Errorf("%s: %q, %d bytes of %d, %v", takes, coded, len(body), len(page), got.fields)
					}
					if got.fields.Has("Content-Digest") || got.fields.Has("Content-MD5") || got.fields.Get("Last-Modified") == "" {
						t.Errorf("%s: %v", takes, got.fields)
					}
					tag := got.fields.Get("ETag")
					if tags[tag] || tag == "" {
						t.Errorf("%s: tag %s is that of another coding", takes, tag)
					}
					tags[tag] = true
					q.fields = append(q.fields, "If-None-Match: "+tag)
					if got := s.ask(q, says(200, "", "asked again")); got.status != 304 || got.fields.Get("ETag") != tag {
						t.Errorf("%s: %d with %s for %s", takes, got.status, got.fields.Get("ETag"), tag)
					}
				}
				// Who holds the application's own coded body is not told that others may have it.
				held := get{target: "/", now: now, filter: f, fields: []string{"If-None-Match: \"of-coded\""}}
				if got := s.ask(held, says(200, "", "asked again")); got.status != 200 || got.body != page {
					t.Errorf("the tag of the coded body: %d", got.status)
				}
			})
		}
	}
}

// A Vary that the application forgot is said of the first answer and of those that follow.
func TestCodedBodiesVary(t *testing.T) {
	s := newSite(Options{})
	defer s.Cache.Close()
	now, page := time.Now(), lines(1000)
	for range 2 { // no filter: this host compresses nothing
		got := s.ask(get{target: "/", now: now}, says(200, opted+"Vary: Accept\nContent-Encoding: gzip", codedBy(t, coding.Gzip, page)))
		if v := got.fields.Get("Vary"); v != "Accept, Accept-Encoding" {
			t.Errorf("Vary %q", v)
		}
	}
}

// What cannot be decoded, or not within bounds, is nobody's but the first client's.
func TestWhatIsNotDecodedIsNotStored(t *testing.T) {
	page := lines(20_000)
	good := codedBy(t, coding.Gzip, page)
	for _, c := range []struct {
		name, fields, body, why string
		most                    int64
	}{
		{"unknown coding", "Content-Encoding: compress", good, "content coding", 0},
		{"deflate, of which there are two", "Content-Encoding: deflate", good, "content coding", 0},
		{"two codings", "Content-Encoding: br, gzip", good, "content coding", 0},
		{"two fields", "Content-Encoding: gzip\nContent-Encoding: gzip", good, "content coding", 0},
		{"no-transform", "Content-Encoding: gzip\nCache-Control: no-transform", good, "coded, and no-transform", 0},
		{"not gzip", "Content-Encoding: gzip", page, "gzip: coded body is corrupt", 0},
		{"not br", "Content-Encoding: br", page, "br: coded body is corrupt", 0},
		{"not zstd", "Content-Encoding: zstd", page, "zstd: coded body is corrupt", 0},
		{"empty", "Content-Encoding: gzip", "", "gzip: ", 0},
		{"cut", "Content-Encoding: gzip", good[:len(good)-1], "gzip: coded body is corrupt", 0},
		{"cut in the middle", "Content-Encoding: gzip", good[:len(good)/2], "gzip: coded body is corrupt", 0},
		{"bytes behind its end", "Content-Encoding: gzip", good + "x", "gzip: coded body is corrupt", 0},
		{"larger than objects may be", "Content-Encoding: gzip", good, "gzip: decoded body too large", int64(len(page)) - 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSite(Options{})
			defer s.Cache.Close()
			s.Policy.MaxObject = 100 << 20
			if c.most != 0 {
				s.Policy.MaxObject = c.most
			}
			q := get{target: "/", now: time.Now()}
			if got := s.ask(q, says(200, opted+c.fields, c.body)); got.body != c.body || got.err != nil || got.cut {
				t.Errorf("the client got %d bytes of %d, %v", len(got.body), len(c.body), got.err)
			}
			if got := s.ask(q, says(404, "", "other")); !got.made {
				t.Errorf("stored: %.40q", got.body)
			}
			s.ask(q, says(200, opted+c.fields, c.body)) // whose reason counts
			if _, last := s.Why("http", "www.test", "/"); last == nil || !strings.HasPrefix(last.Why, c.why) {
				t.Errorf("why: %+v, want %q", last, c.why)
			}
			if n := s.Cache.filling.Load(); n != 0 {
				t.Errorf("%d bytes are still being stored", n)
			}
		})
	}
}

// A body that holds a thousand times what it is long is taken for an attack, far below
// the largest body that is stored; and what is gathered of a coded body is bounded.
func TestDecompressionBombIsNotStored(t *testing.T) {
	page := strings.Repeat("\x00", 8<<20)
	for _, c := range []coding.Set{coding.Gzip, coding.Brotli, coding.Zstd} {
		raw := codedBy(t, c, page)
		s := newSite(Options{MaxBytes: 1 << 30})
		q := get{target: "/", now: time.Now()}
		s.ask(q, says(200, opted+"Content-Encoding: "+c.Name(), raw))
		if got := s.ask(q, says(200, "", "made again")); !got.made {
			t.Errorf("%s: %d bytes in %d are stored", c.Name(), len(page), len(raw))
		}
		if n := s.Cache.store.Counts(); n.Entries != 0 || s.Cache.filling.Load() != 0 {
			t.Errorf("%s: %+v", c.Name(), n)
		}
		s.Cache.Close()
	}
}

// A range of an entry is answered from it, in memory and in a file; a part that an
// application sends is never stored, nor taken for the whole.
func TestRangesOfEntries(t *testing.T) {
	page := lines(100_000)
	for _, disk := range []bool{false, true} {
		s := newSite(Options{})
		if disk {
			var err error
			if s.Disk, err = s.Cache.Disk(t.TempDir()); err != nil {
				t.Fatal(err)
			}
		}
		now, n := time.Now(), len(page)
		q := get{target: "/", now: now, filter: codes(t), fields: []string{"Range: bytes=2-5"}}
		part := says(206, opted+fmt.Sprintf("Content-Range: bytes 2-5/%d", n), page[2:6])
		for range 2 {
			if got := s.ask(q, part); !got.made || got.status != 206 || got.body != page[2:6] {
				t.Fatalf("before there is an entry: %+v", got)
			}
		}
		whole := get{target: "/", now: now}
		if got := s.ask(whole, says(206, opted+fmt.Sprintf("Content-Range: bytes 0-3/%d", n), page[:4])); got.status != 206 { // unasked
			t.Fatal(got.status)
		}
		made := s.ask(whole, says(200, opted+"Content-Type: text/html\nETag: \"strong\"\nLast-Modified: Mon, 02 Jan 2006 15:04:05 GMT", page))
		if !made.made || made.body != page {
			t.Fatal("a part was taken for the whole")
		}
		for _, c := range []struct {
			fields []string
			status int
			body   string
			of     string // Content-Range
		}{
			{[]string{"Range: bytes=2-5"}, 206, page[2:6], fmt.Sprintf("bytes 2-5/%d", n)},
			{[]string{"Range: bytes=2-5", "Accept-Encoding: gzip"}, 206, page[2:6], fmt.Sprintf("bytes 2-5/%d", n)},
			{[]string{"Range: bytes=-7"}, 206, page[n-7:], fmt.Sprintf("bytes %d-%d/%d", n-7, n-1, n)},
			{[]string{"Range: bytes=70000-"}, 206, page[70000:], fmt.Sprintf("bytes 70000-%d/%d", n-1, n)},
			{[]string{"Range: bytes=0-999999999999"}, 206, page, fmt.Sprintf("bytes 0-%d/%d", n-1, n)},
			{[]string{"Range: bytes=1-2,4-5"}, 200, page, ""},
			{[]string{"Range: lines=1-2"}, 200, page, ""},
			{[]string{fmt.Sprintf("Range: bytes=%d-", n)}, 416, "", fmt.Sprintf("bytes */%d", n)},
			{[]string{"Range: bytes=2-5", `If-Range: "strong"`}, 206, page[2:6], fmt.Sprintf("bytes 2-5/%d", n)},
			{[]string{"Range: bytes=2-5", `If-Range: "other"`}, 200, page, ""},
			{[]string{"Range: bytes=2-5", `If-Range: W/"strong"`}, 200, page, ""},
			{[]string{"Range: bytes=2-5", "If-Range: Mon, 02 Jan 2006 15:04:05 GMT"}, 206, page[2:6], fmt.Sprintf("bytes 2-5/%d", n)},
			{[]string{"Range: bytes=2-5", "If-Range: Mon, 02 Jan 2006 15:04:06 GMT"}, 200, page, ""},
			{[]string{"Range: bytes=2-5", `If-None-Match: "strong"`}, 304, "", ""},
		} {
			q := get{target: "/", now: now, filter: codes(t), fields: c.fields}
			got := s.ask(q, part)
			if got.made || got.status != c.status || got.fields.Get("Content-Range") != c.of || c.status != 416 && got.body != c.body {
				t.Errorf("files %v, %q: %d, %q, %d bytes, made %v", disk, c.fields, got.status, got.fields.Get("Content-Range"), len(got.body), got.made)
			}
		}
		if got := s.ask(get{method: "HEAD", target: "/", now: now, fields: []string{"Range: bytes=2-5"}}, part); got.status != 200 { // RFC 9110 §14.2
			t.Errorf("HEAD: %d", got.status)
		}
		s.Cache.Close()
	}
}
