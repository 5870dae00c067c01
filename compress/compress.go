// Package compress sends answers in a content coding that their client takes
// (RFC 9110 §8.4): gzip, Brotli or Zstandard, chosen by its Accept-Encoding, coded
// as the bytes come and flushed when the handler flushes. It also codes and decodes
// whole bodies within bounds, for caches. It knows no configuration, keeps no body
// and decides nothing about access.
//
// A Filter stands nearest to the wire, so that what caches and edits of fields see
// is the answer as it was made.
package compress

import (
	"strings"
	"sync"

	"httpjet/coding"
	"httpjet/exchange"
)

// leastBody is the size of the smallest body that is coded, in bytes (R-COMP-2):
// below it a coding costs more than it saves.
const leastBody = 201

// leastError is that of the server's own answers to errors: what fits into one packet
// is sent as it is, so that requests for nothing cost no time of the processor.
const leastError = 1400

// Levels are how hard the encoders try.
type Levels struct {
	Gzip   int // 1 to 9
	Brotli int // 0 to 11
	Zstd   int // 1 to 22
}

func (l Levels) of(c coding.Set) int {
	switch c {
	case coding.Zstd:
		return l.Zstd
	case coding.Brotli:
		return l.Brotli
	}
	return l.Gzip
}

// Options describe a Filter. Of the zero value nothing is coded.
type Options struct {
	Encoders *Encoders // shared with all others; never nil
	Types    *Types    // of answers that are coded; nil: none

	Dynamic coding.Set // offered for answers of applications and upstreams
	Levels  Levels     // for them

	Files       coding.Set // offered for files
	FileLevels  Levels     // for them
	LeastFile   int64      // smallest file that is coded, bytes
	LargestFile int64      // largest, bytes

	Proxied bool // answers of HTTP upstreams are coded like those of applications (R-COMP-3)
	Events  bool // event streams are coded like other text (R-STREAM-2)
}

// Filter codes answers. It is immutable and takes part in any number of exchanges,
// each by a part of its own.
type Filter struct{ o Options }

// New returns a filter.
func New(o Options) *Filter {
	if o.Encoders == nil {
		panic("BUG: compress: filter without encoders")
	}
	o.LeastFile = max(o.LeastFile, leastBody)
	return &Filter{o}
}

// Join lets f take part in the answer of x. The filters that join later stand
// between it and the handler. Conditions of the request that name answers as f has
// coded them become conditions about the answers as their makers know them.
func (f *Filter) Join(x *exchange.Exchange) {
	p := parts.Get().(*part)
	p.f, p.x = f, x
	p.named = translate(&x.Req.Fields)
	x.Use(p)
}

// parts holds the memory of parts between exchanges.
var parts = sync.Pool{New: func() any { return new(part) }}

// wish is what f makes of an answer.
type wish struct {
	varies bool       // the coding of the answer depends on Accept-Encoding
	choice coding.Set // what the client gets; 0: as it is
	offer  coding.Set // what it could be
	file   bool       // it is a file, or a page of it
	events bool       // it is an event stream
}

// Choose returns the coding in which x, whose head is made and not coded, goes to its
// client; 0 for none. It is for those who hold coded copies of the body: who has one
// sends it with Mark.
func (f *Filter) Choose(x *exchange.Exchange) coding.Set { return f.wish(x).choice }

// wish applies the conditions of R-COMP-2 to a head as its maker left it.
func (f *Filter) wish(x *exchange.Exchange) (w wish) {
	if s := x.Resp.Status; s < 200 || s == 204 || s == 205 {
		return w
	}
	w.file = x.Failed || x.Route.Kind == exchange.Files && x.Resource.Listing == nil
	switch {
	case w.file:
		w.offer = f.o.Files
	case x.Route.Kind != exchange.Proxy || f.o.Proxied:
		w.offer = f.o.Dynamic
	}
	if w.offer == 0 {
		return w
	}
	h := read(&x.Resp.Fields)
	if h.untouchable || !f.takes(x, h.mediaType, &w) || !f.fits(x, w.file) {
		return w
	}
	if w.offer &^= refused(x.Env); w.offer == 0 {
		return w
	}
	w.varies = true
	if x.Resp.Status == 304 || x.Resp.Status == 206 || h.partial || x.Req.Method == "GET" && x.Req.Fields.Has("Range") {
		return w // a range is one of the bytes as they are
	}
	if !w.file && x.Req.Fields.HasToken("Cache-Control", "no-transform") {
		return w
	}
	w.choice = accepted(&x.Req.Fields).Best(w.offer)
	return w
}

// accepted reads the Accept-Encoding fields of a request: all lines are one list.
func accepted(f *exchange.Fields) coding.Accept {
	var a coding.Accept
	for i := range f.Len() {
		if fd := f.At(i); exchange.EqualName(fd.Name, "Accept-Encoding") {
			a.AddField(fd.Value)
		}
	}
	return a
}

