package xmlconf

import (
	"fmt"
	"strings"
	"testing"
)

// R-CONV-8, LSX 3.3.
func TestParseAddress(t *testing.T) {
	f := func(use AddressUse, text, want string) {
		t.Helper()
		a, err := ParseAddress(text, use)
		got := fmt.Sprintf("%s %s %s %s", a.Scheme, a.Network, a.Address, a.TLSName)
		if err != nil {
			got = err.Error()
			if hintOf(err) == "" && !strings.Contains(got, "range") && !strings.Contains(got, "longer") {
				t.Errorf("%q: error %q without a hint", text, got)
			}
		}
		if strings.TrimSpace(got) != want {
			t.Errorf("ParseAddress(%q) = %q, want %q", text, strings.TrimSpace(got), want)
		}
	}
	f(ProxyAddress, "127.0.0.1:9001", "http tcp 127.0.0.1:9001")
	f(ProxyAddress, "Host.Name:9001", "http tcp host.name:9001")
	f(ProxyAddress, "[::1]:9001", "http tcp [::1]:9001")
	f(ProxyAddress, "http://host", "http tcp host:80")
	f(ProxyAddress, "host", "http tcp host:80")
	f(ProxyAddress, "http://host:8080/", "http tcp host:8080")
	f(ProxyAddress, "HTTPS://backend.example.com", "https tcp backend.example.com:443 backend.example.com")
	f(ProxyAddress, "https://[::1]", "https tcp [::1]:443 ::1")
	f(ProxyAddress, "h2://app:9001", "h2 tcp app:9001")
	f(ProxyAddress, "h2s://app", "h2s tcp app:443 app")
	f(ProxyAddress, "uds://tmp/x.sock", "http unix /tmp/x.sock")
	f(ProxyAddress, "UDS:///tmp/x.sock", "http unix /tmp/x.sock")
	f(ProxyAddress, "unix:/run/x.sock", "http unix /run/x.sock")
	f(AppAddress, "uds://tmp/x.sock", "unix /tmp/x.sock")
	f(AppAddress, "/run/x.sock", "unix /run/x.sock")
	f(AppAddress, "localhost:9000", "tcp localhost:9000")
	f(AppAddress, "TCP://localhost:9000", "tcp localhost:9000")
	f(WebSocketAddress, "ws://app:9200", "http tcp app:9200")
	f(WebSocketAddress, "wss://app", "https tcp app:443 app")
	f(WebSocketAddress, "127.0.0.1:9200", "http tcp 127.0.0.1:9200")
	f(WebSocketAddress, "UDS://run/ws.sock", "http unix /run/ws.sock")

	f(ProxyAddress, "", "is empty")
	f(ProxyAddress, "http://user:pw@host", "holds user information")
	f(ProxyAddress, "http://host/app", "holds a path")
	f(ProxyAddress, "http://host?x=1", "holds a query or fragment")
	f(ProxyAddress, "http://host#x", "holds a query or fragment")
	f(ProxyAddress, "http://host:", "port is missing")
	f(ProxyAddress, "http://host:0", `port "0" is out of range 1..65535`)
	f(ProxyAddress, "http://host:70000", `port "70000" is out of range 1..65535`)
	f(ProxyAddress, "http://host:8x", `port "8x" is out of range 1..65535`)
	f(ProxyAddress, "::1:9001", `"::1:9001" is an IPv6 address without brackets`)
	f(ProxyAddress, "[::1", `"[::1" is an IPv6 address without brackets`)
	f(ProxyAddress, "[::1]9001", `"[::1]9001" is no IPv6 address in brackets`)
	f(ProxyAddress, "*:9001", `"*" is no host`)
	f(ProxyAddress, "300.1.1.1:80", `"300.1.1.1" is no host`)
	f(ProxyAddress, "1.2.3:80", `"1.2.3" is no host`)
	f(ProxyAddress, "ftp://host", `scheme "ftp" is unknown`)
	f(ProxyAddress, "ws://host", `scheme "ws" is unknown`)
	f(ProxyAddress, "ho st:1", `"ho st" is no host`)
	f(ProxyAddress, "uds://", "holds no path of a socket")
	f(ProxyAddress, "uds://"+strings.Repeat("x", 107), "path of the socket is longer than 107 bytes")
	f(AppAddress, "http://host:1", `scheme "http" is for processors of type proxy`)
	f(AppAddress, "UDP://host:1", `scheme "UDP" is unknown`)
	f(AppAddress, "host", "port is missing")
	f(WebSocketAddress, "host", "port is missing")
}

// LSX 5.2: * is IPv4 only, a port is required.
func TestParseListenAddress(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		a, err := ParseListenAddress(text)
		got := fmt.Sprint(a, " v6=", a.V6)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("ParseListenAddress(%q) = %q, want %q", text, got, want)
		}
	}
	f("*:80", "*:80 v6=false")
	f("ANY:80", "*:80 v6=false")
	f("all:80", "*:80 v6=false")
	f("0.0.0.0:80", "*:80 v6=false")
	f("[::]:443", "[::]:443 v6=true")
	f("[ANY]:443", "[::]:443 v6=true")
	f("[*]:443", "[::]:443 v6=true")
	f("192.0.2.1:80", "192.0.2.1:80 v6=false")
	f("[2001:db8::1]:80", "[2001:db8::1]:80 v6=true")
	f("LocalHost:8080", "localhost:8080 v6=false")
	f("80", "port is missing")
	f("[::1]", "port is missing")
	f("*:0", `port "0" is out of range 1..65535`)
	f("300.1.1.1:80", `"300.1.1.1" is no address`)
	f("127.0.0.1:70000", `port "70000" is out of range 1..65535`)
	f("::1:80", `"::1" is no address`)
	f("[::1:80", `"[::1" is no address`)
	f("UDS://run/x:1", `"UDS://run/x" is no address`)
}
