// Package front is where clients arrive: listeners, TLS and ALPN, the HTTP/1
// connection loop, and the bridge that carries HTTP/2. It turns the bytes of
// any version into an exchange and hands it to a Site.
//
// It knows no virtual host, no file and no upstream, and builds no answer but
// the refusal of a message that is none.
package front

import (
	"crypto/tls"
	"time"

	"httpjet/exchange"
)

// A Site answers exchanges: one generation of the configuration. Its methods are
// called from many goroutines.
type Site interface {
	exchange.Handler

	// Finished is called once for every exchange, after its last byte, also for
	// one that was refused before Serve. It may not keep x.
	Finished(x *exchange.Exchange, err error)

	// Limits returns what bounds connections; the value is never changed.
	Limits() *Limits

	// TLS returns the settings for a connection to the listener of that name.
	TLS(listener string, hello *tls.ClientHelloInfo) (*tls.Config, error)
}

// Limits bounds connections and requests (spec §39). A zero value means the
// default, where zero has no meaning of its own.
type Limits struct {
	ConnTimeout      time.Duration // head, handshake, and body or response without progress; 60 s
	KeepAliveTimeout time.Duration // idle life of a connection after a response; 0: closed at once
	MaxKeepAliveReq  int           // requests of a connection; 0: no limit

	MaxTarget int // bytes of the request target; 8192
	MaxHead   int // bytes of the request head; 16380
	MaxFields int // field lines of a request; 100

	MaxConns    int // connections at once; 65000
	MaxInFlight int // exchanges at once; 2048

	Clients Clients // before HTTP: limits of addresses, PROXY headers

	EnableH2C    bool   // HTTP/2 by prior knowledge on plain listeners
	ServerHeader string // value of Server; "" for none
}

func or[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

func (l *Limits) connTimeout() time.Duration { return or(l.ConnTimeout, 60*time.Second) }
func (l *Limits) maxTarget() int             { return or(l.MaxTarget, 8192) }
func (l *Limits) maxHead() int               { return or(l.MaxHead, 16380) }
func (l *Limits) maxFields() int             { return or(l.MaxFields, 100) }
