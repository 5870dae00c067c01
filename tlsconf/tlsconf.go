// Package tlsconf turns certificate files and LiteSpeed's TLS switches into
// *tls.Config values, and chooses among them by server name. It reads the files
// it is given and does nothing else: no watching, no issuing, no listening.
package tlsconf

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"time"
)

// maxFile bounds a certificate, key or CA file.
const maxFile = 1 << 20

// Bits of sslProtocol and enableSpdy. Other bits name protocols that are never
// enabled (SSL 3 to TLS 1.1, SPDY) or that another package serves (HTTP/3).
const (
	ProtocolTLS12 = 8
	ProtocolTLS13 = 16
	SpdyH2        = 4
	SpdyH3        = 8
)

// Options are the settings of one certificate on one listener.
type Options struct {
	CertFile  string // PEM; every certificate in it is sent (R-TLS-1)
	KeyFile   string // PEM
	ChainFile string // PEM, sent behind CertFile; may be ""

	Protocols int // mask of Protocol bits; with none set, 1.2 and 1.3
	Spdy      int // mask of Spdy bits: with SpdyH2, h2 is offered by ALPN

	Ciphers   []uint16 // of TLS 1.2, by Ciphers; nil: all that are safe
	NoTickets bool     // sessions are not resumed
	Tickets   *Tickets // makes session tickets; nil: each listener by itself

	// Variants makes CertFile one of several, whose files have its name with a suffix of
	// VariantSuffixes, beside keys of theirs: a client has the one that it understands.
	Variants bool

	// Client makes the server ask for client certificates and refuse one that is not
	// good. To insist on one is up to the caller, who sees the request (R-TLS-2); nil
	// asks for none.
	Client *Verify

	// Seen, if not nil, is told every file and what was read of it, nil if it could
	// not be.
	Seen func(name string, data []byte)
}

// ReadFile reads a file of at most 1 MiB, and tells seen, if that is not nil, what it
// read.
func ReadFile(name string, seen func(name string, data []byte)) ([]byte, error) {
	o := Options{Seen: seen}
	return o.read(name)
}

func (o *Options) read(name string) ([]byte, error) {
	data, err := readFile(name)
	if o.Seen != nil {
		o.Seen(name, data)
	}
	return data, err
}

// Load reads the files of o. The error names the file and says what is wrong
// with it; the configuration can then not be used at all.
func Load(o Options) (*tls.Config, error) {
	pairs, err := loadPairs(o)
	if err != nil {
		return nil, err
	}
	c := Settings(o)
	c.Certificates = pairs
	return c, nil
}

// Settings are those of o without certificates: its files are not read.
func Settings(o Options) *tls.Config {
	c := &tls.Config{NextProtos: []string{"http/1.1"}, CipherSuites: o.Ciphers, SessionTicketsDisabled: o.NoTickets}
	c.MinVersion, c.MaxVersion = versions(o.Protocols)
	if o.Spdy&SpdyH2 != 0 {
		c.NextProtos = []string{"h2", "http/1.1"}
	}
	o.Client.apply(c)
	o.Tickets.apply(c)
	return c
}

// Staple makes c send OCSP responses along with its certificates: responses are
// asked with each handshake, one for each certificate; one that is nil has none.
func Staple(c *tls.Config, responses []func() []byte) {
	certs := c.Certificates
	c.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		at := 0
		for i := range certs {
			if hello.SupportsCertificate(&certs[i]) == nil {
				at = i
				break
			}
		}
		cert := certs[at]
		if at < len(responses) && responses[at] != nil {
			cert.OCSPStaple = responses[at]()
		}
		return &cert, nil
	}
	c.Certificates = nil // else they serve clients that send no name
}

