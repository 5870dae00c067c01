package httpjet_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// R-DEMO-1, R-SYSD-4: what the container files say, as far as it can be seen without an
// engine: the toolchain is that of go.mod, the image is nobody's root, what is copied and
// mounted is there, ports are those of this machine alone.
func TestContainerFiles(t *testing.T) {
	read := func(file string) string {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	docker, compose := read("Dockerfile"), read("compose.yaml")
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read("go.mod"))
	if version == nil || !strings.Contains(docker, "FROM golang:"+version[1]+" ") {
		t.Errorf("the image is not built with Go %v", version)
	}
	for stage := range strings.SplitSeq(docker, "\nFROM scratch") {
		if strings.Contains(stage, "ENTRYPOINT") && !regexp.MustCompile(`(?m)^USER [1-9]\d*:[1-9]\d*$`).MatchString(stage) {
			t.Errorf("a stage runs as root:\n%s", stage)
		}
	}
	for _, m := range regexp.MustCompile(`\./(cmd|demo)/\S+`).FindAllString(docker, -1) {
		if _, err := os.Stat(m); err != nil {
			t.Error(err)
		}
	}
	mounts := regexp.MustCompile(`(?m)^ +- (\./[^:]+):`).FindAllStringSubmatch(compose, -1)
	if len(mounts) < 5 {
		t.Fatalf("only %d mounts found", len(mounts))
	}
	for _, m := range mounts {
		if _, err := os.Stat(filepath.FromSlash(m[1])); err != nil {
			t.Errorf("compose.yaml: %v", err)
		}
	}
	for _, m := range regexp.MustCompile(`ports: \[(.*)\]`).FindAllStringSubmatch(compose, -1) {
		for port := range strings.SplitSeq(m[1], ",") {
			if !strings.HasPrefix(strings.TrimSpace(port), `"127.0.0.1:`) {
				t.Errorf("compose.yaml publishes %s to everybody", port)
			}
		}
	}
	for _, port := range []string{"8080:8080", "9090:9090", "3000:3000", "9091:9091"} {
		if !strings.Contains(compose, "127.0.0.1:"+port) {
			t.Errorf("compose.yaml does not publish %s", port)
		}
	}
	for _, service := range []string{"backend-a:8001", "backend-b:8002", "backend-c:8003"} {
		name, port, _ := strings.Cut(service, ":")
		if !strings.Contains(compose, "\n  "+name+":\n") || !strings.Contains(compose, `":`+port+`"`) || !strings.Contains(read("demo/compose/conf/vhosts/demo.xml"), service) {
			t.Errorf("%s is not the same in compose.yaml and its tree", service)
		}
	}
	if target := "httpjet:9091"; !strings.Contains(read("packaging/monitoring/prometheus.yml"), target) || !strings.Contains(read("demo/compose/conf/httpd_config.xml"), ":9091</address>") {
		t.Errorf("Prometheus does not scrape %s", target)
	}
}
