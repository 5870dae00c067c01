package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A gitHost has repositories that git http-backend serves, as a CGI program behind
// fcgiwrap, with a password.
type gitHost struct {
	r   *run
	dir string
	*client
}

// prepare makes a repository and the folders of CGI programs: symbolic links to what
// may run.
func (g *gitHost) prepare() error {
	return g.r.command("/bin/sh", "-c", strings.ReplaceAll(`set -e
cd DIR && mkdir bin git repositories
chmod 755 app.pl && cp app.pl bin/app && ln -s "$(git --exec-path)/git-http-backend" git/git-http-backend
git init -q --bare -b main repositories/one.git
git init -q -b main first && cd first && git config user.email a@example.invalid && git config user.name A
echo first >a.txt && git add a.txt && git commit -q -m first && git push -q ../repositories/one.git main`, "DIR", g.dir))
}

func (g *gitHost) url(user string) string {
	return strings.Replace(g.base, "://", "://"+user, 1) + "/repositories/one.git"
}

// git runs Git in a folder below the host's.
func (g *gitHost) git(folder string, args ...string) (string, error) {
	cmd := exec.CommandContext(g.r.ctx, "git", args...)
	cmd.Dir = filepath.Join(g.dir, folder)
	cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0", "GIT_CURL_VERBOSE=1", "GIT_TRACE_CURL_NO_DATA=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("git %s: %v\n%s", args[0], err, tail(out))
	}
	return string(out), err
}

func (g *gitHost) clone() (string, error) {
	if _, err := g.git("", "clone", "-q", g.url("git:secret@"), "clone"); err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(g.dir, "clone/a.txt"))
	if err != nil {
		return "", err
	}
	return "by its URL with a password", same(text, []byte("first\n"))
}

// push sends more than Git holds in memory, so in chunks whose sum it does not say.
func (g *gitHost) push() (string, error) {
	data := noise(8 << 20)
	if err := os.WriteFile(filepath.Join(g.dir, "clone/noise.bin"), data, 0o644); err != nil {
		return "", err
	}
	for _, args := range [][]string{{"config", "user.email", "b@example.invalid"}, {"config", "user.name", "B"}, {"add", "noise.bin"}, {"commit", "-q", "-m", "noise"}} {
		if _, err := g.git("clone", args...); err != nil {
			return "", err
		}
	}
	out, err := g.git("clone", "push", "origin", "main")
	if err != nil {
		return "", err
	}
	if !strings.Contains(strings.ToLower(out), "transfer-encoding: chunked") {
		return "", errors.New("nothing was sent in chunks")
	}
	got, err := exec.CommandContext(g.r.ctx, "git", "-C", filepath.Join(g.dir, "repositories/one.git"), "show", "main:noise.bin").Output()
	if err != nil {
		return "", err
	}
	if !bytes.Equal(got, data) {
		return "", errors.New("the repository has another file")
	}
	// The history in a second clone, by a request that Git compresses.
	if _, err := g.git("", "clone", "-q", g.url("git:secret@"), "again"); err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(g.dir, "again/noise.bin"))
	if err != nil {
		return "", err
	}
	return "8 MiB in chunks, cloned back", same(text, data)
}

func (g *gitHost) stranger() (string, error) {
	out, err := g.git("", "clone", "-q", g.url(""), "stranger")
	if err == nil || !strings.Contains(out, "401") {
		return "", fmt.Errorf("a clone without a password: %v", err)
	}
	// The program is behind the password under its own path too.
	_, err = g.statuses(401, "refs/heads", "/git/git-http-backend/one.git/info/refs", "/repositories/one.git/info/refs", "/repositories/one.git/HEAD", "/git/missing")
	return "", err
}
