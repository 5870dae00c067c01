package demo

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// promises holds each printed command to what its output must show, in order of
// print.
var promises = [][]string{
	{`^HTTP/1\.1 200`, `(?i)content-type: text/html`, `<title>httpjet demo</title>`},
	{`^HTTP/1\.1 206`, `(?i)content-range: bytes 0-50/10200`, `\n\r?\nLine 0001 of a file that is here to be downloaded\.\n$`},
	{`^HTTP/1\.1 403`},
	{`^HTTP/1\.1 200`, `(?i)content-type: application/json`, `"hello": "you"`, `"x-forwarded-for": "127\.0\.0\.1"`, `"host": "127\.0\.0\.1:\d+"`},
	{`^HTTP/1\.1 200`, `POST, 8 bytes:\nword=jet\n`},
	{`^HTTP/1\.1 200`, `POST, 8 bytes:\nstreamed\n`},
	{`^200 104857600\n$`},
	{`(?s)data: event 1 .*data: event 2 .*data: event 3 `},
	{`^HTTP/1\.1 101`, `(?i)sec-websocket-accept: xU5YIh4U3GFw/6e15nySMHaaaA4=`, `(?s)\r\n\r\n..hello by WebSocket....$`},
	{`^HTTP/1\.1 200`, `SCRIPT_FILENAME=.*/htdocs/cgi/show\.fcgi\n`, `PATH_TRANSLATED=.*/htdocs/some/page\n`, `REQUEST_URI=/cgi/show\.fcgi/some/page\?x=1\n`},
	{`^HTTP/1\.1 200`, `CONTENT_LENGTH=8\n`, `\nstreamed\n`},
	{`^HTTP/1\.1 200`},
}

// TestPrintedCommands starts the demonstration as the command does, reads what
// it prints, and runs every printed command: by a small reader of curl lines in
// Go always, and by curl where it is installed.
func TestPrintedCommands(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	var stderr bytes.Buffer
	done := make(chan error, 1)
	go func() {
		err := Run(ctx, Options{HTTPAddr: "127.0.0.1:0", Stdout: w, Stderr: &stderr})
		w.CloseWithError(err)
		done <- err
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the demo ended with %v; stderr:\n%s", err, &stderr)
		}
	})

	lines := printedCommands(t, r)
	if len(lines) != len(promises) {
		t.Fatalf("%d commands printed, promises for %d", len(lines), len(promises))
	}
	curl, _ := exec.LookPath("curl")
	t.Run("run", func(t *testing.T) {
		for i, line := range lines {
			t.Run(fmt.Sprintf("go_%02d", i+1), func(t *testing.T) {
				t.Parallel()
				hold(t, line, runInGo(t, line), promises[i])
			})
			t.Run(fmt.Sprintf("curl_%02d", i+1), func(t *testing.T) {
				if curl == "" {
					t.Skip("curl is not installed")
				}
				t.Parallel()
				hold(t, line, runCurl(t, curl, line), promises[i])
			})
		}
	})
	// What is printed later (at the stop) goes nowhere, but must not block.
	go io.Copy(io.Discard, r)
}

// printedCommands reads the demonstration's text to its last line. Every
// command stands below a comment that says what it shows.
func printedCommands(t *testing.T, r io.Reader) []string {
	t.Helper()
	var lines []string
	var text strings.Builder
	in := bufio.NewScanner(r)
	for said := false; in.Scan(); {
		text.WriteString(in.Text() + "\n")
		switch {
		case strings.HasPrefix(in.Text(), "# "):
			said = true
		case strings.HasPrefix(in.Text(), "curl "):
			if !said {
				t.Errorf("no promise above %q", in.Text())
			}
			lines, said = append(lines, in.Text()), false
		case strings.HasPrefix(in.Text(), "Stop with"):
			return lines
		}
	}
	t.Fatalf("the demo ended early: %v; it printed\n%s", in.Err(), &text)
	return nil
}

func hold(t *testing.T, line, out string, want []string) {
	t.Helper()
	for _, re := range want {
		if !regexp.MustCompile(re).MatchString(out) {
			t.Errorf("%s\nanswers without %q:\n%.2000q", line, re, out)
		}
	}
}

func runCurl(t *testing.T, curl, line string) string {
	t.Helper()
	if strings.Contains(line, "--http2") {
		v, err := exec.Command(curl, "--version").Output()
		if err != nil || !regexp.MustCompile(`(?m)^Features:.*HTTP2`).Match(v) {
			t.Skip("this curl was built without HTTP/2")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", line)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%s: %v\n%s", line, err, &stderr)
	}
	return string(out)
}

// runInGo does what curl would do with line and returns what it would print.
func runInGo(t *testing.T, line string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", "http://invalid/", nil)
	if err != nil {
		t.Fatal(err)
	}
	head, summary := false, false
	args := splitWords(line)[1:]
	for len(args) > 0 {
		arg, used := args[0], 2
		switch arg {
		case "-i":
			head, used = true, 1
		case "-I":
			req.Method, head, used = "HEAD", true, 1
		case "-N", "-s", "--http1.1":
			used = 1
		case "--http2": // offers h2c as curl does
			req.Header.Set("Connection", "Upgrade, HTTP2-Settings")
			req.Header.Set("Upgrade", "h2c")
			req.Header.Set("HTTP2-Settings", "AAMAAABkAAQCAAAAAAIAAAAA")
			used = 1
		case "-r":
			req.Header.Set("Range", "bytes="+args[1])
		case "-H":
			name, value, _ := strings.Cut(args[1], ": ")
			if name == "Transfer-Encoding" {
				req.TransferEncoding = []string{value}
			} else {
				req.Header.Set(name, value)
			}
		case "-d":
			req.Method, req.Body, req.ContentLength = "POST", io.NopCloser(strings.NewReader(args[1])), int64(len(args[1]))
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		case "-w":
			summary = true
		case "-o", "--max-time":
		default:
			if strings.HasPrefix(arg, "-") {
				t.Fatalf("option %s of %q is not known here", arg, line)
			}
			if req.URL, err = req.URL.Parse(arg); err != nil {
				t.Fatal(err)
			}
			req.Host, used = req.URL.Host, 1
		}
		args = args[used:]
	}
	if req.TransferEncoding != nil {
		req.ContentLength = -1
	}
	resp, err := (&http.Transport{DisableKeepAlives: req.Header.Get("Upgrade") == "", DisableCompression: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if summary {
		n, err := io.Copy(io.Discard, resp.Body)
		if err != nil {
			t.Error(err)
		}
		return fmt.Sprintf("%d %d\n", resp.StatusCode, n)
	}
	var out bytes.Buffer
	if head {
		text, err := httputil.DumpResponse(resp, false)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(text)
	}
	if _, err := io.Copy(&out, resp.Body); err != nil {
		t.Error(err)
	}
	return out.String()
}

// splitWords splits a command at spaces outside of single quotes.
func splitWords(line string) []string {
	var words []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}
