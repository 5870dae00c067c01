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

// R-LSAPI-1: an lsapi context leads to any LSAPI application but PHP, which has no file
// to run there and would answer a fatal error with 200.
func TestPHPIsNoContext(t *testing.T) {
	f := func(what, processor, handlers string, want int) {
		t.Helper()
		ask, _ := safetyParts{vhost: `<extProcessorList><extProcessor><type>lsapi</type><name>app</name><address>` + scriptApp(t, "lsapi") + `</address>` + processor + `</extProcessor>
			<extProcessor><type>loadbalancer</type><name>lb</name><workers>lsapi::app</workers></extProcessor></extProcessorList>` + handlers +
			`<contextList><context><type>lsapi</type><uri>/app/</uri><handler>app</handler></context>
			<context><type>loadbalancer</type><uri>/lb/</uri><handler>lb</handler></context></contextList>`}.build(t)
		for _, path := range []string{"/app/", "/app/x.php", "/lb/x"} {
			if status, body := ask(path); status != want || (want == 200) != strings.HasPrefix(body, "ran ") {
				t.Errorf("%s, %s: %d %q", what, path, status, body)
			}
		}
	}
	f("an application", "", "", 200)
	f("its program", `<path>/usr/local/lsws/lsphp82/bin/lsphp</path>`, "", 404)
	f("its variables", `<env>PHP_LSAPI_CHILDREN=3</env>`, "", 404)
	f("variables of others", `<env>LSAPI_CHILDREN=3</env>`, "", 200)
	f("its suffix", "", `<scriptHandlerList><scriptHandler><suffix>html,php</suffix><type>lsapi</type><handler>app</handler></scriptHandler></scriptHandlerList>`, 404)
	f("another suffix", "", `<scriptHandlerList><scriptHandler><suffix>rb</suffix><type>lsapi</type><handler>app</handler></scriptHandler></scriptHandlerList>`, 200)
}

// echoSettings answers with the settings that PHP would get: the special variables of
// LSAPI, or the variables of FastCGI.
func echoSettings(t *testing.T, kind string) string {
	path := filepath.Join(t.TempDir(), "php.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		if kind == "lsapi" {
			lsapitest.Serve(ln, func(q *lsapitest.Request) []byte {
				return lsapitest.Reply(200, strings.NewReplacer("\x01\x01", "value:", "\x01\x04", "admin:").Replace(strings.Join(q.Special, " "))+q.Env["PHP_VALUE"])
			})
			return
		}
		fcgi.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			env := fcgi.ProcessEnv(r)
			fmt.Fprintf(w, "value:%s admin:%s", env["PHP_VALUE"], env["PHP_ADMIN_VALUE"])
		}))
	})
	t.Cleanup(func() { ln.Close(); running.Wait() })
	return "uds:/" + path
}

// R-RW-4: phpIniOverride and .htaccess files tell PHP its settings, and nobody tells it
// others than what an administrator fixed. A PHP that would keep them is told nothing
// that is not for all of its requests.
func TestSettingsOfPHP(t *testing.T) {
	ls, fc, all := echoSettings(t, "lsapi"), echoSettings(t, "fcgi"), echoSettings(t, "fcgi")
	p := safetyParts{
		server: `<extProcessorList><extProcessor><type>fcgi</type><name>all</name><address>` + all + `</address></extProcessor></extProcessorList>`,
		vhost: `<phpIniOverride>
			php_value memory_limit 64M
			php_admin_value open_basedir /srv
			php_flag log_errors on
			</phpIniOverride>
			<htAccess><allowOverride>31</allowOverride></htAccess>
			<extProcessorList><extProcessor><type>lsapi</type><name>ls</name><address>` + ls + `</address></extProcessor>
			<extProcessor><type>fcgi</type><name>fc</name><address>` + fc + `</address><env>PHP_VALUE=own=1</env></extProcessor></extProcessorList>
			<scriptHandlerList><scriptHandler><suffix>php</suffix><type>lsapi</type><handler>ls</handler></scriptHandler>
			<scriptHandler><suffix>fc,php5</suffix><type>fcgi</type><handler>fc</handler></scriptHandler>
			<scriptHandler><suffix>all,php7</suffix><type>fcgi</type><handler>all</handler></scriptHandler></scriptHandlerList>
			<contextList><context><type>null</type><uri>/c/</uri><phpIniOverride>php_value memory_limit 32M
			php_value open_basedir /
			php_admin_flag engine on</phpIniOverride></context>
			<context><type>null</type><uri>/c/d/</uri></context>
			<context><type>null</type><uri>/bad/</uri><phpIniOverride>php_admin_value open_basedir</phpIniOverride></context>
			<context><type>lsapi</type><uri>/ruby/</uri><handler>ruby</handler></context></contextList>`,
		files: map[string]string{"x.php": "", "x.fc": "", "x.all": "", "x.php7": "", "c/x.php": "", "c/d/x.php": "", "c/x.fc": "", "bad/x.php": "", "h/x.php": "", "h/i/x.php": "", "h/x.fc": "", "h/x.all": "",
			"h/.htaccess":   "php_value memory_limit 1G\nphp_value open_basedir /\nphp_flag log_errors off\nphp_admin_value a 1\nSetEnv PHP_VALUE auto_prepend_file=/x\nSetEnv PHP_ADMIN_VALUE a=b",
			"h/i/.htaccess": "php_value memory_limit 2G\nphp_value upload_tmp_dir none"},
	}
	ask, fs := p.build(t)
	f := func(path, want string) {
		t.Helper()
		if status, body := ask(path); status != 200 || body != want {
			t.Errorf("%s: %d %q", path, status, body)
		}
	}
	f("/x.php", "value:memory_limit=64M admin:open_basedir=/srv value:log_errors=1")
	f("/c/x.php", "value:memory_limit=32M admin:open_basedir=/srv value:log_errors=1 admin:engine=1")
	f("/c/d/x.php", "value:memory_limit=32M admin:open_basedir=/srv value:log_errors=1 admin:engine=1")
	f("/h/x.php", "value:memory_limit=1G admin:open_basedir=/srv value:log_errors=0")
	f("/h/i/x.php", "value:memory_limit=2G admin:open_basedir=/srv value:log_errors=0 value:upload_tmp_dir=")
	f("/x.php", "value:memory_limit=64M admin:open_basedir=/srv value:log_errors=1") // nothing stays
	const own = "value:own=1\nmemory_limit='64M'\nlog_errors='1' admin:open_basedir='/srv'"
	f("/x.fc", own)
	f("/c/x.fc", own)
	f("/h/x.fc", own)
	for _, path := range []string{"/bad/x.php", "/x.all", "/h/x.all", "/x.php7"} {
		if status, _ := ask(path); status != 503 {
			t.Errorf("%s: a setting that restricts and cannot be read or told: %d", path, status)
		}
	}
	n := 0
	for _, fd := range fs.All() {
		if fd.Code == "W-PHP-INI" {
			n++
		}
	}
	if n != 2 { // of what context /c/ says to php5 and php7
		t.Errorf("%d findings: %v", n, fs.All())
	}
}

