package rewrite

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"httpjet/exchange"
	"httpjet/headers"
)

// said is what a .htaccess file, or a container in it, says beside who may come in.
type said struct {
	headers   []headerEdit // Header
	requests  []headerEdit // RequestHeader
	asks      []envIf      // SetEnvIf, BrowserMatch
	env       []envSet     // SetEnv, UnsetEnv
	redirects []redirect
	documents []document

	index    []string // DirectoryIndex
	hasIndex bool

	types     []bySuffix // AddType
	charsets  []bySuffix // AddCharset
	codings   []bySuffix // AddEncoding
	languages []bySuffix // AddLanguage
	handlers  []bySuffix // AddHandler; value "" of RemoveHandler
	force     string     // ForceType; "none" takes an outer one back
	handler   string     // SetHandler, likewise
	charset   string     // AddDefaultCharset; "off"

	expires    int8 // ExpiresActive: 1 on, -1 off, 0 not written
	lifetime   *headers.Expiry
	lifetimeOf []typeLifetime

	maxBody   int64  // LimitRequestBody; -1: not written
	noScripts string // directive by which scripts do not run here
	php       []exchange.Setting
	noTag     bool // FileETag None
	listing   int8 // Options Indexes: 1 on, -1 off, 0 not written
	links     []linkWord
	cache     []CacheDirective
	line      int // of the first of them
}

// linkWord is what one word of Options says of symbolic links.
type linkWord struct {
	links Links
	minus bool // takes links away, where it is what holds
}

// bySuffix is a value for names with a suffix: lower case, without its dot.
type bySuffix struct{ suffix, value string }

// headerEdit is one Header or RequestHeader.
type headerEdit struct {
	op     headers.Action
	always bool
	name   string
	value  []formatPart
	find   *regexp.Regexp // of edit
	env    string         // only if this variable is set; with !, if it is not
	when   *expression
	in     *section
}

// formatPart is a piece of a value: text, or what % stands for.
type formatPart struct {
	kind byte // 0 text, 'e' variable, 's' of TLS, 't' time, 'D' duration, 'x' expression
	text string
	t    template
}

// envIf is one SetEnvIf.
type envIf struct {
	what  string // field, or one of the words of Apache
	value *pattern
	sets  []envSet
}

// envSet sets a variable; its value may have $1 of a SetEnvIf.
type envSet struct {
	name, value string
	unset       bool
}

// redirect is Redirect or RedirectMatch with a status that sends clients elsewhere.
type redirect struct {
	status int
	below  string   // Redirect
	match  *pattern // RedirectMatch
	to     string
	line   int
	file   string
}

// document is an ErrorDocument: a path or URL, or a text.
type document struct {
	status int
	to     string
	isText bool
}

type typeLifetime struct {
	media string
	headers.Expiry
}

// groups says which bits of allowOverride a directive needs.
var groupOf = map[string]Override{
	"header": OverrideFileInfo, "requestheader": OverrideFileInfo,
	"setenvif": OverrideFileInfo, "setenvifnocase": OverrideFileInfo, "browsermatch": OverrideFileInfo, "browsermatchnocase": OverrideFileInfo,
	"setenv": OverrideFileInfo, "unsetenv": OverrideFileInfo, "passenv": OverrideFileInfo,
	"redirect": OverrideFileInfo, "redirectmatch": OverrideFileInfo, "redirectpermanent": OverrideFileInfo, "redirecttemp": OverrideFileInfo,
	"errordocument": OverrideFileInfo, "directoryindex": OverrideIndexes,
	"addtype": OverrideFileInfo, "removetype": OverrideFileInfo, "forcetype": OverrideFileInfo, "addcharset": OverrideFileInfo,
	"addencoding": OverrideFileInfo, "addlanguage": OverrideFileInfo, "adddefaultcharset": OverrideFileInfo,
	"addhandler": OverrideFileInfo, "sethandler": OverrideFileInfo, "removehandler": OverrideFileInfo,
	"expiresactive": OverrideIndexes, "expiresdefault": OverrideIndexes, "expiresbytype": OverrideIndexes,
	"fileetag": OverrideFileInfo, "limitrequestbody": OverrideAll, "options": OverrideOptions,
	"php_flag": OverrideOptions, "php_value": OverrideOptions,
	"php_admin_flag": OverrideOptions, "php_admin_value": OverrideOptions,
	"cachelookup": cacheGroup, "cacheenable": cacheGroup, "cachedisable": cacheGroup, "cachemaxexpire": cacheGroup, "cachemaxstaleage": cacheGroup,
	"cachekeymodify": cacheGroup, "cacheignorecachecontrol": cacheGroup, "cacheenablepublic": cacheGroup, "cacheenableprivate": cacheGroup,
	"cacheengine": cacheGroup, "cacheroot": cacheGroup,
}

