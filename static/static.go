// Package static answers an exchange with the file that its path resolved to:
// type, validators, conditions, ranges. It finds no file and decides no access;
// that is done when x.Resource is opened.
package static

import (
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"httpjet/exchange"
	"httpjet/headers"
)

// The parts of an ETag (R-STATIC-5), as fileETag adds them up.
const (
	ETagInode = 4
	ETagMTime = 8
	ETagSize  = 16
)

// Options describe a Handler.
type Options struct {
	Types       map[string]string // media type by suffix: lower case, no dot
	DefaultType string            // of other suffixes; "": application/octet-stream
	ETag        int               // parts of the tag, any sum of the ETag constants; 0: no tag
	Charset     string            // added to text types that name none; "": not added
	Force       string            // media type of every file, whatever its suffix; "": by suffix
	Expires     *headers.Expires  // how long answers may be kept; nil: not told
}

// Handler serves files. It is immutable.
type Handler struct {
	types map[string]string
	other string
	etag  int

	forced  string
	expires *headers.Expires
}

// New returns a handler; it copies what it needs of o.
func New(o Options) *Handler {
	h := &Handler{types: make(map[string]string, len(o.Types)), other: o.DefaultType, etag: o.ETag, expires: o.Expires}
	if h.other == "" {
		h.other = "application/octet-stream"
	}
	h.other = withCharset(h.other, o.Charset)
	if o.Force != "" {
		h.forced = withCharset(o.Force, o.Charset)
	}
	for suffix, t := range o.Types {
		h.types[suffix] = withCharset(t, o.Charset)
	}
	return h
}

// withCharset adds the charset to the types that addDefaultCharset is for
// (R-STATIC-7).
func withCharset(t, charset string) string {
	base, params, _ := strings.Cut(t, ";")
	base = strings.ToLower(strings.TrimSpace(base))
	switch {
	case charset == "" || strings.Contains(strings.ToLower(params), "charset="):
		return t
	case strings.HasPrefix(base, "text/"), base == "application/json",
		base == "application/javascript", base == "application/x-javascript":
		return t + "; charset=" + charset
	}
	return t
}

// Serve answers x with the file of x.Resource. Its steps stand in the order of
// RFC 9110 §13.2.2.
func (h *Handler) Serve(x *exchange.Exchange) error {
	if x.Req.Method != "GET" && x.Req.Method != "HEAD" {
		return &exchange.Error{Status: 405, Reason: "method_not_allowed",
			Fields: []exchange.Field{{Name: "Allow", Value: "GET, HEAD"}}} // R-STATIC-1
	}
	if x.Resource.File == nil && x.Resource.Content == nil {
		panic("BUG: static: exchange without a file")
	}
	f := h.describe(x)
	x.Resource.Type = f.mediaType
	switch f.check(&x.Req.Fields) {
	case failed:
		return exchange.Fail(412, "precondition_failed", "precondition does not hold for %s", x.Resource.Name)
	case unchanged:
		f.addValidators(x)
		return x.Start(304)
	}
	if v := rangeField(&x.Req); v != "" && f.ifRange(&x.Req.Fields) {
		if spans, ok := parseRange(v, f.size); ok {
			return f.sendSpans(x, spans)
		}
	}
	f.addHead(x)
	x.Resp.Fields.Add("Content-Type", f.mediaType)
	x.Resp.Length = f.size
	if err := x.Start(200); err != nil {
		return err
	}
	return f.send(x, span{0, f.size})
}

// file is what a response says about a resource.
type file struct {
	size         int64
	mediaType    string
	etag         string // with its quotes; "" for none
	modified     time.Time
	lastModified string // modified, as a field
	recent       bool   // may change again within the second that modified names
	coding       string // in which it is sent, as Resource.Coding
	expiry       *headers.Expiry
}

// memo is what a handler keeps with a version of a file. Another handler may
// serve the same file with other types and tags.
type memo struct {
	by *Handler
	file
}

