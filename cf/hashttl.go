package cf

import "encoding/binary"

// Hashes have two forms since Kvrocks keeps an expiry for single fields (apache/kvrocks #3444, #3472). In the plain
// form, the only form that Kvrocks 2.10 knows, the metadata record has no tail and the value of a field is stored
// unchanged. In the other form the metadata record has the tail
//
//	u8 mode (1) · u64 persist · u64 lower ms · u64 upper ms
//
// and the value of every field, with an expiry or without, begins with its expiry:
//
//	u64 expire ms (0 = never) · value
//
// All numbers are big-endian. A mode of 0 is never written: the plain form is the absence of the tail.

// HashTTL is the tail of the metadata record of a hash whose fields may expire.
//
// The size in the head of the record also counts the fields that have expired, whether they are still stored or a
// compaction has dropped them, until a writer counts the fields anew. So of the Size fields, Persist certainly exist
// and the others may be gone. When Size equals Persist both bounds are 0. Otherwise no field has expired before Lower,
// and all but the Persist fields without an expiry have expired after Upper.
type HashTTL struct {
	Persist uint64 // fields without an expiry
	Lower   uint64 // no field expires earlier; milliseconds since the epoch
	Upper   uint64 // no field expires later
}

const (
	hashTTLMode = 1
	hashTTLLen  = 1 + 3*8
)

// HashValueHead is how many bytes of the stored value of a field hold its expiry.
const HashValueHead = 8

// LogHashTTL is the log data of writes to a hash whose fields may expire: type, operation (HSET) and mode. Readers of
// the WAL need it to decode the values, because a batch need not hold the metadata record (apache/kvrocks #3634). The
// slice must not be changed.
var LogHashTTL = []byte("2 13 1")

// DecodeHashTail decodes the bytes behind the head of the metadata record of a hash. on reports whether the fields of
// the hash may expire. A tail of another form, which a newer version may have written, is an error.
func DecodeHashTail(tail []byte) (t HashTTL, on bool, err error) {
	switch {
	case len(tail) == 0:
		return t, false, nil
	case tail[0] != hashTTLMode:
		return t, false, corrupt("hash metadata of mode %d", tail[0])
	case len(tail) != hashTTLLen:
		return t, false, corrupt("hash metadata tail of %d bytes", len(tail))
	}
	t.Persist = binary.BigEndian.Uint64(tail[1:])
	t.Lower = binary.BigEndian.Uint64(tail[9:])
	t.Upper = binary.BigEndian.Uint64(tail[17:])
	return t, true, nil
}

// AppendHashTail appends the tail of the metadata record of a hash whose fields may expire.
func AppendHashTail(dst []byte, t HashTTL) []byte {
	dst = append(dst, hashTTLMode)
	dst = binary.BigEndian.AppendUint64(dst, t.Persist)
	dst = binary.BigEndian.AppendUint64(dst, t.Lower)
	return binary.BigEndian.AppendUint64(dst, t.Upper)
}

// FieldsEnd returns the time after which the hash has no field left; 0 = a field never expires.
func (t HashTTL) FieldsEnd() uint64 {
	if t.Persist > 0 {
		return 0
	}
	return t.Upper
}

// DecodeHashValue splits the stored value of a field of a hash whose fields may expire. value aliases b.
func DecodeHashValue(b []byte) (expire uint64, value []byte, err error) {
	if len(b) < HashValueHead {
		return 0, nil, corrupt("value of %d bytes in a hash with expiring fields", len(b))
	}
	return binary.BigEndian.Uint64(b), b[HashValueHead:], nil
}

// AppendHashValue appends the stored value of a field of a hash whose fields may expire.
func AppendHashValue(dst []byte, expire uint64, value []byte) []byte {
	return append(binary.BigEndian.AppendUint64(dst, expire), value...)
}

// FieldExpired reports whether a field with this expiry (0 = never) has expired at a time (milliseconds).
func FieldExpired(expire uint64, now int64) bool { return expire != 0 && expire < uint64(now) }

// hashEnd is [HashTTL.FieldsEnd] of an arbitrary tail: 0 when the tail cannot be decoded.
func hashEnd(tail []byte) uint64 {
	t, on, err := DecodeHashTail(tail)
	if err != nil || !on {
		return 0
	}
	return t.FieldsEnd()
}
