package tlsconf

import (
	"crypto/tls"
	"slices"
	"testing"
)

// A list of OpenSSL selects, removes and forbids by names and words; nothing that is
// unsafe can be asked for.
func TestCiphers(t *testing.T) {
	const (
		ecdsa128, rsa128 = tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
		ecdsa256, rsa256 = tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384
		ecdsaCha, rsaCha = tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
	)
	f := func(list string, unknown []string, want ...uint16) {
		t.Helper()
		got, no := Ciphers(list)
		if !slices.Equal(got, want) || !slices.Equal(no, unknown) {
			t.Errorf("%q: %x, unknown %q; want %x, %q", list, got, no, want, unknown)
		}
	}
	f("", nil)
	f("ECDHE-RSA-AES128-GCM-SHA256", nil, rsa128)
	f("ecdhe-rsa-aes128-gcm-sha256 ECDHE-ECDSA-CHACHA20-POLY1305", nil, rsa128, ecdsaCha)
	f("EECDH+AESGCM:EDH+AESGCM", nil, ecdsa128, rsa128, ecdsa256, rsa256)
	f("EECDH+AES128:!SHA1,@STRENGTH", nil, ecdsa128, rsa128)
	f("ALL:!aECDSA:!AES", nil, rsaCha)
	f("HIGH:-AESGCM:-SHA:+CHACHA20", nil, ecdsaCha, rsaCha)
	f("!CHACHA20:CHACHA20", nil) // what is forbidden does not come back
	f("-CHACHA20:CHACHA20+aRSA", nil, rsaCha)
	f("TLS_AES_128_GCM_SHA256:RC4-MD5:AES128-SHA:DHE-RSA-AES256-GCM-SHA384:kRSA:3DES:ALL+RC4", nil)
	f("FANCY:ECDHE+FANCY:ECDHE-RSA-AES256-GCM-SHA384:+", []string{"FANCY", "ECDHE+FANCY", "+"}, rsa256)
	all, _ := Ciphers("ALL:eNULL:aNULL:EXPORT")
	var safe []uint16
	for _, s := range tls.CipherSuites() {
		safe = append(safe, s.ID)
	}
	if len(all) != len(suites) {
		t.Errorf("ALL is %d suites of %d", len(all), len(suites))
	}
	for _, id := range all {
		if !slices.Contains(safe, id) {
			t.Errorf("%s is not safe", tls.CipherSuiteName(id))
		}
	}
}

func FuzzCiphers(f *testing.F) {
	f.Add("EECDH+AESGCM:!aNULL:@STRENGTH")
	f.Add("!:-:+:++:!+")
	f.Fuzz(func(t *testing.T, list string) { Ciphers(list) })
}
