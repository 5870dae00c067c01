package xmlconf

import "time"

// Listener is one socket that accepts clients.
type Listener struct {
	Block
	Name    string      `conf:"name" required:"1" doc:"unique name"`
	Address string      `conf:"address" default:"*:80" doc:"HOST:PORT, *:PORT, [v6]:PORT, [ANY]:PORT"`
	Secure  bool        `conf:"secure" default:"0" doc:"TLS"`
	Maps    []*VHostMap `conf:"vhostMapList/vhostMap" doc:"domains of hosts"`
	TLS
	SSLProtocol int `conf:"sslProtocol" range:"1..31" default:"24" doc:"versions: 8 TLS 1.2, 16 TLS 1.3; older ones are never enabled"`

	HTTPSRedirect     int      `conf:"httpsRedirect" range:"0|301|308" default:"0" as:"honoured,strict" doc:"status that sends plain requests to https; a host that no name or pattern maps gets 404, /.well-known/acme-challenge/ is served"`
	HTTPSRedirectPort int      `conf:"httpsRedirectPort" range:"1..65535" default:"443" as:"honoured,strict" doc:"port of the redirect"`
	AcmeDomains       []string `conf:"acmeDomains" as:"honoured,strict" doc:"exact names for which certificates are issued and renewed, if acme is enabled; until one is there, the certificate that the name would have, or a self-signed one"`

	Bind ListenAddress // Address, read; zero if it cannot be used

	_ struct{} `conf:"note" as:"obsolete" why:"remark" doc:"remark"`
	_ struct{} `conf:"reusePort" default:"1" as:"later,minor" doc:"SO_REUSEPORT"`
	_ struct{} `conf:"binding" as:"noeffect,minor" why:"process" doc:"worker processes that listen"`
}

// TLS is what a listener and a host's vhssl share.
type TLS struct {
	KeyFile      string `conf:"keyFile" unit:"path" doc:"private key, PEM"`
	CertFile     string `conf:"certFile" unit:"path" doc:"certificate and chain, PEM"`
	CertChain    bool   `conf:"certChain" default:"0" doc:"the file holds the chain; all its certificates are always sent"`
	CACertFile   string `conf:"CACertFile" unit:"path" doc:"CA of client certificates; with certChain, sent behind the own certificate too"`
	CACertPath   string `conf:"CACertPath" unit:"path" doc:"directory of CAs of client certificates, 1000 files at most"`
	Ciphers      string `conf:"ciphers" changed:"suites without forward secrecy are never enabled, and the order of the list does not count" doc:"ciphers of TLS 1.2, OpenSSL list; absent: in vhssl the listener's, else sslDefaultCiphers, else all that are safe"`
	EnableSpdy   int    `conf:"enableSpdy" range:"0..15" default:"12" doc:"ALPN: 4 h2, 8 h3, 0 none"`
	EnableQuic   bool   `conf:"enableQuic" default:"1" doc:"HTTP/3, besides bit 8 of enableSpdy and TLS 1.3; in vhssl: for names of the host"`
	ClientVerify int    `conf:"clientVerify" range:"0..3" default:"0" changed:"a request without the certificate is answered 403, over plain HTTP sent to https; another host of the connection that asks for other certificates answers 421" when:"=2" doc:"client certificates: 0 none, 1 optional and verified, 2 required, 3 optional and not verified; in vhssl instead of the listener's"`
	VerifyDepth  int    `conf:"verifyDepth" range:"1.." default:"1" doc:"authorities above a client's certificate, its root among them"`
	CRLFile      string `conf:"crlFile" unit:"path" doc:"revocation lists of client certificates, PEM or DER, signed by a CA of CACertFile; a client whose CA has no list in force is refused"`
	CRLPath      string `conf:"crlPath" unit:"path" doc:"directory of revocation lists"`
	Stapling     bool   `conf:"enableStapling" default:"0" doc:"1: an OCSP response is sent along with the certificate, once the responder that it names has given one; the file must hold the issuer's certificate"`

	OCSPMaxAge    time.Duration `conf:"ocspRespMaxAge" unit:"s" range:"60..360000" default:"3600" doc:"age at which an OCSP response is renewed; earlier where it ends before twice that"`
	OCSPResponder string        `conf:"ocspResponder" doc:"URL of the OCSP responder instead of the one that the certificate names"`
	_             struct{}      `conf:"ocspCACerts" as:"noeffect,minor" why:"issuer" doc:"authorities of OCSP responders"`

	SessionTickets bool     `conf:"sslSessionTickets" default:"1" doc:"TLS sessions are resumed by tickets; 0: never"`
	_              struct{} `conf:"enableECDHE" as:"noeffect,minor" why:"tls" default:"1" doc:"key exchange"`
	_              struct{} `conf:"enableDHE" as:"noeffect,minor" why:"tls" default:"0" doc:"key exchange"`
	_              struct{} `conf:"DHParam" as:"noeffect,minor" why:"tls" doc:"key exchange"`
	_              struct{} `conf:"renegProtection" as:"obsolete" why:"always" doc:"renegotiation is always refused"`
	_              struct{} `conf:"sslSessionCache" as:"noeffect,minor" why:"tls" default:"0" doc:"server-side TLS sessions"`
}

