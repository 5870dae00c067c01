package rewrite

import (
	"strconv"
	"strings"
	"time"

	"httpjet/exchange"
	"httpjet/headers"
)

// Settings is what the .htaccess files on the way to one path say of the answer. It
// belongs to one exchange, of which it is a filter: fields, types and lifetimes are
// put on the head that leaves.
type Settings struct {
	list  []*said // outer first; of a file before its containers
	host  *Host
	spent time.Duration // on the backtracking engine
	room  [6]*said      // of list, for what most files say
}

// Settings fills s, which is empty, with what is said about r, and reports whether
// anything is. Of containers whose condition is not known, what takes something away is
// kept alone.
func (c *Chain) Settings(s *Settings, r Request) (says bool) {
	for i := range c.n {
		f := c.at(i)
		if f.say == nil {
			continue
		}
		if !says {
			says = true
			s.list, s.host = s.room[:0], c.d.opt.Host
			if r.Name == "" {
				r.Name = c.name
			}
			if r.URL == "" {
				r.URL = c.url()
			}
			r.host = c.d.opt.Host
		}
		s.gather(f.say, &r)
	}
	return says
}

func (s *Settings) gather(sec *section, r *Request) {
	if sec.fault != 0 && sec.said == nil && len(sec.kids) == 0 {
		return
	}
	switch sec.holds(r) {
	case no:
		return
	case unknown:
		s.gatherRefusals(sec, r)
		return
	}
	if sec.said != nil {
		s.list = append(s.list, sec.said)
	}
	for _, kid := range sec.kids {
		s.gather(kid, r)
	}
}

// gatherRefusals keeps of a section what takes scripts and listings away (R-SAFE-1).
func (s *Settings) gatherRefusals(sec *section, r *Request) {
	if t := sec.said; t != nil && (t.noScripts != "" || t.listing < 0) {
		s.list = append(s.list, &said{noScripts: t.noScripts, listing: min(t.listing, 0), maxBody: -1})
	}
	for _, kid := range sec.kids {
		if kid.holds(r) != no {
			s.gatherRefusals(kid, r)
		}
	}
}

// Ask sets the variables of SetEnvIf and BrowserMatch: before anything else is asked,
// since refusals may be about them.
func (c *Chain) Ask(x *exchange.Exchange) {
	for i := range c.n {
		f := c.at(i)
		if !f.asks {
			continue
		}
		s := &Settings{host: c.d.opt.Host}
		s.gather(f.say, &Request{Name: c.name, URL: c.url(), Method: x.Req.Method, Client: x.Req.Client, X: x, host: s.host})
		r := &run{x: x, host: s.host, p: &Program{}}
		for _, said := range s.list {
			for j := range said.asks {
				r.askEnv(&said.asks[j])
			}
		}
	}
}

// askEnv does one SetEnvIf. A pattern that takes too long sets everything that it could
// have set: what it guards is refused rather than let in.
func (r *run) askEnv(e *envIf) {
	var groups [10]string
	ok, err := r.match(e.value, r.attribute(e.what), &groups)
	if !ok && err == nil {
		return
	}
	for _, set := range e.sets {
		if set.unset {
			unsetVariable(r.x, set.name)
			continue
		}
		value := set.value
		if strings.IndexByte(value, '$') >= 0 {
			for i := range groups {
				value = strings.ReplaceAll(value, "$"+strconv.Itoa(i), groups[i])
			}
		}
		if len(value) <= maxResult {
			setVariable(r.x, set.name, clean(value))
		}
	}
}

// attribute is what SetEnvIf looks at.
func (r *run) attribute(name string) string {
	q := &r.x.Req
	switch strings.ToLower(name) {
	case "remote_addr", "remote_host":
		return r.x.ClientText()
	case "server_addr":
		return r.variable(serverAddr, "")
	case "request_method":
		return q.Method
	case "request_protocol":
		return q.Proto
	case "request_uri":
		return q.Path
	case "host":
		return q.Host
	}
	if q.Fields.Has(name) {
		return q.Fields.Get(name)
	}
	return env(r.x, name)
}

