package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// tlsPeers lets programs that look for faults of TLS look at the defaults: sslscan,
// testssl.sh, and openssl for names.
func tlsPeers(r *run) error {
	j, err := r.serve(tree{name: "tls", secure: true})
	if err != nil {
		return err
	}
	defer r.down(j)
	r.check("tls-sslscan", func() (string, error) {
		out, err := exec.CommandContext(r.ctx, "sslscan", "--no-colour", j.https).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%v: %.300s", err, out)
		}
		for _, want := range []string{"TLSv1.0   disabled", "TLSv1.1   disabled", "TLSv1.2   enabled", "TLSv1.3   enabled", "Session renegotiation not supported"} {
			if !strings.Contains(string(out), want) {
				return "", fmt.Errorf("no %q in its report", want)
			}
		}
		return "TLS 1.2 and 1.3 alone", nil
	})
	r.check("tls-testssl", func() (string, error) { return r.testssl(j) })
	r.check("tls-openssl-names", func() (string, error) {
		for _, name := range []string{"localhost", "unknown.test", ""} {
			args := []string{"s_client", "-connect", j.https, "-noservername"}
			if name != "" {
				args = []string{"s_client", "-connect", j.https, "-servername", name}
			}
			cmd := exec.CommandContext(r.ctx, "openssl", args...)
			cmd.Stdin = strings.NewReader("")
			out, _ := cmd.CombinedOutput()
			if !strings.Contains(string(out), "BEGIN CERTIFICATE") {
				return "", fmt.Errorf("name %q: no certificate: %.300s", name, out)
			}
		}
		return "a known name, an unknown one, none", nil
	})
	return nil
}

// testssl runs the checks that do not depend on who has signed the certificate, and
// fails for a finding above LOW.
func (r *run) testssl(j *jet) (string, error) {
	file := filepath.Join(r.dir, "testssl.json")
	out, err := exec.CommandContext(r.ctx, "testssl", "--quiet", "--color", "0", "--warnings", "off", "--jsonfile", file,
		"-p", "-s", "-f", "-P", "-h", "-U", j.https).CombinedOutput()
	data, readErr := os.ReadFile(file)
	if readErr != nil {
		return "", fmt.Errorf("%v: %v: %.300s", readErr, err, out)
	}
	var findings []struct{ ID, Severity, Finding string }
	if err := json.Unmarshal(data, &findings); err != nil {
		return "", err
	}
	low, bad := 0, []string(nil)
	for _, f := range findings {
		switch f.Severity {
		case "OK", "INFO", "", "WARN": // WARN is about what testssl itself cannot do
		case "LOW":
			low++
		default:
			bad = append(bad, f.ID+" "+f.Severity+": "+f.Finding)
		}
	}
	if len(bad) > 0 || len(findings) < 20 {
		return "", fmt.Errorf("%d findings; above LOW: %s", len(findings), strings.Join(bad, "; "))
	}
	return fmt.Sprintf("%d findings, %d of them LOW, none above", len(findings), low), nil
}