// VHostMap maps domains of a listener to a host.
type VHostMap struct {
	Block
	VHost   string   `conf:"vhost" required:"1" doc:"name of the host"`
	Domains []string `conf:"domain" required:"1" doc:"names, patterns with * and ?, or *"`
}

// VHSSL is a host's own certificate.
type VHSSL struct {
	Block
	TLS
	_    struct{}  `conf:"sslProtocol" as:"noeffect" why:"listener" doc:"the listener decides the versions"`
	Acme *HostAcme `conf:"acme" doc:"automatic certificates for the exact names that secure listeners map to the host"`
}

// HostAcme switches automatic certificates of a host.
type HostAcme struct {
	Block
	Enabled int      `conf:"enabled" range:"0..2" default:"0" doc:"0: as acme of tuning says, 1: off, 2: on; a host with certFile and keyFile has none"`
	API     string   `conf:"api" as:"noeffect" why:"dnsapi" doc:"plug-in that proves names by DNS"`
	Env     []string `conf:"env" as:"noeffect,minor" why:"dnsapi" doc:"variable for the plug-in"`
}

// TemplateDecl names a template file and its members.
type TemplateDecl struct {
	Block
	Name         string    `conf:"name" required:"1" doc:"name of the template"`
	TemplateFile string    `conf:"templateFile" required:"1" unit:"path" doc:"file with virtualHostTemplate"`
	Listeners    []string  `conf:"listeners" doc:"listeners that map the members"`
	Members      []*Member `conf:"member" doc:"one host for each"`
	_            struct{}  `conf:"note" as:"obsolete" why:"remark" doc:"remark"`
}

// Member is one host made from a template.
type Member struct {
	Block
	VHName    string   `conf:"vhName" required:"1" doc:"name of the host"`
	VHDomain  []string `conf:"vhDomain" expand:"1" doc:"domains; absent: vhName"`
	VHAliases []string `conf:"vhAliases" expand:"1" doc:"further domains"`
	VHRoot    string   `conf:"vhRoot" unit:"path" doc:"instead of the template's"`
	_         struct{} `conf:"note" as:"obsolete" why:"remark" doc:"remark"`
}

// Template is a template file.
type Template struct {
	Block
	VHRoot     string `conf:"vhRoot" unit:"path" doc:"root of each member; should hold $VH_NAME"`
	HostConfig *VHost `conf:"virtualHostConfig" doc:"settings of each member"`
	HostSwitches
	_ struct{} `conf:"configFile" as:"obsolete" why:"webadmin" doc:"used by WebAdmin only"`
	_ struct{} `conf:"templateFile" as:"obsolete" why:"webadmin" doc:"used by WebAdmin only"`
	_ struct{} `conf:"note" as:"obsolete" why:"remark" doc:"remark"`
}

