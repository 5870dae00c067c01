package h2

import "strconv"

// Field blocks that we send hold literals and what the static table has, and put
// nothing into the dynamic table of the client. So a block depends on nothing that
// was sent before: every goroutine may make its own, and some are made once and used
// by all connections. Nor can anybody learn from the length of a block what another
// one has put into the table (RFC 7541 §7.1).

// AppendStatus appends :status.
func AppendStatus(b []byte, status int) []byte {
	switch status {
	case 200:
		return append(b, 0x80|8)
	case 204:
		return append(b, 0x80|9)
	case 206:
		return append(b, 0x80|10)
	case 304:
		return append(b, 0x80|11)
	case 400:
		return append(b, 0x80|12)
	case 404:
		return append(b, 0x80|13)
	case 500:
		return append(b, 0x80|14)
	}
	if status < 100 || status > 999 {
		panic("BUG: h2: status is no three digits")
	}
	return strconv.AppendInt(append(b, 8, 3), int64(status), 10)
}

// AppendLength appends content-length.
func AppendLength(b []byte, n int64) []byte {
	b = appendIndex(b, 28)
	at := len(b)
	b = strconv.AppendInt(append(b, 0), n, 10)
	b[at] = byte(len(b) - at - 1)
	return b
}

// AppendField appends a field; its name is made lower case (RFC 9113 §8.2). The caller
// has checked both.
func AppendField(b []byte, name, value string) []byte {
	var memory [64]byte
	if len(name) > len(memory) {
		b = appendInt(append(b, 0), 0, 0x7f, len(name))
		for i := range len(name) {
			b = append(b, lower(name[i]))
		}
		return appendString(b, value)
	}
	low := memory[:len(name)]
	for i := range low {
		low[i] = lower(name[i])
	}
	if i := staticName(string(low)); i != 0 {
		b = appendIndex(b, i)
	} else {
		b = append(appendInt(append(b, 0), 0, 0x7f, len(low)), low...)
	}
	return appendString(b, value)
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// appendIndex appends the beginning of a literal without indexing, whose name is in
// the static table (RFC 7541 §6.2.2).
func appendIndex(b []byte, i int) []byte { return appendInt(b, 0, 0x0f, i) }

// appendString appends a string as it is. Huffman coding would save a fifth of the
// bytes of a head and cost more than all the rest of it.
func appendString(b []byte, s string) []byte { return append(appendInt(b, 0, 0x7f, len(s)), s...) }

// appendInt appends an integer whose prefix has the ones of mask (RFC 7541 §5.1).
func appendInt(b []byte, first byte, mask byte, n int) []byte {
	if n < int(mask) {
		return append(b, first|byte(n))
	}
	b = append(b, first|mask)
	n -= int(mask)
	for n >= 0x80 {
		b = append(b, 0x80|byte(n))
		n >>= 7
	}
	return append(b, byte(n))
}

// staticName returns the index of a name in the static table, of those that answers
// have (RFC 7541 appendix A); 0: none.
func staticName(name string) int {
	switch name {
	case "accept-ranges":
		return 18
	case "access-control-allow-origin":
		return 20
	case "age":
		return 21
	case "allow":
		return 22
	case "cache-control":
		return 24
	case "content-disposition":
		return 25
	case "content-encoding":
		return 26
	case "content-language":
		return 27
	case "content-length":
		return 28
	case "content-location":
		return 29
	case "content-range":
		return 30
	case "content-type":
		return 31
	case "date":
		return 33
	case "etag":
		return 34
	case "expires":
		return 36
	case "last-modified":
		return 44
	case "link":
		return 45
	case "location":
		return 46
	case "proxy-authenticate":
		return 48
	case "refresh":
		return 52
	case "retry-after":
		return 53
	case "server":
		return 54
	case "set-cookie":
		return 55
	case "strict-transport-security":
		return 56
	case "vary":
		return 59
	case "via":
		return 60
	case "www-authenticate":
		return 61
	}
	return 0
}
