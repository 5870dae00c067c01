package xmlconf

import (
	"errors"
	"net"
	"net/netip"
	"path"
	"strconv"
	"strings"
)

// Address is where a processor or WebSocket backend listens, and how it is
// spoken to (R-CONV-8).
type Address struct {
	Scheme  string // http, https, h2, h2s; "" for FastCGI and LSAPI
	Network string // tcp or unix
	Address string // host:port, host in lower case; or the socket's path
	TLSName string // host to verify, for https and h2s
}

// AddressUse is what an address is for: it decides which schemes are legal.
type AddressUse uint8

const (
	ProxyAddress     AddressUse = iota + 1 // processor of type proxy
	AppAddress                             // FastCGI, LSAPI: no scheme, port required
	WebSocketAddress                       // ws and wss too; without a scheme the port is required
)

// An AddressError says what is wrong with an address and what to write.
type AddressError struct{ Msg, Hint string }

func (e *AddressError) Error() string { return e.Msg }

// hintOf returns the hint of an error of this file.
func hintOf(err error) string {
	if ae, ok := errors.AsType[*AddressError](err); ok {
		return ae.Hint
	}
	return ""
}

// maxSocketPath is the longest path of a Unix socket (sun_path).
const maxSocketPath = 107

// ParseAddress reads the address of a backend. Variables are expanded before.
func ParseAddress(text string, use AddressUse) (Address, error) {
	if text == "" {
		return Address{}, &AddressError{"is empty", "write host:port"}
	}
	low := strings.ToLower(text)
	for _, prefix := range []string{"uds://", "unix:", "/"} {
		if strings.HasPrefix(low, prefix) {
			return unixAddress(strings.TrimPrefix(text[len(prefix):], "//"), use)
		}
	}
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		scheme, rest = "", text
	}
	a := Address{Network: "tcp"}
	port := ""
	switch s := strings.ToLower(scheme); {
	case s == "" || s == "tcp" || s == "tcp6":
		if use == ProxyAddress {
			a.Scheme, port = "http", "80"
		} else if use == WebSocketAddress {
			a.Scheme = "http"
		}
	case use == AppAddress && (s == "http" || s == "https" || s == "h2" || s == "h2s"):
		return Address{}, &AddressError{"scheme " + quote(scheme) + " is for processors of type proxy", "write host:port or uds://path"}
	case use == AppAddress:
		return Address{}, &AddressError{"scheme " + quote(scheme) + " is unknown", "write host:port or uds://path"}
	case s == "http" || s == "h2" || s == "ws" && use == WebSocketAddress:
		a.Scheme, port = s, "80"
	case s == "https" || s == "h2s" || s == "wss" && use == WebSocketAddress:
		a.Scheme, port = s, "443"
	default:
		return Address{}, &AddressError{"scheme " + quote(scheme) + " is unknown", "use http, https, h2, h2s or uds"}
	}
	a.Scheme = strings.Replace(a.Scheme, "ws", "http", 1)
	host, err := splitHost(rest, &port)
	if err != nil {
		return Address{}, err
	}
	a.Address = net.JoinHostPort(host, port)
	if a.Scheme == "https" || a.Scheme == "h2s" {
		a.TLSName = host
	}
	return a, nil
}

// unixAddress reads what stands behind uds:// or unix:. The leading slash is
// optional: uds://tmp/x is /tmp/x (LSX 3.3).
func unixAddress(p string, use AddressUse) (Address, error) {
	if p == "" || strings.HasSuffix(p, "/") || strings.ContainsAny(p, "\x00?#") {
		return Address{}, &AddressError{"holds no path of a socket", "write uds://run/app.sock"}
	}
	p = path.Clean("/" + p)
	if len(p) > maxSocketPath {
		return Address{}, &AddressError{"path of the socket is longer than 107 bytes", ""}
	}
	a := Address{Network: "unix", Address: p}
	if use != AppAddress {
		a.Scheme = "http"
	}
	return a, nil
}

