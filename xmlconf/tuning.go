package xmlconf

import "time"

// Tuning is the server's tuning block.
//
// The first group bounds what any client can cost and is LiteSpeed's; the second
// is httpjet's own and strict; the rest waits for the rooms that will use it.
type Tuning struct {
	Block
	MaxConnections    int           `conf:"maxConnections" range:"1..1000000" default:"65000" litespeed:"2000" doc:"client connections of all listeners"`
	ConnTimeout       time.Duration `conf:"connTimeout" unit:"s" range:"1..1000000" default:"60" litespeed:"30" doc:"a head or a handshake in all; no progress of a body or response"`
	KeepAliveTimeout  time.Duration `conf:"keepAliveTimeout" unit:"s" range:"0..10000" default:"5" litespeed:"15" doc:"idle time between requests; 0: no keep-alive"`
	MaxKeepAliveReq   int           `conf:"maxKeepAliveReq" range:"0..32767" default:"1000" litespeed:"100" doc:"requests of a connection"`
	MaxReqURLLen      int           `conf:"maxReqURLLen" unit:"size" range:"100..65530" default:"8192" doc:"longest request target; over it 414"`
	MaxReqHeaderSize  int           `conf:"maxReqHeaderSize" unit:"size" range:"1024..131072" default:"16380" litespeed:"32768" doc:"largest request head; over it 431"`
	MaxReqBodySize    int64         `conf:"maxReqBodySize" unit:"size" range:"1M.." default:"2047M" doc:"largest request body; over it 413"`
	FileETag          int           `conf:"fileETag" range:"0..28" default:"28" doc:"parts of a file's ETag: 4 inode, 8 time, 16 size"`
	MaxSSLConnections int           `conf:"maxSSLConnections" range:"0..1000000" default:"0" as:"noeffect" why:"conns" doc:"TLS connections; maxConnections bounds all"`

	MaxInFlightReqs         int           `conf:"maxInFlightReqs" range:"1..1000000" default:"2048" as:"honoured,strict" doc:"requests served at once; more wait, then 503"`
	TotalReqBufSize         int64         `conf:"totalReqBufSize" unit:"size" range:"0.." default:"256M" as:"honoured,strict" doc:"bytes of buffered request bodies in the process; read at start, a reload does not change it"`
	MaxBufferedReqs         int           `conf:"maxBufferedReqs" range:"1..1000000" default:"4096" as:"honoured,strict" doc:"request bodies buffered at once; read at start, a reload does not change it"`
	GracefulShutdownTimeout time.Duration `conf:"gracefulShutdownTimeout" unit:"s" range:"0..3600" default:"12" as:"honoured,strict" doc:"time for work in flight at a stop"`
	ShutdownDelay           time.Duration `conf:"shutdownDelay" unit:"s" range:"0..3600" default:"0" as:"honoured,strict" doc:"time between not ready and the close of listeners"`
	ProxyErrorHeader        bool          `conf:"proxyErrorHeader" default:"1" as:"honoured,strict" doc:"X-Httpjet-Proxy-Error on answers made by the proxy"`

	DNSRefresh           time.Duration `conf:"dnsRefresh" unit:"s" range:"1..3600" default:"10" as:"honoured,strict" doc:"age at which an address that a name has is asked again, behind the dial that uses it"`
	DNSStaleMax          time.Duration `conf:"dnsStaleMax" unit:"s" range:"0..604800" default:"86400" as:"honoured,strict" doc:"how long the last answer serves while lookups fail; 0: as long as dnsRefresh"`
	DNSNegativeTTL       time.Duration `conf:"dnsNegativeTTL" unit:"s" range:"0..3600" default:"1" as:"honoured,strict" doc:"time before a failed name is asked again"`
	DNSConcurrency       int           `conf:"dnsConcurrency" range:"1..64" default:"4" as:"honoured,strict" doc:"lookups of names of upstreams at once"`
	WatchConfig          bool          `conf:"watchConfig" default:"1" as:"honoured,strict" doc:"reload when a file of the configuration or a certificate changes"`
	DenyRedirectCdnCache bool          `conf:"denyRedirectCdnCache" default:"0" as:"later,strict" doc:"redirects to the own host are not cacheable"`
	TunnelCloseDelay     time.Duration `conf:"tunnelCloseDelay" unit:"s" range:"0..86400" default:"30" as:"honoured,strict" doc:"life of WebSockets and event streams whose route or peer a reload has changed or removed"`
	FcgiHandlerAlias     bool          `conf:"fcgiHandlerAlias" default:"1" as:"later,strict" doc:"script handlers of type fcgi reach FastCGI"`

	EnableGzipCompress bool     `conf:"enableGzipCompress" default:"1" doc:"gzip; 0: no .gz files beside others either"`
	EnableDynGzip      bool     `conf:"enableDynGzipCompress" default:"1" litespeed:"0" doc:"gzip of answers of applications and upstreams"`
	GzipCompressLevel  int      `conf:"gzipCompressLevel" range:"1..9" default:"6" litespeed:"4" doc:"gzip level of answers of applications and upstreams"`
	GzipStaticLevel    int      `conf:"gzipStaticCompressLevel" range:"1..9" default:"6" doc:"gzip level of files"`
	EnableBrCompress   int      `conf:"enableBrCompress" range:"0..6" default:"1" litespeed:"0" doc:"brotli; 0: no .br files beside others either; where it is written it is the level of answers of applications and upstreams, unless brCompressLevel is"`
	EnableDynBr        bool     `conf:"enableDynBrCompress" default:"1" doc:"brotli of answers of applications and upstreams"`
	BrCompressLevel    int      `conf:"brCompressLevel" range:"0..11" default:"5" doc:"brotli level of answers of applications and upstreams"`
	BrStaticLevel      int      `conf:"brStaticCompressLevel" range:"0..11" default:"6" doc:"brotli level of files"`
	EnableZstdCompress bool     `conf:"enableZstdCompress" default:"1" doc:"zstd; 0: no .zst files beside others either"`
	EnableDynZstd      bool     `conf:"enableDynZstdCompress" default:"1" doc:"zstd of answers of applications and upstreams"`
	ZstdCompressLevel  int      `conf:"zstdCompressLevel" range:"1..22" default:"3" doc:"zstd level; one of four: below 3, below 6, below 10, and above, which takes 36M of memory"`
	CompressibleTypes  []string `conf:"compressibleTypes" default:"default" doc:"MIME types to compress: type/subtype, type/*, type/*+suffix, default; !type removes one"`
	GzipMaxFileSize    int64    `conf:"gzipMaxFileSize" unit:"size" range:"1K.." default:"1M" doc:"largest file that is compressed, whatever the coding"`
	GzipMinFileSize    int64    `conf:"gzipMinFileSize" unit:"size" range:"200.." default:"300" doc:"smallest file that is compressed, whatever the coding"`
	CompressProxied    bool     `conf:"compressProxied" default:"1" as:"honoured,strict" doc:"compress answers of HTTP upstreams as those of applications"`
	CompressSSE        bool     `conf:"compressSSE" default:"1" as:"honoured,strict" doc:"compress event streams, each event as it comes"`
	CompressMemory     int64    `conf:"compressMemory" unit:"size" range:"0.." default:"256M" as:"honoured,strict" doc:"memory of all encoders in use, 1M to 5M each by coding and level; what finds none goes out as it is; 0: nothing is compressed; read at start, a reload does not change it"`

	MaxDynRespHeaderSize int           `conf:"maxDynRespHeaderSize" unit:"size" range:"200..131072" default:"65536" as:"later" litespeed:"32768" doc:"largest head of an application's answer"`
	MaxDynRespSize       int64         `conf:"maxDynRespSize" unit:"size" range:"1M.." default:"2047M" as:"later" doc:"largest body of an application's answer"`
	MaxCachedFileSize    int64         `conf:"maxCachedFileSize" unit:"size" range:"0.." default:"4M" litespeed:"4096" doc:"largest file kept in memory; at most 64K is used, larger files are kept open"`
	TotalInMemCacheSize  int64         `conf:"totalInMemCacheSize" unit:"size" range:"0.." default:"4096M" litespeed:"20M" doc:"all files kept in memory; at most 1G is used"`
	MaxMMapFileSize      int64         `conf:"maxMMapFileSize" unit:"size" range:"0.." default:"256K" as:"later,minor" doc:"largest mapped file"`
	TotalMMapCacheSize   int64         `conf:"totalMMapCacheSize" unit:"size" range:"0.." default:"2048M" as:"later,minor" litespeed:"20M" doc:"all mapped files"`
	ProxyProtocol        []string      `conf:"proxyProtocol" changed:"where it is written, the connection of another peer that sends a header is closed" doc:"addresses and networks of peers that may send a PROXY header, version 1 or 2, on every listener"`
	SSLDefaultCiphers    string        `conf:"sslDefaultCiphers" doc:"ciphers of listeners and hosts that name none"`
	SSLDefaultCAFile     string        `conf:"sslDefaultCAFile" unit:"path" doc:"authorities, PEM, of upstreams over TLS (https, h2s, wss) that name no caFile, instead of the system's; client certificates have CACertFile alone"`
	SSLDefaultCAPath     string        `conf:"sslDefaultCAPath" unit:"path" doc:"directory of such authorities, 1000 files at most, beside sslDefaultCAFile"`
	SSLMultiCerts        bool          `conf:"sslEnableMultiCerts" default:"0" doc:"1: beside certFile and keyFile there may be others of the same names with the suffix .ecc or .rsa; a client has the one that it understands"`
	SSLTickets           bool          `conf:"sslSessionTickets" default:"1" doc:"TLS sessions are resumed by tickets; 0: on no listener"`
	SSLTicketLifetime    time.Duration `conf:"sslSessionTicketLifetime" unit:"s" range:"600..86400" default:"3600" doc:"how long a ticket key is used; its tickets are good for as long again"`
	SSLTicketKeyFile     string        `conf:"sslSessionTicketKeyFile" unit:"path" doc:"file of 48-byte ticket keys: the first makes tickets, all take them; absent: random keys, kept over reloads"`
	SSLStrictSNI         bool          `conf:"sslStrictSni" default:"0" doc:"1: a handshake for a name that no host of the listener has is refused; one without a name is not"`
	Acme                 int           `conf:"acme" range:"0..2" default:"0" doc:"automatic certificates: 0 off, unless acme of the server is enabled; 1: of hosts whose vhssl says so; 2: of all hosts without certificate files whose vhssl does not forbid it; 1 and 2 accept the terms of the CA"`
	QuicEnable           bool          `conf:"quicEnable" default:"1" doc:"HTTP/3 on every secure listener that does not say otherwise: UDP on its port, told by Alt-Svc"`
	QuicMaxStreams       int           `conf:"quicMaxStreams" range:"10..1000" default:"500" doc:"requests of an HTTP/3 connection at once"`
	QuicHandshakeTimeout time.Duration `conf:"quicHandshakeTimeout" unit:"s" range:"1..15" default:"10" doc:"handshake of an HTTP/3 connection"`
	QuicIdleTimeout      time.Duration `conf:"quicIdleTimeout" unit:"s" range:"10..30" default:"30" doc:"an HTTP/3 connection on which nothing comes for so long is over"`
	SndBufSize           int64         `conf:"sndBufSize" unit:"size" range:"0..512K" default:"0" as:"later,minor" doc:"send buffer of a socket; 0: the system's"`
	RcvBufSize           int64         `conf:"rcvBufSize" unit:"size" range:"0..512K" default:"0" as:"later,minor" doc:"receive buffer of a socket; 0: the system's"`

	_ struct{} `conf:"smartKeepAlive" as:"obsolete" why:"leftover" doc:"keep-alive for images only"`
	_ struct{} `conf:"eventDispatcher" as:"obsolete" why:"leftover" doc:"event system"`
	_ struct{} `conf:"SSLCryptoDevice" as:"obsolete" why:"tls" doc:"TLS hardware"`
	_ struct{} `conf:"useSendfile" as:"noeffect,minor" why:"always" default:"1" doc:"sendfile is always used"`
	_ struct{} `conf:"useAIO" as:"noeffect,minor" why:"files" default:"0" doc:"asynchronous reads"`
	_ struct{} `conf:"AIOBlockSize" as:"obsolete" why:"files" doc:"asynchronous reads"`
	_ struct{} `conf:"gzipAutoUpdateStatic" default:"0" as:"noeffect,minor" why:"copies" doc:"compressed copies of files on disk"`
	_ struct{} `conf:"gzipCacheDir" as:"noeffect,minor" why:"copies" doc:"place of compressed copies of files"`
	_ struct{} `conf:"shmDefaultDir" as:"noeffect,minor" why:"files" doc:"shared memory"`
	_ struct{} `conf:"ramDiskPath" as:"noeffect,minor" why:"files" doc:"directory in memory"`
	_ struct{} `conf:"forceSecureCookie" default:"0" as:"noeffect" why:"cookies" doc:"Secure on cookies"`
	_ struct{} `conf:"verifyGoogleBot" default:"0" as:"noeffect,minor" why:"robots" doc:"reverse lookup of robots"`
	_ struct{} `conf:"throttleLimit" as:"obsolete" why:"throttle" doc:"older name of a bandwidth limit"`
	_ struct{} `conf:"sslStrongDhKey" as:"obsolete" why:"tls" doc:"DH key size"`
	_ struct{} `conf:"sslSessionCache" as:"noeffect,minor" why:"tls" default:"1" doc:"server-side TLS sessions"`
	_ struct{} `conf:"sslSessionCacheSize" as:"noeffect,minor" why:"tls" doc:"server-side TLS sessions"`
	_ struct{} `conf:"sslSessionCacheTimeout" as:"noeffect,minor" why:"tls" doc:"server-side TLS sessions"`
	_ struct{} `conf:"sslOcspProxy" as:"noeffect,minor" why:"ocsp" doc:"proxy for OCSP"`
	_ struct{} `conf:"quicShmDir" as:"noeffect,minor" why:"tls" doc:"QUIC shared memory"`
	_ struct{} `conf:"quicVersions" as:"noeffect,minor" why:"tls" doc:"QUIC versions"`
	_ struct{} `conf:"quicCongestionCtrl" as:"noeffect,minor" why:"tls" default:"0" doc:"QUIC congestion control"`
	_ struct{} `conf:"quicCfcw" as:"noeffect,minor" why:"tls" doc:"QUIC connection window"`
	_ struct{} `conf:"quicMaxCfcw" as:"noeffect,minor" why:"tls" doc:"QUIC connection window"`
	_ struct{} `conf:"quicSfcw" as:"noeffect,minor" why:"tls" doc:"QUIC stream window"`
	_ struct{} `conf:"quicMaxSfcw" as:"noeffect,minor" why:"tls" doc:"QUIC stream window"`
}