// Variables sets those of SetEnv: behind the rules, as they do not see them.
func (s *Settings) Variables(x *exchange.Exchange) {
	for _, said := range s.list {
		for _, e := range said.env {
			if e.unset {
				unsetVariable(x, e.name)
			} else {
				setVariable(x, e.name, e.value)
			}
		}
	}
}

// RequestFields edits the fields of the request as RequestHeader says.
func (s *Settings) RequestFields(x *exchange.Exchange) {
	for _, said := range s.list {
		for i := range said.requests {
			s.edit(x, &x.Req.Fields, &said.requests[i])
		}
	}
}

// Redirect returns the answer of the first Redirect about path, the inner files first;
// nil if there is none. query is that of the request.
func (s *Settings) Redirect(x *exchange.Exchange, path, query string) error {
	for i := len(s.list) - 1; i >= 0; i-- {
		for j := range s.list[i].redirects {
			r := &s.list[i].redirects[j]
			to, ok := r.target(path, &s.spent)
			if !ok {
				continue
			}
			if query != "" && !strings.Contains(to, "?") {
				to = withQuery(to, query)
			}
			if strings.HasPrefix(to, "/") {
				if to = "/" + strings.TrimLeft(to, "/"); x.Req.Host != "" { // never the URL of another host
					to = x.Req.Scheme + "://" + x.Req.Host + to
				}
			}
			if x.Explaining() {
				x.Note("redirect", "%s:%d sends to %s", r.file, r.line, to)
			}
			return exchange.Redirect(r.status, to)
		}
	}
	return nil
}

// target is where r sends path. What comes of the path is encoded and cannot make the
// host of the target.
func (r *redirect) target(path string, spent *time.Duration) (string, bool) {
	if r.match == nil {
		rest, ok := strings.CutPrefix(path, r.below)
		if !ok || rest != "" && rest[0] != '/' && !strings.HasSuffix(r.below, "/") {
			return "", false
		}
		to := r.to
		if _, after, absolute := strings.Cut(to, "://"); rest != "" && rest[0] != '/' && absolute && strings.IndexByte(after, '/') < 0 {
			rest = "/" + rest // "Redirect / http://other" and "/x": never "http://otherx"
		}
		before, mark, has := strings.Cut(to, "?")
		out := before + string(appendEncoded(nil, rest, inPath))
		if has {
			out += "?" + mark
		}
		return out, true
	}
	var groups [10]string
	q := run{spent: *spent}
	ok, err := q.match(r.match, path, &groups)
	if *spent = q.spent; !ok || err != nil {
		return "", false
	}
	var b []byte
	for i := 0; i < len(r.to); i++ {
		c := r.to[i]
		if c == '\\' && i+1 < len(r.to) {
			i++
			b = append(b, r.to[i])
			continue
		}
		if c != '$' || i+1 == len(r.to) || r.to[i+1] < '0' || r.to[i+1] > '9' {
			b = append(b, c)
			continue
		}
		i++
		group := groups[r.to[i]-'0']
		if hostOpen(b) && group != "" && group[0] != '/' {
			b = append(b, '/')
		}
		if len(b) == 0 && !strings.HasPrefix(group, "/") { // no scheme comes of a path
			b = append(b, '/')
		}
		b = appendEncoded(b, group, inPath)
	}
	return string(b), true
}

// hostOpen reports that b is a URL whose authority could still grow.
func hostOpen(b []byte) bool {
	_, rest, ok := strings.Cut(string(b), "://")
	return ok && !strings.ContainsAny(rest, "/?#")
}

// Index returns the names of DirectoryIndex; set is false if nobody says one.
func (s *Settings) Index() (names []string, set bool) {
	for i := len(s.list) - 1; i >= 0; i-- {
		if s.list[i].hasIndex {
			return s.list[i].index, true
		}
	}
	return nil, false
}

// Listing is what Options says of Indexes: 1 on, -1 off, 0 nothing.
func (s *Settings) Listing() int8 {
	for i := len(s.list) - 1; i >= 0; i-- {
		if l := s.list[i].listing; l != 0 {
			return l
		}
	}
	return 0
}

// MaxBody is LimitRequestBody, 0 for none.
func (s *Settings) MaxBody() int64 {
	for i := len(s.list) - 1; i >= 0; i-- {
		if s.list[i].maxBody >= 0 {
			return s.list[i].maxBody
		}
	}
	return 0
}

