package lsapi

import (
	"bufio"
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"

	"httpjet/exchange"
	"httpjet/extproc"
	"httpjet/gateway"
	"httpjet/lsapi/lsapitest"
)

func encode(t testing.TB, r gateway.Request) []byte {
	t.Helper()
	size, err := protocol{}.Measure(r)
	if err != nil {
		t.Fatal(err)
	}
	return protocol{}.Append([]byte("before"), r, size)[len("before"):]
}

// A request as lsphp was seen to take it, byte by byte.
func TestRequestVector(t *testing.T) {
	call := &extproc.Call{Params: &exchange.Fields{}}
	for _, kv := range []string{"SCRIPT_FILENAME=/srv/app/run/t.php", "SCRIPT_NAME=/t.php", "QUERY_STRING=a=1", "REQUEST_METHOD=GET",
		"SERVER_SOFTWARE=t", "SERVER_PROTOCOL=HTTP/1.1", "GATEWAY_INTERFACE=CGI/1.1", "REQUEST_URI=/t.php?a=1", "DOCUMENT_ROOT=/srv/app/run",
		"HTTP_HOST=a.test", "HTTP_USER_AGENT=t/1", "HTTP_X_FOO=bar"} {
		name, value, _ := strings.Cut(kv, "=")
		call.Params.Add(name, value)
	}
	got := encode(t, gateway.Request{Call: call})
	want := unhex(t, "4c530100 04020000 2c000000 00000000 44000000 67000000 7f000000 96000000 01000000 09000000 00000000 00000000")
	if len(got) != 516 || string(got[:len(want)]) != string(want) {
		t.Errorf("%d bytes:\n% x\nwant 516:\n% x", len(got), got[:len(want)], want)
	}
	if s := string(got[0x1d8:]); s != "Host: a.test\r\nUser-Agent: t/1\r\nX-Foo: bar\r\n\x00" {
		t.Errorf("fields %q", s)
	}
	if other := unhex(t, "1f000000 05000000 26000000 03000000"); string(got[0x1c8:0x1d8]) != string(other) {
		t.Errorf("index of X-Foo % x", got[0x1c8:0x1d8])
	}
	q, err := decode(got)
	if err != nil || q.script != "/srv/app/run/t.php /t.php a=1 GET " || q.fields["HTTP_HOST"] != "a.test" ||
		q.fields["HTTP_USER_AGENT"] != "t/1" || q.fields["X-Foo"] != "bar" || len(q.env) != 9 {
		t.Errorf("%+v, %v", q, err)
	}
}

// Whatever the variables are, an application that trusts nothing but the offsets
// finds them again; the head points at four of them even if they are not there.
func TestRequestRoundTrip(t *testing.T) {
	f := func(r gateway.Request, env, fields map[string]string, body int) {
		t.Helper()
		q, err := decode(encode(t, r))
		if err != nil || !reflect.DeepEqual(q.env, env) || !reflect.DeepEqual(q.fields, fields) || q.body != body {
			t.Errorf("%+v %v\nwant %v %v %d", q, err, env, fields, body)
		}
	}
	empty := map[string]string{"SCRIPT_FILENAME": "", "SCRIPT_NAME": "", "QUERY_STRING": "", "REQUEST_METHOD": ""}
	f(gateway.Request{Call: &extproc.Call{}}, empty, map[string]string{}, 0)
	f(gateway.Request{Call: &extproc.Call{}, Length: 7, Digits: "7"}, empty, map[string]string{"CONTENT_LENGTH": "7"}, 7)
	f(gateway.Request{Call: &extproc.Call{}, Length: math.MaxInt32, Digits: "2147483647"}, empty, map[string]string{"CONTENT_LENGTH": "2147483647"}, math.MaxInt32)
	f(gateway.Request{Call: &extproc.Call{}, Length: math.MaxInt32 + 1, Digits: "2147483648"}, empty, map[string]string{"CONTENT_LENGTH": "2147483648"}, -2)
	long := strings.Repeat("x", 60_000)
	call := request("POST", 0, nil, "CONTENT_LENGTH=99", "CONTENT_TYPE=a/b", "HTTP_X_A_B2=v w", "HTTP_COOKIE=", "HTTP_LONG="+long, "REMOTE_USER=u", "HTTPS=on")
	f(gateway.Request{Call: call, Length: 3, Digits: "3"},
		map[string]string{"REQUEST_METHOD": "POST", "SCRIPT_FILENAME": "/srv/x.php", "SCRIPT_NAME": "/x.php", "QUERY_STRING": "", "REMOTE_USER": "u", "HTTPS": "on"},
		map[string]string{"CONTENT_LENGTH": "3", "CONTENT_TYPE": "a/b", "X-A-B2": "v w", "HTTP_COOKIE": "", "Long": long}, 3)
}

