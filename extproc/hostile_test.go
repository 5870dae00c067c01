package extproc

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"httpjet/exchange"
)

// replies sends one reply after another from an upstream and checks what becomes of
// each: "502", "cut" for a body that ends in an error, or the body. kept says if the
// connection may carry another call. The next call has its own answer in any case.
func replies(t *testing.T, method, want string, kept int, list ...string) {
	t.Helper()
	for _, reply := range list {
		u := newUpstream(t, func(u *upstream, c *upConn) {
			for h := u.head(c); h != ""; h = u.head(c) {
				if strings.Contains(h, " /next ") {
					io.WriteString(c, ok)
				} else {
					io.WriteString(c, reply)
				}
			}
		})
		p := client(t, target(u.addr))
		c := get("/")
		c.Method = method
		got := ""
		r, err := p.Do(bg, c)
		if err != nil {
			got = fmt.Sprint(exchange.StatusOf(err))
			if exchange.ReasonOf(err) != "upstream_transport" {
				t.Errorf("%q: %v", reply, err)
			}
		} else {
			b, err := io.ReadAll(r.Body)
			if got = string(b); err != nil {
				got = "cut"
			}
			r.Close()
		}
		if s := p.Stats(); got != want || s.Idle != kept || s.Busy != 0 {
			t.Errorf("%s, %q: %q (%v) and %+v, want %q and %d idle", method, reply, got, err, s, want, kept)
		}
		r, err = p.Do(bg, get("/next"))
		if got := body(t, r, err); got != "ok" {
			t.Errorf("after %q the next call has %q", reply, got)
		}
	}
}

// status is a good reply but for these fields; the chunked body is good too.
func status(fields string) string {
	return "HTTP/1.1 200 OK\r\n" + fields + "\r\n\r\n2\r\nab\r\n0\r\n\r\n"
}

// A reply has one framing, as a request has.
func TestG01RepliesFramedTwice(t *testing.T) {
	const te = "Transfer-Encoding: chunked"
	for _, bad := range []string{"xchunked", "chunked, chunked", "chunked, identity", "identity", "gzip", "gzip, chunked", "chunked;q=1", `"chunked"`, ",chunked",
		"chunked,", "", "chunked\x0b", "\xa0chunked", "chunked\x00", "chunked\r"} {
		replies(t, "GET", "502", 0, status("Transfer-Encoding: "+bad), status("Content-Length: 2\r\nTransfer-Encoding: "+bad), status(te+"\r\nTransfer-Encoding: "+bad))
	}
	for _, bad := range []string{"Transfer-Encoding : chunked", " Transfer-Encoding: chunked", "Transfer-Encoding:\r\n chunked", "X: y\nTransfer-Encoding: chunked",
		"X: y\rTransfer-Encoding: chunked", "\x00Transfer-Encoding: chunked", "Transfer-Encoding\x00: chunked", te + "\r\n" + te, te + "\r\nContent-Length : 2"} {
		replies(t, "GET", "502", 0, status(bad))
	}
	replies(t, "GET", "502", 0, "HTTP/1.0 200 OK\r\n"+te+"\r\n\r\n0\r\n\r\n", "HTTP/1.0 200 OK\r\n"+te+"\r\nContent-Length: 2\r\n\r\nab",
		"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n"+te+"\r\n\r\n0\r\n\r\n")
	// R-UP-7: the length goes, and the connection with it.
	replies(t, "GET", "ab", 0, status(te+"\r\nContent-Length: 2"), status("Content-Length: 2\r\n"+te), status("Content-Length: 99\r\nContent-Length: x\r\n"+te),
		status("Content-Length:\r\n"+te))
	replies(t, "GET", "ab", 1, status(te), status("TRANSFER-encoding:\t CHUNKED \t"))
}

