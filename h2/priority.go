package h2

import "encoding/binary"

// Rank is the priority of a stream (RFC 9218 §4).
type Rank struct {
	Urgency     uint8 // 0, the most urgent, to 7
	Incremental bool  // bytes are of use before the last one is there
}

// DefaultRank is that of a stream whose client says nothing. RFC 9218 §4.2 makes it
// not incremental; but who says nothing does not know of priorities and expects its
// streams to share the connection, as RFC 9113 §5.3.2 does.
var DefaultRank = Rank{Urgency: 3, Incremental: true}

// ParseRank reads a Priority field or the value of a PRIORITY_UPDATE: a dictionary of
// RFC 9651 in which u and i count. What is malformed is ignored (RFC 9218 §4).
func ParseRank(s string) Rank {
	if s == "" {
		return DefaultRank
	}
	r := Rank{Urgency: 3}
	for s != "" {
		var member string
		member, s = cutMember(s)
		switch member {
		case "i", "i=?1":
			r.Incremental = true
		case "i=?0":
			r.Incremental = false
		default:
			if len(member) == 3 && member[:2] == "u=" && '0' <= member[2] && member[2] <= '7' {
				r.Urgency = member[2] - '0'
			}
		}
	}
	return r
}

// cutMember returns the first member of a dictionary without white space and
// parameters, and the rest.
func cutMember(s string) (member, rest string) {
	i := 0
	for i < len(s) && s[i] != ',' {
		i++
	}
	member = s[:i]
	if i < len(s) {
		rest = s[i+1:]
	}
	for member != "" && (member[0] == ' ' || member[0] == '\t') {
		member = member[1:]
	}
	for j := range len(member) {
		if c := member[j]; c == ';' || c == ' ' || c == '\t' {
			return member[:j], rest
		}
	}
	return member, rest
}

// Update reads the payload of a PRIORITY_UPDATE, which has at least 4 bytes.
func Update(p []byte) (stream uint32, r Rank) {
	return binary.BigEndian.Uint32(p) &^ (1 << 31), ParseRank(string(p[4:]))
}
