package freshness

import "httpjet/exchange"

// HidesFields reports whether a request names fields in Connection that are taken off
// before it goes on (RFC 9110 §7.6.1), beside those that no hop passes on anyway. Whoever
// answers it does not see what the cache would select by: another client's answer, for
// the same values, would be a different one.
func HidesFields(f *exchange.Fields) bool {
	for tok := range f.Tokens("Connection") {
		if !ofConnection(tok) {
			return true
		}
	}
	return false
}

// ofConnection reports whether an option of Connection is about the connection alone.
func ofConnection(option string) bool {
	for _, name := range [...]string{"keep-alive", "close", "Upgrade", "TE", "HTTP2-Settings", "Proxy-Connection"} {
		if exchange.EqualName(option, name) {
			return true
		}
	}
	return false
}
