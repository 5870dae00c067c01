package generation

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"httpjet/apps"
	"httpjet/extproc"
	"httpjet/xmlconf"
)

// starts reports whether httpjet starts the program behind an address.
func (pe peer) starts() bool {
	return pe.owner.start != nil && pe.owner.decl.Targets[pe.i].Network == "unix"
}

// describeStart says what a program is started with (autoStart), or why that cannot
// be: what names the processor answers 503 then, for nothing is at its address.
func (b *builder) describeStart(p *processor) {
	d := p.decl
	if d.AutoStart == 0 {
		return
	}
	refuse := func(element, hint, format string, args ...any) {
		p.fault = fmt.Sprintf(format, args...)
		b.fs.Error("E-AUTOSTART", d.At(element), hint, "extProcessor %q: %s; what names it answers 503", d.Name, p.fault)
	}
	if d.Targets[0].Network != "unix" {
		b.fs.Warn("W-AUTOSTART", d.At("address"), "write uds://PATH, or start it otherwise and write autoStart 0",
			"extProcessor %q: programs are started on Unix sockets only; it has to be started otherwise", d.Name)
		return
	}
	command := strings.Fields(d.Path)
	if len(command) == 0 {
		refuse("autoStart", "name the program in path, or write autoStart 0", "autoStart without a path")
		return
	}
	if !filepath.IsAbs(command[0]) {
		command[0] = filepath.Join(b.cfg.Root, command[0])
	}
	o := &apps.Options{Scope: p.scope, Name: d.Name, Command: strings.Join(command, "\x00"), Env: b.appEnv(p),
		Instances: d.Instances, Backlog: d.Backlog, OnDemand: d.Written("runOnStartUp") && d.RunOnStartUp == 0,
		Idle: max(0, d.ExtMaxIdle), Start: d.InitTimeout, Keep: d.RunOnStartUp >= 2}
	if p.kind == xmlconf.KindLSAPI {
		o.Protocol = apps.LSAPI
	}
	if r := b.confinement(p.host); r != nil {
		p.fault = r.why
		b.fs.Error("E-CLOSED", r.at, r.hint, "extProcessor %q: %s; what names it answers 503", d.Name, p.fault)
		return
	}
	if id, why := b.identity(d, p.host); why != "" {
		refuse("extUser", "name a user with ids from minUID and minGID on, and start httpjet as root; or start the program by a unit of its own with autoStart 0", "%s", why)
		return
	} else {
		o.Identity = id
	}
	if !b.appLimits(d, &o.Limits) {
		refuse("umask", "write octal digits, as in 022", "umask %q is no mask", cmp.Or(d.Umask, b.cfg.Server.Security.CGI.Umask))
		return
	}
	for _, a := range d.Targets {
		if a.Network == "unix" && len(a.Address) > apps.MaxSocket-socketSuffix {
			refuse("address", "use a shorter path", "the path of its socket is longer than %d bytes", apps.MaxSocket-socketSuffix)
			return
		}
	}
	p.start = o
}

// appEnv is the environment of a program: a path, what its env says, and for LSAPI
// how many children it has, where that is not written.
func (b *builder) appEnv(p *processor) string {
	d, env, path := p.decl, []string(nil), false
	for _, e := range d.Env {
		if strings.Contains(e.Value, "=") && !strings.ContainsRune(e.Value, 0) {
			env = append(env, e.Value)
			path = path || strings.HasPrefix(e.Value, "PATH=")
		}
	}
	if !path {
		env = append(env, "PATH=/bin:/usr/bin")
	}
	if n := d.MaxProcessTime; p.kind == xmlconf.KindLSAPI && n > 0 && !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, maxTimeVariable) }) {
		env = append(env, maxTimeVariable+strconv.Itoa(int((n+killAfter)/time.Second)))
	}
	if p.kind == xmlconf.KindLSAPI && children(d) == 0 && d.Instances <= 1 {
		env = append(env, "PHP_LSAPI_CHILDREN="+strconv.Itoa(d.MaxConns))
	}
	return strings.Join(env, "\x00")
}