// R-SAFE-1: a host of which a setting that restricts cannot be read is closed.
func TestUnreadAdminSettingCloses(t *testing.T) {
	f := func(text string, want int) {
		t.Helper()
		ask, _ := safetyParts{vhost: `<phpIniOverride>` + text + `</phpIniOverride>`}.build(t)
		if status, _ := ask("/a/x.txt"); status != want {
			t.Errorf("%s: %d", text, status)
		}
	}
	f("php_admin_value a b", 200)
	f("php_value a", 200)
	f("php_admin_value a", 503)
	f("php_admin_flag a b", 503)
}

// R-CFG-14, R-LSAPI-1: phpConfig is the PHP of the server. A host or the server may give
// a suffix to another application.
func TestPHPConfig(t *testing.T) {
	php := scriptApp(t, "lsapi")
	other := `<extProcessorList><extProcessor><type>fcgi</type><name>other</name><address>` + scriptApp(t, "fcgi") + `</address></extProcessor></extProcessorList>
		<scriptHandlerList><scriptHandler><suffix>php5</suffix><type>fcgi</type><handler>other</handler></scriptHandler></scriptHandlerList>`
	f := func(what, server, vhost, want string) {
		t.Helper()
		ask, fs := safetyParts{server: server, vhost: vhost, files: map[string]string{"x.php": "<?php", "x.php5": "<?php", "x.inc": "text"}}.site(t)
		var got []string
		for _, path := range []string{"/x.php", "/x.php5", "/x.inc"} {
			x, body := ask("GET", path)
			kind := x.Route.Kind.String()
			if strings.Contains(body, "<?php") {
				kind = "source"
			}
			got = append(got, fmt.Sprint(kind, " ", x.Resp.Status))
		}
		if list := strings.Join(got, ", "); list != want {
			t.Errorf("%s: %s; %v", what, list, fs.All())
		}
	}
	f("nothing", "", "", "none 503, none 503, static 200")
	f("numbers alone", `<phpConfig><maxConns>35</maxConns><env>PHP_LSAPI_CHILDREN=35</env><memSoftLimit></memSoftLimit></phpConfig>`, "", "none 503, none 503, static 200")
	f("an address", `<phpConfig><address>`+php+`</address></phpConfig>`, "", "lsapi 200, none 503, static 200")
	f("suffixes", `<phpConfig><address>`+php+`</address><suffixes>php, php5,inc</suffixes></phpConfig>`, "", "lsapi 200, lsapi 200, lsapi 200")
	f("the host's own", `<phpConfig><address>`+php+`</address><suffixes>php,php5</suffixes></phpConfig>`, other, "lsapi 200, fastcgi 200, static 200")
	f("the server's own", `<phpConfig><address>`+php+`</address><suffixes>php,php5</suffixes></phpConfig>`+other, "", "lsapi 200, fastcgi 200, static 200")
	f("a processor of the name", `<phpConfig><address>uds://none.sock</address></phpConfig><extProcessorList><extProcessor><type>lsapi</type><name>php</name><address>`+php+`</address></extProcessor></extProcessorList>
		<scriptHandlerList><scriptHandler><suffix>php</suffix><type>lsapi</type><handler>php</handler></scriptHandler></scriptHandlerList>`, "", "lsapi 200, none 503, static 200")
}

