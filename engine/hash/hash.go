// Package hash is the hash type on an [engine.Tx]. A field is one record of the default family:
//
//	prefix · field -> value
//
// and the metadata record holds the number of fields. A hash that loses its last field stays as a record of size 0,
// which commands do not see and a compaction drops.
//
// That is the plain form, which Kvrocks 2.10 writes. When a field first gets an expiry, the hash takes the form of
// Kvrocks's later versions, [cf.HashTTL]: the metadata record has a tail, and every value begins with the expiry of its
// field. The conversion rewrites all fields under a new version. The hash keeps that form as long as it exists.
//
// An expired field does not exist for the functions of this package, though its record may: a later write or a
// compaction deletes the record, and until then the metadata record counts it. A key whose last field has expired does
// not exist. [Len] is exact nevertheless. It reads only the metadata record, which holds the earliest and the latest
// expiry, unless the hash has both fields that are certainly live and fields that may have expired.
//
// Functions that write need the key's lock for writing, the others for reading; [engine.DB.Update] and [engine.DB.View]
// take the locks. Returned slices are valid until the end of the transaction, slices passed to a callback until the
// callback returns. A key of another type gives [engine.ErrWrongType].
package hash

import (
	"bytes"
	"fmt"
	"math"
	"strconv"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/longdouble"
)

// Errors of the functions of this package.
var (
	ErrNotInteger = engine.NewError("ERR", "hash value is not an integer")
	ErrOverflow   = engine.NewError("ERR", "increment or decrement would overflow")
	ErrNotFloat   = engine.NewError("ERR", "hash value is not a float")
	ErrNaN        = engine.NewError("ERR", "increment would produce NaN or Infinity")
)

func load(tx *engine.Tx, key []byte) (engine.Record, error) { return tx.Load(key, cf.TypeHash) }

// plain reports whether a hash that exists has the plain form.
func plain(rec *engine.Record) bool { return len(rec.Tail) == 0 }

// Len returns the number of fields. It needs no lock.
func Len(tx *engine.Tx, key []byte) (uint64, error) {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists {
		return 0, err
	}
	if !plain(&rec) {
		return lenTTL(tx, key, clone(&rec))
	}
	return rec.Size, nil
}

// Get returns the value of a field.
func Get(tx *engine.Tx, key, field []byte) (value []byte, found bool, err error) {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists {
		return nil, false, err
	}
	value, found, err = tx.Get(cf.Default, tx.Subkey(&rec, field))
	if found && !plain(&rec) {
		return Value(tx, &rec, value)
	}
	return value, found, err
}

// GetMany returns the values of several fields, nil for missing fields. The slice is valid until the next batched read
// of the transaction.
func GetMany(tx *engine.Tx, key []byte, fields [][]byte) ([][]byte, error) {
	rec, err := load(tx, key)
	if err != nil {
		return nil, err
	}
	if !rec.Exists {
		return make([][]byte, len(fields)), nil
	}
	return getMany(tx, &rec, fields)
}

func getMany(tx *engine.Tx, rec *engine.Record, fields [][]byte) ([][]byte, error) {
	values, err := tx.GetSubkeys(rec, fields, 1)
	if !plain(rec) && err == nil {
		err = liveValues(tx, rec, values)
	}
	return values, err
}

// Set sets fields, given as field and value in turn, and returns how many fields are new. When a field is repeated, its
// last value counts.
func Set(tx *engine.Tx, key []byte, pairs [][]byte) (added int, err error) {
	return set(tx, key, pairs, false)
}

// SetMissing sets the fields that do not exist yet, and returns their number.
func SetMissing(tx *engine.Tx, key []byte, pairs [][]byte) (added int, err error) {
	return set(tx, key, pairs, true)
}

// set writes the records in Kvrocks's order: the last field first, and the metadata record at the end if fields are
// new. It does not write a value that does not change.
func set(tx *engine.Tx, key []byte, pairs [][]byte, missing bool) (added int, err error) {
	rec, err := load(tx, key)
	if err != nil {
		return 0, err
	}
	if !plain(&rec) {
		return setTTL(tx, key, clone(&rec), pairs, missing)
	}
	if added, err = setPlain(tx, &rec, pairs, missing); err != nil || added == 0 {
		return 0, err
	}
	rec.Size += uint64(added)
	tx.Save(&rec, nil)
	return added, nil
}

func setPlain(tx *engine.Tx, rec *engine.Record, pairs [][]byte, missing bool) (added int, err error) {
	n := len(pairs) / 2
	var olds [][]byte
	if rec.Exists {
		if olds, err = tx.GetSubkeys(rec, pairs, 2); err != nil {
			return 0, err
		}
	}
	logged := false
	repeats := engine.NewRepeats(n)
	for i := n - 1; i >= 0; i-- {
		field, value := pairs[2*i], pairs[2*i+1]
		if repeats.Again(field) {
			continue
		}
		if olds != nil && olds[i] != nil {
			if missing || bytes.Equal(olds[i], value) {
				continue
			}
		} else {
			added++
		}
		if !logged {
			tx.LogData(cf.LogHash)
			logged = true
		}
		tx.PutSubkey(rec, cf.Default, tx.Subkey(rec, field), value)
	}
	return added, nil
}

// Delete deletes fields and returns how many of them existed.
func Delete(tx *engine.Tx, key []byte, fields [][]byte) (deleted int, err error) {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists {
		return 0, err
	}
	if !plain(&rec) {
		return deleteTTL(tx, key, clone(&rec), fields)
	}
	if deleted, err = tx.DeleteSubkeys(&rec, fields, cf.LogHash); err != nil || deleted == 0 {
		return 0, err
	}
	rec.Size -= min(rec.Size, uint64(deleted))
	tx.Save(&rec, nil)
	return deleted, nil
}