// maxTimeVariable is how an LSAPI program is told that a child that takes longer over a
// request, in seconds, is to be ended; killAfter is how much longer than maxProcessTime
// (R-LSAPI-5).
const (
	maxTimeVariable = "LSAPI_MAX_PROCESS_TIME="
	killAfter       = 5 * time.Second
)

// appLimits fills the limits; those that the processor leaves are the server's. It
// reports whether they can be read.
func (b *builder) appLimits(d *xmlconf.ExtProcessor, l *apps.Limits) bool {
	r := &b.cfg.Server.Security.CGI
	l.MemSoft, l.MemHard = uint64(or64(d.MemSoftLimit, r.MemSoft)), uint64(or64(d.MemHardLimit, r.MemHard))
	l.ProcSoft, l.ProcHard = uint64(or64(int64(d.ProcSoft), int64(r.ProcSoft))), uint64(or64(int64(d.ProcHard), int64(r.ProcHard)))
	l.CPUSoft, l.CPUHard = uint64(r.CPUSoft), uint64(r.CPUHard)
	l.SetNice, l.Nice = d.Written("priority") || r.Written("priority"), min(d.Priority, 19)
	if !d.Written("priority") {
		l.Nice = min(r.Priority, 19)
	}
	mask := cmp.Or(d.Umask, r.Umask)
	if mask == "" {
		return true
	}
	n, err := strconv.ParseUint(mask, 8, 32)
	l.SetUmask, l.Umask = true, int(n)
	return err == nil && n <= 0o777
}

func or64(own, server int64) int64 {
	if own != 0 {
		return own
	}
	return server
}

// socketSuffix is what a socket has more whose path another processor has too.
const socketSuffix = 9

// startOf leases the application of a peer. The socket of a second processor at one
// path gets a name of its own, as in LiteSpeed: it is the application's alone.
func (b *builder) startOf(pe peer, t extproc.Target) *apps.App {
	o := *pe.owner.start
	o.Socket = t.Address
	if first := b.sockets[o.Socket]; first == nil {
		b.sockets[o.Socket] = pe.owner
	} else if first != pe.owner {
		h := fnv.New32a()
		fmt.Fprintf(h, "%s\x00%s\x00%d", o.Scope, o.Name, pe.owner.kind)
		o.Socket += fmt.Sprintf(".%08x", h.Sum32())
	}
	a, release := b.kept.Started.Acquire(o, func() *apps.App { return apps.New(o) })
	b.g.leases = append(b.g.leases, release)
	b.g.started = append(b.g.started, a)
	return a
}

// StartApplications starts what g has and the generation before had not.
func (g *Generation) StartApplications(s *apps.Supervisor) {
	for _, a := range g.started {
		s.Start(a)
	}
}

// startKey is what tells the pool of a started application from that of another one
// at its address.
func (b *builder) startKey(pe peer) string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%+v", *pe.owner.start)
	return strconv.FormatUint(h.Sum64(), 16)
}

// setUID reports whether programs of h run as the owner of its docRoot.
func setUID(h *xmlconf.Host) bool {
	if h.Conf.Written("setUIDMode") {
		return h.Conf.SetUIDMode == 2
	}
	return h.Decl.SetUIDMode == 2
}

// buildHostProcessors describes the processors of a host. One whose programs are its own
// has those of the server's processors of its own too, as another user (LSX 4): each at a
// socket of its own.
func (b *builder) buildHostProcessors(h *xmlconf.Host) *processors {
	decls := h.Conf.ExtProcessors
	b.host = h
	defer func() { b.host = nil }()
	if !b.own(h) {
		return b.buildProcessors("vhost:"+h.Name, decls, b.server)
	}
	confined := b.confinement(h) != nil
	for _, d := range b.cfg.Server.ExtProcessors {
		if d.AutoStart == 0 || !confined && (d.ExtUser != "" || d.ExtGroup != "") || len(d.Targets) == 0 || d.Targets[0].Network != "unix" ||
			slices.ContainsFunc(decls, func(own *xmlconf.ExtProcessor) bool { return own.Name == d.Name && own.Kind() == d.Kind() }) {
			continue
		}
		decls = append(slices.Clip(decls), d)
	}
	return b.buildProcessors("vhost:"+h.Name, decls, b.server)
}
