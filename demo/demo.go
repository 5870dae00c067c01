// Package demo is the demonstration that is built into the binary: a small tree
// of configuration and files, three backends in the same process, and the normal
// server over both. It is not a second way to serve: after the tree is written
// everything goes through package server as for any other tree.
package demo

import (
	"context"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"httpjet/server"
)

// Options say where the demonstration listens and where it speaks.
type Options struct {
	HTTPAddr string    // address of the plain listener; "" means 127.0.0.1:8080
	Stdout   io.Writer // what to try; nil: nothing is printed
	Stderr   io.Writer // findings and errors of the server; nil: dropped
}

// The prefix "all:" takes the .htaccess file in.
//
//go:embed all:tree
var tree embed.FS

// Run writes the tree to a temporary directory, starts the backends, serves
// until ctx is done, and removes the directory again.
func Run(ctx context.Context, o Options) error {
	if o.HTTPAddr == "" {
		o.HTTPAddr = "127.0.0.1:8080"
	}
	if o.Stdout == nil {
		o.Stdout = io.Discard
	}
	if o.Stderr == nil {
		o.Stderr = io.Discard
	}
	dir, err := os.MkdirTemp("", "httpjet-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	b := &Backends{Dir: dir}
	if err := b.Start(); err != nil {
		return err
	}
	defer b.Stop() // after the server, so no exchange loses its backend
	if err := Write(dir, b); err != nil {
		return err
	}
	return server.Run(ctx, server.Options{
		Root:     dir,
		HTTPAddr: o.HTTPAddr,
		Stderr:   o.Stderr,
		Ready: func(addrs map[string]string) {
			introduce(o.Stdout, dir, "http://"+addrs["Default"])
		},
	})
}

// Write copies the embedded tree to dir with the addresses of b filled in. dir
// exists; files of an earlier tree in it are overwritten.
func Write(dir string, b *Backends) error {
	fill := strings.NewReplacer("{{app}}", b.AppAddr(), "{{ws}}", b.WebSocketAddr())
	return fs.WalkDir(tree, "tree", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(strings.TrimPrefix(name, "tree")))
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		text, err := tree.ReadFile(name)
		if err != nil {
			return err
		}
		if strings.HasSuffix(name, ".xml") {
			text = []byte(fill.Replace(string(text)))
		}
		return os.WriteFile(to, text, 0o644)
	})
}

// An example is one command and what it shows.
type example struct{ shows, command string }

// examples are printed in this order; BASE stands for the server's URL. A test
// runs every one of them and holds it to its promise.
var examples = []example{
	{"the page for a browser: 200, text/html", "curl -i BASE/"},
	{"a part of a file: 206 with its first line, bytes 0-50 of 10200", "curl -i -r 0-50 BASE/files/sample.txt"},
	{"a folder closed by .htaccess: 403", "curl -i BASE/private/notes.txt"},
	{"the proxied application: 200, JSON that names you", "curl -i 'BASE/app/hello?name=you'"},
	{"a form sent to it: 200 and the form sent back", "curl -i -d 'word=jet' BASE/app/echo"},
	{"an upload of unknown length, chunked: 200 and its 8 bytes sent back", "curl -i -H 'Transfer-Encoding: chunked' -d streamed BASE/app/echo"},
	{"100 MiB streamed through: 200 104857600", `curl -s -o /dev/null -w '%{http_code} %{size_download}\n' 'BASE/app/bytes?n=104857600'`},
	{"server-sent events, three of them as they happen", "curl -N 'BASE/app/events?count=3'"},
	{"a WebSocket handshake: 101, then one text frame", "curl -i -N --http1.1 --max-time 5 -H 'Connection: Upgrade' -H 'Upgrade: websocket' -H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: aHR0cGpldCBkZW1vIGtleQ==' 'BASE/ws?once'"},
	{"FastCGI: 200, SCRIPT_FILENAME ends in /cgi/show.fcgi, PATH_TRANSLATED in /some/page", "curl -i 'BASE/cgi/show.fcgi/some/page?x=1'"},
	{"a chunked upload to FastCGI: 200, CONTENT_LENGTH=8", "curl -i -H 'Transfer-Encoding: chunked' -d streamed BASE/cgi/show.fcgi"},
	{"an offer of HTTP/2 without TLS (h2c is off): HTTP/1.1 200", "curl -I --http2 BASE/"},
}

// introduce prints where the demonstration is and what to try.
func introduce(w io.Writer, dir, base string) {
	fmt.Fprintf(w, "httpjet demo on %s/ from the tree in %s\n\nOpen it in a browser, or try:\n\n", base, dir)
	for _, e := range examples {
		fmt.Fprintf(w, "# %s\n%s\n\n", e.shows, strings.ReplaceAll(e.command, "BASE", base))
	}
	fmt.Fprintln(w, "Stop with Ctrl-C.")
}
