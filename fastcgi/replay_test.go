package fastcgi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"httpjet/exchange"
	"httpjet/extproc"
)

// replyBytes turns the upper part of a file in testdata/replies into what the
// application sends. Lines: [repeat N] stdout|stderr[+PADDING] "CONTENT",
// end[+PADDING] PROTOCOLSTATUS, raw "BYTES".
func replyBytes(t testing.TB, script string) []byte {
	t.Helper()
	var out []byte
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		word, arg, _ := strings.Cut(line, " ")
		times := 1
		if word == "repeat" {
			var n string
			n, arg, _ = strings.Cut(arg, " ")
			times, _ = strconv.Atoi(n)
			word, arg, _ = strings.Cut(arg, " ")
		}
		word, pad, _ := strings.Cut(word, "+")
		padding, _ := strconv.Atoi(pad)
		for range times {
			switch word {
			case "stdout":
				out = appendRecord(out, typeStdout, unquote(t, arg), padding)
			case "stderr":
				out = appendRecord(out, typeStderr, unquote(t, arg), padding)
			case "end":
				status, err := strconv.Atoi(arg)
				if err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				out = appendRecord(out, typeEnd, string([]byte{0, 0, 0, 0, byte(status), 0, 0, 0}), padding)
			case "raw":
				out = append(out, unquote(t, arg)...)
			default:
				t.Fatalf("unknown line %q", line)
			}
		}
	}
	return out
}

func unquote(t testing.TB, s string) string {
	t.Helper()
	u, err := strconv.Unquote(s)
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return u
}

// appendRecord encodes a record as an application would.
func appendRecord(b []byte, typ byte, content string, padding int) []byte {
	b = appendHeader(b, header{typ: typ, content: len(content), padding: padding})
	b = append(b, content...)
	return append(b, bytes.Repeat([]byte{0xee}, padding)...)
}

// scriptConn is a connection whose reads return the given pieces one by one and
// then io.EOF. What is written to it goes nowhere.
type scriptConn struct {
	pieces [][]byte
	closed bool
}

func (c *scriptConn) Read(p []byte) (int, error) {
	for len(c.pieces) > 0 && len(c.pieces[0]) == 0 {
		c.pieces = c.pieces[1:]
	}
	switch {
	case c.closed:
		return 0, net.ErrClosed
	case len(c.pieces) == 0:
		return 0, io.EOF
	}
	n := copy(p, c.pieces[0])
	c.pieces[0] = c.pieces[0][n:]
	return n, nil
}
func (c *scriptConn) Write(p []byte) (int, error)      { return len(p), nil }
func (c *scriptConn) Close() error                     { c.closed = true; return nil }
func (c *scriptConn) LocalAddr() net.Addr              { return nil }
func (c *scriptConn) RemoteAddr() net.Addr             { return nil }
func (c *scriptConn) SetDeadline(time.Time) error      { return nil }
func (c *scriptConn) SetReadDeadline(time.Time) error  { return nil }
func (c *scriptConn) SetWriteDeadline(time.Time) error { return nil }

// replay makes one call on a connection that replies with pieces and describes
// the outcome in the words of the lower part of the files.
func replay(pieces ...[]byte) string {
	cn := &scriptConn{pieces: pieces}
	c := New(extproc.Target{MaxConns: 1, KeepAlive: time.Minute, Network: "tcp", Address: "app"}, Options{
		Dial: func(context.Context, string, string) (net.Conn, error) { return cn, nil },
	})
	var log, out strings.Builder
	call := &extproc.Call{Method: "GET", Log: func(line string) { fmt.Fprintf(&log, "log %q\n", line) }}
	r, err := c.Do(context.Background(), call)
	if err != nil {
		e, _ := errors.AsType[*exchange.Error](err)
		if e == nil {
			return "error " + err.Error()
		}
		fmt.Fprintf(&out, "error %d %s\n", e.Status, e.Reason)
	} else {
		fmt.Fprintf(&out, "status %d\n", r.Status)
		for name, value := range r.Fields.All() {
			fmt.Fprintf(&out, "field %q\n", name+": "+value)
		}
		if r.Length >= 0 {
			fmt.Fprintf(&out, "length %d\n", r.Length)
		}
		got, err := io.ReadAll(r.Body)
		verb := "body"
		if err != nil {
			verb = "cut"
		}
		fmt.Fprintf(&out, "%s %q\n", verb, got)
		r.Close()
	}
	out.WriteString(log.String())
	reuse := "no"
	if c.Stats().Idle == 1 && !cn.closed {
		reuse = "yes"
	}
	if s := c.Stats(); s.Busy != 0 || s.Idle == 1 && cn.closed || s.Idle == 0 && !cn.closed {
		fmt.Fprintf(&out, "pool is wrong: %+v, closed %v\n", s, cn.closed)
	}
	fmt.Fprintf(&out, "reuse %s\n", reuse)
	return out.String()
}

