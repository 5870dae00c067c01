package pagecache

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"httpjet/exchange"
	"httpjet/store"
)

// The end of a file of an entry: a magic number, then length and sum of body and head.
const (
	footLen = 32
	magic   = "HJPAGE01"
	maxHead = 1 << 20
)

func appendFoot(b []byte, bodyLen int64, bodySum uint32, head []byte) []byte {
	b = append(b, magic...)
	b = binary.LittleEndian.AppendUint64(b, uint64(bodyLen))
	b = binary.LittleEndian.AppendUint32(b, bodySum)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(head)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(head, castagnoli))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[len(b)-28:], castagnoli))
}

func parseFoot(b []byte) (bodyLen int64, bodySum uint32, headLen int64, headSum uint32, ok bool) {
	le := binary.LittleEndian
	if len(b) != footLen || string(b[:8]) != magic || le.Uint32(b[28:]) != crc32.Checksum(b[:28], castagnoli) {
		return 0, 0, 0, 0, false
	}
	bodyLen = int64(le.Uint64(b[8:]))
	return bodyLen, le.Uint32(b[16:]), int64(le.Uint32(b[20:])), le.Uint32(b[24:]), bodyLen >= 0
}

// appendHead writes what an object is but for its body. seq is its place in the order of
// purges.
func appendHead(b []byte, o *store.Object, seq uint64) []byte {
	i := o.Info.(*info)
	text := func(s string) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	texts := func(list []string) {
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, s := range list {
			text(s)
		}
	}
	for _, n := range [...]uint64{seq, uint64(o.Stored.UnixNano()), uint64(o.Fresh.UnixNano()), uint64(o.Until.UnixNano()),
		uint64(i.stale), uint64(i.onError), uint64(o.Status)} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	for _, s := range [...]string{o.Key, o.Variant, i.site, i.host, i.scheme, i.target, i.etag} {
		text(s)
	}
	texts(o.Vary)
	texts(o.Tags)
	b = binary.AppendUvarint(b, uint64(len(o.Fields)))
	for _, f := range o.Fields {
		text(f.Name)
		text(f.Value)
	}
	return b
}

// headReader reads what appendHead has written. A head that is too short makes it bad.
type headReader struct {
	b   []byte
	bad bool
}

func (r *headReader) number() uint64 {
	if len(r.b) < 8 {
		r.bad = true
		return 0
	}
	n := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return n
}

func (r *headReader) count() int {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > uint64(len(r.b)) {
		r.bad = true
		return 0
	}
	r.b = r.b[size:]
	return int(n)
}

func (r *headReader) text() string {
	n := r.count()
	if r.bad || n > len(r.b) {
		r.bad = true
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

func (r *headReader) texts() []string {
	var list []string
	for n := r.count(); n > 0 && !r.bad; n-- {
		list = append(list, r.text())
	}
	return list
}

func (r *headReader) time() time.Time { return time.Unix(0, int64(r.number())) }

func parseHead(b []byte) (o store.Object, seq uint64, ok bool) {
	r, i := &headReader{b: b}, &info{}
	seq = r.number()
	o.Stored, o.Fresh, o.Until = r.time(), r.time(), r.time()
	i.stale, i.onError, o.Status = time.Duration(r.number()), time.Duration(r.number()), int(r.number())
	for _, to := range [...]*string{&o.Key, &o.Variant, &i.site, &i.host, &i.scheme, &i.target, &i.etag} {
		*to = r.text()
	}
	o.Vary, o.Tags = r.texts(), r.texts()
	for n := r.count(); n > 0 && !r.bad; n-- {
		o.Fields = append(o.Fields, exchange.Field{Name: r.text(), Value: r.text()})
	}
	o.Info = i
	return o, seq, !r.bad && len(r.b) == 0 && o.Key != "" && o.Status >= 200 && o.Status <= 599
}
