package generation

import (
	"fmt"
	"net"
	"net/http"
	"net/http/fcgi"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"httpjet/lsapi/lsapitest"
)

// scriptApp answers with the script that it was to run and its path info, over FastCGI
// or LSAPI. It returns its address.
func scriptApp(t *testing.T, kind string) string {
	path := filepath.Join(t.TempDir(), "app.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ran := func(env map[string]string) string {
		return fmt.Sprintf("ran %s info %q", env["SCRIPT_FILENAME"], strings.TrimPrefix(env["PATH_TRANSLATED"], env["DOCUMENT_ROOT"]))
	}
	var running sync.WaitGroup
	running.Go(func() {
		if kind == "lsapi" {
			lsapitest.Serve(ln, func(q *lsapitest.Request) []byte { return lsapitest.Reply(200, ran(q.Env)) })
			return
		}
		fcgi.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, ran(fcgi.ProcessEnv(r))) }))
	})
	t.Cleanup(func() { ln.Close(); running.Wait() })
	return "uds:/" + path
}

// R-FCGI-3, G26, G27: a path runs the script that it names byte for byte, or none;
// its source is served to nobody, whatever is done to its name.
func TestG26G27HostileScriptPaths(t *testing.T) {
	for _, kind := range []string{"fcgi", "lsapi"} {
		t.Run(kind, func(t *testing.T) { walkScripts(t, kind) })
	}
}

func walkScripts(t *testing.T, kind string) {
	const canary = "<?php canary"
	p := safetyParts{
		vhost: `<extProcessorList><extProcessor><type>` + kind + `</type><name>app</name><address>` + scriptApp(t, kind) + `</address></extProcessor>
			<extProcessor><type>fcgi</type><name>cgi</name><address>` + scriptApp(t, "fcgi") + `</address></extProcessor></extProcessorList>
			<scriptHandlerList><scriptHandler><suffix>php</suffix><type>` + kind + `</type><handler>app</handler></scriptHandler></scriptHandlerList>
			<indexFiles>index.php</indexFiles><contextList><context><type>cgi</type><uri>/cgi/</uri><location>$VH_ROOT/cgi/</location><handler>cgi</handler></context></contextList>`,
		files: map[string]string{"index.php": canary, "dir/app.php": canary, "dir/index.php": canary, "UP.PHP": canary, "ȺȺȺȺx.php.txt": "upload", "up.txt": "upload",
			"../out.php": canary, "../cgi/prog": canary},
	}
	ask, _ := p.build(t)
	f := func(path, want string) {
		t.Helper()
		for range 3 { // looked for, noted, remembered
			status, body := ask(path)
			_, ran, _ := strings.Cut(body, "/html")
			switch {
			case strings.Contains(body, "canary"):
				t.Errorf("%s: %d, source", path, status)
			case want == "" && (strings.HasPrefix(body, "ran ") || status != 400 && status != 403 && status != 404):
				t.Errorf("%s: %d %q, want no script", path, status, body)
			case want != "" && (status != 200 || ran != want):
				t.Errorf("%s: %d %q, want %q", path, status, body, want)
			}
		}
	}
	f("/index.php", `/index.php info ""`)
	f("/index.php/", `/index.php info "/"`)
	f("/index.php/dir/app.php", `/index.php info "/dir/app.php"`)
	f("/%69ndex%2ephp", `/index.php info ""`)
	f("/dir/../index.php", `/index.php info ""`)
	f("/dir/%2e%2e/index.php", `/index.php info ""`)
	f("//dir//app.php//x", `/dir/app.php info "/x"`)
	f("/index.php/a%2fb", `/index.php info "/a/b"`) // behind the script it is data
	f("/dir/", `/dir/index.php info ""`)
	f("/UP.PHP", `/UP.PHP info ""`) // a suffix has no case, a name has
	for _, path := range []string{
		"/index.php%2fdir", "/index.php%2F", "/index.php%2f/x", "/dir%2fapp.php", "/dir%2F/app.php", "/dir%2f", "/dir/%2F", "/dir%2f../index.php", "/dir/app.php%2F..%2findex.php",
		"/cgi%2fprog", "/cgi/prog%2Fmore", "/cgi/%2fprog",
		"/index.php%00.jpg", "/index.php%00", "/a%00/index.php", "/%00/index.php", // G27
		"/index.php.", "/index.php..", "/index.php%2e", "/index.php%20", "/index.php%09", "/index.php%0a", "/index.php%0d%0a", "/index.php~", "/index.php::$DATA",
		"/INDEX.PHP", "/Index.php", "/index.PHP", "/index.phP", "/up.php", "/dir/APP.php", "/DIR/app.php",
		"/inde%D1%85.php", "/index.%EF%BD%90%EF%BD%88%EF%BD%90", "/index%EF%BC%8Ephp", "/%C4%B1ndex.php", "/index.p%C4%A5p", "/index.php%CC%81", "/%EF%BB%BFindex.php",
		"/%C8%BA%C8%BA%C8%BA%C8%BAx.php.txt/.php", "/%C8%BA%C8%BA%C8%BA%C8%BAx.php", "/%E2%B1%A5%E2%B1%A5%E2%B1%A5%E2%B1%A5x.php.txt/.php", // G26
		"/up.txt/.php", "/up.txt/x.php", "/up.txt/index.php", "/up.txt%2findex.php",
		"/dir%5capp.php", "/dir\\app.php", "/index.php%5cx", "/index.php\\",
		"/..%2fout.php", "/%2e%2e/out.php", "/../out.php", "/dir/..%2f..%2fout.php", "/dir/..%5c..%5cout.php", "/.%2e/.%2e/out.php", "/%2e%2e%2fout.php", "/..;/out.php",
		"/%252e%252e/out.php", "/index%252ephp", "/index.php%2500",
		"/index.php%3f", "/index.php%23", "/index.php;x", "/index.php;x/y", "/index.php%3b.txt", "/index.php%ff", "/index.php%c0%ae", "/index.ph%70%%70", "/index.php%", "/index.php%2",
		"/none.php", "/none/index.php", "/dir/app.php.bak", "/.index.php", "/index.php.swp",
		"/cgi/prog.php", "/cgi/PROG", "/cgi/..%2fout.php", "/cgi/%2e%2e/out.php", "/cgi/prog%00", "/cgi/",
	} {
		f(path, "")
	}
	if status, body := ask("/cgi/prog/more"); status != 200 || !strings.Contains(body, `cgi/prog info "/more"`) {
		t.Errorf("%d %q", status, body)
	}
}