// R-STATIC-10: a suffix of which the MIME table says that its files run is never shown.
func TestTypesThatRun(t *testing.T) {
	f := func(vhost string, want int, source bool, findings string) {
		t.Helper()
		ask, fs := safetyParts{server: `<mime>conf/mime.properties</mime>`, vhost: vhost,
			files: map[string]string{"../conf/mime.properties": "inc = application/x-httpd-php\ntxt = text/plain\n", "x.inc": "<?php", "x.txt": "text"}}.build(t)
		if status, body := ask("/x.inc"); status != want || strings.Contains(body, "<?php") != source {
			t.Errorf("%s: %d %q", vhost, status, body)
		}
		if status, _ := ask("/x.txt"); status != 200 {
			t.Errorf("%s: text: %d", vhost, status)
		}
		if list := fmt.Sprint(fs.All()); (findings == "") != (len(fs.All()) == 0) || !strings.Contains(list, findings) {
			t.Errorf("%s: %s", vhost, list)
		}
	}
	f("", 503, false, "W-SCRIPT-UNROUTABLE")
	f(`<scriptHandlerList><scriptHandler><suffix>inc</suffix><type>static</type></scriptHandler></scriptHandlerList>`, 200, true, "")
	f(`<extProcessorList><extProcessor><type>lsapi</type><name>ls</name><address>`+scriptApp(t, "lsapi")+`</address></extProcessor></extProcessorList>
		<scriptHandlerList><scriptHandler><suffix>inc</suffix><type>lsapi</type><handler>ls</handler></scriptHandler></scriptHandlerList>`, 200, false, "")
}

// R-SAFE-1: what an administrator says of PHP in a context reaches who runs its scripts,
// or the context is closed. Where the engine is off, no script runs.
func TestContextSettingsOfPHP(t *testing.T) {
	ls, fc := echoSettings(t, "lsapi"), echoSettings(t, "fcgi")
	const context = `<contextList><context><type>%s</type><uri>/c/</uri><location>$DOC_ROOT/c/</location><handler>own</handler><phpIniOverride>%s</phpIniOverride></context></contextList>`
	f := func(kind, host, typ, text string, want int, findings string) {
		t.Helper()
		address := fc
		if kind == "lsapi" {
			address = ls
		}
		processor := func(name, kind, address string) string {
			return `<extProcessorList><extProcessor><type>` + kind + `</type><name>` + name + `</name><address>` + address + `</address></extProcessor></extProcessorList>`
		}
		handler := func(kind, name string) string {
			return `<scriptHandlerList><scriptHandler><suffix>php</suffix><type>` + kind + `</type><handler>` + name + `</handler></scriptHandler></scriptHandlerList>`
		}
		ask, fs := safetyParts{server: processor("all", "fcgi", fc) + handler("fcgi", "all"),
			vhost: host + processor("own", kind, address) + handler(kind, "own") + fmt.Sprintf(context, typ, text),
			files: map[string]string{"c/x.php": "<?php", "c/x.txt": "text", "x.php": ""}}.build(t)
		if status, body := ask("/c/x.php"); status != want || strings.Contains(body, "<?php") {
			t.Errorf("%s %s %s: %d %q", kind, typ, text, status, body)
		}
		if status, _ := ask("/c/x.txt"); typ == "null" && want != 503 && status != 200 {
			t.Errorf("%s %s: a file: %d", kind, text, status)
		}
		var codes []string
		for _, fd := range fs.All() {
			codes = append(codes, fd.Code)
		}
		if got := strings.Join(codes, " "); got != findings {
			t.Errorf("%s %s %s: %v, want %s", kind, typ, text, fs.All(), findings)
		}
	}
	const host = "<phpIniOverride>php_admin_value open_basedir /srv</phpIniOverride>"
	f("lsapi", "", "null", "php_admin_value open_basedir /srv", 200, "")
	f("lsapi", host, "null", "php_value a b", 200, "") // the server's processor runs nothing here
	f("lsapi", "", "null", "php_flag engine off", 403, "")
	f("fcgi", "", "null", "php_admin_value open_basedir /srv", 503, "E-CLOSED")
	f("fcgi", host, "null", "php_admin_value open_basedir /srv", 200, "")
	f("fcgi", host, "null", "php_admin_value open_basedir /", 503, "E-CLOSED")
	f("fcgi", "", "null", "php_value a b", 200, "W-PHP-INI")
	f("fcgi", "", "null", "php_flag engine off", 403, "")
	f("fcgi", "", "null", "php_admin_flag engine off", 403, "")
	f("fcgi", "<phpIniOverride>php_flag engine off</phpIniOverride>", "null", "php_flag engine on", 200, "")
	f("fcgi", "<phpIniOverride>php_flag engine off</phpIniOverride>", "null", "", 403, "")
	f("fcgi", "", "fcgi", "php_admin_value open_basedir /srv", 503, "E-CLOSED")
	f("fcgi", "", "fcgi", "php_flag engine off", 403, "")
}
