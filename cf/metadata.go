package cf

import (
	"encoding/binary"
	"math"
)

// Type is the data type of a user key: the low four bits of its metadata record's flags.
type Type uint8

// The types with their ids on disk.
const (
	TypeNone Type = iota
	TypeString
	TypeHash
	TypeList
	TypeSet
	TypeZSet
	TypeBitmap
	TypeSortedInt
	TypeStream
	TypeBloom
	TypeJSON
	TypeHyperLogLog
	TypeTDigest      Type = 12 // since Kvrocks 2.11
	TypeTimeSeries   Type = 13 // since Kvrocks 2.14
	TypeCuckooFilter Type = 14 // after Kvrocks 2.16
)

var typeNames = [...]string{"none", "string", "hash", "list", "set", "zset", "bitmap", "sortedint", "stream",
	"MBbloom--", "ReJSON-RL", "hyperloglog", "TDIS-TYPE", "timeseries", "MBbloomCF"}

// String returns what TYPE replies.
func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return "unknown"
}

// SingleRecord reports whether the whole value is in the metadata record: such a record has no version and
// no size.
func (t Type) SingleRecord() bool { return t == TypeString || t == TypeJSON }

// Family returns the family of the type's subkeys. A sorted set has an index in ZSetScore besides.
func (t Type) Family() ID {
	if t == TypeStream {
		return Stream
	}
	return Default
}

// MayBeEmpty reports whether a record with size 0 is a live key. A record of an unknown type may be one.
func (t Type) MayBeEmpty() bool {
	switch t {
	case TypeHash, TypeList, TypeSet, TypeZSet, TypeBitmap, TypeSortedInt:
		return false
	}
	return t != TypeNone
}

// Known reports whether this version knows the layout of the type.
func (t Type) Known() bool { return t <= TypeCuckooFilter }

// wideFlag marks the 64-bit form of a record.
const wideFlag = 0x80

// Meta is the common head of a metadata record:
//
//	64-bit form: u8 flags (bit 7 set) · u64 expire ms · [u64 version · u64 size] · tail
//	old form:    u8 flags             · u32 expire s  · [u64 version · u32 size] · tail
//
// Version and size are absent for single-record types. An updated record keeps the form in which it was read.
type Meta struct {
	Type    Type
	Narrow  bool   // the old form, with 32-bit expire (seconds) and size
	endHigh uint16 // FieldsEnd, in 48 bits: more would make the records that are copied about longer
	endLow  uint32
	Expire  uint64 // absolute, milliseconds since the epoch; 0 = never
	Version uint64
	Size    uint64
}

// DecodeMeta decodes the head of a record. tail is the rest of the record: the value of a string, the format byte and
// document of a JSON record, the type-specific fields of list, stream, bloom and HyperLogLog. tail aliases b.
func DecodeMeta(b []byte) (m Meta, tail []byte, err error) {
	if len(b) == 0 {
		return m, nil, corrupt("empty metadata record")
	}
	m.Type = Type(b[0] & 0x0f)
	m.Narrow = b[0]&wideFlag == 0
	n := m.headLen()
	if len(b) < n {
		return m, nil, corrupt("metadata record of %d bytes, a %s has at least %d", len(b), m.Type, n)
	}
	p := b[1:]
	if m.Narrow {
		m.Expire = uint64(binary.BigEndian.Uint32(p)) * 1000
		p = p[4:]
	} else {
		m.Expire = binary.BigEndian.Uint64(p)
		p = p[8:]
	}
	if !m.Type.SingleRecord() {
		m.Version = binary.BigEndian.Uint64(p)
		if m.Narrow {
			m.Size = uint64(binary.BigEndian.Uint32(p[8:]))
		} else {
			m.Size = binary.BigEndian.Uint64(p[8:])
		}
	}
	if m.Type == TypeHash && len(b) > n {
		m.SetFieldsEnd(hashEnd(b[n:]))
	}
	return m, b[n:], nil
}

