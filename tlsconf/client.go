package tlsconf

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
)

// ClientOptions are settings towards TLS servers. The zero value verifies with the
// system's roots and sends no certificate.
type ClientOptions struct {
	CAFile   string // PEM, roots instead of the system's; "": the system's
	CertFile string // PEM, sent when a server asks; "": none
	KeyFile  string // PEM
	NoVerify bool   // takes any certificate
}

// LoadClient reads the files of o. The text is the whole identity of the settings,
// without being any of their secrets: it changes with what the files hold, and is
// "" for the zero options. The error names the file and says what is wrong with it.
func LoadClient(o ClientOptions) (*tls.Config, string, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: o.NoVerify}
	if o == (ClientOptions{}) {
		return c, "", nil
	}
	digest := sha256.New()
	fmt.Fprintf(digest, "verify %v\n", !o.NoVerify)
	if o.CAFile != "" {
		pem, err := readFile(o.CAFile)
		if err != nil {
			return nil, "", fmt.Errorf("authorities %v", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, "", fmt.Errorf("authorities %s: no certificate in it", o.CAFile)
		}
		fmt.Fprintf(digest, "authorities %d\n%s", len(pem), pem)
	}
	if o.CertFile != "" || o.KeyFile != "" {
		pair, err := loadPair(Options{CertFile: o.CertFile, KeyFile: o.KeyFile})
		if err != nil {
			return nil, "", err
		}
		c.Certificates = []tls.Certificate{pair}
		for _, der := range pair.Certificate { // the key belongs to the first
			fmt.Fprintf(digest, "certificate %d\n%s", len(der), der)
		}
	}
	return c, hex.EncodeToString(digest.Sum(nil)), nil
}
