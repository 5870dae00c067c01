package acme

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"sync"

	"github.com/mholt/acmez/v3"
	"github.com/mholt/acmez/v3/acme"
)

// ChallengePath begins the paths at which an ACME server asks for proof.
const ChallengePath = "/.well-known/acme-challenge/"

// ALPN is the protocol by which it does so in a handshake (RFC 8737).
const ALPN = acmez.ACMETLS1Protocol

// challenges are those that wait for the server to look. It implements
// acmez.Solver for both types; as one name is ordered at a time, they are few.
type challenges struct {
	mu sync.Mutex // guards of
	of map[challengeKey]acme.Challenge
}

type challengeKey struct{ kind, name string }

// Present implements acmez.Solver.
func (c *challenges) Present(_ context.Context, ch acme.Challenge) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[challengeKey]acme.Challenge{}
	}
	c.of[challengeKey{ch.Type, strings.ToLower(ch.Identifier.Value)}] = ch
	return nil
}

// CleanUp implements acmez.Solver.
func (c *challenges) CleanUp(_ context.Context, ch acme.Challenge) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of, challengeKey{ch.Type, strings.ToLower(ch.Identifier.Value)})
	return nil
}

func (c *challenges) get(kind, name string) (acme.Challenge, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch, ok := c.of[challengeKey{kind, strings.ToLower(name)}]
	return ch, ok
}

// Response returns the proof for a path below ChallengePath of a host, false if
// nobody waits for it (RFC 8555 section 8.3). host has no port.
func (m *Manager) Response(host, path string) (text string, ok bool) {
	ch, ok := m.challenges.get(acme.ChallengeTypeHTTP01, host)
	if !ok || ch.Token == "" || path != ChallengePath+ch.Token {
		return "", false
	}
	return ch.KeyAuthorization, true
}

// IsChallenge reports whether a handshake is that of an ACME server which asks for
// proof.
func IsChallenge(hello *tls.ClientHelloInfo) bool {
	return len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == ALPN
}

// Handshake returns the settings for a handshake that IsChallenge.
func (m *Manager) Handshake(name string) (*tls.Config, error) {
	ch, ok := m.challenges.get(acme.ChallengeTypeTLSALPN01, name)
	if !ok {
		return nil, errors.New("no challenge for that server name")
	}
	cert, err := acmez.TLSALPN01ChallengeCert(ch)
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{ALPN}, Certificates: []tls.Certificate{*cert}}, nil
}
