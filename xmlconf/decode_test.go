package xmlconf

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// decode reads text as a file of its root element.
func decode[T any](t *testing.T, text string) (*T, *Findings) {
	t.Helper()
	fs := &Findings{}
	n, err := Parse("f.xml", []byte(text), fs)
	if err != nil {
		t.Fatal(err)
	}
	l := &loader{fs: fs, dec: newDecoder(fs)}
	l.dec.vars = Expander{}.With("SERVER_ROOT", "/srv").With("VH_NAME", "app").With("VH_ROOT", "/home/app")
	v, ok := l.document(n).(*T)
	if !ok {
		t.Fatalf("%q is no %T", text, v)
	}
	return v, fs
}

func server(t *testing.T, inner string) (*Server, *Findings) {
	t.Helper()
	return decode[Server](t, "<httpServerConfig>\n"+inner+"</httpServerConfig>")
}

func vhost(t *testing.T, inner string) (*VHost, *Findings) {
	t.Helper()
	return decode[VHost](t, "<virtualHostConfig>\n<docRoot>/w</docRoot>"+inner+"</virtualHostConfig>")
}

// lines are the findings as text.
func lines(fs *Findings) []string {
	var out []string
	for _, f := range fs.All() {
		out = append(out, f.String())
	}
	return out
}

// want compares findings, given as one per line.
func want(t *testing.T, fs *Findings, text string) {
	t.Helper()
	if got := strings.Join(lines(fs), "\n"); got != strings.TrimSpace(text) {
		t.Errorf("findings:\n%s\nwant:\n%s", got, strings.TrimSpace(text))
	}
}

// The numbers of spec section 39 hold where nothing is written.
func TestDefaults(t *testing.T) {
	s, fs := server(t, "")
	want(t, fs, "")
	tun := s.Tuning
	if tun.MaxConnections != 65000 || tun.ConnTimeout != time.Minute || tun.KeepAliveTimeout != 5*time.Second ||
		tun.MaxKeepAliveReq != 1000 || tun.MaxReqURLLen != 8192 || tun.MaxReqHeaderSize != 16380 ||
		tun.MaxReqBodySize != 2047<<20 || tun.MaxInFlightReqs != 2048 || tun.TotalReqBufSize != 256<<20 ||
		tun.MaxBufferedReqs != 4096 || tun.GracefulShutdownTimeout != 12*time.Second || tun.ShutdownDelay != 0 ||
		tun.FileETag != 28 || !tun.ProxyErrorHeader {
		t.Errorf("tuning defaults: %+v", tun)
	}
	if s.UseIPInProxyHeader != 2 || !slices.Equal(s.IndexFiles, []string{"index.html"}) || s.HtAccess.AccessFileName != ".htaccess" ||
		s.HtAccess.AllowOverride != 0 || s.Security.FileAccess.RestrictedPermissionMask != 0o41111 || s.ServerName == "" {
		t.Errorf("server defaults: %+v", s)
	}
	if s.Tuning.Written("maxConnections") || s.Written("tuning") || s.Logging.Log != nil || s.Management != nil {
		t.Error("something absent counts as written")
	}
}

// R-CFG-14.
func TestProcessorDefaults(t *testing.T) {
	s, _ := server(t, `<extProcessorList><extProcessor><name>a</name><type>proxy</type><address>h:1</address></extProcessor></extProcessorList>`)
	p := s.ExtProcessors[0]
	if p.MaxConns != 100 || p.InitTimeout != time.Minute || p.RetryTimeout != 10*time.Second || p.Written("retryTimeout") ||
		p.PcKeepAliveTimeout != time.Minute || p.RespBuffer != 0 || p.AutoStart != 0 || p.Instances != 1 || !p.PersistConn ||
		p.ResponseTimeout != time.Minute || p.BodyTimeout != 30*time.Second {
		t.Errorf("processor defaults: %+v", p)
	}
	if len(p.Targets) != 1 || p.Targets[0].Address != "h:1" {
		t.Errorf("targets %v", p.Targets)
	}
}

func TestInitTimeoutZero(t *testing.T) { // R-TMO-1
	s, _ := server(t, `<extProcessor><name>a</name><type>proxy</type><address>h:1</address><initTimeout>0</initTimeout><retryTimeout>0</retryTimeout></extProcessor>`)
	if p := s.ExtProcessors[0]; p.InitTimeout != 10*time.Second || p.RetryTimeout != 0 || !p.Written("retryTimeout") {
		t.Errorf("initTimeout %v, retryTimeout %v", p.InitTimeout, p.RetryTimeout)
	}
}

