package main

import (
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// payload is the kibibyte that everything serves.
var payload = []byte(strings.Repeat("0123456789abcde\n", 64))

// gib is the length of a stream.
const gib = 1 << 30

var (
	answer1K     = fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(payload), payload)
	answerCached = fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nCache-Control: public, max-age=3600\r\nETag: \"1k\"\r\nLast-Modified: Wed, 04 Mar 2020 05:06:07 GMT\r\nContent-Length: %d\r\n\r\n%s", len(payload), payload)
	answerStream = fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n", gib)
)

// upstream is what stands behind the measured servers: HTTP and WebSockets at
// one address, and those of the group that it stands for; FastCGI at the other.
func upstream(http, fastcgi string) error {
	l, err := newLoop()
	if err != nil {
		return err
	}
	for _, address := range append(group(http), http) {
		if err := l.listen(address, httpProtocol); err != nil {
			return err
		}
	}
	if err := l.listen(fastcgi, fastcgiProtocol); err != nil {
		return err
	}
	return l.run()
}

// httpProtocol answers requests without a body: a stream below /app/stream and
// /app/splice, a WebSocket at /app/ws, a kibibyte everywhere else, which may be kept
// below /cached/. A connection that
// begins as HTTP/2 goes on so.
func httpProtocol(c *client) error {
	if bytes.HasPrefix(c.in, []byte("PRI ")) {
		if len(c.in) < len(preface) {
			return nil
		}
		c.out = append(c.out, 0, 0, 0, h2Settings, 0, 0, 0, 0, 0)
		c.take(len(preface))
		c.protocol = h2Protocol
		return h2Protocol(c)
	}
	for c.left == 0 {
		n := c.head()
		if n < 4 {
			return nil
		}
		head := c.in[:n]
		_, target, _ := bytes.Cut(head, []byte(" "))
		switch {
		case bytes.HasPrefix(target, []byte("/app/stream")), bytes.HasPrefix(target, []byte("/app/splice")):
			c.out, c.left = append(c.out, answerStream...), gib
		case bytes.HasPrefix(target, []byte("/cached/")):
			c.out = append(c.out, answerCached...)
		case bytes.HasPrefix(target, []byte("/app/ws")):
			key := field(head, "sec-websocket-key")
			if key == "" {
				return errors.New("no Sec-WebSocket-Key")
			}
			c.out = fmt.Appendf(c.out, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", acceptKey(key))
			c.take(n)
			c.protocol = echoProtocol
			return echoProtocol(c)
		default:
			c.out = append(c.out, answer1K...)
		}
		c.take(n)
	}
	return nil
}

// Frames of HTTP/2, and what their flags mean.
const (
	preface    = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	h2Data     = 0
	h2Headers  = 1
	h2Settings = 4
	h2Ping     = 6
	h2Ack      = 1 // of SETTINGS and PING
	h2End      = 1 // of DATA and HEADERS: the stream's
	h2Whole    = 4 // of HEADERS: no continuation
)

// h2Head is ":status: 200", content-type and content-length by HPACK, without its
// dynamic table.
var h2Head = append(append([]byte{0x88, 0x0f, 0x10, byte(len("text/plain"))}, "text/plain"...),
	append([]byte{0x0f, 0x0d, byte(len("1024"))}, "1024"...)...)

// h2Protocol answers each request with a kibibyte. It looks at no field, and at no
// window: those of a client that reads are never empty.
func h2Protocol(c *client) error {
	for len(c.in) >= 9 {
		size := 9 + int(c.in[0])<<16 + int(c.in[1])<<8 + int(c.in[2])
		if len(c.in) < size {
			return nil
		}
		kind, flags, stream := c.in[3], c.in[4], c.in[5:9]
		switch {
		case kind == h2Settings && flags&h2Ack == 0:
			c.out = append(c.out, 0, 0, 0, h2Settings, h2Ack, 0, 0, 0, 0)
		case kind == h2Ping && flags&h2Ack == 0:
			c.out = append(c.out, 0, 0, 8, h2Ping, h2Ack, 0, 0, 0, 0)
			c.out = append(c.out, c.in[9:size]...)
		case (kind == h2Headers || kind == h2Data) && flags&h2End != 0:
			c.out = append(c.out, 0, 0, byte(len(h2Head)), h2Headers, h2Whole)
			c.out = append(append(c.out, stream...), h2Head...)
			c.out = append(c.out, 0, byte(len(payload)>>8), byte(len(payload)), h2Data, h2End)
			c.out = append(append(c.out, stream...), payload...)
		}
		c.take(size)
	}
	return nil
}

// field returns the value of the field with a lower-case name.
func field(head []byte, name string) string {
	for line := range bytes.Lines(head) {
		n, v, ok := bytes.Cut(line, []byte(":"))
		if ok && strings.EqualFold(string(n), name) {
			return string(bytes.TrimSpace(v))
		}
	}
	return ""
}

// acceptKey is Sec-WebSocket-Accept for a key (RFC 6455 section 4.2.2).
func acceptKey(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// echoProtocol sends every short masked frame back.
func echoProtocol(c *client) error {
	for len(c.in) >= 2 {
		n := int(c.in[1] & 0x7f)
		if c.in[1]&0x80 == 0 || n > 125 {
			return errors.New("not a short masked frame")
		}
		if len(c.in) < 6+n {
			return nil
		}
		key, data := c.in[2:6], c.in[6:6+n]
		c.out = append(c.out, c.in[0], byte(n))
		for i, b := range data {
			c.out = append(c.out, b^key[i&3])
		}
		if c.in[0]&0x0f == 8 { // close
			c.last = true
		}
		c.take(6 + n)
	}
	return nil
}

// FastCGI record types.
const (
	fcgiBegin        = 1
	fcgiAbort        = 2
	fcgiEnd          = 3
	fcgiStdin        = 5
	fcgiStdout       = 6
	fcgiValues       = 9
	fcgiValuesResult = 10
)

var fastcgiAnswer = append([]byte("Content-Type: text/plain\r\n\r\n"), payload...)

// fastcgiProtocol answers each request when its input has ended, whatever its
// parameters say. It reads records only as far as that needs.
func fastcgiProtocol(c *client) error {
	for len(c.in) >= 8 {
		kind, id := c.in[1], binary.BigEndian.Uint16(c.in[2:])
		n := int(binary.BigEndian.Uint16(c.in[4:]))
		size := 8 + n + int(c.in[6])
		if len(c.in) < size {
			return nil
		}
		switch {
		case kind == fcgiBegin && n >= 3:
			c.keep = c.in[8+2]&1 != 0
		case kind == fcgiValues:
			c.out = record(c.out, fcgiValuesResult, 0, nil)
		case kind == fcgiStdin && n == 0:
			c.out = record(c.out, fcgiStdout, id, fastcgiAnswer)
			c.out = record(c.out, fcgiStdout, id, nil)
			fallthrough
		case kind == fcgiAbort:
			c.out = record(c.out, fcgiEnd, id, make([]byte, 8))
			c.last = !c.keep
		}
		c.take(size)
	}
	return nil
}

func record(b []byte, kind byte, id uint16, data []byte) []byte {
	pad := -len(data) & 7
	b = append(b, 1, kind, byte(id>>8), byte(id), byte(len(data)>>8), byte(len(data)), byte(pad), 0)
	b = append(b, data...)
	return append(b, make([]byte, pad)...)
}
