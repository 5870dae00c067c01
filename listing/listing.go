// Package listing answers an exchange with the page of a directory's listing. What
// may be listed is decided before: it is in the exchange's Resource. It reads no
// directory.
package listing

import (
	"cmp"
	"html"
	"slices"
	"strconv"
	"strings"
	"time"

	"httpjet/docroot"
	"httpjet/exchange"
)

// Handler makes the pages. Its zero value is ready; it has no state.
type Handler struct{}

// Serve answers x with the page of x.Resource.Listing (R-STATIC-3). The query C=N,
// M or S (name, time, size) and O=A or D orders it; directories stand first.
func (Handler) Serve(x *exchange.Exchange) error {
	if x.Req.Method != "GET" && x.Req.Method != "HEAD" {
		return &exchange.Error{Status: 405, Reason: "method_not_allowed",
			Fields: []exchange.Field{{Name: "Allow", Value: "GET, HEAD"}}}
	}
	if x.Resource.Listing == nil {
		panic("BUG: listing: exchange without a listing")
	}
	page := render(x.Req.Path, x.Req.Query, x.Resource.Listing)
	f := &x.Resp.Fields
	f.Add("Content-Type", "text/html; charset=utf-8")
	f.Add("Cache-Control", "no-cache")
	// Names of files are anybody's: nothing on the page runs, whatever they are.
	f.Add("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	f.Add("X-Content-Type-Options", "nosniff")
	x.Resp.Length = int64(len(page))
	if err := x.Start(200); err != nil {
		return err
	}
	_, err := x.Write(page)
	return err
}

// order reads the query; anything else than the known words is by name.
func order(query string) (column byte, down bool) {
	column = 'N'
	for part := range strings.FieldsFuncSeq(query, func(r rune) bool { return r == '&' || r == ';' }) {
		switch part {
		case "C=N", "C=M", "C=S":
			column = part[2]
		case "O=D":
			down = true
		}
	}
	return column, down
}

func sorted(list []exchange.Entry, column byte, down bool) {
	slices.SortFunc(list, func(a, b exchange.Entry) int {
		if a.Dir != b.Dir {
			if a.Dir {
				return -1
			}
			return 1
		}
		n := 0
		switch column {
		case 'M':
			n = a.Modified.Compare(b.Modified)
		case 'S':
			n = cmp.Compare(a.Size, b.Size)
		}
		if n == 0 {
			n = strings.Compare(a.Name, b.Name)
		}
		if down {
			n = -n
		}
		return n
	})
}

const head = "<style>body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:60em;padding:0 1em;color:#222}" +
	"table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.1em 1em .1em 0}td:nth-child(n+2){white-space:nowrap}</style></head>\n<body><h1>"

func render(path, query string, l *exchange.Listing) []byte {
	column, down := order(query)
	sorted(l.Entries, column, down)
	title := html.EscapeString("Index of " + strings.ToValidUTF8(path, "\uFFFD"))
	var b strings.Builder
	b.WriteString("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"robots\" content=\"noindex\"><title>" + title + "</title>")
	b.WriteString(head + title + "</h1>\n<table><tr>")
	for _, c := range [...][2]string{{"N", "Name"}, {"M", "Last modified"}, {"S", "Size"}} {
		direction := "A"
		if column == c[0][0] && !down {
			direction = "D"
		}
		b.WriteString("<th><a href=\"?C=" + c[0] + "&amp;O=" + direction + "\">" + c[1] + "</a></th>")
	}
	b.WriteString("</tr>\n")
	if path != "/" {
		b.WriteString("<tr><td><a href=\"../\">Parent directory</a></td><td></td><td></td></tr>\n")
	}
	for i := range l.Entries {
		row(&b, &l.Entries[i])
	}
	b.WriteString("</table>\n")
	if l.More {
		b.WriteString("<p>There are more names than are shown.</p>\n")
	}
	b.WriteString("</body></html>\n")
	return []byte(b.String())
}

// row writes one name. The link begins with ./ so that no name is taken for a
// scheme, a query or another host.
func row(b *strings.Builder, e *exchange.Entry) {
	name, size := strings.ToValidUTF8(e.Name, "\uFFFD"), strconv.FormatInt(e.Size, 10)
	href := "./" + docroot.Encode(e.Name)
	if e.Dir {
		name, href, size = name+"/", href+"/", "-"
	}
	b.WriteString("<tr><td><a href=\"" + html.EscapeString(href) + "\">" + html.EscapeString(name) + "</a></td><td>" +
		e.Modified.UTC().Format(time.DateTime) + "</td><td>" + size + "</td></tr>\n")
}
