package tlsconf

import (
	"crypto/tls"
	"errors"
	"strings"

	"httpjet/domains"
)

// Names chooses the configuration of a listener by server name. It is built
// once and then only read.
type Names struct {
	// Default serves clients that name no host, and hosts without a certificate
	// of their own.
	Default *tls.Config
	// Strict refuses a name that no host has (sslStrictSni).
	Strict bool

	hosts domains.Map[*tls.Config]
	exact map[string]*tls.Config      // before hosts; names in lower case
	quic  map[*tls.Config]*tls.Config // what conf becomes for QUIC
}

// Add maps a domain, as the listener maps it to a host. A nil conf means Default:
// a host without a certificate of its own still hides the patterns behind it.
func (n *Names) Add(domain string, conf *tls.Config) { n.hosts.Add(domain, conf) }

// AddExact gives one name settings of its own, whatever host has it.
func (n *Names) AddExact(name string, conf *tls.Config) {
	if n.exact == nil {
		n.exact = map[string]*tls.Config{}
	}
	n.exact[strings.ToLower(name)] = conf
}

// Of returns the settings for a name as hosts have it, Default without any.
func (n *Names) Of(name string) *tls.Config {
	if conf, _ := n.hosts.Find(name); conf != nil {
		return conf
	}
	return n.Default
}

// Choose returns the configuration for the name a client asked for: that of the
// host which answers for it, else Default, which also serves a client without a
// name. It is an error if there is none, or if Strict and nobody has the name.
func (n *Names) Choose(serverName string) (*tls.Config, error) {
	var conf *tls.Config
	if serverName != "" {
		var found bool
		if n.exact != nil {
			if conf = n.exact[strings.ToLower(strings.TrimSuffix(serverName, "."))]; conf != nil {
				return conf, nil
			}
		}
		if conf, found = n.hosts.Find(serverName); !found && n.Strict {
			return nil, errors.New("no host has that server name")
		}
	}
	if conf == nil {
		conf = n.Default
	}
	if conf == nil {
		return nil, errors.New("no certificate for that server name")
	}
	return conf, nil
}

// AllowQUIC makes names that have conf reachable over QUIC too, where ALPN offers
// HTTP/3 alone. It reports false if conf has no TLS 1.3, without which there is no
// QUIC.
func (n *Names) AllowQUIC(conf *tls.Config) bool {
	if conf == nil || conf.MaxVersion < tls.VersionTLS13 {
		return false
	}
	if n.quic == nil {
		n.quic = map[*tls.Config]*tls.Config{}
	}
	q := conf.Clone()
	q.MinVersion, q.NextProtos = tls.VersionTLS13, []string{"h3"}
	n.quic[conf] = q
	return true
}

// ChooseQUIC is Choose for QUIC.
func (n *Names) ChooseQUIC(serverName string) (*tls.Config, error) {
	conf, err := n.Choose(serverName)
	if err != nil {
		return nil, err
	}
	if q := n.quic[conf]; q != nil {
		return q, nil
	}
	return nil, errors.New("no HTTP/3 for that server name")
}
