package xmlconf

import (
	"strings"
	"time"
)

// ExtProcessor is an external application, in the server file, a vhost file or
// a template.
type ExtProcessor struct {
	Block
	Name      string `conf:"name" required:"1" expand:"1" doc:"name, unique within scope and type"`
	Type      string `conf:"type" changed:"a local Location of the application is answered as 302; LiteSpeed redirects inside the server" when:"=fcgi|fastcgi|lsapi" doc:"proxy, fcgi, lsapi, loadbalancer, fcgiauth; others are kept by name and never routed"`
	Addresses []Text `conf:"address" expand:"1" doc:"endpoint; several make a group"`

	MaxConns           int           `conf:"maxConns" range:"1..10000" default:"100" litespeed:"5" doc:"requests in flight, by peer"`
	InitTimeout        time.Duration `conf:"initTimeout" unit:"s" range:"0..86400" default:"60" litespeed:"3" doc:"resolve, connect, TLS and the wait for a permit; 0 means 10"`
	RetryTimeout       time.Duration `conf:"retryTimeout" unit:"s" range:"0..86400" default:"10" doc:"time a peer is left alone after 3 failed dials in a row; 0: no penalty, one trial at a time"`
	PcKeepAliveTimeout time.Duration `conf:"pcKeepAliveTimeout" unit:"s" range:"-1..1000000" default:"60" litespeed:"without limit" doc:"idle life of a kept connection; -1: without limit"`
	PersistConn        bool          `conf:"persistConn" default:"1" doc:"keep connections open after a response"`
	RespBuffer         int           `conf:"respBuffer" range:"0..2" default:"0" as:"noeffect" why:"buffer" code:"W-RESPBUFFER" litespeed:"1: answers are buffered" doc:"responses always stream"`
	Env                []Text        `conf:"env" expand:"1" doc:"NAME=value for the application"`
	Workers            []string      `conf:"workers" expand:"1" doc:"members of a load balancer, type::name, comma list"`

	ResponseTimeout time.Duration `conf:"responseTimeout" unit:"s" range:"1..86400" default:"60" as:"honoured,strict" doc:"from the end of the upload to the response head"`
	BodyTimeout     time.Duration `conf:"bodyTimeout" unit:"s" range:"1..3600" default:"30" as:"honoured,strict" doc:"longest pause of the upload; a body that is held first, and any to FastCGI, comes at 1 KiB a second at least beyond it"`
	ProxyTimeouts
	WSIdleTimeout time.Duration `conf:"wsIdleTimeout" unit:"s" range:"0..86400" default:"0" as:"honoured,strict" doc:"longest silence of a WebSocket relay; 0: off"`

	LoadBalancePolicy string        `conf:"loadBalancePolicy" range:"primary-first|weighted-round-robin|weighted-least-active|round-robin|least-conn|ip-hash|cookie-hash|sticky" default:"primary-first" as:"honoured,strict" doc:"how a peer is chosen"`
	AddressWeights    []int         `conf:"addressWeights" range:"1..1000" as:"honoured,strict" doc:"one weight for each address"`
	CookieName        string        `conf:"cookieName" as:"honoured,strict" doc:"cookie of cookie-hash and sticky"`
	MaxInFlight       int           `conf:"maxInFlight" range:"0..1000000" default:"0" as:"honoured,strict" doc:"requests in flight by peer that make it ineligible; 0: none"`
	SlowStart         time.Duration `conf:"slowStart" unit:"s" range:"0|1..3600" default:"0" as:"honoured,strict" doc:"time in which a new or recovered peer grows to its whole share; 0: at once"`
	MinHealthy        int           `conf:"minHealthy" range:"0..100" default:"0" as:"honoured,strict" doc:"percentage of healthy peers below which health checks are ignored; 0: never"`
	MaxParamSize      int64         `conf:"maxParamSize" unit:"size" range:"1K..64M" default:"1M" as:"honoured,strict" doc:"all CGI variables of a request, encoded, to a FastCGI application; more are 431"`
	AppRoot           string        `conf:"appRoot" expand:"1" as:"honoured,strict" doc:"docRoot as a FastCGI application sees it, for one in a container; absolute. Scripts outside of docRoot then answer 503"`

	AddressDrain   []string        `conf:"addressDrain" as:"honoured,strict" doc:"ordinals or authorities drained from the start"`
	StickyCookie   *StickyCookie   `conf:"stickyCookie" as:"honoured,strict" doc:"attributes of the sticky cookie"`
	HealthCheck    *HealthCheck    `conf:"healthCheck" as:"honoured,strict" doc:"active probes"`
	CircuitBreaker *CircuitBreaker `conf:"circuitBreaker" as:"honoured,strict" doc:"response breaker"`
	Retry          *Retry          `conf:"retry" as:"honoured,strict" doc:"further attempts of a request that was sent"`
	PeerRateLimit  *PeerRateLimit  `conf:"peerRateLimit" as:"honoured,strict" doc:"token bucket of each peer"`
	UpstreamTLS    *UpstreamTLS    `conf:"upstreamTLS" as:"honoured,strict" doc:"TLS towards the peers, whose addresses are https:// or h2s://"`
	ProxyOptions

	// Of a program that httpjet starts: autoStart, and a Unix socket as address.
	AutoStart int `conf:"autoStart" range:"0..3" default:"0" litespeed:"1" doc:"1, 2, 3: httpjet starts the program of path on the Unix socket of address; not for type proxy. 0: it is started otherwise"`
	Program

	// Targets are the addresses, read; in the order of Addresses. Empty for
	// processors that cannot be routed to.
	Targets []Address
	Drained []int // AddressDrain as ordinals of Targets

	_ struct{} `conf:"note" as:"obsolete" why:"remark" doc:"remark"`
}

