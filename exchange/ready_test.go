package exchange

import (
	"fmt"
	"strings"
	"testing"
)

// What is ready is so only as long as nobody has changed it: what was added behind it may
// be changed as one likes.
func TestReadyFieldsAreUntouched(t *testing.T) {
	ready := NewReady([]Field{{"Content-Type", "text/html"}, {"Vary", "Cookie"}, {"ETag", `"a"`}})
	for _, c := range []struct {
		what string
		edit func(f *Fields)
		want bool
	}{
		{"nothing", func(*Fields) {}, true},
		{"one more", func(f *Fields) { f.Add("Age", "1") }, true},
		{"one that was not there is set", func(f *Fields) { f.Set("Age", "1") }, true},
		{"one behind it is set again", func(f *Fields) { f.Add("Age", "1"); f.Set("age", "2") }, true},
		{"one behind it goes", func(f *Fields) { f.Add("Age", "1"); f.Del("AGE") }, true},
		{"nothing is called so", func(f *Fields) { f.Del("Age") }, true},
		{"the last of it is set", func(f *Fields) { f.Set("etag", `"b"`) }, false},
		{"the first of it is set to what it is", func(f *Fields) { f.Set("Content-Type", "text/html") }, false},
		{"one of it goes", func(f *Fields) { f.Del("vary") }, false},
		{"one of it and one behind it go", func(f *Fields) { f.Add("Vary", "Origin"); f.Del("Vary") }, false},
		{"some go", func(f *Fields) { f.DelFunc(func(fd Field) bool { return strings.HasPrefix(fd.Name, "E") }) }, false},
		{"emptied", func(f *Fields) { f.Reset() }, false},
		{"it comes twice", func(f *Fields) { f.AddReady(ready) }, true},
	} {
		var f Fields
		f.AddReady(ready)
		c.edit(&f)
		if got := f.Ready() != nil; got != c.want {
			t.Errorf("%s: ready %v, want %v", c.what, got, c.want)
		}
		for i := range ready.list {
			if f.Ready() != nil && f.At(i) != ready.list[i] {
				t.Errorf("%s: field %d is %v", c.what, i, f.At(i))
			}
		}
	}
	var f Fields
	f.Add("Allow", "GET")
	if f.AddReady(ready); f.Ready() != nil || f.Len() != 4 {
		t.Error("what does not begin with it is ready")
	}
	if got := fmt.Sprint(ready.list); got != `[{Content-Type text/html} {Vary Cookie} {ETag "a"}]` {
		t.Errorf("others have it now: %s", got)
	}
}

func TestAppendLower(t *testing.T) {
	for _, s := range []string{"", "a", "A", "WWW.Example.ORG:80", "ÄZ[@`{"} {
		want := []byte("X")
		for _, c := range []byte(s) {
			if 'A' <= c && c <= 'Z' {
				c += 32
			}
			want = append(want, c)
		}
		if got := AppendLower([]byte("X"), s); string(got) != string(want) {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}
