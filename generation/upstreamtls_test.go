package generation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"httpjet/extproc"
	"httpjet/groups"
	"httpjet/xmlconf"
)

// The scheme of the addresses decides the client, and two schemes at one address
// are two clients (R-UP-1, R-POOL-1).
func TestClientsByScheme(t *testing.T) {
	r := newGroupTree(t)
	var one strings.Builder
	one.WriteString("<virtualHostConfig><docRoot>html</docRoot>")
	for _, scheme := range []string{"http", "https", "h2", "h2s"} {
		one.WriteString(fmt.Sprintf("<extProcessor><type>proxy</type><name>%s</name><address>%s://127.0.0.1:9000</address></extProcessor>"+
			"<context><type>proxy</type><uri>/%s/</uri><handler>%s</handler></context>", scheme, scheme, scheme, scheme))
	}
	r.write("conf/one.xml", one.String()+"</virtualHostConfig>")
	g, fs := r.build()
	defer g.Retire()
	if fs.Failed() || r.kept.Proxies.Len() != 4 {
		t.Fatal(r.kept.Proxies.Len(), fs.All())
	}
	got := map[extproc.Scheme]string{}
	for _, c := range r.kept.Proxies.Values() {
		target := c.(interface{ Target() extproc.Target }).Target()
		got[target.Scheme] = fmt.Sprintf("%T %s", c, target.TLSName)
	}
	for scheme, want := range map[extproc.Scheme]string{extproc.H1: "*extproc.H1Client ", extproc.H1S: "*extproc.H1Client 127.0.0.1",
		extproc.H2: "*extproc.H2Client ", extproc.H2S: "*extproc.H2Client 127.0.0.1"} {
		if got[scheme] != want {
			t.Errorf("scheme %d: %s, want %s", scheme, got[scheme], want)
		}
	}
}

const tlsOne = `<virtualHostConfig><docRoot>html</docRoot>
  <extProcessor><type>proxy</type><name>app</name><address>h2s://127.0.0.1:9000</address>
    <upstreamTLS><caFile>own.test.crt</caFile><serverName>own.test</serverName><certFile>own.test.crt</certFile><keyFile>own.test.key</keyFile></upstreamTLS></extProcessor>
  <context><type>proxy</type><uri>/app/</uri><handler>app</handler></context>
</virtualHostConfig>`

// R-GRP-9: the TLS identity is part of a peer's and of its pool's, by what the
// files hold.
func TestUpstreamTLSIsIdentity(t *testing.T) {
	r := newGroupTree(t)
	r.writePair("own.test", time.Hour)
	r.write("conf/one.xml", tlsOne)
	g1, fs := r.build()
	defer func() { g1.Retire() }()
	if fs.Failed() || len(g1.Degraded) > 0 {
		t.Fatal(fs.All())
	}
	first := r.group(g1, "/app/").Snapshot()
	if len(first) != 1 {
		t.Fatal(first)
	}
	for range 3 { // its dials fail
		var c groups.Choice
		res, err := r.group(g1, "/app/").Reserve(&c)
		if err != nil {
			t.Fatal(err)
		}
		res.Release(&extproc.DialError{Addr: "127.0.0.1:9000"})
	}
	f := func(what string, change func(), clients int, dial string) {
		t.Helper()
		change()
		g, fs := r.build()
		if fs.Failed() {
			t.Fatal(fs.All())
		}
		if got := r.group(g, "/app/").Snapshot()[0].Dial; got != dial || r.kept.Proxies.Len() != clients {
			t.Errorf("%s: dial breaker %s, want %s; %d clients, want %d", what, got, dial, r.kept.Proxies.Len(), clients)
		}
		g.Retire()
	}
	f("nothing", func() {}, 1, "open")
	f("another name", func() { r.write("conf/one.xml", strings.Replace(tlsOne, "<serverName>own", "<serverName>other", 1)) }, 2, "closed")
	f("no verification", func() {
		r.write("conf/one.xml", strings.Replace(tlsOne, "<caFile>own.test.crt</caFile>", "<verify>0</verify>", 1))
	}, 2, "closed")
	f("renewed files", func() {
		r.writePair("own.test", time.Hour)
		r.write("conf/one.xml", tlsOne)
	}, 2, "closed")
}

// Files that cannot be used close what names the processor, and degrade the
// generation: a start serves without, a reload is refused.
func TestUpstreamTLSFaults(t *testing.T) {
	r := newGroupTree(t)
	r.writePair("own.test", time.Hour)
	r.write("conf/one.xml", strings.Replace(tlsOne, "own.test.key", "absent.key", 1))
	g, fs := r.build()
	defer g.Retire()
	found := false
	for _, f := range fs.All() {
		found = found || f.Code == "E-CERT" && f.Severity == xmlconf.Error && strings.HasSuffix(f.File, "one.xml") && f.Line == 3 && strings.Contains(f.Message, "absent.key")
	}
	if !found || fs.Failed() || len(g.Degraded) != 1 || r.kept.Proxies.Len() != 0 {
		t.Errorf("%v; degraded %v, %d clients", fs.All(), g.Degraded, r.kept.Proxies.Len())
	}
}

