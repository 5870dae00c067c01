package xmlconf

import "time"

// Server is conf/httpd_config.xml.
type Server struct {
	Block
	ServerName         string        `conf:"serverName" doc:"name in generated pages and in SERVER_NAME; a value with $ or none is the machine's name"`
	User               string        `conf:"user" as:"noeffect" why:"user" code:"W-USER" doc:"httpjet never changes its own user, set User= in the systemd unit; as root it starts programs as this user, where nothing else says who they are"`
	Group              string        `conf:"group" as:"noeffect" why:"user" code:"W-USER" doc:"httpjet never changes its own group, set Group= in the systemd unit; as root it starts programs as this group, or that of user where there is none of the name"`
	Mime               string        `conf:"mime" unit:"path" default:"conf/mime.properties" doc:"MIME table, lines suffix,suffix = type/subtype"`
	ShowVersionNumber  int           `conf:"showVersionNumber" range:"0..2" default:"0" doc:"Server field: 0 product, 1 with version, 2 no field"`
	UseIPInProxyHeader int           `conf:"useIpInProxyHeader" range:"0..4" default:"2" litespeed:"2, and X-Forwarded-For is read from the left" changed:"modes 2 and 3 read X-Forwarded-For from right to left, past trusted proxies; LiteSpeed believes its first address, or X-Real-IP" when:"=2|3" doc:"client address from X-Forwarded-For: 0 never, 1 always, 2 and 3 from trusted peers, 4 always its last entry"`
	EnableH2C          bool          `conf:"enableh2c" default:"0" doc:"HTTP/2 with prior knowledge on plain listeners"`
	IndexFiles         []string      `conf:"indexFiles" default:"index.html" doc:"index files of every host"`
	AutoIndex          bool          `conf:"autoIndex" default:"0" doc:"1: directories without an index file are listed, where a host says nothing"`
	AdminEmails        []string      `conf:"adminEmails" as:"later,minor" doc:"contact in error pages and SERVER_ADMIN"`
	SuspendedVhosts    []string      `conf:"suspendedVhosts" doc:"hosts that answer 403 to everything"`
	AutoLoadHtaccess   bool          `conf:"autoLoadHtaccess" default:"0" doc:"read .htaccess files where a host says nothing"`
	AutoDetectCdn      int           `conf:"autoDetectCdn" range:"0..3" default:"0" as:"later" litespeed:"3" doc:"trust known CDN ranges: 1 QUIC.cloud, 2 Cloudflare; counts only when written"`
	AutoWhiteListIPs   bool          `conf:"autoWhiteListLocalIps" default:"0" as:"later" litespeed:"1" doc:"trust the machine's own addresses; counts only when written"`
	LoadApacheConf     int           `conf:"loadApacheConf" range:"0.." default:"0" as:"noeffect" why:"apache" code:"W-APACHE" doc:"import of an Apache configuration: not supported, so its hosts and listeners are missing here"`
	GracefulRestart    time.Duration `conf:"gracefulRestartTimeout" unit:"s" range:"-1..2592000" default:"300" as:"noeffect,minor" why:"restart" doc:"life of old workers after a restart; see tuning/gracefulShutdownTimeout"`

	Rewrite    ServerRewrite  `conf:"rewrite" doc:"rewriting, server-wide switches"`
	HtAccess   HtAccess       `conf:"htAccess" doc:"per-directory files"`
	Tuning     Tuning         `conf:"tuning" doc:"limits of the process"`
	Logging    Logging        `conf:"logging" doc:"error log and access logs"`
	Security   ServerSecurity `conf:"security" doc:"access lists and file rules"`
	Expires    Expires        `conf:"expires" doc:"Expires and Cache-Control of static answers"`
	Cache      Cache          `conf:"cache" doc:"page cache"`
	Quic       Quic           `conf:"quic" doc:"HTTP/3; what stands here goes before tuning"`
	Management *Management    `conf:"management" as:"honoured,strict" doc:"listener of status and metrics; --metrics-addr goes before its address"`
	Tracing    *Tracing       `conf:"tracing" as:"honoured,strict" doc:"W3C trace context of requests to upstreams"`
	Acme       *Acme          `conf:"acme" as:"honoured,strict" doc:"automatic certificates, for names of acmeDomains"`

	PHP            *PHPConfig       `conf:"phpConfig" doc:"PHP of the server, behind LSAPI, for all hosts"`
	ExtProcessors  []*ExtProcessor  `conf:"extProcessorList/extProcessor" doc:"external applications every host may use"`
	ScriptHandlers []*ScriptHandler `conf:"scriptHandlerList/scriptHandler" doc:"suffixes handed to applications"`
	VirtualHosts   []*VHostDecl     `conf:"virtualHostList/virtualHost" doc:"declared virtual hosts"`
	Templates      []*TemplateDecl  `conf:"vhTemplateList/vhTemplate" doc:"virtual hosts made from a template"`
	Listeners      []*Listener      `conf:"listenerList/listener" doc:"sockets that accept clients"`
	Modules        []*Module        `conf:"moduleList/module" changed:"cache alone is of use: it stands for the element cache" doc:"server modules"`

	Refused []*Listener // dropped for their name; their restrictions hold

	Sandbox
	EnableChroot bool   `conf:"enableChroot" default:"0" as:"noeffect" why:"chroot" doc:"chroot of the server; 1 has no program started that httpjet starts"`
	ChrootPath   string `conf:"chrootPath" default:"/" as:"noeffect,minor" why:"chroot" doc:"root of the chroot"`

	_ struct{} `conf:"workerProcesses" as:"noeffect,minor" why:"process" doc:"worker processes"`
	_ struct{} `conf:"httpdWorkers" as:"noeffect,minor" why:"process" doc:"worker processes"`
	_ struct{} `conf:"priority" default:"0" as:"noeffect,minor" why:"process" doc:"nice level"`
	_ struct{} `conf:"cpuAffinity" default:"0" as:"noeffect,minor" why:"process" doc:"pinned workers"`
	_ struct{} `conf:"enableLVE" as:"obsolete" why:"leftover" doc:"CloudLinux mode"`
	_ struct{} `conf:"inMemBufSize" unit:"size" as:"later,minor" doc:"memory for bodies before they spill"`
	_ struct{} `conf:"swappingDir" as:"later,minor" doc:"directory of spilled bodies"`
	_ struct{} `conf:"autoFix503" as:"noeffect,minor" why:"stalled" doc:"restart after long 503"`
	_ struct{} `conf:"statDir" as:"noeffect,minor" why:"reports" doc:"directory of report files"`
	_ struct{} `conf:"jsonReports" default:"0" as:"noeffect,minor" why:"reports" doc:"JSON report files"`
	_ struct{} `conf:"disableInitLogRotation" default:"0" as:"noeffect,minor" why:"leftover" doc:"no rotation at start"`
	_ struct{} `conf:"hideSigInErrorPage" default:"0" as:"later,minor" doc:"no signature in error pages"`
	_ struct{} `conf:"adminRoot" as:"obsolete" why:"webadmin" doc:"WebAdmin console"`
	_ struct{} `conf:"disableWebAdmin" as:"noeffect,minor" why:"webadmin" default:"1" doc:"WebAdmin console"`
	_ struct{} `conf:"autoIndexURI" as:"noeffect,minor" why:"listing" doc:"script that renders listings"`
	_ struct{} `conf:"enableIpGeo" default:"0" as:"noeffect" why:"geo" doc:"geo lookup"`
	_ struct{} `conf:"ipToGeo" unit:"block" as:"noeffect,minor" why:"geo" doc:"geo databases"`
	_ struct{} `conf:"ip2locDB" unit:"block" as:"noeffect,minor" why:"geo" doc:"IP2Location database"`
	_ struct{} `conf:"forceSecureCookie" default:"0" as:"noeffect" why:"cookies" doc:"Secure on cookies"`
	_ struct{} `conf:"ramDiskPath" as:"noeffect,minor" why:"files" doc:"directory in memory"`
	_ struct{} `conf:"verifyGoogleBot" default:"0" as:"noeffect,minor" why:"robots" doc:"reverse lookup of robots"`
	_ struct{} `conf:"extAppAbort" default:"0" as:"noeffect,minor" why:"always" doc:"tell applications of an abort"`
	_ struct{} `conf:"autoUpdateInterval" as:"obsolete" why:"update" doc:"self update"`
	_ struct{} `conf:"autoUpdateDownloadPkg" as:"obsolete" why:"update" doc:"self update"`
	_ struct{} `conf:"autoReloadApacheConf" default:"0" as:"noeffect,minor" why:"apache" doc:"Apache import"`
	_ struct{} `conf:"apacheConfFile" as:"noeffect,minor" why:"apache" doc:"Apache import"`
	_ struct{} `conf:"apachePortOffset" default:"0" as:"noeffect,minor" why:"apache" doc:"Apache import"`
	_ struct{} `conf:"apacheIpOffset" default:"0" as:"noeffect,minor" why:"apache" doc:"Apache import"`
	_ struct{} `conf:"apacheBinPath" as:"noeffect,minor" why:"apache" doc:"Apache import"`
	_ struct{} `conf:"phpSuExec" default:"0" as:"noeffect,minor" why:"starts" doc:"PHP by account"`
	_ struct{} `conf:"phpSuExecMaxConn" as:"noeffect,minor" why:"starts" doc:"PHP by account"`
	_ struct{} `conf:"suexec" unit:"block" as:"noeffect,minor" why:"starts" doc:"setUIDMode of a host and extUser of a processor switch by themselves; CGIRLimit has the bounds"`
	_ struct{} `conf:"apacheConf" unit:"block" as:"noeffect" why:"apache" doc:"Apache directives"`
	_ struct{} `conf:"wpProtectAction" default:"0" as:"noeffect" why:"module" doc:"WordPress login guard"`
	_ struct{} `conf:"wpProtectLimit" as:"noeffect" why:"module" doc:"WordPress login guard"`
	_ struct{} `conf:"fileUpload" unit:"block" as:"noeffect" why:"body" doc:"multipart bodies parsed by the server"`
	_ struct{} `conf:"general" unit:"block" as:"obsolete" why:"leftover" doc:"ancient wrapper"`
	_ struct{} `conf:"railsDefaults" unit:"block" as:"noeffect,minor" why:"appserv" doc:"defaults of appserver contexts"`
	_ struct{} `conf:"rails" unit:"block" as:"noeffect,minor" why:"appserv" doc:"defaults of appserver contexts, older name"`
	_ struct{} `conf:"wsgiDefaults" unit:"block" as:"noeffect,minor" why:"appserv" doc:"defaults of appserver contexts"`
	_ struct{} `conf:"nodeDefaults" unit:"block" as:"noeffect,minor" why:"appserv" doc:"defaults of appserver contexts"`
	_ struct{} `conf:"modpagespeed" unit:"block" as:"noeffect" why:"module" gate:"enabled" doc:"PageSpeed"`
	_ struct{} `conf:"modsecurity" unit:"block" as:"noeffect" why:"module" gate:"enabled" doc:"ModSecurity"`
	_ struct{} `conf:"lsrecaptcha" unit:"block" as:"noeffect" why:"module" gate:"enabled" doc:"captcha"`
}

