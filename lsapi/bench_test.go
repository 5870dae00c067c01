package lsapi

import (
	"testing"

	"httpjet/gateway"
)

// BenchmarkRequest measures and encodes the head of a browser's request.
func BenchmarkRequest(b *testing.B) {
	call := request("GET", 0, nil, "GATEWAY_INTERFACE=CGI/1.1", "SERVER_SOFTWARE=httpjet", "SERVER_PROTOCOL=HTTP/1.1", "REQUEST_SCHEME=https",
		"REQUEST_URI=/x.php", "DOCUMENT_ROOT=/srv", "DOCUMENT_URI=/x.php", "REDIRECT_STATUS=200", "SERVER_ADDR=192.0.2.1", "SERVER_NAME=a.test",
		"SERVER_PORT=443", "REMOTE_ADDR=192.0.2.2", "REMOTE_PORT=4711", "HTTPS=on", "HTTP_HOST=a.test", "HTTP_USER_AGENT=agent/1.0",
		"HTTP_ACCEPT=text/html", "HTTP_ACCEPT_ENCODING=gzip", "HTTP_ACCEPT_LANGUAGE=en", "HTTP_COOKIE=a=b", "HTTP_X_FORWARDED_FOR=192.0.2.3", "HTTP_SEC_FETCH_MODE=navigate")
	r := gateway.Request{Call: call}
	buf := make([]byte, 0, 32<<10)
	b.ReportAllocs()
	for b.Loop() {
		size, err := protocol{}.Measure(r)
		if err != nil {
			b.Fatal(err)
		}
		protocol{}.Append(buf, r, size)
	}
}
