package generation

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"httpjet/accesslog"
	"httpjet/script"
	"httpjet/xmlconf"
)

// buildLogs leases the sinks of the server's and the hosts' logs. No file is
// opened here; publishing starts the sinks.
func (b *builder) buildLogs() {
	l := &b.cfg.Server.Logging
	elog := accesslog.Options{Path: filepath.Join(b.cfg.Root, "logs/httpjet_error.log"), RollingSize: 20 << 20, KeepDays: 30, Compress: true}
	level := "INFO"
	if l.Log != nil {
		elog, level = accesslog.Options{Path: or(l.Log.FileName, elog.Path), RollingSize: l.Log.RollingSize, KeepDays: l.Log.KeepDays, Compress: l.Log.CompressArchive}, l.Log.LogLevel
	}
	b.g.errorLog = b.buildSink(elog)
	b.g.level, _ = accesslog.ParseLevel(level)
	if len(l.AccessLogs) == 0 {
		b.g.serverLogs = []hostLog{{out: b.buildSink(accesslog.Options{Path: filepath.Join(b.cfg.Root, "logs/httpjet_access.log"), RollingSize: 10 << 20, KeepDays: 30, Compress: true})}}
	}
	for _, a := range l.AccessLogs {
		b.g.serverLogs = append(b.g.serverLogs, b.buildAccessLog(a))
	}
	for _, h := range b.cfg.VHosts {
		b.buildHostLogs(h)
	}
	b.buildCompletion()
}

// buildCompletion adds the log of completed requests: of all, or of single hosts
// (R-LOG-2).
func (b *builder) buildCompletion() {
	all := b.cfg.Server.Logging.CompletionLog
	wants := func(h *xmlconf.Host) bool { return h.Conf != nil && h.Conf.Logging.CompletionLog }
	if !all && !slices.ContainsFunc(b.cfg.VHosts, wants) {
		return
	}
	line := hostLog{out: b.buildSink(accesslog.Options{Path: "stdout"}), format: accesslog.Completion}
	for _, h := range b.cfg.VHosts {
		logs, own := b.g.logs[h.Name]
		switch {
		case own && all:
		case !all && wants(h):
			if !own {
				logs = b.g.serverLogs
			}
		default:
			continue
		}
		b.g.logs[h.Name] = append(slices.Clip(logs), line)
	}
	if all {
		b.g.serverLogs = append(b.g.serverLogs, line)
	}
}

// buildHostLogs gives a host logs of its own, none, or the server's (LiteSpeed 2.3).
func (b *builder) buildHostLogs(h *xmlconf.Host) {
	if h.Conf == nil || len(h.Conf.Logging.AccessLogs) == 0 {
		return
	}
	logs := []hostLog{}
	for _, a := range h.Conf.Logging.AccessLogs {
		switch a.UseServer {
		case 0:
			logs = append(logs, b.buildAccessLog(a))
		case 1:
			logs = append(logs, b.g.serverLogs...)
		}
	}
	b.g.logs[h.Name] = logs
	if e := h.Conf.Logging.Log; e != nil && e.UseServer == 0 && e.FileName != "" {
		b.fs.Info("I-ERRORLOG", e.Where, "", "virtual host %q: error lines go to the server's error log", h.Name)
	}
}

// slowLog is the log of slow requests of a host, nil without one.
func (b *builder) slowLog(h *host) *script.Slow {
	c := h.Conf.Logging.SlowLog
	if c == nil {
		c = b.cfg.Server.Logging.SlowLog
	}
	if c == nil {
		return nil
	}
	if b.slow[c] == nil {
		path := or(c.FileName, filepath.Join(b.cfg.Root, "logs/httpjet_slow.log"))
		b.slow[c] = &script.Slow{Threshold: c.Threshold, Sample: c.Sample, Out: b.buildSink(accesslog.Options{Path: path, RollingSize: c.RollingSize, KeepDays: c.KeepDays})}
	}
	return b.slow[c]
}

