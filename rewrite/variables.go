package rewrite

import (
	"bytes"
	"net/netip"
	"path"
	"strconv"
	"strings"
	"time"

	"httpjet/exchange"
)

// Host is what rules may ask of the virtual host and the machine. It is shared by
// its programs.
type Host struct {
	Name     string
	DocRoot  string
	Admin    string
	Software string // SERVER_SOFTWARE

	Stat func(path string, follow bool) Info // nil: the file system
	Now  func() time.Time                    // nil: time.Now
	Rand func(n int) int                     // one of n, for rnd: maps; nil: by chance
}

func (h *Host) now() time.Time {
	if h.Now == nil {
		return time.Now()
	}
	return h.Now()
}

// variable is a name in %{...}.
type variable uint8

const (
	empty variable = iota // known, and always empty
	remoteAddr
	remotePort
	remoteUser
	authType
	serverAddr
	serverPort
	requestMethod
	requestURI
	currentURI
	theRequest
	queryString
	pathInfo
	requestFilename
	scriptName
	requestBasename
	orgURI
	orgQuery
	scriptURI
	serverProtocol
	requestScheme
	documentRoot
	contextPrefix
	contextRoot
	serverName
	serverAdmin
	serverSoftware
	apiVersion
	vhName
	timeAll
	timeYear
	timeMon
	timeDay
	timeHour
	timeMin
	timeSec
	timeWday
	https
	tlsValue // with its name
	isSubrequest
	ipv6
	httpHost
	httpField // with its name
	envValue  // with its name
)

var variables = map[string]variable{
	"REMOTE_ADDR": remoteAddr, "REMOTE_HOST": remoteAddr, "CONN_REMOTE_ADDR": remoteAddr, "REMOTE_PORT": remotePort,
	"REMOTE_USER": remoteUser, "REMOTE_IDENT": empty, "AUTH_TYPE": authType, "SERVER_ADDR": serverAddr, "SERVER_PORT": serverPort,
	"REQUEST_METHOD": requestMethod, "REQUEST_URI": requestURI, "CURRENT_URI": currentURI, "THE_REQUEST": theRequest,
	"QUERY_STRING": queryString, "PATH_INFO": pathInfo, "REQUEST_FILENAME": requestFilename, "SCRIPT_FILENAME": requestFilename,
	"SCRIPT_NAME": currentURI, "REQUEST_BASENAME": requestBasename, "SCRIPT_BASENAME": requestBasename,
	"ORG_REQ_URI": orgURI, "ORG_QUERY_STRING": orgQuery, "SCRIPT_URI": scriptURI, "SCRIPT_URL": currentURI,
	"SERVER_PROTOCOL": serverProtocol, "REQUEST_SCHEME": requestScheme, "DOCUMENT_ROOT": documentRoot,
	"CONTEXT_PREFIX": contextPrefix, "CONTEXT_DOCUMENT_ROOT": contextRoot, "SERVER_NAME": serverName,
	"SERVER_ADMIN": serverAdmin, "SERVER_SOFTWARE": serverSoftware, "API_VERSION": apiVersion, "VH_NAME": vhName, "VH_USER": empty,
	"TIME": timeAll, "TIME_YEAR": timeYear, "TIME_MON": timeMon, "TIME_DAY": timeDay, "TIME_HOUR": timeHour,
	"TIME_MIN": timeMin, "TIME_SEC": timeSec, "TIME_WDAY": timeWday,
	"SCRIPT_UID": empty, "SCRIPT_GID": empty, "SCRIPT_USERNAME": empty, "SCRIPT_GROUPNAME": empty, "SCRIPT_MODE": empty,
	"SCRIPT_USER": empty, "SCRIPT_GROUP": empty, "HANDLER": empty,
	"HTTPS": https, "IS_SUBREQ": isSubrequest, "IPV6": ipv6, "HTTP_HOST": httpHost,
}