// R-CONV-5: the default, not the nearest bound; and it counts as not written.
func TestOutOfRange(t *testing.T) {
	s, fs := server(t, "<tuning><maxConnections>0</maxConnections><keepAliveTimeout>x</keepAliveTimeout></tuning>")
	if s.Tuning.MaxConnections != 65000 || s.Tuning.Written("maxConnections") || s.Tuning.KeepAliveTimeout != 5*time.Second {
		t.Errorf("%+v", s.Tuning)
	}
	want(t, fs, `
f.xml:2:9: warn W-RANGE: tuning: maxConnections 0 is out of range 1..1000000: the default 65000 is used
f.xml:2:43: warn W-RANGE: tuning: keepAliveTimeout "x" is no duration: the default 5 is used (write seconds)`)
	if at := fs.All()[0].Element; at != "httpServerConfig/tuning/maxConnections" {
		t.Errorf("element %s", at)
	}
}

// R-CFG-7: unknown elements once for a file and path; spelling; duplicates.
func TestTolerated(t *testing.T) {
	s, fs := server(t, `<tuning><conntimeout>7</conntimeout><futureKnob/></tuning>
<listenerList>
<listener><name>a</name><address>*:81</address><futureKnob>1</futureKnob></listener>
<listener><name>b</name><address>*:82</address><futureKnob>2</futureKnob></listener>
</listenerList>
<serverName>one</serverName><serverName>two</serverName>
<listenerList><listener><name>c</name></listener></listenerList>
`)
	want(t, fs, `
f.xml:2:9: warn W-CASE: tuning: <conntimeout> is read as <connTimeout> (write <connTimeout>)
f.xml:2:37: warn W-UNKNOWN: tuning: unknown element <futureKnob> is ignored
f.xml:4:48: warn W-UNKNOWN: listener "a": unknown element <futureKnob> is ignored
f.xml:7:29: warn W-DUP: serverName is written twice: the first one is used (remove one)
f.xml:8:1: warn W-DUP: listenerList is written twice: the first one is used (remove one)`)
	if s.Tuning.ConnTimeout != 7*time.Second || s.ServerName != "one" || len(s.Listeners) != 2 {
		t.Errorf("connTimeout %v, name %s, %d listeners", s.Tuning.ConnTimeout, s.ServerName, len(s.Listeners))
	}
}

// LSX 1.4: every wrapper is optional, security too.
func TestWrappersOptional(t *testing.T) {
	v, fs := vhost(t, `
<context><uri>/b/</uri></context>
<contextList><context><uri>/a/</uri></context></contextList>
<websocket><uri>/ws</uri><address>h:1</address></websocket>
<extProcessor><name>x</name><type>fcgi</type><address>h:1</address></extProcessor>
<scriptHandler><suffix>php</suffix><type>fcgi</type><handler>x</handler></scriptHandler>
<accessControl><deny>ALL</deny></accessControl>
<realm><name>r</name></realm>
<realmList><realm><name>q</name></realm></realmList>
`)
	want(t, fs, "")
	if len(v.Contexts) != 2 || len(v.WebSockets) != 1 || len(v.ExtProcessors) != 1 || len(v.ScriptHandlers) != 1 {
		t.Errorf("lists: %+v", v)
	}
	if !v.Security.AccessControl.Denies() || len(v.Security.Realms) != 2 {
		t.Errorf("security: %+v", v.Security)
	}
	s, fs := server(t, `<listener><name>a</name><vhostMap><vhost>v</vhost><domain>d</domain></vhostMap></listener>`)
	want(t, fs, "")
	if len(s.Listeners) != 1 || len(s.Listeners[0].Maps) != 1 {
		t.Errorf("listeners: %+v", s.Listeners)
	}
}

// The security block that is there takes in what stands beside it.
func TestSecurityJoined(t *testing.T) {
	v, fs := vhost(t, `<security><hotlinkCtrl/></security><accessControl><deny>192.0.2.1</deny></accessControl>`)
	want(t, fs, "")
	if !v.Security.AccessControl.Denies() {
		t.Error("accessControl beside security is lost")
	}
}