// loadField reads the record of a hash and one of its fields. An expired field is not found.
func loadField(tx *engine.Tx, key, name []byte) (rec engine.Record, value []byte, found bool, err error) {
	rec, err = load(tx, key)
	if err == nil && rec.Exists {
		value, found, err = tx.Get(cf.Default, tx.Subkey(&rec, name))
		if found && !plain(&rec) {
			value, found, err = Value(tx, &rec, value)
		}
	}
	return rec, value, found, err
}

// saveField writes one field, which keeps its expiry. found says whether the hash has the field already.
func saveField(tx *engine.Tx, key []byte, rec *engine.Record, name, value []byte, found bool) error {
	if !plain(rec) {
		return saveFieldTTL(tx, key, clone(rec), name, value)
	}
	tx.LogData(cf.LogHash)
	tx.Put(cf.Default, tx.Subkey(rec, name), value)
	if !found {
		rec.Size++
		tx.Save(rec, nil)
	}
	return nil
}

// IncrBy adds by to the integer value of a field (0 when the field is missing) and returns the sum.
func IncrBy(tx *engine.Tx, key, field []byte, by int64) (sum int64, err error) {
	rec, old, found, err := loadField(tx, key, field)
	if err != nil {
		return 0, err
	}
	var buf [20]byte
	if found {
		sum, err = strconv.ParseInt(string(old), 10, 64)
		// Leading zeros, a plus sign and "-0" are refused, as for all integers.
		if err != nil || !bytes.Equal(strconv.AppendInt(buf[:0], sum, 10), old) {
			return 0, ErrNotInteger
		}
	}
	if by > 0 && sum > math.MaxInt64-by || by < 0 && sum < math.MinInt64-by {
		return 0, ErrOverflow
	}
	sum += by
	return sum, saveField(tx, key, &rec, field, strconv.AppendInt(buf[:0], sum, 10), found)
}

// IncrByFloat adds by to the number in a field (0 when the field is missing) and returns the sum. Both are decimal
// strings; the caller has checked that by is a finite number.
func IncrByFloat(tx *engine.Tx, key, field, by []byte) (sum []byte, err error) {
	rec, old, found, err := loadField(tx, key, field)
	if err != nil {
		return nil, err
	}
	if !found {
		old = []byte("0")
	}
	a, okA := longdouble.Parse(old)
	b, okB := longdouble.Parse(by)
	if !okA || !okB {
		return nil, ErrNotFloat
	}
	x, ok := longdouble.Add(a, b)
	if !ok {
		return nil, ErrNaN
	}
	sum = longdouble.Append(nil, x)
	return sum, saveField(tx, key, &rec, field, sum, found)
}

// Each calls f with every field and its value, in the byte order of the fields. Before that it calls begin with the
// number of fields, 0 when the key does not exist.
func Each(tx *engine.Tx, key []byte, keysOnly bool, begin func(n uint64), f func(field, value []byte)) error {
	rec, err := load(tx, key)
	if err != nil {
		return err
	}
	if !rec.Exists {
		begin(0)
		return nil
	}
	if !plain(&rec) {
		return eachTTL(tx, key, clone(&rec), begin, f)
	}
	it := tx.Iter(cf.Default, engine.IterOptions{Prefix: tx.SubkeyPrefix(&rec), KeysOnly: keysOnly, Limit: hint(rec.Size)})
	defer it.Close()
	tx.ReadsDone()
	begin(rec.Size)
	n := uint64(0)
	for it.Next() {
		f(it.Key(), it.Value())
		n++
	}
	if err := it.Err(); err != nil {
		return err
	}
	if n != rec.Size {
		return fmt.Errorf("key %q: %w: %d fields, the metadata says %d", key, cf.ErrCorrupt, n, rec.Size)
	}
	return nil
}

// LexBound is one end of a range of fields in byte order.
type LexBound struct {
	Field []byte
	Open  bool // the range does not include the field itself
	Inf   bool // no bound
}

// LexRange selects fields in byte order.
type LexRange struct {
	Min, Max LexBound
	Reverse  bool
	Offset   int64
	Limit    int64 // negative = all
}

// RangeByLex calls f with the fields of a range and their values. A negative offset counts as 0, as in Kvrocks.
func RangeByLex(tx *engine.Tx, key []byte, r LexRange, f func(field, value []byte)) error {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists || r.Limit == 0 {
		return err
	}
	prefix := tx.SubkeyPrefix(&rec)
	bound := func(b LexBound, after bool) []byte {
		if b.Inf {
			return nil
		}
		k := append(bytes.Clone(prefix), b.Field...)
		if b.Open != after { // the smallest key after the field itself
			k = append(k, 0)
		}
		return k
	}
	skip := uint64(max(r.Offset, 0))
	o := engine.IterOptions{Prefix: prefix, Lower: bound(r.Min, false), Upper: bound(r.Max, true), Reverse: r.Reverse}
	if plain(&rec) {
		o.Skip, skip = skip, 0
	}
	if len(o.Lower) > 0 && len(o.Upper) > 0 && bytes.Compare(o.Lower, o.Upper) >= 0 {
		return nil
	}
	if r.Limit > 0 {
		o.Limit = hint(uint64(r.Limit))
	}
	it := tx.Iter(cf.Default, o)
	defer it.Close()
	tx.ReadsDone()
	for n := int64(0); (r.Limit < 0 || n < r.Limit) && it.Next(); {
		value := it.Value()
		if !plain(&rec) {
			var live bool
			if value, live, err = Value(tx, &rec, value); err != nil {
				return err
			}
			if !live {
				continue
			}
		}
		if skip > 0 {
			skip--
			continue
		}
		f(it.Key(), value)
		n++
	}
	return it.Err()
}
