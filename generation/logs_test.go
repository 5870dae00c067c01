package generation

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"httpjet/accesslog"
	"httpjet/exchange"
	"httpjet/metrics"
	"httpjet/script"
	"httpjet/xmlconf"
)

// R-LOG-2: completionLog of the server has the requests of every host, that of a host
// its own, whichever access logs they have.
func TestCompletionLog(t *testing.T) {
	const own = "<logging><accessLog><fileName>logs/own.log</fileName></accessLog></logging>"
	const both = "<logging><accessLog><fileName>logs/own.log</fileName></accessLog><completionLog>1</completionLog></logging>"
	const line = "<logging><completionLog>1</completionLog></logging>"
	completions := func(logs []hostLog) (n int) {
		for _, l := range logs {
			if l.format == accesslog.Completion && l.out.Options().File == os.Stdout {
				n++
			}
		}
		return n
	}
	for _, c := range []struct {
		server, host  string
		all, ofHost   int
		logs, hostLog int
	}{
		{"", "", 0, 0, 1, 1}, {line, "", 1, 1, 2, 2}, {"", line, 0, 1, 1, 2}, {line, line, 1, 1, 2, 2},
		{"", own, 0, 0, 1, 1}, {line, own, 1, 1, 2, 2}, {"", both, 0, 1, 1, 2}, {line, both, 1, 1, 2, 2},
	} {
		r := newLeaseTree(t)
		r.write("conf/httpd_config.xml", "<httpServerConfig>"+c.server+`<virtualHostList><virtualHost><name>site</name><vhRoot>.</vhRoot><configFile>conf/one.xml</configFile></virtualHost></virtualHostList>
<listenerList><listener><name>L</name><address>127.0.0.1:1</address><vhostMap><vhost>site</vhost><domain>site.test</domain></vhostMap></listener></listenerList></httpServerConfig>`)
		r.write("conf/one.xml", "<virtualHostConfig><docRoot>html</docRoot>"+c.host+"</virtualHostConfig>")
		g, fs := r.build()
		if fs.Failed() || fs.Count(xmlconf.Warn) > 0 {
			t.Fatal(fs.All())
		}
		logs, has := g.logs["site"]
		if !has {
			logs = g.serverLogs
		}
		if completions(g.serverLogs) != c.all || completions(logs) != c.ofHost || len(g.serverLogs) != c.logs || len(logs) != c.hostLog {
			t.Errorf("server %q, host %q: %v, of the host %v", c.server, c.host, g.serverLogs, logs)
		}
		g.Retire()
	}
}

// LiteSpeed 2.3: logFormat in Apache's language, in quotes or not, goes before logHeaders,
// whose bits add columns; what is no item is told.
func TestAccessLogFormats(t *testing.T) {
	const common, id = `192.0.2.1 - - [01/Jan/1970:00:00:01 +0000] "GET /a HTTP/1.1" 200 0`, " 00ff\n"
	f := func(element, want string, codes ...string) {
		t.Helper()
		r := newLeaseTree(t)
		r.write("conf/httpd_config.xml", "<httpServerConfig><logging><accessLog>"+element+"</accessLog></logging></httpServerConfig>")
		g, fs := r.build()
		defer g.Retire()
		var told []string
		for _, one := range fs.All() {
			if one.Severity == xmlconf.Warn && one.Code == "W-LOGFORMAT" {
				told = append(told, one.Code)
			}
		}
		x := &exchange.Exchange{}
		x.Began, x.Ended = time.Unix(1, 0), time.Unix(1, 0)
		x.Req = exchange.Request{ID: "00ff", Method: "GET", Target: "/a", Proto: "HTTP/1.1", Host: "example.com", Client: netip.MustParseAddr("192.0.2.1")}
		x.Req.Fields.Add("Referer", "https://r/")
		x.Req.Fields.Add("User-Agent", "curl")
		x.Resp.Status = 200
		if got := string(g.serverLogs[0].line(nil, x, nil, &g.clock)); got != want || !slices.Equal(told, codes) {
			t.Errorf("%s\n got %s want %s%v", element, got, want, told)
		}
	}
	f("", common+` "https://r/" "curl"`+id)
	f("<logHeaders>0</logHeaders>", common+id)
	f("<logHeaders>1</logHeaders>", common+` "https://r/"`+id)
	f("<logHeaders>6</logHeaders>", common+` "curl" "example.com"`+id)
	f("<logHeaders>7</logHeaders>", common+` "https://r/" "curl" "example.com"`+id)
	f("<logReferer>0</logReferer>", common+` "curl"`+id)
	f("<logReferer>0</logReferer><logUserAgent>0</logUserAgent>", common+id)
	f("<logReferer>0</logReferer><logHeaders>3</logHeaders>", common+` "https://r/" "curl"`+id)
	f("<logFormat>Combined</logFormat><logHeaders>0</logHeaders>", common+` "https://r/" "curl"`+id)
	f("<logFormat>common</logFormat>", common+id)
	f(`<logFormat>&quot;%h %l %u %t \&quot;%r\&quot; %&gt;s %b&quot;</logFormat>`, common+id)
	f(`<logFormat>&quot;%h %l %u %t &quot;%r&quot; %&gt;s %b &quot;%{Referer}i&quot; &quot;%{User-Agent}i&quot;&quot;</logFormat>`, common+` "https://r/" "curl"`+id)
	f(`<logFormat>"%{Referer}i" %m "%U"</logFormat>`, "\"https://r/\" GET \"/a\"\n")
	f(`<logFormat>"%m %s"</logFormat>`, "GET 200\n")
	f(`<logFormat>%h %Z %{x}a</logFormat>`, "192.0.2.1 - -\n", "W-LOGFORMAT")
}

