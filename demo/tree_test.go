package demo

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"httpjet/check"
)

func startBackends(t *testing.T) *Backends {
	t.Helper()
	b := &Backends{Dir: t.TempDir()}
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Stop)
	return b
}

func TestWriteFillsAddressesIn(t *testing.T) {
	b := startBackends(t)
	if err := Write(b.Dir, b); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(b.Dir, "conf/vhosts/demo/vhconf.xml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"<address>" + b.AppAddr() + "</address>",
		"<address>" + b.WebSocketAddr() + "</address>",
		"<address>uds://$SERVER_ROOT/run/demo.sock</address>",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("vhconf.xml has no %s", want)
		}
	}
	if strings.Contains(string(text), "{{") {
		t.Error("vhconf.xml holds an address that is not filled in")
	}
	for _, name := range []string{"conf/httpd_config.xml", "conf/mime.properties", "htdocs/index.html", "htdocs/private/.htaccess", "htdocs/cgi/show.fcgi"} {
		if _, err := os.Stat(filepath.Join(b.Dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestTreePassesStrictCheck: the first configuration that a reader sees leaves
// nothing to be said.
func TestTreePassesStrictCheck(t *testing.T) {
	b := startBackends(t)
	if err := Write(b.Dir, b); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if code := check.Run(check.Options{Root: b.Dir, Strict: true}, &out); code != check.OK || !strings.Contains(out.String(), "0 errors, 0 warnings") {
		t.Errorf("check --strict ends with %d:\n%s", code, &out)
	}
}

func TestBackends(t *testing.T) {
	b := startBackends(t)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(url string) string {
		t.Helper()
		resp, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	app := "http://" + b.AppAddr()
	if got := get(app + "/app/hello?name=you"); !strings.Contains(got, `"hello": "you"`) {
		t.Errorf("hello answers %s", got)
	}
	if got, want := get(app+"/app/events?count=1"), "id: 1\ndata: event 1 of the demo\n\n"; got != want {
		t.Errorf("events answers %q, want %q", got, want)
	}
	if got := get(app + "/app/bytes?n=100001"); len(got) != 100001 {
		t.Errorf("bytes answers %d bytes", len(got))
	}
	if got := len(get(app + "/app/bytes?n=-5")); got != 1 {
		t.Errorf("bytes with n=-5 answers %d bytes, want the least, 1", got)
	}

	c, _, err := websocket.DefaultDialer.Dial("ws://"+b.WebSocketAddr()+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, kind := range []int{websocket.TextMessage, websocket.BinaryMessage} {
		if err := c.WriteMessage(kind, []byte("back")); err != nil {
			t.Fatal(err)
		}
		if got, text, err := c.ReadMessage(); got != kind || string(text) != "back" || err != nil {
			t.Errorf("echo of kind %d is %d %q %v", kind, got, text, err)
		}
	}
}

// TestStopEndsOpenConnections leaves an event stream and a WebSocket open: Stop
// has to end both, or it would never return.
func TestStopEndsOpenConnections(t *testing.T) {
	b := &Backends{Dir: t.TempDir()}
	if err := b.Start(); err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Transport{}).RoundTrip(newGet(t, "http://"+b.AppAddr()+"/app/events"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	c, _, err := websocket.DefaultDialer.Dial("ws://"+b.WebSocketAddr()+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()

	b.Stop()
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the event stream ended as if it were complete")
	}
	if _, _, err := c.ReadMessage(); err == nil {
		t.Error("the WebSocket is still open")
	}
}

func newGet(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestPageIsSelfContained reads the page as a browser would: nothing from other
// sites, every control labelled, every element that the script asks for there.
func TestPageIsSelfContained(t *testing.T) {
	read := func(name string) string {
		t.Helper()
		text, err := tree.ReadFile("tree/htdocs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	page, script, style := read("index.html"), read("app.js"), read("style.css")
	for name, text := range map[string]string{"index.html": page, "app.js": script, "style.css": style} {
		if m := regexp.MustCompile(`https?://|//[a-z]+\.[a-z]|@import|url\(`).FindString(text); m != "" {
			t.Errorf("%s refers to something outside: %q", name, m)
		}
	}
	for _, m := range regexp.MustCompile(`\$\('([a-z-]+)'\)|state\('([a-z-]+)'`).FindAllStringSubmatch(script, -1) {
		if id := m[1] + m[2]; !strings.Contains(page, `id="`+id+`"`) {
			t.Errorf("app.js asks for #%s, which index.html has not", id)
		}
	}
	for _, m := range regexp.MustCompile(`<input id="([a-z-]+)"`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(page, `<label for="`+m[1]+`">`) {
			t.Errorf("input #%s has no label", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`(?:href|src)="/([a-z./]+)"`).FindAllStringSubmatch(page, -1) {
		read(m[1])
	}
	if !strings.Contains(page, `<html lang="en">`) {
		t.Error("the page names no language")
	}
}