// takes reports whether the type of an answer is one that is coded. A 304 names no
// type (RFC 9110 §15.4.5): that of a file is known, others are taken for text, since
// a Vary too many harms no cache.
func (f *Filter) takes(x *exchange.Exchange, mediaType string, w *wish) bool {
	if s := x.Resp.Status; (s == 304 || s == 206) && w.file && x.Resource.Type != "" {
		mediaType = x.Resource.Type
	}
	if mediaType == "" {
		return x.Resp.Status == 304 && !w.file
	}
	if !f.o.Types.match(mediaType) {
		return false
	}
	w.events = isEvents(mediaType)
	return !w.events || f.o.Events
}

// fits reports whether an answer is neither too small nor, as a file, too large. What
// has no length yet fits.
func (f *Filter) fits(x *exchange.Exchange, file bool) bool {
	n, least := x.Resp.Length, int64(leastBody)
	switch {
	case x.Failed:
		least = leastError
	case file:
		least = f.o.LeastFile
		if x.Resource.Info != nil {
			n = x.Resource.Info.Size() // of the whole, also for 206 and 304
		}
	case x.Resp.Status == 304 || x.Resp.Status == 206:
		return true
	}
	if n < 0 {
		return true
	}
	return n >= least && (!file || n <= f.o.LargestFile)
}

// head is what the fields of an answer say about coding it.
type head struct {
	mediaType   string
	untouchable bool // it is coded, or must not be changed
	partial     bool
}

// read looks through the fields once.
func read(f *exchange.Fields) (h head) {
	for i := range f.Len() {
		fd := f.At(i)
		switch len(fd.Name) {
		case len("Content-Type"):
			if exchange.EqualName(fd.Name, "Content-Type") && h.mediaType == "" {
				h.mediaType = fd.Value
			}
		case len("Content-Encoding"):
			// Content-Encoding; and a digest is one of the bytes as sent (RFC 9530 §2).
			if exchange.EqualName(fd.Name, "Content-Encoding") {
				h.untouchable = true
			}
		case len("Content-Digest"):
			if exchange.EqualName(fd.Name, "Content-Digest") {
				h.untouchable = true
			}
		case len("Cache-Control"):
			switch {
			case exchange.EqualName(fd.Name, "Cache-Control"):
				if strings.Contains(fd.Value, "ransform") && f.HasToken("Cache-Control", "no-transform") {
					h.untouchable = true // RFC 9111 §5.2.2.6
				}
			case exchange.EqualName(fd.Name, "Content-Range"):
				h.partial = true
			}
		case len("Content-MD5"):
			if exchange.EqualName(fd.Name, "Content-MD5") || exchange.EqualName(fd.Name, "Repr-Digest") {
				h.untouchable = true
			}
		case len("Digest"):
			if exchange.EqualName(fd.Name, "Digest") {
				h.untouchable = true
			}
		}
	}
	return h
}

// refused returns the codings that rules have taken off an answer: no-gzip stands for
// all of them, as in LiteSpeed, others for one.
func refused(env []exchange.Field) (s coding.Set) {
	for _, e := range env {
		if len(e.Name) < len("no-br") || e.Name[2] != '-' || e.Value == "0" {
			continue
		}
		switch {
		case exchange.EqualName(e.Name, "no-gzip"):
			s |= coding.Gzip | coding.Brotli | coding.Zstd
		case exchange.EqualName(e.Name, "no-br"), exchange.EqualName(e.Name, "no-brotli"):
			s |= coding.Brotli
		case exchange.EqualName(e.Name, "no-zstd"):
			s |= coding.Zstd
		}
	}
	return s
}

// Refused returns the codings that rules have taken off the answer of x: the variables
// no-gzip, for all of them, no-br and no-zstd.
func Refused(x *exchange.Exchange) coding.Set { return refused(x.Env) }

// Vary says in fields that the answer depends on Accept-Encoding, once.
func Vary(f *exchange.Fields) {
	first, n := "", 0
	for i := range f.Len() {
		if fd := f.At(i); exchange.EqualName(fd.Name, "Vary") {
			if n++; n == 1 {
				first = fd.Value
			}
		}
	}
	switch {
	case n == 0:
		f.Add("Vary", "Accept-Encoding")
	case f.HasToken("Vary", "Accept-Encoding") || f.HasToken("Vary", "*"):
	case n == 1 && strings.Trim(first, " \t") != "":
		f.Set("Vary", first+", Accept-Encoding")
	default:
		f.Add("Vary", "Accept-Encoding")
	}
}

// Mark says in the head of x that its body is coded in c (R-COMP-2). Its length is
// not known then; who knows it sets it. The answer must be one that Choose has
// returned c for.
func Mark(x *exchange.Exchange, c coding.Set) {
	f := &x.Resp.Fields
	f.Add("Content-Encoding", c.Name())
	f.Del("Accept-Ranges")
	if tag := f.Get("ETag"); tag != "" {
		f.Set("ETag", coded(tag, c, x.Route.Kind == exchange.Files))
	}
	x.Resp.Length = -1
}
