package xmlconf

import (
	"fmt"
	"strings"
	"testing"
)

func TestServerSettles(t *testing.T) {
	f := func(inner string, fatal bool, msg string) {
		t.Helper()
		_, fs := server(t, inner)
		if got := strings.Join(lines(fs), "\n"); fs.Failed() != fatal || !strings.Contains(got, msg) {
			t.Errorf("%s: fatal %v, findings %s; want fatal %v with %q", inner, fs.Failed(), got, fatal, msg)
		}
	}
	f("<management><address>localhost:1</address></management>", true, "no literal IP address") // R-MGMT-1
	f("<management><address>192.0.2.1:1</address></management>", true, "needs allowedCIDRs")
	f("<management><address>192.0.2.1:1</address><allowedCIDRs>192.0.2.0/24</allowedCIDRs></management>", false, "W-MGMT-REMOTE")
	f("<management><allowedCIDRs>192.0.2.1</allowedCIDRs></management>", true, "is no network")
	f("<management/>", false, "")
	f("<tracing><sampleRate>1.5</sampleRate></tracing>", true, "is no share") // R-TRACE-1
	f("<tracing><sampleRate>NaN</sampleRate></tracing>", true, "is no share")
	f("<tracing><exporter>otlphttp</exporter></tracing>", true, "needs an endpoint")
	f("<listener><name>a</name><acmeDomains>*.example.com</acmeDomains></listener>", true, "no host name") // R-ACME-1
	f("<listener><name>a</name><httpsRedirect>302</httpsRedirect></listener>", true, "302 is out of range 0|301|308")
	f("<useIpInProxyHeader>4</useIpInProxyHeader>", false, "W-TRUST-ALL") // R-ACL-3
	f("<useIpInProxyHeader>5</useIpInProxyHeader>", false, "5 is out of range 0..4: the default 2 is used")
	f("<htAccess><accessFileName>a/b</accessFileName></htAccess>", false, "the default .htaccess is used")
	f("<listener><name>a</name><clientVerify>1</clientVerify></listener>", false, `W-NOT-YET: listener "a": clientVerify 1 is not honoured`)
	if _, fs := vhost(t, "<vhssl><clientVerify>3</clientVerify></vhssl>"); fs.Count(Warn) != 1 {
		t.Error(lines(fs))
	}
	_, fs := vhost(t, "<vhssl><certFile>a</certFile></vhssl><acmeDomains>a.test</acmeDomains>")
	if !fs.Failed() {
		t.Error("certificate files and acmeDomains on one host load")
	}
}

func TestLogHeaders(t *testing.T) {
	f := func(inner string, want int) {
		t.Helper()
		v, _ := vhost(t, "<logging><accessLog><fileName>a.log</fileName>"+inner+"</accessLog></logging>")
		if a := v.Logging.AccessLogs[0]; a.LogHeaders != want || a.FileName != "/srv/a.log" {
			t.Errorf("%s: logHeaders %d, file %s; want %d", inner, a.LogHeaders, a.FileName, want)
		}
	}
	f("", 3)
	f("<logHeaders>4</logHeaders><logReferer>1</logReferer>", 4)
	f("<logReferer>0</logReferer>", 2)
	f("<logReferer>0</logReferer><logUserAgent>0</logUserAgent>", 0)
}

// A file full of nonsense gives a bounded number of findings in bounded time, and
// a fault among them is not lost.
func TestFindingsBounded(t *testing.T) {
	var b strings.Builder
	for i := range 50_000 {
		fmt.Fprintf(&b, "<unheard%d/>", i)
	}
	s, fs := server(t, "<tuning>"+b.String()+"<maxInFlightReqs>0</maxInFlightReqs></tuning>")
	all := fs.All()
	if s == nil || len(all) != maxFindings+1 || all[maxFindings].Code != "W-MORE" || !fs.Failed() {
		t.Errorf("%d findings, failed %v", len(all), fs.Failed())
	}
}

func TestFindingText(t *testing.T) {
	f := Finding{Code: "E-LB-POLICY", Severity: Error, Pos: Pos{"conf/httpd_config.xml", 41, 7}, Message: `extProcessor "app": loadBalancePolicy "wrr" is unknown`, Hint: "use weighted-round-robin"}
	const want = `conf/httpd_config.xml:41:7: error E-LB-POLICY: extProcessor "app": loadBalancePolicy "wrr" is unknown (use weighted-round-robin)`
	if got := f.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var fs Findings
	fs.Add(f)
	fs.Add(f)
	fs.Info("I-X", Place{}, "", "a %d", 1)
	if len(fs.All()) != 2 || fs.Count(Error) != 1 || fs.Count(Info) != 1 || fs.Failed() {
		t.Errorf("findings %v", fs.All())
	}
}
