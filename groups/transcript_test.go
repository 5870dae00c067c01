package groups

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"httpjet/casefile"
	"httpjet/exchange"
	"httpjet/extproc"
)

// TestTranscripts runs the sessions in testdata. Their commands:
//
//	group [policy] [key=value...]  a new group; keys: peers, weights, max, retry,
//	                               breaker (threshold,open,half,failOn...), health
//	                               (rise,fall), drained, rate (per second,burst), slow
//	                               (duration), min (percent)
//	reload [policy] [key=value...] the group with other settings: verdicts and
//	                               seats stay; so does the state unless weights or policy change
//	reserve NAME [client=IP] [cookie=VALUE]
//	again NAME                     the same exchange, another peer
//	repeat NAME [same]             the same exchange, made again
//	answered NAME STATUS
//	release NAME [fault]
//	picks N [client=IP] [cookie=VALUE]   reserves and releases N times
//	shares N                       the same, and tells how many each peer had
//	held N                         reserves N times and keeps them
//	after DURATION
//	probe PEER ok|bad
//	drain PEER, undrain PEER
//	state
//	counts                         what was counted of each peer, but for zeros
func TestTranscripts(t *testing.T) {
	casefile.Run(t, "testdata/*.txt", func(t *testing.T) func(string) string {
		s := &session{t: t, now: time.Unix(1_800_000_000, 0), held: map[string]*held{}}
		return func(input string) string {
			var out []string
			for line := range strings.Lines(input) {
				if text := s.run(strings.Fields(line)); text != "" {
					out = append(out, text)
				}
			}
			return strings.Join(out, "\n")
		}
	})
}

type session struct {
	t        *testing.T
	now      time.Time
	g        *Group
	words    string // policy and weights of the state
	verdicts []*Verdict
	seats    []*Seat
	held     map[string]*held
}

type held struct {
	choice Choice
	res    Reservation
}

func (s *session) run(w []string) string {
	var h *held
	if len(w) > 1 {
		h = s.held[w[1]]
	}
	switch w[0] {
	case "group":
		s.verdicts, s.seats, s.words = nil, nil, ""
		s.build(w[1:])
	case "reload":
		s.build(w[1:])
	case "reserve":
		h = &held{choice: s.choice(w[2:])}
		s.held[w[1]] = h
		return s.reserve(h)
	case "again":
		return s.reserve(h)
	case "repeat":
		return s.reserved(h, func(c *Choice) (Reservation, error) { return s.g.Repeat(c, len(w) > 2) })
	case "answered":
		h.res.Answered(s.number(w[2]))
	case "release":
		var err error
		if len(w) > 2 {
			err = fault(s.t, w[2])
		}
		h.res.Release(err)
	case "picks", "held":
		return s.picks(s.number(w[1]), s.choice(w[2:]), w[0] == "held")
	case "shares":
		counts := make([]int, s.g.Len())
		for peer := range strings.FieldsSeq(s.picks(s.number(w[1]), Choice{}, false)) {
			if peer != "-" {
				counts[s.number(peer)]++
			}
		}
		return strings.Trim(fmt.Sprint(counts), "[]")
	case "after":
		d, err := time.ParseDuration(w[1])
		if err != nil {
			s.t.Fatal(err)
		}
		s.now = s.now.Add(d)
	case "probe":
		if from, to := s.g.Report(s.number(w[1]), w[2] == "ok"); from != to {
			return fmt.Sprintf("peer %s: %v, was %v", w[1], to, from)
		}
	case "drain", "undrain":
		s.g.Drain(s.number(w[1]), w[0] == "drain")
	case "state":
		return s.state()
	case "counts":
		return s.counts()
	default:
		s.t.Fatalf("command %s is unknown", w[0])
	}
	return ""
}

func (s *session) reserve(h *held) string { return s.reserved(h, s.g.Reserve) }

func (s *session) reserved(h *held, reserve func(*Choice) (Reservation, error)) string {
	r, err := reserve(&h.choice)
	if err != nil {
		e := err.(*exchange.Error)
		return fmt.Sprintf("%d %s, %s: %s", e.Status, e.Reason, e.Fields[0].Name, e.Fields[0].Value)
	}
	h.res = r
	return fmt.Sprintf("peer %d (active %d)", r.peer, s.g.state.peers[r.peer].active)
}

func (s *session) picks(n int, c Choice, keep bool) string {
	var out []string
	for range n {
		mine := c
		r, err := s.g.Reserve(&mine)
		if err != nil {
			out = append(out, "-")
			continue
		}
		out = append(out, strconv.Itoa(r.peer))
		if !keep {
			r.Answered(200)
			r.Release(nil)
		}
	}
	return strings.Join(out, " ")
}