// R-CFG-4.
func TestSkipped(t *testing.T) {
	s, fs := server(t, `<extProcessorList><extProcessor><type>proxy</type></extProcessor></extProcessorList>
<listenerList><listener><address>*:80</address></listener><item/></listenerList>
<virtualHostList><virtualHost><vhRoot>x</vhRoot></virtualHost></virtualHostList>`)
	want(t, fs, `
f.xml:2:19: warn W-SKIPPED: extProcessor: skipped, it has no name
f.xml:3:15: warn W-SKIPPED: listener: skipped, it has no name
f.xml:3:59: warn W-UNKNOWN: unknown element <item> is ignored
f.xml:4:18: warn W-SKIPPED: virtualHost: skipped, it has no name`)
	if len(s.ExtProcessors)+len(s.Listeners)+len(s.VirtualHosts) != 0 {
		t.Errorf("%+v", s)
	}
}

// Each treatment tells what it must, and nothing when the value changes nothing.
func TestTreatments(t *testing.T) {
	_, fs := server(t, `<user>nobody</user>
<priority>0</priority><cpuAffinity>2</cpuAffinity>
<adminRoot>x</adminRoot>
<expires><enableExpires>0</enableExpires><expiresByType>image/*=A1</expiresByType></expires>
<cache><cacheEngine>7</cacheEngine></cache>
<phpConfig><phpHandlerList><goes/></phpHandlerList></phpConfig><railsDefaults/>
<extProcessor><name>a</name><type>lsapi</type><address>uds://a</address><respBuffer>1</respBuffer><priority>1</priority></extProcessor>
<extProcessor><name>b</name><type>lsapi</type><address>uds://b</address><respBuffer>0</respBuffer><priority>1</priority></extProcessor>
`)
	want(t, fs, `
f.xml:2:1: warn W-USER: user has no effect (httpjet never changes its own user, set User= in the systemd unit; as root it starts programs as this user, where nothing else says who they are)
f.xml:3:23: info I-NO-EFFECT: cpuAffinity has no effect (pinned workers)
f.xml:7:12: warn W-NO-EFFECT: phpConfig: phpHandlerList has no effect (further versions of PHP: declare an extProcessor for each)
f.xml:8:73: warn W-RESPBUFFER: extProcessor "a": respBuffer has no effect (responses always stream)`)
}

// What is not honoured is told once, and for each context.
func TestNotYetOnce(t *testing.T) {
	_, fs := vhost(t, `<cache><cachePolicy><microCache5xx>1</microCache5xx></cachePolicy></cache>
<context><uri>/a/</uri><cachePolicy><microCache5xx>1</microCache5xx></cachePolicy></context><context><uri>/b/</uri><cachePolicy><microCache5xx>1</microCache5xx></cachePolicy></context>`)
	n := map[string]int{}
	for _, f := range fs.All() {
		n[f.Element[strings.LastIndexByte(f.Element, '/')+1:]]++
	}
	if n["microCache5xx"] != 3 {
		t.Error(lines(fs))
	}
}