// describe returns what is said about the file of x. It is worked out once for
// each version that is remembered, as soon as it does not depend on the clock.
func (h *Handler) describe(x *exchange.Exchange) file {
	if m, ok := x.Resource.Memo.Get().(*memo); ok && m.by == h && m.coding == x.Resource.Coding {
		return m.file
	}
	info, now := x.Resource.Info, time.Now()
	f := file{size: info.Size(), mediaType: h.mediaType(x.Resource.Name), modified: info.ModTime(), coding: x.Resource.Coding}
	f.etag = h.tag(f.size, f.modified.Unix(), info.Sys(), f.coding)
	f.expiry = h.expires.Find(f.mediaType)
	if f.modified.After(now) {
		f.modified = now // RFC 9110 §8.8.2.1: not later than Date
	}
	f.modified = f.modified.Truncate(time.Second)
	f.lastModified = f.modified.UTC().Format(http.TimeFormat)
	f.recent = now.Sub(f.modified) < time.Second
	if !f.recent && x.Resource.Memo != nil {
		x.Resource.Memo.Put(&memo{h, f})
	}
	return f
}

// mediaType looks the suffix of name up, folding ASCII case.
func (h *Handler) mediaType(name string) string {
	if h.forced != "" {
		return h.forced
	}
	i := len(name)
	for i > 0 && name[i-1] != '.' && name[i-1] != '/' {
		i--
	}
	var buf [32]byte
	suffix := name[i:]
	if i == 0 || name[i-1] != '.' || len(suffix) > len(buf) {
		return h.other
	}
	for j := range len(suffix) {
		c := suffix[j]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		buf[j] = c
	}
	if t, ok := h.types[string(buf[:len(suffix)])]; ok {
		return t
	}
	return h.other
}

// tag builds the strong tag "<size>-<mtime>-<inode>;;;" of the chosen parts in
// lower-case hex (R-STATIC-5). A compressed variant ends otherwise behind its
// first semicolon: its numbers are those of the compressed file.
func (h *Handler) tag(size, mtime int64, sys any, coding string) string {
	if h.etag&(ETagInode|ETagMTime|ETagSize) == 0 {
		return ""
	}
	var buf [64]byte
	b := append(buf[:0], '"')
	part := func(bit int, v uint64) {
		if h.etag&bit == 0 {
			return
		}
		if len(b) > 1 {
			b = append(b, '-')
		}
		b = strconv.AppendUint(b, v, 16)
	}
	part(ETagSize, uint64(size))
	part(ETagMTime, uint64(mtime))
	if st, ok := sys.(*syscall.Stat_t); ok {
		part(ETagInode, st.Ino)
	}
	switch coding {
	case "":
		return string(append(b, `;;;"`...))
	case "gzip":
		coding = "gz"
	}
	return string(append(append(append(b, ';'), coding...), '"'))
}

// addHead adds what 200 and 206 have in common (R-STATIC-4).
func (f *file) addHead(x *exchange.Exchange) {
	f.addValidators(x)
	x.Resp.Fields.Add("Accept-Ranges", "bytes")
	if f.coding != "" {
		x.Resp.Fields.Add("Content-Encoding", f.coding)
	}
}

// addValidators adds what 304 has too (RFC 9110 §15.4.5): a file that lies beside
// itself in another coding varies, whichever of them was sent.
func (f *file) addValidators(x *exchange.Exchange) {
	to := &x.Resp.Fields
	if f.etag != "" {
		to.Add("ETag", f.etag)
	}
	to.Add("Last-Modified", f.lastModified)
	if x.Resource.Siblings != 0 {
		to.Add("Vary", "Accept-Encoding")
	}
	if f.expiry != nil {
		f.expiry.Add(to, f.modified, x.Recent())
	}
}

// send sends part of the file: from memory if it is there, else by the wire's own
// means.
func (f *file) send(x *exchange.Exchange, s span) error {
	if s.length() == 0 {
		return nil
	}
	if c := x.Resource.Content; c != nil {
		_, err := x.Write(c[s.start:s.end])
		return err
	}
	return x.SendFile(x.Resource.File, s.start, s.length())
}
