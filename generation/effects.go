package generation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"httpjet/apps"
)

// Effect is what publishing one generation after another does to something that
// runs.
type Effect struct {
	What string `json:"what"` // group, peer, application, listener, certificate, tunnels
	Name string `json:"name"`
	Does string `json:"does"` // kept, fresh, new, gone, opened, closed, reread
	Text string `json:"text"` // in words
}

// Effects returns what happens when next is published after g. Both were built
// with one Kept: what they share stays as it is.
func (g *Generation) Effects(next *Generation) []Effect {
	e := effects{old: g, next: next}
	e.groups()
	e.applications()
	e.listeners()
	e.files()
	e.tunnels()
	return e.list
}

type effects struct {
	old, next *Generation
	list      []Effect
}

func (e *effects) add(what, name, does, format string, args ...any) {
	e.list = append(e.list, Effect{what, name, does, fmt.Sprintf(format, args...)})
}

func upstreamOf(g *Generation, like *upstream) *upstream {
	i := slices.IndexFunc(g.upstreams, func(u *upstream) bool { return u.scope == like.scope && u.name == like.name })
	if i < 0 {
		return nil
	}
	return g.upstreams[i]
}

// groups compares what is shared: the state of a group, and the verdict and the
// connections of each peer (R-GRP-9, R-POOL-6).
func (e *effects) groups() {
	for _, u := range e.old.upstreams {
		if upstreamOf(e.next, u) == nil {
			e.add("group", u.scope+"/"+u.name, "gone", "its connections close when they become idle")
		}
	}
	for _, u := range e.next.upstreams {
		name, was := u.scope+"/"+u.name, upstreamOf(e.old, u)
		switch {
		case was == nil:
			e.add("group", name, "new", "starts with nothing known")
			continue
		case was.group.SharesState(u.group):
			e.add("group", name, "kept", "turns, counts and breakers go on")
		default:
			e.add("group", name, "fresh", "turns, counts and response breakers start anew")
		}
		e.peers(name, was, u)
	}
}

func (e *effects) peers(group string, was, u *upstream) {
	place := func(u *upstream, m member) int {
		return slices.IndexFunc(u.peers, func(o member) bool { return o.address == m.address })
	}
	for i, m := range was.peers {
		if place(u, m) < 0 {
			e.add("peer", fmt.Sprintf("%s %d", group, i), "gone", "%s gets no new request", m.text())
		}
	}
	for i, m := range u.peers {
		name, old := fmt.Sprintf("%s %d", group, i), place(was, m)
		switch {
		case old < 0:
			e.add("peer", name, "new", "%s%s", m.text(), cold(m))
		case was.peers[old].client != m.client:
			e.add("peer", name, "fresh", "%s gets new connections; health %s", m.text(), shared(was.group.SharesVerdict(old, u.group, i), m))
		case !was.group.SharesVerdict(old, u.group, i):
			e.add("peer", name, "fresh", "%s keeps its connections; health starts anew%s", m.text(), cold(m))
		}
	}
}

func shared(verdict bool, m member) string {
	if verdict {
		return "is kept"
	}
	return "starts anew" + cold(m)
}

// cold says that a peer waits for its probes (R-PROBE-1).
func cold(m member) string {
	if m.clock == nil {
		return ""
	}
	return ": no request until its health check has passed"
}

func (e *effects) listeners() {
	for _, l := range e.old.Listeners {
		if !slices.ContainsFunc(e.next.Listeners, func(n Listener) bool { return n.Key() == l.Key() }) {
			e.add("listener", l.Name, "closed", "%s", l.Key())
		}
	}
	for _, l := range e.next.Listeners {
		if !slices.ContainsFunc(e.old.Listeners, func(o Listener) bool { return o.Key() == l.Key() }) {
			e.add("listener", l.Name, "opened", "%s", l.Key())
		}
	}
	for _, why := range e.next.Degraded {
		if !slices.Contains(e.old.Degraded, why) {
			e.add("part", why, "gone", "a reload that loses it is refused")
		}
	}
}

// tunnels are those that are open and whose route or peer is another one (R-WS-7).
func (e *effects) tunnels() {
	delay := e.next.Config.Server.Tuning.TunnelCloseDelay
	for _, key := range slices.Sorted(maps.Keys(e.old.tunnels)) {
		s := e.old.tunnels[key]
		if n := s.Len(); n > 0 && e.next.tunnels[key] == nil {
			e.add("tunnels", s.Name(), "closed", "%d open, %v after the change", n, delay)
		}
	}
}

// applications tells of programs that the server starts: one is another one with any
// other option.
func (e *effects) applications() {
	same := func(a, b *apps.App) bool {
		x, y := a.Options(), b.Options()
		return x.Scope == y.Scope && x.Name == y.Name && x.Protocol == y.Protocol
	}
	for _, a := range e.old.started {
		if !slices.ContainsFunc(e.next.started, func(b *apps.App) bool { return same(a, b) }) {
			e.add("application", a.Options().Name, "gone", "ends behind its requests")
		}
	}
	for _, b := range e.next.started {
		i := slices.IndexFunc(e.old.started, func(a *apps.App) bool { return same(a, b) })
		switch {
		case i < 0:
			e.add("application", b.Options().Name, "new", "is started")
		case e.old.started[i] != b:
			e.add("application", b.Options().Name, "fresh", "restarted: %s changed", strings.Join(changedOptions(e.old.started[i].Options(), b.Options()), ", "))
		}
	}
}

// changedOptions are the elements that tell two applications apart.
func changedOptions(a, b apps.Options) (list []string) {
	for _, o := range []struct {
		element string
		changed bool
	}{
		{"address", a.Socket != b.Socket}, {"path", a.Command != b.Command}, {"env", a.Env != b.Env},
		{"instances", a.Instances != b.Instances}, {"backlog", a.Backlog != b.Backlog}, {"runOnStartUp", a.OnDemand != b.OnDemand},
		{"extMaxIdleTime", a.Idle != b.Idle}, {"initTimeout", a.Start != b.Start}, {"limits", a.Limits != b.Limits}, {"user", a.Identity != b.Identity},
	} {
		if o.changed {
			list = append(list, o.element)
		}
	}
	return list
}

// files compares the inputs that are no configuration: certificates and keys.
func (e *effects) files() {
	for _, path := range e.next.certificates {
		was, known := e.old.Inputs[path]
		if known && was != e.next.Inputs[path] {
			e.add("certificate", path, "reread", "the file holds something else")
		}
	}
}

func (m member) text() string {
	if m.address.Scheme == "" {
		return m.address.Address
	}
	return m.address.Scheme + "://" + m.address.Address
}
