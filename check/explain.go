package check

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"httpjet/budget"
	"httpjet/exchange"
	"httpjet/generation"
	"httpjet/h1"
	"httpjet/metrics"
	"httpjet/xmlconf"
)

// Question is a request that somebody asks about.
type Question struct {
	URL    string           `json:"url"`    // scheme://host[:port]/target; the target is taken as it is written
	Method string           `json:"method"` // "": GET
	Fields []exchange.Field `json:"fields"`
	Client netip.Addr       `json:"client"` // zero: 127.0.0.1
	Proto  string           `json:"proto"`  // h1, h2 or h3; "": h1
}

// Decision is what becomes of a request. Its JSON names are stable.
type Decision struct {
	URL      string `json:"url"`
	Method   string `json:"method"`
	Listener string `json:"listener,omitempty"`
	VHost    string `json:"vhost,omitempty"`
	Route    string `json:"route,omitempty"` // as logs and metrics call it
	Handler  string `json:"handler,omitempty"`
	Scope    string `json:"scope,omitempty"`
	Group    string `json:"group,omitempty"`

	// Status is the answer of this server; 0: the upstream's is passed on, or, without
	// a Group, there is none.
	Status   int    `json:"status"`
	Reason   string `json:"reason,omitempty"` // token of an error
	Message  string `json:"message,omitempty"`
	Location string `json:"location,omitempty"`

	Steps []exchange.Step `json:"steps"`

	target string           // path and query for handlers
	fields []exchange.Field // of the answer
}

// Explain loads the tree below o.Root, decides q as the server would, and writes
// the decision to out as text or JSON. It asks no upstream. It returns the exit
// code.
func Explain(o Options, q Question, out io.Writer) (code int, err error) {
	g, err := load(o, o.Root, &generation.Kept{Metrics: metrics.New(), Bodies: &budget.Bodies{}})
	defer g.Retire()
	if err != nil {
		return Failed, err
	}
	d, err := Decide(g, q)
	if err != nil {
		return Failed, err
	}
	if d.Reason == "no_upstream" && coldGroup(g, d) { // no tree knows what a health check will say
		d.Status, d.Reason, d.Message = 0, "", "once a peer has passed its health check"
	}
	d.Write(out, o.Format == "json")
	return OK, nil
}

// coldGroup reports whether the group of d waits for a health check.
func coldGroup(g *generation.Generation, d *Decision) bool {
	for _, u := range g.Upstreams() {
		if u.Scope == d.Scope && u.Name == d.Group {
			return slices.ContainsFunc(u.Peers, func(p generation.Peer) bool { return p.Cold && !p.Draining })
		}
	}
	return false
}

// Write writes d as JSON or as text.
func (d *Decision) Write(out io.Writer, asJSON bool) {
	if !asJSON {
		d.writeText(out)
		return
	}
	writeJSON(out, d)
}

// firstFatal is the first finding that keeps a tree from being served.
func firstFatal(fs *xmlconf.Findings) error {
	for _, f := range fs.All() {
		if f.Fatal {
			return errors.New(f.String())
		}
	}
	return errors.New("the tree does not load")
}

// Decide asks a generation, running or not, what it does with q. The error is
// about the question.
func Decide(g *generation.Generation, q Question) (*Decision, error) { return decide(g, q, nil) }

// decide is Decide. rules notes the rules that were asked, and whether they matched;
// nil: nobody wants to know.
func decide(g *generation.Generation, q Question, rules map[string]bool) (*Decision, error) {
	u, err := parseQuestion(&q)
	if err != nil {
		return nil, err
	}
	d := &Decision{URL: q.URL, Method: q.Method}
	e := &exchange.Explanation{Rules: rules}
	x := &exchange.Exchange{}
	w := &silence{}
	x.Reset(w)
	x.Explain(e)
	l := d.listener(g, u, x)
	if l == nil {
		d.Steps = e.Steps
		return d, nil
	}
	if l.Secure && !d.handshake(g, &u, l, x) {
		d.Steps = e.Steps
		return d, nil
	}
	err = ask(g, q, u, l, x)
	d.Steps = e.Steps
	d.VHost, d.Route, d.Scope, d.Group = x.Route.VHost, x.Route.Label, x.Route.Scope, x.Route.Group
	if x.Route.Kind != exchange.Unrouted {
		d.Handler = x.Route.Kind.String()
	}
	d.answer(x, err)
	d.target = x.Req.Sent()
	return d, nil
}

// asked is a URL, its target untouched.
type asked struct {
	secure bool
	host   string // as the Host field has it
	named  bool   // it comes from such a field, not from the URL
	name   string // without port
	port   int    // of the URL, or of its scheme
	target string
}

