package xmlconf

import "testing"

// R-SAFE-1: wherever a list of refused addresses stands in a file, somebody is
// closed or guarded by it. It is put behind every start tag and before every end
// tag in turn, and into an element that is not known.
func TestRestrictionAnywhere(t *testing.T) {
	const deny = "<accessControl><allow>*</allow><deny>192.0.2.1</deny></accessControl>"
	// A context that is disabled, and blocks of which nothing is read, are left out.
	const host = `<virtualHostConfig><docRoot>/w</docRoot><enabled>1</enabled><index><indexFiles>a</indexFiles></index>
<logging><log><fileName>x</fileName></log><accessLog><fileName>y</fileName></accessLog></logging>
<security><realmList><realm><name>r</name><userDB><location>f</location></userDB></realm></realmList><hotlinkCtrl><suffixes>gif</suffixes></hotlinkCtrl></security>
<rewrite><enable>0</enable><map><name>m</name></map></rewrite><vhssl><certFile>c</certFile></vhssl><htAccess><allowOverride>0</allowOverride></htAccess>
<extProcessorList><extProcessor><type>fcgi</type><name>p</name><address>127.0.0.1:1</address></extProcessor></extProcessorList>
<scriptHandlerList><scriptHandler><suffix>php</suffix><type>fcgi</type><handler>p</handler></scriptHandler></scriptHandlerList>
<contextList><context><uri>/a/</uri><location>/w/a</location><customErrorPages><errorPage><errCode>404</errCode></errorPage></customErrorPages></context></contextList>
<websocketList><websocket><uri>/ws</uri><address>127.0.0.1:2</address></websocket></websocketList><other><thing>1</thing></other></virtualHostConfig>`
	const serverFile = `<httpServerConfig><serverName>s</serverName><tuning><maxConnections>9</maxConnections></tuning><security><fileAccessControl><followSymbolLink>1</followSymbolLink></fileAccessControl></security>
<virtualHostList><virtualHost><name>v</name><vhRoot>x</vhRoot><enableScript>1</enableScript></virtualHost></virtualHostList>
<vhTemplateList><vhTemplate><name>t</name><templateFile>f</templateFile><listeners>l</listeners><member><vhName>m</vhName></member></vhTemplate></vhTemplateList>
<listenerList><listener><name>l</name><address>*:80</address><vhostMapList><vhostMap><vhost>v</vhost><domain>*</domain></vhostMap></vhostMapList></listener></listenerList></httpServerConfig>`

	each := func(file string, guarded func(text string) bool) {
		t.Helper()
		if guarded(file) {
			t.Fatal("the sample guards itself")
		}
		for i := range len(file) {
			if file[i] != '<' || i == 0 {
				continue
			}
			for _, text := range []string{deny, "<new>" + deny + "</new>", "<authorizer>x</authorizer>"} {
				if changed := file[:i] + text + file[i:]; !guarded(changed) {
					t.Errorf("nobody is guarded: %s", changed[max(0, i-60):min(len(changed), i+len(text)+40)])
				}
			}
		}
	}
	each(host, func(text string) bool {
		v, fs := decode[VHost](t, text)
		n := len(v.Restrictions())
		for _, c := range v.Contexts {
			n += len(c.Restrictions())
		}
		return n > 0 || fs.Failed()
	})
	each(serverFile, func(text string) bool {
		s, fs := decode[Server](t, text)
		n := len(s.Restrictions())
		for _, l := range s.Listeners {
			n += len(l.Restrictions())
		}
		for _, d := range s.VirtualHosts {
			n += len(d.Restrictions())
		}
		for _, d := range s.Templates {
			n += len(d.lost)
			for _, m := range d.Members {
				n += len(m.lost)
			}
		}
		return n > 0 || fs.Failed()
	})
}
