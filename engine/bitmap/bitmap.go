// Package bitmap is the bitmap type on an [engine.Tx], and the bit commands on strings. A bitmap is cut into
// fragments of 1 KiB, each one record of the default family:
//
//	prefix · offset of its first byte, in decimal -> up to 1024 bytes
//
// Bit i is bit i mod 8 of byte i/8, counted from the least significant one. A missing fragment is all zeros, and a
// short fragment continues with zeros, so the size on disk depends on the bits that are set. The metadata record holds
// the length of the bitmap in bytes: up to the last byte that was ever written.
//
// A string is the same array of bits with the most significant bit of each byte first, as in Redis: a bitmap read as a
// string has the bits of every byte reversed. The functions on bits accept both types. They change strings in place and
// create a missing key as a bitmap. [Value], [ValueRange] and [ToString] read a bitmap as the string that Redis would
// have.
//
// Functions that write need the key's lock for writing, the others for reading; [engine.DB.Update] and [engine.DB.View]
// take the locks. [Value], [ValueRange] and [Len] need no lock. Returned slices are valid until the end of the
// transaction. A key of any other type gives [engine.ErrWrongType].
package bitmap

import (
	"fmt"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// MaxOffset is the greatest bit number.
const MaxOffset = 1<<32 - 1

// maxBytes is the max length of a bitmap in bytes: a longer one is corrupt. BITOP of strings and bitmaps makes the
// longest ones, and strings are shorter than 4 GiB.
const maxBytes = 1 << 32

const (
	fragment     = cf.BitmapFragment
	fragmentBits = fragment * 8
)

// Errors of the functions of this package.
var (
	// ErrOffset: the bit number is greater than [MaxOffset], or beyond the max length of a string.
	ErrOffset  = engine.NewError("ERR", "bit offset is not an integer or out of range")
	ErrTooLong = engine.NewError("ERR",
		"Operation aborted: The size of the bitmap string exceeds the configuration item max-bitmap-to-string-mb")
)

// load reads the record of a bitmap or a string. A missing key gives the record of a new bitmap.
func load(tx *engine.Tx, key []byte) (engine.Record, error) {
	rec, err := loadHead(tx, key)
	if err == nil && rec.Type == cf.TypeString {
		err = tx.LoadRest(&rec)
	}
	return rec, err
}

// loadHead is load without the Rest of a long string.
func loadHead(tx *engine.Tx, key []byte) (engine.Record, error) {
	rec, err := tx.Load(key, cf.TypeBitmap)
	if err == engine.ErrWrongType && rec.Type == cf.TypeString {
		return rec, nil
	}
	if err == nil {
		err = checkLength(key, &rec)
	}
	return rec, err
}

// stringPart returns the bytes [first, end) of a string whose record loadHead has returned, without those beyond the
// end of the string.
func stringPart(tx *engine.Tx, key []byte, rec *engine.Record, first, end uint64) ([]byte, error) {
	if rec.Rest == 0 {
		n := uint64(len(rec.Tail))
		return rec.Tail[min(first, n):min(end, n)], nil
	}
	part, err := tx.LoadPart(key, func(_ cf.Type, n int) (int, int) {
		return int(min(first, uint64(n))), int(min(end, uint64(n)))
	})
	return part.Tail, err
}

// loadPart is load for a reader of a part of a string: part gets the length of the string in bytes and returns the
// needed range [from, to). The record's Tail then begins at byte from.
func loadPart(tx *engine.Tx, key []byte, part func(size uint64) (from, to uint64)) (rec engine.Record, size,
	from uint64, err error) {
	rec, err = tx.LoadPart(key, func(t cf.Type, n int) (int, int) {
		if t != cf.TypeString {
			return 0, n
		}
		size = uint64(n)
		begin, end := part(size)
		from = min(begin, size)
		return int(from), int(min(end, size))
	})
	switch {
	case err != nil || !rec.Exists || rec.Type == cf.TypeString:
	case rec.Type != cf.TypeBitmap:
		err = engine.ErrWrongType
	default:
		size, err = rec.Size, checkLength(key, &rec)
	}
	return rec, size, from, err
}

func checkLength(key []byte, rec *engine.Record) error {
	if rec.Type == cf.TypeBitmap && rec.Size >= maxBytes {
		return fmt.Errorf("key %q: %w: a bitmap of %d bytes", key, cf.ErrCorrupt, rec.Size)
	}
	return nil
}

// length returns the length of a bitmap or a string in bytes.
func length(rec *engine.Record) uint64 {
	switch {
	case !rec.Exists:
		return 0
	case rec.Type == cf.TypeString:
		return uint64(len(rec.Tail) + rec.Rest)
	}
	return rec.Size
}

// fragmentKey returns the key of the n-th fragment. It is valid until the next key is built.
func fragmentKey(tx *engine.Tx, rec *engine.Record, n uint64) []byte {
	var text [20]byte
	return tx.Subkey(rec, cf.AppendBitmapSub(text[:0], n*fragment))
}

// clip truncates a fragment to the max length. Early versions of Kvrocks wrote zeros beyond it.
func clip(b []byte) []byte { return b[:min(len(b), fragment)] }

// GetBit returns a bit; bits beyond the end are zero.
func GetBit(tx *engine.Tx, key []byte, offset uint64) (bool, error) {
	rec, _, _, err := loadPart(tx, key, func(uint64) (from, to uint64) { return offset / 8, offset/8 + 1 })
	if err != nil || !rec.Exists {
		return false, err
	}
	if rec.Type == cf.TypeString {
		return len(rec.Tail) > 0 && rec.Tail[0]>>(7-offset%8)&1 != 0, nil
	}
	value, _, err := tx.Get(cf.Default, fragmentKey(tx, &rec, offset/fragmentBits))
	if err != nil {
		return false, err
	}
	at := offset / 8 % fragment
	return at < uint64(len(value)) && value[at]>>(offset%8)&1 != 0, nil
}

// PrefetchBit adds the key that GetBit or SetBit will read to a list of keys of the default family.
func PrefetchBit(tx *engine.Tx, key []byte, offset uint64, keys *engine.KeyList) {
	if rec, ok := tx.Glance(key, cf.TypeBitmap); ok {
		keys.Add(fragmentKey(tx, &rec, offset/fragmentBits))
	}
}

// SetBit sets a bit and returns its old value. A string grows to at most maxLen bytes. As in Redis, it writes nothing
// if the bit has the value already and is not beyond the end.
func SetBit(tx *engine.Tx, key []byte, offset uint64, bit bool, maxLen int64) (old bool, err error) {
	if offset > MaxOffset {
		return false, ErrOffset
	}
	rec, err := loadHead(tx, key)
	if err != nil {
		return false, err
	}
	if rec.Type == cf.TypeString {
		return setStringBit(tx, key, &rec, offset, bit, maxLen)
	}
	n := offset / fragmentBits
	fkey := fragmentKey(tx, &rec, n)
	var had []byte
	if rec.Exists {
		if had, _, err = tx.Get(cf.Default, fkey); err != nil {
			return false, err
		}
		had = clip(had)
	}
	at := offset / 8 % fragment
	mask := byte(1) << (offset % 8)
	old = at < uint64(len(had)) && had[at]&mask != 0
	end := offset/8 + 1
	if old == bit && rec.Exists && end <= rec.Size {
		return old, nil
	}
	var buf [fragment]byte
	value := buf[:grown(len(had), int(at)+1)]
	copy(value, had)
	if bit {
		value[at] |= mask
	} else {
		value[at] &^= mask
	}
	var text [24]byte
	tx.LogData(cf.AppendLogSetBit(text[:0], offset))
	tx.Put(cf.Default, fkey, value)
	if end > rec.Size {
		rec.Size = end
		tx.Save(&rec, nil)
	}
	return old, nil
}

// grown returns the new length of a fragment of n bytes that must hold need bytes: at least twice the old length, so
// that filling it bit by bit does not change its length each time. Kvrocks does the same.
func grown(n, need int) int {
	if need <= n {
		return n
	}
	return max(need, min(2*n, fragment))
}

func setStringBit(tx *engine.Tx, key []byte, rec *engine.Record, offset uint64, bit bool, maxLen int64) (old bool,
	err error) {
	at := offset / 8
	if at >= uint64(max(maxLen, 0)) {
		return false, ErrOffset
	}
	mask := byte(0x80) >> (offset % 8)
	had, err := stringPart(tx, key, rec, at, at+1)
	if err != nil {
		return false, err
	}
	if len(had) > 0 {
		if old = had[0]&mask != 0; old == bit {
			return old, nil
		}
	}
	value, err := resave(tx, rec, max(length(rec), at+1))
	if err != nil {
		return old, err
	}
	if bit {
		value[at] |= mask
	} else {
		value[at] &^= mask
	}
	return old, nil
}

// resized returns a copy of b of n bytes, filled up with zeros.
func resized(b []byte, n uint64) []byte {
	out := make([]byte, n)
	copy(out, b)
	return out
}

func saveString(tx *engine.Tx, rec *engine.Record, value []byte) {
	tx.LogData(cf.LogString)
	tx.SaveAppend(rec, value)
}

// resave rewrites a string with a length of n bytes and returns its value, which the caller must change at once.
func resave(tx *engine.Tx, rec *engine.Record, n uint64) (value []byte, err error) {
	tx.LogData(cf.LogString)
	return tx.SaveFrom(rec, rec, int(n))
}
