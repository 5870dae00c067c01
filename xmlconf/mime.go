package xmlconf

import (
	"maps"
	"strings"
)

// Mime maps suffixes to MIME types: the built-in table with the lines of
// mime.properties over it. It is not changed after the load.
type Mime struct{ types map[string]string }

// Type returns the MIME type of a suffix without its dot, in any case; "" if it
// is unknown.
func (m *Mime) Type(suffix string) string { return m.types[strings.ToLower(suffix)] }

// Types returns a copy of the table, by suffix in lower case.
func (m *Mime) Types() map[string]string { return maps.Clone(m.types) }

// BuiltinMime returns the table that holds without a file.
func BuiltinMime() *Mime {
	m := &Mime{types: map[string]string{}}
	m.parse(builtinMime, nil)
	return m
}

// mime reads the server's table. A missing file is no error (R-CFG-1), but it is
// told when the file is named.
func (l *loader) mime(s *Server) *Mime {
	m := BuiltinMime()
	data, err := l.read(s.Mime)
	if err != nil {
		if s.Written("mime") {
			l.fs.Warn("W-MIME", s.At("mime"), "", "mime: file %s: %v: the built-in table is used", l.short(s.Mime), err)
		}
		return m
	}
	if len(data) > maxFile {
		l.fs.Warn("W-MIME", s.At("mime"), "", "mime: file %s is larger than %d MiB: the built-in table is used", l.short(s.Mime), maxFile>>20)
		return m
	}
	m.parse(string(data), func(line int, text string) {
		l.fs.Warn("W-MIME", Place{Pos: Pos{l.short(s.Mime), line, 1}}, "write suffix,suffix = type/subtype", "%q is no line of a MIME table", cut(text))
	})
	return m
}

// parse reads lines "suffix, suffix = type/subtype"; # starts a remark. Lines
// without a type or suffix (other settings live in such files) are skipped; what
// is no line at all goes to bad.
// A later line wins, as in LiteSpeed's own table.
func (m *Mime) parse(text string, bad func(line int, text string)) {
	line := 0
	for row := range strings.SplitSeq(text, "\n") {
		line++
		row, _, _ = strings.Cut(row, "#")
		row = strings.TrimSpace(row)
		if row == "" {
			continue
		}
		left, right, ok := strings.Cut(row, "=")
		typ := strings.TrimSpace(right)
		if !ok || !isType(typ) {
			if bad != nil {
				bad(line, row)
			}
			continue
		}
		for _, suffix := range parseList(&element{}, left) {
			m.types[strings.ToLower(strings.TrimPrefix(suffix, "."))] = typ
		}
	}
}

// IsMediaType reports whether s may stand in Content-Type.
func IsMediaType(s string) bool { return isType(s) }

// isType accepts type/subtype, with parameters, without control characters: it
// becomes a field of a response.
func isType(s string) bool {
	main, sub, ok := strings.Cut(s, "/")
	if !ok || main == "" || sub == "" {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f })
}

// builtinMime covers what web sites and downloads are made of.
const builtinMime = `
html, htm, shtml = text/html
xhtml, xht = application/xhtml+xml
css = text/css
js, mjs = text/javascript
json, map = application/json
jsonld = application/ld+json
webmanifest = application/manifest+json
xml, xsl, xsd = text/xml
rss = application/rss+xml
atom = application/atom+xml
txt, text, log, conf, ini = text/plain
md, markdown = text/markdown
csv = text/csv
ics = text/calendar
vcf = text/vcard
vtt = text/vtt
wasm = application/wasm
png, apng = image/png
jpg, jpeg, jpe = image/jpeg
gif = image/gif
webp = image/webp
avif = image/avif
svg, svgz = image/svg+xml
ico, cur = image/x-icon
bmp = image/bmp
tif, tiff = image/tiff
heic = image/heic
jxl = image/jxl
woff = font/woff
woff2 = font/woff2
ttf = font/ttf
otf = font/otf
eot = application/vnd.ms-fontobject
mp3 = audio/mpeg
m4a = audio/mp4
aac = audio/aac
oga, ogg, opus = audio/ogg
wav = audio/wav
flac = audio/flac
weba = audio/webm
mp4, m4v = video/mp4
webm = video/webm
ogv = video/ogg
mov, qt = video/quicktime
avi = video/x-msvideo
mkv = video/x-matroska
mpg, mpeg = video/mpeg
ts = video/mp2t
m3u8 = application/vnd.apple.mpegurl
mpd = application/dash+xml
pdf = application/pdf
rtf = application/rtf
ps, eps, ai = application/postscript
epub = application/epub+zip
doc = application/msword
xls = application/vnd.ms-excel
ppt = application/vnd.ms-powerpoint
docx = application/vnd.openxmlformats-officedocument.wordprocessingml.document
xlsx = application/vnd.openxmlformats-officedocument.spreadsheetml.sheet
pptx = application/vnd.openxmlformats-officedocument.presentationml.presentation
odt = application/vnd.oasis.opendocument.text
ods = application/vnd.oasis.opendocument.spreadsheet
odp = application/vnd.oasis.opendocument.presentation
zip = application/zip
gz, tgz = application/gzip
bz2 = application/x-bzip2
xz = application/x-xz
zst = application/zstd
7z = application/x-7z-compressed
rar = application/vnd.rar
tar = application/x-tar
jar, war = application/java-archive
deb = application/vnd.debian.binary-package
rpm = application/x-rpm
iso = application/x-iso9660-image
apk = application/vnd.android.package-archive
dmg = application/x-apple-diskimage
exe, msi, dll, bin = application/octet-stream
swf = application/x-shockwave-flash
torrent = application/x-bittorrent
`