// R-SAFE-1: what restricts can be read off the structs.
func TestRestrictions(t *testing.T) {
	f := func(inner, want string) {
		t.Helper()
		v, fs := vhost(t, inner)
		if fs.Failed() {
			t.Fatal(lines(fs))
		}
		all := v.Restrictions()
		for _, c := range v.Contexts {
			all = append(all, c.Restrictions()...)
		}
		var got []string
		for _, r := range all {
			got = append(got, r.Element)
			if r.At.Line == 0 || !strings.HasSuffix(r.At.Element, r.Element) && r.Element != "hotlinkCtrl" {
				t.Errorf("%s: place %+v", r.Element, r.At)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: restrictions %v, want %s", inner, got, want)
		}
	}
	f("<security><accessControl><allow>ALL</allow></accessControl></security>", "")
	f("<security><accessControl>\n</accessControl></security>", "")
	f("<security><accessControl><allow>10.0.0.0/8</allow><deny>ALL</deny></accessControl></security>", "accessControl")
	f("<enabled>0</enabled>", "enabled")
	f("<enabled>no</enabled>", "enabled")
	f("<security><hotlinkCtrl><enableHotlinkCtrl>1</enableHotlinkCtrl></hotlinkCtrl></security>", "hotlinkCtrl")
	f("<security><hotlinkCtrl><enableHotlinkCtrl>0</enableHotlinkCtrl></hotlinkCtrl></security>", "")
	f("<vhssl><clientVerify>2</clientVerify></vhssl>", "clientVerify")
	f("<context><uri>/a</uri><realm>r</realm><allowBrowse>0</allowBrowse><authorizer>x</authorizer><accessControl><deny>*</deny></accessControl></context>",
		"realm accessControl allowBrowse authorizer")
	s, _ := server(t, "<security><accessControl><deny>192.0.2.1</deny></accessControl></security><listener><name>a</name><clientVerify>2</clientVerify></listener>")
	if len(s.Restrictions()) != 1 || len(s.Listeners[0].Restrictions()) != 1 {
		t.Errorf("server %v, listener %v", s.Restrictions(), s.Listeners[0].Restrictions())
	}
}

// R-SAFE-1: what restricts and is dropped, for whatever reason, is kept in mind
// by what it would have restricted: h the host, c a context.
func TestLostRestrictions(t *testing.T) {
	f := func(inner, want string) {
		t.Helper()
		v, fs := vhost(t, inner)
		if fs.Failed() {
			t.Fatal(lines(fs))
		}
		var got []string
		collect := func(who string, list []Restriction) {
			for _, r := range list {
				if r.Lost {
					got = append(got, who+":"+r.Element)
					if r.At.Line == 0 || !strings.HasSuffix(r.At.Element, r.Element) {
						t.Errorf("%s: place %+v", r.Element, r.At)
					}
				}
			}
		}
		collect("h", v.Restrictions())
		for _, c := range v.Contexts {
			collect("c", c.Restrictions())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: lost %v, want %s", inner, got, want)
		}
	}
	const deny = "<accessControl><allow>*</allow><deny>192.0.2.1</deny></accessControl>"
	const guarded = "<context><uri>/b/</uri><realm>r</realm></context>"
	context := func(inner string) string {
		return "<contextList><context><uri>/a/</uri>" + inner + "</context></contextList>"
	}
	f(context("<accessControl><allow>*</allow></accessControl>"+deny), "c:deny")
	f(context(deny+deny), "")
	f(context("<accessControl><deny>192.0.2.2</deny><deny>192.0.2.1</deny></accessControl>"), "c:deny")
	f(context("<accessControl><deny><ip>192.0.2.1</ip></deny></accessControl>"), "c:deny")
	f(context("<realm></realm><realm>r</realm>"), "c:realm")
	f(context("<allowBrowze>0</allowBrowze>"), "c:allowBrowze") // what was meant restricts
	f(context("<allowBrowze>1</allowBrowze>"), "")
	f(context("<reallm>r</reallm>"), "c:reallm")
	f(context("<nonsense>0</nonsense>"), "")
	f(context("<realm>r</realm><realm></realm>"), "")
	f(context("<realm><name>r</name></realm>"), "")
	f(context("<security>"+deny+"</security>"), "c:deny")
	f(context("<allowBrowse>1</allowBrowse><allowBrowse>no</allowBrowse>"), "c:allowBrowse")
	f(context("<enableScript>1</enableScript><enableScript>0</enableScript>"), "c:enableScript")
	f(context("<enabled>1</enabled><enabled>0</enabled>"), "")
	f("<contextList>"+deny+"</contextList>", "h:deny")
	f("<contextList/>\n<contextList>"+guarded+"</contextList>", "h:realm")
	f("<contextList><context><realm>r</realm></context></contextList>", "h:realm")
	f("<contextList><context><uri>a/</uri><realm>r</realm></context></contextList>", "h:realm")
	f("<contextList><context><uri>a/</uri><enabled>0</enabled><realm>r</realm></context></contextList>", "")
	for _, uri := range []string{"/a//", "//a/", "/./a/", "/a/b/..", "/%61/", "/a?x", "/a#x", `/a\`} {
		f("<context><uri>"+uri+"</uri><realm>r</realm></context>", "h:realm")
	}
	f("<context><uri>/a b/</uri><realm>r</realm></context><context><uri>EXP: ^/a/</uri><realm>r</realm></context>", "")
	f("<security/><security>"+deny+"</security>", "h:deny")
	f("<realm>r</realm><authorizer>x</authorizer><allowBrowse>0</allowBrowse>", "h:authorizer h:allowBrowse h:realm")
	f("<vhssl><clientVerify>require</clientVerify></vhssl>", "h:clientVerify")
	f("<apacheConf>&lt;Location /x>\n  Require ip 192.0.2.1\n&lt;/Location></apacheConf>", "h:apacheConf")
	f("<apacheConf>&lt;Directory /x>\nRequire all granted\n# Deny from all\n&lt;/Directory></apacheConf>", "")
	f(context("<apacheConf>Deny from all</apacheConf>"), "c:apacheConf")
	f("<vhssl><clientVerify>9</clientVerify></vhssl>", "")
	f("<enabled>1</enabled><enabled>0</enabled>", "h:enabled")
	f("<scriptHandlerList/>\n<scriptHandlerList><scriptHandler><suffix>x</suffix></scriptHandler></scriptHandlerList>", "h:suffix")
	f("<security><realmList><realm><name>r</name></realm></realmList></security><other><enabled>0</enabled></other>", "")

	s, _ := server(t, "<suspendedVhosts>a</suspendedVhosts><suspendedVhosts>b</suspendedVhosts><listener><name>l</name>"+deny+"</listener>"+
		"<virtualHost><name>v</name><enabled>0</enabled></virtualHost>")
	meant, _ := server(t, "<security><accesDenyDir><dir>/etc/*</dir></accesDenyDir></security>")
	if list := meant.Restrictions(); len(list) != 1 || list[0].Element != "accesDenyDir" {
		t.Errorf("%v", list)
	}
	for _, list := range [][]Restriction{s.Restrictions(), s.Listeners[0].Restrictions(), s.VirtualHosts[0].Restrictions()} {
		if len(list) != 1 || !list[0].Lost {
			t.Errorf("%v", list)
		}
	}
}

// Denied directories of two lists add up: one must not hide the other.
func TestDenyDirLists(t *testing.T) {
	s, _ := server(t, "<security><accessDenyDir><dir>/a</dir></accessDenyDir><accessDenyDir><dir>/b</dir></accessDenyDir></security>")
	if d := s.Security.AccessDenyDir; len(d) != 2 || d[1].Value != "/b" {
		t.Errorf("%v", d)
	}
}

// R-CFG-11.
func TestProcessorKinds(t *testing.T) {
	f := func(typ string, want ProcessorKind) {
		t.Helper()
		if got := (&ExtProcessor{Type: typ}).Kind(); got != want {
			t.Errorf("%s: kind %d, want %d", typ, got, want)
		}
	}
	f("proxy", KindProxy)
	f("WebServer", KindProxy)
	f("fcgi", KindFastCGI)
	f("FastCGI", KindFastCGI)
	f("lsapi", KindLSAPI)
	f("loadbalancer", KindLoadBalancer)
	f("fcgiauth", KindAuthorizer)
	f("cgi-exec", KindReserved)
	f("uwsgi", KindReserved)
	for _, typ := range []string{"cgi", "rails", "appserver", "servlet", "logger", "", "quantum"} {
		f(typ, KindUnsupported)
	}
}

func TestContexts(t *testing.T) {
	v, fs := vhost(t, `<contextList>
<context><uri>/s/</uri><location>static/</location></context>
<context><uri>/v/</uri><location>$VH_ROOT/v/</location></context>
<context><uri>/r/</uri><type>redirect</type><location>https://x/$1$VH_NAME</location></context>
<context><uri>exp:^/u/(.*)$</uri><location>/srv/$1</location></context>
<context><uri>nope</uri></context>
<context><uri>/q/</uri><location>$NOPE/x</location><extraHeaders>

A: $VH_NAME
B: 2</extraHeaders></context></contextList>`)
	var got []string
	for _, c := range v.Contexts {
		got = append(got, c.Location)
	}
	if want := []string{"/w/static", "/home/app/v", "https://x/$1$VH_NAME", "/srv/$1", "/w/$NOPE/x"}; !slices.Equal(got, want) {
		t.Errorf("locations %v, want %v", got, want)
	}
	c := v.Contexts[4]
	if c.ExtraHeaders != "A: $VH_NAME\nB: 2" || c.TextAt("extraHeaders").Line != 10 {
		t.Errorf("extraHeaders %q at %v", c.ExtraHeaders, c.TextAt("extraHeaders"))
	}
	want(t, fs, `
f.xml:7:10: warn W-SKIPPED: context "nope": skipped, this is no uri (start it with / or exp:)
f.xml:8:24: warn W-VAR: context "/q/": location holds the unknown variable $NOPE, which stays as text`)
}
