package cf

import "encoding/binary"

// BloomMeta is the tail of a Bloom filter chain's metadata, 20 bytes:
//
//	u16 filters · u16 expansion · u32 base capacity · f64 error rate · u32 bytes
//
// The size of the record is the number of items that were added. Filter k holds base capacity × expansion^k
// items.
type BloomMeta struct {
	Filters      uint16
	Expansion    uint16  // 0: the chain does not grow
	BaseCapacity uint32  // items in the first filter
	ErrorRate    float64 // of every filter
	Bytes        uint32  // of all filters together
}

const bloomTail = 20

// Append appends the encoded tail.
func (m *BloomMeta) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, m.Filters)
	dst = binary.BigEndian.AppendUint16(dst, m.Expansion)
	dst = binary.BigEndian.AppendUint32(dst, m.BaseCapacity)
	dst = AppendDouble(dst, m.ErrorRate)
	return binary.BigEndian.AppendUint32(dst, m.Bytes)
}

// DecodeBloomMeta decodes the type-specific fields of a Bloom filter chain.
func DecodeBloomMeta(tail []byte) (m BloomMeta, err error) {
	if len(tail) < bloomTail {
		return m, corrupt("bloom metadata tail of %d bytes", len(tail))
	}
	m.Filters = binary.BigEndian.Uint16(tail)
	m.Expansion = binary.BigEndian.Uint16(tail[2:])
	m.BaseCapacity = binary.BigEndian.Uint32(tail[4:])
	m.ErrorRate = DecodeDouble(binary.BigEndian.Uint64(tail[8:]))
	m.Bytes = binary.BigEndian.Uint32(tail[16:])
	return m, nil
}

// AppendBloomSub appends the subkey of a filter of the chain, from 0. Its value is the filter's bit set.
func AppendBloomSub(dst []byte, filter uint16) []byte {
	return binary.BigEndian.AppendUint16(dst, filter)
}

// ParseBloomSub returns the number of the filter that a subkey belongs to.
func ParseBloomSub(sub []byte) (uint16, error) {
	if len(sub) != 2 {
		return 0, corrupt("bloom filter index of %d bytes", len(sub))
	}
	return binary.BigEndian.Uint16(sub), nil
}

// JSONFormat is how a JSON document is stored: the first byte of the record's tail; the document follows.
type JSONFormat uint8

// The formats; a record of either is readable at any time.
const (
	JSONText JSONFormat = 0 // compact text
	JSONCBOR JSONFormat = 1
)

// AppendJSONTail appends the format; the caller appends the document.
func AppendJSONTail(dst []byte, f JSONFormat) []byte { return append(dst, byte(f)) }

// SplitJSONTail splits the tail of a JSON record. doc aliases tail. An unknown format is an error.
func SplitJSONTail(tail []byte) (f JSONFormat, doc []byte, err error) {
	if len(tail) == 0 {
		return 0, nil, corrupt("JSON record without format")
	}
	f = JSONFormat(tail[0])
	if f > JSONCBOR {
		return 0, nil, corrupt("JSON record of format %d", f)
	}
	return f, tail[1:], nil
}
