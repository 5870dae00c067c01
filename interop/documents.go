package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"httpjet/internal/peers"
)

// documents has the real programs look at what the documents and the package say to
// them: nginx at its configuration, promtool at scrapes, alerts and metrics.
func documents(r *run) error {
	dir := filepath.Join(r.dir, "documents")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	cert, key, err := selfSigned()
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"fullchain.pem": cert, "privkey.pem": key} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		return err
	}
	r.check("nginx blocks", func() (string, error) {
		n := 0
		for _, page := range pages {
			for _, text := range fenced(page, "nginx") {
				n++
				if err := r.nginxTakes(dir, text); err != nil {
					return "", fmt.Errorf("%s: %v", page, err)
				}
			}
		}
		if n < 5 {
			return "", fmt.Errorf("only %d found", n)
		}
		return fmt.Sprintf("%d pass nginx -t", n), nil
	})
	r.check("scrape configurations", func() (string, error) {
		n := 0
		for _, page := range pages {
			for _, text := range fenced(page, "yaml") {
				n++
				file := filepath.Join(dir, "prometheus.yml")
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					return "", err
				}
				if err := r.command("promtool", "check", "config", file); err != nil {
					return "", fmt.Errorf("%s: %v", page, err)
				}
			}
		}
		if n == 0 {
			return "", fmt.Errorf("none found")
		}
		return fmt.Sprintf("%d pass promtool check config", n), nil
	})
	r.check("alert rules", func() (string, error) {
		return "", r.command("promtool", "check", "rules", "packaging/monitoring/alerts.yml")
	})
	for _, names := range []string{"0", "1"} {
		r.check("promtool check metrics, litespeedMetrics "+names, func() (string, error) { return r.lint(names) })
	}
	return nil
}

// fenced are the blocks of a kind in a document.
func fenced(file, kind string) (out []string) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	for _, m := range regexp.MustCompile("(?ms)^```"+kind+"\\b[^\n]*\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		out = append(out, m[1])
	}
	return out
}

// nginxTakes has nginx test servers and upstreams, at ports of its own and with files
// that are there.
func (r *run) nginxTakes(dir, text string) error {
	text = regexp.MustCompile(`/etc/ssl/\w+/`).ReplaceAllString(text, dir+"/")
	var fault error
	text = regexp.MustCompile(`listen \d+`).ReplaceAllStringFunc(text, func(string) string {
		address, err := peers.FreePort()
		if err != nil {
			fault = err
		}
		return "listen " + address
	})
	if fault != nil {
		return fault
	}
	conf := filepath.Join(dir, "nginx.conf")
	whole := fmt.Sprintf("pid %s/nginx.pid;\nerror_log %s/error.log;\nevents {}\nhttp {\naccess_log off;\nclient_body_temp_path %s/b; proxy_temp_path %s/p; fastcgi_temp_path %s/f; uwsgi_temp_path %s/u; scgi_temp_path %s/s;\n%s}\n", dir, dir, dir, dir, dir, dir, dir, text)
	if err := os.WriteFile(conf, []byte(whole), 0o644); err != nil {
		return err
	}
	return r.command("nginx", "-t", "-q", "-p", dir, "-c", conf, "-e", filepath.Join(dir, "error.log"))
}

// lint has promtool look at all metrics of a server that has been asked for something.
func (r *run) lint(litespeed string) (string, error) {
	j, err := r.serve(tree{name: "lint" + litespeed, server: "<management><litespeedMetrics>" + litespeed + "</litespeedMetrics></management>", vhost: `<docRoot>$SERVER_ROOT/htdocs</docRoot>
  <extProcessor><type>proxy</type><name>app</name><address>127.0.0.1:1</address><healthCheck/></extProcessor>
  <context><type>proxy</type><uri>/app/</uri><handler>app</handler><clientRateLimit><reqPerMinute>60</reqPerMinute></clientRateLimit></context>`})
	if err != nil {
		return "", err
	}
	defer r.down(j)
	for _, path := range []string{"/", "/app/", "/none"} {
		if resp, err := http.Get("http://" + j.http + path); err == nil {
			resp.Body.Close()
		}
	}
	resp, err := http.Get("http://" + j.metrics + "/metrics")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(r.ctx, "promtool", "check", "metrics")
	cmd.Stdin = strings.NewReader(string(text))
	out, err := cmd.CombinedOutput()
	if err != nil || len(out) > 0 {
		return "", fmt.Errorf("%v: %s", err, out)
	}
	n := strings.Count(string(text), "\n# TYPE ")
	if has := strings.Contains(string(text), "\nlitespeed_up 1"); has != (litespeed == "1") {
		return "", fmt.Errorf("names of LiteSpeed's exporter: %v", has)
	}
	return fmt.Sprintf("%d families, nothing to say", n), nil
}
