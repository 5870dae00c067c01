package forward

import "httpjet/exchange"

// Target returns the request target for the upstream: the client's own bytes,
// so that %2F, %2E, case and ';' survive, or 400 if what was matched and what
// the upstream makes of it could differ (R-RW-7).
func Target(x *exchange.Exchange) (string, error) {
	if why := unsafeTarget(x.Req.Target); why != "" {
		return "", exchange.Fail(400, "bad_request", "%s in request target", why)
	}
	return x.Req.Target, nil
}

// unsafeTarget says what forbids target, "" for nothing. It decodes the path
// once, as the matching did, and looks for dot segments between anything that
// some server takes for a separator.
func unsafeTarget(target string) string {
	if target == "*" {
		return ""
	}
	if target == "" || target[0] != '/' {
		return "no origin form"
	}
	dots, other := 0, false // the segment so far: its dots, and anything else
	i := 0
	for ; i < len(target) && target[i] != '?'; i++ {
		c := target[i]
		if c == '%' {
			if i+2 >= len(target) || unhex(target[i+1]) < 0 || unhex(target[i+2]) < 0 {
				return "invalid escape"
			}
			c = byte(unhex(target[i+1])<<4 | unhex(target[i+2]))
			i += 2
			if c == 0 {
				return "NUL"
			}
		} else if c <= ' ' || c == 0x7f {
			return "control byte"
		}
		switch c {
		case '/', '\\', ';':
			if !other && (dots == 1 || dots == 2) {
				return "dot segment"
			}
			dots, other = 0, false
		case '.':
			dots++
		default:
			other = true
		}
	}
	if !other && (dots == 1 || dots == 2) {
		return "dot segment"
	}
	for ; i < len(target); i++ { // the query goes as it came, on one request line
		if target[i] <= ' ' || target[i] == 0x7f {
			return "control byte"
		}
	}
	return ""
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
