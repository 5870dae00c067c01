package tlsconf

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// Modes of clientVerify (LSX 5.1).
const (
	VerifyNone     = iota
	VerifyOptional // a certificate that is shown must be good
	VerifyRequired // one must be shown; who sees the request insists (R-TLS-2)
	VerifyAny      // one is asked for and taken as it is
)

// maxCAFiles bounds a directory of authorities or revocation lists.
const maxCAFiles = 1000

// VerifyOptions say which client certificates are good.
type VerifyOptions struct {
	Mode  int // of clientVerify
	Depth int // authorities above a client's certificate, its root among them; below 1: 1

	CAFile, CAPath   string // PEM; of a directory, every file that holds a certificate
	CRLFile, CRLPath string // revocation lists, PEM or DER; both "": none is asked

	Seen func(name string, data []byte) // as that of Options
}

// Verify is what a host asks of client certificates. It is immutable; nil asks for
// none.
type Verify struct {
	mode  int
	depth int
	id    [sha256.Size]byte
	pool  *x509.CertPool
	roots []*x509.Certificate
	lists map[string]*revoked // by raw subject of the issuer; nil: none is asked
}

type revoked struct {
	serials map[string]struct{}
	until   time.Time // of the list; zero: for ever
}

// LoadVerify reads the files of o; nil, nil if it asks for no certificate. The error
// names the file and says what is wrong with it.
func LoadVerify(o VerifyOptions) (*Verify, error) {
	if o.Mode == VerifyNone {
		return nil, nil
	}
	v := &Verify{mode: o.Mode, depth: max(1, o.Depth), pool: x509.NewCertPool()}
	digest := sha256.New()
	fmt.Fprintln(digest, v.mode, v.depth)
	err := eachFile(o.Seen, o.CAFile, o.CAPath, "client authorities", func(name string, data []byte) error {
		certs, err := certificates(data)
		if err != nil || len(certs) == 0 && name == o.CAFile {
			return fmt.Errorf("%s: no certificate in it", name)
		}
		for _, c := range certs {
			v.roots = append(v.roots, c)
			v.pool.AddCert(c)
			fmt.Fprintf(digest, "ca %d\n%s", len(c.Raw), c.Raw)
		}
		return nil
	})
	if err == nil && len(v.roots) == 0 && o.Mode != VerifyAny {
		err = errors.New("client authorities: there is none")
	}
	if err != nil {
		return nil, err
	}
	if o.CRLFile != "" || o.CRLPath != "" {
		v.lists = map[string]*revoked{}
		err = eachFile(o.Seen, o.CRLFile, o.CRLPath, "revocation lists", func(name string, data []byte) error {
			fmt.Fprintf(digest, "crl %d\n%s", len(data), data)
			return v.addLists(name, data)
		})
	}
	digest.Sum(v.id[:0])
	return v, err
}

// eachFile reads a file and those of a directory; seen, if not nil, is told of each.
func eachFile(seen func(name string, data []byte), file, dir, what string, do func(name string, data []byte) error) error {
	var names []string
	if file != "" {
		names = append(names, file)
	}
	if dir != "" {
		list, err := os.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("%s %v", what, err)
		}
		if len(list) > maxCAFiles {
			return fmt.Errorf("%s %s: over %d files", what, dir, maxCAFiles)
		}
		for _, e := range list {
			if fi, err := os.Stat(filepath.Join(dir, e.Name())); err == nil && fi.Mode().IsRegular() {
				names = append(names, filepath.Join(dir, e.Name()))
			}
		}
	}
	for _, name := range names {
		data, err := readFile(name)
		if seen != nil {
			seen(name, data)
		}
		if err == nil {
			err = do(name, data)
		}
		if err != nil {
			return fmt.Errorf("%s %v", what, err)
		}
	}
	return nil
}

// certificates returns those of a PEM file; it may hold other things.
func certificates(data []byte) (list []*x509.Certificate, err error) {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return list, nil
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
}

