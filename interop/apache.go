package main

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"httpjet/internal/peers"
)

//go:embed assets/echo.php
var echoPHP string

// htaccessCases are the .htaccess files that both servers get, with requests: see
// readCases.
//
//go:embed assets/htaccess.txt
var htaccessCases string

const (
	differential    = 1000 // requests that are compared
	differencesFile = "docs/apache-differences.md"
)

// apacheCase is one directory with its .htaccess file.
type apacheCase struct {
	name     string
	text     string
	requests []apacheRequest
}

// apacheRequest is a request of a case; differs names the row of docs/apache-differences.md
// that says why the answers are not the same, "" if they are.
type apacheRequest struct {
	method, target string
	fields         []string
	differs        string
}

// readCases reads cases: a line "== NAME", the .htaccess file, a line "--" and
// requests, "[~ROW] [METHOD] PATH [| Field: value]...". A path begins behind that of
// the directory of the case, unless it starts with a slash.
func readCases(text string) (list []*apacheCase, err error) {
	var c *apacheCase
	asks := false
	for row := range strings.Lines(text) {
		row = strings.TrimSuffix(row, "\n")
		name, begins := strings.CutPrefix(row, "== ")
		switch {
		case begins:
			c, asks = &apacheCase{name: name}, false
			list = append(list, c)
		case c == nil:
		case row == "--":
			asks = true
		case !asks:
			c.text += strings.ReplaceAll(row, "{{dir}}", "/"+c.name) + "\n"
		case row != "":
			parts := strings.Split(row, " | ")
			q := apacheRequest{method: "GET", fields: parts[1:]}
			words := strings.Fields(parts[0])
			if len(words) > 0 && words[0][0] == '~' {
				q.differs, words = words[0][1:], words[1:]
			}
			if len(words) == 2 {
				q.method, words = words[0], words[1:]
			}
			switch {
			case len(words) == 0:
				q.target = "/" + c.name + "/"
			case words[0][0] == '/':
				q.target = words[0]
			default:
				q.target = "/" + c.name + "/" + words[0]
			}
			c.requests = append(c.requests, q)
		}
	}
	for _, c := range list {
		if len(c.requests) == 0 {
			return nil, fmt.Errorf("case %s has no request", c.name)
		}
	}
	return list, nil
}

// oracle is Apache and httpjet over one tree of files.
type oracle struct {
	r        *run
	dir      string // document root
	backend  string // address of what [P] sends to
	apache   *client
	jet      *client
	rows     map[string]bool // of docs/apache-differences.md, and whether a request showed it
	total    int
	differed int
	told     []string
}

// apache runs the same .htaccess files and the same requests through Apache httpd and
// through httpjet. Each difference has a row in docs/apache-differences.md, and each row
// is shown by a request; any other fails.
func apache(r *run) error {
	cases, err := readCases(htaccessCases)
	if err != nil {
		return err
	}
	o := &oracle{r: r, dir: filepath.Join(r.dir, "apache"), rows: map[string]bool{}}
	if err := o.readRows(); err != nil {
		return err
	}
	back, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	o.backend = back.Addr().String()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		fmt.Fprintf(w, "backend %s %s\n", q.Method, q.RequestURI)
	})}
	go server.Serve(back)
	defer server.Close()
	if err := o.files(cases); err != nil {
		return err
	}
	stop, err := o.start()
	if err != nil {
		return err
	}
	defer stop()
	r.check(fmt.Sprintf("%d-requests-of-%d-files", differential, len(cases)), func() (string, error) { return o.compareAll(cases) })
	r.check("every-row-of-differences-is-shown", func() (string, error) {
		var unseen []string
		for id, shown := range o.rows {
			if !shown {
				unseen = append(unseen, id)
			}
		}
		if len(unseen) > 0 {
			return "", fmt.Errorf("no request shows the rows %v of %s", unseen, differencesFile)
		}
		return fmt.Sprintf("%d rows", len(o.rows)), nil
	})
	return nil
}

// readRows reads the names of the rows: "| name | ...".
func (o *oracle) readRows() error {
	text, err := os.ReadFile(differencesFile)
	if err != nil {
		return err
	}
	for row := range strings.Lines(string(text)) {
		if f := strings.Split(row, "|"); len(f) > 2 {
			if id, ok := strings.CutPrefix(strings.TrimSpace(f[1]), "`"); ok {
				o.rows[strings.TrimSuffix(id, "`")] = false
			}
		}
	}
	return nil
}

