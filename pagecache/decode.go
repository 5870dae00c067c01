package pagecache

import (
	"fmt"
	"io"

	"httpjet/coding"
	"httpjet/compress"
	"httpjet/exchange"
)

// A body that the application has compressed by itself is stored decoded (R-CACHE-7):
// one entry is for all clients, whatever codings they take, and each gets it in his own.
// It is gathered as it comes, and decoded behind its last byte, when it is known to be
// whole. What cannot be decoded, holds bytes behind its end, or holds far more than it
// is long, goes to the client as the application said it, and to nobody else.

// maxCoded bounds what is gathered of a body that is coded, bytes.
const maxCoded = 16 << 20

// codingOf returns the coding that a head names, 0 for none; false if it is none that is
// known here, or there are several.
func codingOf(fields []exchange.Field) (c coding.Set, ok bool) {
	for _, f := range fields {
		if !exchange.EqualName(f.Name, "Content-Encoding") {
			continue
		}
		for name := range elements(f.Value) {
			one := knownCoding(name)
			switch {
			case exchange.EqualName(name, "identity"):
			case one == 0 || c != 0:
				return 0, false
			default:
				c = one
			}
		}
	}
	return c, true
}

func knownCoding(name string) coding.Set {
	if exchange.EqualName(name, "x-gzip") { // RFC 9110 §8.4.1.3
		return coding.Gzip
	}
	for _, c := range coding.All {
		if exchange.EqualName(name, c.Name()) {
			return c
		}
	}
	return 0
}

// undecodable says why the body of an answer cannot be stored as it is, or decoded.
func (r *Run) undecodable() string {
	c, ok := codingOf(r.made.fields)
	f := &r.x.Resp.Fields
	said := 0
	for name := range f.Tokens("Content-Encoding") {
		if !exchange.EqualName(name, "identity") {
			said++
		}
	}
	switch {
	case !ok || c == 0 && said > 0 || c != 0 && said != 1: // edits of the answer have a say too
		return "content coding"
	case c != 0 && f.HasToken("Cache-Control", "no-transform"):
		return "coded, and no-transform" // RFC 9110 §7.7
	}
	return ""
}

// decode takes what was gathered as the body that is stored. It returns false if that is
// not possible, and remembers why.
func (t *tee) decode() bool {
	r := t.r
	raw := t.raw.Body()
	d, err := compress.NewReader(r.keep.coded, raw.Reader(), compress.Limits{Max: r.policy.MaxObject})
	if err == nil {
		defer d.Close()
		err = t.takeAll(d)
	}
	if err != nil {
		r.site.Cache.noted(r.key, fmt.Sprintf("%s: %v", r.keep.coded.Name(), err), r.began)
	}
	return err == nil && !t.off
}

// takeAll takes decoded bytes until there are no more, or no room for them.
func (t *tee) takeAll(d io.Reader) error {
	var buf [16 << 10]byte
	for !t.off {
		n, err := d.Read(buf[:])
		if n > 0 {
			t.take(buf[:n])
		}
		switch err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
	}
	return nil
}

// gather takes bytes of a body that is coded.
func (t *tee) gather(p []byte) { t.hold(&t.raw, p) }

// ofCoded reports whether a field is about a body as it was coded. Its tag goes too: who
// holds the coded body must not be told by it that he may use it for another client, and
// that of the stored one is made of its bytes.
func ofCoded(name string) bool {
	for _, n := range [...]string{"Content-Encoding", "ETag", "Content-Digest", "Repr-Digest", "Digest", "Content-MD5"} {
		if exchange.EqualName(name, n) {
			return true
		}
	}
	return false
}

// variesByCoding makes sure that a stored head says that its body comes in several
// codings, whether its application has said so or not.
func variesByCoding(list []exchange.Field) []exchange.Field {
	var f exchange.Fields
	for _, fd := range list {
		f.Add(fd.Name, fd.Value)
	}
	compress.Vary(&f)
	list = list[:0]
	for i := range f.Len() {
		list = append(list, f.At(i))
	}
	return list
}
