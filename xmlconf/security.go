package xmlconf

// ServerSecurity is the security block of the server file.
type ServerSecurity struct {
	Block
	AccessControl     *AccessControl    `conf:"accessControl" doc:"addresses; a refused client is cut off"`
	AccessDenyDir     []Text            `conf:"accessDenyDir/dir" unit:"path" doc:"directories never served; /* at the end: the whole tree"`
	FileAccess        FileAccessControl `conf:"fileAccessControl" doc:"links and permissions of files"`
	PerClient         PerClientLimit    `conf:"perClientConnLimit" doc:"throttling of clients"`
	CGI               CGIRLimit         `conf:"CGIRLimit" doc:"limits of started applications"`
	HotlinkCtrl       *HotlinkCtrl      `conf:"hotlinkCtrl" doc:"Referer check; that of a virtual host goes before the server's"`
	UseCFConnectingIP bool              `conf:"useCFConnectingIP" default:"0" as:"honoured,strict" doc:"CF-Connecting-IP of a trusted peer names the client"`
	ClientRateLimit   *ClientRateLimit  `conf:"clientRateLimit" as:"honoured,strict" doc:"requests of a client, all hosts"`
	Sandbox

	_ struct{} `conf:"censorshipControl" unit:"block" as:"noeffect" why:"module" gate:"enableCensorship" doc:"request filter"`
	_ struct{} `conf:"censorshipRuleSet" unit:"block" as:"noeffect" why:"module" gate:"enabled" doc:"request filter"`
	_ struct{} `conf:"lsrecaptcha" unit:"block" as:"noeffect" why:"module" gate:"enabled" doc:"captcha"`
	_ struct{} `conf:"wpProtectAction" default:"0" as:"noeffect" why:"module" doc:"WordPress login guard"`
	_ struct{} `conf:"wpProtectLimit" as:"noeffect" why:"module" doc:"WordPress login guard"`
	_ struct{} `conf:"allowExtAppSetuid" default:"0" as:"noeffect,minor" why:"starts" doc:"identities of started applications"`
}

// AccessControl is a pair of address lists. Items are as written, remarks
// removed; T at the end of an allow item marks a trusted proxy.
type AccessControl struct {
	Block
	Allow []string `conf:"allow" unit:"acl" doc:"addresses, networks, ALL; T at the end: trusted proxy"`
	Deny  []string `conf:"deny" unit:"acl" doc:"addresses, networks, ALL"`
}

// FileAccessControl is the server's rules about files.
type FileAccessControl struct {
	Block
	FollowSymbolLink               int    `conf:"followSymbolLink" unit:"link" range:"0..2" default:"1" doc:"0 no, 1 yes, 2 if the owner matches"`
	CheckSymbolLink                bool   `conf:"checkSymbolLink" default:"0" doc:"test a link's target against accessDenyDir"`
	ForceStrictOwnership           bool   `conf:"forceStrictOwnership" default:"0" doc:"files must belong to the owner of the document root; others answer 403"`
	RequiredPermissionMask         uint32 `conf:"requiredPermissionMask" unit:"octal" default:"004" doc:"bits a file must have"`
	RestrictedPermissionMask       uint32 `conf:"restrictedPermissionMask" unit:"octal" default:"041111" doc:"bits a file must not have"`
	RestrictedScriptPermissionMask uint32 `conf:"restrictedScriptPermissionMask" unit:"octal" default:"000" doc:"bits a script must not have"`
	RestrictedDirPermissionMask    uint32 `conf:"restrictedDirPermissionMask" unit:"octal" default:"000" doc:"bits a directory must not have"`
}

