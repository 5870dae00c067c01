package script

import (
	"crypto/tls"
	"net/netip"
	"strconv"
	"strings"

	"httpjet/exchange"
)

// serverSoftware is SERVER_SOFTWARE, which applications read unconditionally.
const serverSoftware = "httpjet"

// protected are the variables that only the server sets (R-FCGI-8), beside the
// names that begin with HTTP_ or SSL_.
var protected = map[string]bool{
	"GATEWAY_INTERFACE": true, "SERVER_SOFTWARE": true, "SERVER_PROTOCOL": true, "SERVER_NAME": true,
	"SERVER_PORT": true, "SERVER_ADDR": true, "REQUEST_METHOD": true, "REQUEST_SCHEME": true,
	"REQUEST_URI": true, "QUERY_STRING": true, "SCRIPT_FILENAME": true, "SCRIPT_NAME": true,
	"PATH_INFO": true, "PATH_TRANSLATED": true, "DOCUMENT_ROOT": true, "DOCUMENT_URI": true,
	"REMOTE_ADDR": true, "REMOTE_PORT": true, "CONTENT_TYPE": true, "CONTENT_LENGTH": true,
	"HTTPS": true, "REDIRECT_STATUS": true, "AUTH_TYPE": true, "REMOTE_USER": true,
	"PHP_VALUE": true, "PHP_ADMIN_VALUE": true,
}

// setsPHP are the variables by which a FastCGI application that is PHP takes settings.
// A worker keeps them for the requests behind, those of other hosts too, so that they
// are for the operator alone: in env of a processor, or phpIniOverride.
var setsPHP = map[string]bool{"PHP_VALUE": true, "PHP_ADMIN_VALUE": true}

// Protected reports whether neither a processor's env nor a rewrite rule may set
// the variable called name (R-FCGI-8).
func Protected(name string) bool {
	return protected[name] || strings.HasPrefix(name, "HTTP_") || strings.HasPrefix(name, "SSL_")
}

// variables adds the CGI variables of x to v (R-FCGI-7). What the server derives
// and what the client names never share a variable: the latter begins with HTTP_.
func (h *Handler) variables(v *exchange.Fields, x *exchange.Exchange, t target) {
	v.Add("GATEWAY_INTERFACE", "CGI/1.1")
	v.Add("SERVER_SOFTWARE", serverSoftware)
	v.Add("SERVER_PROTOCOL", x.Req.Proto)
	v.Add("REQUEST_METHOD", x.Req.Method)
	v.Add("REQUEST_SCHEME", x.Req.Scheme)
	v.Add("REQUEST_URI", x.Req.Target)
	v.Add("QUERY_STRING", x.Req.Query) // also when empty
	if t.filename != "" {
		v.Add("SCRIPT_FILENAME", t.filename)
	}
	v.Add("SCRIPT_NAME", t.name)
	if t.pathInfo != "" {
		v.Add("PATH_INFO", t.pathInfo)
		v.Add("PATH_TRANSLATED", t.docRoot+t.pathInfo)
	}
	v.Add("DOCUMENT_ROOT", t.docRoot)
	v.Add("DOCUMENT_URI", t.uri)
	v.Add("REDIRECT_STATUS", "200") // php-cgi runs nothing without it
	h.addServer(v, &x.Req)
	addClient(v, x)
	if x.Req.User != "" {
		v.Add("AUTH_TYPE", "Basic")
		v.Add("REMOTE_USER", x.Req.User)
	}
	addBody(v, &x.Req)
	if x.Req.Scheme == "https" {
		v.Add("HTTPS", "on")
	}
	if x.Req.TLS != nil {
		addTLS(v, x.Req.TLS)
	}
	addHeader(v, &x.Req)
	if x.Steered { // plug-ins look for it before they say what is cached (LSX 10.2)
		v.Add("X-LSCACHE", "on")
	}
	for _, f := range x.Env { // R-RW-6
		if !Protected(f.Name) {
			v.Add(f.Name, f.Value)
		}
	}
	for _, f := range h.env {
		v.Add(f.Name, f.Value)
	}
}

func (h *Handler) addServer(v *exchange.Fields, r *exchange.Request) {
	name := hostName(r.Host)
	if name == "" {
		name = h.o.ServerName
	}
	port := "80"
	if r.Scheme == "https" {
		port = "443"
	}
	if r.Local.IsValid() {
		addr := h.localText(r.Local.Addr())
		if name == "" {
			name = addr
		}
		v.Add("SERVER_ADDR", addr)
		port = strconv.Itoa(int(r.Local.Port()))
	}
	v.Add("SERVER_NAME", name)
	v.Add("SERVER_PORT", port)
}

// localText is an address of this server without its zone. A listener has few.
func (h *Handler) localText(a netip.Addr) string {
	if l := h.local.Load(); l != nil && l.addr == a {
		return l.text
	}
	l := &localAddr{a, a.Unmap().WithZone("").String()}
	h.local.Store(l)
	return l.text
}

// hostName cuts the port off a Host; the brackets of an IPv6 address stay (RFC
// 3875 §4.1.14).
func hostName(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && i > strings.LastIndexByte(host, ']') {
		return host[:i]
	}
	return host
}

// addClient adds the resolved client. The port is that of the connection. A
// client without an address came through a Unix socket.
func addClient(v *exchange.Fields, x *exchange.Exchange) {
	r := &x.Req
	switch client := x.ClientText(); {
	case client != "":
		v.Add("REMOTE_ADDR", client)
	case r.Remote.Addr() != (netip.Addr{}):
		v.Add("REMOTE_ADDR", r.Remote.Addr().Unmap().WithZone("").String())
	default:
		v.Add("REMOTE_ADDR", "unix:")
		return
	}
	if r.Remote.IsValid() {
		v.Add("REMOTE_PORT", strconv.Itoa(int(r.Remote.Port())))
	}
}

// addBody describes the body. For one of unknown length the client of the
// protocol adds CONTENT_LENGTH when it has counted it (R-FCGI-6).
func addBody(v *exchange.Fields, r *exchange.Request) {
	if t := r.Fields.Get("Content-Type"); t != "" && isPrintable(t) {
		v.Add("CONTENT_TYPE", t)
	}
	if r.Length > 0 || r.Length == 0 && r.Fields.Has("Content-Length") {
		v.Add("CONTENT_LENGTH", strconv.FormatInt(r.Length, 10))
	}
}

// tlsVariables are those that applications get, where they are not empty.
var tlsVariables = [...]string{"SSL_PROTOCOL", "SSL_CIPHER", "SSL_CIPHER_USEKEYSIZE", "SSL_CIPHER_ALGKEYSIZE", "SSL_TLS_SNI", "SSL_CLIENT_VERIFY"}

// certVariables are those of a certificate of the client that was verified.
var certVariables = [...]string{"SSL_CLIENT_S_DN", "SSL_CLIENT_I_DN", "SSL_CLIENT_M_SERIAL", "SSL_CLIENT_M_VERSION", "SSL_CLIENT_V_START", "SSL_CLIENT_V_END", "SSL_CLIENT_CERT"}

// addTLS adds what is known of the connection. Only a certificate that was
// verified is described.
func addTLS(v *exchange.Fields, s *tls.ConnectionState) {
	for _, name := range tlsVariables {
		if value, _ := exchange.TLSVariable(s, name); value != "" {
			v.Add(name, value)
		}
	}
	if len(s.VerifiedChains) == 0 {
		return
	}
	for _, name := range certVariables {
		value, _ := exchange.TLSVariable(s, name)
		v.Add(name, value)
	}
}
