package status

import (
	"bytes"
	"embed"
	"net/http"
	"time"
)

// The page for people. It is made of the documents for machines, and of nothing else.
//
//go:embed dashboard
var dashboard embed.FS

// pages are the files of the page, by path.
var pages = map[string]struct{ name, media string }{
	"/":              {"dashboard/index.html", "text/html; charset=utf-8"},
	"/dashboard.css": {"dashboard/dashboard.css", "text/css; charset=utf-8"},
	"/dashboard.js":  {"dashboard/dashboard.js", "text/javascript; charset=utf-8"},
}

// servePage answers with a file of the page and reports whether there is one. The page
// may load and ask its own origin only, and nobody may frame it.
func servePage(w http.ResponseWriter, r *http.Request) bool {
	p, ok := pages[r.URL.Path]
	if !ok {
		return false
	}
	text, err := dashboard.ReadFile(p.name)
	if err != nil {
		panic("BUG: status: " + err.Error())
	}
	h := w.Header()
	h.Set("Content-Type", p.media)
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
	return true
}
