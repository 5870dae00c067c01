package lsapi

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

// vectorReply is what lsphp was seen to answer to the first request of a
// connection: the notice of its child, head, body, end.
const vectorReply = `4c530600 10000000 00504944 44340000
	4c530300 5d000000 03000000 c8000000 1900 0700 2700
	582d506f77657265642d42793a205048502f382e322e333200 582d543a203100
	436f6e74656e742d747970653a20746578742f68746d6c3b20636861727365743d5554462d3800
	4c530400 16000000 68656c6c6f20474554203120 2d0a
	4c530500 08000000`

type conversation struct {
	name  string
	bytes []byte
	want  string
}

// conversations are the replies that the tests cut at every byte. The outcome of
// each is the same, however its bytes come (R-TEST-2, R-LSAPI-2).
func conversations(t testing.TB) []conversation {
	html := "Content-Type: text/html"
	const kept, gone = " reuse yes", " reuse no"
	lsapiProtocol := "error 502 lsapi_protocol"
	end := packet(typeEnd, "")
	swapped := func(b []byte) []byte { // the same packet, big-endian
		out := bytes.Clone(b)
		out[3] = bigEndian
		n := binary.LittleEndian.Uint32(b[4:])
		binary.BigEndian.PutUint32(out[4:], n)
		if b[2] == typeHead {
			count := int(binary.LittleEndian.Uint32(b[8:]))
			for _, at := range []int{8, 12} {
				binary.BigEndian.PutUint32(out[at:], binary.LittleEndian.Uint32(b[at:]))
			}
			for i := range count {
				binary.BigEndian.PutUint16(out[16+2*i:], binary.LittleEndian.Uint16(b[16+2*i:]))
			}
		}
		return out
	}
	patched := func(b []byte, at int, v byte) []byte {
		out := bytes.Clone(b)
		out[at] = v
		return out
	}
	big := strings.Repeat("t", 22_500)
	return []conversation{
		{"vector", unhex(t, vectorReply), `200 "X-Powered-By: PHP/8.2.32" "X-T: 1" "Content-type: text/html; charset=UTF-8" body "hello GET 1 -\n"` + kept},
		{"later request", okReply(), `200 "Content-Type: text/plain" body "ok"` + kept},
		{"redirect", join(headPacket(302, "Location: /1k.txt", html), end), `302 "Location: /1k.txt" "Content-Type: text/html" body ""` + kept},
		{"big-endian", join(swapped(packet(typeReceived, "")), swapped(headPacket(404, html, "X: y")), swapped(packet(typeBody, "no")), swapped(end)),
			`404 "Content-Type: text/html" "X: y" body "no"` + kept},
		{"mixed orders", join(headPacket(200, html), swapped(packet(typeBody, "a")), packet(typeBody, "b"), swapped(end)), `200 "Content-Type: text/html" body "ab"` + kept},
		{"many parts", join(headPacket(200, html), bytes.Repeat(packet(typeBody, "x"), 40), end), `200 "Content-Type: text/html" body "` + strings.Repeat("x", 40) + `"` + kept},
		{"empty part", join(headPacket(200, html), packet(typeBody, ""), packet(typeBody, "a"), packet(typeBody, ""), end), `200 "Content-Type: text/html" body "a"` + kept},
		{"stderr around all", join(packet(typeStderr, "one\ntw"), headPacket(200, html), packet(typeStderr, "o\x1b\n"), packet(typeBody, "a"), packet(typeStderr, "three"), packet(typeBody, "b"), packet(typeStderr, "PID text"), end),
			`200 "Content-Type: text/html" body "ab" log "one" log "two\\x1b" log "threePID text"` + kept},
		{"empty stderr", join(packet(typeStderr, ""), okReply()), `200 "Content-Type: text/plain" body "ok"` + kept},
		{"length right", join(headPacket(200, "Content-Length: 2"), packet(typeBody, "ok"), end), `200 length 2 body "ok"` + kept},
		{"length short", join(headPacket(200, "Content-Length: 3"), packet(typeBody, "ok"), end), `200 length 3 cut "ok"` + gone},
		{"length long", join(headPacket(200, "Content-Length: 1"), packet(typeBody, "ok"), end), `200 length 1 cut "o"` + gone},
		{"status field", join(headPacket(200, "Status: 404 Gone", html), end), `404 "Content-Type: text/html" body ""` + kept},
		{"no status", join(headPacket(0, "Location: /x"), end), `302 "Location: /x" body ""` + kept},
		{"no fields", join(headPacket(204), end), `204 body ""` + kept},
		{"body of 204", join(headPacket(204), packet(typeBody, "x"), end), `204 body ""` + kept},
		{"big fields", join(headPacket(200, "X-LiteSpeed-Purge: "+big, "X-Test: "+big[:17_000]), end), `200 "X-LiteSpeed-Purge: ` + big + `" "X-Test: ` + big[:17_000] + `" body ""` + kept},

		{"nothing", nil, lsapiProtocol + gone},
		{"only a receipt", packet(typeReceived, ""), lsapiProtocol + gone},
		{"only an end", end, lsapiProtocol + gone},
		{"body before the head", join(packet(typeBody, "<?php secret"), end), lsapiProtocol + gone},
		{"cut in the header", okReply()[:12], lsapiProtocol + gone},
		{"cut in the head", okReply()[:24], lsapiProtocol + gone},
		{"cut behind the head", headPacket(200, html), `200 "Content-Type: text/html" cut ""` + gone},
		{"cut in the body", join(headPacket(200, html), packet(typeBody, "hello")[:11]), `200 "Content-Type: text/html" cut "hel"` + gone},
		{"cut before the end", join(headPacket(200, html), packet(typeBody, "hello")), `200 "Content-Type: text/html" cut "hello"` + gone},
		{"cut in stderr", packet(typeStderr, "text of some length")[:14], `error 502 lsapi_protocol log "text o"` + gone},
		{"wrong letters", patched(okReply(), 0, 'X'), lsapiProtocol + gone},
		{"HTTP", []byte("HTTP/1.1 200 OK\r\n\r\n"), lsapiProtocol + gone},
		{"unknown flag", patched(okReply(), 3, 2), lsapiProtocol + gone},
		{"type of the server", packet(typeBegin, "x"), lsapiProtocol + gone},
		{"unknown type", packet(10, ""), lsapiProtocol + gone},
		{"type 0", packet(0, ""), lsapiProtocol + gone},
		{"length below the header", patched(packet(typeBody, ""), 4, 7), lsapiProtocol + gone},
		{"negative length", patched(packet(typeBody, ""), 7, 0x80), lsapiProtocol + gone},
		{"end with content", join(headPacket(200, html), packet(typeEnd, "x")), `200 "Content-Type: text/html" cut ""` + gone},
		{"receipt with content", packet(typeReceived, "x"), lsapiProtocol + gone},
		{"receipt behind the head", join(headPacket(200, html), packet(typeReceived, ""), end), `200 "Content-Type: text/html" cut ""` + gone},
		{"two heads", join(headPacket(200, html), headPacket(200, html), end), `200 "Content-Type: text/html" cut ""` + gone},
		{"body over 1 MiB", join(headPacket(200, html), patched(packet(typeBody, ""), 6, 0x11)), `200 "Content-Type: text/html" cut ""` + gone},
		{"head over 64 KiB", patched(headPacket(200, html), 6, 0x02), lsapiProtocol + gone},
		{"head too short", packet(typeHead, "1234567"), lsapiProtocol + gone},
		{"more fields than bytes", packet(typeHead, "\xff\x00\x00\x00\xc8\x00\x00\x00\x02\x00a\x00"), lsapiProtocol + gone},
		{"negative fields", packet(typeHead, "\xff\xff\xff\xff\xc8\x00\x00\x00"), lsapiProtocol + gone},
		{"length of a field 0", packet(typeHead, "\x01\x00\x00\x00\xc8\x00\x00\x00\x00\x00"), lsapiProtocol + gone},
		{"field over the head", packet(typeHead, "\x01\x00\x00\x00\xc8\x00\x00\x00\x09\x00X: y\x00"), lsapiProtocol + gone},
		{"field without NUL", packet(typeHead, "\x01\x00\x00\x00\xc8\x00\x00\x00\x04\x00X: y"), lsapiProtocol + gone},
		{"bytes behind the fields", packet(typeHead, "\x01\x00\x00\x00\xc8\x00\x00\x00\x05\x00X: y\x00z"), lsapiProtocol + gone},
		{"NUL in a field", headPacket(200, "X: a\x00b"), lsapiProtocol + gone},
		{"split field", headPacket(200, "X: a\r\nSet-Cookie: b"), lsapiProtocol + gone},
		{"folded field", headPacket(200, "X: a", " b: c"), lsapiProtocol + gone},
		{"no field", headPacket(200, "HTTP/1.1 200 OK"), lsapiProtocol + gone},
		{"hop-by-hop field", headPacket(200, "Transfer-Encoding: chunked"), lsapiProtocol + gone},
		{"two lengths", headPacket(200, "Content-Length: 1", "Content-Length: 1"), lsapiProtocol + gone},
		{"interim status", headPacket(103, html), lsapiProtocol + gone},
		{"status 600", headPacket(600, html), lsapiProtocol + gone},
		{"negative status", headPacket(-200, html), lsapiProtocol + gone},
		{"internal error", packet(typeError, ""), "error 503 lsapi_unavailable" + gone},
		{"internal error with text", packet(typeError, "why"), "error 503 lsapi_unavailable" + gone},
		{"late internal error", join(headPacket(200, html), packet(typeError, "")), `200 "Content-Type: text/html" cut ""` + gone},
		{"closing instead of a reply", packet(typeClose, ""), lsapiProtocol + gone},
		{"closing inside a reply", join(headPacket(200, html), packet(typeClose, ""), end), `200 "Content-Type: text/html" cut ""` + gone},
		// What stands behind the end belongs to nobody. Where it comes late, the
		// next call finds it: what is told here is told of reply and body.
		{"closing behind the reply", join(okReply(), packet(typeClose, "")), `200 "Content-Type: text/plain" body "ok"`},
		{"garbage behind the reply", join(okReply(), []byte("x")), `200 "Content-Type: text/plain" body "ok"`},
		{"reply behind the reply", join(okReply(), okReply()), `200 "Content-Type: text/plain" body "ok"`},
	}
}

