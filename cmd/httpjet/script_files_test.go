package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// subst FILE...: replaces ${NAME} by what backend, port and occupy set NAME to.
// Variables of the configuration stay.
func cmdSubst(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 1, -1, "subst FILE...")
	vars := of(ts).vars
	for _, file := range args {
		text := regexp.MustCompile(`\$\{\w+\}`).ReplaceAllStringFunc(ts.ReadFile(file), func(v string) string {
			if value, ok := vars[v[2:len(v)-1]]; ok {
				return value
			}
			return v
		})
		ts.Check(os.WriteFile(ts.MkAbs(file), []byte(text), 0o644))
	}
}

// port NAME: sets NAME to an address that nobody listens on.
func cmdPort(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 1, 1, "port NAME")
	ln := listenAnew(ts)
	of(ts).set(ts, args[0], ln.Addr().String())
	ts.Check(ln.Close())
}

// occupy NAME: sets NAME to an address that is in use until the script ends.
func cmdOccupy(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 1, 1, "occupy NAME")
	s, ln := of(ts), listenAnew(ts)
	s.closers = append(s.closers, ln)
	s.set(ts, args[0], ln.Addr().String())
}

// listenAnew listens on an address that the script has not been given before: the kernel
// may choose again what has been closed.
func listenAnew(ts *testscript.TestScript) net.Listener {
	s := of(ts)
	for {
		ln, err := net.Listen("tcp", s.loopback+":0")
		ts.Check(err)
		given := false
		for _, value := range s.vars {
			given = given || value == ln.Addr().String()
		}
		if !given {
			return ln
		}
		defer ln.Close() // held until there is another one
	}
}

// keypair BASE DOMAIN...: writes BASE.crt and BASE.key; get trusts it.
func cmdKeypair(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 2, -1, "keypair BASE DOMAIN...")
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ts.Check(err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: args[1]}, DNSNames: args[1:],
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	ts.Check(err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	ts.Check(err)
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".crt"), certPEM, 0o644))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
	of(ts).roots.AppendCertsFromPEM(certPEM)
}

// holds FILE REGEXP [N]: a file that the server writes comes to hold a line that
// matches, N of them if given. Negated: it holds none now.
func cmdHolds(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 2, 3, "holds FILE REGEXP [N]")
	re := regexp.MustCompile(`(?m)` + args[1])
	count := func() int {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		if err != nil && !os.IsNotExist(err) {
			ts.Fatalf("%v", err)
		}
		return len(re.FindAll(text, -1))
	}
	if neg {
		if n := count(); n > 0 {
			ts.Fatalf("%s holds %q %d times", args[0], args[1], n)
		}
		return
	}
	ok := eventually(func() bool { return len(args) == 2 && count() > 0 || len(args) == 3 && fmt.Sprint(count()) == args[2] })
	if !ok {
		text, _ := os.ReadFile(ts.MkAbs(args[0]))
		ts.Fatalf("%s holds %q %d times:\n%s", args[0], args[1], count(), text)
	}
}

// exits CODE PROGRAM [argument...]: exec of a program that ends with that code.
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, args, 2, -1, "exits CODE PROGRAM [argument...]")
	err, got := ts.Exec(args[1], args[2:]...), 0
	if ee, ok := errors.AsType[*exec.ExitError](err); ok {
		got, err = ee.ExitCode(), nil
	}
	if strconv.Itoa(got) != args[0] {
		err = fmt.Errorf("exit code %d, want %s", got, args[0])
	}
	outcome(ts, neg, err)
}