// Program is what a program is started with. It may stand on a processor and in
// phpConfig.
type Program struct {
	Path         string        `conf:"path" expand:"1" doc:"program and arguments, absolute or below the server root"`
	Instances    int           `conf:"instances" range:"0..2000" default:"1" doc:"processes of the program on one socket; if more than one, maxConns is at most as many times the children of each"`
	RunOnStartUp int           `conf:"runOnStartUp" range:"0..3" default:"1" litespeed:"3" doc:"0: the program is started by the first request; 1: with the server, and ends with it; 2, 3: with the server, and outlives it: a further process, httpjet lsphp, keeps it, and the next server takes it as it is unless its settings have changed"`
	ExtMaxIdle   time.Duration `conf:"extMaxIdleTime" unit:"s" range:"-1..1000000" default:"-1" doc:"without a connection for so long, the program is stopped until a request comes; 0 or less: never"`
	Backlog      int           `conf:"backlog" range:"1..4096" default:"100" doc:"connections that wait at the socket of the program"`
	ExtUser      string        `conf:"extUser" expand:"1" doc:"user that the program runs as; another one than httpjet's own needs root, and a uid from minUID on"`
	ExtGroup     string        `conf:"extGroup" expand:"1" doc:"group that the program runs as; that of extUser when absent; supplementary groups are dropped"`
	Umask        string        `conf:"umask" doc:"of the program, octal; the server's when absent"`
	Priority     int           `conf:"priority" range:"-20..20" default:"0" litespeed:"1 more than the server's" doc:"nice level of the program; the server's when absent"`
	MemSoftLimit int64         `conf:"memSoftLimit" unit:"size" range:"0.." default:"0" doc:"address space of each process; 0: that of CGIRLimit"`
	MemHardLimit int64         `conf:"memHardLimit" unit:"size" range:"0.." default:"0" doc:"address space that it may raise its limit to; 0: that of CGIRLimit"`
	ProcSoft     int           `conf:"procSoftLimit" range:"0..1000000" default:"0" doc:"processes of its user; 0: that of CGIRLimit"`
	ProcHard     int           `conf:"procHardLimit" range:"0..1000000" default:"0" doc:"processes that it may raise its limit to; 0: that of CGIRLimit"`

	MaxProcessTime time.Duration `conf:"maxProcessTime" unit:"s" range:"0..86400" default:"0" doc:"of an LSAPI application, from the begin of a request to the end of its answer: then 504, or the answer is cut, and a child of a program that httpjet starts is ended 5 s later; 0: off"`
}

// ProcessorKind is the family that a processor's type means (R-CFG-11).
type ProcessorKind uint8

