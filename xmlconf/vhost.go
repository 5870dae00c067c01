package xmlconf

// VHost is a vhost file, or the virtualHostConfig of a template.
type VHost struct {
	Block
	DocRoot         string   `conf:"docRoot" unit:"path" doc:"document root, $DOC_ROOT"`
	VHDomain        []string `conf:"vhDomain" expand:"1" doc:"primary domains; the first is $VH_DOMAIN"`
	VHAliases       []string `conf:"vhAliases" expand:"1" doc:"further domains"`
	Enabled         bool     `conf:"enabled" default:"1" doc:"0: 403 for every request"`
	IndexFiles      []string `conf:"indexFiles" doc:"index files, older place of index/indexFiles"`
	AllowSymbolLink int      `conf:"allowSymbolLink" unit:"link" range:"0..2" default:"-1" doc:"as in the declaration"`
	AdminEmails     []string `conf:"adminEmails" as:"later,minor" doc:"contact in error pages and SERVER_ADMIN"`
	EnableGzip      bool     `conf:"enableGzip" default:"1" doc:"gzip and zstd of this host, where the server has them"`
	EnableBr        bool     `conf:"enableBr" default:"1" doc:"brotli of this host, where the server has it"`
	EnableQuic      bool     `conf:"enableQuic" default:"1" doc:"HTTP/3 is told to clients of this host by Alt-Svc"`
	SetUIDMode      int      `conf:"setUIDMode" range:"0..2" default:"0" doc:"as in the declaration, and before it"`
	PHPIniOverride  string   `conf:"phpIniOverride" unit:"text" doc:"php_value, php_flag, php_admin_value and php_admin_flag, one a line: to PHP behind LSAPI with each script, and to FastCGI processors of this host: where others run the scripts, php_admin_value and php_admin_flag close these; what an administrator sets, neither scripts nor .htaccess files change"`

	Confined

	HtAccess    HtAccess     `conf:"htAccess" doc:"per-directory files"`
	Logging     Logging      `conf:"logging" doc:"logs of this host"`
	Index       Index        `conf:"index" doc:"index files and listings"`
	Security    HostSecurity `conf:"security" doc:"access lists and realms"`
	Rewrite     Rewrite      `conf:"rewrite" doc:"rewriting"`
	VHSSL       *VHSSL       `conf:"vhssl" doc:"own certificate"`
	Expires     Expires      `conf:"expires" doc:"Expires and Cache-Control of static answers"`
	Cache       Cache        `conf:"cache" doc:"page cache; what is not written is the server's"`
	AcmeDomains []string     `conf:"acmeDomains" as:"honoured,strict" doc:"exact names for which certificates are issued, on every secure listener that maps the host"`

	ExtProcessors  []*ExtProcessor  `conf:"extProcessorList/extProcessor" doc:"external applications of this host"`
	ScriptHandlers []*ScriptHandler `conf:"scriptHandlerList/scriptHandler" doc:"suffixes handed to applications"`
	Contexts       []*Context       `conf:"contextList/context" doc:"parts of the URI space"`
	WebSockets     []*WebSocket     `conf:"websocketList/websocket" doc:"WebSocket maps"`
	ErrorPages     []*ErrorPage     `conf:"customErrorPages/errorPage" doc:"own error pages"`
	Modules        []*Module        `conf:"moduleList/module" changed:"cache alone is of use: it stands for the element cache" doc:"server modules"`

	_ struct{} `conf:"enableIpGeo" default:"-1" as:"noeffect" why:"geo" doc:"geo lookup"`
	_ struct{} `conf:"urlFilterList" unit:"block" as:"noeffect" why:"module" doc:"module parameters by URL"`
	_ struct{} `conf:"apacheConf" unit:"block" as:"noeffect" why:"apache" doc:"Apache directives"`
	_ struct{} `conf:"frontPage" unit:"block" as:"obsolete" why:"leftover" doc:"FrontPage extensions"`
	_ struct{} `conf:"awstats" unit:"block" as:"obsolete" why:"leftover" doc:"AWStats"`
	_ struct{} `conf:"aspnet" unit:"block" as:"obsolete" why:"leftover" doc:"ASP.NET"`
	_ struct{} `conf:"mono" unit:"block" as:"obsolete" why:"leftover" doc:"ASP.NET"`
	_ struct{} `conf:"general" unit:"block" as:"obsolete" why:"leftover" doc:"ancient wrapper"`
	_ struct{} `conf:"enableContextAC" as:"obsolete" why:"leftover" doc:"ancient switch"`
	_ struct{} `conf:"modpagespeed" unit:"block" as:"noeffect" why:"module" gate:"enabled" doc:"PageSpeed"`
	_ struct{} `conf:"modsecurity" unit:"block" as:"noeffect" why:"module" gate:"enabled" doc:"ModSecurity"`
	_ struct{} `conf:"lsrecaptcha" unit:"block" as:"noeffect" why:"module" gate:"enabled" doc:"captcha"`
	_ struct{} `conf:"wpProtectAction" default:"0" as:"noeffect" why:"module" doc:"WordPress login guard"`
	_ struct{} `conf:"wpProtectLimit" as:"noeffect" why:"module" doc:"WordPress login guard"`
}