// splitHost reads authority and an optional final slash. *port is the default
// and becomes the port; without a default the port is required.
func splitHost(s string, port *string) (string, error) {
	switch {
	case strings.Contains(s, "@"):
		return "", &AddressError{"holds user information", "remove what stands before @"}
	case strings.ContainsAny(s, "?#"):
		return "", &AddressError{"holds a query or fragment", "write host:port only"}
	}
	s = strings.TrimSuffix(s, "/")
	if strings.Contains(s, "/") {
		return "", &AddressError{"holds a path", "write host:port only; a path goes into pathRewrite of the context"}
	}
	host, p := s, ""
	if v6, rest, ok := strings.Cut(s, "]"); ok && strings.HasPrefix(s, "[") {
		ip, err := netip.ParseAddr(v6[1:])
		if err != nil || !ip.Is6() || rest != "" && rest[0] != ':' {
			return "", &AddressError{quote(s) + " is no IPv6 address in brackets", "write [::1]:9000"}
		}
		host, p = ip.String(), strings.TrimPrefix(rest, ":")
		if rest == ":" {
			return "", &AddressError{"port is missing", "write [::1]:9000"}
		}
	} else if name, after, found := strings.Cut(s, ":"); found {
		if strings.Contains(after, ":") {
			return "", &AddressError{quote(s) + " is an IPv6 address without brackets", "write [::1]:9000"}
		}
		host, p = name, after
		if p == "" {
			return "", &AddressError{"port is missing", "write host:port"}
		}
	}
	if !strings.Contains(host, ":") && !validHost(host) {
		return "", &AddressError{quote(host) + " is no host", "write a name or an IP address"}
	}
	if p == "" && *port == "" {
		return "", &AddressError{"port is missing", "write host:port"}
	}
	if p != "" {
		n, ok := validPort(p)
		if !ok {
			return "", &AddressError{"port " + quote(p) + " is out of range 1..65535", ""}
		}
		*port = n
	}
	return strings.ToLower(host), nil
}

// validHost accepts host names and IPv4 addresses. Underscores occur in names
// of containers.
func validHost(h string) bool {
	if h == "" || len(h) > 253 {
		return false
	}
	for _, c := range []byte(h) {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_' {
			return false
		}
	}
	if strings.Trim(h, "0123456789.") == "" { // 300.1.1.1 and 1.2.3 are no names
		_, err := netip.ParseAddr(h)
		return err == nil
	}
	return h[0] != '.' && h[0] != '-'
}

// validPort returns the port without leading zeros, so that equal addresses
// compare equal.
func validPort(p string) (string, bool) {
	n, err := strconv.ParseUint(p, 10, 16)
	return strconv.FormatUint(n, 10), err == nil && n > 0
}

func quote(s string) string { return strconv.Quote(cut(s)) }

// ListenAddress is where a listener binds (LSX 5.2).
type ListenAddress struct {
	Host string // "" all addresses of the family; else an IP address or a name
	Port uint16
	V6   bool // of a listener on all addresses: IPv6 (the form [ANY]); else IPv4 (*)
}

// String is host:port, * and [::] for all addresses.
func (a ListenAddress) String() string {
	host := a.Host
	switch {
	case host == "" && a.V6:
		host = "::"
	case host == "":
		return "*:" + strconv.Itoa(int(a.Port))
	}
	return net.JoinHostPort(host, strconv.Itoa(int(a.Port)))
}

// ParseListenAddress reads the address of a listener; the port is required.
func ParseListenAddress(text string) (ListenAddress, error) {
	i := strings.LastIndexByte(text, ':')
	if i < 0 || strings.HasSuffix(text, "]") {
		return ListenAddress{}, &AddressError{"port is missing", "write *:80, 192.0.2.1:80 or [::]:443"}
	}
	host, p := text[:i], text[i+1:]
	digits, ok := validPort(p)
	if !ok {
		return ListenAddress{}, &AddressError{"port " + quote(p) + " is out of range 1..65535", ""}
	}
	port, _ := strconv.ParseUint(digits, 10, 16)
	a := ListenAddress{Port: uint16(port)}
	inner, v6 := strings.CutPrefix(host, "[")
	if v6 && strings.HasSuffix(inner, "]") {
		inner = inner[:len(inner)-1]
	} else if v6 {
		return ListenAddress{}, &AddressError{quote(host) + " is no address", "write [::]:443"}
	}
	ip, err := netip.ParseAddr(inner)
	switch any := inner == "*" || strings.EqualFold(inner, "any") || strings.EqualFold(inner, "all"); {
	case any, err == nil && ip.IsUnspecified() && (v6 || ip.Is4()):
		a.V6 = v6
	case err == nil && (ip.Is4() || v6):
		a.Host, a.V6 = ip.String(), ip.Is6()
	case v6 || strings.Contains(inner, ":"):
		return ListenAddress{}, &AddressError{quote(host) + " is no address", "write an IPv6 address in brackets, as [::1]:443"}
	case !validHost(inner):
		return ListenAddress{}, &AddressError{quote(host) + " is no address", "write *:80, 192.0.2.1:80 or [::]:443"}
	default:
		a.Host = strings.ToLower(inner)
	}
	return a, nil
}
