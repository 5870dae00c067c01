package httpjet_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"encoding/xml"
	"errors"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"httpjet/check"
	"httpjet/exchange"
)

// written are the documents that people write; the others are generated and compared.
func written(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, "README.md", "SECURITY.md")
	return slices.DeleteFunc(files, func(f string) bool {
		return slices.Contains([]string{"docs/config.md", "docs/findings.md", "docs/metrics.md", "docs/interop.md"}, f)
	})
}

// block is a piece of code in a document.
type block struct {
	file string
	line int
	info []string // words behind the fence; of an indented block what it looks like
	text string
}

// blocks are the fenced and the indented blocks of a document.
func blocks(t *testing.T, file string) (out []block) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var open *block
	indent, fenced, blank := "", false, true
	for n, line := range strings.Split(string(text), "\n") {
		code, isIndented := strings.CutPrefix(line, "    ")
		trimmed := strings.TrimLeft(line, " ")
		switch {
		case open != nil && fenced && trimmed == "```":
			out, open = append(out, *open), nil
		case open != nil && fenced:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		case open != nil && (isIndented || line == ""):
			open.text += code + "\n"
		default:
			if open != nil {
				out, open = append(out, *open), nil
			}
			if info, ok := strings.CutPrefix(trimmed, "```"); ok {
				open, fenced, indent = &block{file, n + 1, strings.Fields(info), ""}, true, line[:len(line)-len(trimmed)]
			} else if isIndented && blank {
				kind := "text"
				if strings.HasPrefix(strings.TrimSpace(code), "<") {
					kind = "xml"
				} else if strings.HasPrefix(code, "$ ") {
					kind = "sh"
				}
				open, fenced = &block{file, n + 1, []string{kind}, code + "\n"}, false
			}
		}
		blank = line == ""
	}
	if open != nil {
		if fenced {
			t.Fatalf("%s:%d: a block without an end", file, open.line)
		}
		out = append(out, *open)
	}
	return out
}

// fences are what a block may be, and so how it is tested: xml by check, sh by a shell,
// console by what commands and flags there are, nginx and yaml by the real programs in
// interop, text not at all.
var fences = []string{"xml", "sh", "console", "nginx", "yaml", "ini", "text"}

func TestBlocksAreOfAKnownKind(t *testing.T) {
	for _, file := range written(t) {
		for _, b := range blocks(t, file) {
			if len(b.info) == 0 || !slices.Contains(fences, b.info[0]) {
				t.Errorf("%s:%d: a block of no known kind: %q", b.file, b.line, b.info)
			}
		}
	}
}

// hostBlocks stand in the file of a virtual host, processorBlocks in a processor, unless
// the block says "server".
var (
	hostBlocks = []string{"virtualHostConfig", "extProcessor", "extProcessorList", "context", "contextList", "scriptHandler", "scriptHandlerList",
		"websocket", "websocketList", "rewrite", "cache", "logging", "expires", "vhssl", "index", "customErrorPages"}
	processorBlocks = []string{"healthCheck", "circuitBreaker", "retry", "peerRateLimit", "slowStart", "minHealthy", "upstreamTLS", "address", "attemptTimeout", "requestTimeout", "streamIdleTimeout"}
	contextBlocks   = []string{"proxyCache", "clientRateLimit", "cachePolicy"}
	serverBlocks    = []string{"httpServerConfig", "management", "tuning", "tracing", "acme", "listener", "listenerList", "security", "vhTemplateList", "virtualHostList", "logging"}
)

// element is one element with all that is in it, as it is written.
type element struct {
	name, text string
}

// elements are the elements at the top of a text.
func elements(text string) (out []element, err error) {
	dec := xml.NewDecoder(strings.NewReader(text))
	depth, began, name := 0, int64(0), ""
	for {
		at := dec.InputOffset()
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			if depth == 0 {
				began, name = at, tok.Name.Local
			}
			depth++
		case xml.EndElement:
			if depth--; depth == 0 {
				out = append(out, element{name, text[began:dec.InputOffset()]})
			}
		}
	}
}

// pair is a certificate of example.com and its key, which stand for the reader's.
type pair struct{ cert, key string }

func keypair(t *testing.T) pair {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"example.com"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(100 * 24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(kind string, b []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}))
	}
	return pair{encode("CERTIFICATE", der), encode("PRIVATE KEY", pkcs8)}
}

