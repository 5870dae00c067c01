package rewrite

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"httpjet/exchange"
)

var errTooLong = errors.New("a text that a rule makes is too long")

// run is one request in one program.
type run struct {
	p    *Program
	x    *exchange.Exchange
	host *Host

	path     string // decoded, as the rules have made it so far
	raw      string // the same, encoded; "" while it is the request's
	query    string
	changed  bool
	status   int    // of a redirect that waits for the end of the rules
	location string // of one to a URL; "" for one to path
	by       *rule  // that changed or redirected last
	cookies  []string
	media    string // of the last [T]

	group       [10]string // of the rule at hand
	groupRaw    bool       // escapes of '/' and '%' are left in it
	condGroup   [10]string // of the last condition that matched
	condDecoded bool

	name       []byte // path on disk of nameOf, see locate
	nameOf     string
	file       string // the same as a string; "" until it is asked for
	behind     string // path info behind it
	named      bool   // nameInfo is known
	nameFollow bool
	nameInfo   Info
	tested     []byte // the last other path that was looked at
	testedAs   bool   // following links; testedInfo is what was found
	testedInfo Info
	st         unix.Statx_t // of a look

	spent    time.Duration // on the backtracking engine
	buf      []byte
	tooLong  bool
	explains bool
}

// Run asks the rules about x, whose path and query stay as they are: the table
// decides what becomes of the outcome. The variables of [E] are set in x.Env at
// once. It takes no memory while no rule matches.
func (p *Program) Run(x *exchange.Exchange, h *Host) Outcome {
	r := p.runs.Get().(*run)
	r.p, r.x, r.host = p, x, h
	r.path, r.query, r.explains = x.Req.Path, x.Req.Query, x.Explaining()
	if r.explains {
		for i := range p.rules {
			x.Rule(p.rules[i].file, p.rules[i].line, false)
		}
	}
	out := r.rules()
	out.Cookies, out.Type = r.cookies, r.media
	*r = run{buf: r.buf[:0], name: r.name[:0], tested: r.tested[:0]}
	if cap(r.buf)+cap(r.name)+cap(r.tested) <= 16384 {
		p.runs.Put(r)
	}
	return out
}

// rules goes through the program once, or again for [N].
func (r *run) rules() Outcome {
	rules, rounds := r.p.rules, 0
	for i := 0; i < len(rules); i++ {
		u := &rules[i]
		ok, err := r.matches(u)
		if err != nil {
			return r.fail(u, err)
		}
		if !ok {
			for u.chain && i+1 < len(rules) { // the rest of the chain is skipped
				i++
				u = &rules[i]
			}
			continue
		}
		if r.explains {
			r.x.Rule(u.file, u.line, true)
		}
		if u.closed != "" {
			return Outcome{Kind: Failed, Err: exchange.Fail(503, "closed", "%s:%d: %s", u.file, u.line, u.closed), rule: u}
		}
		out, done, err := r.apply(u)
		switch {
		case err != nil:
			return r.fail(u, err)
		case done:
			return out
		case u.end:
			out = r.end()
			out.End, out.Last = true, true
			return out
		case u.skip > 0:
			i += u.skip
		case u.next:
			if rounds++; rounds > maxRounds {
				return r.fail(u, fmt.Errorf("[N] has started the rules over %d times", maxRounds))
			}
			i = -1
		case u.last:
			out = r.end()
			out.Last = true
			return out
		}
	}
	return r.end()
}

func (r *run) fail(u *rule, err error) Outcome {
	if r.explains {
		r.x.Detail("line %d: %v", u.line, err)
	}
	return Outcome{Kind: Failed, Err: exchange.Fail(500, "bad_rewrite", "%s:%d: %v", u.file, u.line, err), rule: u}
}

// subject is what patterns see of the path.
func (r *run) subject() string {
	if r.p.prefix == "" {
		return r.path
	}
	if rest, ok := strings.CutPrefix(r.path, r.p.prefix); ok {
		return rest
	}
	if rest, ok := strings.CutPrefix(r.path, r.p.base); ok {
		return rest
	}
	return r.path
}