// Every conversation has one outcome, however its bytes are cut into reads and its
// streams into records; one that ends early fails cleanly (R-TEST-2, R-FCGI-4,
// R-FCGI-10, R-FCGI-11).
func TestRepliesInFragments(t *testing.T) {
	all, points := replies(t), 0
	for name, raw := range all {
		t.Run(name, func(t *testing.T) {
			script, want, _ := strings.Cut(raw, "\n----\n")
			whole := replyBytes(t, script)
			f := func(how string, pieces ...[]byte) {
				t.Helper()
				points++
				got := replay(pieces...)
				if !strings.Contains(want, "reuse ") {
					got = got[:strings.LastIndex(got, "reuse ")]
				}
				if got != want {
					t.Fatalf("%s:\n%swant\n%s", how, got, want)
				}
			}
			f("merged", whole)
			single := make([][]byte, len(whole))
			for i := range whole {
				single[i] = whole[i : i+1]
			}
			f("one byte at a time", single...)
			for i := 1; i < len(whole); i++ {
				if tooMany(whole, i) {
					continue
				}
				f(fmt.Sprintf("cut at byte %d", i), whole[:i], whole[i:])
				points++
				checkTruncated(t, whole[:i], i, bytes.HasSuffix([]byte(want), []byte("reuse yes\n")))
			}
			list := records(whole)
			for at := range list {
				if len(list) > 50 && at > 1 && at < len(list)-2 {
					continue
				}
				for _, padding := range []int{1, 7, 8, 255} {
					f(fmt.Sprintf("record %d padded by %d", at, padding), rebuild(whole, list, at, -1, padding))
				}
				for i := 1; i < len(list[at].content); i++ {
					if list[at].typ != typeEnd && !tooMany(list[at].content, i) {
						f(fmt.Sprintf("record %d made two at byte %d", at, i), rebuild(whole, list, at, i, 0))
					}
				}
			}
			if !strings.Contains(script, "many") { // neighbours of one stream in one record
				f("joined", join(whole, list))
			}
		})
	}
	t.Logf("%d conversations, %d ways to cut and to pad them", len(all), points)
}

// tooMany leaves out most cuts of the few long conversations.
func tooMany(b []byte, i int) bool {
	return len(b) > 2<<10 && i > 30 && i < len(b)-30 && i%9973 != 0
}

// checkTruncated replays a conversation that ends after its first i bytes: nothing of
// it may seem whole, or leave a connection for others.
func checkTruncated(t *testing.T, part []byte, i int, clean bool) {
	t.Helper()
	got := replay(bytes.Clone(part))
	// What follows END_REQUEST belongs to no reply: without it the reply is whole.
	if strings.Contains(got, "\nbody ") && !ended(part) || clean && strings.Contains(got, "reuse yes") {
		t.Fatalf("truncated to %d bytes:\n%s", i, got)
	}
}

// ended reports whether END_REQUEST is in part.
func ended(part []byte) bool {
	for _, r := range records(part) {
		if r.typ == typeEnd {
			return true
		}
	}
	return false
}

type record struct {
	typ     byte
	content []byte
	padding int
	end     int // offset behind it
}

// records takes b apart as far as it is well-formed.
func records(b []byte) (list []record) {
	for at := 0; len(b)-at >= headerLen; {
		h, err := parseHeader(b[at:])
		end := at + headerLen + h.content + h.padding
		if err != nil || end > len(b) {
			break
		}
		list = append(list, record{h.typ, b[at+headerLen : at+headerLen+h.content], h.padding, end})
		at = end
	}
	return list
}

// rebuild encodes list and what follows it in whole. The record at gets more padding
// or, with cut above 0, becomes two.
func rebuild(whole []byte, list []record, at, cut, padding int) []byte {
	var out []byte
	for i, r := range list {
		content := string(r.content)
		if i == at && cut > 0 {
			out = appendRecord(out, r.typ, content[:cut], 0)
			content = content[cut:]
		}
		if i == at && padding > 0 {
			out = appendRecord(out, r.typ, content, padding)
		} else {
			out = appendRecord(out, r.typ, content, r.padding)
		}
	}
	return append(out, whole[list[len(list)-1].end:]...)
}

// join makes one record of STDOUT or STDERR records behind each other.
func join(whole []byte, list []record) []byte {
	var out []byte
	for i := 0; i < len(list); {
		r := list[i]
		content := bytes.Clone(r.content)
		for i++; i < len(list) && list[i].typ == r.typ && r.typ != typeEnd && len(content) > 0 && len(list[i].content) > 0 &&
			len(content)+len(list[i].content) <= maxContent; i++ {
			content = append(content, list[i].content...)
		}
		out = appendRecord(out, r.typ, string(content), 0)
	}
	if len(list) == 0 {
		return whole
	}
	return append(out, whole[list[len(list)-1].end:]...)
}

func replies(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob("testdata/replies/*.txt")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d conversations, %v", len(files), err)
	}
	m := map[string]string{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m[strings.TrimSuffix(filepath.Base(file), ".txt")] = string(raw)
	}
	return m
}

// FuzzRecords feeds arbitrary replies, whole and in two parts: no panic, no
// connection kept that is not clean, one outcome.
func FuzzRecords(f *testing.F) {
	for _, raw := range replies(f) {
		script, _, _ := strings.Cut(raw, "\n----\n")
		f.Add(replyBytes(f, script), 9)
	}
	f.Fuzz(func(t *testing.T, p []byte, at int) {
		if at < 0 || at > len(p) {
			at = len(p) / 2
		}
		whole, parts := replay(p), replay(bytes.Clone(p[:at]), bytes.Clone(p[at:]))
		cut := func(s string) string { return s[:strings.LastIndex(s, "reuse ")] }
		if strings.Contains(whole, "pool is wrong") || cut(whole) != cut(parts) {
			t.Errorf("whole:\n%sparts:\n%s", whole, parts)
		}
	})
}
