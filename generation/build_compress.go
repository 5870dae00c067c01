package generation

import (
	"httpjet/coding"
	"httpjet/compress"
	"httpjet/xmlconf"
)

// codings are those of a host: looked for beside its files, and offered on the fly.
func (b *builder) codings(v *xmlconf.VHost) (s coding.Set) {
	t := &b.cfg.Server.Tuning
	if t.EnableGzipCompress && v.EnableGzip {
		s |= coding.Gzip
	}
	if t.EnableBrCompress > 0 && v.EnableBr {
		s |= coding.Brotli
	}
	if t.EnableZstdCompress && v.EnableGzip {
		s |= coding.Zstd
	}
	return s
}

// checkCompress reads the types that are compressed, once for all hosts.
func (b *builder) checkCompress() {
	t := &b.cfg.Server.Tuning
	types, bad := compress.ParseTypes(t.CompressibleTypes)
	for _, err := range bad {
		b.fs.Warn("W-SKIPPED", t.At("compressibleTypes"), "write type/subtype, type/*, type/*+suffix or default, and ! before what is not to be compressed",
			"compressibleTypes: %v; it is left out", err)
	}
	b.types = types
}

// buildCompress returns what compresses the answers of a host; nil if nothing does.
func (b *builder) buildCompress(v *xmlconf.VHost) *compress.Filter {
	t := &b.cfg.Server.Tuning
	files := b.codings(v)
	if b.kept.Encoders == nil || files == 0 {
		return nil
	}
	dynamic := files
	if !t.EnableDynGzip {
		dynamic &^= coding.Gzip
	}
	if !t.EnableDynBr {
		dynamic &^= coding.Brotli
	}
	if !t.EnableDynZstd {
		dynamic &^= coding.Zstd
	}
	br := t.BrCompressLevel
	if t.Written("enableBrCompress") && !t.Written("brCompressLevel") {
		br = t.EnableBrCompress // LiteSpeed's switch is the level
	}
	return compress.New(compress.Options{
		Encoders: b.kept.Encoders, Types: b.types,
		Dynamic: dynamic, Levels: compress.Levels{Gzip: t.GzipCompressLevel, Brotli: br, Zstd: t.ZstdCompressLevel},
		Files: files, FileLevels: compress.Levels{Gzip: t.GzipStaticLevel, Brotli: t.BrStaticLevel, Zstd: t.ZstdCompressLevel},
		LeastFile: t.GzipMinFileSize, LargestFile: t.GzipMaxFileSize,
		Proxied: t.CompressProxied, Events: t.CompressSSE,
	})
}