// cacheGroup: directives about the page cache go with fields of answers, and with rules,
// beside which plug-ins write them.
const cacheGroup = OverrideFileInfo | OverrideRules

// other reads a directive that is not about who may come in, nor of rewriting.
func (p *parser) other(lower, name string, args []string) {
	group, known := groupOf[lower]
	switch {
	case !known:
		p.notice(name)
		return
	case p.override&group == 0 && !(lower == "php_flag" && engineOff(args)) && lower != "options":
		p.tell(p.line, name, "allowOverride does not allow it", false)
		return
	}
	o := p.owner()
	if o.discard || o.op != leaf {
		return
	}
	s := o.sec
	if s.said == nil {
		s.said = &said{maxBody: -1, line: p.line}
	}
	if err := p.say(s, s.said, lower, args); err != nil {
		p.tell(p.line, name, err.Error(), false)
		if strings.HasPrefix(lower, "setenvif") || strings.HasPrefix(lower, "browser") {
			p.guesses = true
		}
		return
	}
	p.says = true
}

func engineOff(args []string) bool {
	return len(args) == 2 && strings.EqualFold(args[0], "engine") && isOff(args[1])
}

func isOff(s string) bool {
	s = strings.ToLower(s)
	return s == "off" || s == "0" || s == "false" || s == "no"
}

func wants(args []string, least int) error {
	if len(args) < least {
		return fmt.Errorf("it needs %d arguments", least)
	}
	return nil
}

// say reads one directive into s.
func (p *parser) say(sec *section, s *said, lower string, args []string) (err error) {
	if err = wants(args, 1); err != nil {
		return err
	}
	if strings.HasPrefix(lower, "cache") {
		return s.cacheDirective(lower, args)
	}
	switch lower {
	case "header", "requestheader":
		return p.header(sec, s, lower == "requestheader", args)
	case "setenvif", "setenvifnocase", "browsermatch", "browsermatchnocase":
		return p.setEnvIf(s, lower, args)
	case "setenv", "unsetenv":
		return p.setEnv(s, lower == "unsetenv", args)
	case "passenv":
		return fmt.Errorf("variables of the server itself are not passed on")
	case "redirect", "redirectmatch", "redirectpermanent", "redirecttemp":
		return p.redirect(s, lower, args)
	case "errordocument":
		return s.errorDocument(args)
	case "directoryindex":
		return s.directoryIndex(args)
	case "expiresactive", "expiresdefault", "expiresbytype":
		return s.expire(lower, args)
	case "limitrequestbody":
		s.maxBody, err = strconv.ParseInt(args[0], 10, 64)
		if err != nil || s.maxBody < 0 {
			s.maxBody = -1
			return fmt.Errorf("%q is no number of bytes", args[0])
		}
	case "fileetag":
		if !strings.EqualFold(args[0], "none") {
			return fmt.Errorf("only FileETag None is honoured; the tag is made as fileETag of the server says")
		}
		s.noTag = true
	case "options":
		return p.options(s, args)
	case "php_flag", "php_value":
		if lower == "php_flag" && engineOff(args) {
			s.noScripts = "php_flag engine off"
			return nil
		}
		set, err := PHPSetting(lower, args)
		if err == nil && len(s.php) == maxSettings {
			err = fmt.Errorf("there are more than %d settings", maxSettings)
		}
		if err == nil {
			s.php = append(s.php, set)
		}
		return err
	case "php_admin_value", "php_admin_flag":
		return fmt.Errorf("it is for the configuration of the server alone: phpIniOverride of the virtual host")
	default:
		return s.media(lower, args)
	}
	return nil
}

// media reads the directives about types and handlers.
func (s *said) media(lower string, args []string) error {
	switch lower {
	case "forcetype":
		s.force = strings.Clone(args[0])
		return nil
	case "adddefaultcharset":
		s.charset = strings.Clone(args[0])
		return nil
	case "sethandler":
		s.handler = strings.Clone(args[0])
		return nil
	}
	list := map[string]*[]bySuffix{"addtype": &s.types, "removetype": &s.types, "addcharset": &s.charsets, "addencoding": &s.codings,
		"addlanguage": &s.languages, "addhandler": &s.handlers, "removehandler": &s.handlers}[lower]
	value, suffixes := "", args
	if !strings.HasPrefix(lower, "remove") {
		if err := wants(args, 2); err != nil {
			return err
		}
		value, suffixes = strings.Clone(args[0]), args[1:]
	}
	for _, f := range suffixes {
		*list = append(*list, bySuffix{strings.ToLower(strings.TrimPrefix(f, ".")), value})
	}
	return nil
}