// Handler is the name of the handler for files with a suffix (lower case, no dot), by
// SetHandler and AddHandler, or by ForceType and AddType, which name a media type
// (isType). off says that a directive takes handlers away; a type that is forced is told
// all the same, as its files are no text.
func (s *Settings) Handler(suffix string) (name string, isType, off bool) {
	forced := s.forced()
	for i := len(s.list) - 1; i >= 0; i-- {
		said := s.list[i]
		if said.noScripts != "" {
			return forced, forced != "", true
		}
		h := said.handler
		if h == "" {
			v, ok := lastOf(said.handlers, suffix)
			if h = v; ok && h == "" {
				h = "none"
			}
		}
		if h != "" && isNone(h) {
			return forced, forced != "", true
		}
		if h != "" {
			return h, false, false
		}
		if v, ok := lastOf(said.types, suffix); ok && forced == "" {
			return v, true, v == ""
		}
	}
	return forced, forced != "", false
}

// forced is the type of ForceType, "" for none.
func (s *Settings) forced() string {
	for i := len(s.list) - 1; i >= 0; i-- {
		if f := s.list[i].force; strings.EqualFold(f, "none") {
			return ""
		} else if f != "" {
			return f
		}
	}
	return ""
}

// isNone reports the names by which handlers are taken away.
func isNone(name string) bool {
	return name == "" || strings.EqualFold(name, "none") || strings.EqualFold(name, "default-handler")
}

// Handles reports whether anything is said about handlers.
func (s *Settings) Handles() bool {
	for _, said := range s.list {
		if said.noScripts != "" || said.handler != "" || said.force != "" || len(said.handlers)+len(said.types) > 0 {
			return true
		}
	}
	return false
}

func lastOf(list []bySuffix, suffix string) (string, bool) {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].suffix == suffix {
			return list[i].value, true
		}
	}
	return "", false
}

// Document is what ErrorDocument says of a status; ok is false if it says nothing.
func (s *Settings) Document(status int) (to string, isText, ok bool) {
	for i := len(s.list) - 1; i >= 0; i-- {
		docs := s.list[i].documents
		for j := len(docs) - 1; j >= 0; j-- {
			if docs[j].status == status {
				return docs[j].to, docs[j].isText, docs[j].to != ""
			}
		}
	}
	return "", false, false
}

// Head puts fields, type and lifetime on an answer. Answers of the server's own to an
// error have only the fields that are said to be always there.
func (s *Settings) Head(x *exchange.Exchange) bool {
	f := &x.Resp.Fields
	if !x.Failed {
		if x.Route.Kind == exchange.Files {
			s.describe(x)
		}
		s.expire(x)
	}
	for _, said := range s.list {
		for i := range said.headers {
			if h := &said.headers[i]; h.always || !x.Failed {
				s.edit(x, f, h)
			}
		}
	}
	return false
}

// Wrap is never called: Head wants no body.
func (s *Settings) Wrap(next exchange.Sink) exchange.Sink { return next }

// ForErrors makes it an exchange.ErrorFilter.
func (s *Settings) ForErrors() {}

// describe sets the media type of a file, and what else its suffixes say.
func (s *Settings) describe(x *exchange.Exchange) {
	f := &x.Resp.Fields
	media := f.Get("Content-Type")
	if media == "" || strings.HasPrefix(media, "multipart/byteranges") {
		return
	}
	name := x.Resource.Name
	name = name[strings.LastIndexByte(name, '/')+1:]
	_, suffixes, _ := strings.Cut(name, ".")
	charset := ""
	for _, said := range s.list {
		for suffix := range strings.SplitSeq(strings.ToLower(suffixes), ".") {
			if v, ok := lastOf(said.types, suffix); ok && v != "" {
				media = v
			}
			if v, ok := lastOf(said.charsets, suffix); ok {
				charset = v
			}
			if v, ok := lastOf(said.languages, suffix); ok {
				f.Set("Content-Language", v)
			}
			if v, ok := lastOf(said.codings, suffix); ok && !f.Has("Content-Encoding") {
				f.Set("Content-Encoding", v)
			}
		}
		if said.noTag {
			f.Del("ETag")
		}
	}
	if forced := s.forced(); forced != "" {
		media, charset = forced, ""
	}
	if charset != "" {
		media, _, _ = strings.Cut(media, ";")
		media += "; charset=" + charset
	}
	f.Set("Content-Type", s.withCharset(media))
}

