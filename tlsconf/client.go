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
	CAFile   string // PEM, roots instead of the system's
	CAPath   string // directory of such files, 1000 at most; with CAFile "": the system's
	CertFile string // PEM, sent when a server asks; "": none
	KeyFile  string // PEM
	NoVerify bool   // takes any certificate

	Seen func(name string, data []byte) // as that of Options
}

// LoadClient reads the files of o. The text is the whole identity of the settings,
// without being any of their secrets: it changes with what the files hold, and is
// "" for the zero options. The error names the file and says what is wrong with it.
func LoadClient(o ClientOptions) (*tls.Config, string, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: o.NoVerify}
	if o.CAFile == "" && o.CAPath == "" && o.CertFile == "" && o.KeyFile == "" && !o.NoVerify {
		return c, "", nil
	}
	digest := sha256.New()
	fmt.Fprintf(digest, "verify %v\n", !o.NoVerify)
	if o.CAFile != "" || o.CAPath != "" {
		c.RootCAs = x509.NewCertPool()
		found := false
		err := eachFile(o.Seen, o.CAFile, o.CAPath, "authorities", func(name string, pem []byte) error {
			holds := c.RootCAs.AppendCertsFromPEM(pem)
			if !holds && name == o.CAFile {
				return fmt.Errorf("%s: no certificate in it", name)
			}
			if holds {
				found = true
				fmt.Fprintf(digest, "authorities %d\n%s", len(pem), pem)
			}
			return nil
		})
		if err == nil && !found {
			err = fmt.Errorf("authorities %s: no certificate in it", o.CAPath)
		}
		if err != nil {
			return nil, "", err
		}
	}
	if o.CertFile != "" || o.KeyFile != "" {
		pair, err := loadPair(Options{CertFile: o.CertFile, KeyFile: o.KeyFile, Seen: o.Seen})
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
