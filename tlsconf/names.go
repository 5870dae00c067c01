package tlsconf

import (
	"crypto/tls"
	"errors"
	"strings"
)

// Names chooses the configuration of a listener by server name. It is built
// once and then only read.
type Names struct {
	// Default serves clients that name no host, and hosts without a certificate
	// of their own.
	Default *tls.Config
	// Strict refuses a name that no host has (sslStrictSni).
	Strict bool

	exact    map[string]*tls.Config
	patterns []namePattern
	catchAll *tls.Config
	hasAll   bool
}

type namePattern struct {
	glob string
	conf *tls.Config
}

// Add maps a domain, as a listener maps it to a host: an exact name, a pattern
// with '*' and '?', or "*" for all others. The first of equal names stays. A nil
// conf means Default: a host without a certificate of its own still hides the
// patterns behind it.
func (n *Names) Add(domain string, conf *tls.Config) {
	domain = normal(domain)
	switch {
	case domain == "*":
		if !n.hasAll {
			n.catchAll, n.hasAll = conf, true
		}
	case strings.ContainsAny(domain, "*?"):
		n.patterns = append(n.patterns, namePattern{domain, conf})
	default:
		if n.exact == nil {
			n.exact = map[string]*tls.Config{}
		}
		if _, dup := n.exact[domain]; !dup {
			n.exact[domain] = conf
		}
	}
}

// Choose returns the configuration for the name a client asked for: exact name,
// then patterns in the order of Add, then the catch-all, then Default. It is an
// error if there is none, or if Strict and nobody has the name.
func (n *Names) Choose(serverName string) (*tls.Config, error) {
	conf, found := n.find(normal(serverName))
	if !found && n.Strict && serverName != "" {
		return nil, errors.New("no host has that server name")
	}
	if conf == nil {
		conf = n.Default
	}
	if conf == nil {
		return nil, errors.New("no certificate for that server name")
	}
	return conf, nil
}

func (n *Names) find(name string) (*tls.Config, bool) {
	if name == "" {
		return nil, false
	}
	if conf, ok := n.exact[name]; ok {
		return conf, true
	}
	for _, p := range n.patterns {
		if globMatch(p.glob, name) {
			return p.conf, true
		}
	}
	return n.catchAll, n.hasAll
}

// normal is how names are compared: lower case, without a final dot and a
// leading "www." (R-LSN-3).
func normal(name string) string {
	name = strings.TrimSuffix(strings.ToLower(strings.TrimSpace(name)), ".")
	return strings.TrimPrefix(name, "www.")
}

// globMatch matches '*' with any bytes and '?' with one. It goes back to the
// last '*' only, so its time is bounded by the product of the lengths.
func globMatch(glob, s string) bool {
	star, mark, i, j := -1, 0, 0, 0
	for j < len(s) {
		switch {
		case i < len(glob) && glob[i] == '*':
			star, mark = i, j
			i++
		case i < len(glob) && (glob[i] == '?' || glob[i] == s[j]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(glob[i:], "*") == ""
}
