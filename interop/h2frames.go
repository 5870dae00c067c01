package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

//go:embed assets/h2-frames.py
var h2FramesPy string

// frameGroups are the groups of cases of the script.
var frameGroups = []string{"lengths", "streams", "settings", "windows", "padding", "priorities", "heads"}

// handMadeFrames has a client in Python, on the library h2, break HTTP/2 in every way
// of which RFC 9113 says what has to come of it. Somebody else's connection goes on
// beside it, and what was ended stands in the metrics by its code.
func handMadeFrames(r *run) error {
	b, err := startBackend()
	if err != nil {
		return err
	}
	defer b.stop()
	deaf, err := startDeaf()
	if err != nil {
		return err
	}
	defer deaf.stop()
	vhost := strings.NewReplacer(
		"</extProcessorList>", "<extProcessor><type>proxy</type><name>deaf</name><address>"+deaf.Addr().String()+"</address><maxConns>200</maxConns></extProcessor></extProcessorList>",
		"</contextList>", "<context><type>proxy</type><uri>/deaf/</uri><handler>deaf</handler></context></contextList>",
	).Replace(b.vhost())
	j, err := r.serve(tree{name: "frames", secure: true, vhost: vhost, files: map[string]string{
		"htdocs/small.txt": strings.Repeat("walking house ", 73) + "\n",
		"h2-frames.py":     h2FramesPy,
	}})
	if err != nil {
		return err
	}
	defer r.down(j)
	for _, group := range frameGroups {
		r.check(group, func() (string, error) { return r.frames(j, group) })
	}
	return nil
}

// frames runs a group and compares what it saw with what httpjet has counted.
func (r *run) frames(j *jet, group string) (string, error) {
	before, err := j.endedH2()
	if err != nil {
		return "", err
	}
	// Debian's package is for Debian's Python, which need not be the first one in the path.
	cmd := exec.CommandContext(r.ctx, "/usr/bin/python3", filepath.Join(j.root, "h2-frames.py"), group, j.https, filepath.Join(j.root, "conf/cert/cert.pem"))
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.Output()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("%v: %s", err, e.Stderr)
	}
	if err != nil {
		return "", err
	}
	var said struct {
		Cases  int
		GoAway map[string]int
	}
	if err := json.Unmarshal(out, &said); err != nil {
		return "", fmt.Errorf("%v in %q", err, out)
	}
	after, err := j.endedH2()
	if err != nil {
		return "", err
	}
	ended := 0
	for code, n := range said.GoAway {
		before[code] += n
		ended += n
	}
	if !maps.Equal(before, after) {
		return "", fmt.Errorf("counted by httpjet: %v, by the client: %v", after, before)
	}
	return fmt.Sprintf("%d cases, %d of them ended by GOAWAY and counted; another connection was answered behind each", said.Cases, ended), nil
}

// endedH2 is how many connections were ended for what the client did, by code; those of
// which there are none are left out.
func (j *jet) endedH2() (map[string]int, error) {
	resp, err := http.Get("http://" + j.metrics + "/metrics")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	ended := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^httpjet_http2_connections_ended_total\{code="(\w+)"\} (\d+)$`).FindAllSubmatch(text, -1) {
		if n, err := strconv.Atoi(string(m[2])); err != nil {
			return nil, err
		} else if n > 0 {
			ended[string(m[1])] = n
		}
	}
	return ended, nil
}

// deaf is an upstream that accepts and never reads.
type deaf struct {
	net.Listener
	done sync.WaitGroup
}

func startDeaf() (*deaf, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &deaf{Listener: l}
	d.done.Go(d.accept)
	return d, nil
}

// accept keeps what it accepts until the listener is closed.
func (d *deaf) accept() {
	for {
		c, err := d.Accept()
		if err != nil {
			return
		}
		defer c.Close()
	}
}

func (d *deaf) stop() {
	d.Close()
	d.done.Wait()
}
