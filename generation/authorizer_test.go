package generation

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"httpjet/xmlconf"
)

// gate is an authorizer: it lets in what has no "deny" in its query, and sets
// variables. It notes what it was asked.
type gate struct {
	path  string // of its socket
	mu    sync.Mutex
	asked []string // role and variables of each request
}

func newGate(t *testing.T) *gate {
	g := &gate{path: filepath.Join(t.TempDir(), "gate.sock")}
	ln, err := net.Listen("unix", g.path)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			running.Go(func() { g.serve(c) })
		}
	})
	t.Cleanup(func() { ln.Close(); running.Wait() })
	return g
}

func (g *gate) serve(c net.Conn) {
	defer c.Close()
	br := bufio.NewReader(c)
	for {
		var heard strings.Builder
		for {
			var h [8]byte
			if _, err := io.ReadFull(br, h[:]); err != nil {
				return
			}
			content := make([]byte, int(binary.BigEndian.Uint16(h[4:]))+int(h[6]))
			io.ReadFull(br, content)
			if h[1] == 1 {
				fmt.Fprintf(&heard, "role=%d ", content[1])
			}
			if h[1] == 4 {
				heard.Write(content)
			}
			if h[1] == 5 && len(content) == 0 {
				break
			}
		}
		g.mu.Lock()
		g.asked = append(g.asked, heard.String())
		g.mu.Unlock()
		reply := "Variable-TEAM: blue\r\nvariable-REMOTE_USER: eve\r\nVariable-HTTP_X: eve\r\nSet-Cookie: dropped\r\n\r\nthrown away"
		switch asked := heard.String(); {
		case strings.Contains(asked, "QUERY_STRINGdeny"):
			reply = "Status: 402 Pay\r\nX-Why: poor\r\nVariable-A: b\r\n\r\ngo away"
		case strings.Contains(asked, "QUERY_STRINGbroken"):
			reply = "no head"
		case strings.Contains(asked, "QUERY_STRINGcut"):
			io.WriteString(c, "\x01\x06\x00\x01\x00\x04\x00\x00A:b\r") // and the end
			return
		}
		out := binary.BigEndian.AppendUint16([]byte{1, 6, 0, 1}, uint16(len(reply)))
		out = append(append(out, 0, 0), reply...)
		c.Write(append(out, 1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
	}
}

// take returns what was asked since the last call.
func (g *gate) take() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	asked := g.asked
	g.asked = nil
	return asked
}

// LSX 7.5, R-SAFE-1: the authorizer of a context is asked before every kind of
// route, once; what it refuses has its answer, and one that cannot be asked opens
// nothing.
func TestAuthorizers(t *testing.T) {
	g := newGate(t)
	p := safetyParts{
		server: `<extProcessorList><extProcessor><type>fcgiauth</type><name>gate</name><address>uds:/` + g.path + `</address></extProcessor></extProcessorList>`,
		vhost: `<extProcessorList>
			<extProcessor><type>fcgiauth</type><name>down</name><address>uds:/` + g.path + `x</address></extProcessor>
			<extProcessor><type>fcgi</type><name>fcgi</name><address>uds:/` + g.path + `y</address></extProcessor>
			<extProcessor><type>proxy</type><name>proxy</name><address>uds:/` + g.path + `z</address></extProcessor>
			</extProcessorList>
			<index><useServer>0</useServer><indexFiles>x.txt</indexFiles></index>
			<rewrite><enable>1</enable><rules>RewriteRule ^/to/ /a/x.txt
			RewriteRule ^/a/p/ http://proxy/secret [P]</rules></rewrite>
			<contextList>
			<context><uri>/a/</uri><authorizer>gate</authorizer></context>
			<context><uri>/a/in/</uri></context>
			<context><type>fcgi</type><uri>/a/f/</uri><handler>fcgi</handler></context>
			<context><type>proxy</type><uri>/a/q/</uri><handler>proxy</handler></context>
			<context><uri>/down/</uri><authorizer>down</authorizer></context>
			<context><uri>/fcgi/</uri><authorizer>fcgi</authorizer></context>
			</contextList>`,
		files: map[string]string{"a/in/x.txt": "text", "down/x.txt": "leak", "fcgi/x.txt": "leak"},
	}
	ask, fs := p.build(t)
	f := func(path string, want int, wantBody string, asked int) {
		t.Helper()
		status, body := ask(path)
		if status != want || wantBody != "" && body != wantBody || strings.Contains(body, "leak") {
			t.Errorf("%s: %d %q, want %d %q", path, status, body, want, wantBody)
		}
		if got := g.take(); len(got) != asked {
			t.Errorf("%s: asked %d times, want %d", path, len(got), asked)
		} else if asked > 0 && (!strings.HasPrefix(got[0], "role=2 ") || strings.Contains(got[0], "PATH_INFO") ||
			strings.Contains(got[0], "SCRIPT_NAME") || strings.Contains(got[0], "CONTENT_LENGTH") || !strings.Contains(got[0], "AUTHORIZER")) {
			t.Errorf("%s: %q", path, got[0])
		}
	}
	f("/a/x.txt", 200, "text", 1)
	f("/a/in/x.txt", 200, "text", 1)
	f("/a/", 200, "text", 1) // an index file is asked about no second time
	f("/to/it", 200, "text", 1)
	f("/a/x.txt;v=1", 404, "", 1)
	for _, path := range []string{"/a/x.txt", "/a/", "/a/in/x.txt", "/a/none", "/a/f/x", "/a/q/x", "/a/p/x", "/to/it", "/a;x/x.txt", "/;x/a/in/x.txt"} {
		f(path+"?deny", 402, "go away", 1)
	}
	f("/a/q/x", 502, "", 1) // asked, let in, and the upstream is not there
	f("/a/x.txt?broken", 502, "", 1)
	f("/a/x.txt?cut", 502, "", 1)
	f("/down/x.txt", 503, "", 0)
	f("/fcgi/x.txt", 503, "", 0) // fcgi is no authorizer
	found := false
	for _, d := range fs.All() {
		found = found || d.Code == "E-CLOSED" && d.Severity == xmlconf.Error && strings.Contains(d.Message, "authorizer fcgi is not declared")
	}
	if !found {
		t.Error(fs.All())
	}
}
