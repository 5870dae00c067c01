package exchange

import (
	"crypto/tls"
	"net/netip"
)

// Request is a request head. Its strings are valid until Serve returns; clone
// what is kept longer.
type Request struct {
	ID     string // request id, 32 lower-case hex digits (R-PIPE-11)
	Proto  string // "HTTP/1.0", "HTTP/1.1", "HTTP/2.0", "HTTP/3.0"
	Method string // as sent; case-sensitive
	Host   string // Host field or :authority as sent, port kept; "" if absent

	// Scheme is the effective scheme, "http" or "https": the front end sets it
	// from the connection; a trusted peer's X-Forwarded-Proto may change it.
	Scheme string

	// Target is the request target in origin form exactly as the client sent it
	// ("/a%2Fb?q"), "*" for OPTIONS *, or the authority for CONNECT. Never edited.
	Target string

	// Path is the decoded, normalised path that every rule matches (R-PIPE-2);
	// Query is the raw query without '?'. Both are set by the table from Target;
	// a rewrite changes them.
	Path, Query string

	// Rewritten is the target in origin form as rewrite rules have made it, encoded
	// (R-RW-7); "" if none has changed it.
	Rewritten string

	// UpstreamHost is the Host field that a rule with [P] sends; "": as configured.
	UpstreamHost string

	// Media is the media type or the handler that rewrite rules give the file ([T]);
	// "" for its own.
	Media string

	Fields Fields // header fields as received, without Host
	Length int64  // declared body length, 0 for none, -1 if unknown until its end

	Listener string         // name of the listener that accepted the connection
	Remote   netip.AddrPort // immediate peer; zero for a Unix socket
	Local    netip.AddrPort // address the peer connected to
	Client   netip.Addr     // resolved client (R-ACL-4), unmapped; the peer's until resolved
	TLS      *tls.ConnectionState

	// User is who a realm found the client to be, by its password; "" if no realm was
	// asked. It is the REMOTE_USER of logs and applications, with AUTH_TYPE Basic.
	User string
}

// Sent returns the target as it goes upstream: as rewrite rules have made it, else
// as the client sent it.
func (r *Request) Sent() string {
	if r.Rewritten != "" {
		return r.Rewritten
	}
	return r.Target
}

// Response is a response head under construction.
type Response struct {
	Status int
	Fields Fields
	Length int64 // body length; -1: unknown, the wire frames the body itself

	// Dated says that a Date in Fields is the origin's and goes out as it is; else the
	// wire writes its own. Who sets it before the handler is called has the field.
	Dated bool

	// Unproven says that nothing tells the end of the body but the end of the
	// connection that it comes from: it may have been cut.
	Unproven bool
}

// Setting is a setting of PHP. A Fixed one is the administrator's: neither the script
// nor a .htaccess file may change it.
type Setting struct {
	Name, Value string
	Fixed       bool
}
