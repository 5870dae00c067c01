package generation

import "httpjet/static"

// buildStatic returns the handler of files whose text is in charset, "" for one
// that is not told: all that differs between handlers of one server.
func (b *builder) buildStatic(charset string) *static.Handler {
	h := b.static[charset]
	if h == nil {
		h = static.New(static.Options{Types: b.cfg.Mime.Types(), ETag: b.cfg.Server.Tuning.FileETag, Charset: charset})
		b.static[charset] = h
	}
	return h
}