// Quic is the server's quic block. What it does not say, tuning does.
type Quic struct {
	Block
	QuicEnable           bool          `conf:"quicEnable" default:"1" doc:"HTTP/3"`
	QuicMaxStreams       int           `conf:"quicMaxStreams" range:"10..1000" default:"500" doc:"requests of an HTTP/3 connection at once"`
	QuicHandshakeTimeout time.Duration `conf:"quicHandshakeTimeout" unit:"s" range:"1..15" default:"10" doc:"handshake of an HTTP/3 connection"`
	QuicIdleTimeout      time.Duration `conf:"quicIdleTimeout" unit:"s" range:"10..30" default:"30" doc:"an HTTP/3 connection on which nothing comes for so long is over"`
	_                    struct{}      `conf:"quicShmDir" as:"noeffect,minor" why:"tls" doc:"QUIC shared memory"`
	_                    struct{}      `conf:"quicVersions" as:"noeffect,minor" why:"tls" doc:"QUIC versions"`
	_                    struct{}      `conf:"quicCongestionCtrl" as:"noeffect,minor" why:"tls" doc:"QUIC congestion control"`
	_                    struct{}      `conf:"quicCfcw" as:"noeffect,minor" why:"tls" doc:"QUIC connection window"`
	_                    struct{}      `conf:"quicMaxCfcw" as:"noeffect,minor" why:"tls" doc:"QUIC connection window"`
	_                    struct{}      `conf:"quicSfcw" as:"noeffect,minor" why:"tls" doc:"QUIC stream window"`
	_                    struct{}      `conf:"quicMaxSfcw" as:"noeffect,minor" why:"tls" doc:"QUIC stream window"`
}

// HTTP3 returns the settings of HTTP/3: those of the quic block, else of tuning.
func (s *Server) HTTP3() Quic {
	q, t := s.Quic, &s.Tuning
	if !q.Written("quicEnable") {
		q.QuicEnable = t.QuicEnable
	}
	if !q.Written("quicMaxStreams") {
		q.QuicMaxStreams = t.QuicMaxStreams
	}
	if !q.Written("quicHandshakeTimeout") {
		q.QuicHandshakeTimeout = t.QuicHandshakeTimeout
	}
	if !q.Written("quicIdleTimeout") {
		q.QuicIdleTimeout = t.QuicIdleTimeout
	}
	return q
}