const (
	KindProxy        ProcessorKind = iota + 1 // proxy, webserver
	KindFastCGI                               // fcgi, fastcgi
	KindLSAPI                                 // lsapi
	KindLoadBalancer                          // loadbalancer
	KindAuthorizer                            // fcgiauth
	KindReserved                              // cgi-exec, uwsgi: known, never routable
	KindUnsupported                           // all others: kept by name, never routable
)

// Kind returns the family of p's type, which is compared without case.
func (p *ExtProcessor) Kind() ProcessorKind {
	switch strings.ToLower(p.Type) {
	case "proxy", "webserver":
		return KindProxy
	case "fcgi", "fastcgi":
		return KindFastCGI
	case "lsapi":
		return KindLSAPI
	case "loadbalancer":
		return KindLoadBalancer
	case "fcgiauth":
		return KindAuthorizer
	case "cgi-exec", "uwsgi":
		return KindReserved
	}
	return KindUnsupported
}

// ProxyOptions may stand on a processor and on a proxy context; the context wins
// (R-CTX-8). Whether one is written is known by Block.Written.
type ProxyOptions struct {
	PreserveHost   bool   `conf:"preserveHost" default:"1" as:"honoured,strict" doc:"send the client's Host; 0: the peer's"`
	ForwardedFor   string `conf:"forwardedFor" range:"auto|append|replace|off" default:"auto" as:"honoured,strict" doc:"X-Forwarded-For"`
	ForwardedProto bool   `conf:"forwardedProto" default:"1" as:"honoured,strict" doc:"X-Forwarded-Proto"`
	ForwardedHost  bool   `conf:"forwardedHost" default:"1" as:"honoured,strict" doc:"X-Forwarded-Host"`
	AddVia         bool   `conf:"addVia" default:"1" as:"honoured,strict" doc:"Via"`
	TraceMode      string `conf:"traceMode" range:"passthrough|inject|span" as:"honoured,strict" doc:"overrides tracing/mode"`
}

// ProxyTimeouts may stand on a processor and on a proxy context; the context wins
// (R-TMO-4, R-TMO-5).
type ProxyTimeouts struct {
	AttemptTimeout    time.Duration `conf:"attemptTimeout" unit:"s" range:"0|10ms..86400" default:"0" as:"honoured,strict" doc:"one attempt, to the response head; 0: off"`
	RequestTimeout    time.Duration `conf:"requestTimeout" unit:"s" range:"0|10ms..86400" default:"0" as:"honoured,strict" doc:"from the end of the request head: waits, all attempts and the pauses between them, to the response head; 0: off"`
	StreamIdleTimeout time.Duration `conf:"streamIdleTimeout" unit:"s" range:"0|10ms..86400" default:"0" as:"honoured,strict" doc:"longest pause of a response body; 0: off"`
}

// HealthCheck is the active probe of a group (spec section 11).
type HealthCheck struct {
	Block
	Mode           string        `conf:"mode" range:"connect|GET|HEAD" default:"connect" doc:"transport only, or a request"`
	Path           string        `conf:"path" doc:"origin form, / when absent; not with connect"`
	Host           string        `conf:"host" doc:"Host of the request; the peer's authority when absent"`
	Interval       time.Duration `conf:"interval" unit:"s" range:"1..3600" default:"10" doc:"time between probes"`
	Timeout        time.Duration `conf:"timeout" unit:"s" range:"1..3600" default:"2" doc:"life of a probe, at most the interval"`
	Rise           int           `conf:"rise" range:"1..100" default:"2" doc:"successes that make a peer eligible"`
	Fall           int           `conf:"fall" range:"1..100" default:"3" doc:"failures that make it ineligible"`
	ExpectedStatus string        `conf:"expectedStatus" default:"200" doc:"200 to 599, or 2xx"`
}

// CircuitBreaker is the response breaker of each peer (R-BRK-4).
type CircuitBreaker struct {
	Block
	FailureThreshold int           `conf:"failureThreshold" range:"0..1000" default:"5" doc:"consecutive failures; 0: off"`
	OpenDuration     time.Duration `conf:"openDuration" unit:"s" range:"100ms..3600" default:"10" doc:"time before trials"`
	HalfOpenMax      int           `conf:"halfOpenMax" range:"1..100" default:"1" doc:"trials at once"`
	FailOn           []string      `conf:"failOn" default:"transport,timeout,5xx" doc:"transport, timeout, 5xx, 500 to 599"`
}

