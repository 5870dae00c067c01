package generation

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"httpjet/access"
	"httpjet/compress"
	"httpjet/contexts"
	"httpjet/docroot"
	"httpjet/domains"
	"httpjet/extproc"
	"httpjet/probes"
	"httpjet/script"
	"httpjet/static"
	"httpjet/tlsconf"
	"httpjet/trace"
	"httpjet/tunnels"
	"httpjet/watch"
	"httpjet/xmlconf"
)

// builder holds what the parts of a build share.
type builder struct {
	runTypes map[string]string // of the MIME table: by suffix, those that run files

	cfg      *xmlconf.Config
	kept     *Kept
	opt      Options
	fs       *xmlconf.Findings
	g        *Generation
	hosts    map[string]*contexts.VHost
	server   *processors
	static   map[string]*static.Handler // by what differs between them
	peers    []probes.Peer              // that have a health check
	probed   map[peerKey]bool
	trust    trust
	anyHosts *anyHosts // nil: no rule names hosts of requests
	prints   xmlconf.Fingerprints
	open     *tunnels.Set // tunnels that begin with this generation

	tracer  *trace.Tracer
	sockets map[string]*processor // by the path at which it is started
	types   *compress.Types       // of answers that are coded
	tickets *tlsconf.Tickets
	acme    bool            // certificates are issued
	warned  map[string]bool // by what was said, see warnOnce
	slow    map[*xmlconf.SlowLog]*script.Slow
	host    *xmlconf.Host // whose processors are described; nil: the server's
}

// Build resolves cfg. It always returns a generation, whose leases the caller
// gives up with Retire if it is not published; whether it may be published is
// what fs says: not if it Failed.
func Build(cfg *xmlconf.Config, kept *Kept, opt Options, fs *xmlconf.Findings) *Generation {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	b := &builder{cfg: cfg, kept: kept, opt: opt, fs: fs, hosts: map[string]*contexts.VHost{}, static: map[string]*static.Handler{},
		probed: map[peerKey]bool{}, warned: map[string]bool{}, sockets: map[string]*processor{}, slow: map[*xmlconf.SlowLog]*script.Slow{}}
	b.g = &Generation{Number: numbers.Add(1), Hash: cfg.Hash, Built: time.Now(), Config: cfg,
		tunnels: map[string]*tunnels.Set{}, tls: map[string]*tlsconf.Names{}, quic: map[string]bool{}, HTTP3: cfg.Server.HTTP3(), logs: map[string][]hostLog{}, metrics: kept.Metrics, log: opt.Log,
		files: docroot.NewCache(docroot.CacheOptions{
			MaxFile: cfg.Server.Tuning.MaxCachedFileSize, MaxBytes: cfg.Server.Tuning.TotalInMemCacheSize}),
		table: &contexts.Table{Listeners: map[string]*domains.Map[*contexts.VHost]{}, HTTPS: map[string]contexts.HTTPS{},
			Certificates: map[string]*contexts.Certificates{}}}
	b.open = kept.Open.Set(b.g.Number)
	b.inputs()
	b.buildLimits()
	b.checkCompress()
	b.buildLogs()
	b.buildTracing()
	b.buildServerAccess()
	b.buildClients()
	b.buildTrust()
	b.server = b.buildProcessors("server", cfg.Server.ExtProcessors, nil)
	for _, h := range cfg.VHosts {
		b.buildVHost(h)
	}
	b.buildTickets()
	b.buildACME()
	b.buildListeners()
	b.buildRoutes()
	b.reportPlainMaps()
	b.reportProbes()
	b.buildProbes()
	return b.g
}

// inputs notes the files of the configuration, and what would make others of them;
// certificates follow as they are read.
func (b *builder) inputs() {
	b.g.Inputs = map[string]string{}
	for _, f := range b.cfg.Files {
		path := f.Path
		if !filepath.IsAbs(path) {
			path = filepath.Join(b.cfg.Root, path)
		}
		b.g.Inputs[path] = f.SHA256
	}
	for _, p := range b.cfg.Patterns {
		b.g.Inputs[p.Path] = watch.SumOfNames(p.Files)
	}
	// A plain server file counts only while there is none of XML.
	if first := filepath.Join(b.cfg.Root, xmlconf.ServerFile); b.g.Inputs[first] == "" {
		b.g.Inputs[first] = ""
	}
}

// input notes a file that is no configuration.
func (b *builder) input(path string, data []byte) {
	if path == "" {
		return
	}
	if !slices.Contains(b.g.certificates, path) {
		b.g.certificates = append(b.g.certificates, path)
	}
	if b.g.Inputs[path] = ""; data != nil {
		sum := sha256.Sum256(data)
		b.g.Inputs[path] = hex.EncodeToString(sum[:])
	}
}

func (b *builder) buildLimits() {
	s, t := b.cfg.Server, &b.cfg.Server.Tuning
	name := "httpjet"
	switch s.ShowVersionNumber {
	case 1:
		name += "/" + b.opt.Version
	case 2:
		name = ""
	}
	requests := t.MaxKeepAliveReq
	if requests == 0 {
		requests = 1 // written: no keep-alive, as in LiteSpeed
	}
	b.g.Limits = Limits{
		MaxConnections: t.MaxConnections, MaxInFlight: t.MaxInFlightReqs,
		ConnTimeout: t.ConnTimeout, KeepAliveTimeout: t.KeepAliveTimeout, MaxKeepAlive: requests,
		MaxURL: t.MaxReqURLLen, MaxHead: t.MaxReqHeaderSize, MaxFields: maxFields,
		ServerField: name, EnableH2C: s.EnableH2C,
		Grace: t.GracefulShutdownTimeout, ShutdownDelay: t.ShutdownDelay,
	}
	b.g.Names = extproc.ResolverOptions{Refresh: t.DNSRefresh, StaleMax: t.DNSStaleMax,
		NegativeTTL: t.DNSNegativeTTL, Concurrency: t.DNSConcurrency}
	b.g.table.EchoID, b.g.table.HideReason = b.opt.EchoID, !t.ProxyErrorHeader
	b.g.table.MaxURL, b.g.table.MaxBody = t.MaxReqURLLen, t.MaxReqBodySize
}