// addLists takes the revocation lists of a file, which an authority of v must have
// signed. Of two lists of one authority both hold.
func (v *Verify) addLists(name string, data []byte) error {
	var ders [][]byte
	for rest := data; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type == "X509 CRL" {
			ders = append(ders, block.Bytes)
		}
	}
	if len(ders) == 0 {
		ders = [][]byte{data}
	}
	for _, der := range ders {
		list, err := x509.ParseRevocationList(der)
		if err != nil {
			return fmt.Errorf("%s: %v", name, err)
		}
		if !v.signed(list) {
			return fmt.Errorf("%s: none of the authorities has signed it", name)
		}
		r := v.lists[string(list.RawIssuer)]
		if r == nil {
			r = &revoked{serials: map[string]struct{}{}, until: list.NextUpdate}
			v.lists[string(list.RawIssuer)] = r
		}
		for _, e := range list.RevokedCertificateEntries {
			r.serials[serial(e.SerialNumber)] = struct{}{}
		}
		if !list.NextUpdate.IsZero() && list.NextUpdate.After(r.until) {
			r.until = list.NextUpdate
		}
	}
	return nil
}

func serial(n *big.Int) string { return string(n.Bytes()) }

func (v *Verify) signed(list *x509.RevocationList) bool {
	for _, ca := range v.roots {
		if bytes.Equal(ca.RawSubject, list.RawIssuer) && list.CheckSignatureFrom(ca) == nil {
			return true
		}
	}
	return false
}

// Same reports whether v and w take the same certificates. Either may be nil.
func (v *Verify) Same(w *Verify) bool {
	return v == w || v != nil && w != nil && v.id == w.id
}

// Asks reports whether a certificate is asked for at all, Requires whether there must
// be one.
func (v *Verify) Asks() bool     { return v != nil }
func (v *Verify) Requires() bool { return v != nil && v.mode == VerifyRequired }

// Accepts reports whether the certificate that was shown on a connection, if any, is
// good by v. It asks what the handshake found, not by which settings that was made: a
// connection may have been made for another host, resumed, or be older than v.
func (v *Verify) Accepts(cs *tls.ConnectionState) bool {
	if v == nil || v.mode == VerifyAny || len(cs.PeerCertificates) == 0 {
		return true
	}
	for _, chain := range cs.VerifiedChains {
		if len(chain)-1 <= v.depth && v.knows(chain[len(chain)-1]) && !v.revokedIn(chain) {
			return true
		}
	}
	return false
}

func (v *Verify) knows(root *x509.Certificate) bool {
	for _, ca := range v.roots {
		if ca.Equal(root) {
			return true
		}
	}
	return false
}

// revokedIn reports whether a certificate of the chain is in a list, or the client's
// own has none that is still in force: who asks for lists wants an answer.
func (v *Verify) revokedIn(chain []*x509.Certificate) bool {
	if v.lists == nil {
		return false
	}
	for i, c := range chain[:max(1, len(chain)-1)] {
		list := v.lists[string(c.RawIssuer)]
		if list == nil {
			if i == 0 {
				return true
			}
			continue
		}
		if _, in := list.serials[serial(c.SerialNumber)]; in || !list.until.IsZero() && time.Now().After(list.until) {
			return true
		}
	}
	return false
}

// apply makes a server's settings ask for certificates.
func (v *Verify) apply(c *tls.Config) {
	switch {
	case v == nil:
	case v.mode == VerifyAny:
		c.ClientAuth = tls.RequestClientCert
	default:
		c.ClientCAs, c.ClientAuth = v.pool, tls.VerifyClientCertIfGiven
		c.VerifyConnection = func(cs tls.ConnectionState) error {
			if !v.Accepts(&cs) {
				return errors.New("client certificate is revoked, or too far from its authority")
			}
			return nil
		}
	}
}