const standInServer = `<virtualHostList><virtualHost><name>%HOST%</name><vhRoot>$SERVER_ROOT/html</vhRoot><configFile>conf/vhosts/%HOST%.xml</configFile></virtualHost></virtualHostList>
<listenerList><listener><name>Default</name><address>*:8080</address><vhostMapList><vhostMap><vhost>%HOST%</vhost><domain>site.test, *</domain></vhostMap></vhostMapList></listener></listenerList>`

// treeOf makes a server root in which the block stands where it belongs, with what it
// does not say itself.
func treeOf(t *testing.T, b block, reader pair) string {
	t.Helper()
	list, err := elements(b.text)
	if err != nil {
		t.Fatalf("%s:%d: %v", b.file, b.line, err)
	}
	inner := func(e element) string {
		s := e.text[strings.Index(e.text, ">")+1:]
		return s[:strings.LastIndex(s, "</")]
	}
	server, host, processor, context, hostName, templates := "", "", "", "", "site", false
	for _, e := range list {
		where := serverBlocks
		if len(b.info) < 2 || b.info[1] != "server" {
			where = slices.Concat(hostBlocks, processorBlocks, contextBlocks, serverBlocks)
		}
		switch {
		case !slices.Contains(where, e.name):
			t.Fatalf("%s:%d: nobody says where <%s> stands", b.file, b.line, e.name)
		case e.name == "httpServerConfig":
			server += inner(e)
		case e.name == "virtualHostConfig":
			host += inner(e)
		case len(b.info) > 1 && b.info[1] == "server":
			server += e.text
		case slices.Contains(processorBlocks, e.name):
			processor += e.text
		case slices.Contains(contextBlocks, e.name):
			context += e.text
		case slices.Contains(hostBlocks, e.name):
			host += e.text
		default:
			server += e.text
			templates = templates || e.name == "vhTemplateList"
		}
	}
	if processor != "" || context != "" {
		host += "<extProcessor><type>proxy</type><name>sample</name><address>10.0.0.1:80</address><address>10.0.0.2:80</address>" + processor +
			"</extProcessor><context><type>proxy</type><uri>/sample/</uri><handler>sample</handler>" + context + "</context>"
	}
	if m := regexp.MustCompile(`<vhost>(\w+)</vhost>`).FindStringSubmatch(server); m != nil {
		hostName = m[1]
	}
	stand := strings.ReplaceAll(standInServer, "%HOST%", hostName)
	hosts, listeners, _ := strings.Cut(stand, "\n")
	if !strings.Contains(server, "<virtualHost>") {
		server += hosts
	}
	if !strings.Contains(server, "<listener>") {
		server += listeners
	}
	if !strings.Contains(host, "<docRoot>") {
		host += "<docRoot>$VH_ROOT</docRoot>"
	}
	root := t.TempDir()
	files := map[string]string{
		"html/index.html":                  "x",
		"conf/httpd_config.xml":            "<httpServerConfig>" + server + "</httpServerConfig>",
		"conf/vhosts/" + hostName + ".xml": "<virtualHostConfig>" + host + "</virtualHostConfig>",
	}
	if templates {
		files["conf/templates/sites.xml"] = "<virtualHostTemplate><vhRoot>$SERVER_ROOT/$VH_NAME</vhRoot><virtualHostConfig><docRoot>$VH_ROOT</docRoot></virtualHostConfig></virtualHostTemplate>"
		files["one/index.html"], files["two/index.html"] = "x", "x"
	}
	for _, name := range regexp.MustCompile(`<(ca|cert|key)File>([^<]+)</`).FindAllStringSubmatch(server+host, -1) { // files of the reader
		file := strings.Replace(strings.TrimPrefix(name[2], "/"), "$SERVER_ROOT/", "", 1)
		if files[file] = reader.cert; name[1] == "key" {
			files[file] = reader.key
		}
	}
	for _, dir := range regexp.MustCompile(`<location>([a-z]+/)</location>`).FindAllStringSubmatch(host, -1) {
		files["html/"+dir[1]+"index.html"] = "x"
	}
	for name, text := range files {
		for _, dir := range []string{"/var/www/html", "/var/www"} {
			text = strings.ReplaceAll(text, dir+"<", filepath.Join(root, "html")+"<")
		}
		text = strings.ReplaceAll(text, "$VH_ROOT/html<", "$VH_ROOT<")
		text = strings.ReplaceAll(text, ">/etc/ssl/", ">"+root+"/etc/ssl/")
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestXMLOfDocuments has check look at every piece of XML in the documents: nothing in
// it may be an error, be unknown, be without effect or act otherwise than written. Words
// behind the fence that are codes of findings are expected ones.
func TestXMLOfDocuments(t *testing.T) {
	n, reader := 0, keypair(t)
	for _, file := range written(t) {
		for _, b := range blocks(t, file) {
			if len(b.info) == 0 || b.info[0] != "xml" {
				continue
			}
			n++
			var out bytes.Buffer
			check.Run(check.Options{Root: treeOf(t, b, reader), Format: "json"}, &out)
			var r check.Report
			if err := json.Unmarshal(out.Bytes(), &r); err != nil {
				t.Fatal(err)
			}
			for _, f := range r.Findings {
				if f.Severity != "info" && !slices.Contains(b.info, f.Code) {
					t.Errorf("%s:%d: %s %s: %s (%s)", b.file, b.line, f.Code, f.Element, f.Message, f.Hint)
				}
			}
		}
	}
	if n < 15 {
		t.Fatalf("only %d pieces of XML found", n)
	}
}

// TestTroubleshootingHasEveryToken compares the tokens of docs/troubleshooting.md with
// those of the code, which docs/vocabulary.md lists.
func TestTroubleshootingHasEveryToken(t *testing.T) {
	vocabulary, err := os.ReadFile("docs/vocabulary.md")
	if err != nil {
		t.Fatal(err)
	}
	_, lists, _ := strings.Cut(string(vocabulary), "## Reason tokens")
	var want []string
	for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(lists, -1) {
		want = append(want, m[1])
	}
	want = append(want, exchange.ProxyReasons()...)
	slices.Sort(want)
	want = slices.Compact(want)
	page, err := os.ReadFile("docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|(.*)\\|$").FindAllStringSubmatch(string(page), -1) {
		got = append(got, m[1])
		if cells := strings.Split(m[2], "|"); len(cells) != 4 || slices.ContainsFunc(cells, func(c string) bool { return strings.TrimSpace(c) == "" }) {
			t.Errorf("%s: status, meaning, what to look at and what to change are not all there", m[1])
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the page has\n%q\nthe code\n%q", got, want)
	}
}

// TestNamesInDocuments looks up what documents name: metrics in docs/metrics.md, codes of
// findings in docs/findings.md, elements of the configuration in docs/config.md, files.
func TestNamesInDocuments(t *testing.T) {
	read := func(file string) string {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	metrics, findings, config := read("docs/metrics.md"), read("docs/findings.md"), read("docs/config.md")
	n := 0
	for _, file := range append(written(t), "packaging/monitoring/alerts.yml", "packaging/monitoring/grafana.json") {
		text := read(file)
		for _, name := range regexp.MustCompile(`\b(?:httpjet|litespeed)_[a-z0-9_]+\b(?:\.log)?`).FindAllString(text, -1) {
			if n++; strings.HasSuffix(name, ".log") {
				continue
			}
			base := regexp.MustCompile(`_(sum|count|bucket)$`).ReplaceAllString(name, "")
			if !strings.Contains(metrics, "| `"+name+"` |") && !strings.Contains(metrics, "| `"+base+"` |") && !strings.Contains(text, name+"{,") && !strings.HasSuffix(name, "_") {
				t.Errorf("%s names the metric %s, which does not exist", file, name)
			}
		}
		for _, code := range regexp.MustCompile("`([EWI]-[A-Z][A-Z0-9-]+)`").FindAllStringSubmatch(text, -1) {
			n++
			if !strings.Contains(findings, "## "+code[1]+"\n") {
				t.Errorf("%s names the finding %s, which does not exist", file, code[1])
			}
		}
		for _, m := range regexp.MustCompile("`(?:<([A-Za-z0-9]+)>|(?:tuning|security|logging|management)/([A-Za-z0-9]+))").FindAllStringSubmatch(text, -1) {
			n++
			name := m[1] + m[2]
			if !strings.Contains(config, "| `"+name+"` |") && !strings.Contains(config, "/"+name+"` |") {
				t.Errorf("%s names the element %s, which does not exist", file, name)
			}
		}
		for _, m := range regexp.MustCompile("`((?:docs|packaging|scripts|examples|demo)/[A-Za-z0-9_./-]+)`").FindAllStringSubmatch(text, -1) {
			n++
			if _, err := os.Stat(m[1]); err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
	if n < 200 {
		t.Fatalf("only %d names found", n)
	}
}
