package status

import (
	"regexp"
	"strings"
	"testing"
)

// The page is for whom the documents are for, loads nothing from elsewhere, and every
// element that its script writes into is there.
func TestPage(t *testing.T) {
	c := Config{Addr: "127.0.0.1:9090", API: &API{State: func() State { return State{} }}}
	for path, media := range map[string]string{"/": "text/html", "/dashboard.css": "text/css", "/dashboard.js": "text/javascript"} {
		w := ask(t, c, "GET", path, "127.0.0.1:5000")
		if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), media) || w.Body.Len() == 0 ||
			!strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v", path, w.Code, w.Header())
		}
		if regexp.MustCompile(`(?i)(https?:)?//[a-z]`).MatchString(strings.ReplaceAll(w.Body.String(), "// ", "")) {
			t.Errorf("%s names another origin", path)
		}
		if w = ask(t, c, "HEAD", path, "127.0.0.1:5000"); w.Code != 200 || w.Body.Len() != 0 {
			t.Errorf("HEAD %s: %d with %d bytes", path, w.Code, w.Body.Len())
		}
		if w = ask(t, c, "GET", path, "192.0.2.1:5000"); w.Code != 403 {
			t.Errorf("%s for a stranger: %d", path, w.Code)
		}
	}
	html, js := ask(t, c, "GET", "/", "127.0.0.1:5000").Body.String(), ask(t, c, "GET", "/dashboard.js", "127.0.0.1:5000").Body.String()
	for _, m := range regexp.MustCompile(`\$\("([^"]+)"\)`).FindAllStringSubmatch(js, -1) {
		if !strings.Contains(html, `id="`+m[1]+`"`) {
			t.Errorf("the page has no element %s", m[1])
		}
	}
	if strings.Contains(js, "innerHTML") || strings.Contains(js, "eval(") {
		t.Error("the script makes markup of text")
	}
}
