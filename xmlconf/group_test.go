package xmlconf

import (
	"strings"
	"testing"
)

func processor(inner string) string {
	return "<extProcessor><name>app</name><type>proxy</type><address>a:1</address>" + inner + "</extProcessor>"
}

// R-CONV-6, R-CFG-6: a fault of a strict option fails the load, with one finding
// that says what to write.
func TestStrict(t *testing.T) {
	f := func(inner, msg string) {
		t.Helper()
		_, fs := server(t, processor(inner))
		for _, l := range fs.All() {
			if l.Fatal && strings.Contains(l.String(), msg) {
				return
			}
		}
		t.Errorf("%s: findings %q, want a fatal one with %q", inner, lines(fs), msg)
	}
	f("<loadBalancePolicy>wrr</loadBalancePolicy>", `error E-LB-POLICY: extProcessor "app": loadBalancePolicy "wrr" is unknown (use weighted-round-robin)`)
	f("<loadBalancePolicy>Round-Robin</loadBalancePolicy>", `use round-robin`)
	f("<loadBalancePolicy>round-robin</loadBalancePolicy><loadBalancePolicy>round-robin</loadBalancePolicy>", "written twice")
	f("<addressWeights>2,1</addressWeights>", "2 weights for 1 addresses")
	f("<addressWeights>0</addressWeights>", "0 is out of range 1..1000")
	f("<loadBalancePolicy>cookie-hash</loadBalancePolicy>", "needs cookieName")
	f("<loadBalancePolicy>sticky</loadBalancePolicy><cookieName>a b</cookieName>", "no cookie name")
	f("<maxInFlight>-1</maxInFlight>", "out of range")
	f("<addressDrain>1</addressDrain>", "names no peer")
	f("<addressDrain>b:1</addressDrain>", "names no peer")
	f("<stickyCookie><sameSite>None</sameSite></stickyCookie>", "needs secure")
	f("<healthCheck><mode>POST</mode></healthCheck>", `healthCheck: mode "POST" is unknown`)
	f("<healthCheck><interval>0</interval></healthCheck>", "0 is out of range 1..3600")
	f("<healthCheck><interval>ten</interval></healthCheck>", "no duration")
	f("<healthCheck><timeout>11</timeout></healthCheck>", "longer than interval")
	f("<healthCheck><path>/x</path></healthCheck>", "path does not go with mode connect")
	f("<healthCheck><mode>GET</mode><path>x</path></healthCheck>", "not in origin form")
	f("<healthCheck><mode>GET</mode><host>a/b</host></healthCheck>", "host holds a path")
	f("<healthCheck><expectedStatus>199</expectedStatus></healthCheck>", "no status")
	f("<healthCheck><rise>101</rise></healthCheck>", "out of range")
	f("<healthCheck><rise>2</rise><rise>2</rise></healthCheck>", "healthCheck: rise is written twice")
	f("<healthCheck><raise>2</raise></healthCheck>", `healthCheck: unknown element <raise> (use <rise>)`)
	f("<healthCheck>GET</healthCheck>", "text between its elements")
	f("<healthCheck/><healthCheck/>", "written twice")
	f("<circuitBreaker><failOn>4xx</failOn></circuitBreaker>", `failOn "4xx" is unknown`)
	f("<circuitBreaker><openDuration>50ms</openDuration></circuitBreaker>", "out of range")
	f("<retry><retries>11</retries></retry>", "out of range")
	f("<retry><retryOn>teapot</retryOn></retry>", `retryOn "teapot" is unknown`)
	f("<retry><retryMethods>CONNECT</retryMethods></retry>", `"CONNECT" cannot be repeated`)
	f("<retry><retrySamePeer>yes</retrySamePeer></retry>", "no switch")
	f("<peerRateLimit><reqPerSec>5</reqPerSec><burst>0</burst></peerRateLimit>", "burst 0 is out of range")
	f("<upstreamTLS><certFile>a</certFile></upstreamTLS>", "belong together")
	f("<upstreamTLS/>", "spoken to in clear text")
	f("<upstreamTLS><serverName>a b</serverName></upstreamTLS>", `serverName "a b" is no host`)
	f("<upstreamTLS><verify>maybe</verify></upstreamTLS>", "no switch")
	f("<upstreamTLS><ca>x</ca></upstreamTLS>", "unknown element <ca>")
	f("<attemptTimeout>5ms</attemptTimeout>", "out of range")
	f("<requestTimeout>-1</requestTimeout>", "out of range")
	f("<streamIdleTimeout>86401</streamIdleTimeout>", "out of range")
	f("<slowStart>500ms</slowStart>", "out of range")
	f("<minHealthy>101</minHealthy>", "out of range")
	f("<peerRateLimit><reqPerSec>1000001</reqPerSec></peerRateLimit>", "out of range")
	f("<retry><retryBufSize>2G</retryBufSize></retry>", "out of range")
	f("<retry><backoffBase>11</backoffBase></retry>", "out of range")
	f("<forwardedFor>maybe</forwardedFor>", "is unknown")
	f("<address>a:1</address>", "written twice")
	f("<address>h2://b:1</address>", "E-GRP-PROTO")
	f("<address>http://u:secret@b</address>", `address "http://...@b" holds user information`)
}