// PerClientLimit is the throttling of one client address.
type PerClientLimit struct {
	Block
	StaticReqPerSec int      `conf:"staticReqPerSec" range:"0.." default:"0" changed:"a request that would wait for over 10 s is answered 429" doc:"requests for files in a second, more wait for the next; 0: no limit"`
	DynReqPerSec    int      `conf:"dynReqPerSec" range:"0.." default:"0" changed:"a request that would wait for over 10 s is answered 429" doc:"requests for applications in a second, more wait for the next; 0: no limit"`
	OutBandwidth    int64    `conf:"outBandwidth" unit:"size" range:"0.." default:"0" doc:"bytes a second of the bodies of answers, rounded up to 4K; tunnels are not slowed; 0: no limit"`
	InBandwidth     int64    `conf:"inBandwidth" unit:"size" range:"0.." default:"0" doc:"bytes a second of the bodies of requests, rounded up to 1K; 0: no limit"`
	SoftLimit       int      `conf:"softLimit" range:"0.." default:"10000" doc:"connections that lead to a ban when they last; 0: no limit"`
	HardLimit       int      `conf:"hardLimit" range:"0.." default:"10000" doc:"connections at once, more are closed; 0: no limit; loopback and trusted addresses are exempt from this block"`
	GracePeriod     int      `conf:"gracePeriod" unit:"s" range:"1..3600" default:"10" doc:"time over softLimit before a ban"`
	BanPeriod       int      `conf:"banPeriod" unit:"s" range:"0.." default:"60" doc:"length of a ban; 0: none"`
	BlockBadReq     bool     `conf:"blockBadReq" default:"1" doc:"ban clients that send 10 malformed requests within gracePeriod"`
	_               struct{} `conf:"throttleLimit" as:"obsolete" why:"throttle" doc:"older name of a bandwidth limit"`
}

// CGIRLimit is the limits of started applications, where they have none of their own.
type CGIRLimit struct {
	Block
	_        struct{} `conf:"maxCGIInstances" as:"obsolete" why:"starts" doc:"programs at once"`
	MinUID   int      `conf:"minUID" range:"10..2000000000" default:"11" doc:"least user id that extUser, user, suexecUser and setUIDMode may have a program started as"`
	MinGID   int      `conf:"minGID" range:"5..2000000000" default:"10" doc:"least group id that they may"`
	ForceGID int      `conf:"forceGID" range:"0..2000000000" default:"0" doc:"group id of every program that is started as another user; 0: that user's"`
	Umask    string   `conf:"umask" doc:"of programs, octal; the server's when absent"`
	Priority int      `conf:"priority" range:"-20..20" default:"0" doc:"nice level of programs; the server's when absent"`
	CPUSoft  int      `conf:"CPUSoftLimit" range:"0..1000000000" default:"0" doc:"seconds of CPU time that each process that is started, and each of its children, may take before it is told by SIGXCPU, which ends most; 0: no limit"`
	CPUHard  int      `conf:"CPUHardLimit" range:"0..1000000000" default:"0" doc:"seconds of CPU time behind which it is killed; 0: no limit"`
	MemSoft  int64    `conf:"memSoftLimit" unit:"size" range:"0.." default:"0" doc:"address space of each process that is started; 0: no limit"`
	MemHard  int64    `conf:"memHardLimit" unit:"size" range:"0.." default:"0" doc:"address space that it may raise its limit to; 0: no limit"`
	ProcSoft int      `conf:"procSoftLimit" range:"0..1000000" default:"0" doc:"processes of the user of a program that is started; 0: no limit"`
	ProcHard int      `conf:"procHardLimit" range:"0..1000000" default:"0" doc:"processes that it may raise its limit to; 0: no limit"`

	_ struct{} `conf:"cgidSock" as:"obsolete" why:"starts" doc:"socket of the CGI daemon"`

	Cgroups int `conf:"cgroups" range:"0..2" default:"0" as:"closes" doc:"control groups of users: 2 has no program started that httpjet starts, nor does it in a virtual host unless this is 0; set limits in the systemd unit"`
}

