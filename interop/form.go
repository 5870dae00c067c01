package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/html"
)

// A webForm is a form of a page with the values that a browser would send if its
// user pressed nothing but a button.
type webForm struct {
	url.Values
	action string // path and query
}

// formOf finds the form of a page whose id or name is given.
func formOf(a *answer, name string) (*webForm, error) {
	page, err := html.Parse(bytes.NewReader(a.body))
	if err != nil {
		return nil, err
	}
	for n := range page.Descendants() {
		if n.Data != "form" || attribute(n, "id") != name && attribute(n, "name") != name {
			continue
		}
		f := &webForm{Values: url.Values{}}
		to, err := a.Request.URL.Parse(attribute(n, "action"))
		if err != nil {
			return nil, err
		}
		f.action = to.RequestURI()
		for field := range n.Descendants() {
			f.take(field)
		}
		return f, nil
	}
	return nil, fmt.Errorf("%s has no form %q:\n%.1500s", a.Request.URL.RequestURI(), name, a.body)
}

// take adds a field of the form, if n is one that is sent.
func (f *webForm) take(n *html.Node) {
	name := attribute(n, "name")
	switch {
	case name == "" || n.Type != html.ElementNode || hasAttribute(n, "disabled"):
	case n.Data == "textarea":
		if n.FirstChild != nil {
			f.Add(name, n.FirstChild.Data)
		}
	case n.Data == "select":
		var chosen *html.Node
		for o := range n.Descendants() {
			if o.Data == "option" && (chosen == nil || hasAttribute(o, "selected")) {
				chosen = o
			}
		}
		if chosen != nil {
			f.Add(name, attribute(chosen, "value"))
		}
	case n.Data == "input":
		switch attribute(n, "type") {
		case "submit", "button", "image", "file":
		case "checkbox", "radio":
			if hasAttribute(n, "checked") {
				f.Add(name, attribute(n, "value"))
			}
		default:
			f.Add(name, attribute(n, "value"))
		}
	}
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func hasAttribute(n *html.Node, name string) bool {
	for _, a := range n.Attr {
		if a.Key == name {
			return true
		}
	}
	return false
}

// submit posts a form as a browser does.
func (c *client) submit(f *webForm, status int) (*answer, error) {
	body := f.Encode()
	return want(status)(c.send("POST", f.action, strings.NewReader(body), int64(len(body)), "Content-Type: application/x-www-form-urlencoded"))
}

// submitFile posts a form with a file in it; the length of the body is declared, or
// not.
func (c *client) submitFile(f *webForm, field, name string, data []byte, declared bool, status int) (*answer, error) {
	var body bytes.Buffer // takes everything
	m := multipart.NewWriter(&body)
	for k, list := range f.Values {
		for _, v := range list {
			m.WriteField(k, v)
		}
	}
	w, err := m.CreateFormFile(field, name)
	if err != nil {
		return nil, err
	}
	w.Write(data)
	m.Close()
	length, r := int64(body.Len()), io.Reader(&body)
	if !declared {
		length, r = -1, unsized(body.Bytes())
	}
	return want(status)(c.send("POST", f.action, r, length, "Content-Type: "+m.FormDataContentType()))
}

// follow goes where redirects of this host lead.
func (c *client) follow(a *answer, err error) (*answer, error) {
	for range 5 {
		if err != nil || a.StatusCode < 300 || a.StatusCode > 308 {
			return a, err
		}
		var to *url.URL
		if to, err = a.Location(); err != nil {
			return nil, err
		}
		if !strings.HasPrefix(c.base, "http://"+to.Host) {
			return nil, fmt.Errorf("%s redirects to another host: %s", a.Request.URL.RequestURI(), to)
		}
		a, err = c.send("GET", to.RequestURI(), nil, 0)
	}
	if err == nil && a.StatusCode >= 300 && a.StatusCode <= 308 {
		err = errors.New("too many redirects, the last to " + a.Header.Get("Location"))
	}
	return a, err
}

// visit gets a page behind its redirects.
func (c *client) visit(path string, status int, texts ...string) (*answer, error) {
	a, err := want(status)(c.follow(c.send("GET", path, nil, 0)))
	if err != nil {
		return nil, err
	}
	return a, holds(a, texts...)
}

// lacks is an error if one of the texts is in the answer's body.
func lacks(a *answer, texts ...string) error {
	for _, t := range texts {
		if bytes.Contains(a.body, []byte(t)) {
			return fmt.Errorf("%s holds %q", a.Request.URL.RequestURI(), t)
		}
	}
	return nil
}

// statuses asks for paths that all have to answer alike; leak is searched in each.
func (c *client) statuses(status int, leak string, paths ...string) (string, error) {
	var errs []error
	for _, p := range paths {
		a, err := c.get(p, status)
		if err == nil && bytes.Contains(a.body, []byte(leak)) {
			err = fmt.Errorf("%s answers %d with %q inside", p, a.StatusCode, leak)
		}
		errs = append(errs, err)
	}
	return fmt.Sprintf("%d paths answer %d %s", len(paths), status, http.StatusText(status)), errors.Join(errs...)
}