// VHostDecl is a declaration of a virtual host in the server file. The same
// switches stand at the top of a template file.
type VHostDecl struct {
	Block
	Name       string   `conf:"name" required:"1" doc:"unique name"`
	VHRoot     string   `conf:"vhRoot" unit:"path" doc:"root directory of the host, $VH_ROOT"`
	ConfigFile string   `conf:"configFile" unit:"path" doc:"file with virtualHostConfig"`
	Listeners  []string `conf:"listeners" doc:"listeners that get the file's vhDomain and vhAliases (none: *)"`
	HostSwitches
	_ struct{} `conf:"note" as:"obsolete" why:"remark" doc:"remark"`
	_ struct{} `conf:"virtualHostConfig" unit:"block" as:"noeffect" why:"appdir" doc:"settings inside the declaration: move them to the file that configFile names"`
}

// HostSwitches are the switches that a declaration and a template file share.
type HostSwitches struct {
	AllowSymbolLink int    `conf:"allowSymbolLink" unit:"link" range:"0..2" default:"-1" doc:"follow symbolic links: 0 no, 1 yes, 2 if the owner matches; absent: the server's followSymbolLink"`
	EnableScript    bool   `conf:"enableScript" default:"1" changed:"a path of a script suffix answers 403, never its source" when:"=0" doc:"0: script suffixes answer 403"`
	Restrained      bool   `conf:"restrained" default:"0" doc:"files outside vhRoot are refused; a context whose location lies there answers 503"`
	SetUIDMode      int    `conf:"setUIDMode" range:"0..2" default:"0" doc:"2: programs that httpjet starts for this host run as the owner of docRoot, where no extUser is written: as root alone, from minUID on, else they answer 503; a processor of the server is started once more for it. 0, 1: as httpjet"`
	VHUser          string `conf:"user" expand:"1" doc:"user that programs run as that httpjet starts for this host, where no extUser is written: as with setUIDMode 2; $VH_USER"`
	VHGroup         string `conf:"group" expand:"1" doc:"group that they run as; that of user when absent"`
	Confined
	MaxKeepAliveReq int `conf:"maxKeepAliveReq" range:"0..32767" default:"-1" as:"later" doc:"requests of a connection; absent: the server's"`

	_ struct{} `conf:"smartKeepAlive" as:"obsolete" why:"leftover" doc:"keep-alive for images only"`
	_ struct{} `conf:"staticReqPerSec" default:"0" as:"later" doc:"requests of a client for files"`
	_ struct{} `conf:"dynReqPerSec" default:"0" as:"later" doc:"requests of a client for applications"`
	_ struct{} `conf:"outBandwidth" default:"0" as:"later" doc:"bytes a second to a client"`
	_ struct{} `conf:"inBandwidth" default:"0" as:"later" doc:"bytes a second from a client"`
	_ struct{} `conf:"throttleLimit" as:"obsolete" why:"throttle" doc:"older name of a bandwidth limit"`
}

