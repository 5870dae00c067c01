package tlsconf

import (
	"crypto/tls"
	"slices"
	"strings"
)

// A suite is a cipher suite of TLS 1.2 that may be used, by its names in OpenSSL. All
// are with forward secrecy; those that are not, or are broken, are never enabled.
type suite struct {
	id    uint16
	name  string
	words []string // by which a list may select it, besides its name
}

var suites = []suite{
	{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, "ECDHE-ECDSA-AES128-GCM-SHA256", []string{"AECDSA", "ECDSA", "AES128", "AESGCM", "AES", "SHA256", "HIGH"}},
	{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, "ECDHE-RSA-AES128-GCM-SHA256", []string{"ARSA", "AES128", "AESGCM", "AES", "SHA256", "HIGH"}},
	{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, "ECDHE-ECDSA-AES256-GCM-SHA384", []string{"AECDSA", "ECDSA", "AES256", "AESGCM", "AES", "SHA384", "HIGH"}},
	{tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, "ECDHE-RSA-AES256-GCM-SHA384", []string{"ARSA", "AES256", "AESGCM", "AES", "SHA384", "HIGH"}},
	{tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-ECDSA-CHACHA20-POLY1305", []string{"AECDSA", "ECDSA", "CHACHA20", "HIGH"}},
	{tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-RSA-CHACHA20-POLY1305", []string{"ARSA", "CHACHA20", "HIGH"}},
	{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA, "ECDHE-ECDSA-AES128-SHA", []string{"AECDSA", "ECDSA", "AES128", "AES", "SHA1", "SHA", "HIGH"}},
	{tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA, "ECDHE-RSA-AES128-SHA", []string{"ARSA", "AES128", "AES", "SHA1", "SHA", "HIGH"}},
	{tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA, "ECDHE-ECDSA-AES256-SHA", []string{"AECDSA", "ECDSA", "AES256", "AES", "SHA1", "SHA", "HIGH"}},
	{tls.TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA, "ECDHE-RSA-AES256-SHA", []string{"ARSA", "AES256", "AES", "SHA1", "SHA", "HIGH"}},
}

// common are words that select every suite of the table.
var common = []string{"ALL", "DEFAULT", "COMPLEMENTOFDEFAULT", "ECDHE", "EECDH", "KECDHE", "KEECDH", "ECDH", "TLSV1.2", "TLSV1", "SSLV3"}

// others are words of OpenSSL that select nothing of the table: what they name is
// never enabled. A list may say so, or ask for them in vain.
var others = []string{"COMPLEMENTOFALL", "MEDIUM", "LOW", "EXP", "EXPORT", "EXPORT40", "EXPORT56", "NULL", "ENULL", "ANULL", "ADH", "AECDH",
	"DH", "DHE", "EDH", "KDHE", "KEDH", "KRSA", "RSA", "DSS", "ADSS", "DSA", "ADH", "KDHR", "KDHD", "KDH", "KECDHR", "KECDHE", "ARIA", "ARIA128", "ARIA256",
	"CAMELLIA", "CAMELLIA128", "CAMELLIA256", "3DES", "DES", "RC2", "RC4", "IDEA", "SEED", "MD5", "GOST", "GOST89", "GOST94", "AGOST", "KGOST",
	"PSK", "KPSK", "APSK", "RSAPSK", "DHEPSK", "ECDHEPSK", "KRSAPSK", "SRP", "KSRP", "KRB5", "FORTEZZA", "AESCCM", "AESCCM8", "CCM", "FIPS", "SSLV2", "CBC",
	"SUITEB128", "SUITEB128ONLY", "SUITEB192", "TLSV1.0", "TLSV1.3"}

// Ciphers reads a cipher list as OpenSSL writes it and returns the suites of TLS 1.2
// that it allows; those of TLS 1.3 are not a matter of choice. ids is nil if it
// allows none that may be used: then it cannot be followed. unknown are the items
// that no word of OpenSSL explains. The order of a list counts for nothing: the
// suites of a client are tried in an order that fits its and our hardware.
func Ciphers(list string) (ids []uint16, unknown []string) {
	var on, dead [64]bool
	for item := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ':' || r == ',' || r == ' ' || r == ';' || r == '\t' || r == '\n' }) {
		word := strings.ToUpper(item)
		if strings.HasPrefix(word, "@") || strings.HasPrefix(word, "TLS_AES_") || strings.HasPrefix(word, "TLS_CHACHA20_") {
			continue // orders, levels, and suites of TLS 1.3
		}
		op := word[0]
		if op == '!' || op == '-' || op == '+' {
			word = word[1:]
		}
		chosen, known := selects(word)
		if !known {
			unknown = append(unknown, item)
			continue
		}
		for i := range suites {
			switch {
			case !chosen[i]:
			case op == '!':
				on[i], dead[i] = false, true
			case op == '-':
				on[i] = false
			case op != '+': // which only moves
				on[i] = !dead[i]
			}
		}
	}
	for i, s := range suites {
		if on[i] {
			ids = append(ids, s.id)
		}
	}
	return ids, unknown
}

// selects returns which suites an item selects: a name, or words that all of them
// have, joined by "+".
func selects(item string) (chosen [64]bool, known bool) {
	for i, s := range suites {
		if s.name == item {
			chosen[i] = true
			return chosen, true
		}
	}
	if looksLikeSuite(item) {
		return chosen, true
	}
	for i := range suites {
		chosen[i] = true
	}
	for word := range strings.SplitSeq(item, "+") {
		if slices.Contains(common, word) {
			continue
		}
		known = slices.Contains(others, word)
		for i, s := range suites {
			has := slices.Contains(s.words, word)
			known = known || has
			chosen[i] = chosen[i] && has
		}
		if !known {
			return chosen, false
		}
	}
	return chosen, true
}

// looksLikeSuite reports whether item is the name of a suite that is not in the
// table, such as AES128-SHA or DHE-RSA-AES256-GCM-SHA384.
func looksLikeSuite(item string) bool {
	if !strings.Contains(item, "-") {
		return false
	}
	for _, part := range []string{"-SHA", "-SHA256", "-SHA384", "-MD5", "-POLY1305", "-CCM", "-CCM8"} {
		if strings.HasSuffix(item, part) {
			return true
		}
	}
	return false
}
