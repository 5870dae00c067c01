package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// A database is a MariaDB of the run's own, on a socket that nobody else knows. The
// system's service is not touched.
type database struct {
	*process
	sock string
}

// startMariaDB makes an empty database and starts it, as the user mysql if this is
// root. Its root has no password.
func (r *run) startMariaDB(name string) (*database, error) {
	dir := filepath.Join(r.dir, "mariadb")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	user := []string{}
	if os.Geteuid() == 0 {
		user = append(user, "--user=mysql")
		if err := r.command("chown", "mysql:mysql", dir); err != nil {
			return nil, err
		}
	}
	d := &database{sock: filepath.Join(dir, "db.sock")}
	data := "--datadir=" + filepath.Join(dir, "data")
	if err := r.command("mariadb-install-db", append([]string{"--no-defaults", data, "--auth-root-authentication-method=normal", "--skip-test-db"}, user...)...); err != nil {
		return nil, err
	}
	args := append([]string{"--no-defaults", data, "--socket=" + d.sock, "--skip-networking", "--pid-file=" + filepath.Join(dir, "db.pid"),
		"--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0", "--skip-log-bin"}, user...)
	var err error
	if d.process, err = r.start("mariadbd", args...); err != nil {
		return nil, err
	}
	if err := d.ready(r.ctx, dial("unix", d.sock)); err != nil {
		d.stop()
		return nil, err
	}
	out, err := exec.CommandContext(r.ctx, "mariadb", "--no-defaults", "--socket="+d.sock, "--user=root", "--execute=CREATE DATABASE "+name).CombinedOutput()
	if err != nil {
		d.stop()
		return nil, errors.New(string(tail(out)))
	}
	return d, nil
}
