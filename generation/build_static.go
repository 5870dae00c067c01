package generation

import (
	"httpjet/static"
	"httpjet/xmlconf"
)

// buildStatic returns the handler of a host's files.
func (b *builder) buildStatic(_ *xmlconf.Host, charset string) *static.Handler {
	return static.New(static.Options{Types: b.cfg.Mime.Types(), ETag: b.cfg.Server.Tuning.FileETag, Charset: charset})
}