// maxFields is the largest number of fields in a request head (R-PIPE-4).
const maxFields = 100

func (b *builder) buildServerAccess() {
	s := b.cfg.Server
	b.g.table.Access = b.buildAccess(s.Security.AccessControl)
	b.g.table.Identity = access.Identity{Mode: access.Mode(s.UseIPInProxyHeader), CFConnectingIP: s.Security.UseCFConnectingIP}
}

// buildAccess compiles an accessControl block; nil if it restricts nobody and
// trusts nobody. An unreadable deny fails the load (R-ACL-1).
func (b *builder) buildAccess(a *xmlconf.AccessControl) *access.List {
	if a == nil || len(a.Allow)+len(a.Deny) == 0 {
		return nil
	}
	list, problems := access.Compile(strings.Join(a.Allow, "\n"), strings.Join(a.Deny, "\n"))
	for _, p := range problems {
		if p.Error {
			b.fs.Fatal("E-ACCESS", a.At(p.List), "write an address, a network such as 192.0.2.0/24, or ALL", "accessControl: %s", p)
		} else {
			b.fs.Warn("W-ACCESS", a.At(p.List), "write an address, a network such as 192.0.2.0/24, or ALL", "accessControl: %s; the entry is left out", p)
		}
	}
	if list.TrustsAll() { // R-CHECK-5
		b.fs.Warn("W-TRUST-ALL", a.At("allow"), "mark your proxies only", "accessControl: every client is a trusted proxy and can choose its own address")
	}
	return list
}

// links is the symbolic link policy of a host: its file, its declaration, the
// server, whichever says so first (R-STATIC-8).
func (b *builder) links(h *xmlconf.Host) docroot.Links {
	mode := b.cfg.Server.Security.FileAccess.FollowSymbolLink
	if h.Decl.AllowSymbolLink >= 0 {
		mode = h.Decl.AllowSymbolLink
	}
	if h.Conf.AllowSymbolLink >= 0 {
		mode = h.Conf.AllowSymbolLink
	}
	switch mode {
	case 0:
		return docroot.NoLinks
	case 2:
		return docroot.OwnerLinks
	}
	return docroot.FollowLinks
}

// rootOptions are the file rules of a host.
func (b *builder) rootOptions(h *xmlconf.Host) docroot.Options {
	fa := &b.cfg.Server.Security.FileAccess
	o := docroot.Options{
		Dir: h.Conf.DocRoot, Prefix: "/", Links: b.links(h), Restrained: h.Decl.Restrained,
		Index: b.indexFiles(h.Conf), Codings: b.codings(h.Conf),
		Required: fa.RequiredPermissionMask, Restricted: fa.RestrictedPermissionMask,
		RestrictedScript: fa.RestrictedScriptPermissionMask, RestrictedDir: fa.RestrictedDirPermissionMask,
		Cache: b.g.files,
	}
	if h.Root != b.cfg.Root { // that holds more than one host's files
		o.Within = h.Root
	}
	if fa.ForceStrictOwnership {
		o.OwnedAs = h.Conf.DocRoot
	}
	for _, d := range b.cfg.Server.Security.AccessDenyDir {
		dir := d.Value
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(b.cfg.Root, dir)
		}
		o.DenyDirs = append(o.DenyDirs, dir)
	}
	return o
}

// indexFiles is a host's list: its own, the server's, or both (LiteSpeed 6.3).
// index/useServer is 1 unless written, so that a list beside it counts for
// nothing: told, since few mean it.
func (b *builder) indexFiles(v *xmlconf.VHost) []string {
	own, server := v.Index.IndexFiles, b.cfg.Server.IndexFiles
	switch {
	case len(own) > 0 && v.Index.UseServer == 0:
		return own
	case len(own) > 0 && v.Index.UseServer == 2:
		return append(slices.Clone(own), server...)
	case len(own) > 0:
		b.fs.Warn("W-INDEX", v.Index.At("indexFiles"), "write <useServer>0</useServer> beside it, or 2 for both lists",
			"indexFiles of the host is not used: index/useServer is 1, the server's list")
		return server
	case v.Index.UseServer == 0 && v.Index.Written("useServer"):
		return nil
	case len(v.IndexFiles) > 0: // the older place
		return v.IndexFiles
	}
	return server
}

// newRoot makes a document root; a fault of its options closes what uses it.
func (b *builder) newRoot(o docroot.Options, at xmlconf.Place) *docroot.Root {
	r, err := docroot.New(o)
	if err != nil {
		b.fs.Error("E-CLOSED", at, "correct the path", "%v; requests answer 503", err)
		return nil
	}
	return r
}

// Honours reports whether a restriction is enforced. What holds one that is not
// answers 503 (R-SAFE-1).
func Honours(r xmlconf.Restriction) bool {
	if r.Lost {
		return false
	}
	switch r.Element {
	case "accessControl", "allowBrowse", "enabled", "realm", "authorizer", "clientVerify", "hotlinkCtrl", "forceStrictOwnership":
		return true
	}
	return false
}