func TestG02StatusLines(t *testing.T) {
	const rest = "\r\nContent-Length: 2\r\n\r\nab"
	for _, line := range []string{"HTTP/1.1 200OK", "HTTP/1.1  200 OK", "HTTP/1.1 2000 OK", "HTTP/1.1 20 OK", "HTTP/1.1 2x0 OK", "HTTP/1.1 +20 OK", "HTTP/1.1 -20 OK",
		"HTTP/1.1 000 OK", "HTTP/1.1 099 OK", "HTTP/1.1 600 OK", "HTTP/1.1 999 OK", " HTTP/1.1 200 OK", "HTTP/1.1\t200 OK", "HTTP/1.1 200\tOK", "HTTP/1.1 200 O\x00K",
		"HTTP/1.1 200 O\rK", "HTTP/1.1 200 OK\r", "HTTP/1.10 200 OK", "HTTP/01.1 200 OK", "HTTP/1 200 OK", "HTTP/1. 200 OK", "HTTP/2 200 OK", "HTTP/2.0 200 OK",
		"HTTP/0.9 200 OK", "HTTP/1.2 200 OK", "http/1.1 200 OK", "XTTP/1.1 200 OK", "HTTP/1.1", "200 OK", "", "\x00HTTP/1.1 200 OK", "HTTP/1.1 \xd9\xa2\xd9\xa0\xd9\xa0 OK"} {
		replies(t, "GET", "502", 0, line+rest)
	}
	replies(t, "GET", "ab", 1, "HTTP/1.1 200"+rest, "HTTP/1.1 200 "+rest, "HTTP/1.1 299 \xff \t words"+rest)
	for c := range 256 {
		if b := string([]byte{byte(c)}); c < ' ' && c != '\t' || c == 0x7f {
			replies(t, "GET", "502", 0, "HTTP/1.1 200 O"+b+"K"+rest, "HTTP/1.1 200 OK\r\nX"+b+": y"+rest, "HTTP/1.1 200 OK\r\nX: y"+b+"z"+rest, b+"HTTP/1.1 200 OK"+rest)
		}
	}
	for _, fields := range []string{"X: a\r\n b", "X : y", "X\t: y", " X: y", ": y", "no colon", "X(: y", "X\xff: y"} {
		replies(t, "GET", "502", 0, "HTTP/1.1 200 OK\r\n"+fields+rest)
	}
	replies(t, "GET", "502", 0, "HTTP/1.1 200 OK\nContent-Length: 2\n\nab", "HTTP/1.1 200 OK\r\nContent-Length: 2\n\r\nab", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\nab",
		"HTTP/1.1 200 OK\rContent-Length: 2\r\rab")
}

func TestG03G06ReplyChunks(t *testing.T) {
	const te = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, size := range []string{"0x2", "+2", "-2", "0_2", "2 ", " 2", "2 ;", "\t2", "", "g", "2g", "2,", "2\r", "00000000000000002", "8000000000000000", "ffffffffffffffff",
		"2\x00", "2;a\rb", "2;\x00", "2\n"} {
		replies(t, "GET", "cut", 0, te+size+"\r\nab\r\n0\r\n\r\n")
	}
	replies(t, "GET", "cut", 0, te+"2\nab\r\n0\r\n\r\n", te+"2\r\nab\n0\r\n\r\n", te+"2\r\nab0\r\n\r\n", te+"2\r\nabX\r\n0\r\n\r\n", te+"1\r\nab\r\n0\r\n\r\n",
		te+"2\r\nab\r\n0\n\r\n", te+"2\r\nab\r\n0\r\nfoo\r\n\r\n", te+"2\r\nab\r\n0\r\nA : b\r\n\r\n", te+"2\r\nab\r\n0\r\nA: b\n\r\n", te+"2\r\nab\r\n0\r\nA: \x00\r\n\r\n",
		te+"2\r\nab\r\n0\r\nA: b\r\n c\r\n\r\n", te+"2;"+strings.Repeat("x", 9000)+"\r\nab\r\n0\r\n\r\n", te+"2\r\nab\r\n0\r\n"+strings.Repeat("A: b\r\n", 101)+"\r\n")
	replies(t, "GET", "ab", 1, te+"2\r\nab\r\n0\r\n\r\n", te+"0002;x=\"y;z\"\r\nab\r\n000\r\nA: b\r\n\r\n", te+"1\r\na\r\n1\r\nb\r\n0\r\n\r\n")
}

