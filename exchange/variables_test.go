package exchange

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"strings"
	"testing"
	"time"
)

func TestVariables(t *testing.T) {
	x := &Exchange{Env: []Field{{"A", "1"}, {"DontLog", "1"}, {"off", "0"}, {"none", ""}}}
	for name, want := range map[string]bool{"dontlog": true, "DONTLOG": true, "a": true, "off": false, "none": false, "b": false} {
		if got := x.Says(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if v := x.Variable("a"); v != "1" {
		t.Error(v)
	}
}

// The variable nokeepalive of rules ends the connection behind any answer.
func TestNoKeepAlive(t *testing.T) {
	for value, want := range map[string]string{"1": "close", "0": "", "": ""} {
		for _, err := range []error{nil, Fail(404, "not_found", "x")} {
			x, _ := newExchange("GET", "")
			x.Env = append(x.Env, Field{"nokeepalive", value})
			Run(x, HandlerFunc(func(*Exchange) error { return err }))
			if got := x.Resp.Fields.Get("Connection"); got != want {
				t.Errorf("nokeepalive %q, %v: %q", value, err, got)
			}
		}
	}
}

func TestTLSVariable(t *testing.T) {
	cert := &x509.Certificate{Raw: []byte("raw"), Version: 3, SerialNumber: big.NewInt(0xab), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1e9, 0),
		Subject: pkix.Name{CommonName: "ann", Organization: []string{"Own", "Other"}}, Issuer: pkix.Name{CommonName: "root"}}
	verified := &tls.ConnectionState{Version: tls.VersionTLS13, CipherSuite: tls.TLS_CHACHA20_POLY1305_SHA256, ServerName: "a.test",
		PeerCertificates: []*x509.Certificate{cert}, VerifiedChains: [][]*x509.Certificate{{cert}}}
	claimed := &tls.ConnectionState{Version: tls.VersionTLS12, CipherSuite: tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, PeerCertificates: verified.PeerCertificates}
	bare := &tls.ConnectionState{Version: tls.VersionTLS13, CipherSuite: tls.TLS_AES_256_GCM_SHA384}
	f := func(s *tls.ConnectionState, name, want string) {
		t.Helper()
		if got, known := TLSVariable(s, name); got != want || !known {
			t.Errorf("%s: %q %v, want %q", name, got, known, want)
		}
	}
	f(verified, "SSL_PROTOCOL", "TLSv1.3")
	f(claimed, "SSL_PROTOCOL", "TLSv1.2")
	f(verified, "SSL_CIPHER", "TLS_CHACHA20_POLY1305_SHA256")
	f(verified, "SSL_CIPHER_USEKEYSIZE", "256")
	f(claimed, "SSL_CIPHER_ALGKEYSIZE", "128")
	f(verified, "SSL_TLS_SNI", "a.test")
	f(verified, "SSL_SESSION_ID", "")
	f(verified, "SSL_CLIENT_VERIFY", "SUCCESS")
	f(claimed, "SSL_CLIENT_VERIFY", "GENEROUS")
	f(bare, "SSL_CLIENT_VERIFY", "NONE")
	f(nil, "SSL_CLIENT_VERIFY", "")
	f(verified, "SSL_CLIENT_CERT", "-----BEGIN CERTIFICATE-----\ncmF3\n-----END CERTIFICATE-----\n")
	f(verified, "SSL_CLIENT_M_SERIAL", "AB")
	f(verified, "SSL_CLIENT_M_VERSION", "3")
	f(verified, "SSL_CLIENT_V_START", "Jan  1 00:00:00 1970 GMT")
	f(verified, "SSL_CLIENT_V_END", "Sep  9 01:46:40 2001 GMT")
	f(verified, "SSL_CLIENT_S_DN", "CN=ann,O=Own+O=Other")
	f(verified, "SSL_CLIENT_S_DN_O", "Own")
	f(verified, "SSL_CLIENT_S_DN_L", "")
	f(verified, "SSL_CLIENT_I_DN_CN", "root")
	for _, s := range []*tls.ConnectionState{claimed, bare, nil} { // nothing that was not verified is told
		for name := range strings.FieldsSeq("CERT M_SERIAL M_VERSION V_START V_END S_DN S_DN_CN I_DN I_DN_O") {
			f(s, "SSL_CLIENT_"+name, "")
		}
	}
	for _, name := range []string{"SSL_OTHER", "SSL_CLIENT_OTHER", "SSL_CLIENT_S_DN_X", "PROTOCOL", "SSL_"} {
		if got, known := TLSVariable(verified, name); got != "" || known {
			t.Errorf("%s: %q %v", name, got, known)
		}
	}
}