// HtAccess is the switches of per-directory files. A host's replaces the
// server's.
type HtAccess struct {
	Block
	AllowOverride  int    `conf:"allowOverride" range:"0..31" default:"0" doc:"groups: 1 Limit, 2 Auth, 4 FileInfo, 8 Indexes, 16 Options; 0 none"`
	AccessFileName string `conf:"accessFileName" default:".htaccess" doc:"name of the file"`
}

// Index is a host's index files and listings.
type Index struct {
	Block
	UseServer    int      `conf:"useServer" range:"0..2" default:"1" doc:"0 own list, 1 the server's, 2 own first"`
	IndexFiles   []string `conf:"indexFiles" doc:"tried in order; - is none"`
	AutoIndex    bool     `conf:"autoIndex" default:"0" doc:"1: a directory without an index file is listed; absent: the server's"`
	AutoIndexURI string   `conf:"autoIndexURI" as:"noeffect,minor" why:"listing" default:"/_autoindex/default.php" doc:"script that renders listings"`
}

// ServerRewrite is the rewrite block of the server file.
type ServerRewrite struct {
	Block
	AutoLoadHtaccess bool     `conf:"autoLoadHtaccess" default:"0" doc:"read .htaccess files where a host says nothing"`
	_                struct{} `conf:"enable" as:"obsolete" why:"hosts" doc:"each host has its own"`
	_                struct{} `conf:"logLevel" as:"noeffect,minor" why:"debug" default:"0" doc:"tracing of rules"`
}

// Rewrite is the rewrite block of a host or context.
type Rewrite struct {
	Block
	Enable            bool          `conf:"enable" default:"0" doc:"switch"`
	Inherit           bool          `conf:"inherit" default:"1" doc:"in contexts: the host's rules run after the own ones"`
	Base              string        `conf:"base" doc:"RewriteBase"`
	AutoLoadHtaccess  bool          `conf:"autoLoadHtaccess" default:"0" doc:"read .htaccess files"`
	LogLevel          int           `conf:"logLevel" range:"0..9" default:"0" as:"noeffect,minor" why:"debug" doc:"tracing of rules; explain tells each step"`
	Maps              []*RewriteMap `conf:"map" doc:"lookup tables"`
	Rules             string        `conf:"rules" unit:"text" changed:"a [P] target counts behind proxy contexts, a bad one is 502; more than 10 passes are 500; conditions see REQUEST_URI decoded; a rule that cannot be used leaves the others as they are" doc:"rewrite rules, in the syntax of Apache"`
	AllowDynamicProxy bool          `conf:"allowDynamicProxy" default:"0" as:"honoured,strict" doc:"[P] may make its host of the request: it then has to be the name of a processor of type proxy, any other answers 502; with allowAdHocProxy it may be any host, at most 1,024 of them at once"`
	AllowAdHocProxy   bool          `conf:"allowAdHocProxy" default:"0" as:"honoured,strict" doc:"[P] may name a host that is no processor"`
}

// RewriteMap is a lookup table of rules.
type RewriteMap struct {
	Block
	Name     string   `conf:"name" required:"1" doc:"name"`
	Location string   `conf:"location" expand:"1" doc:"txt:FILE, rnd:FILE, int:toupper, int:tolower, int:escape, int:unescape"`
	_        struct{} `conf:"note" as:"obsolete" why:"remark" doc:"remark"`
}

// Expires is expiry of static answers.
type Expires struct {
	Block
	Enable  bool   `conf:"enableExpires" default:"0" doc:"switch"`
	Default string `conf:"expiresDefault" doc:"A or M and seconds, or words"`
	ByType  string `conf:"expiresByType" doc:"type/sub=A604800, comma list"`
}

// ErrorPage is one own error page.
type ErrorPage struct {
	Block
	ErrCode string   `conf:"errCode" doc:"status codes from 400 to 505"`
	URL     string   `conf:"url" doc:"local path, served under the status of the error; or URL, to which the client is sent with 302, but not for 401, whose challenge would be lost"`
	_       struct{} `conf:"note" as:"obsolete" why:"remark" doc:"remark"`
}