func TestG04G05ReplyLengths(t *testing.T) {
	for _, n := range []string{"", " ", "+2", "-2", "0x2", "2 2", "2,2", "2, 2", "2,", "2;", "2.0", "2\x00", "\"2\"", "9223372036854775808", "18446744073709551616",
		"00000000000000000002"} {
		replies(t, "GET", "502", 0, "HTTP/1.1 200 OK\r\nContent-Length: "+n+"\r\n\r\nab", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: "+n+"\r\n\r\nab")
		// A length is looked at where no body comes, too.
		replies(t, "HEAD", "502", 0, "HTTP/1.1 200 OK\r\nContent-Length: "+n+"\r\n\r\n")
		replies(t, "GET", "502", 0, "HTTP/1.1 304 Not Modified\r\nContent-Length: "+n+"\r\n\r\n", "HTTP/1.1 204 No Content\r\nContent-Length: "+n+"\r\n\r\n")
	}
	replies(t, "GET", "502", 0, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\ncontent-length: 3\r\n\r\nabc",
		"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nab", "HTTP/1.1 200 OK\r\nContent-Length\r\n\r\nab")
	replies(t, "GET", "ab", 1, "HTTP/1.1 200 OK\r\nContent-Length: 002 \t\r\n\r\nab")
}

// Bodies where there are none, and responses that nobody asked for, never become
// the answer to the next request.
func TestG15BodiesThatMayNotBe(t *testing.T) {
	const body = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
	for _, head := range []string{"HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 Not Modified\r\n\r\n", "HTTP/1.1 304 Not Modified\r\nContent-Length: 45\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 204 No Content\r\nContent-Length: 45\r\n\r\n", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"} {
		replies(t, "GET", "", 0, head+body, head+"\r\n", head+"0\r\n\r\n")
	}
	for _, head := range []string{"HTTP/1.1 200 OK\r\nContent-Length: 45\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"} {
		replies(t, "HEAD", "", 0, head+body, head+"0\r\n\r\n")
	}
	replies(t, "GET", "ok", 0, ok+body, ok+"\r\n", ok+"x")
	// Interim heads have no body either.
	for _, interim := range []string{"HTTP/1.1 100 Continue\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 103 Early Hints\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 102 Processing\r\n\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", "HTTP/1.1 100 Continue\r\nX : y\r\n\r\n",
		"HTTP/1.1 100 Continue\r\nContent-Length: 1\r\nTransfer-Encoding: gzip\r\n\r\n"} {
		replies(t, "GET", "502", 0, interim+ok)
	}
	replies(t, "GET", "ok", 1, "HTTP/1.1 100 Continue\r\n\r\n"+ok, "HTTP/1.1 199 Own\r\nX: y\r\n\r\n"+ok)
}

// Half a head that cannot become a good one is answered at once, not when the time
// for the head is over (R-TMO-2).
func TestMalformedHalfHeadIs502(t *testing.T) {
	for _, half := range []string{"garbage", "SSH-2.0-x\r\n", "HTTP/1.1 200 OK\r\nX : y\r\n", "HTTP/1.1 200 OK\r\nX: \x00", "HTTP/1.1 2000", "HTTP/1.1 200 OK\n", "<html>"} {
		u := newUpstream(t, func(u *upstream, c *upConn) {
			u.head(c)
			io.WriteString(c, half)
			c.br.ReadByte() // silent
		})
		r, err := client(t, target(u.addr)).Do(bg, get("/"))
		fails(t, r, err, 502, "upstream_transport")
	}
}