// headLen returns the length of the encoded head in bytes.
func (m *Meta) headLen() int {
	n := 9
	if m.Narrow {
		n = 5
	}
	if !m.Type.SingleRecord() {
		n += 16
		if m.Narrow {
			n -= 4
		}
	}
	return n
}

// Flags returns the first byte of the encoded head: the type and the form.
func (m *Meta) Flags() byte {
	flags := byte(m.Type) & 0x0f
	if !m.Narrow {
		flags |= wideFlag
	}
	return flags
}

// Append appends the encoded head; the caller appends the tail.
//
// In the old form an expiry is rounded to seconds, but 1..999 ms become 1 s: a key with an expiry keeps an expiry.
func (m *Meta) Append(dst []byte) []byte {
	dst = append(dst, m.Flags())
	if !m.Narrow {
		dst = binary.BigEndian.AppendUint64(dst, m.Expire)
	} else {
		dst = binary.BigEndian.AppendUint32(dst, uint32(roundSeconds(m.Expire)))
	}
	if m.Type.SingleRecord() {
		return dst
	}
	dst = binary.BigEndian.AppendUint64(dst, m.Version)
	if m.Narrow {
		return binary.BigEndian.AppendUint32(dst, uint32(m.Size))
	}
	return binary.BigEndian.AppendUint64(dst, m.Size)
}

func roundSeconds(ms uint64) uint64 {
	if ms > 0 && ms < 1000 {
		return 1
	}
	// An expiry that does not fit is clamped to the maximum; truncated, it could become 0 (never).
	return min((min(ms, math.MaxInt64)+499)/1000, math.MaxUint32)
}

// Expired reports whether the expiry lies before now (milliseconds since the epoch).
func (m *Meta) Expired(now int64) bool { return m.Expire != 0 && m.Expire < uint64(now) }

// FieldsEnd returns when the last field of a hash expires, 0 = never: see [HashTTL.FieldsEnd]. DecodeMeta takes it from
// the tail; Append does not encode it.
func (m *Meta) FieldsEnd() uint64 { return uint64(m.endHigh)<<32 | uint64(m.endLow) }

// SetFieldsEnd must be called by code that changes the tail of a hash. A time that does not fit (some 8,900 years after
// the epoch) is clamped to the maximum.
func (m *Meta) SetFieldsEnd(ms uint64) {
	ms = min(ms, 1<<48-1)
	m.endHigh, m.endLow = uint16(ms>>32), uint32(ms)
}

// End returns the time after which the key is gone if no command writes to it: the expiry of the key or that of its
// last field, whichever comes first; 0 = never.
func (m *Meta) End() uint64 {
	if end := m.FieldsEnd(); end != 0 && (m.Expire == 0 || end < m.Expire) {
		return end
	}
	return m.Expire
}

// Live reports whether the record is a visible key at a time: it has not expired, and it is not a collection that is
// empty or whose elements have all expired.
func (m *Meta) Live(now int64) bool {
	return !m.Expired(now) && (m.Size > 0 || m.Type.MayBeEmpty()) && (m.FieldsEnd() == 0 || m.FieldsEnd() >= uint64(now))
}

// MaxHead is the length of the longest head of a metadata record together with the tail of a hash: enough of a record
// to decode a whole [Meta].
const MaxHead = 9 + 16 + hashTTLLen

// List metadata tail: u64 head · u64 tail. The elements live at the indexes [head, tail).

// ListOrigin is the index at which a new list begins.
const ListOrigin uint64 = 1<<63 - 1

// DecodeListTail decodes the type-specific fields of a list.
func DecodeListTail(tail []byte) (head, end uint64, err error) {
	if len(tail) < 16 {
		return 0, 0, corrupt("list metadata tail of %d bytes", len(tail))
	}
	return binary.BigEndian.Uint64(tail), binary.BigEndian.Uint64(tail[8:]), nil
}

// AppendListTail appends the type-specific fields of a list.
func AppendListTail(dst []byte, head, end uint64) []byte {
	dst = binary.BigEndian.AppendUint64(dst, head)
	return binary.BigEndian.AppendUint64(dst, end)
}