// What strict elements accept, and what it becomes.
func TestStrictAccepts(t *testing.T) {
	s, fs := server(t, processor(`<address>b:1</address>
<loadBalancePolicy>weighted-round-robin</loadBalancePolicy><addressWeights>3,1</addressWeights><addressDrain>1</addressDrain>
<healthCheck><mode>GET</mode><interval>500s</interval><expectedStatus>2xx</expectedStatus></healthCheck>
<circuitBreaker><openDuration>100ms</openDuration><failOn>Transport, 503</failOn></circuitBreaker>
<retry><retries>1</retries><retryMethods/><backoffBase>20ms</backoffBase></retry>`))
	if fs.Failed() {
		t.Fatal(lines(fs))
	}
	p := s.ExtProcessors[0]
	if p.HealthCheck.Path != "/" || p.HealthCheck.Interval.Seconds() != 500 || p.HealthCheck.Rise != 2 ||
		p.CircuitBreaker.FailOn[0] != "transport" || p.CircuitBreaker.FailureThreshold != 5 ||
		len(p.Retry.RetryMethods) != 0 || p.Retry.RetryBufSize != 10<<20 || len(p.Targets) != 2 || p.AddressWeights[0] != 3 {
		t.Errorf("%+v", p)
	}
}

// Options of groups that do nothing are told.
func TestIdleGroupOptions(t *testing.T) {
	f := func(inner, want string) {
		t.Helper()
		_, fs := server(t, processor(inner))
		if fs.Failed() || codes(fs) != want {
			t.Errorf("%s: %q, want %s", inner, lines(fs), want)
		}
	}
	const more = "<address>b:1</address><loadBalancePolicy>round-robin</loadBalancePolicy>"
	f(more+"<slowStart>5</slowStart><healthCheck/><minHealthy>50</minHealthy><requestTimeout>2</requestTimeout><attemptTimeout>1</attemptTimeout>", "")
	f("<slowStart>5</slowStart>", "W-NO-EFFECT")
	f("<loadBalancePolicy>ip-hash</loadBalancePolicy><slowStart>5</slowStart>", "W-NO-EFFECT")
	f(more+"<minHealthy>50</minHealthy>", "W-NO-EFFECT")
	f("<healthCheck/><minHealthy>50</minHealthy>", "W-MIN-HEALTHY")
	f("<requestTimeout>1</requestTimeout><attemptTimeout>1</attemptTimeout>", "W-NO-EFFECT")
	_, fs := vhost(t, "<context><uri>/a</uri><retry><retries>2</retries></retry><requestTimeout>2</requestTimeout></context>")
	if fs.Failed() || codes(fs) != "W-NO-EFFECT W-NO-EFFECT" {
		t.Errorf("%q", lines(fs))
	}
}

// An empty strict block is there: a health check never vanishes.
func TestStrictEmpty(t *testing.T) {
	s, _ := server(t, processor("<healthCheck/>"))
	if h := s.ExtProcessors[0].HealthCheck; h == nil || h.Mode != "connect" || h.Interval.Seconds() != 10 {
		t.Errorf("healthCheck %+v", h)
	}
}