func parseQuestion(q *Question) (asked, error) {
	if q.Method == "" {
		q.Method = "GET"
	}
	if !q.Client.IsValid() {
		q.Client = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	if _, ok := protocols[q.Proto]; !ok {
		return asked{}, fmt.Errorf("protocol %q: use h1, h2 or h3", q.Proto)
	}
	if strings.ContainsAny(q.URL+q.Method, "\r\n\x00") { // would be more lines of the request
		return asked{}, fmt.Errorf("%q %q: a URL and a method are one line", q.Method, q.URL)
	}
	scheme, rest, ok := strings.Cut(q.URL, "://")
	secure := strings.EqualFold(scheme, "https")
	if !ok || !secure && !strings.EqualFold(scheme, "http") {
		return asked{}, fmt.Errorf("%q: write http://host/path or https://host/path", q.URL)
	}
	a := asked{secure: secure, target: "/", port: 80}
	if secure {
		a.port = 443
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest, a.target = rest[:i], rest[i:]
	}
	a.target, _, _ = strings.Cut(a.target, "#") // is never sent
	if !strings.HasPrefix(a.target, "/") {
		a.target = "/" + a.target
	}
	if strings.Contains(rest, "@") {
		return asked{}, errors.New("the URL names a user: clients send that as a field, Authorization")
	}
	u := url.URL{Host: rest}
	a.host, a.name = rest, u.Hostname()
	if p := u.Port(); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil {
			return asked{}, fmt.Errorf("%q: port %q", q.URL, p)
		}
		a.port = int(n)
	}
	if a.host == "" || strings.Contains(a.host, " ") {
		return asked{}, fmt.Errorf("%q: host %q", q.URL, a.host)
	}
	for _, f := range q.Fields {
		if f.Name == "" || strings.ContainsAny(f.Name+f.Value, "\r\n\x00") {
			return asked{}, fmt.Errorf("field %q: write 'Name: value'", f.Name)
		}
		if exchange.EqualName(f.Name, "Host") { // as for curl: the URL then says where to, and for TLS whom
			if a.named {
				return asked{}, errors.New("the field Host is given twice")
			}
			a.host, a.named = f.Value, true
		}
	}
	return a, nil
}

// listener chooses the listener of the URL's port, else the first of its scheme,
// and says which.
func (d *Decision) listener(g *generation.Generation, u asked, x *exchange.Exchange) *generation.Listener {
	var first *generation.Listener
	for i := range g.Listeners {
		l := &g.Listeners[i]
		if l.Secure != u.secure {
			continue
		}
		if strings.HasSuffix(l.Address, ":"+strconv.Itoa(u.port)) {
			x.Note("listener", "%s at %s", l.Name, l.Address)
			d.Listener = l.Name
			return l
		}
		if first == nil {
			first = l
		}
	}
	kind := map[bool]string{false: "plain", true: "secure"}[u.secure]
	if first == nil {
		x.Note("listener", "there is no %s listener: nobody answers", kind)
		for _, why := range g.Degraded {
			x.Detail("%s", why)
		}
		return nil
	}
	x.Note("listener", "%s at %s, the first %s one: none has port %d", first.Name, first.Address, kind, u.port)
	d.Listener = first.Name
	return first
}

var protocols = map[string]string{"": "HTTP/1.1", "h1": "HTTP/1.1", "h2": "HTTP/2.0", "h3": "HTTP/3.0"}

// ask parses the request as the front end does and has the generation decide it.
func ask(g *generation.Generation, q Question, u asked, l *generation.Listener, x *exchange.Exchange) error {
	head := []byte(q.Method + " " + u.target + " HTTP/1.1\r\nHost: " + u.host + "\r\n")
	for _, f := range q.Fields {
		if !exchange.EqualName(f.Name, "Host") {
			head = append(head, f.Name+": "+f.Value+"\r\n"...)
		}
	}
	head = append(head, "\r\n"...)
	proto := protocols[q.Proto]
	lim := h1.Limits{Target: g.Limits.MaxURL, Fields: g.Limits.MaxFields}
	_, err := h1.ParseRequest(string(head), lim, &x.Req)
	switch {
	case len(head) > g.Limits.MaxHead:
		err = &h1.SyntaxError{Status: 431, Msg: fmt.Sprintf("the head has %d bytes, more than maxReqHeaderSize", len(head))}
	case err == nil && proto != "HTTP/1.1":
		err = ofConnection(&x.Req.Fields)
	}
	if se, ok := errors.AsType[*h1.SyntaxError](err); ok {
		x.Note("request", "malformed: %v", se)
		return &exchange.Error{Status: se.Status, Reason: se.Reason(), Err: se}
	}
	if err != nil {
		return err
	}
	r := &x.Req
	r.ID, r.Proto, r.Scheme = strings.Repeat("0", 32), proto, "http"
	if l.Secure {
		r.Scheme, r.TLS = "https", &tls.ConnectionState{Version: tls.VersionTLS13, CipherSuite: tls.TLS_AES_128_GCM_SHA256, ServerName: u.name, HandshakeComplete: true}
	}
	r.Listener, r.Remote, r.Client = l.Key(), netip.AddrPortFrom(q.Client, 50000), q.Client
	r.Local = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(u.port))
	defer x.Resource.Close()
	return g.Serve(x)
}

