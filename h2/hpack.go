package h2

// TableSize is the size of the dynamic table that clients may fill.
const TableSize = 4096

// Decoder decodes the field blocks of one connection (RFC 7541). All of them have to pass
// through it in their order, because each may change the table.
//
// A field that the tables have costs no memory, one that is new a single string for name
// and value. What it takes is bounded by the block and by TableSize: a field that nobody
// wants any more is decoded, and not kept.
//
// The zero value is that of a new connection.
type Decoder struct{ table dynamic }

// Faults of field blocks. Each ends the connection, whose table is not known any more.
var (
	errTruncated = &ConnError{CompressionError, "field block ends within a field"}
	errIndex     = &ConnError{CompressionError, "index that no table has"}
	errInteger   = &ConnError{CompressionError, "integer that is too long or too large"}
	errHuffman   = &ConnError{CompressionError, "string that is not in the Huffman code"}
	errUpdate    = &ConnError{CompressionError, "table larger than SETTINGS_HEADER_TABLE_SIZE"}
	errLate      = &ConnError{CompressionError, "table size behind a field"}
)

// Decode decodes a whole block into head, whose Fields are set: at most most bytes,
// each field counted with 32 more; what is beyond is decoded and dropped. head is
// nil for a block that nobody wants. The error is a *ConnError.
func (d *Decoder) Decode(block []byte, head *Head, most int, trailers bool) error {
	if head == nil {
		head = &Head{Malformed: "unwanted"}
	} else {
		*head = Head{Fields: head.Fields, most: most, trailers: trailers, crumbs: head.crumbs[:0]}
	}
	head.cookie = -1
	if err := d.decode(block, head); err != nil {
		return err
	}
	head.end()
	return nil
}

// decode decodes one field after the other, by their first byte (RFC 7541 §6).
func (d *Decoder) decode(b []byte, head *Head) error {
	b, err := d.updates(b)
	for err == nil && len(b) > 0 {
		switch c := b[0]; {
		case c >= 0x80:
			var n int
			var f *field
			if n, b, err = integer(b, 0x7f); err == nil {
				if f, err = d.at(n); err == nil {
					if head.room(int(f.size)) {
						head.put(f)
					}
				}
			}
		case c >= 0x40:
			b, err = d.literal(b, 0x3f, head)
		case c >= 0x20:
			return errLate
		default: // 0x10 is for intermediaries: it must not be put into a table on the way
			b, err = d.literal(b, 0x0f, head)
		}
	}
	return err
}

// updates changes the size of the table, which only the beginning of a block may
// (RFC 7541 §4.2), and returns the rest.
func (d *Decoder) updates(b []byte) (rest []byte, err error) {
	for len(b) > 0 && b[0]&0xe0 == 0x20 {
		var n int
		if n, b, err = integer(b, 0x1f); err != nil {
			return nil, err
		}
		if n > TableSize {
			return nil, errUpdate
		}
		d.table.cut = TableSize - n
		d.table.evict(n)
	}
	return b, nil
}

// at returns the field with index i of both tables (RFC 7541 §2.3.3).
func (d *Decoder) at(i int) (*field, error) {
	switch {
	case i == 0 || i > staticLen+d.table.n:
		return nil, errIndex
	case i <= staticLen:
		return &staticFields[i], nil
	}
	return d.table.at(i - staticLen - 1), nil
}

// literal decodes a field whose value is in the block (RFC 7541 §6.2). It is put into the
// table if mask says so, which is that of the index of its name.
func (d *Decoder) literal(b []byte, mask byte, head *Head) (rest []byte, err error) {
	n, b, err := integer(b, mask)
	if err != nil {
		return nil, err
	}
	var memory [512]byte
	text := memory[:0]
	var known *field // has the name
	if n > 0 {
		known, err = d.at(n)
	} else {
		text, b, err = appendText(text, b)
	}
	if err != nil {
		return nil, err
	}
	at := len(text)
	if text, b, err = appendText(text, b); err != nil {
		return nil, err
	}
	size := sizeOf(at, len(text)-at)
	if known != nil {
		size = sizeOf(len(known.name), len(text))
	}
	indexed := mask == 0x3f
	keeps, wanted := indexed && size <= d.table.maximum(), head.room(size)
	var f field
	if keeps || wanted {
		f = compose(known, text, at)
	}
	switch {
	case keeps:
		d.table.add(&f)
	case indexed: // it takes the place of all others, and has none itself (RFC 7541 §4.4)
		d.table.evict(0)
	}
	if wanted {
		head.put(&f)
	}
	return b, nil
}

// compose makes a field of text, which is its name and, from at on, its value, or its value
// alone if a field of a table has the name. A name is shared only if it is known for good:
// a string that was made for a field is as long as that, and ends with it.
func compose(known *field, text []byte, at int) field {
	if known != nil && known.shared {
		f := field{name: known.name, value: string(text), kind: known.kind, shared: true}
		f.look()
		return f
	}
	if known != nil {
		both := known.name + string(text)
		f := field{name: both[:len(known.name)], value: both[len(known.name):], kind: known.kind}
		f.look()
		return f
	}
	if name, ok := knownNames[string(text[:at])]; ok {
		return newField(name, string(text[at:]), true)
	}
	both := string(text)
	return newField(both[:at], both[at:], false)
}

// appendText appends a string (RFC 7541 §5.2) and returns the rest behind it.
func appendText(dst, b []byte) (text, rest []byte, err error) {
	if len(b) == 0 {
		return nil, nil, errTruncated
	}
	coded := b[0]&0x80 != 0
	n, b, err := integer(b, 0x7f)
	switch {
	case err != nil:
		return nil, nil, err
	case n > len(b):
		return nil, nil, errTruncated
	case !coded:
		return append(dst, b[:n]...), b[n:], nil
	}
	dst, ok := code.append(dst, b[:n])
	if !ok {
		return nil, nil, errHuffman
	}
	return dst, b[n:], nil
}

// integer reads an integer whose prefix has the ones of mask, and returns the rest behind
// it (RFC 7541 §5.1). b is not empty. Nothing that is sent here needs 31 bits.
func integer(b []byte, mask byte) (n int, rest []byte, err error) {
	if c := b[0] & mask; c < mask {
		return int(c), b[1:], nil
	}
	return longInteger(b[1:], uint64(mask))
}

// longInteger is the rest of integer behind a prefix of ones.
func longInteger(b []byte, n uint64) (int, []byte, error) {
	for i, c := range b {
		if i == 9 { // octets; leading zeros, which are last, are allowed
			return 0, nil, errInteger
		}
		n += uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			if n > 1<<31-1 {
				return 0, nil, errInteger
			}
			return int(n), b[i+1:], nil
		}
	}
	return 0, nil, errTruncated
}
