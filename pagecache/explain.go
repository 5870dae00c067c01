package pagecache

import (
	"time"

	"httpjet/exchange"
)

// Explain notes what the cache would do about x by the policy of At, and looks nothing up:
// local says that the handler is an application of this server's.
func (r *Run) Explain(x *exchange.Exchange, local bool) {
	const what = "page cache"
	r.rules = readRules(x.Env)
	if why := r.refuses(); why != "" {
		x.Note(what, "not asked: %s", why)
		return
	}
	r.identify()
	p := &r.policy
	x.Note(what, "asked before the handler; httpjet cache why tells of the entries")
	switch {
	case !p.LookUp && !p.LookUpPrivate:
		x.Detail("no entry answers: look-ups are off")
	case r.user:
		x.Detail("private entries alone answer, by %s", r.site.UserCookie)
	case r.owned && p.LookUpPrivate:
		x.Detail("private entries of the session answer, then public ones")
	}
	switch {
	case x.Req.Method != "GET":
		x.Detail("nothing is stored for %s", x.Req.Method)
	case r.ranged:
		x.Detail("without an entry nothing is stored: the request asks for a part")
	case r.rules.any:
		x.Detail("a rule says how the answer is stored")
	case local && p.Store:
		x.Detail("the answer is stored for %d s, if it may be", p.Life/time.Second)
	case local && p.StorePrivate:
		x.Detail("the answer is stored for its session for %d s, if it may be", p.PrivateLife/time.Second)
	case local:
		x.Detail("the answer is stored if the application asks for it")
	default:
		x.Detail("the answer of an upstream is stored if a rule asks for it")
	}
}
