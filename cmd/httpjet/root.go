package main

import (
	"os"
	"path/filepath"
)

// rootVariable names the server root where --root does not, as in the unit of the
// package and its /etc/default/httpjet.
const rootVariable = "HTTPJET_ROOT"

// knownRoots are where a server root is without a word (R-CFG-1): LiteSpeed's, and that
// of the package, which has no other way to tell the commands of an administrator.
var knownRoots = [...]string{"/usr/local/lsws", "/var/lib/httpjet"}

// rootOf is the server root for what was written: by --root, else by the environment,
// else the first of known that has a configuration, else the first.
func rootOf(written, environment string, known ...string) string {
	switch {
	case written != "":
		return written
	case environment != "":
		return environment
	}
	for _, root := range known {
		for _, name := range [...]string{"httpd_config.xml", "httpd_config.conf"} {
			if _, err := os.Stat(filepath.Join(root, "conf", name)); err == nil {
				return root
			}
		}
	}
	return known[0]
}