// matches asks pattern and conditions. Groups are captured only where something uses
// them, and as late as possible: most rules match nothing.
func (r *run) matches(u *rule) (bool, error) {
	if u.lost {
		return false, nil
	}
	subject := r.subject()
	if u.back {
		r.condGroup, r.condDecoded = [10]string{}, false
	}
	var groups *[10]string
	if (u.early || r.explains) && !u.not {
		groups = &r.group
	}
	ok := true
	var err error
	if u.pattern != nil {
		ok, err = r.match(u.pattern, subject, groups)
	}
	if err != nil {
		return false, err
	}
	ok = ok != u.not
	if r.explains {
		verdict := "does not match"
		if ok {
			verdict = "matches"
		}
		r.x.Detail("line %d: RewriteRule %s: %q %s%s", u.line, u.text, subject, verdict, r.captured("$", &r.group, ok && !u.not))
	}
	if !ok {
		return false, nil
	}
	if u.not {
		r.group = [10]string{}
	}
	if ok, err = r.holds(u); !ok || err != nil {
		return false, err
	}
	if u.groups && groups == nil && !u.not && u.pattern != nil {
		_, err = r.match(u.pattern, subject, &r.group)
	}
	return err == nil, err
}

// apply does what a rule that matches says. done: out is final.
func (r *run) apply(u *rule) (out Outcome, done bool, err error) {
	r.set(u)
	if r.tooLong {
		return out, false, errTooLong
	}
	switch {
	case u.forbidden:
		return r.answer(u, 403), true, nil
	case u.gone:
		return r.answer(u, 410), true, nil
	case u.status >= 400 || u.status > 0 && u.status < 300:
		return r.answer(u, u.status), true, nil
	case u.sub == nil:
		return out, false, nil
	}
	if u.target != nil && u.groups && !u.escape && !u.not {
		if err := r.keepSlashes(u); err != nil {
			return out, false, err
		}
	}
	raw, err := r.expand(u, u.sub.path, inPath)
	if err != nil {
		return out, false, err
	}
	if len(u.sub.path) == 0 && u.sub.hasQuery && u.target == nil { // "?query" is about the query alone
		if raw = r.raw; raw == "" {
			raw = r.received()
		}
	}
	query, err := r.newQuery(u)
	if err != nil {
		return out, false, err
	}
	if u.allow3F {
		if before, after, ok := strings.Cut(raw, "?"); ok {
			raw = before
			if u.sub.hasQuery && query != "" {
				after += "&" + query
			}
			query = after
		}
	}
	r.by = u
	switch {
	case u.target != nil:
		return r.proxied(u, raw, query), true, nil
	case u.sub.url:
		r.status, r.location = redirectOr302(u), raw
		r.path, r.raw, r.query, r.changed = raw, raw, query, true
		return out, false, nil
	}
	if raw == "" || raw[0] != '/' {
		raw = string(appendEncoded(nil, r.p.base, inPath)) + raw
	}
	r.path, r.raw, r.query, r.changed, r.location = decode(raw), raw, query, true, ""
	if u.status != 0 {
		r.status = u.status
	}
	if r.explains {
		r.x.Detail("line %d: becomes %s", u.line, join(raw, query))
	}
	return out, false, nil
}

// keepSlashes captures the groups of a rule with [P] anew where the client has escaped a
// slash, so that it goes upstream as one (fault 8 of what was observed). The path that
// patterns see has it decoded; a path that dot segments or empty ones were taken out of
// has no other form.
func (r *run) keepSlashes(u *rule) error {
	raw := r.received()
	if r.changed || u.pattern == nil || strings.IndexByte(raw, '%') < 0 || !strings.Contains(raw, "%2F") && !strings.Contains(raw, "%2f") || decode(raw) != r.path {
		return nil
	}
	text := decodeBut(raw)
	if r.p.prefix != "" {
		rest, ok := strings.CutPrefix(text, r.p.prefix)
		if !ok {
			return nil
		}
		text = rest
	}
	var groups [10]string
	ok, err := r.match(u.pattern, text, &groups)
	if ok {
		r.group, r.groupRaw = groups, true
	}
	return err
}

