package listing

import (
	"strings"
	"testing"
	"time"

	"httpjet/exchange"
)

// Whatever a name is, the page holds it as text and the link leads to it alone.
func TestRenderEscapes(t *testing.T) {
	for _, name := range []string{`"><script>`, "javascript:x", "//evil.test", `\\evil.test`, "a?b#c%", "\xff\xfe", "..", "'\n"} {
		page := string(render("/d\"<>/", "", &exchange.Listing{Entries: []exchange.Entry{{Name: name, Modified: time.Unix(0, 0)}}}))
		if strings.Contains(page, "<script>") || strings.Contains(page, `d"<>`) || !strings.Contains(page, `<td><a href="./`) {
			t.Errorf("%q: %s", name, page)
		}
	}
}

func FuzzRender(f *testing.F) {
	f.Add("/a/", "C=M", "<b>")
	f.Fuzz(func(t *testing.T, path, query, name string) {
		page := string(render(path, query, &exchange.Listing{Entries: []exchange.Entry{{Name: name}}}))
		if n := strings.Count(page, "<a "); n != 4 && n != 5 {
			t.Errorf("%d links: %s", n, page)
		}
	})
}