// setEnv reads SetEnv and UnsetEnv. HJ_ is the server's own (R-RW-6).
func (p *parser) setEnv(s *said, unset bool, args []string) error {
	for _, name := range args {
		if isOwn(name) {
			return fmt.Errorf("variable %q cannot be set", name)
		}
		e := envSet{name: strings.Clone(name), unset: unset}
		if !unset && len(args) > 1 {
			e.value = clean(args[1])
		}
		s.env = append(s.env, e)
		if !unset {
			break
		}
	}
	return nil
}

func isOwn(name string) bool { return len(name) >= 3 && strings.EqualFold(name[:3], "HJ_") }

// setEnvIf reads "SetEnvIf WHAT REGEX [!]NAME[=VALUE]..." and "BrowserMatch REGEX ...".
func (p *parser) setEnvIf(s *said, lower string, args []string) error {
	what := "User-Agent"
	if strings.HasPrefix(lower, "setenvif") {
		what, args = args[0], args[1:]
	}
	if err := wants(args, 2); err != nil {
		return err
	}
	e := envIf{what: strings.Clone(what)}
	var err error
	if e.value, _, err = newPattern(strings.Clone(args[0]), strings.HasSuffix(lower, "nocase")); err != nil {
		return err
	}
	for _, a := range args[1:] {
		name, value, has := strings.Cut(a, "=")
		set := envSet{name: name, value: clean(value)}
		if set.name, set.unset = strings.CutPrefix(name, "!"); !has {
			set.value = "1"
		}
		if set.name == "" || isOwn(set.name) {
			return fmt.Errorf("variable %q cannot be set", set.name)
		}
		set.name, set.value = strings.Clone(set.name), strings.Clone(set.value)
		e.sets = append(e.sets, set)
	}
	s.asks = append(s.asks, e)
	p.asks = true
	return nil
}

// redirect reads Redirect and its like. Those that refuse are read as such before.
func (p *parser) redirect(s *said, lower string, args []string) (err error) {
	r := redirect{status: 302, line: p.line, file: p.file}
	switch {
	case lower == "redirectpermanent":
		r.status = 301
	case lower == "redirecttemp":
	case len(args) > 2 || len(args) == 2 && redirectWords[strings.ToLower(args[0])] != 0:
		if r.status = redirectWords[strings.ToLower(args[0])]; r.status == 0 {
			r.status, err = strconv.Atoi(args[0])
		}
		if args = args[1:]; err != nil || r.status < 300 || r.status > 399 || r.status == 304 {
			return fmt.Errorf("no status that sends elsewhere")
		}
	}
	if err = wants(args, 2); err != nil {
		return err
	}
	if r.to = strings.Clone(args[1]); !strings.HasPrefix(r.to, "/") && !strings.Contains(r.to, ":") && !(lower == "redirectmatch" && strings.HasPrefix(r.to, "$")) {
		return fmt.Errorf("%q is no URL and does not start with a slash", r.to)
	}
	if lower == "redirectmatch" {
		r.match, _, err = newPattern(strings.Clone(args[0]), false)
	} else if r.below = strings.Clone(args[0]); !strings.HasPrefix(r.below, "/") {
		err = fmt.Errorf("%q does not start with a slash", r.below)
	}
	if err == nil {
		s.redirects = append(s.redirects, r)
	}
	return err
}

func (s *said) errorDocument(args []string) error {
	if err := wants(args, 2); err != nil {
		return err
	}
	status, err := strconv.Atoi(args[0])
	if err != nil || status < 400 || status > 599 {
		return fmt.Errorf("%q is no status of an error", args[0])
	}
	d := document{status: status, to: strings.Join(args[1:], " ")}
	switch {
	case strings.EqualFold(d.to, "default"):
		d.to = ""
	case strings.HasPrefix(d.to, "/"), strings.HasPrefix(d.to, "http://"), strings.HasPrefix(d.to, "https://"):
	default:
		d.to, d.isText = strings.TrimPrefix(d.to, `"`), true
	}
	if len(d.to) > maxResult {
		return fmt.Errorf("text over %d bytes", maxResult)
	}
	s.documents = append(s.documents, d)
	return nil
}

