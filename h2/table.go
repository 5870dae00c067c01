package h2

// staticFields is the static table of RFC 7541 appendix A. Its indices begin with 1.
var staticFields = makeStatic([...][2]string{
	{":authority", ""},
	{":method", "GET"},
	{":method", "POST"},
	{":path", "/"},
	{":path", "/index.html"},
	{":scheme", "http"},
	{":scheme", "https"},
	{":status", "200"},
	{":status", "204"},
	{":status", "206"},
	{":status", "304"},
	{":status", "400"},
	{":status", "404"},
	{":status", "500"},
	{"accept-charset", ""},
	{"accept-encoding", "gzip, deflate"},
	{"accept-language", ""},
	{"accept-ranges", ""},
	{"accept", ""},
	{"access-control-allow-origin", ""},
	{"age", ""},
	{"allow", ""},
	{"authorization", ""},
	{"cache-control", ""},
	{"content-disposition", ""},
	{"content-encoding", ""},
	{"content-language", ""},
	{"content-length", ""},
	{"content-location", ""},
	{"content-range", ""},
	{"content-type", ""},
	{"cookie", ""},
	{"date", ""},
	{"etag", ""},
	{"expect", ""},
	{"expires", ""},
	{"from", ""},
	{"host", ""},
	{"if-match", ""},
	{"if-modified-since", ""},
	{"if-none-match", ""},
	{"if-range", ""},
	{"if-unmodified-since", ""},
	{"last-modified", ""},
	{"link", ""},
	{"location", ""},
	{"max-forwards", ""},
	{"proxy-authenticate", ""},
	{"proxy-authorization", ""},
	{"range", ""},
	{"referer", ""},
	{"refresh", ""},
	{"retry-after", ""},
	{"server", ""},
	{"set-cookie", ""},
	{"strict-transport-security", ""},
	{"transfer-encoding", ""},
	{"user-agent", ""},
	{"vary", ""},
	{"via", ""},
	{"www-authenticate", ""},
})

const staticLen = 61

func makeStatic(all [staticLen][2]string) (t [1 + staticLen]field) {
	for i, f := range all {
		t[i+1] = newField(f[0], f[1], true)
	}
	return t
}

// knownNames are names of requests that are not made into new strings: those of the static
// table, and others that browsers and proxies send.
var knownNames = makeNames("dnt", "origin", "priority", "sec-ch-ua", "sec-ch-ua-arch", "sec-ch-ua-full-version-list",
	"sec-ch-ua-mobile", "sec-ch-ua-model", "sec-ch-ua-platform", "sec-ch-ua-platform-version", "sec-fetch-dest", "sec-fetch-mode",
	"sec-fetch-site", "sec-fetch-user", "sec-gpc", "sec-purpose", "te", "trailer", "upgrade-insecure-requests", "x-csrf-token",
	"x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip", "x-request-id", "x-requested-with", "traceparent", "tracestate")

func makeNames(more ...string) map[string]string {
	all := make(map[string]string, staticLen+len(more))
	for _, f := range staticFields[1:] {
		all[f.name] = f.name
	}
	for _, name := range more {
		all[name] = name
	}
	return all
}

// kind is what the name of a field says about its place in a request.
type kind uint8

const (
	ordinary kind = iota
	pseudoMethod
	pseudoScheme
	pseudoAuthority
	pseudoPath
	pseudoProtocol
	pseudoOther // unknown, or of responses
	ofConnection
	te
	host
	cookie
	expect
	priority
	contentLength
)

// kindOf is the kind of the field called name. Its length is looked at first: most names
// are decided by it.
func kindOf(name string) kind {
	if name != "" && name[0] == ':' {
		return pseudoKind(name)
	}
	switch len(name) {
	case 2:
		if name == "te" {
			return te
		}
	case 4:
		if name == "host" {
			return host
		}
	case 6:
		switch name {
		case "cookie":
			return cookie
		case "expect":
			return expect
		}
	case 7:
		if name == "upgrade" {
			return ofConnection
		}
	case 8:
		if name == "priority" {
			return priority
		}
	case 10:
		if name == "connection" || name == "keep-alive" {
			return ofConnection
		}
	case 14:
		if name == "content-length" {
			return contentLength
		}
	case 16:
		if name == "proxy-connection" {
			return ofConnection
		}
	case 17:
		if name == "transfer-encoding" {
			return ofConnection
		}
	}
	return ordinary
}

func pseudoKind(name string) kind {
	switch name {
	case ":method":
		return pseudoMethod
	case ":scheme":
		return pseudoScheme
	case ":authority":
		return pseudoAuthority
	case ":path":
		return pseudoPath
	case ":protocol":
		return pseudoProtocol
	}
	return pseudoOther
}

// A field is one of a table, or of a block. What can be said about it is found out once, not
// each time that it is named.
type field struct {
	name, value string // the value without white space around it
	size        int32  // as RFC 7541 §4.1 counts it
	kind        kind
	shared      bool // the name is one of knownNames or of the static table
	badName     bool
	badValue    bool
}

func newField(name, value string, shared bool) field {
	f := field{name: name, value: value, kind: kindOf(name), shared: shared}
	f.look()
	return f
}

// look finds out what can be said about name and value.
func (f *field) look() {
	f.size = int32(sizeOf(len(f.name), len(f.value)))
	f.badName = !f.shared && !validName(f.name)
	f.badValue = !validValue(f.value)
	f.value = trim(f.value)
}

// sizeOf is the size of a field whose name and value have these lengths.
func sizeOf(name, value int) int { return name + value + 32 }

// dynamic is the dynamic table of a decoder (RFC 7541 §2.3.2).
type dynamic struct {
	ring   []field // its length is a power of two; nil before the first
	newest int     // place of the newest in ring
	n      int
	size   int
	cut    int // by which the client has made it smaller than TableSize
}

func (t *dynamic) maximum() int { return TableSize - t.cut }

// ringMin is the room for a table that begins.
const ringMin = 16

// at returns field i, 0 the newest; i < n.
func (t *dynamic) at(i int) *field { return &t.ring[(t.newest+i)&(len(t.ring)-1)] }

// add puts f in, for which others go (RFC 7541 §4.4). It is no larger than maximum.
func (t *dynamic) add(f *field) {
	t.evict(t.maximum() - int(f.size))
	if t.n == len(t.ring) {
		t.grow()
	}
	t.newest = (t.newest - 1) & (len(t.ring) - 1)
	t.ring[t.newest] = *f
	t.size += int(f.size)
	t.n++
}

// evict takes the oldest out until no more than most is left.
func (t *dynamic) evict(most int) {
	for t.size > most {
		oldest := t.at(t.n - 1)
		t.size -= int(oldest.size)
		*oldest = field{}
		t.n--
	}
}

// grow doubles the ring. Sizes bound it: TableSize holds 128 empty fields.
func (t *dynamic) grow() {
	ring := make([]field, max(ringMin, 2*len(t.ring)))
	for i := range t.n {
		ring[i] = *t.at(i)
	}
	t.ring, t.newest = ring, 0
}
