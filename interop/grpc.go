package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// conformanceVersion is the pinned version of connectrpc.com/conformance.
const conformanceVersion = "v1.0.7"

// helper as the first argument makes this program what the conformance runner
// takes for a server: one of the suite's own, with httpjet in front of it.
const helper = "helper:between"

// conformanceConfig selects the gRPC cases over HTTP/2, in clear text or over TLS.
const conformanceConfig = `features:
  versions:
    - HTTP_VERSION_2
  protocols:
    - PROTOCOL_GRPC
  codecs:
    - CODEC_PROTO
  supportsTls: %v
  supportsH2c: %v
  supportsTlsClientCerts: false
`

// grpc runs the gRPC conformance suite against its two reference servers, directly
// and with httpjet in between: what passes without must pass with it. It takes
// minutes to build, so a ci run leaves it out.
func grpc(r *run) error {
	if r.mode == "ci" {
		return nil
	}
	bin := filepath.Join(r.dir, "gobin")
	for _, name := range []string{"connectconformance", "grpcserver", "referenceserver"} {
		cmd := exec.CommandContext(r.ctx, "go", "install", "connectrpc.com/conformance/cmd/"+name+"@"+conformanceVersion)
		cmd.Env, cmd.Dir = append(os.Environ(), "GOBIN="+bin, "GOFLAGS="), r.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("go install %s: %v\n%s", name, err, tail(out))
		}
	}
	r.programs = append(r.programs, [2]string{"connectconformance", conformanceVersion})
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for _, c := range []struct {
		server, over string
	}{{"grpcserver", "h2c"}, {"referenceserver", "h2c"}, {"referenceserver", "tls"}} {
		r.check("conformance-"+c.server+"-"+c.over, func() (string, error) {
			config := filepath.Join(r.dir, "conformance-"+c.over+".yaml")
			if err := os.WriteFile(config, fmt.Appendf(nil, conformanceConfig, c.over == "tls", c.over != "tls"), 0o644); err != nil {
				return "", err
			}
			direct, err := r.conformance(bin, config, filepath.Join(bin, c.server))
			if err != nil {
				return "", err
			}
			through, err := r.conformance(bin, config, self, helper, r.bin, filepath.Join(bin, c.server), r.dir, c.over)
			if err != nil {
				return "", err
			}
			return through.against(direct)
		})
	}
	return nil
}

// verdicts is the outcome of one run of the suite.
type verdicts struct {
	total  int
	failed []string
	out    string
}

// against compares a run with httpjet in between with one without.
func (v verdicts) against(direct verdicts) (string, error) {
	var lost []string
	for _, name := range v.failed {
		if !slices.Contains(direct.failed, name) {
			lost = append(lost, name)
		}
	}
	if len(lost) > 0 || v.total != direct.total {
		return "", fmt.Errorf("%d cases, %d without httpjet; %d fail with it only: %s\n%s", v.total, direct.total, len(lost), strings.Join(lost, ", "), v.out)
	}
	return fmt.Sprintf("%d of %d cases pass, %d without httpjet", v.total-len(v.failed), v.total, direct.total-len(direct.failed)), nil
}

// conformance runs the suite against a server.
func (r *run) conformance(bin, config string, server ...string) (verdicts, error) {
	args := append([]string{"--mode", "server", "--conf", config, "--"}, server...)
	cmd := exec.CommandContext(r.ctx, filepath.Join(bin, "connectconformance"), args...)
	cmd.WaitDelay = 30 * time.Second
	out, err := cmd.CombinedOutput()
	text := string(out)
	m := regexp.MustCompile(`Total cases: (\d+)\n(\d+) passed, (\d+) failed`).FindStringSubmatch(text)
	if m == nil {
		return verdicts{}, fmt.Errorf("connectconformance: %v\n%s", err, tail(out))
	}
	v := verdicts{out: string(tail(out))}
	v.total, _ = strconv.Atoi(m[1])
	for _, m := range regexp.MustCompile(`(?m)^FAILED: (.+?):?$`).FindAllStringSubmatch(text, -1) {
		v.failed = append(v.failed, m[1])
	}
	if n, _ := strconv.Atoi(m[3]); n != len(v.failed) || v.total == 0 {
		return v, fmt.Errorf("connectconformance counts %s failures of %s, and names %d\n%s", m[3], m[1], len(v.failed), tail(out))
	}
	return v, nil
}

