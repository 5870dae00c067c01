package xmlconf

import (
	"strings"
	"time"
)

// Context is one part of a host's URI space.
type Context struct {
	Block
	URI      string `conf:"uri" required:"1" doc:"/path, /path/ or exp:REGEX; see uriMatch"`
	Type     string `conf:"type" default:"NULL" doc:"NULL or static, proxy, fcgi, lsapi, cgi, loadbalancer, redirect; others answer 503"`
	Location string `conf:"location" doc:"directory or file, relative to $DOC_ROOT; destination of a redirect. Under exp: $0 to $9 and & are what was captured"`
	Handler  string `conf:"handler" expand:"1" changed:"a handler that is not declared leaves the path to files; LiteSpeed answers 403" when:"type=proxy" doc:"name of the application"`
	Enabled  bool   `conf:"enabled" default:"1" doc:"0: no part of the search"`

	AllowBrowse     bool           `conf:"allowBrowse" default:"1" changed:"closes a context of any type; LiteSpeed closes static ones alone" when:"=0" doc:"0: 403 for everything below"`
	AccessControl   *AccessControl `conf:"accessControl" changed:"also holds for [P] targets and WebSocket maps below the context, which LiteSpeed leaves open; and an inner one does not lift an outer one: both must let a client in" doc:"addresses; a refused client gets 403"`
	MaxReqBodySize  int64          `conf:"maxReqBodySize" unit:"size" range:"0.." default:"0" as:"honoured,strict" doc:"largest request body; absent: the server's"`
	ResponseTimeout time.Duration  `conf:"responseTimeout" unit:"s" range:"1..86400" default:"0" as:"honoured,strict" doc:"overrides the processor's"`
	IndexFiles      []string       `conf:"indexFiles" doc:"index files; absent: the host's"`
	AddCharset      string         `conf:"addDefaultCharset" default:"off" changed:"on means UTF-8; in LiteSpeed it is iso-8859-1" when:"=on|1|yes|true" doc:"off, on, or a charset"`
	Charset         string         `conf:"addDefaultCharsetCustomized" default:"UTF-8" doc:"charset of on"`
	OldCharset      string         `conf:"defaultCharsetCustomized" doc:"older name of addDefaultCharsetCustomized"`
	ExtraHeaders    string         `conf:"extraHeaders" unit:"text" doc:"lines: [Header or RequestHeader] [set, append, merge, add or unset] NAME VALUE, or NAME: VALUE; NONE: none of the contexts around it. Answers of every kind, errors too; not about Content-Length, Transfer-Encoding, Connection and the like"`
	EnableScript    bool           `conf:"enableScript" default:"1" changed:"a path of a script suffix answers 403, never its source" when:"=0" doc:"0: script suffixes answer 403"`

	Realm      string `conf:"realm" changed:"also asked for on [P] targets and WebSocket maps below the context, which LiteSpeed leaves open" doc:"name of a realm: Basic authentication; instead of that of a context around it"`
	AuthName   string `conf:"authName" doc:"text of the challenge; absent: the name of the realm"`
	Required   string `conf:"required" default:"valid-user" doc:"valid-user, user a b, group g; without a realm of its own, of the realm of the context around it"`
	Authorizer string `conf:"authorizer" expand:"1" doc:"fcgiauth application that is asked about the head of each request: 200 lets in, any other answer is the client's"`

	ExternalRedirect bool         `conf:"externalRedirect" default:"1" doc:"redirect: 0 with a local path: the request goes on there, and the client does not see it"`
	StatusCode       int          `conf:"statusCode" range:"200..599" default:"302" doc:"redirect: status"`
	EnableExpires    bool         `conf:"enableExpires" default:"0" doc:"Expires and Cache-Control of files"`
	ExpiresDefault   string       `conf:"expiresDefault" doc:"A or M and seconds, or words"`
	ExpiresByType    string       `conf:"expiresByType" doc:"type/sub=A604800, comma list; the first that fits"`
	AddMIMEType      string       `conf:"addMIMEType" doc:"type/sub suffix suffix, comma list"`
	ForceType        string       `conf:"forceType" doc:"MIME type of every file below; NONE: none; a script is never sent as a file, and a type that runs files closes the context"`
	DefaultType      string       `conf:"defaultType" doc:"MIME type of files without a known suffix"`
	AutoIndex        bool         `conf:"autoIndex" default:"0" doc:"1: a directory without an index file is listed, without what the client could not ask for"`
	Rewrite          *Rewrite     `conf:"rewrite" doc:"rewriting below this context, if it is one of files"`
	ErrorPages       []*ErrorPage `conf:"customErrorPages/errorPage" doc:"own error pages, beside those of what is around"`
	CachePolicy      *CachePolicy `conf:"cachePolicy" doc:"page cache, where the virtual host has one; what is not written is as around the context"`

	PHPIniOverride  string           `conf:"phpIniOverride" unit:"text" doc:"as in the virtual host, behind what that says; to PHP behind LSAPI alone: where FastCGI runs the scripts, php_admin_value and php_admin_flag close the context"`
	URIMatch        string           `conf:"uriMatch" range:"prefix|exact|pattern|regex" default:"prefix" as:"honoured,strict" doc:"how uri matches: prefix by whole segments; exact, the whole path; pattern, the whole path, where :name is one segment and * at the end the rest; regex, RE2, as after exp:. All but prefix go first, in the order of the file"`
	Methods         []string         `conf:"methods" as:"honoured,strict" doc:"methods that it serves, absent: all; for others the search goes on, but its restrictions hold"`
	StripPrefix     string           `conf:"stripPrefix" as:"honoured,strict" doc:"whole segments taken off the path before the request goes upstream, however they are escaped; an empty path becomes /"`
	PathRewrite     *PathRewrite     `conf:"pathRewrite" as:"honoured,strict" doc:"one substitution on the escaped path, behind stripPrefix; the query stays"`
	Retry           *Retry           `conf:"retry" as:"honoured,strict" doc:"further attempts of a request that was sent; instead of the processor's"`
	ClientRateLimit *ClientRateLimit `conf:"clientRateLimit" as:"honoured,strict" doc:"requests of a client to this context"`
	ProxyCache      *ProxyCache      `conf:"proxyCache" as:"honoured,strict" doc:"cache of the answers of a proxy context, as RFC 9111 has it"`
	WSIdleTimeout   time.Duration    `conf:"wsIdleTimeout" unit:"s" range:"0..86400" default:"0" as:"honoured,strict" doc:"longest silence of a WebSocket relay; 0: off"`
	ProxyTimeouts
	ProxyOptions

	_ struct{} `conf:"note" as:"obsolete" why:"remark" doc:"remark"`
	_ struct{} `conf:"order" as:"obsolete" why:"webadmin" doc:"position in WebAdmin"`
	_ struct{} `conf:"allowSetUID" default:"0" as:"noeffect,minor" why:"starts" doc:"identity of CGI programs"`
	_ struct{} `conf:"enableIpGeo" default:"-1" as:"noeffect" why:"geo" doc:"geo lookup"`
	_ struct{} `conf:"enableGzip" default:"-1" as:"noeffect,minor" why:"context" doc:"compression"`
	_ struct{} `conf:"apacheConf" unit:"block" as:"noeffect" why:"apache" doc:"Apache directives"`
	_ struct{} `conf:"binPath" as:"noeffect,minor" why:"appserv" doc:"appserver: program"`
	_ struct{} `conf:"rubyBin" as:"noeffect,minor" why:"appserv" doc:"appserver: program"`
	_ struct{} `conf:"appType" as:"noeffect,minor" why:"appserv" doc:"appserver: kind"`
	_ struct{} `conf:"startupFile" as:"noeffect,minor" why:"appserv" doc:"appserver: start file"`
	_ struct{} `conf:"appserverEnv" as:"noeffect,minor" why:"appserv" doc:"appserver: environment"`
	_ struct{} `conf:"railsEnv" as:"noeffect,minor" why:"appserv" doc:"appserver: environment"`
	_ struct{} `conf:"maxConns" as:"noeffect,minor" why:"appserv" doc:"appserver: connections"`
	_ struct{} `conf:"env" unit:"block" as:"noeffect,minor" why:"appserv" doc:"appserver: environment"`
}