func (s *session) state() string {
	var out []string
	for i, p := range s.g.Snapshot() {
		line := fmt.Sprintf("peer %d: active %d, dial %s", i, p.Active, p.Dial)
		if s.g.state.breaker.Threshold > 0 {
			line += ", response " + p.Response
		}
		if p.Cold {
			line += ", cold"
		} else if !p.Healthy {
			line += ", down"
		}
		if p.Draining {
			line += ", draining"
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

func (s *session) counts() string {
	var out []string
	for i, p := range s.g.Snapshot() {
		var line strings.Builder
		line.WriteString(fmt.Sprintf("peer %d: picks %d", i, p.Picks))
		if p.Repeats > 0 {
			line.WriteString(fmt.Sprintf(", repeats %d", p.Repeats))
		}
		if p.RateLimited > 0 {
			line.WriteString(fmt.Sprintf(", rate limited %d", p.RateLimited))
		}
		for r, n := range p.Results {
			if n > 0 {
				line.WriteString(fmt.Sprintf(", %v %d", Result(r), n))
			}
		}
		out = append(out, line.String())
	}
	moves, none := s.g.Totals()
	return strings.Join(append(out, fmt.Sprintf("failovers %d, none %d", moves, none)), "\n")
}

func (s *session) choice(words []string) (c Choice) {
	for _, w := range words {
		switch key, v, _ := strings.Cut(w, "="); key {
		case "client":
			c.Hash = HashAddr(netip.MustParseAddr(v))
		case "cookie":
			c.Hash, c.Token = HashString(v), v
			if n, ok := strings.CutPrefix(v, "token:"); ok {
				c.Token = s.g.peers[s.number(n)].token
			}
		default:
			s.t.Fatalf("%s is unknown", w)
		}
	}
	return c
}

func (s *session) build(words []string) {
	o := Options{Scope: "server", Name: "app", Now: func() time.Time { return s.now }, RetryTimeout: 10 * time.Second, Key: []byte("k")}
	n, weights, br, health := 3, []int(nil), Breaker{}, Health{}
	drained := map[int]bool{}
	var identity strings.Builder
	for _, w := range words {
		key, v, ok := strings.Cut(w, "=")
		list := strings.Split(v, ",")
		if !ok || key == "weights" || key == "breaker" {
			identity.WriteString(w + " ")
		}
		switch {
		case !ok:
			o.Policy = policies[w]
		case key == "peers":
			n = s.number(v)
		case key == "weights":
			for _, x := range list {
				weights = append(weights, s.number(x))
			}
		case key == "max":
			o.MaxInFlight = s.number(v)
		case key == "retry":
			o.RetryTimeout = s.duration(v)
		case key == "breaker":
			br = Breaker{Threshold: s.number(list[0]), Open: s.duration(list[1]), HalfOpen: s.number(list[2]), FailOn: failOn(list[3:])}
		case key == "health":
			health = Health{Rise: s.number(list[0]), Fall: s.number(list[1])}
		case key == "rate":
			o.Rate = Rate{PerSecond: s.number(list[0]), Burst: s.number(list[1])}
		case key == "slow":
			o.SlowStart = s.duration(v)
		case key == "min":
			o.MinHealthy = s.number(v)
		case key == "drained":
			for _, x := range list {
				drained[s.number(x)] = true
			}
		default:
			s.t.Fatalf("%s is unknown", w)
		}
	}
	if s.g != nil && s.words == identity.String() && len(s.verdicts) == n {
		o.State = s.g.state
	} else {
		o.State = NewState(n, weights, br)
	}
	s.words = identity.String()
	for i := range n {
		if len(s.verdicts) <= i {
			s.verdicts, s.seats = append(s.verdicts, NewVerdict(health, o.Now)), append(s.seats, &Seat{})
		}
		o.Peers = append(o.Peers, Peer{ID: "10.0.0." + strconv.Itoa(i+1) + ":80", Verdict: s.verdicts[i], Seat: s.seats[i], Drained: drained[i]})
	}
	s.g = New(o)
}

func failOn(words []string) (f FailOn) {
	f.Transport, f.Timeout = slices.Contains(words, "transport"), slices.Contains(words, "timeout")
	for status := 500; status < 600; status++ {
		if slices.Contains(words, "5xx") || slices.Contains(words, strconv.Itoa(status)) {
			f.AddStatus(status)
		}
	}
	return f
}

var policies = map[string]Policy{"primary-first": PrimaryFirst, "weighted-round-robin": WeightedRoundRobin,
	"weighted-least-active": WeightedLeastActive, "round-robin": RoundRobin, "least-conn": LeastConn,
	"ip-hash": IPHash, "cookie-hash": CookieHash, "sticky": Sticky}

func fault(t *testing.T, word string) error {
	switch word {
	case "dial":
		return &extproc.DialError{Addr: "a:1"}
	case "dial-timeout":
		return &extproc.DialError{Addr: "a:1", Timeout: true}
	case "fcgi-dial":
		return &exchange.Error{Status: 503, Reason: "fcgi_unavailable", Err: &extproc.DialError{Addr: "a:1"}}
	case "aside":
		return ErrSetAside
	case "unused":
		return ErrUndecided
	case "gone":
		return fmt.Errorf("%w: left", exchange.ErrClientGone)
	case "reset":
		return exchange.Fail(502, "upstream_transport", "reset")
	case "cut":
		return exchange.Fail(502, "response_error", "cut")
	case "timeout":
		return exchange.Fail(504, "upstream_timeout", "late")
	case "stalled":
		return exchange.Fail(504, "request_stalled", "stuck")
	case "slow-client":
		return exchange.Fail(408, "request_stalled", "slow")
	case "saturated":
		return exchange.Fail(503, "pool_saturated", "full")
	case "too-large":
		return exchange.Fail(413, "request_body_too_large", "large")
	}
	t.Fatalf("fault %s is unknown", word)
	return nil
}

func (s *session) number(w string) int {
	n, err := strconv.Atoi(w)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *session) duration(w string) time.Duration {
	d, err := time.ParseDuration(w)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}
