package accesslog

import (
	"strconv"
	"time"
)

// digits appends n with at least width digits.
func digits(buf []byte, n, width int) []byte {
	for limit := 10; width > 1; width, limit = width-1, limit*10 {
		if n < limit {
			buf = append(buf, '0')
		}
	}
	return strconv.AppendInt(buf, int64(n), 10)
}

// strftime appends t by a format of strftime(3), in the C locale. A conversion that is
// not known stays as it is.
func strftime(buf []byte, t time.Time, format string) []byte {
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			buf = escape(buf, format[i:i+1])
			continue
		}
		i++
		if layout := layouts[format[i]]; layout != "" {
			buf = t.AppendFormat(buf, layout)
			continue
		}
		switch format[i] {
		case 'C':
			buf = digits(buf, t.Year()/100, 2)
		case 'G', 'V':
			year, week := t.ISOWeek()
			if format[i] == 'G' {
				week = year
			}
			buf = digits(buf, week, 2)
		case 'n', 't':
			buf = append(buf, ' ')
		case 's':
			buf = strconv.AppendInt(buf, t.Unix(), 10)
		case 'u':
			buf = digits(buf, (int(t.Weekday())+6)%7+1, 1)
		case 'w':
			buf = digits(buf, int(t.Weekday()), 1)
		case '%':
			buf = append(buf, '%')
		default:
			buf = escape(buf, format[i-1:i+1])
		}
	}
	return buf
}

// layouts are the conversions that package time knows.
var layouts = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'h': "Jan", 'c': "Mon Jan _2 15:04:05 2006", 'd': "02",
	'D': "01/02/06", 'e': "_2", 'F': "2006-01-02", 'H': "15", 'I': "03", 'j': "002", 'm': "01", 'M': "04", 'p': "PM",
	'r': "03:04:05 PM", 'R': "15:04", 'S': "05", 'T': "15:04:05", 'x': "01/02/06", 'X': "15:04:05", 'y': "06", 'Y': "2006",
	'z': "-0700", 'Z': "MST",
}