// R-LSAPI-7: a host's log of slow requests goes before the server's, handlers of one log
// share it, and without one there is none.
func TestSlowLogOfHosts(t *testing.T) {
	load := func(server, conf string) (*builder, *xmlconf.Findings) {
		t.Helper()
		root := t.TempDir()
		for name, text := range map[string]string{
			"conf/httpd_config.xml": `<httpServerConfig>` + server + `<virtualHostList><virtualHost><name>v</name><vhRoot>.</vhRoot><configFile>conf/v.xml</configFile></virtualHost></virtualHostList></httpServerConfig>`,
			"conf/v.xml":            `<virtualHostConfig><docRoot>html</docRoot>` + conf + `</virtualHostConfig>`,
			"html/x":                "",
		} {
			name = filepath.Join(root, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		fs := &xmlconf.Findings{}
		cfg := xmlconf.LoadServer(root, fs)
		if cfg == nil {
			t.Fatal(fs.All())
		}
		b := &builder{cfg: cfg, kept: &Kept{Metrics: metrics.New()}, fs: fs, g: &Generation{}, slow: map[*xmlconf.SlowLog]*script.Slow{}}
		t.Cleanup(func() {
			for _, release := range b.g.leases {
				release()
			}
		})
		return b, fs
	}
	f := func(server, conf, path string, threshold time.Duration, sample int) {
		t.Helper()
		b, fs := load(server, conf)
		h := &host{Host: b.cfg.VHosts[0]}
		got := b.slowLog(h)
		if path == "" {
			if got != nil || fs.Failed() {
				t.Errorf("%+v, %v", got, fs.All())
			}
			return
		}
		if got != b.slowLog(h) || len(b.g.sinks) != 1 {
			t.Errorf("%d logs", len(b.g.sinks))
		}
		if to := b.g.sinks[0].Options(); to.Path != filepath.Join(b.cfg.Root, path) || to.RollingSize != 64<<20 || to.KeepDays != 30 || got.Threshold != threshold || got.Sample != sample {
			t.Errorf("%+v, %v, %d", to, got.Threshold, got.Sample)
		}
	}
	f("", "", "", 0, 0)
	f("<logging><slowLog/></logging>", "", "logs/httpjet_slow.log", 50*time.Millisecond, 128)
	f("<logging><slowLog/></logging>", "<logging><slowLog><fileName>logs/v.slow</fileName><threshold>2</threshold><sample>0</sample></slowLog></logging>", "logs/v.slow", 2*time.Second, 0)
	if _, fs := load("<logging><slowLog><threshold>0</threshold></slowLog></logging>", ""); !fs.Failed() {
		t.Error("a threshold of 0 is taken")
	}
}