// What would end a string or a line early is refused, and what lsphp refuses to
// read is not sent.
func TestRequestBounds(t *testing.T) {
	f := func(want string, params ...string) {
		t.Helper()
		_, err := protocol{}.Measure(gateway.Request{Call: request("GET", 0, nil, params...)})
		if describe(err) != want {
			t.Errorf("%.60q: %v, want %s", params, err, want)
		}
	}
	f("ok", "X=a\nb", "PATH_INFO=/\x80")
	f("400 bad_request", "PATH_INFO=/a\x00b")
	f("400 bad_request", "A\x00B=x")
	f("400 bad_request", "HTTP_X=a\r\nEvil: b")
	f("400 bad_request", "HTTP_X=a\nb")
	f("400 bad_request", "HTTP_HOST=a\x00")
	f("400 bad_request", "CONTENT_TYPE=a\rb")
	room := 65535 - len(encode(t, gateway.Request{Call: request("GET", 0, nil, "HTTP_COOKIE=")}))
	f("ok", "HTTP_COOKIE="+strings.Repeat("x", room))
	f("431 request_head_too_large", "HTTP_COOKIE="+strings.Repeat("x", room+1))
	f("431 request_head_too_large", "X="+strings.Repeat("x", 70_000))
	many := make([]string, maxEnv)
	for i := range many {
		many[i] = "="
	}
	f("431 request_head_too_large", many...)
}

// FuzzRequest: what passes Measure is decoded to what it was.
func FuzzRequest(f *testing.F) {
	f.Add("HTTP_X_Y", "value", "PATH_INFO", "/a", int64(5))
	f.Add("CONTENT_TYPE", "a/b", "SCRIPT_NAME", "", int64(-1))
	f.Add("HTTP_", "", "HTTP_COOKIE2", "x", int64(1<<40))
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2 string, length int64) {
		call := &extproc.Call{Params: &exchange.Fields{}}
		call.Params.Add(k1, v1)
		call.Params.Add(k2, v2)
		r := gateway.Request{Call: call, Length: max(0, length)}
		if size, err := (protocol{}).Measure(r); err == nil {
			if b := (protocol{}).Append(nil, r, size); len(b) != size {
				t.Fatalf("%d bytes, measured %d", len(b), size)
			} else if q, err := decode(b); err != nil && k1 != k2 && !exchange.EqualName(k1, k2) {
				t.Errorf("%+v: %v", q, err)
			}
		}
	})
}

// Settings of PHP as lsphp was seen to take them: ahead of the environment, with the
// mark of who they come from.
func TestSettingsOfPHP(t *testing.T) {
	call := request("GET", 0, nil)
	call.PHP = []exchange.Setting{{Name: "memory_limit", Value: "64M"}, {Name: "open_basedir", Value: "", Fixed: true}}
	got := encode(t, gateway.Request{Call: call})
	want := "\x00\x0f\x00\x04\x01\x01memory_limit\x0064M\x00" + "\x00\x0f\x00\x01\x01\x04open_basedir\x00\x00" + "\x00\x00\x00\x00"
	if string(got[beginLen:][:len(want)]) != want || got[40] != 2 {
		t.Errorf("% x", got[:beginLen+len(want)+8])
	}
	q, err := lsapitest.Read(bufio.NewReader(bytes.NewReader(got)))
	if err != nil || strings.Join(q.Special, ";") != "\x01\x01memory_limit=64M;\x01\x04open_basedir=" || q.Script != "/srv/x.php" || q.Env["SCRIPT_NAME"] != "/x.php" {
		t.Errorf("%+v, %v", q, err)
	}
	for range 20 {
		call.PHP = append(call.PHP, exchange.Setting{Name: "x", Value: strings.Repeat("v", 4096)})
	}
	if _, err := (protocol{}).Measure(gateway.Request{Call: call}); describe(err) != "431 request_head_too_large" {
		t.Errorf("settings of 80 KiB: %v", err)
	}
}
