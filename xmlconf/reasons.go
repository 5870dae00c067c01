package xmlconf

// A reason says why an element has no effect, and what may go wrong for who
// relied on it; risk is "" where nothing can.
type reason struct{ why, risk string }

// reasons are the words of the tag why.
var reasons = map[string]reason{
	"always":   {"httpjet always does so", ""},
	"apache":   {"httpjet reads no Apache configuration", "hosts, redirects and denies that stand in it are missing"},
	"appdir":   {"the declaration's file is the only place of settings", "what stands only here is missing"},
	"appserv":  {"contexts of type appserver are not served, they answer 503", "the application is unreachable until it runs behind a proxy or fcgi processor"},
	"body":     {"request bodies are passed on as they come", "an application that expects the fields of a parsed upload finds the body instead"},
	"buffer":   {"answers always stream", "a slow client keeps the application busy while it reads"},
	"bytes":    {"httpjet writes no bandwidth log", "accounting that reads the file finds no more lines"},
	"chroot":   {"httpjet does not change its root directory", "use RootDirectory= or ProtectSystem= in the systemd unit"},
	"conns":    {"maxConnections bounds all connections", "TLS clients may use all of them"},
	"context":  {"compression is decided by server and virtual host", "the context is compressed as its virtual host is"},
	"copies":   {"files are compressed as they are sent, small ones once, in memory", ""},
	"cookies":  {"httpjet changes no cookies", "cookies go out without Secure unless the application sets it"},
	"debug":    {"the error log has one level of debugging", ""},
	"dnsapi":   {"names are proved by HTTP-01 and TLS-ALPN-01", "no certificate is issued for a name with *, or for one that the CA cannot reach"},
	"files":    {"files are read by the Go runtime", ""},
	"geo":      {"httpjet reads no geo database", "rules and applications that use GEOIP_ variables find none"},
	"hosts":    {"each virtual host has its own switch", ""},
	"issuer":   {"the issuer of the certificate, or who it names for this, signs the response", ""},
	"ldap":     {"realms of this kind are not implemented", "contexts that name the realm answer 503"},
	"leftover": {"left from old versions of LiteSpeed", ""},
	"listener": {"the listener decides the versions", ""},
	"listing":  {"listings are a page of httpjet's own", ""},
	"logger":   {"httpjet starts no logger", "lines do not reach the program: let it read the file"},
	"module":   {"httpjet has no such filter", "what it blocked reaches the applications: block it in front of httpjet, or there"},
	"ocsp":     {"responders are asked directly", "no response can be had where only a proxy leads out"},
	"panel":    {"httpjet knows no hosting panel", "a version of PHP that only the panel declares runs nothing: declare an extProcessor for it"},
	"store":    {"the cache keeps its files by itself", ""},
	"process":  {"httpjet is one process", ""},
	"remark":   {"a remark for people", ""},
	"reports":  {"httpjet writes no report files", "what reads them has to read /metrics"},
	"restart":  {"a reload ends no connection", ""},
	"robots":   {"no robot is looked up", ""},
	"stalled":  {"httpjet does not restart itself", ""},
	"starts":   {"programs have what their extProcessor says", "set it there, or where the program is started, as in its systemd unit"},
	"throttle": {"an older name that LiteSpeed no longer reads", "no limit holds"},
	"tls":      {"the TLS of Go chooses by itself", ""},
	"update":   {"httpjet does not update itself", ""},
	"user":     {"httpjet keeps the user that it is started as", "started as root it stays root: write User= and Group= in the systemd unit"},
	"webadmin": {"httpjet has no WebAdmin console", ""},
}
