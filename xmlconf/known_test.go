package xmlconf

import (
	"strings"
	"testing"
)

// Every element that LiteSpeed knows is known here, whatever its treatment: none
// is told to be unknown.
func TestKnownElements(t *testing.T) {
	// A part of path may name children that it needs: listener+name.
	f := func(path, names string) {
		t.Helper()
		parts := strings.Split(path, "/")
		var b strings.Builder
		child := func(name string) { b.WriteString("<" + name + ">/1</" + name + ">") }
		for i, p := range parts {
			part, needs, _ := strings.Cut(p, "+")
			parts[i] = part
			b.WriteString("<" + part + ">")
			for _, name := range strings.FieldsFunc(needs, func(r rune) bool { return r == '+' }) {
				child(name)
			}
		}
		for name := range strings.FieldsSeq(names) {
			child(name)
		}
		for i := len(parts) - 1; i >= 0; i-- {
			b.WriteString("</" + parts[i] + ">")
		}
		fs := &Findings{}
		n, err := Parse("f.xml", []byte(b.String()), fs)
		if err != nil {
			t.Fatal(err)
		}
		(&loader{fs: fs, dec: newDecoder(fs)}).document(n)
		for _, l := range fs.All() {
			if l.Code == "W-UNKNOWN" || l.Code == "W-SKIPPED" || strings.Contains(l.Message, "unknown element") {
				t.Errorf("%s: %s", path, l)
			}
		}
	}
	const server, host = "httpServerConfig", "virtualHostConfig"
	f(server, `serverName workerProcesses httpdWorkers user group priority cpuAffinity enableLVE enableChroot chrootPath
		inMemBufSize swappingDir autoFix503 enableh2c gracefulRestartTimeout statDir jsonReports mime disableInitLogRotation
		showVersionNumber hideSigInErrorPage useIpInProxyHeader autoDetectCdn autoWhiteListLocalIps adminEmails adminRoot
		disableWebAdmin indexFiles autoIndex autoIndexURI enableIpGeo ipToGeo ip2locDB suspendedVhosts forceSecureCookie
		ramDiskPath verifyGoogleBot extAppAbort autoUpdateInterval autoUpdateDownloadPkg loadApacheConf autoReloadApacheConf
		apacheConfFile apachePortOffset apacheIpOffset apacheBinPath phpSuExec phpSuExecMaxConn phpConfig apacheConf
		wpProtectAction wpProtectLimit htAccess quic fileUpload general expires tuning security railsDefaults rails
		wsgiDefaults nodeDefaults moduleList modpagespeed modsecurity cache logging rewrite lsrecaptcha`)
	f(server+"/htAccess", "allowOverride accessFileName")
	f(server+"/logging/log", "useServer fileName logLevel debugLevel rollingSize keepDays compressArchive enableStderrLog enableAioLog")
	f(server+"/logging/accessLog", "useServer fileName rollingSize keepDays compressArchive logFormat logHeaders logReferer logUserAgent pipedLogger bytesLog")
	f(server+"/expires", "enableExpires expiresDefault expiresByType")
	f(server+"/tuning", `maxConnections maxSSLConnections connTimeout maxKeepAliveReq keepAliveTimeout smartKeepAlive eventDispatcher
		SSLCryptoDevice sndBufSize rcvBufSize maxReqURLLen maxReqHeaderSize maxReqBodySize maxDynRespHeaderSize maxDynRespSize
		maxCachedFileSize totalInMemCacheSize maxMMapFileSize totalMMapCacheSize useSendfile useAIO AIOBlockSize fileETag
		enableGzipCompress enableDynGzipCompress gzipCompressLevel compressibleTypes gzipAutoUpdateStatic gzipStaticCompressLevel
		gzipCacheDir gzipMaxFileSize gzipMinFileSize enableBrCompress brStaticCompressLevel proxyProtocol shmDefaultDir
		sslDefaultCiphers sslStrongDhKey sslEnableMultiCerts sslStrictSni sslSessionCache sslSessionCacheSize
		sslSessionCacheTimeout sslSessionTickets sslSessionTicketLifetime sslSessionTicketKeyFile sslOcspProxy sslDefaultCAFile
		sslDefaultCAPath acme quicEnable quicShmDir quicVersions quicCongestionCtrl quicCfcw quicMaxCfcw quicSfcw quicMaxSfcw
		quicMaxStreams quicHandshakeTimeout quicIdleTimeout enableZstdCompress zstdCompressLevel`)
	f(server+"/security/fileAccessControl", `followSymbolLink checkSymbolLink forceStrictOwnership requiredPermissionMask
		restrictedPermissionMask restrictedScriptPermissionMask restrictedDirPermissionMask`)
	f(server+"/security/perClientConnLimit", `staticReqPerSec dynReqPerSec outBandwidth inBandwidth softLimit hardLimit gracePeriod
		banPeriod blockBadReq throttleLimit`)
	f(server+"/security/CGIRLimit", `maxCGIInstances minUID minGID forceGID umask priority CPUSoftLimit CPUHardLimit memSoftLimit
		memHardLimit procSoftLimit procHardLimit cgidSock cgroups`)
	f(server+"/security", "accessDenyDir accessControl lsrecaptcha censorshipControl censorshipRuleSet bubbleWrap namespace allowExtAppSetuid")
	f(server+"/extProcessorList/extProcessor", `type name address note maxConns env initTimeout retryTimeout persistConn
		pcKeepAliveTimeout respBuffer autoStart path backlog instances runOnStartUp extUser extGroup umask extMaxIdleTime priority
		memSoftLimit memHardLimit procSoftLimit procHardLimit workers`)
	f(server+"/scriptHandlerList/scriptHandler", "suffix type handler note")
	f(server+"/listenerList/listener", `name address note secure reusePort binding vhostMapList keyFile certFile certChain CACertPath
		CACertFile sslProtocol ciphers enableECDHE enableDHE DHParam renegProtection sslSessionCache sslSessionTickets enableSpdy
		enableQuic enableStapling ocspRespMaxAge ocspResponder ocspCACerts clientVerify verifyDepth crlPath crlFile`)
	f(server+"/listenerList/listener+name/vhostMapList/vhostMap", "vhost domain")
	f(server+"/virtualHostList/virtualHost", `name vhRoot configFile note allowSymbolLink enableScript restrained setUIDMode user group
		chrootMode chrootPath maxKeepAliveReq smartKeepAlive staticReqPerSec dynReqPerSec outBandwidth inBandwidth listeners cgroups
		bubbleWrap namespace`)
	f(server+"/vhTemplateList/vhTemplate", "name templateFile listeners note")
	f(server+"/vhTemplateList/vhTemplate+name+templateFile/member", "vhName vhDomain vhAliases vhRoot")
	f(host, `docRoot vhDomain vhAliases adminEmails enabled enableGzip enableBr enableIpGeo enableQuic cgroups htAccess logging index
		customErrorPages scriptHandlerList extProcessorList expires security cache contextList rewrite vhssl websocketList moduleList
		urlFilterList phpIniOverride apacheConf frontPage awstats aspnet mono general enableContextAC`)
	f(host+"/index", "useServer indexFiles autoIndex autoIndexURI")
	f(host+"/customErrorPages/errorPage", "errCode url")
	f(host+"/security/realmList/realm", "name type userDB groupDB")
	f(host+"/security/realmList/realm+name/userDB", "location maxCacheSize cacheTimeout attrPasswd attrMemberOf LDAPBindDN LDAPBindPasswd")
	f(host+"/security/hotlinkCtrl", "enableHotlinkCtrl suffixes redirectUri allowDirectAccess onlySelf allowedHosts")
	f(host+"/rewrite", "enable autoLoadHtaccess logLevel rules inherit base")
	f(host+"/rewrite/map", "name location note")
	f(host+"/vhssl", "keyFile certFile certChain ciphers enableSpdy clientVerify acme")
	f(host+"/contextList/context", `uri type location handler allowBrowse note order externalRedirect statusCode enableExpires
		expiresDefault expiresByType extraHeaders addMIMEType forceType defaultType indexFiles autoIndex realm authName required
		accessControl authorizer rewrite addDefaultCharset defaultCharsetCustomized enableScript allowSetUID enableIpGeo enableGzip
		phpIniOverride cachePolicy customErrorPages apacheConf binPath appType startupFile appserverEnv railsEnv maxConns env`)
	f(host+"/websocketList/websocket", "uri address note")
	f(host+"/cache", "cacheEngine storage cachePolicy noCacheDomain noCacheUrl")
	f(host+"/cache/storage", "cacheStorePath cacheMgrStorePath pubStoreExpireMinutes purgeNoHitTimeout litemage")
	f(host+"/cache/cachePolicy", `checkPublicCache checkPrivateCache respectCacheable maxCacheObjSize maxStaleAge cacheKeyMod
		enableCache enablePrivateCache expireInSeconds privateExpireInSeconds enablePostCache microCache5xx qsCache reqCookieCache
		respCookieCache ignoreReqCacheCtrl ignoreRespCacheCtrl`)
	f("virtualHostTemplate", `allowSymbolLink enableScript restrained setUIDMode chrootMode chrootPath user group maxKeepAliveReq
		staticReqPerSec vhRoot configFile virtualHostConfig`)
}
