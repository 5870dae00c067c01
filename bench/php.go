package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// phpWorkers is the number of children of lsphp and of PHP-FPM.
const phpWorkers = 4

// lsphpDir is the folder with lsphp and php-fpm of one build, as make interop-lsphp
// leaves it in its cache; "" if there is none.
func lsphpDir() string {
	base := os.Getenv("HTTPJET_LSPHP_CACHE")
	if base == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return ""
		}
		base = filepath.Join(cache, "httpjet-lsphp")
	}
	newest, dir := time.Time{}, ""
	found, _ := filepath.Glob(filepath.Join(base, "*", "lsphp")) // the pattern is ours
	for _, program := range found {
		info, err := os.Stat(program)
		if _, failed := os.Stat(filepath.Join(filepath.Dir(program), "php-fpm")); err == nil && failed == nil && info.ModTime().After(newest) {
			newest, dir = info.ModTime(), filepath.Dir(program)
		}
	}
	return dir
}

func needsPHP() string {
	if lsphpDir() == "" {
		return "lsphp is not in its cache: make interop-lsphp"
	}
	return ""
}

// Each server has a pool of its own: kept connections of one would hold the children
// that another waits for. So would those of one worker of nginx, of which each has its own.
const fpmConf = `[global]
daemonize = no
error_log = /dev/stderr
{{- range $name, $children := .Pools}}
[{{$name}}]
listen = {{$.Dir}}/{{$name}}.sock
listen.mode = 0666
pm = static
pm.max_children = {{$children}}
security.limit_extensions = .fpm
{{$.User}}
{{- end}}
`

// startPHP starts lsphp and php-fpm at the sockets of the configuration, on the cores of
// what is not measured, as another user if this is root.
func (b *bench) startPHP(ctx context.Context, c cores) ([]*running, error) {
	from, dir := lsphpDir(), filepath.Join(b.dir, "php")
	as, user := []string{}, ""
	if os.Geteuid() == 0 {
		as, user = []string{"setpriv", "--reuid=www-data", "--regid=www-data", "--clear-groups"}, "user = www-data\ngroup = www-data\n"
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o777); err != nil { // of a folder that only this run has
		return nil, err
	}
	conf := filepath.Join(dir, "fpm.conf")
	pools := map[string]int{"fpm": phpWorkers, caddy.name: phpWorkers, nginx.name: phpWorkers * c.n}
	text, err := render(fpmConf, map[string]any{"Pools": pools, "Dir": dir, "User": user})
	if err == nil {
		err = write(conf, text)
	}
	if err != nil {
		return nil, err
	}
	// Workers that are another user have to get at the program.
	program := filepath.Join(dir, "lsphp")
	code, err := os.ReadFile(filepath.Join(from, "lsphp"))
	if err == nil {
		err = os.WriteFile(program, code, 0o755)
	}
	if err != nil {
		return nil, err
	}
	commands := map[string][]string{
		"lsphp.sock": append(as, "env", "-i", "PATH=/usr/bin:/bin", "PHP_LSAPI_CHILDREN="+strconv.Itoa(phpWorkers), "LSAPI_ACCEPT_NOTIFY=1",
			program, "-n", "-b", filepath.Join(dir, "lsphp.sock")),
		"fpm.sock": {filepath.Join(from, "php-fpm"), "-n", "-F", "-y", conf},
	}
	var all []*running
	for sock, args := range commands {
		r := &running{name: filepath.Base(args[0]), behind: true, out: &tail{}}
		r.cmd = command(r.out, b.dir, c.pin(c.load, args)...)
		if err := r.cmd.Start(); err != nil {
			return all, err
		}
		all = append(all, r)
		if err := listens(ctx, filepath.Join(dir, sock)); err != nil {
			return all, fmt.Errorf("%s: %w\n%s", r.name, err, r.out)
		}
	}
	return all, nil
}

// listens waits until somebody takes connections at a socket.
func listens(ctx context.Context, path string) (err error) {
	for range 200 {
		var nc net.Conn
		if nc, err = net.Dial("unix", path); err == nil {
			return nc.Close()
		}
		if sleep(ctx, 50*time.Millisecond) != nil {
			return ctx.Err()
		}
	}
	return err
}

// few is wrk by no more clients than PHP-FPM has children.
func (b *bench) few(ctx context.Context, c cores, e entry, r *running) (sample, error) {
	few := *b
	few.connections = phpWorkers
	return few.wrk(ctx, c, e, r)
}

// beside is wall for 100 connections (R-PERF-1), and for the entry direct with the
// upstream in the place of the server.
func (b *bench) beside(ctx context.Context, c cores, e entry, r *running) (sample, error) {
	hundred := *b
	hundred.connections = 100
	url := "http://" + r.http + e.path
	if e.label == "direct" {
		url = "http://" + b.app + e.path
	}
	x, err := hundred.wrkAt(ctx, c, host, url, r)
	if err == nil {
		x.Value = x.Seconds * 1e6 / float64(x.Work)
	}
	return x, err
}

// wall is wrk where the time counts that requests take, and not what they cost.
func (b *bench) wall(ctx context.Context, c cores, e entry, r *running) (sample, error) {
	x, err := b.wrk(ctx, c, e, r)
	if err == nil {
		x.Value = x.Seconds * 1e6 / float64(x.Work)
	}
	return x, err
}
