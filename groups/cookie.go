package groups

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"httpjet/exchange"
)

// Secure says when a cookie of ours has the attribute Secure.
type Secure uint8

const (
	SecureAuto Secure = iota // when the request came by https
	SecureAlways
	SecureNever
)

// Cookie names the cookie that a choice looks at; the attributes are of the one
// that Sticky sets.
type Cookie struct {
	Name     string
	Path     string // "": /
	SameSite string // Lax, Strict or None; "": none is written
	Secure   Secure
	HTTPOnly bool
	MaxAge   time.Duration // 0: a cookie of the session
}

// token names a peer to a client without telling anything of it.
func token(key []byte, scope, group, peer string) string {
	m := hmac.New(sha256.New, key)
	for _, s := range []string{scope, group, peer} {
		m.Write([]byte(strconv.Itoa(len(s)) + ":" + s)) // no two triples are one string
	}
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil)[:16])
}

// Choice returns what x brings to the choice of a peer.
func (g *Group) Choice(x *exchange.Exchange) Choice {
	switch g.o.Policy {
	case IPHash:
		return Choice{Hash: HashAddr(x.Req.Client)} // the resolved client (D-7)
	case CookieHash:
		return Choice{Hash: HashString(cookie(&x.Req.Fields, g.o.Cookie.Name))}
	case Sticky:
		return Choice{Token: cookie(&x.Req.Fields, g.o.Cookie.Name)}
	}
	return Choice{}
}

// cookie returns the value of the first cookie of a name (RFC 6265 §5.4).
func cookie(f *exchange.Fields, name string) string {
	for v := range f.Values("Cookie") {
		for part := range strings.SplitSeq(v, ";") {
			if n, value, ok := strings.Cut(strings.Trim(part, " \t"), "="); ok && n == name {
				return value
			}
		}
	}
	return ""
}

// Remember adds the cookie to the fields of a reply that makes the client come
// back to this peer, unless the client has it, or the policy sets none (R-LB-8).
func (r *Reservation) Remember(x *exchange.Exchange, c *Choice, f *exchange.Fields) {
	if r.g.o.Policy != Sticky {
		return
	}
	if token := r.g.peers[r.peer].token; token != c.Token {
		f.Add("Set-Cookie", r.g.o.Cookie.line(token, x.Req.Scheme == "https"))
	}
}

// line is the value of Set-Cookie (RFC 6265 §4.1).
func (c *Cookie) line(value string, https bool) string {
	var b strings.Builder
	b.WriteString(c.Name + "=" + value + "; Path=")
	if c.Path == "" {
		b.WriteByte('/')
	}
	b.WriteString(c.Path)
	if c.MaxAge > 0 {
		b.WriteString("; Max-Age=" + strconv.FormatInt(int64(c.MaxAge/time.Second), 10))
	}
	if c.HTTPOnly {
		b.WriteString("; HttpOnly")
	}
	if c.Secure == SecureAlways || c.Secure == SecureAuto && https {
		b.WriteString("; Secure")
	}
	if c.SameSite != "" {
		b.WriteString("; SameSite=" + c.SameSite)
	}
	return b.String()
}