// Issued makes c show what issued returns for a handshake, and while that is nil what
// until shows, which may be nil: then a certificate that c has signed for name itself,
// which no client takes without asking.
func Issued(c *tls.Config, name string, until *tls.Config, issued func() *tls.Certificate) error {
	if until == nil {
		own, err := selfSigned(name)
		if err != nil {
			return err
		}
		until = &tls.Config{Certificates: []tls.Certificate{own}}
	}
	c.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		if cert := issued(); cert != nil {
			return cert, nil
		}
		if until.GetCertificate != nil {
			return until.GetCertificate(hello)
		}
		for i := range until.Certificates {
			if hello.SupportsCertificate(&until.Certificates[i]) == nil {
				return &until.Certificates[i], nil
			}
		}
		return &until.Certificates[0], nil
	}
	return nil
}

// selfSigned makes a certificate for a name that nobody vouches for.
func selfSigned(name string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name, Organization: []string{"httpjet, until a certificate is issued"}},
		DNSNames: []string{name}, NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// VariantSuffixes are those of further certificates beside one (sslEnableMultiCerts),
// in the order in which a client that understands several has them: the one without
// is tried between the first and the others.
var VariantSuffixes = []string{".ecc", ".rsa"}

// loadPairs loads the certificate, and those beside it.
func loadPairs(o Options) (pairs []tls.Certificate, err error) {
	if !o.Variants {
		pair, err := loadPair(o)
		return []tls.Certificate{pair}, err
	}
	for _, suffix := range []string{VariantSuffixes[0], "", VariantSuffixes[1]} {
		v := o
		v.CertFile, v.KeyFile = o.CertFile+suffix, o.KeyFile+suffix
		if !o.there(v.CertFile) {
			continue
		}
		pair, err := loadPair(v)
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, pair)
	}
	if len(pairs) == 0 {
		_, err = loadPair(o) // says what is missing
	}
	return pairs, err
}

// there reports whether there is a file of that name; if not, one that comes is a
// change.
func (o *Options) there(name string) bool {
	if _, err := os.Stat(name); err == nil {
		return true
	}
	if o.Seen != nil {
		o.Seen(name, nil)
	}
	return false
}

// versions maps sslProtocol. A mask that allows nothing that is still safe
// means the safe default, never an older version.
func versions(mask int) (lowest, highest uint16) {
	switch mask & (ProtocolTLS12 | ProtocolTLS13) {
	case ProtocolTLS12:
		return tls.VersionTLS12, tls.VersionTLS12
	case ProtocolTLS13:
		return tls.VersionTLS13, tls.VersionTLS13
	}
	return tls.VersionTLS12, tls.VersionTLS13
}

func loadPair(o Options) (tls.Certificate, error) {
	certs, err := o.read(o.CertFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate %v", err)
	}
	key, err := o.read(o.KeyFile)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("private key %v", err)
	}
	if o.ChainFile != "" && o.ChainFile != o.CertFile {
		chain, err := o.read(o.ChainFile)
		if err != nil {
			return tls.Certificate{}, fmt.Errorf("certificate chain %v", err)
		}
		certs = append(append(bytes.TrimSpace(certs), '\n'), chain...)
	}
	pair, err := tls.X509KeyPair(certs, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("certificate %s with key %s: %v", o.CertFile, o.KeyFile, err)
	}
	for _, der := range pair.Certificate[1:] {
		if _, err := x509.ParseCertificate(der); err != nil {
			return tls.Certificate{}, fmt.Errorf("certificate chain of %s: %v", o.CertFile, err)
		}
	}
	return pair, nil
}

// readFile reads a regular file of at most maxFile bytes. Its errors start with
// the file's name.
func readFile(name string) ([]byte, error) {
	if name == "" {
		return nil, errors.New("file not set")
	}
	// What is no regular file is not opened: a FIFO would hold up the load.
	if fi, err := os.Stat(name); err == nil && !fi.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		if pe, ok := errors.AsType[*os.PathError](err); ok {
			err = pe.Err
		}
		return nil, fmt.Errorf("%s: %v", name, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %v", name, err)
	}
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s: over %d bytes", name, maxFile)
	}
	return data, nil
}