func TestRepliesInFragments(t *testing.T) {
	list, points := conversations(t), 0
	for _, c := range list {
		f := func(how string, pieces ...[]byte) {
			points++
			got := replay(pieces...)
			if !strings.Contains(c.want, " reuse ") {
				got = got[:strings.LastIndex(got, " reuse ")]
			}
			if got != c.want {
				t.Fatalf("%s, %s:\n%.400s\nwant\n%.400s", c.name, how, got, c.want)
			}
		}
		f("merged", c.bytes)
		single := make([][]byte, len(c.bytes))
		for i := range c.bytes {
			single[i] = c.bytes[i : i+1]
		}
		f("one byte at a time", single...)
		for i := 1; i < len(c.bytes); i++ {
			if len(c.bytes) > 4<<10 && i > 100 && i < len(c.bytes)-100 && i%997 != 0 {
				continue // of the long one not every cut
			}
			f(fmt.Sprintf("cut at byte %d", i), c.bytes[:i], c.bytes[i:])
		}
	}
	t.Logf("%d conversations, %d ways to cut them", len(list), points)
}

// G64: fields beyond 16 KiB pass up to the bound of the head, and above it the
// answer is a 502 that names the bound.
func TestG64LongResponseField(t *testing.T) {
	f := func(size int, want string) {
		t.Helper()
		line := "X-LiteSpeed-Purge: " + strings.Repeat("t", size-len("X-LiteSpeed-Purge: "))
		if got := replay(headPacket(200, line), packet(typeEnd, "")); !strings.HasPrefix(got, want) {
			t.Errorf("%d bytes: %.80s", size, got)
		}
	}
	most := maxHead - headerLen - 8 - 2 - 1
	f(22_500, "200 ")
	f(most, "200 ")
	f(most+1, "error 502 lsapi_protocol")
	b := headPacket(200, "X: "+strings.Repeat("t", 65_530))
	if _, err := parseHeader(b); err == nil || !strings.Contains(err.Error(), "65536") {
		t.Errorf("the bound is not told: %v", err)
	}
}

// FuzzReplies: whole or in two parts, no panic, one outcome, and no connection kept
// that is not clean.
func FuzzReplies(f *testing.F) {
	for _, c := range conversations(f) {
		if len(c.bytes) < 4<<10 {
			f.Add(c.bytes, 9)
		}
	}
	f.Fuzz(func(t *testing.T, p []byte, at int) {
		if at < 0 || at > len(p) {
			at = len(p) / 2
		}
		whole, parts := replay(p), replay(bytes.Clone(p[:at]), bytes.Clone(p[at:]))
		cut := func(s string) string { return s[:strings.LastIndex(s, "reuse ")] }
		if strings.Contains(whole, "pool is wrong") || cut(whole) != cut(parts) {
			t.Errorf("whole:\n%s\nparts:\n%s", whole, parts)
		}
	})
}
