package freshness

import (
	"time"

	"httpjet/exchange"
)

// ParseDate reads an HTTP-date in any of its three forms (RFC 9110 §5.6.7): names
// in any case, but no other zone, no missing digit and no other space. A two-digit
// year is of RFC 850 alone, and less than 50 years ahead of now.
func ParseDate(v string, now time.Time) (time.Time, bool) {
	comma := 0
	for comma < len(v) && v[comma] != ',' {
		comma++
	}
	switch {
	case comma == 3 && len(v) == len("Sun, 06 Nov 1994 08:49:37 GMT"):
		return fixDate(v)
	case comma < len(v):
		return rfc850(v, comma, now)
	case len(v) == len("Sun Nov  6 08:49:37 1994"):
		return asctime(v)
	}
	return time.Time{}, false
}

func fixDate(v string) (time.Time, bool) {
	ok := isDay(v[:3]) && v[4] == ' ' && v[7] == ' ' && v[11] == ' ' && v[16] == ' ' && exchange.EqualName(v[25:], " GMT")
	return date(ok, v[12:16], v[8:11], v[5:7], v[17:25])
}

// rfc850 reads "Sunday, 06-Nov-94 08:49:37 GMT".
func rfc850(v string, comma int, now time.Time) (time.Time, bool) {
	day, rest := v[:comma], v[comma:]
	if len(rest) != len(", 06-Nov-94 08:49:37 GMT") || rest[1] != ' ' || rest[4] != '-' || rest[8] != '-' ||
		!exchange.EqualName(rest[20:], " GMT") || rest[11] != ' ' || !isLongDay(day) {
		return time.Time{}, false
	}
	yy, ok := number(rest[9:11])
	if !ok {
		return time.Time{}, false
	}
	this := now.UTC().Year()
	year := this - this%100 + yy
	switch {
	case year > this+50:
		year -= 100
	case year <= this-50:
		year += 100
	}
	digits := [4]byte{byte('0' + year/1000%10), byte('0' + year/100%10), byte('0' + year/10%10), byte('0' + year%10)}
	return date(true, string(digits[:]), rest[5:8], rest[2:4], rest[12:20])
}

// asctime reads "Sun Nov  6 08:49:37 1994".
func asctime(v string) (time.Time, bool) {
	ok := isDay(v[:3]) && v[3] == ' ' && v[7] == ' ' && v[10] == ' ' && v[19] == ' '
	mday := v[8:10]
	if mday[0] == ' ' {
		mday = [10]string{"00", "01", "02", "03", "04", "05", "06", "07", "08", "09"}[min(9, max(0, int(mday[1])-'0'))]
		ok = ok && v[9] >= '1' && v[9] <= '9'
	}
	return date(ok, v[20:], v[4:7], mday, v[11:19])
}

func date(ok bool, year, month, mday, clock string) (time.Time, bool) {
	y, okY := number(year)
	d, okD := number(mday)
	h, okH := number(clock[0:2])
	m, okM := number(clock[3:5])
	s, okS := number(clock[6:8])
	mon := 0
	for i, name := range months {
		if exchange.EqualName(month, name) {
			mon = i + 1
		}
	}
	if !ok || !okY || !okD || !okH || !okM || !okS || mon == 0 || clock[2] != ':' || clock[5] != ':' ||
		d == 0 || d > 31 || h > 23 || m > 59 || s > 60 {
		return time.Time{}, false
	}
	t := time.Date(y, time.Month(mon), d, h, m, s, 0, time.UTC)
	return t, t.Day() == d || s == 60 // no 30th of February
}

func number(v string) (n int, ok bool) {
	for i := range len(v) {
		if v[i] < '0' || v[i] > '9' {
			return 0, false
		}
		n = n*10 + int(v[i]-'0')
	}
	return n, true
}

var (
	months   = [...]string{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"}
	weekdays = [...]string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}
)

func isDay(v string) bool {
	for _, d := range weekdays {
		if exchange.EqualName(v, d[:3]) {
			return true
		}
	}
	return false
}

func isLongDay(v string) bool {
	for _, d := range weekdays {
		if exchange.EqualName(v, d) {
			return true
		}
	}
	return false
}