func TestStrictElsewhere(t *testing.T) {
	f := func(fs *Findings, msg string) {
		t.Helper()
		if got := strings.Join(lines(fs), "\n"); !fs.Failed() || !strings.Contains(got, msg) {
			t.Errorf("findings %s, want a fatal one with %q", got, msg)
		}
	}
	context := func(inner string) *Findings {
		_, fs := vhost(t, "<context><uri>/a</uri><type>proxy</type>"+inner+"</context>")
		return fs
	}
	_, fs := server(t, "<extProcessor><name>a</name><type>fcgi</type><address>a:1</address><healthCheck/></extProcessor>")
	f(fs, "E-LB-NONPROXY") // R-CFG-12
	for _, option := range []string{"<retry/>", "<peerRateLimit/>", "<slowStart>5</slowStart>", "<minHealthy>50</minHealthy>",
		"<attemptTimeout>5</attemptTimeout>", "<requestTimeout>5</requestTimeout>", "<streamIdleTimeout>5</streamIdleTimeout>"} {
		_, fs = server(t, "<extProcessor><name>a</name><type>fcgi</type><address>a:1</address>"+option+"</extProcessor>")
		f(fs, "E-LB-NONPROXY")
	}
	_, fs = server(t, "<tuning><maxInFlightReqs>0</maxInFlightReqs></tuning>")
	f(fs, "maxInFlightReqs 0 is out of range")
	_, fs = server(t, "<management><port>1</port></management>")
	f(fs, "management: unknown element <port>")
	_, fs = server(t, "<acme><enable>1</enable></acme>")
	f(fs, "email is missing")
	_, fs = vhost(t, "<context><uri>/a?b</uri><type>proxy</type></context>")
	f(fs, "uri holds a query") // R-CTX-6
	_, fs = vhost(t, "<context><uri>a/</uri><type>proxy</type></context>")
	f(fs, "starts without /")
	_, fs = vhost(t, "<context><uri>/a//b</uri><uriMatch>exact</uriMatch></context>")
	f(fs, "uri holds")
	_, fs = vhost(t, "<context><uri>exp:^/a</uri><uriMatch>prefix</uriMatch></context>")
	f(fs, "uriMatch prefix cannot be meant")
	f(context("<methods/>"), "methods names none")
	_, fs = vhost(t, "<context><uri>/a/../b</uri><type>proxy</type></context>")
	f(fs, "uri holds")
	f(context("<stripPrefix>a</stripPrefix>"), "stripPrefix")
	f(context("<pathRewrite><pattern>(</pattern><replacement>/x</replacement></pathRewrite>"), "pattern is no expression")
	f(context("<pathRewrite><pattern>x</pattern><replacement>x</replacement></pathRewrite>"), "cannot start with /")
	f(context("<methods>GE(T</methods>"), "is no token")
	f(context("<clientRateLimit><burst>0</burst></clientRateLimit>"), "burst 0 is out of range")
	f(context("<proxyCache><statusCodes>99</statusCodes></proxyCache>"), "99 is out of range")
	f(context("<responseTimeout>0</responseTimeout>"), "responseTimeout 0 is out of range")
}

// An address that cannot be read leaves other kinds without a target.
func TestAddressFindings(t *testing.T) {
	s, fs := server(t, `<extProcessor><name>a</name><type>fcgi</type><address>http://x</address></extProcessor>
<extProcessor><name>b</name><type>proxy</type><address/></extProcessor>
<extProcessor><name>b</name><type>Proxy</type><address>x</address></extProcessor>
<listener><name>l</name><address>*:0</address></listener>`)
	want(t, fs, `
f.xml:4:15: error E-DUPNAME: extProcessor "b" is declared twice: the first one is used (rename one)
f.xml:2:55: error E-ADDR: extProcessor "a": address "http://x" scheme "http" is for processors of type proxy (write host:port or uds://path)
f.xml:3:1: error E-ADDR: extProcessor "b": address is missing: what names it answers 503 (write host:port)
f.xml:5:25: error E-ADDR: listener "l": address "*:0" port "0" is out of range 1..65535: the listener is not opened`)
	if fs.Failed() || len(s.ExtProcessors) != 2 || len(s.ExtProcessors[0].Targets) != 0 || s.Listeners[0].Bind.Port != 0 {
		t.Errorf("%+v", s)
	}
	v, fs := vhost(t, `<websocket><uri>/a</uri><address>ws://x/p</address></websocket><websocket><uri>/b</uri><address>h2://x</address></websocket>`)
	if codes(fs) != "E-ADDR W-WS-TARGET" || v.WebSockets[0].Target != nil || v.WebSockets[1].Target == nil {
		t.Errorf("findings %q", lines(fs))
	}
}