// decodeBut decodes the escapes of s but those of '/' and '%'.
func decodeBut(s string) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]) {
			if c := nibble(s[i+1])<<4 | nibble(s[i+2]); c != '/' && c != '%' {
				b = append(b, c)
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}

func redirectOr302(u *rule) int {
	if u.status != 0 {
		return u.status
	}
	return 302
}

func (r *run) answer(u *rule, status int) Outcome {
	if r.explains {
		r.x.Detail("line %d: answers %d", u.line, status)
	}
	return Outcome{Kind: Answered, Status: status, rule: u}
}

// proxied is the outcome of [P] (R-P-1, R-P-2).
func (r *run) proxied(u *rule, raw, query string) Outcome {
	t := u.target
	out := Outcome{Kind: Proxied, Proxy: t, End: u.end, rule: u}
	made := t.Dynamic && len(u.sub.path) > 0 // else it is not allowed, and refused by the table
	if made {
		out.Scheme, out.Authority, raw = cutTarget(raw)
	}
	switch {
	case made && (out.Authority == "" || raw == ""):
		return Outcome{Kind: Failed, rule: u,
			Err: exchange.Fail(502, "bad_target", "%s:%d: what [P] makes is no URL of a processor with a path", u.file, u.line)}
	case raw == "" || u.sub.slash && raw == "/":
		raw = "/"
	case raw[0] != '/': // a value would extend the host (R-P-4)
		return Outcome{Kind: Failed, rule: u,
			Err: exchange.Fail(502, "bad_target", "%s:%d: what stands behind the host of [P] does not start with a slash", u.file, u.line)}
	}
	out.Target = join(raw, query)
	if r.explains {
		r.x.Detail("line %d: proxied to %s://%s%s", u.line, t.Scheme+out.Scheme, t.Authority+out.Authority, out.Target)
	}
	return out
}

// cutTarget parts a URL that a rule has made. Without a path there is none of a
// processor, as in LiteSpeed.
func cutTarget(url string) (scheme, authority, path string) {
	scheme, rest, ok := strings.Cut(url, "://")
	i := strings.IndexByte(rest, '/')
	if scheme = strings.ToLower(scheme); !ok || i <= 0 || !proxySchemes[scheme] {
		return "", "", ""
	}
	return scheme, rest[:i], rest[i:]
}

// end is the outcome when the rules are through.
func (r *run) end() Outcome {
	switch {
	case !r.changed:
		return Outcome{}
	case r.status != 0:
		return r.redirect()
	case r.by.sub.escaped: // the rule itself says what is encoded
	case r.path == r.x.Req.Path && r.query == r.x.Req.Query:
		return Outcome{} // the client's own bytes go on (R-RW-7)
	case r.path == r.x.Req.Path:
		return Outcome{Kind: Rewritten, Target: join(r.received(), r.query), rule: r.by}
	}
	return Outcome{Kind: Rewritten, Target: join(r.raw, r.query), rule: r.by}
}

// redirect is the outcome of [R]. One to the request itself is left out, as it would
// never end.
func (r *run) redirect() Outcome {
	q := &r.x.Req
	location := r.location
	if location == "" {
		location = r.raw
		if len(location) > 1 && location[1] == '/' && q.Host == "" {
			location = "/" + strings.TrimLeft(location, "/") // no URL of another host
		}
		if q.Host != "" {
			location = q.Scheme + "://" + q.Host + location
		}
	}
	own := strings.ToLower(q.Scheme) + "://" + strings.ToLower(q.Host)
	if len(location) >= len(own) && strings.EqualFold(location[:len(own)], own) && r.query == q.Query &&
		(decode(location[len(own):]) == q.Path || location[len(own):] == r.received()) {
		if r.explains {
			r.x.Detail("line %d: the redirect leads to the request itself: left out", r.by.line)
		}
		return Outcome{}
	}
	location = withQuery(location, r.query)
	if r.explains {
		r.x.Detail("line %d: redirects with %d to %s", r.by.line, r.status, location)
	}
	return Outcome{Kind: Redirected, Status: r.status, Location: location, rule: r.by}
}

// withQuery puts a query before the fragment of a location.
func withQuery(location, query string) string {
	if query == "" {
		return location
	}
	at, fragment, ok := strings.Cut(location, "#")
	if location = join(at, query); ok {
		location += "#" + fragment
	}
	return location
}

func join(path, query string) string {
	if query == "" {
		return path
	}
	return path + "?" + query
}

// received is the path of the request, encoded as it came or as rules before these
// have made it.
func (r *run) received() string {
	path, _, _ := strings.Cut(r.x.Req.Sent(), "?")
	return path
}

// newQuery is the query behind a rule.
func (r *run) newQuery(u *rule) (string, error) {
	if !u.sub.hasQuery {
		if u.qsd {
			return "", nil
		}
		return r.query, nil
	}
	query, err := r.expand(u, u.sub.query, 0)
	if err == nil && u.qsa && !u.qsd && r.query != "" {
		if query != "" {
			query += "&"
		}
		query += r.query
	}
	return query, err
}

// expand makes the text of a template for a URL. Behind a slash a value does not
// double it (LSX: "http://app/$1" at a virtual host).
func (r *run) expand(u *rule, t template, where encoding) (string, error) {
	if len(t) == 1 && t[0].kind == literal {
		return t[0].text, nil
	}
	var b []byte
	for i := range t {
		p := &t[i]
		if p.kind == literal {
			b = append(b, p.text...)
			continue
		}
		s, e := "", where|r.encodingOf(u, p)
		if p.kind == value && p.v == requestURI {
			s = r.received()
		} else {
			s = r.part(p)
		}
		if where&inPath != 0 && s != "" && s[0] == '/' && endsPath(b) {
			s = s[1:]
		}
		if u.except != "" && e&component != 0 {
			b = appendExcept(b, s, e, u.except)
		} else {
			b = appendEncoded(b, s, e)
		}
		if len(b) > maxResult || r.tooLong {
			return "", errTooLong
		}
	}
	return string(b), nil
}

// endsPath reports whether b ends with the slash of a path, not with that before an
// authority.
func endsPath(b []byte) bool {
	n := len(b)
	return n > 0 && b[n-1] == '/' && !(n > 2 && b[n-2] == '/' && b[n-3] == ':')
}

func appendExcept(b []byte, s string, e encoding, except string) []byte {
	for i := range len(s) {
		if c := s[i]; c > ' ' && c < 0x7f && strings.IndexByte(except, c) >= 0 {
			b = append(b, c)
		} else {
			b = appendEncoded(b, s[i:i+1], e)
		}
	}
	return b
}

// encodingOf is how a value is put into a URL: what is encoded already stays so.
func (r *run) encodingOf(u *rule, p *part) (e encoding) {
	group := p.kind == ruleGroup || p.kind == condGroup
	switch {
	case u.escape && group && !u.controlsOnly:
		if e = component; u.sub.hasQuery && !u.blankPercent {
			e |= plus
		}
		return e
	case p.kind == ruleGroup && !r.groupRaw:
	case p.kind == condGroup && r.condDecoded:
	case p.kind == value && p.v.decoded() && p.v != requestURI:
	default:
		e = keepEscapes
	}
	if u.noescape {
		if e |= keepEscapes; u.status != 0 || u.sub.url && u.target == nil {
			e |= raw
		}
	}
	if u.allow3F {
		e |= keepMark
	}
	if u.sub.url {
		e |= colon
	}
	return e
}

// set does the flags E and CO.
func (r *run) set(u *rule) {
	for i := range u.env {
		e := &u.env[i]
		if e.unset {
			unsetVariable(r.x, e.name)
			continue
		}
		s := clean(r.text(e.value))
		setVariable(r.x, e.name, s)
		if r.explains {
			r.x.Detail("line %d: sets %s=%q", u.line, e.name, s)
		}
	}
	if u.media != nil {
		r.media = clean(r.text(u.media))
	}
	for i := range u.cookies {
		r.cookies = append(r.cookies, r.cookie(&u.cookies[i]))
	}
}

// cookie is the value of a Set-Cookie field (RFC 6265 §4.1).
func (r *run) cookie(k *cookie) string {
	semicolon := func(s string) string { return strings.ReplaceAll(clean(s), ";", "%3B") }
	b := k.name + "=" + semicolon(r.text(k.value))
	b += "; path=" + orSlash(semicolon(r.text(k.path)))
	if d := semicolon(r.text(k.domain)); d != "" {
		b += "; domain=" + d
	}
	if k.minutes > 0 {
		at := r.host.now().Add(time.Duration(k.minutes) * time.Minute).UTC()
		b += "; expires=" + at.Format("Mon, 02-Jan-2006 15:04:05 GMT")
	}
	if k.secure {
		b += "; secure"
	}
	if k.httpOnly {
		b += "; HttpOnly"
	}
	return b
}

func orSlash(s string) string {
	if s == "" {
		return "/"
	}
	return s
}

// clean takes the control bytes out of what goes into fields and variables.
func clean(s string) string {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return strings.Map(func(c rune) rune {
				if c < ' ' || c == 0x7f {
					return -1
				}
				return c
			}, s)
		}
	}
	return s
}
