package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"httpjet/internal/peers"
)

// chaosPeer is the name by which this program runs as a peer of the chaos section.
const chaosPeer = "chaos-peer"

// serveChaos is a peer: it answers at an address and writes the id of each POST
// whose body reaches it into a file, before it answers.
func serveChaos(addr, record string) error {
	file, err := os.OpenFile(record, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if n, _ := io.ReadFull(r.Body, make([]byte, 1)); n > 0 {
			fmt.Fprintln(file, r.Header.Get("X-Id"))
		}
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, "well\n")
	})
	return http.ListenAndServe(addr, nil)
}

const chaosVHost = `
  <docRoot>$VH_ROOT/htdocs</docRoot>
  <extProcessorList>
    <extProcessor>
      <type>proxy</type>
      <name>peers</name>
      {{addresses}}
      <initTimeout>1</initTimeout>
      <retryTimeout>1</retryTimeout>
      <loadBalancePolicy>round-robin</loadBalancePolicy>
      <healthCheck><mode>GET</mode><interval>1</interval><timeout>1</timeout><rise>1</rise><fall>2</fall></healthCheck>
      <circuitBreaker><failureThreshold>3</failureThreshold><openDuration>1</openDuration><failOn>transport,timeout</failOn></circuitBreaker>
      <attemptTimeout>500ms</attemptTimeout>
      <retry><retries>3</retries><backoffBase>20ms</backoffBase></retry>
    </extProcessor>
  </extProcessorList>
  <contextList>
    <context><type>proxy</type><uri>/</uri><handler>peers</handler></context>
  </contextList>`

// chaos kills, stalls and restarts the peers of a group under load. There is always
// one that httpjet knows to be well, so no GET may fail; a POST may, but reaches one
// peer at most; and what was counted adds up.
func chaos(r *run) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c := &trouble{r: r, seed: uint64(time.Now().UnixNano())}
	c.rand = rand.New(rand.NewPCG(c.seed, 0))
	var addresses strings.Builder
	for i := range 3 {
		addr, err := peers.FreePort()
		if err != nil {
			return err
		}
		addresses.WriteString("<address>" + addr + "</address>")
		p := &chaosProcess{self: self, addr: addr, record: filepath.Join(r.dir, "chaos-"+strconv.Itoa(i))}
		c.peers = append(c.peers, p)
		if err := p.start(r); err != nil {
			return err
		}
		defer p.kill()
	}
	if c.jet, err = r.serve(tree{name: "chaos", vhost: strings.Replace(chaosVHost, "{{addresses}}", addresses.String(), 1)}); err != nil {
		return err
	}
	defer r.down(c.jet)
	if err := c.jet.ready(r.ctx, func() error { return c.well(0, 1, 2) }); err != nil {
		return err
	}
	c.load(time.Duration(r.pick(10, 60)) * time.Second)
	r.check("no-GET-fails", func() (string, error) {
		return fmt.Sprintf("%d GET, %v; seed %d", c.sent["GET"], &c.deeds, c.seed), c.failedGETs()
	})
	r.check("no-POST-reaches-two-peers", c.posts)
	r.check("counters-add-up", c.sums)
	return nil
}

// A chaosProcess is one peer.
type chaosProcess struct {
	self, addr, record string
	*process
	stalled bool
}

func (p *chaosProcess) start(r *run) (err error) {
	if p.process, err = r.start(p.self, chaosPeer, p.addr, p.record); err != nil {
		return err
	}
	return p.ready(r.ctx, dial("tcp", p.addr))
}

func (p *chaosProcess) kill() {
	p.cmd.Process.Kill()
	<-p.done
}

func (p *chaosProcess) dead() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// trouble is the section while it runs.
type trouble struct {
	r     *run
	jet   *jet
	seed  uint64
	rand  *rand.Rand
	peers []*chaosProcess
	deeds deeds

	mu      sync.Mutex
	sent    map[string]int // by method
	answers map[string]int // by method, status and token
	failed  []string       // GET that did not come to 200
}

