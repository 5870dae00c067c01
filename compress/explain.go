package compress

import (
	"strings"

	"httpjet/coding"
	"httpjet/exchange"
)

// Explain notes in which coding x, whose route is chosen and whose answer is not known,
// would go out.
func (f *Filter) Explain(x *exchange.Exchange) {
	const what = "compression"
	file := x.Route.Kind == exchange.Files && x.Resource.Listing == nil
	offer := f.o.Dynamic
	switch {
	case file && x.Resource.Coding != "":
		x.Note(what, "the file beside it in %s is sent as it is", x.Resource.Coding)
		return
	case file:
		offer = f.o.Files
	case x.Route.Kind == exchange.Proxy && !f.o.Proxied:
		x.Note(what, "compressProxied 0: answers of upstreams go out as they are")
		return
	}
	left := offer &^ refused(x.Env)
	choice := accepted(&x.Req.Fields).Best(left)
	switch {
	case offer == 0:
		x.Note(what, "off for answers of this kind")
	case left == 0:
		x.Note(what, "a variable of rules takes it off")
	case x.Req.Method == "GET" && x.Req.Fields.Has("Range"):
		x.Note(what, "not for a request with Range")
	case !file && x.Req.Fields.HasToken("Cache-Control", "no-transform"):
		x.Note(what, "the request says no-transform")
	case choice == 0:
		x.Note(what, "the client takes none of %s", names(left))
	case file && x.Resource.Type != "" && !f.o.Types.match(x.Resource.Type):
		x.Note(what, "none for %s", x.Resource.Type)
	case file && x.Resource.Info != nil && !f.sized(x.Resource.Info.Size()):
		x.Note(what, "not for a file of %d bytes", x.Resource.Info.Size())
	case file:
		x.Note(what, "%s, of %s", choice.Name(), names(left))
	default:
		x.Note(what, "%s, of %s: if the answer is of a type that is compressed, is not coded, and has %d bytes", choice.Name(), names(left), leastBody)
	}
}

// sized reports whether a file of n bytes is coded.
func (f *Filter) sized(n int64) bool { return n >= f.o.LeastFile && n <= f.o.LargestFile }

func names(s coding.Set) string {
	var list []string
	for _, c := range coding.All {
		if s&c != 0 {
			list = append(list, c.Name())
		}
	}
	return strings.Join(list, ", ")
}