// sslDefaultCAFile and sslDefaultCAPath are whom upstreams over TLS are verified by that
// name nobody, and part of the identity of their pools; one that names a caFile, or
// verifies nothing, is as it was.
func TestDefaultAuthorities(t *testing.T) {
	r := newGroupTree(t)
	r.writePair("own.test", time.Hour)
	r.writePair("cas/other.test", time.Hour)
	one := func(tls string) {
		r.write("conf/one.xml", `<virtualHostConfig><docRoot>html</docRoot>
  <extProcessor><type>proxy</type><name>app</name><address>https://127.0.0.1:9000</address>`+tls+`</extProcessor>
  <context><type>proxy</type><uri>/app/</uri><handler>app</handler></context></virtualHostConfig>`)
	}
	tuning := func(text string) {
		r.write("conf/httpd_config.xml", strings.Replace(groupServer, "<httpServerConfig>", "<httpServerConfig><tuning>"+text+"</tuning>", 1))
	}
	ids := map[string]string{}
	f := func(what string, like string) {
		t.Helper()
		g, fs := r.build()
		defer g.Retire()
		if fs.Failed() || len(g.Degraded) > 0 || r.kept.Proxies.Len() != 1 {
			t.Fatal(what, fs.All(), g.Degraded, r.kept.Proxies.Len())
		}
		for _, c := range r.kept.Proxies.Values() {
			ids[what] = c.(interface{ Target() extproc.Target }).Target().TLSID
		}
		for other, id := range ids {
			if same := other == what || other == like; same != (id == ids[what]) {
				t.Errorf("%s has identity %q, %s %q", what, ids[what], other, id)
			}
		}
	}
	one("")
	f("the system's", "")
	tuning("<sslDefaultCAFile>own.test.crt</sslDefaultCAFile>")
	f("a file", "")
	one("<upstreamTLS><serverName>own.test</serverName></upstreamTLS>")
	f("a file and a name", "a file")
	one("<upstreamTLS><caFile>cas/other.test.crt</caFile></upstreamTLS>")
	f("its own", "")
	one("<upstreamTLS><verify>0</verify></upstreamTLS>")
	f("nothing", "")
	one("")
	tuning("<sslDefaultCAPath>cas</sslDefaultCAPath>")
	f("a directory", "its own")
	tuning("<sslDefaultCAFile>own.test.crt</sslDefaultCAFile><sslDefaultCAPath>cas</sslDefaultCAPath>")
	f("both", "")
}

// Authorities that cannot be read leave nobody to trust: not the system's.
func TestDefaultAuthoritiesFault(t *testing.T) {
	r := newGroupTree(t)
	r.write("conf/one.xml", `<virtualHostConfig><docRoot>html</docRoot>
  <extProcessor><type>proxy</type><name>app</name><address>https://127.0.0.1:9000</address></extProcessor>
  <extProcessor><type>proxy</type><name>any</name><address>https://127.0.0.1:9001</address><upstreamTLS><verify>0</verify></upstreamTLS></extProcessor>
  <extProcessor><type>proxy</type><name>plain</name><address>127.0.0.1:9002</address></extProcessor>
  <context><type>proxy</type><uri>/app/</uri><handler>app</handler></context>
  <context><type>proxy</type><uri>/any/</uri><handler>any</handler></context>
  <context><type>proxy</type><uri>/plain/</uri><handler>plain</handler></context></virtualHostConfig>`)
	r.write("conf/httpd_config.xml", strings.Replace(groupServer, "<httpServerConfig>", "<httpServerConfig>\n<tuning><sslDefaultCAFile>absent.pem</sslDefaultCAFile></tuning>", 1))
	g, fs := r.build()
	defer g.Retire()
	found := false
	for _, f := range fs.All() {
		found = found || f.Code == "E-CERT" && f.Severity == xmlconf.Error && strings.HasSuffix(f.File, "httpd_config.xml") && f.Line == 2 && strings.Contains(f.Message, "absent.pem")
	}
	if !found || fs.Failed() || len(g.Degraded) != 1 {
		t.Errorf("%v; degraded %v", fs.All(), g.Degraded)
	}
	if n := r.kept.Proxies.Len(); n != 2 {
		t.Errorf("%d clients, want those of what needs no authority", n)
	}
}
