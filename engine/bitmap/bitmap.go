// Package bitmap is the bitmap type on an [engine.Tx], and the bit commands on strings. A bitmap is cut into
// fragments of 1 KiB, each one record of the default family:
//
//	prefix · offset of its first byte, in decimal -> up to 1024 bytes
//
// Bit i is bit number i mod 8 of byte i/8, from the least significant one. A fragment that is missing is all
// zeros, and one that is short is zero from there on, so a bitmap costs what is set in it. The metadata record
// holds the length of the bitmap in bytes: up to the last byte that was ever written.
//
// A string is the same array of bits with the most significant bit of each byte first, as in Redis: the string
// of a bitmap has the bits of every byte reversed. The functions that work on bits take both types; strings are
// changed in place, and a key that does not exist becomes a bitmap. [Value] and its relatives read a bitmap as
// the string it would be in Redis.
//
// Functions that write need the key's lock for writing, the others for reading; [engine.DB.Update] and
// [engine.DB.View] take them. [Value], [ValueRange] and [Len] need none. Slices that are returned are valid until
// the end of the transaction. A key of any other type is [engine.ErrWrongType].
package bitmap

import (
	"fmt"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// MaxOffset is the number of the last bit that there can be.
const MaxOffset = 1<<32 - 1

// maxBytes is a length that no bitmap has: longer ones are taken for corruption. The longest are made by BITOP of
// strings and bitmaps, and strings are shorter than 4 GiB.
const maxBytes = 1 << 32

const (
	fragment     = cf.BitmapFragment
	fragmentBits = fragment * 8
)

// Errors of the functions of this package.
var (
	// ErrOffset: the bit lies beyond [MaxOffset], or in a string beyond the longest one allowed.
	ErrOffset = engine.NewError("ERR", "bit offset is not an integer or out of range")
	// ErrTooLong: the string of a bitmap would be longer than the limit.
	ErrTooLong = engine.NewError("ERR",
		"Operation aborted: The size of the bitmap string exceeds the configuration item max-bitmap-to-string-mb")
)

// load reads the record of a key that is a bitmap or a string. When there is none, it is that of a new bitmap.
func load(tx *engine.Tx, key []byte) (engine.Record, error) {
	rec, err := tx.Load(key, cf.TypeBitmap)
	if err == engine.ErrWrongType && rec.Type == cf.TypeString {
		return rec, tx.LoadRest(&rec)
	}
	if err == nil {
		err = checkLength(key, &rec)
	}
	return rec, err
}

// loadHead is load, but the Rest of a string may be missing.
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

// stringPart returns the bytes from first to before end of a string of which loadHead has returned the record, as far
// as there are any.
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

// loadPart is load for who reads only a part of a string: part is told how many bytes a string has and returns from
// where to where (exclusive) they are needed. Tail then begins at the byte from.
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

// length returns how many bytes a bitmap or a string has.
func length(rec *engine.Record) uint64 {
	switch {
	case !rec.Exists:
		return 0
	case rec.Type == cf.TypeString:
		return uint64(len(rec.Tail) + rec.Rest)
	}
	return rec.Size
}

// fragmentKey returns the key of the n-th fragment; valid until the next call of a method that builds a key.
func fragmentKey(tx *engine.Tx, rec *engine.Record, n uint64) []byte {
	var text [20]byte
	return tx.Subkey(rec, cf.AppendBitmapSub(text[:0], n*fragment))
}

// clip cuts a fragment off at its whole length. Early versions of Kvrocks wrote zeros beyond it.
func clip(b []byte) []byte { return b[:min(len(b), fragment)] }

// GetBit returns a bit; those beyond the end are zero.
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

// PrefetchBit adds to a list of keys of the default family the one that GetBit or SetBit will read.
func PrefetchBit(tx *engine.Tx, key []byte, offset uint64, keys *engine.KeyList) {
	if rec, ok := tx.Glance(key, cf.TypeBitmap); ok {
		keys.Add(fragmentKey(tx, &rec, offset/fragmentBits))
	}
}

// SetBit sets a bit to a value and returns the one it had. A string grows to at most maxLen bytes. As in Redis, a bit
// that has the value already and is not beyond the end is no change: nothing is written.
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

// grown returns the length of a fragment of n bytes after it has grown to hold need bytes: at least twice as long
// as before, so that filling it bit by bit does not change its length each time. Kvrocks does the same.
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

// resized returns a copy of b, n bytes long, with zeros behind.
func resized(b []byte, n uint64) []byte {
	out := make([]byte, n)
	copy(out, b)
	return out
}

func saveString(tx *engine.Tx, rec *engine.Record, value []byte) {
	tx.LogData(cf.LogString)
	tx.SaveAppend(rec, value)
}

// resave writes a string anew with a length of n bytes and returns its value, which the caller changes at once.
func resave(tx *engine.Tx, rec *engine.Record, n uint64) (value []byte, err error) {
	tx.LogData(cf.LogString)
	return tx.SaveFrom(rec, rec, int(n))
}
