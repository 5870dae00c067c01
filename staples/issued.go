package staples

import (
	"crypto/tls"
	"crypto/x509"
	"sync"
	"time"
)

// Issued keeps the staples of certificates that change while they are in use, as those
// that an ACME server issues do. The zero value is ready for use, by any goroutine.
type Issued struct {
	// Wake is called when there is another staple to fetch; nil: nobody is.
	Wake func()

	mu  sync.Mutex // guards all; held for no I/O
	all map[issuedKey]issued
}

// issuedKey is a name, with whom it is asked of: listeners may differ.
type issuedKey struct {
	name, responder string
	maxAge          time.Duration
}

// issued is the staple of the certificate that a name has now.
type issued struct {
	cert   *tls.Certificate
	staple *Staple // nil: no response can be had
}

// Response returns what is to be sent along with cert, which name has now; nil if there
// is no response yet, or none can be had. o says who is asked; its certificates are those
// of cert.
func (i *Issued) Response(name string, cert *tls.Certificate, o Options) []byte {
	key := issuedKey{name, o.Responder, o.MaxAge}
	i.mu.Lock()
	is, known := i.all[key]
	if known = known && is.cert == cert; !known {
		is = issued{cert: cert}
		o.Leaf = cert.Leaf
		if len(cert.Certificate) > 1 {
			o.Issuer, _ = x509.ParseCertificate(cert.Certificate[1])
		}
		if o.Leaf != nil && o.Check() == nil {
			is.staple = New(o)
		}
		if i.all == nil {
			i.all = map[issuedKey]issued{}
		}
		i.all[key] = is
	}
	i.mu.Unlock()
	if !known && is.staple != nil && i.Wake != nil {
		i.Wake()
	}
	if is.staple == nil {
		return nil
	}
	return is.staple.Response()
}

// Staples returns all that are to be renewed. What belongs to a certificate that has
// ended, which a name that is no longer managed leaves behind, is forgotten.
func (i *Issued) Staples() (list []*Staple) {
	now := time.Now()
	i.mu.Lock()
	defer i.mu.Unlock()
	for name, is := range i.all {
		switch {
		case is.cert.Leaf != nil && now.After(is.cert.Leaf.NotAfter):
			delete(i.all, name)
		case is.staple != nil:
			list = append(list, is.staple)
		}
	}
	return list
}
