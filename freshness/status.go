package freshness

import "strconv"

// Fwd is why a request went to the origin (RFC 9211 §2.2).
type Fwd string

// Reasons.
const (
	Bypass      Fwd = "bypass"
	Method      Fwd = "method"
	URIMiss     Fwd = "uri-miss"
	VaryMiss    Fwd = "vary-miss"
	RequestMiss Fwd = "request" // there is one, but the request does not want it
	StaleMiss   Fwd = "stale"
	PartialMiss Fwd = "partial"
)

// Status is what a cache tells of how it handled a request (RFC 9211).
type Status struct {
	Hit       bool
	Fwd       Fwd   // "" on a hit
	FwdStatus int   // of the origin; 0: not told
	TTL       int64 // seconds, on a hit
	Stored    bool
	Collapsed bool
	Detail    string // a token, why it was not stored; ""
}

// Append appends the member of Cache-Status.
func (s *Status) Append(b []byte) []byte {
	b = append(b, "httpjet"...)
	if s.Hit {
		b = append(b, "; hit; ttl="...)
		b = strconv.AppendInt(b, s.TTL, 10)
	} else {
		b = append(b, "; fwd="...)
		b = append(b, s.Fwd...)
		if s.FwdStatus != 0 {
			b = append(b, "; fwd-status="...)
			b = strconv.AppendInt(b, int64(s.FwdStatus), 10)
		}
		if s.Stored {
			b = append(b, "; stored"...)
		}
	}
	if s.Collapsed {
		b = append(b, "; collapsed"...)
	}
	if s.Detail != "" {
		b = append(b, "; detail="...)
		b = append(b, s.Detail...)
	}
	return b
}