func (s *said) directoryIndex(args []string) error {
	var list []string
	for _, name := range args {
		switch {
		case strings.EqualFold(name, "disabled") && len(args) == 1:
		case strings.HasPrefix(name, "/"), strings.Contains(name, ".."), strings.ContainsAny(name, `\`+"\x00"), strings.HasSuffix(name, "/"):
			return fmt.Errorf("%q is not the name of a file in the directory", name)
		default:
			list = append(list, strings.Clone(name))
		}
	}
	s.index, s.hasIndex = list, true
	return nil
}

// options reads Options: of listings and of symbolic links. Where allowOverride does
// not allow it, what restricts counts all the same (R-RW-4).
func (p *parser) options(s *said, args []string) error {
	allowed := p.override&OverrideOptions != 0
	var told, refused []string
	listing, links := int8(0), []linkWord(nil)
	replaces, indexes := false, false // a list without signs replaces all
	for _, a := range args {
		sign, word := byte(0), strings.ToLower(a)
		if word != "" && (word[0] == '+' || word[0] == '-') {
			sign, word = word[0], word[1:]
		}
		replaces = replaces || sign == 0
		minus := sign == '-'
		switch word {
		case "none":
		case "indexes", "all":
			if listing = 1; minus {
				listing = -1
			}
			indexes = indexes || !minus
			if word == "all" {
				links = append(links, linkWord{LinksFollowed, minus})
			}
		case "followsymlinks":
			links = append(links, linkWord{LinksFollowed, minus})
		case "symlinksifownermatch":
			links = append(links, linkWord{LinksOfOwner, minus})
		case "execcgi", "multiviews", "includes", "includesnoexec":
			if !minus {
				told = append(told, a)
			}
		default:
			told = append(told, a)
		}
	}
	if replaces {
		links = append([]linkWord{{LinksRefused, false}}, strictestLast(links)...)
		if !indexes {
			listing = -1
		}
	}
	if !allowed {
		if listing, links, refused = restrictionsOf(args); len(refused) > 0 {
			p.tell(p.line, "Options", "allowOverride does not allow "+strings.Join(refused, ", "), false)
		}
	}
	if listing != 0 {
		s.listing = listing
	}
	if s.links = append(s.links, links...); len(links) > 0 {
		p.links = true
	}
	if len(told) > 0 {
		p.tell(p.line, "Options", "no effect: "+strings.Join(told, ", "), false)
	}
	return nil
}

// strictestLast puts the words about owners behind the others: where one list has
// both, links are for owners.
func strictestLast(list []linkWord) []linkWord {
	slices.SortStableFunc(list, func(a, b linkWord) int { return int(b.links) - int(a.links) })
	return list
}

// restrictionsOf returns what of the words of Options only restricts, and the others.
func restrictionsOf(args []string) (listing int8, links []linkWord, others []string) {
	for _, a := range args {
		switch strings.ToLower(a) {
		case "none":
			listing, links = -1, append(links, linkWord{LinksRefused, false})
		case "-indexes", "-all":
			listing = -1
			if strings.EqualFold(a, "-all") {
				links = append(links, linkWord{LinksFollowed, true})
			}
		case "-followsymlinks":
			links = append(links, linkWord{LinksFollowed, true})
		case "-symlinksifownermatch":
			links = append(links, linkWord{LinksOfOwner, true})
		case "symlinksifownermatch", "+symlinksifownermatch":
			links = append(links, linkWord{LinksOfOwner, false})
		default:
			others = append(others, a)
		}
	}
	return listing, links, others
}

// expire reads the directives of mod_expires.
func (s *said) expire(lower string, args []string) error {
	switch lower {
	case "expiresactive":
		if s.expires = 1; isOff(args[0]) {
			s.expires = -1
		}
		return nil
	case "expiresdefault":
		l, err := headers.ParseExpiry(strings.Join(args, " "))
		if err == nil {
			s.lifetime = &l
		}
		return err
	}
	if err := wants(args, 2); err != nil {
		return err
	}
	l, err := headers.ParseExpiry(strings.Join(args[1:], " "))
	if err == nil {
		s.lifetimeOf = append(s.lifetimeOf, typeLifetime{strings.ToLower(args[0]), l})
	}
	return err
}

// unsettable reports the fields that frame a message, or are the server's own.
func unsettable(name string) bool {
	return headers.Framing(name) || exchange.EqualName(name, "Date") || exchange.EqualName(name, "X-Request-Id")
}

// headerArgs is how many arguments each operation has, with the name of the field.
var headerArgs = [...]int{headers.Set: 2, headers.Append: 2, headers.Merge: 2, headers.Add: 2, headers.Unset: 1, headers.Edit: 3, headers.EditAll: 3, headers.SetIfEmpty: 2}

// header reads "Header [always|onsuccess] OP NAME [VALUE [REPLACEMENT]] [env=|expr=]".
func (p *parser) header(sec *section, s *said, request bool, args []string) (err error) {
	h := headerEdit{in: sec}
	if word := strings.ToLower(args[0]); word == "always" || word == "onsuccess" {
		h.always, args = word == "always", args[1:]
	}
	if err = wants(args, 2); err != nil {
		return err
	}
	var ok bool
	h.op, ok = headers.Actions[strings.ToLower(args[0])]
	h.name = strings.TrimSuffix(strings.Clone(args[1]), ":")
	need := headerArgs[h.op]
	switch {
	case !ok:
		return fmt.Errorf("operation %q is not honoured", args[0])
	case !isToken(h.name):
		return fmt.Errorf("%q is no name of a field", h.name)
	case unsettable(h.name):
		return fmt.Errorf("field %q is the server's own", h.name)
	}
	args = args[1:]
	if err = wants(args, need); err != nil {
		return err
	}
	if len(args) > need {
		last := args[need]
		if name, ok := strings.CutPrefix(last, "env="); ok {
			h.env = strings.Clone(name)
		} else if text, ok := strings.CutPrefix(last, "expr="); ok {
			if h.when = p.expression(unquoteAll(text)); h.when == nil {
				return fmt.Errorf("its condition cannot be asked")
			}
		} else if !strings.EqualFold(last, "early") {
			return fmt.Errorf("%q stands behind the value", last)
		}
	}
	value := args[need-1]
	switch h.op {
	case headers.Unset:
		value = ""
	case headers.Edit, headers.EditAll:
		if h.find, err = regexp.Compile(args[1]); err != nil {
			return err
		}
		h.value = []formatPart{{text: apacheGroups(clean(value))}}
		value = ""
	}
	if value != "" || h.value == nil {
		if h.value, err = p.format(value); err != nil {
			return err
		}
	}
	if request {
		s.requests = append(s.requests, h)
	} else {
		s.headers = append(s.headers, h)
	}
	return nil
}

func isToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isNameByte(c) && strings.IndexByte("!#$%&'*+-.^`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// apacheGroups makes a replacement of package regexp of one of Apache: "$1" ends where
// its digit does.
func apacheGroups(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '$' && i+1 < len(s) && '0' <= s[i+1] && s[i+1] <= '9':
			b.WriteString("${" + s[i+1:i+2] + "}")
			i++
		case s[i] == '$':
			b.WriteString("$$")
		case s[i] == '\\' && i+1 < len(s) && s[i+1] == '$':
			b.WriteString("$$")
			i++
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// format reads the value of a Header.
func (p *parser) format(s string) ([]formatPart, error) {
	if text, ok := strings.CutPrefix(s, "expr="); ok {
		t, err := p.texts.readTemplate(strings.Clone(unquoteAll(text)), false, false)
		return []formatPart{{kind: 'x', t: t}}, err
	}
	var out []formatPart
	for s != "" {
		text, rest, found := strings.Cut(s, "%")
		if text != "" {
			out = append(out, formatPart{text: strings.Clone(clean(text))})
		}
		if !found {
			break
		}
		s = rest
		switch {
		case strings.HasPrefix(s, "%"):
			out, s = append(out, formatPart{text: "%"}), s[1:]
		case strings.HasPrefix(s, "t"), strings.HasPrefix(s, "D"):
			out, s = append(out, formatPart{kind: s[0]}), s[1:]
		case strings.HasPrefix(s, "{"):
			name, rest, ok := strings.Cut(s[1:], "}")
			if !ok || rest == "" || rest[0] != 'e' && rest[0] != 's' {
				return nil, fmt.Errorf("%%%.20s is not honoured in a value", s)
			}
			f := formatPart{kind: rest[0], text: strings.Clone(name)}
			if rest[0] == 's' {
				v, arg, _ := parseVariable(name)
				f.t = template{{kind: value, v: v, text: arg}}
			}
			out, s = append(out, f), rest[1:]
		default:
			return nil, fmt.Errorf("%%%.20s is not honoured in a value", s)
		}
	}
	return out, nil
}