// Sandbox is what confines started programs in LiteSpeed: 0 is off for all, 1 unless a
// host says 2, 2 on.
type Sandbox struct {
	BubbleWrap int `conf:"bubbleWrap" range:"0..2" default:"0" as:"closes" doc:"sandbox of started programs: 2 has none started, for httpjet has no sandbox, nor does it in a virtual host unless the server's is 0"`
	Namespace  int `conf:"namespace" range:"0..2" default:"0" as:"closes" doc:"namespaces of started programs: as bubbleWrap"`
}

// HotlinkCtrl is the Referer check for media files.
type HotlinkCtrl struct {
	Block
	Enable            bool     `conf:"enableHotlinkCtrl" default:"0" doc:"switch"`
	Suffixes          []string `conf:"suffixes" doc:"suffixes of guarded files, whatever answers for them; none closes the host"`
	RedirectURI       string   `conf:"redirectUri" doc:"path or URL that guarded requests are sent to (302) instead of 403"`
	AllowDirectAccess bool     `conf:"allowDirectAccess" default:"0" doc:"requests without Referer pass"`
	OnlySelf          bool     `conf:"onlySelf" default:"0" doc:"only the host's own pages"`
	AllowedHosts      []string `conf:"allowedHosts" doc:"further hosts, * and ? for any; without onlySelf"`
}

// HostSecurity is the security block of a vhost file.
type HostSecurity struct {
	Block
	AccessControl   *AccessControl   `conf:"accessControl" doc:"addresses; a refused client gets 403"`
	Realms          []*Realm         `conf:"realmList/realm" doc:"password realms, which contexts name"`
	HotlinkCtrl     *HotlinkCtrl     `conf:"hotlinkCtrl" doc:"Referer check; that of a virtual host goes before the server's"`
	ClientRateLimit *ClientRateLimit `conf:"clientRateLimit" as:"honoured,strict" doc:"requests of a client to this host"`
	Sandbox

	_ struct{} `conf:"lsrecaptcha" unit:"block" as:"noeffect" why:"module" gate:"enabled" doc:"captcha"`
	_ struct{} `conf:"wpProtectAction" default:"0" as:"noeffect" why:"module" doc:"WordPress login guard"`
	_ struct{} `conf:"wpProtectLimit" as:"noeffect" why:"module" doc:"WordPress login guard"`
	_ struct{} `conf:"general" unit:"block" as:"obsolete" why:"leftover" doc:"ancient wrapper"`
}

// Realm is a set of users and groups. Realms alone restrict nothing: a context
// names one.
type Realm struct {
	Block
	Name    string   `conf:"name" required:"1" doc:"name"`
	Type    string   `conf:"type" default:"file" doc:"file; ldap and dbm are not implemented"`
	UserDB  *RealmDB `conf:"userDB" doc:"users"`
	GroupDB *RealmDB `conf:"groupDB" doc:"groups"`
	_       struct{} `conf:"note" as:"obsolete" why:"remark" doc:"remark"`
}

// RealmDB is one file of a realm.
type RealmDB struct {
	Block
	Location     string   `conf:"location" unit:"path" doc:"file: user:hash[:groups], or group: user user; hashes are bcrypt, $apr1$, $1$, $5$, $6$ and {SHA}; looked at again once a second; over 8 MiB it closes the realm"`
	MaxCacheSize int      `conf:"maxCacheSize" unit:"size" range:"0..102400" default:"200" doc:"verdicts about passwords that are kept"`
	CacheTimeout int      `conf:"cacheTimeout" unit:"s" range:"0..3600" default:"60" doc:"life of a verdict, unless the file changes"`
	_            struct{} `conf:"type" as:"obsolete" why:"leftover" doc:"older place of the realm's type"`
	_            struct{} `conf:"attrPasswd" as:"noeffect" why:"ldap" doc:"LDAP"`
	_            struct{} `conf:"attrMemberOf" as:"noeffect" why:"ldap" doc:"LDAP"`
	_            struct{} `conf:"LDAPBindDN" as:"noeffect" why:"ldap" doc:"LDAP"`
	_            struct{} `conf:"LDAPBindPasswd" as:"noeffect" why:"ldap" doc:"LDAP"`
}
