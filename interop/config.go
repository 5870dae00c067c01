package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The size of a tree that has to load and check, and what that may take.
const (
	bigHosts      = 2000
	bigContexts   = 5 // of each host: 10,000
	bigProcessors = 1000
	bigMost       = 2 * time.Second
	bigMemory     = 300 << 20
)

// config checks a big tree in both languages, and the schemas by xmllint.
func config(r *run) error {
	for _, plain := range []bool{false, true} {
		name := "big-tree-xml"
		if plain {
			name = "big-tree-plain"
		}
		dir := filepath.Join(r.dir, name)
		if err := bigTree(dir, plain); err != nil {
			return err
		}
		r.check(name+"-check", func() (detail string, err error) {
			for range 3 { // the least counts: a machine that has others to serve, or is slow for a while, adds to the rest
				if detail, err = r.big(dir, bigMost, "check", "--strict"); err == nil {
					break
				}
			}
			return detail, err
		})
		if !plain {
			r.check(name+"-report", func() (string, error) { return r.big(dir, 0, "report", "--format", "html") })
			r.check(name+"-reloads", func() (string, error) { return r.bigReloads(dir) })
		}
	}
	r.check("xmllint-examples", r.xmllint)
	return nil
}

// big runs httpjet over a tree and tells what it took; more CPU than most is a
// failure, 0 is no limit.
func (r *run) big(dir string, most time.Duration, args ...string) (string, error) {
	cmd := exec.CommandContext(r.ctx, r.bin, append([]string{"--root", dir}, args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	memory, err := runWatched(cmd)
	if err != nil {
		return "", fmt.Errorf("%v: %.300s", err, out.String())
	}
	took := time.Since(began)
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	detail := fmt.Sprintf("%d hosts, %d contexts, %d processors: %.2f s, CPU %.2f s, %d MiB",
		bigHosts, bigHosts*bigContexts, bigProcessors, took.Seconds(), cpu.Seconds(), memory>>20)
	if most > 0 && (cpu > most || memory > bigMemory) { // other programs may have the machine
		return "", fmt.Errorf("%s: too much", detail)
	}
	return detail, nil
}

// runWatched runs cmd and returns the most memory that it had, bytes. What wait(2) tells
// (ru_maxrss) would be that of this process if it has more: a child begins as it.
func runWatched(cmd *exec.Cmd) (most int64, err error) {
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	look := time.NewTicker(2 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case err := <-ended:
			return most, err
		case <-look.C:
			if n, err := memoryOf(cmd.Process.Pid, "VmHWM"); err == nil { // none of one that ends
				most = max(most, n)
			}
		}
	}
}

// bigTree writes a tree with a file for each host.
func bigTree(dir string, plain bool) error {
	server := render{plain: plain}
	server.open("httpServerConfig", "")
	server.value("serverName", "big.test")
	for i := range bigProcessors / 2 {
		server.processor(fmt.Sprintf("shared%d", i), i)
	}
	for i := range bigHosts {
		server.open("virtualHost", fmt.Sprintf("host%d", i))
		server.value("vhRoot", fmt.Sprintf("sites/%d", i))
		server.value("configFile", fmt.Sprintf("conf/hosts/%d.conf", i))
		server.close("virtualHost")
	}
	server.open("listener", "Default")
	server.value("address", "*:8080")
	for i := range bigHosts {
		server.mapping(fmt.Sprintf("host%d", i), fmt.Sprintf("host%d.test, www.host%d.example", i, i))
	}
	server.close("listener")
	server.close("httpServerConfig")
	if err := server.write(filepath.Join(dir, "conf", map[bool]string{false: "httpd_config.xml", true: "httpd_config.conf"}[plain])); err != nil {
		return err
	}
	for i := range bigHosts {
		if err := os.MkdirAll(filepath.Join(dir, fmt.Sprintf("sites/%d/html", i)), 0o755); err != nil {
			return err
		}
		if err := bigHost(dir, i, plain); err != nil {
			return err
		}
	}
	return nil
}

func bigHost(dir string, i int, plain bool) error {
	host := render{plain: plain}
	host.open("virtualHostConfig", "")
	host.value("docRoot", "$VH_ROOT/html")
	app := fmt.Sprintf("shared%d", i%(bigProcessors/2))
	if i%(2*bigHosts/bigProcessors) == 0 {
		app = "app"
		host.processor(app, i)
	}
	for k := range bigContexts {
		host.open("context", fmt.Sprintf("/part%d/", k))
		host.value("type", "proxy")
		host.value("handler", app)
		host.close("context")
	}
	host.close("virtualHostConfig")
	return host.write(filepath.Join(dir, fmt.Sprintf("conf/hosts/%d.conf", i)))
}

// render writes settings in one of the two languages.
type render struct {
	plain bool
	out   bytes.Buffer
}

// open begins a block, of which label is the name or uri.
func (w *render) open(name, label string) {
	root := strings.HasSuffix(name, "Config")
	switch {
	case w.plain && !root:
		fmt.Fprintf(&w.out, "%s %s {\n", strings.ToLower(name), label)
	case !w.plain:
		fmt.Fprintf(&w.out, "<%s>\n", name)
		if name == "context" {
			w.value("uri", label)
		} else if label != "" {
			w.value("name", label)
		}
	}
}

func (w *render) close(name string) {
	switch {
	case w.plain && !strings.HasSuffix(name, "Config"):
		w.out.WriteString("}\n")
	case !w.plain:
		fmt.Fprintf(&w.out, "</%s>\n", name)
	}
}

func (w *render) value(name, text string) {
	if w.plain {
		fmt.Fprintf(&w.out, "  %s %s\n", name, text)
		return
	}
	fmt.Fprintf(&w.out, "  <%s>%s</%s>\n", name, text, name)
}

func (w *render) mapping(host, domains string) {
	if w.plain {
		w.value("map", host+" "+domains)
		return
	}
	fmt.Fprintf(&w.out, "  <vhostMap><vhost>%s</vhost><domain>%s</domain></vhostMap>\n", host, domains)
}

func (w *render) processor(name string, i int) {
	w.open("extProcessor", name)
	w.value("type", "proxy")
	w.value("address", fmt.Sprintf("10.%d.%d.1:8080", i/250, i%250))
	w.value("maxConns", "50")
	w.close("extProcessor")
}

func (w *render) write(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, w.out.Bytes(), 0o644)
}