// deeds are what was done to the peers.
type deeds struct{ kills, stalls, restarts, wakes int }

func (d *deeds) String() string {
	return fmt.Sprintf("%d killed, %d stalled, %d restarted, %d woken", d.kills, d.stalls, d.restarts, d.wakes)
}

// load sends 200 requests a second, GET and POST in turn, while the peers suffer.
func (c *trouble) load(d time.Duration) {
	c.sent, c.answers = map[string]int{}, map[string]int{}
	client := newClient("http://"+c.jet.http, &http.Transport{MaxIdleConnsPerHost: 200, DisableCompression: true})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { c.torment(stop) })
	began := time.Now()
	for n, end := 0, time.After(d); ; n++ {
		method := [2]string{"GET", "POST"}[n%2]
		c.sent[method]++
		wg.Go(func() { c.ask(client, method, n) })
		select {
		case <-time.After(time.Until(began.Add(time.Duration(n+1) * 5 * time.Millisecond))):
			continue
		case <-end:
		case <-c.r.ctx.Done():
		}
		break
	}
	close(stop)
	wg.Wait()
	client.CloseIdleConnections()
}

func (c *trouble) ask(client *client, method string, n int) {
	var body io.Reader
	if method == "POST" {
		body = strings.NewReader(strings.Repeat("x", 1+n%5000))
	}
	req, err := http.NewRequest(method, client.base+"/"+strconv.Itoa(n), body)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	req.Header.Set("X-Id", strconv.Itoa(n))
	began := time.Now()
	answer := ""
	if resp, err := client.Do(req); err != nil {
		answer = err.Error()
	} else {
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		answer = strings.TrimSpace(fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("X-Httpjet-Proxy-Error")))
		if resp.StatusCode == 200 && (err != nil || string(text) != "well\n") {
			answer = fmt.Sprintf("200 with %q, %v", text, err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[method+" "+answer]++
	if method == "GET" && answer != "200" {
		c.failed = append(c.failed, fmt.Sprintf("GET /%d: %s after %v", n, answer, time.Since(began).Round(time.Millisecond)))
	}
}

func (c *trouble) failedGETs() error {
	if len(c.failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d failed (seed %d), the first: %s", len(c.failed), c.sent["GET"], c.seed, strings.Join(c.failed[:min(5, len(c.failed))], "; "))
}

// torment does something to a peer two or three times a second. Nothing is done to
// a peer while no other one is well in httpjet's eyes.
func (c *trouble) torment(stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(300+c.rand.IntN(300)) * time.Millisecond):
		}
		i := c.rand.IntN(len(c.peers))
		p := c.peers[i]
		switch {
		case p.dead():
			if err := p.start(c.r); err != nil {
				c.r.report("restart", "", err)
				return
			}
			c.deeds.restarts++
		case p.stalled:
			p.cmd.Process.Signal(syscall.SIGCONT)
			p.stalled = false
			c.deeds.wakes++
		case c.others(i) == nil:
			if c.rand.IntN(2) == 0 {
				p.kill()
				c.deeds.kills++
			} else {
				p.cmd.Process.Signal(syscall.SIGSTOP)
				p.stalled = true
				c.deeds.stalls++
			}
		}
	}
}

// others succeeds if a peer other than i runs and httpjet knows it to be well.
func (c *trouble) others(i int) error {
	err := errors.New("no other peer runs")
	for k, p := range c.peers {
		if k != i && !p.dead() && !p.stalled {
			if err = c.well(k); err == nil {
				return nil
			}
		}
	}
	return err
}

// well succeeds if httpjet would give each of these peers a request.
func (c *trouble) well(peers ...int) error {
	m, err := c.jet.scrape()
	if err != nil {
		return err
	}
	for _, p := range peers {
		n := `,peer="` + strconv.Itoa(p) + `"`
		if m.sum("httpjet_proxy_peer_healthy", n) != 1 || m.sum("httpjet_proxy_peer_breaker_state", n) != 0 {
			return fmt.Errorf("peer %d is not well", p)
		}
	}
	return nil
}