// parseVariable knows the name of a variable, in any case, and the argument of
// HTTP: and ENV:, and the names of what TLS tells.
func parseVariable(name string) (v variable, arg string, ok bool) {
	upper := strings.ToUpper(name)
	for _, p := range []string{"LA-U:", "LA-F:", "SSL:"} { // the value is the current one
		if strings.HasPrefix(upper, p) {
			name, upper = name[len(p):], upper[len(p):]
		}
	}
	switch {
	case strings.HasPrefix(upper, "ENV:"):
		return envValue, strings.Clone(name[4:]), len(name) > 4
	case strings.HasPrefix(upper, "HTTP:"):
		if arg = strings.TrimSpace(name[5:]); strings.EqualFold(arg, "Host") {
			return httpHost, "", true
		}
		return httpField, strings.Clone(arg), arg != ""
	}
	if v, ok := variables[upper]; ok {
		return v, "", true
	}
	if _, ok := exchange.TLSVariable(nil, upper); ok {
		return tlsValue, strings.Clone(upper), true
	}
	if rest, ok := strings.CutPrefix(upper, "HTTP_"); ok && rest != "" {
		return httpField, strings.ReplaceAll(rest, "_", "-"), true
	}
	return empty, "", false
}

// decoded reports whether a percent sign in the value stands for itself.
func (v variable) decoded() bool {
	switch v {
	case theRequest, queryString, orgURI, orgQuery, httpField, envValue:
		return false
	}
	return true
}

// variable returns a value. It takes no memory but for those that are made of
// others.
func (r *run) variable(v variable, arg string) string {
	x := r.x
	q := &x.Req
	switch v {
	case remoteAddr:
		return x.ClientText()
	case remoteUser:
		return q.User
	case authType:
		if q.User != "" {
			return "Basic"
		}
	case remotePort:
		return port(q.Remote)
	case serverAddr:
		if a := q.Local.Addr(); a.IsValid() {
			return a.Unmap().WithZone("").String()
		}
	case serverPort:
		if s := port(q.Local); s != "" {
			return s
		}
		if q.Scheme == "https" {
			return "443"
		}
		return "80"
	case requestMethod:
		return q.Method
	case requestURI:
		return q.Path
	case currentURI:
		return r.path
	case theRequest:
		return q.Method + " " + q.Target + " " + q.Proto
	case queryString:
		return r.query
	case requestFilename:
		return r.filename()
	case pathInfo:
		if r.p.prefix != "" {
			r.filename()
			return r.behind
		}
	case requestBasename:
		return path.Base(r.path)
	case orgURI, orgQuery:
		uri, query, _ := strings.Cut(q.Target, "?")
		if v == orgQuery {
			return query
		}
		return uri
	case scriptURI:
		return q.Scheme + "://" + q.Host + r.path
	case serverProtocol:
		return q.Proto
	case requestScheme:
		return q.Scheme
	case https:
		if q.Scheme == "https" {
			return "on"
		}
		return "off"
	case httpHost:
		return q.Host
	case httpField:
		return q.Fields.Get(arg)
	case envValue:
		return env(x, arg)
	case tlsValue:
		value, _ := exchange.TLSVariable(q.TLS, arg)
		return value
	}
	return r.hostVariable(v)
}

// hostVariable returns a value that is not the request's own.
func (r *run) hostVariable(v variable) string {
	switch v {
	case documentRoot:
		return r.host.DocRoot
	case contextRoot:
		return r.p.dir
	case contextPrefix:
		return strings.TrimSuffix(r.p.prefix, "/")
	case serverName:
		return withoutPort(r.x.Req.Host)
	case serverAdmin:
		return r.host.Admin
	case serverSoftware:
		return r.host.Software
	case apiVersion:
		return "20120211:0"
	case vhName:
		return r.host.Name
	case isSubrequest:
		return "false"
	case ipv6:
		if a := r.x.Req.Client; a.Is6() && !a.Is4In6() {
			return "on"
		}
		return "off"
	}
	if layout, ok := timeLayouts[v]; ok {
		return r.host.now().Format(layout)
	}
	if v == timeWday {
		return strconv.Itoa(int(r.host.now().Weekday()))
	}
	return ""
}