// files writes the document root: every directory has the same files.
func (o *oracle) files(cases []*apacheCase) error {
	files := map[string]string{"echo.php": echoPHP, "index.html": "index of the root\n", "a.txt": "a of the root\n", "users": "ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n", "map.txt": "one /a.txt\ntwo echo\n"}
	for _, c := range cases {
		for _, name := range []string{"a.txt", "b.html", "c.css", "page.html", "index.html", "start.txt", "sub/x.txt", "sub/index.html", "d.odd", "e.svgz", "sp ace.txt", "empty.txt", "err.html"} {
			files[c.name+"/"+name] = name + " of " + c.name + "\n"
		}
		files[c.name+"/empty.txt"] = ""
		files[c.name+"/echo.php"] = echoPHP
		files[c.name+"/.htaccess"] = strings.NewReplacer("{{backend}}", o.backend, "{{root}}", o.dir).Replace(c.text)
	}
	if err := writeFiles(o.dir, files); err != nil {
		return err
	}
	for _, c := range cases {
		for link, target := range map[string]string{"l.txt": "a.txt", "ldir": "sub"} {
			if err := os.Symlink(target, filepath.Join(o.dir, c.name, link)); err != nil {
				return err
			}
		}
	}
	return nil
}

const apacheConf = `ServerRoot /usr/lib/apache2
PidFile {{dir}}/apache.pid
Mutex file:{{dir}}
ErrorLog {{dir}}/apache.log
LogLevel error
Listen {{listen}}
ServerName a.test
User www-data
Group www-data
{{modules}}
TypesConfig /dev/null
AddType text/html .html
AddType text/css .css
AddType text/plain .txt
DocumentRoot {{root}}
DirectoryIndex index.html
RewriteMap lower int:tolower
RewriteMap pages txt:{{root}}/map.txt
<Directory />
  Require all granted
</Directory>
<Directory {{root}}>
  AllowOverride All
  Options FollowSymLinks
</Directory>
<FilesMatch "^\.ht">
  Require all denied
</FilesMatch>
<FilesMatch "\.php$">
  SetHandler "proxy:unix:{{sock}}|fcgi://localhost"
</FilesMatch>
`

const apacheJet = `
  <docRoot>{{root}}</docRoot>
  <index><useServer>0</useServer><indexFiles>index.html</indexFiles></index>
  <htAccess><allowOverride>31</allowOverride></htAccess>
  <rewrite>
    <map><name>lower</name><location>int:tolower</location></map>
    <map><name>pages</name><location>txt:{{root}}/map.txt</location></map>
  </rewrite>
  <extProcessorList>
    <extProcessor><type>fcgi</type><name>php</name><address>uds:/{{sock}}</address><maxConns>4</maxConns><autoStart>0</autoStart></extProcessor>
    <extProcessor><type>proxy</type><name>{{backend}}</name><address>http://{{backend}}</address><maxConns>4</maxConns></extProcessor>
  </extProcessorList>
  <scriptHandlerList><scriptHandler><suffix>php</suffix><type>fcgi</type><handler>php</handler></scriptHandler></scriptHandlerList>`

var apacheModules = []string{"mpm_event", "authz_core", "authz_host", "authz_user", "authn_core", "authn_file", "auth_basic", "access_compat",
	"rewrite", "headers", "expires", "alias", "dir", "mime", "setenvif", "env", "ssl", "proxy", "proxy_fcgi", "proxy_http"}

// start starts PHP, Apache and httpjet; stop ends them.
func (o *oracle) start() (stop func(), err error) {
	var running []*process
	end := func() {
		for _, p := range slices.Backward(running) {
			p.stop()
		}
	}
	listen, err := peers.FreePort()
	if err != nil {
		return nil, err
	}
	own := filepath.Join(o.r.dir, "apache-run")
	if err := os.MkdirAll(own, 0o755); err != nil {
		return nil, err
	}
	sock := filepath.Join(own, "fpm.sock")
	var modules strings.Builder
	for _, m := range apacheModules {
		fmt.Fprintf(&modules, "LoadModule %s_module modules/mod_%s.so\n", m, m)
	}
	fill := strings.NewReplacer("{{dir}}", own, "{{root}}", o.dir, "{{sock}}", sock, "{{listen}}", listen, "{{backend}}", o.backend, "{{modules}}", modules.String())
	pool := "[global]\nerror_log = " + own + "/fpm.log\ndaemonize = no\n[www]\nlisten = " + sock + "\nlisten.mode = 0666\npm = static\npm.max_children = 4\n"
	if os.Geteuid() == 0 {
		pool += "user = www-data\ngroup = www-data\n"
	}
	if err := writeFiles(own, map[string]string{"fpm.conf": pool, "apache.conf": fill.Replace(apacheConf)}); err != nil {
		return nil, err
	}
	fpm, err := o.r.start("php-fpm8.2", "-F", "-y", own+"/fpm.conf")
	if err != nil {
		return nil, err
	}
	running = append(running, fpm)
	if err := fpm.ready(o.r.ctx, dial("unix", sock)); err != nil {
		end()
		return nil, err
	}
	httpd, err := o.r.start("apache2", "-D", "FOREGROUND", "-f", own+"/apache.conf")
	if err != nil {
		end()
		return nil, err
	}
	running = append(running, httpd)
	if err := httpd.ready(o.r.ctx, dial("tcp", listen)); err != nil {
		end()
		return nil, err
	}
	j, err := o.r.serve(tree{name: "apache", vhost: fill.Replace(apacheJet)})
	if err != nil {
		end()
		return nil, err
	}
	o.apache = newClient("http://"+listen, &http.Transport{DisableCompression: true})
	o.jet = j.plain()
	o.apache.Jar, o.jet.Jar = nil, nil
	return func() { o.r.down(j); end() }, nil
}