// Confined is what a host says of who its programs are and how they are confined. What
// stands in its file goes before its declaration.
type Confined struct {
	Sandbox
	SuexecUser  string `conf:"suexecUser" expand:"1" doc:"as user, and before it"`
	SuexecGroup string `conf:"suexecGroup" expand:"1" doc:"as group, and before it"`
	ChrootMode  int    `conf:"chrootMode" range:"0..2" default:"0" as:"closes" doc:"chroot of started programs: 1 the vhRoot, 2 chrootPath; httpjet starts none then"`
	ChrootPath  string `conf:"chrootPath" doc:"chroot of started programs; / is none"`
	Cgroups     int    `conf:"cgroups" range:"0..2" default:"0" as:"closes" doc:"control groups of started programs: as bubbleWrap"`
}

// Module is a server module with its parameters as text.
type Module struct {
	Block
	Name    string   `conf:"name" required:"1" doc:"name"`
	Enabled bool     `conf:"ls_enabled" default:"1" doc:"switch"`
	Param   string   `conf:"param" unit:"text" changed:"of the module cache: as the elements of that name in cachePolicy; storagePath is cacheStorePath; with reqHeaderVary the cache is off; no-vary, addEtag and purgeUri are told" doc:"lines: key value"`
	_       struct{} `conf:"enabled" doc:"switch, second spelling"`
	_       struct{} `conf:"internal" as:"obsolete" why:"leftover" doc:"built in"`
	_       struct{} `conf:"note" as:"obsolete" why:"remark" doc:"remark"`
	_       struct{} `conf:"urlFilterList" unit:"block" as:"noeffect" why:"module" doc:"parameters by URL"`
}

