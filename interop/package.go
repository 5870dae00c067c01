package main

import (
	"errors"
	"os"
	"os/exec"
	"strings"
)

// packaged makes the Debian package and has packaging/test-clean install it in a new
// Debian, serve the example tree as its unit would, and purge it.
func packaged(r *run) error {
	if os.Geteuid() != 0 {
		return errors.New("only root can make a new Debian")
	}
	r.check("installed, served and purged in a new Debian", func() (string, error) {
		out, err := exec.CommandContext(r.ctx, "make", "build", "deb-test-clean").CombinedOutput()
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if err != nil {
			return "", errors.New(err.Error() + "\n" + string(tail(out)))
		}
		return strings.Join(lines[max(0, len(lines)-2):], "; "), nil
	})
	return nil
}