// Cache is the page cache of the server or a host.
type Cache struct {
	Block
	CacheEngine   int         `conf:"cacheEngine" range:"0..7" default:"0" doc:"1: cache; 2, crawler, and 4, ESI, have no effect. --page-cache stands for 1"`
	Storage       Storage     `conf:"storage" doc:"where objects are kept over a restart"`
	Policy        CachePolicy `conf:"cachePolicy" doc:"what is kept"`
	NoCacheDomain []string    `conf:"noCacheDomain" doc:"host names that are never cached; of the server"`
	NoCacheURL    string      `conf:"noCacheUrl" unit:"text" doc:"lines: parts of paths that are never cached, ^ at the beginning and $ at the end"`
	CacheReport   string      `conf:"cacheReport" range:"litespeed|standard|off" default:"litespeed" as:"honoured,strict" doc:"how answers tell what the cache did: X-LiteSpeed-Cache, Cache-Status (RFC 9211), or not at all"`
	PurgeRealm    string      `conf:"purgeRealm" as:"honoured,strict" doc:"realm of the virtual host whose users may PURGE and REFRESH a URL, beside this machine and trusted addresses"`
}

// Storage is where cached objects are kept.
type Storage struct {
	Block
	CacheStorePath string   `conf:"cacheStorePath" unit:"path" changed:"a directory httpjet below it is used; absent: objects are in memory alone" doc:"directory"`
	_              struct{} `conf:"cacheMgrStorePath" as:"noeffect,minor" why:"store" doc:"housekeeping"`
	_              struct{} `conf:"pubStoreExpireMinutes" as:"noeffect,minor" why:"store" doc:"housekeeping"`
	_              struct{} `conf:"purgeNoHitTimeout" as:"noeffect,minor" why:"store" doc:"housekeeping"`
	_              struct{} `conf:"litemage" unit:"block" as:"later,minor" doc:"Magento module"`
}

// CachePolicy is what the page cache keeps.
type CachePolicy struct {
	Block
	EnableCache            bool     `conf:"enableCache" default:"0" doc:"store answers of local applications without their asking"`
	EnablePrivateCache     bool     `conf:"enablePrivateCache" default:"0" doc:"the same, privately"`
	CheckPublicCache       bool     `conf:"checkPublicCache" default:"1" doc:"look up public objects"`
	CheckPrivateCache      bool     `conf:"checkPrivateCache" default:"1" doc:"look up private objects, of clients with a session cookie"`
	EnablePublicCache      bool     `conf:"enablePublicCache" default:"1" doc:"alias of checkPublicCache"`
	RespectCacheable       bool     `conf:"respectCacheable" default:"0" doc:"Cache-Control of the answer may forbid what X-LiteSpeed-Cache-Control allows"`
	MaxCacheObjSize        int64    `conf:"maxCacheObjSize" unit:"size" range:"1K..100M" default:"100M" litespeed:"10000000" doc:"largest object"`
	MaxStaleAge            int      `conf:"maxStaleAge" unit:"s" range:"0..86400" default:"200" doc:"how long an object is served stale while it is made anew"`
	CacheKeyMod            string   `conf:"cacheKeyMod" unit:"text" doc:"query parameters left out of the key, lines: -qs:NAME, -qs:NAME*, clear"`
	ExpireInSeconds        int      `conf:"expireInSeconds" unit:"s" range:"0.." default:"900" litespeed:"3600" doc:"life of an object"`
	PrivateExpireInSeconds int      `conf:"privateExpireInSeconds" unit:"s" range:"0.." default:"0" litespeed:"3600" changed:"at most 300 s" doc:"life of a private object"`
	QSCache                bool     `conf:"qsCache" default:"1" doc:"requests with a query are cached"`
	ReqCookieCache         bool     `conf:"reqCookieCache" default:"1" changed:"a request with a session cookie stores no public object unless the application asks" doc:"requests with cookies store without being asked"`
	RespCookieCache        bool     `conf:"respCookieCache" default:"1" changed:"an answer that begins a session is no public object unless the application asks" doc:"answers that set cookies are stored, without the cookies, without being asked"`
	IgnoreReqCacheCtrl     bool     `conf:"ignoreReqCacheCtrl" default:"1" doc:"the client's Cache-Control does not count"`
	IgnoreRespCacheCtrl    bool     `conf:"ignoreRespCacheCtrl" default:"0" doc:"the answer's Cache-Control does not count where the application did not ask"`
	CacheStatusCode        []int    `conf:"cacheStatusCode" range:"200..599" doc:"stored status codes, 206, 304, 412, 416, 417, 428, 429, 431 and 511 never; absent: 200 and 301, and what an application asks for of 203, 300, 302, 303, 307, 308, 404 and 410"`
	_                      struct{} `conf:"enablePostCache" as:"later,minor" doc:"store answers to POST"`
	_                      struct{} `conf:"microCache5xx" as:"later,minor" doc:"store errors"`
}