var timeLayouts = map[variable]string{timeAll: "20060102150405", timeYear: "2006", timeMon: "01", timeDay: "02",
	timeHour: "15", timeMin: "04", timeSec: "05"}

// filename is the path on disk that the current URI names, whether it is there or not.
func (r *run) filename() string {
	if r.locate(); r.file == "" {
		r.file = string(r.name)
	}
	return r.file
}

// locate sets name, and behind, for the current URI. In contexts and directories what
// stands behind a file is path info. The last answer is remembered: -f and -d of a block
// ask for the same.
func (r *run) locate() {
	if len(r.name) > 0 && r.nameOf == r.path {
		return
	}
	rest, ok := strings.CutPrefix(r.path, strings.TrimSuffix(r.p.prefix, "/"))
	dir := r.p.dir
	if !ok {
		rest, dir = r.path, r.host.DocRoot
	}
	r.name = append(append(append(r.name[:0], strings.TrimSuffix(dir, "/")...), rest...), 0) // with room, see statx
	r.name = r.name[:len(r.name)-1]
	r.nameOf, r.file, r.behind, r.named = r.path, "", "", false
	if r.p.prefix == "" || !r.statName(true).BelowFile {
		return
	}
	for i := len(r.name); i > len(r.name)-len(rest); {
		if i = bytes.LastIndexByte(r.name[:i], '/'); i <= 0 {
			return
		}
		if info := r.look(r.name[:i:i], true); info.Exists {
			if !info.Dir {
				r.behind = string(r.name[i:])
				r.name, r.named = r.name[:i], false
			}
			return
		}
	}
}

// statName looks at name, which locate has set, once.
func (r *run) statName(follow bool) Info {
	if !r.named || r.nameFollow != follow {
		r.named, r.nameFollow, r.nameInfo = true, follow, r.look(r.name, follow)
	}
	return r.nameInfo
}

func port(a netip.AddrPort) string {
	if !a.IsValid() {
		return ""
	}
	return strconv.Itoa(int(a.Port()))
}

func withoutPort(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && i > strings.LastIndexByte(host, ']') {
		return host[:i]
	}
	return host
}

// env is a variable that a rule of the request has set.
func env(x *exchange.Exchange, name string) string {
	for i := range x.Env {
		if x.Env[i].Name == name {
			return x.Env[i].Value
		}
	}
	return ""
}

func hasVariable(x *exchange.Exchange, name string) bool {
	for i := range x.Env {
		if x.Env[i].Name == name {
			return true
		}
	}
	return false
}

func setVariable(x *exchange.Exchange, name, value string) {
	if list := listOf(name); list != "" {
		if rest, is := strings.CutPrefix(value, "vary="); is && list == cacheControl {
			list, value = "Cache-Vary-Value", rest
		}
		name = list
		if old := env(x, name); old != "" && list != "Cache-Vary-Value" && len(old)+len(value) < maxResult {
			value = old + "," + value
		}
	}
	for i := range x.Env {
		if x.Env[i].Name == name {
			x.Env[i].Value = value
			return
		}
	}
	if len(x.Env) < maxEnv {
		x.Env = append(x.Env, exchange.Field{Name: name, Value: value})
	}
}

const cacheControl = "Cache-Control"

// listOf returns the spelling of a variable of a page cache, which is one whatever rules
// write and has all its values with commas between them; "" for other variables.
func listOf(name string) string {
	switch {
	case len(name) < 10 || name[0]|0x20 != 'c':
	case exchange.EqualName(name, cacheControl), exchange.EqualName(name, "Cache-Ctrl"):
		return cacheControl
	case exchange.EqualName(name, "Cache-Vary"):
		return "Cache-Vary"
	case exchange.EqualName(name, "Cache-Key-Mod"):
		return "Cache-Key-Mod"
	}
	return ""
}

// maxEnv is how many variables the rules may set for one request.
const maxEnv = 256

func unsetVariable(x *exchange.Exchange, name string) {
	if list := listOf(name); list != "" {
		name = list
	}
	for i := range x.Env {
		if x.Env[i].Name == name {
			x.Env = append(x.Env[:i], x.Env[i+1:]...)
			return
		}
	}
}