func (b *builder) buildAccessLog(a *xmlconf.AccessLog) hostLog {
	path := or(a.FileName, filepath.Join(b.cfg.Root, "logs/httpjet_access.log"))
	log := hostLog{out: b.buildSink(accesslog.Options{Path: path, RollingSize: a.RollingSize, KeepDays: a.KeepDays, Compress: a.CompressArchive})}
	fields := logHeaders(a)
	switch f := plainFormat(a.LogFormat); {
	case strings.EqualFold(f, "combined"), f == combinedFormat:
	case strings.EqualFold(f, "common"), f == commonFormat:
		log.format = accesslog.Common
	case strings.EqualFold(f, "json"):
		log.format = accesslog.JSON
	case f == "":
		switch fields {
		case 0:
			log.format = accesslog.Common
		case logReferer | logAgent:
		default:
			log.layout, _ = accesslog.ParseLayout(headersFormat(fields))
		}
	default:
		var unknown []string
		if log.layout, unknown = accesslog.ParseLayout(f); len(unknown) > 0 {
			b.fs.Warn("W-LOGFORMAT", a.At("logFormat"), "an item is % and a letter of Apache's LogFormat, as %h or %{Referer}i",
				"logFormat: %s is no item: - is written in its place", strings.Join(unknown, ", "))
		}
	}
	return log
}

// Bits of logHeaders.
const (
	logReferer = 1 << iota
	logAgent
	logHost
)

// logHeaders are the fields of requests in lines without a logFormat. The older
// switches count where logHeaders is not written.
func logHeaders(a *xmlconf.AccessLog) int {
	fields := a.LogHeaders
	if a.Written("logHeaders") {
		return fields
	}
	if !a.LogReferer {
		fields &^= logReferer
	}
	if !a.LogUserAgent {
		fields &^= logAgent
	}
	return fields
}

// What common and combined are in Apache's language.
const (
	commonFormat   = `%h %l %u %t "%r" %>s %b`
	combinedFormat = commonFormat + ` "%{Referer}i" "%{User-Agent}i"`
)

// headersFormat is common with some fields of the request behind it, and the request
// id last (R-LOG-1).
func headersFormat(fields int) string {
	var f strings.Builder
	f.WriteString(strings.TrimSuffix(commonFormat, "%b") + "%B")
	for i, name := range []string{"Referer", "User-Agent", "Host"} {
		if fields&(1<<i) != 0 {
			f.WriteString(` "%{` + name + `}i"`)
		}
	}
	return f.String() + " %L"
}

// plainFormat is a log format without the quotes around it and the backslashes before
// those in it, which writers of such files differ about. A format that begins with a
// quoted item has no quotes around it.
func plainFormat(f string) string {
	f = strings.TrimSpace(f)
	inner, ok := strings.CutPrefix(f, `"`)
	if inner, ok = cutSuffix(inner, ok, `"`); ok && !strings.HasSuffix(inner, `\`) {
		first, _, quotes := strings.Cut(inner, `"`)
		if !quotes || strings.HasSuffix(first, `\`) || strings.Contains(first, " ") {
			f = inner
		}
	}
	return spellings.Replace(f)
}

// spellings are what format files differ about and nobody means.
var spellings = strings.NewReplacer(`\"`, `"`, "{referer}", "{Referer}", "{user-agent}", "{User-Agent}", "{User-agent}", "{User-Agent}")

func cutSuffix(s string, ok bool, suffix string) (string, bool) {
	if !ok {
		return s, false
	}
	return strings.CutSuffix(s, suffix)
}

// buildSink leases the sink for a file, or for an output of the process: nobody who
// stops reading that may hold up a request.
func (b *builder) buildSink(o accesslog.Options) *accesslog.Sink {
	switch o.Path {
	case "stdout":
		o = accesslog.Options{File: os.Stdout}
	case "stderr":
		o = accesslog.Options{File: os.Stderr}
	}
	for _, s := range b.g.sinks {
		if s.Options().Path == o.Path && s.Options().File == o.File {
			return s // one file has one writer; the first rotation rules stay
		}
	}
	sink, release := b.kept.Sinks.Acquire(o, func() *accesslog.Sink { return accesslog.NewSink(o, &b.kept.Metrics.DroppedLines) })
	b.g.leases = append(b.g.leases, release)
	b.g.sinks = append(b.g.sinks, sink)
	return sink
}

func or(v, def string) string {
	if v == "" {
		return def
	}
	return v
}