var differentialQueries = []string{"", "", "", "?a=b", "?a=b&c=d%20e", "?x=%2Fy", "?"}

// compareAll makes the requests of the cases, and then others like them, up to their
// number. The choice is the same in every run.
func (o *oracle) compareAll(cases []*apacheCase) (string, error) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range cases {
		for _, q := range c.requests {
			if err := o.compare(c, q); err != nil {
				return "", err
			}
		}
	}
	first := o.total
	for o.total < differential {
		c := cases[random.IntN(len(cases))]
		q := c.requests[random.IntN(len(c.requests))]
		if !strings.Contains(q.target, "?") {
			q.target += differentialQueries[random.IntN(len(differentialQueries))]
		}
		if random.IntN(8) == 0 && q.method == "GET" {
			q.method = "HEAD"
		}
		if random.IntN(4) == 0 {
			q.fields = append(slices.Clone(q.fields), "User-Agent: generated", "X-Other: 1")
		}
		if err := o.compare(c, q); err != nil {
			return "", err
		}
	}
	for _, d := range o.told[:min(len(o.told), 40)] {
		fmt.Println("   difference:", d)
	}
	detail := fmt.Sprintf("%d requests (%d written, the others generated), %d answered differently, %d of them not explained", o.total, first, o.differed, len(o.told))
	if len(o.told) > 0 {
		return detail, fmt.Errorf("%s", detail)
	}
	return detail, nil
}

// compare makes one request of both servers.
func (o *oracle) compare(c *apacheCase, q apacheRequest) error {
	theirs, err := o.ask(o.apache, q)
	if err != nil {
		return fmt.Errorf("apache: %w", err)
	}
	ours, err := o.ask(o.jet, q)
	if err != nil {
		return fmt.Errorf("httpjet: %w", err)
	}
	o.total++
	_, known := o.rows[q.differs]
	switch {
	case theirs == ours:
		return nil
	case known:
		o.rows[q.differs] = true
	default:
		o.told = append(o.told, fmt.Sprintf("%s %s %v\n      apache  %s\n      httpjet %s", q.method, q.target, q.fields, theirs, ours))
	}
	o.differed++
	return nil
}

// compared are the fields that have to be the same.
var compared = []string{"Location", "Content-Type", "Content-Language", "Content-Encoding", "Set-Cookie", "Cache-Control", "WWW-Authenticate",
	"X-A", "X-B", "X-C"}

// ask makes a request and writes what counts of its answer.
func (o *oracle) ask(c *client, q apacheRequest) (string, error) {
	var body *strings.Reader
	var a *answer
	var err error
	if q.method == "POST" {
		body = strings.NewReader("a=b")
		a, err = c.send(q.method, q.target, body, int64(body.Len()), q.fields...)
	} else {
		a, err = c.send(q.method, q.target, nil, 0, q.fields...)
	}
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprint(&b, a.StatusCode)
	own := a.StatusCode >= 300 && q.method == "HEAD" || a.StatusCode >= 300 && strings.HasPrefix(strings.ToLower(strings.TrimSpace(string(a.body))), "<!doctype") // a page of the server
	for _, name := range compared {
		if own && (name == "Content-Type" || name == "Cache-Control") {
			continue
		}
		for _, v := range a.Header.Values(name) {
			fmt.Fprintf(&b, " | %s: %s", name, strings.ReplaceAll(strings.ReplaceAll(v, c.base, "http://SELF"), "utf-8", "UTF-8"))
		}
	}
	if q.method != "HEAD" && !own {
		fmt.Fprintf(&b, " | %s", strings.TrimSpace(string(a.body)))
	}
	return escapes.ReplaceAllStringFunc(b.String(), strings.ToUpper), nil
}

// escapes are written in one case: RFC 3986 §6.2.2.1.
var escapes = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
