package xmlconf

import (
	"path/filepath"
	"slices"
	"time"
)

// PHPConfig is the PHP of the server (R-CFG-14): an LSAPI processor called php of the
// server, and files with suffixes for it in all hosts. Those that scriptHandler names
// are another's. Without a path or an address it is about nothing.
type PHPConfig struct {
	Block
	Suffixes  []string `conf:"suffixes" default:"php" doc:"of its files, comma list"`
	Addresses []Text   `conf:"address" expand:"1" doc:"endpoint; absent, with path: a Unix socket below run of the server root"`

	MaxConns           int           `conf:"maxConns" range:"1..10000" default:"100" litespeed:"5" doc:"requests in flight"`
	InitTimeout        time.Duration `conf:"initTimeout" unit:"s" range:"0..86400" default:"60" litespeed:"3" doc:"as of an extProcessor"`
	RetryTimeout       time.Duration `conf:"retryTimeout" unit:"s" range:"0..86400" default:"0" litespeed:"10" doc:"as of an extProcessor"`
	PcKeepAliveTimeout time.Duration `conf:"pcKeepAliveTimeout" unit:"s" range:"-1..1000000" default:"30" litespeed:"without limit" doc:"as of an extProcessor"`
	Env                []Text        `conf:"env" expand:"1" doc:"NAME=value for PHP"`
	Program
	DetachedMode bool `conf:"detachedMode" default:"0" doc:"1: as runOnStartUp 3, where that is not written"`

	_ struct{} `conf:"respBuffer" default:"0" as:"noeffect,minor" why:"buffer" doc:"answers always stream"`
	_ struct{} `conf:"persistConn" default:"1" as:"noeffect,minor" why:"always" doc:"connections are kept"`
	_ struct{} `conf:"controlPanel" as:"noeffect,minor" why:"panel" doc:"hosting panel"`
	_ struct{} `conf:"clAltPhp" default:"0" as:"noeffect,minor" why:"panel" doc:"PHP of CloudLinux"`
	_ struct{} `conf:"phpHandlerList" unit:"block" as:"noeffect" why:"panel" doc:"further versions of PHP: declare an extProcessor for each"`
	_ struct{} `conf:"phpHandler" unit:"block" as:"noeffect" why:"panel" doc:"further versions of PHP: declare an extProcessor for each"`
}

// phpName is the name of the processor that phpConfig declares.
const phpName = "php"

// phpBacklog is longer than that of other programs: it is all hosts' PHP.
const phpBacklog = 1024

// declare adds the processor and the script handler that c stands for. The server's own
// list goes before both.
func (c *PHPConfig) declare(s *Server, root string) {
	if c == nil || c.Path == "" && len(c.Addresses) == 0 {
		return
	}
	p := &ExtProcessor{Block: c.Block, Name: phpName, Type: "lsapi", Addresses: c.Addresses, MaxConns: c.MaxConns, InitTimeout: c.InitTimeout,
		RetryTimeout: c.RetryTimeout, PcKeepAliveTimeout: c.PcKeepAliveTimeout, PersistConn: true, Env: c.Env,
		ResponseTimeout: 60 * time.Second, BodyTimeout: 30 * time.Second, LoadBalancePolicy: "primary-first",
		ProxyOptions: ProxyOptions{PreserveHost: true, ForwardedFor: "auto", ForwardedProto: true, ForwardedHost: true, AddVia: true},
		Program:      c.Program}
	if c.Path != "" {
		p.AutoStart = 1
	}
	if c.DetachedMode && !c.Written("runOnStartUp") {
		p.RunOnStartUp = 3
	}
	if len(p.Addresses) == 0 {
		p.Addresses = []Text{{Value: "uds:/" + filepath.Join(root, "run/lsphp.sock"), Pos: c.At("path").Pos}}
	}
	if !c.Written("backlog") {
		p.Backlog = phpBacklog
	}
	if slices.ContainsFunc(s.ExtProcessors, func(o *ExtProcessor) bool { return o.Kind() == KindLSAPI && o.Name == phpName }) {
		return // that one is meant, with what it says
	}
	s.ExtProcessors = append(s.ExtProcessors, p)
	s.ScriptHandlers = append([]*ScriptHandler{{Block: c.Block, Suffixes: c.Suffixes, Type: "lsapi", Handler: phpName}}, s.ScriptHandlers...)
}