// Management is the listener of status and metrics (R-MGMT-1).
type Management struct {
	Block
	Address      string   `conf:"address" default:"127.0.0.1:9090" doc:"literal IP and port, of its own; a reload may change it"`
	AllowedCIDRs []string `conf:"allowedCIDRs" doc:"networks whose peers may ask, by the address of their connection; required for an address that is not loopback, else the loopback"`
	Socket       string   `conf:"socket" unit:"path" doc:"Unix socket that answers the same beside the address; who may write to it may ask"`
	SocketMode   uint32   `conf:"socketMode" unit:"octal" default:"0600" doc:"permissions of the socket, up to 0777"`
	Pprof        bool     `conf:"pprof" default:"0" doc:"/debug/pprof/ for loopback peers, and those of the socket"`
	LiteSpeed    bool     `conf:"litespeedMetrics" default:"0" doc:"1: /metrics also has the names of LiteSpeed's Prometheus exporter"`
}

// Tracing is the server's trace settings (R-TRACE-1).
type Tracing struct {
	Block
	Mode         string `conf:"mode" range:"passthrough|inject|span" default:"passthrough" doc:"traceparent and tracestate go on as they came; inject adds a fresh traceparent where none can be read; span makes a span of each request and of each attempt, which upstreams have as their parent"`
	SampleRate   string `conf:"sampleRate" default:"1.0" doc:"share of requests whose spans are exported, 0 to 1; a trusted proxy that has sent a traceparent decides instead"`
	Exporter     string `conf:"exporter" range:"none|log|otlphttp" default:"none" doc:"where spans go: nowhere, into the error log at level INFO, or to a collector by OTLP over HTTP in protobuf"`
	Endpoint     string `conf:"endpoint" doc:"URL of the collector, http or https; without a path /v1/traces is added"`
	RecordQuery  bool   `conf:"recordQuery" default:"0" doc:"spans have the query of the request"`
	TrustInbound bool   `conf:"trustInbound" default:"1" doc:"0: trace context of clients that are no trusted proxies is dropped"`

	TimelineFrom []string `conf:"timelineFrom" doc:"networks whose clients get a timeline of a request that has the field X-Httpjet-Timeline; absent: nobody"`
	TimelineKeep int      `conf:"timelineKeep" range:"1..10000" default:"100" doc:"timelines that are kept, the last ones"`
}

// Acme is the server's account for automatic certificates (R-ACME-1).
type Acme struct {
	Block
	Enable       bool   `conf:"enable" default:"0" doc:"switch; 1 accepts the terms of the CA"`
	Email        string `conf:"email" doc:"contact"`
	CacheDir     string `conf:"cacheDir" unit:"path" default:"conf/acme" doc:"directory of keys and certificates, for the own user alone"`
	DirectoryURL string `conf:"directoryUrl" doc:"ACME directory, https; absent: that of Let's Encrypt"`
	CAFile       string `conf:"caFile" unit:"path" doc:"authorities of the ACME server's own certificate, PEM; absent: the system's"`
	EABKeyID     string `conf:"eabKeyId" doc:"external account binding: the key's name"`
	EABKeyFile   string `conf:"eabMacKeyFile" unit:"path" doc:"external account binding: file that holds the MAC key, base64url"`
}