// withCharset adds the AddDefaultCharset of the innermost place that says one.
func (s *Settings) withCharset(media string) string {
	base, _, has := strings.Cut(strings.ToLower(media), ";")
	if has || base != "text/plain" && base != "text/html" {
		return media
	}
	for i := len(s.list) - 1; i >= 0; i-- {
		switch c := s.list[i].charset; {
		case c == "":
		case strings.EqualFold(c, "off"):
			return media
		case strings.EqualFold(c, "on"):
			return media + "; charset=iso-8859-1"
		default:
			return media + "; charset=" + c
		}
	}
	return media
}

// expire adds Expires and Cache-Control where the answer has neither (R-STATIC-12).
func (s *Settings) expire(x *exchange.Exchange) {
	f, status := &x.Resp.Fields, x.Resp.Status
	if status != 200 && status != 206 && status != 304 || f.Has("Expires") || f.Has("Cache-Control") {
		return
	}
	active := int8(0)
	var life *headers.Expiry
	media, _, _ := strings.Cut(strings.ToLower(f.Get("Content-Type")), ";")
	media = strings.TrimSpace(media)
	rank := 0 // of life: the default, the main type, the whole type
	for _, said := range s.list {
		if said.expires != 0 {
			active = said.expires
		}
		if said.lifetime != nil && rank <= 1 {
			life, rank = said.lifetime, 1
		}
		for i := range said.lifetimeOf {
			l := &said.lifetimeOf[i]
			main, all := strings.CutSuffix(l.media, "/*")
			switch {
			case l.media == media && media != "":
				life, rank = &l.Expiry, 3
			case all && strings.HasPrefix(media, main+"/") && rank <= 2:
				life, rank = &l.Expiry, 2
			}
		}
	}
	if active <= 0 || life == nil {
		return
	}
	modified := time.Time{}
	if info := x.Resource.Info; info != nil {
		modified = info.ModTime()
	} else if life.FromModified {
		return
	}
	life.Add(f, modified, x.Recent())
}

// edit does one Header or RequestHeader.
func (s *Settings) edit(x *exchange.Exchange, f *exchange.Fields, h *headerEdit) {
	if name, not := strings.CutPrefix(h.env, "!"); h.env != "" && hasVariable(x, name) == not {
		return
	}
	r := &run{x: x, host: s.host, p: &Program{prefix: h.in.prefix, dir: h.in.dir}, path: x.Req.Path, query: x.Req.Query}
	if h.when != nil {
		if s.host == nil {
			return
		}
		if ok, err := h.when.holds(r); !ok || err != nil {
			return
		}
	}
	value := ""
	if h.find == nil {
		value = r.formatted(h.value)
	}
	if h.find != nil {
		headers.Replace(f, h.name, h.find, h.value[0].text, h.op == headers.EditAll, clean)
		return
	}
	h.op.Do(f, h.name, value)
}

// formatted is the text of a value.
func (r *run) formatted(parts []formatPart) string {
	if len(parts) == 1 && parts[0].kind == 0 {
		return parts[0].text
	}
	var b strings.Builder
	for i := range parts {
		switch p := &parts[i]; p.kind {
		case 0:
			b.WriteString(p.text)
		case 'e':
			if hasVariable(r.x, p.text) {
				b.WriteString(env(r.x, p.text))
			} else {
				b.WriteString("(null)")
			}
		case 's', 'x':
			if r.host != nil {
				b.WriteString(r.text(p.t))
			}
		case 't':
			b.WriteString("t=" + strconv.FormatInt(r.x.Recent().UnixMicro(), 10))
		case 'D':
			b.WriteString("D=" + strconv.FormatInt(max(0, time.Since(r.x.Recent()).Microseconds()), 10))
		}
		if b.Len() > maxResult {
			return ""
		}
	}
	return clean(b.String())
}
