package headers

import (
	"testing"
	"time"
)

// LSX 2.4: seconds from now or from the change of the file, and Apache's words.
func TestParseExpiry(t *testing.T) {
	const day = 24 * time.Hour
	f := func(s string, after time.Duration, modified bool) {
		t.Helper()
		if got, err := ParseExpiry(s); err != nil || got != (Expiry{after, modified}) {
			t.Errorf("%q: %v %v", s, got, err)
		}
	}
	f("A604800", 7*day, false)
	f("m3600", time.Hour, true)
	f(" 60 ", time.Minute, false)
	f("A0", 0, false)
	f(`"access plus 1 month 2 days"`, 32*day, false)
	f("modification plus 1 year", 365*day, true)
	f("now plus 90 seconds", 90*time.Second, false)
	f("Access 1 week 1 hour 1 minute", 7*day+time.Hour+time.Minute, false)
	f("A99999999999999999999999", maxExpiry, false)
	f("access plus 2000000000 years 5 years", maxExpiry, false)
	for _, s := range []string{"", "A", "soon", "A-5", "access plus 1", "access plus x days", "1 fortnight", "A60 s"} {
		if e, err := ParseExpiry(s); err == nil {
			t.Errorf("%q: %v", s, e)
		}
	}
}

// R-STATIC-12: the first pattern that fits a type counts, then the default.
func TestExpiresByType(t *testing.T) {
	e, bad := NewExpires("A1", "text/css=A2, TEXT/*=A3,\n image/*=M4, bad, x=A1, */*=A5")
	if len(bad) != 2 {
		t.Error(bad)
	}
	f := func(e *Expires, mediaType string, seconds int) {
		t.Helper()
		got := e.Find(mediaType)
		if got == nil || got.After != time.Duration(seconds)*time.Second {
			t.Errorf("%s: %v", mediaType, got)
		}
	}
	f(e, "text/css; charset=utf-8", 2)
	f(e, "Text/HTML", 3)
	f(e, "image/png", 4)
	f(e, "video/mp4", 5)
	e, _ = NewExpires("A1", "text/css=A2")
	f(e, "video/mp4", 1)
	if e, _ = NewExpires("", "text/css=A2"); e.Find("video/mp4") != nil || (*Expires)(nil).Find("text/css") != nil {
		t.Error("an expiry that nobody wrote")
	}
}

func FuzzParseExpiry(f *testing.F) {
	f.Add("access plus 1 month 2 days")
	f.Fuzz(func(t *testing.T, s string) {
		if e, err := ParseExpiry(s); err == nil && (e.After < 0 || e.After > maxExpiry) {
			t.Errorf("%q: %v", s, e.After)
		}
	})
}