// xmllint validates the example tree by the schemas that the program prints, and
// must refuse a file with a bad value.
func (r *run) xmllint() (string, error) {
	validate := func(kind, file string) error {
		schema := filepath.Join(r.dir, kind+".xsd")
		text, err := exec.CommandContext(r.ctx, r.bin, "schema", kind).Output()
		if err != nil {
			return err
		}
		if err := os.WriteFile(schema, text, 0o644); err != nil {
			return err
		}
		if out, err := exec.CommandContext(r.ctx, "xmllint", "--noout", "--schema", schema, file).CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %s", err, out)
		}
		return nil
	}
	for file, kind := range map[string]string{"examples/site/conf/httpd_config.xml": "server", "examples/site/conf/vhosts/site.xml": "vhost"} {
		if err := validate(kind, file); err != nil {
			return "", err
		}
	}
	bad := filepath.Join(r.dir, "bad.xml")
	if err := os.WriteFile(bad, []byte("<httpServerConfig><tuning><connTimeout>soon</connTimeout></tuning></httpServerConfig>"), 0o644); err != nil {
		return "", err
	}
	if err := validate("server", bad); err == nil || !strings.Contains(err.Error(), "'soon' is not a valid value") {
		return "", fmt.Errorf("a bad value gives %v", err)
	}
	return "valid files are accepted, a bad value is not", nil
}