// ErrorLog is logging/log.
type ErrorLog struct {
	Block
	UseServer       int      `conf:"useServer" range:"0..2" default:"1" doc:"0 own file, 1 the server's (hosts only; their lines go to the server's for now)"`
	FileName        string   `conf:"fileName" unit:"log" expand:"1" doc:"path, relative to the server root; stdout, stderr"`
	LogLevel        string   `conf:"logLevel" range:"ERROR|WARN|NOTICE|INFO|DEBUG" default:"INFO" doc:"least level written"`
	RollingSize     int64    `conf:"rollingSize" unit:"size" range:"0.." default:"20M" litespeed:"10M" doc:"size of rotation; 0: never"`
	KeepDays        int      `conf:"keepDays" range:"0.." default:"30" doc:"age of deletion; 0: keep"`
	CompressArchive bool     `conf:"compressArchive" default:"0" doc:"gzip rotated files"`
	_               struct{} `conf:"debugLevel" as:"noeffect,minor" why:"debug" default:"0" doc:"verbosity of DEBUG"`
	_               struct{} `conf:"enableStderrLog" as:"later,minor" default:"1" doc:"stderr.log"`
	_               struct{} `conf:"enableAioLog" as:"obsolete" why:"always" doc:"asynchronous writes"`
}

// AccessLog is logging/accessLog.
type AccessLog struct {
	Block
	UseServer       int      `conf:"useServer" range:"0..2" default:"0" doc:"0 own file, 1 the server's, 2 none (hosts only)"`
	FileName        string   `conf:"fileName" unit:"log" expand:"1" doc:"path, relative to the server root; stdout, stderr"`
	LogFormat       string   `conf:"logFormat" doc:"combined, common, json, or a line in the language of Apache's LogFormat"`
	LogHeaders      int      `conf:"logHeaders" range:"0..7" default:"3" doc:"bits, without logFormat: 1 Referer, 2 User-Agent, 4 Host"`
	RollingSize     int64    `conf:"rollingSize" unit:"size" range:"0.." default:"10M" doc:"size of rotation; 0: never"`
	KeepDays        int      `conf:"keepDays" range:"0.." default:"30" doc:"age of deletion; 0: keep"`
	CompressArchive bool     `conf:"compressArchive" default:"0" doc:"gzip rotated files"`
	LogReferer      bool     `conf:"logReferer" default:"1" doc:"older form of bit 1 of logHeaders, which goes before it"`
	LogUserAgent    bool     `conf:"logUserAgent" default:"1" doc:"older form of bit 2 of logHeaders, which goes before it"`
	BytesLog        string   `conf:"bytesLog" as:"noeffect" why:"bytes" doc:"bandwidth log"`
	PipedLogger     string   `conf:"pipedLogger" as:"noeffect" why:"logger" doc:"logger application"`
	_               struct{} `conf:"enableAioLog" as:"obsolete" why:"always" doc:"asynchronous writes"`
	_               struct{} `conf:"append" as:"obsolete" why:"always" doc:"always appended"`
}

// Logging is the logs of the server or of a host.
type Logging struct {
	Block
	Log           *ErrorLog    `conf:"log" doc:"error log"`
	AccessLogs    []*AccessLog `conf:"accessLog" doc:"access logs; each gets every request of its scope"`
	CompletionLog bool         `conf:"completionLog" default:"0" as:"honoured" doc:"one JSON object for each request on stdout, without path and fields"`
	SlowLog       *SlowLog     `conf:"slowLog" as:"honoured,strict" doc:"slow requests of applications; that of a virtual host goes before the server's"`
	_             struct{}     `conf:"enableAioLog" as:"obsolete" why:"always" doc:"asynchronous writes"`
	_             struct{}     `conf:"enableStderrLog" as:"later,minor" default:"1" doc:"stderr.log"`
}

// SlowLog is the log of requests that applications, FastCGI and LSAPI, are slow to
// answer. Its lines have fields between tabs: time, milliseconds to the end of the answer,
// milliseconds to its head, status, virtual host, method, URI, script, process, request id.
type SlowLog struct {
	Block
	FileName    string        `conf:"fileName" unit:"log" expand:"1" doc:"path, relative to the server root; stdout, stderr; absent: logs/httpjet_slow.log"`
	Threshold   time.Duration `conf:"threshold" unit:"s" range:"1ms..3600" default:"50ms" doc:"requests that take as long have a line"`
	Sample      int           `conf:"sample" range:"0..1000000" default:"128" doc:"of the others one in so many has one too; 0: none"`
	RollingSize int64         `conf:"rollingSize" unit:"size" range:"0.." default:"64M" doc:"size of rotation; 0: never"`
	KeepDays    int           `conf:"keepDays" range:"0.." default:"30" doc:"age of deletion; 0: keep"`
}
