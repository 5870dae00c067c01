package exchange

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"strconv"
	"strings"
)

// certTime is how times of certificates are written for applications.
const certTime = "Jan _2 15:04:05 2006 GMT"

// TLSVariable returns the variable called name of a TLS connection, which may be nil;
// the names are those that applications of other servers know: SSL_PROTOCOL,
// SSL_CLIENT_S_DN. A certificate that was not verified is not described. It is not known
// where there is no such variable; SSL_SESSION_ID is, and is empty: the TLS of this
// server has none to tell.
func TLSVariable(s *tls.ConnectionState, name string) (value string, known bool) {
	name, ok := strings.CutPrefix(name, "SSL_")
	if !ok {
		return "", false
	}
	if rest, ok := strings.CutPrefix(name, "CLIENT_"); ok {
		return clientVariable(s, rest)
	}
	switch name {
	case "PROTOCOL", "CIPHER", "CIPHER_USEKEYSIZE", "CIPHER_ALGKEYSIZE", "TLS_SNI", "SESSION_ID":
	default:
		return "", false
	}
	if s == nil {
		return "", true
	}
	switch name {
	case "PROTOCOL":
		return tlsVersion(s.Version), true
	case "CIPHER":
		return tls.CipherSuiteName(s.CipherSuite), true
	case "CIPHER_USEKEYSIZE", "CIPHER_ALGKEYSIZE":
		return keySize(tls.CipherSuiteName(s.CipherSuite)), true
	case "TLS_SNI":
		return s.ServerName, true
	}
	return "", true
}

// clientVariable returns SSL_CLIENT_ and name.
func clientVariable(s *tls.ConnectionState, name string) (value string, known bool) {
	var cert *x509.Certificate
	if s != nil && len(s.VerifiedChains) > 0 && len(s.PeerCertificates) > 0 {
		cert = s.PeerCertificates[0]
	}
	if name == "VERIFY" {
		switch {
		case s == nil:
			return "", true
		case cert != nil:
			return "SUCCESS", true
		case len(s.PeerCertificates) > 0:
			return "GENEROUS", true
		}
		return "NONE", true
	}
	if cert == nil {
		cert = &x509.Certificate{}
		_, known = certVariable(cert, name)
		return "", known
	}
	return certVariable(cert, name)
}

func certVariable(c *x509.Certificate, name string) (value string, known bool) {
	switch name {
	case "CERT":
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})), true
	case "M_SERIAL":
		if c.SerialNumber == nil {
			return "", true
		}
		return strings.ToUpper(c.SerialNumber.Text(16)), true
	case "M_VERSION":
		return strconv.Itoa(c.Version), true
	case "V_START":
		return c.NotBefore.UTC().Format(certTime), true
	case "V_END":
		return c.NotAfter.UTC().Format(certTime), true
	case "S_DN":
		return c.Subject.String(), true
	case "I_DN":
		return c.Issuer.String(), true
	}
	if part, ok := strings.CutPrefix(name, "S_DN_"); ok {
		return nameVariable(&c.Subject, part)
	}
	if part, ok := strings.CutPrefix(name, "I_DN_"); ok {
		return nameVariable(&c.Issuer, part)
	}
	return "", false
}

// nameVariable returns a part of a distinguished name, the first of several.
func nameVariable(n *pkix.Name, part string) (value string, known bool) {
	var list []string
	switch part {
	case "CN":
		return n.CommonName, true
	case "O":
		list = n.Organization
	case "OU":
		list = n.OrganizationalUnit
	case "C":
		list = n.Country
	case "ST":
		list = n.Province
	case "L":
		list = n.Locality
	default:
		return "", false
	}
	if len(list) == 0 {
		return "", true
	}
	return list[0], true
}

// tlsVersion spells versions as other servers do for their applications.
func tlsVersion(version uint16) string {
	switch version {
	case tls.VersionTLS10:
		return "TLSv1"
	case tls.VersionTLS11:
		return "TLSv1.1"
	case tls.VersionTLS12:
		return "TLSv1.2"
	case tls.VersionTLS13:
		return "TLSv1.3"
	}
	return tls.VersionName(version)
}

// keySize is the number of bits of the key of a cipher suite, by its name.
func keySize(suite string) string {
	switch {
	case strings.Contains(suite, "AES_128"), strings.Contains(suite, "RC4_128"):
		return "128"
	case strings.Contains(suite, "AES_256"), strings.Contains(suite, "CHACHA20"):
		return "256"
	case strings.Contains(suite, "3DES"):
		return "168"
	}
	return ""
}