// posts checks that no body is in two records, nor twice in one.
func (c *trouble) posts() (string, error) {
	seen := map[string]int{}
	for i, p := range c.peers {
		text, err := os.ReadFile(p.record)
		if err != nil {
			return "", err
		}
		for id := range strings.Lines(string(text)) {
			if first, twice := seen[id]; twice {
				return "", fmt.Errorf("the body of POST /%s reached peer %d and peer %d (seed %d)", strings.TrimSpace(id), first, i, c.seed)
			}
			seen[id] = i
		}
	}
	var answers []string
	for _, a := range slices.Sorted(maps.Keys(c.answers)) {
		if rest, ok := strings.CutPrefix(a, "POST "); ok {
			answers = append(answers, fmt.Sprintf("%d × %s", c.answers[a], rest))
		}
	}
	if n := c.answers["POST 200"]; n > len(seen) {
		return "", fmt.Errorf("%d POST were answered, the peers had %d", n, len(seen))
	}
	return fmt.Sprintf("%d POST, %d reached a peer: %s", c.sent["POST"], len(seen), strings.Join(answers, ", ")), nil
}

// sums checks that the counters agree with each other and with the clients.
func (c *trouble) sums() (detail string, err error) {
	err = c.jet.ready(c.r.ctx, func() error { // counters move after the last byte
		detail, err = c.sum()
		return err
	})
	return detail, err
}

func (c *trouble) sum() (string, error) {
	m, err := c.jet.scrape()
	if err != nil {
		return "", err
	}
	sent := float64(c.sent["GET"] + c.sent["POST"])
	requests, good, errs := m.sum("httpjet_requests_total"), m.sum("httpjet_status_2xx"), m.sum("httpjet_proxy_errors_total")
	if requests != sent || requests != good+errs {
		return "", fmt.Errorf("%v requests, %v of them counted: %v successes and %v errors (seed %d)", sent, requests, good, errs, c.seed)
	}
	for answer, n := range c.answers { // by status and token, as the clients saw them
		_, token, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(answer, "GET "), "POST "), " ")
		if got := m.sum("httpjet_proxy_errors_total", `error="`+token+`"`); token != "" && got < float64(n) {
			return "", fmt.Errorf("clients saw %d × %s, counted were %v", n, answer, got)
		}
	}
	picks, attempts := m.sum("httpjet_proxy_peer_selections_total"), m.sum("httpjet_proxy_peer_attempts_total")
	none, moves, retries := m.sum("httpjet_proxy_no_upstream_total"), m.sum("httpjet_proxy_failover_total"), m.sum("httpjet_proxy_peer_retries_total")
	if picks != attempts || picks != requests-none+moves+retries {
		return "", fmt.Errorf("%v selections, %v attempts ended; %v requests - %v without a peer + %v failovers + %v retries (seed %d)",
			picks, attempts, requests, none, moves, retries, c.seed)
	}
	if active := m.sum("httpjet_proxy_peer_active_requests"); active != 0 {
		return "", fmt.Errorf("%v requests are still counted as active", active)
	}
	return fmt.Sprintf("%v requests = %v successes + %v errors; %v attempts = requests + %v failovers + %v retries - %v without a peer",
		requests, good, errs, attempts, moves, retries, none), nil
}

// series are the lines of a scrape: name and labels, value.
type series map[string]float64

func (j *jet) scrape() (series, error) {
	resp, err := http.Get("http://" + j.metrics + "/metrics")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	m := series{}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil && name != "#" {
			m[name] = v
		}
	}
	return m, nil
}

// sum adds the series of a name that hold all of the labels.
func (m series) sum(name string, labels ...string) (total float64) {
	for s, v := range m {
		n, rest, _ := strings.Cut(s, "{")
		if n == name && !slices.ContainsFunc(labels, func(l string) bool { return !strings.Contains(","+rest, l) }) {
			total += v
		}
	}
	return total
}
