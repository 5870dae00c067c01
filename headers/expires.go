package headers

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"httpjet/exchange"
)

// maxExpiry is the longest time that is told: ten years.
const maxExpiry = 10 * 365 * 24 * time.Hour

// Expiry is how long an answer may be kept.
type Expiry struct {
	After        time.Duration
	FromModified bool // counted from the change of the file, not from now
}

// Expires is the expiry of files by their media type (R-STATIC-12). It is immutable;
// nil says nothing.
type Expires struct {
	rules []expiryRule // the first that fits counts
	other *Expiry
}

type expiryRule struct {
	pattern string // type/sub in lower case; sub and type may be *
	expiry  *Expiry
}

// ParseExpiry reads "A604800", "M3600", seconds alone, or Apache's words:
// "access plus 1 month 2 days" (LSX 2.4).
func ParseExpiry(s string) (Expiry, error) {
	e := Expiry{}
	words := strings.Fields(strings.ToLower(strings.Trim(strings.TrimSpace(s), `"`)))
	if len(words) == 0 {
		return e, fmt.Errorf("no expiry")
	}
	if len(words) == 1 {
		digits := words[0]
		if digits[0] == 'a' || digits[0] == 'm' {
			e.FromModified = digits[0] == 'm'
			digits = digits[1:]
		}
		n, err := strconv.ParseUint(digits, 10, 62)
		if err == nil || digits != "" && strings.Trim(digits, "0123456789") == "" {
			e.After = bounded(n, time.Second)
			return e, nil
		}
	}
	switch words[0] {
	case "modification":
		e.FromModified = true
		words = words[1:]
	case "access", "now":
		words = words[1:]
	}
	if len(words) > 0 && words[0] == "plus" {
		words = words[1:]
	}
	if len(words)%2 != 0 {
		return e, fmt.Errorf("%q is no expiry such as A604800 or access plus 1 month", s)
	}
	for i := 0; i < len(words); i += 2 {
		n, err := strconv.ParseUint(words[i], 10, 31)
		unit, ok := units[strings.TrimSuffix(words[i+1], "s")]
		if err != nil || !ok {
			return e, fmt.Errorf("%q is no expiry such as A604800 or access plus 1 month", s)
		}
		e.After = min(e.After+bounded(n, unit), maxExpiry)
	}
	return e, nil
}

var units = map[string]time.Duration{
	"": time.Second, "second": time.Second, "sec": time.Second, "minute": time.Minute, "min": time.Minute, "hour": time.Hour, "day": 24 * time.Hour,
	"week": 7 * 24 * time.Hour, "month": 30 * 24 * time.Hour, "year": 365 * 24 * time.Hour,
	"w": 7 * 24 * time.Hour, "d": 24 * time.Hour, "h": time.Hour, "m": time.Minute, "y": 365 * 24 * time.Hour,
}

func bounded(n uint64, unit time.Duration) time.Duration {
	if n > uint64(maxExpiry/unit) {
		return maxExpiry
	}
	return time.Duration(n) * unit
}

// NewExpires reads expiresDefault ("" for none) and expiresByType, items
// "type/sub=EXPIRY" between commas. An item that is none is left out and told.
func NewExpires(other, byType string) (*Expires, []error) {
	var bad []error
	e := &Expires{}
	if strings.TrimSpace(other) != "" {
		if d, err := ParseExpiry(other); err != nil {
			bad = append(bad, err)
		} else {
			e.other = &d
		}
	}
	for item := range strings.FieldsFuncSeq(byType, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' }) {
		if item = strings.TrimSpace(item); item == "" {
			continue
		}
		pattern, expiry, ok := strings.Cut(item, "=")
		if !ok { // as Apache writes it
			pattern, expiry, ok = strings.Cut(item, " ")
		}
		pattern = strings.ToLower(strings.TrimSpace(pattern))
		main, sub, slash := strings.Cut(pattern, "/")
		d, err := ParseExpiry(expiry)
		switch {
		case !ok || err != nil || pattern != "*" && (!slash || main == "" || sub == ""):
			bad = append(bad, fmt.Errorf("%q is no type/sub=A604800", item))
		default:
			e.rules = append(e.rules, expiryRule{pattern, &d})
		}
	}
	return e, bad
}

// Find returns the expiry of a media type, nil for none.
func (e *Expires) Find(mediaType string) *Expiry {
	if e == nil {
		return nil
	}
	t, _, _ := strings.Cut(mediaType, ";")
	t = strings.ToLower(strings.TrimSpace(t))
	main, _, _ := strings.Cut(t, "/")
	for _, r := range e.rules {
		switch r.pattern {
		case t, main + "/*", "*/*", "*":
			return r.expiry
		}
	}
	return e.other
}

// Add tells a client how long it may keep a file that was modified then.
func (e *Expiry) Add(to *exchange.Fields, modified, now time.Time) {
	until := now.Add(e.After)
	if e.FromModified {
		until = modified.Add(e.After)
	}
	age := max(0, int64(until.Sub(now)/time.Second))
	to.Add("Cache-Control", "public, max-age="+strconv.FormatInt(age, 10))
	to.Add("Expires", until.UTC().Format(http.TimeFormat))
}