// between is the helper. Its arguments are the httpjet to run, the server to put
// it in front of, a directory, and "tls" for TLS on both sides. It speaks the runner's protocol: a request on
// standard input, which the server gets, and an answer that names the port, which
// becomes httpjet's. It runs until it is told to end.
func between(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp(args[2], "between-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	server := exec.CommandContext(ctx, args[1])
	server.Cancel = func() error { return server.Process.Signal(syscall.SIGTERM) }
	server.WaitDelay = 10 * time.Second
	server.Stdin, server.Stderr = os.Stdin, os.Stderr
	out, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	defer func() {
		stop()
		<-ended
	}()
	answer, err := readMessage(out)
	go func() { // Wait closes the pipe, from which nothing more is read
		server.Wait()
		close(ended)
	}()
	if err != nil {
		return err
	}
	port, cert, err := parseAnswer(answer)
	if err != nil {
		return err
	}
	secure := args[3] == "tls"
	address, tls := fmt.Sprint("h2://127.0.0.1:", port), ""
	if secure {
		address = fmt.Sprint("h2s://127.0.0.1:", port)
		tls = "<upstreamTLS><caFile>conf/cert/server.pem</caFile><serverName>localhost</serverName></upstreamTLS>"
	}
	r := &run{ctx: ctx, dir: dir, bin: args[0]}
	j, err := r.serve(tree{name: "grpc", h2c: true, secure: secure, files: map[string]string{"conf/cert/server.pem": string(cert)},
		vhost: `
  <docRoot>$VH_ROOT/htdocs</docRoot>
  <extProcessorList>
    <extProcessor><type>proxy</type><name>grpc</name><address>` + address + `</address><maxConns>1000</maxConns>` + tls + `</extProcessor>
  </extProcessorList>
  <contextList>
    <context><type>proxy</type><uri>/</uri><handler>grpc</handler></context>
  </contextList>`})
	if err != nil {
		return err
	}
	defer j.stop()
	at, own := j.http, []byte(nil)
	if secure {
		at = j.https
		if own, err = os.ReadFile(filepath.Join(j.root, "conf/cert/cert.pem")); err != nil {
			return err
		}
	}
	host, ours, _ := strings.Cut(at, ":")
	n, err := strconv.Atoi(ours)
	if err != nil {
		return err
	}
	if err := writeMessage(os.Stdout, host, n, own); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-ended: // the runner has closed its input
		return nil
	case <-j.done:
		return fmt.Errorf("httpjet ended: %v\n%s", j.err, j.out.String())
	}
}

// readMessage reads a message with its length before it.
func readMessage(in io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(in, size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > 1<<20 {
		return nil, fmt.Errorf("a message of %d bytes", n)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(in, b)
	return b, err
}

// parseAnswer reads an answer in protocol buffers: field 2 is the port, a varint;
// field 1 is the host and 3 the certificate, both with their length.
func parseAnswer(b []byte) (port int, cert []byte, err error) {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		v, m := binary.Uvarint(b[max(n, 0):])
		if n <= 0 || m <= 0 {
			break
		}
		b = b[n+m:]
		if tag == 2<<3 {
			port = int(v)
			continue
		}
		v = min(v, uint64(len(b)))
		if tag == 3<<3|2 {
			cert = b[:v]
		}
		b = b[v:]
	}
	if port == 0 {
		return 0, nil, errors.New("the server's answer names no port")
	}
	return port, cert, nil
}

func writeMessage(out io.Writer, host string, port int, cert []byte) error {
	b := append([]byte{0, 0, 0, 0, 1<<3 | 2, byte(len(host))}, host...)
	b = binary.AppendUvarint(append(b, 2<<3), uint64(port))
	if len(cert) > 0 {
		b = append(binary.AppendUvarint(append(b, 3<<3|2), uint64(len(cert))), cert...)
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	_, err := out.Write(b)
	return err
}