// Retry is the retry policy of a processor or context (spec section 16).
type Retry struct {
	Block
	Retries       int           `conf:"retries" range:"0..10" default:"0" doc:"further attempts; 0: none"`
	RetryOn       []string      `conf:"retryOn" default:"connect-failure,reset,timeout,502,504" doc:"what calls for one: connect-failure, reset (no reply, or none that can be read), timeout; 500, 502, 503, 504 or 5xx of a reply"`
	RetryMethods  []string      `conf:"retryMethods" default:"GET,HEAD,OPTIONS" doc:"methods; an empty element is none; PUT, DELETE, POST and PATCH need an Idempotency-Key"`
	BackoffBase   time.Duration `conf:"backoffBase" unit:"s" range:"0..10" default:"100ms" doc:"the first pause is at most this, each further one at most twice the one before, 10 s at most"`
	RetrySamePeer bool          `conf:"retrySamePeer" default:"0" doc:"1: peers may be tried again once all were"`
	RetryBufSize  int64         `conf:"retryBufSize" unit:"size" range:"0..1G" default:"10M" doc:"largest body kept in memory for another attempt; a larger one is sent once"`
}

// StickyCookie is the cookie of policy sticky.
type StickyCookie struct {
	Block
	Path     string        `conf:"path" default:"/" doc:"Path"`
	Secure   string        `conf:"secure" range:"auto|0|1" default:"auto" doc:"Secure; auto: on TLS"`
	SameSite string        `conf:"sameSite" range:"Lax|Strict|None" default:"Lax" doc:"SameSite; None needs secure"`
	HTTPOnly bool          `conf:"httpOnly" default:"1" doc:"HttpOnly"`
	MaxAge   time.Duration `conf:"maxAge" unit:"s" range:"0..31536000" default:"0" doc:"0: of the session"`
}

// PeerRateLimit is the token bucket of each peer (R-RATE-1).
type PeerRateLimit struct {
	Block
	ReqPerSec int `conf:"reqPerSec" range:"0..1000000" default:"0" doc:"tokens a second; 0: off"`
	Burst     int `conf:"burst" range:"1..1000000" default:"0" doc:"size of the bucket; absent: reqPerSec, at least 1"`
}

// UpstreamTLS is the TLS identity used towards peers (R-UP-3).
type UpstreamTLS struct {
	Block
	CAFile     string `conf:"caFile" unit:"path" doc:"PEM, roots instead of the system's"`
	ServerName string `conf:"serverName" doc:"name sent and verified in the certificate; the address's host when absent"`
	CertFile   string `conf:"certFile" unit:"path" doc:"PEM, client certificate"`
	KeyFile    string `conf:"keyFile" unit:"path" doc:"PEM, client key"`
	Verify     bool   `conf:"verify" default:"1" doc:"0: any certificate is taken"`
}

// ClientRateLimit is a bucket of each client (R-RATE-2).
type ClientRateLimit struct {
	Block
	ReqPerMinute int `conf:"reqPerMinute" range:"0..100000000" default:"0" doc:"tokens a minute; 0: off"`
	Burst        int `conf:"burst" range:"1..1000000" default:"1" doc:"size of the bucket"`
	MaxTracked   int `conf:"maxTracked" range:"1..10000000" default:"65536" doc:"clients remembered"`
	IPv6Prefix   int `conf:"ipv6Prefix" range:"48..128" default:"64" doc:"length of an IPv6 client's identity"`
}

// ScriptHandler hands a suffix to an application.
type ScriptHandler struct {
	Block
	Suffixes []string `conf:"suffix" required:"1" doc:"suffixes without a dot"`
	Type     string   `conf:"type" doc:"type of the application"`
	Handler  string   `conf:"handler" expand:"1" changed:"without its application the suffix answers 503; LiteSpeed sends the source of the script" doc:"name of the application"`
	_        struct{} `conf:"note" as:"obsolete" why:"remark" doc:"remark"`
}