// Match is how URI matches: prefix, exact, pattern or regex. Expression is what
// is matched, without exp:.
func (c *Context) Match() (match, expression string) {
	if expr, ok := strings.CutPrefix(c.URI, "exp:"); ok {
		return "regex", expr
	}
	return c.URIMatch, c.URI
}

// PathRewrite is one substitution on the path (R-CTX-7).
type PathRewrite struct {
	Block
	Pattern     string `conf:"pattern" doc:"RE2; the path is matched without escapes of letters, digits and -._~, and without empty segments; no match: it goes on as it came"`
	Replacement string `conf:"replacement" doc:"starts with / or a group: $1, ${name}, also a name of uri; escaped as it is to be sent, without a query; a result that may not be sent is 502 bad_rewrite"`
}

// ProxyCache is the cache for plain upstreams (spec section 27).
type ProxyCache struct {
	Block
	Enable      bool   `conf:"enable" default:"0" doc:"switch"`
	KeyStrategy string `conf:"keyStrategy" range:"url|method-url|method-url-vary" default:"method-url-vary" doc:"method-url-vary keeps one response for each value of the fields that its Vary names; the other two keep none that has Vary. Scheme, host and port, and target with query are always in the key; responses to GET are kept, and answer HEAD too"`
	DefaultTTL  int    `conf:"defaultTTL" unit:"s" range:"0..31536000" default:"60" doc:"lifetime of responses that tell none. Absent: of those with Last-Modified or ETag; written: of all. Not of answers to requests with cookies"`
	MaxTTL      int    `conf:"maxTTL" unit:"s" range:"0..31536000" default:"3600" doc:"longest lifetime, whatever a response tells; 0: none is fresh, all are validated"`
	MaxEntries  int    `conf:"maxEntries" range:"1..10000000" default:"1000" doc:"responses kept"`
	MaxMemory   int64  `conf:"maxMemory" unit:"size" range:"64K..64G" default:"128M" doc:"memory of all responses kept"`
	MaxBodySize int64  `conf:"maxBodySize" unit:"size" range:"0..1G" default:"64K" doc:"largest body kept"`
	StatusCodes []int  `conf:"statusCodes" range:"200..599" doc:"status codes kept, 206, 304, 412, 416, 417, 428, 429, 431 and 511 never; absent: what RFC 9111 permits, which is any with a lifetime told, and without 200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501"`
	StaleWhile  int    `conf:"staleWhileRevalidate" unit:"s" range:"0..86400" default:"0" doc:"how long a stale response answers while it is made anew, where it tells nothing of it"`
	StaleError  int    `conf:"staleIfError" unit:"s" range:"0..86400" default:"0" doc:"how long a stale response answers while the upstream fails, where it tells nothing of it"`
	CDNControl  bool   `conf:"cdnCacheControl" default:"1" doc:"CDN-Cache-Control goes before Cache-Control and Expires (RFC 9213); 0 where a CDN stands in front that is purged by other means"`
}

// WebSocket maps a path to a WebSocket backend.
type WebSocket struct {
	Block
	URI     string   `conf:"uri" required:"1" changed:"access rules and realms of the contexts that cover it hold; LiteSpeed asks none of them" doc:"path prefix"`
	Address string   `conf:"address" required:"1" expand:"1" doc:"host:port, [v6]:port, ws://, wss://, uds://"`
	_       struct{} `conf:"note" as:"obsolete" why:"remark" doc:"remark"`

	Target *Address // Address, read; nil: it is no address, and was reported
}