// ofConnection refuses fields that HTTP/2 and HTTP/3 do not know (RFC 9113 §8.2.2).
func ofConnection(fields *exchange.Fields) error {
	for name, value := range fields.All() {
		for _, own := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade"} {
			if exchange.EqualName(name, own) {
				return &h1.SyntaxError{Status: 400, Msg: "field " + own + " is of HTTP/1 alone"}
			}
		}
		if exchange.EqualName(name, "Te") && value != "trailers" && value != "" {
			return &h1.SyntaxError{Status: 400, Msg: "field TE is not trailers"}
		}
	}
	return nil
}

// handshake says which certificate a secure listener shows, and reports whether a
// client gets as far as sending its request. Names of hosts are told to the server,
// addresses are not (RFC 6066 §3).
func (d *Decision) handshake(g *generation.Generation, u *asked, l *generation.Listener, x *exchange.Exchange) bool {
	if _, err := netip.ParseAddr(u.name); err == nil {
		u.name = ""
	}
	conf, err := g.TLS(l.Key(), &tls.ClientHelloInfo{ServerName: u.name})
	if err != nil {
		x.Note("handshake", "fails for the server name %q: %v", u.name, err)
		d.Message = "the connection is closed in the handshake"
		return false
	}
	names := []string{"one without a name"}
	if leaf := conf.Certificates[0].Leaf; leaf != nil {
		if names = leaf.DNSNames; len(names) == 0 {
			names = []string{leaf.Subject.CommonName}
		}
	}
	x.Note("handshake", "the certificate for %s", strings.Join(names, ", "))
	return true
}

// answer says how it ends.
func (d *Decision) answer(x *exchange.Exchange, err error) {
	fields := &x.Resp.Fields
	switch {
	case err != nil:
		d.Status, d.Reason, d.Message = exchange.StatusOf(err), exchange.ReasonOf(err), err.Error()
		if e, ok := errors.AsType[*exchange.Error](err); ok {
			d.fields = e.Fields
			for _, f := range e.Fields {
				if exchange.EqualName(f.Name, "Location") {
					d.Location = f.Value
				}
			}
		}
	case x.Started():
		d.Status, d.Location = x.Resp.Status, fields.Get("Location")
		for i := range fields.Len() {
			d.fields = append(d.fields, fields.At(i))
		}
	}
}

func (d *Decision) writeText(out io.Writer) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s\n", d.Method, d.URL)
	for _, s := range d.Steps {
		fmt.Fprintf(&b, "  %-16s  %s\n", s.Name, s.Text)
		for _, line := range s.Details {
			fmt.Fprintf(&b, "  %-16s    %s\n", "", line)
		}
	}
	switch {
	case d.Listener == "":
	case d.Status == 0 && d.Group == "":
		fmt.Fprintf(&b, "  %-16s  none: %s\n", "answer", d.Message)
	case d.Status == 0:
		fmt.Fprintf(&b, "  %-16s  what %s %s answers", "answer", d.Scope, d.Group)
		if d.Message != "" {
			fmt.Fprintf(&b, ", %s", d.Message)
		}
		b.WriteByte('\n')
	default:
		fmt.Fprintf(&b, "  %-16s  %d %s\n", "answer", d.Status, d.Reason)
		if d.Message != "" {
			fmt.Fprintf(&b, "  %-16s    %s\n", "", d.Message)
		}
		if d.Location != "" {
			fmt.Fprintf(&b, "  %-16s    to %s\n", "", d.Location)
		}
	}
	out.Write(b.Bytes())
}

// silence is a wire that leads to nobody. It could be upgraded, as HTTP/1 can.
type silence struct{}

func (silence) Read([]byte) (int, error)                       { return 0, io.EOF }
func (silence) Trailers() *exchange.Fields                     { return nil }
func (silence) StopRead()                                      {}
func (silence) Head(*exchange.Response, bool, bool) error      { return nil }
func (silence) Write(p []byte) (int, error)                    { return len(p), nil }
func (silence) SendFile(_ *os.File, _, n int64) (int64, error) { return n, nil } // no file is read
func (silence) Flush() error                                   { return nil }
func (silence) End(*exchange.Fields) error                     { return nil }
func (silence) Abort(error)                                    {}
func (silence) Context() context.Context                       { return context.Background() }
func (silence) Upgrade(*exchange.Response) (exchange.Duplex, error) {
	panic("BUG: check: a handler with effects serves an exchange that is explained")
}
