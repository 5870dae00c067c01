package server

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// introduced is a connection whose client is the one that a PROXY header names.
func introduced(t *testing.T, r *running, client string) (c net.Conn, get func(path string) int) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(r.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	fmt.Fprintf(c, "PROXY TCP4 %s 203.0.113.9 4660 80\r\n", client)
	br := bufio.NewReader(c)
	return c, func(path string) int {
		io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: site.test\r\n\r\n")
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			return 0
		}
		io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
}

// The client that a trusted proxy introduces is the one of access lists and limits, and
// a reload forgets none of its connections.
func TestClientsOfProxies(t *testing.T) {
	root := treeOf(t, "<security><accessControl><allow>*</allow><deny>192.0.2.66</deny></accessControl></security>")
	server := `<httpServerConfig><tuning><proxyProtocol>%s</proxyProtocol></tuning><security><perClientConnLimit><hardLimit>%d</hardLimit></perClientConnLimit></security>
  <virtualHost><name>site</name><vhRoot>.</vhRoot><configFile>conf/site.xml</configFile></virtualHost>
  <listener><name>Default</name><address>127.0.0.1:1</address><vhostMap><vhost>site</vhost><domain>site.test, *</domain></vhostMap></listener>
</httpServerConfig>`
	put(t, root, "conf/httpd_config.xml", fmt.Sprintf(server, "127.0.0.1, nonsense", 1))
	r := run(t, root)
	if _, get := introduced(t, r, "192.0.2.66"); get("/index.html") != 403 {
		t.Error("who is denied is let in by the address of its proxy")
	}
	kept, get := introduced(t, r, "192.0.2.1")
	if s := get("/index.html"); s != 200 {
		t.Fatal(s)
	}
	line := ""
	for _, reload := range []bool{false, true} {
		if reload {
			put(t, root, "conf/httpd_config.xml", fmt.Sprintf(server, "127.0.0.0/8", 1)+"\n")
			if line = r.reload(t); !strings.Contains(line, "published") {
				t.Fatal(line)
			}
		}
		if _, get := introduced(t, r, "192.0.2.1"); get("/index.html") != 0 {
			t.Errorf("after a reload %v: one connection too many", reload)
		}
		if _, get := introduced(t, r, fmt.Sprintf("192.0.2.%d", 2+min(1, len(line)))); get("/index.html") != 200 {
			t.Error("another client")
		}
		if s := get("/index.html"); s != 200 {
			t.Error("the connection that was kept", s)
		}
	}
	kept.Close()
	put(t, root, "conf/httpd_config.xml", fmt.Sprintf(server, "", 0))
	if line := r.reload(t); !strings.Contains(line, "published") {
		t.Fatal(line)
	}
	if _, get := introduced(t, r, "192.0.2.4"); get("/index.html") != 400 {
		t.Error("a header where nobody may send one")
	}
}
