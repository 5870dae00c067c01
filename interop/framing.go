package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"httpjet/internal/peers"
)

const framingNginxConf = `pid {{dir}}/framing-nginx.pid;
error_log {{dir}}/framing-nginx.log;
daemon off;
worker_processes 1;
events {}
http {
  access_log off;
  client_body_temp_path {{dir}}/framing-body; proxy_temp_path {{dir}}/framing-proxy; fastcgi_temp_path {{dir}}/framing-fastcgi;
  uwsgi_temp_path {{dir}}/framing-uwsgi; scgi_temp_path {{dir}}/framing-scgi;
  server { listen {{nginx}}; location / { return 200 "ok\n"; } }
  server { listen {{origin}}; keepalive_requests 1000000; location / { return 200 "ok\n"; } }
}
`

const framingHAProxyConf = `defaults
  mode http
  timeout connect 5s
  timeout client 20s
  timeout server 20s
frontend f
  bind {{haproxy}}
  default_backend b
backend b
  server s {{origin}}
`

const framingNode = `const [host, port] = process.argv[2].split(':');
require('http').createServer((q, s) => { q.resume(); q.on('end', () => s.end('ok\n')); }).listen(+port, host);
`

// framing asks servers what they make of messages that can be read in two ways, over
// connections that are the test's own. Nothing may differ: what httpjet lets through,
// each of them reads as httpjet does.
func framing(r *run) error {
	at := map[string]string{"{{dir}}": r.dir}
	for _, name := range []string{"nginx", "haproxy", "node", "php", "origin"} {
		addr, err := peers.FreePort()
		if err != nil {
			return err
		}
		at["{{"+name+"}}"] = addr
	}
	var pairs []string
	for k, v := range at {
		pairs = append(pairs, k, v)
	}
	fill := strings.NewReplacer(pairs...)
	if err := writeFiles(r.dir, map[string]string{"framing-nginx.conf": fill.Replace(framingNginxConf), "framing-haproxy.conf": fill.Replace(framingHAProxyConf),
		"framing.js": framingNode, "framing-php/index.php": "<?php echo 'ok';\n"}); err != nil {
		return err
	}
	file := func(name string) string { return filepath.Join(r.dir, name) }
	for _, p := range []struct {
		name string
		cmd  []string
	}{
		{"nginx", []string{"nginx", "-c", file("framing-nginx.conf"), "-p", r.dir}},
		{"haproxy", []string{"haproxy", "-f", file("framing-haproxy.conf"), "-db"}}, // before nginx
		{"node", []string{"node", file("framing.js"), at["{{node}}"]}},
		{"php", []string{"php", "-S", at["{{php}}"], "-t", file("framing-php"), file("framing-php/index.php")}},
	} {
		server, err := r.start(p.cmd[0], p.cmd[1:]...)
		if err != nil {
			return err
		}
		defer server.stop()
		address := at["{{"+p.name+"}}"]
		if err := server.ready(r.ctx, dial("tcp", address)); err != nil {
			return err
		}
		r.check(p.name, func() (string, error) { return r.framingOf(address) })
	}
	return nil
}

// framingOf runs the self-test and tells what it found.
func (r *run) framingOf(address string) (string, error) {
	out, err := exec.CommandContext(r.ctx, r.bin, "selftest", "--framing", address, "--json", "--timeout", "5s").Output()
	var report struct {
		Keeps  bool           `json:"keeps_connections"`
		Counts map[string]int `json:"counts"`
		Cases  []struct{ Name, Verdict string }
	}
	if jerr := json.Unmarshal(out, &report); jerr != nil {
		return "", fmt.Errorf("%v: %w", err, jerr)
	}
	by := map[string][]string{}
	for _, c := range report.Cases {
		by[c.Verdict] = append(by[c.Verdict], c.Name)
	}
	parts := []string{fmt.Sprintf("%d of %d messages the same", report.Counts["same"], len(report.Cases))}
	for _, v := range []string{"stricter", "lenient", "smuggles", "differs", "unknown"} {
		if names := by[v]; len(names) > 0 {
			slices.Sort(names)
			parts = append(parts, v+": "+strings.Join(names, ", "))
		}
	}
	if !report.Keeps {
		parts = append(parts, "it ends connections")
	}
	text := strings.Join(parts, "; ")
	if err != nil || len(by["differs"]) > 0 {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	return text, nil
}
