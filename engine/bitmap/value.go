package bitmap

import (
	"bytes"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Len returns the length in bytes of a bitmap read as a string. A key of another type, even a string, gives
// [engine.ErrWrongType].
func Len(tx *engine.Tx, key []byte) (n uint64, found bool, err error) {
	rec, err := tx.Load(key, cf.TypeBitmap)
	if err != nil || !rec.Exists {
		return 0, false, err
	}
	return rec.Size, true, checkLength(key, &rec)
}

// Value returns a bitmap as the string that Redis would have, or [ErrTooLong] if that is longer than limit bytes. A
// string is returned as it is.
//
// The result is consistent as of one moment, even if the transaction holds no lock of the key.
func Value(tx *engine.Tx, key []byte, limit uint64) (value []byte, found bool, err error) {
	return valueRange(tx, key, limit, All)
}

// ValueRange returns the bytes of [Value] from start to end, both included. Negative positions count from the end (-1 =
// the last byte); positions outside are clamped. Only the returned bytes count towards the limit.
func ValueRange(tx *engine.Tx, key []byte, limit uint64, start, end int64) ([]byte, error) {
	value, _, err := valueRange(tx, key, limit, Range{Start: start, End: end})
	return value, err
}

// ToString converts a bitmap into the string of the same value, with the same expiry: commands that change strings then
// work on it. Its fragments become unreachable, and compaction drops them. A bitmap of more than limit bytes gives
// [ErrTooLong]; a key of another type, even a string, gives [engine.ErrWrongType]. The key must be locked for writing.
func ToString(tx *engine.Tx, key []byte, limit uint64) error {
	old, err := tx.Load(key, cf.TypeBitmap)
	if err != nil || !old.Exists {
		return err
	}
	value, _, err := Value(tx, key, limit)
	if err != nil {
		return err
	}
	rec := tx.Fresh(key, cf.TypeString)
	rec.Expire = old.Expire
	saveString(tx, &rec, value)
	return nil
}

func valueRange(tx *engine.Tx, key []byte, limit uint64, r Range) (value []byte, found bool, err error) {
	rec, err := tx.LoadAny(key)
	for {
		switch {
		case err != nil || !rec.Exists:
			return nil, false, err
		case rec.Type != cf.TypeString && rec.Type != cf.TypeBitmap:
			return nil, true, engine.ErrWrongType
		}
		if err := checkLength(key, &rec); err != nil {
			return nil, true, err
		}
		lo, hi, empty := r.in(length(&rec))
		switch {
		case empty || r.backwards():
			return nil, true, nil
		case rec.Type == cf.TypeString:
			return rec.Tail[lo/8 : hi/8+1], true, nil
		case hi/8-lo/8 >= limit:
			return nil, true, ErrTooLong
		}
		v := view{tx: tx, key: key, rec: rec, from: lo / 8, out: make([]byte, hi/8-lo/8+1)}
		same, err := v.read()
		if err != nil {
			return nil, true, err
		}
		if same {
			return v.out, true, nil
		}
		// During the read without a lock, a writer extended the bitmap or replaced it.
		rec = v.rec
	}
}

// view reads a part of a bitmap as a string.
//
// Without a lock, the fragments may be newer than the record. All fragments are read from one snapshot. If the record
// is unchanged after the snapshot was taken, it was the same at that time, because neither versions nor lengths come
// back.
type view struct {
	tx   *engine.Tx
	key  []byte
	rec  engine.Record
	from uint64 // the first byte of the part
	out  []byte
}

// read fills out and reports whether the record is unchanged. If it changed, read replaces it by the current one.
func (v *view) read() (same bool, err error) {
	first, last := v.from/fragment, (v.from+uint64(len(v.out))-1)/fragment
	rec := v.rec // the prefix is made of this copy, so that v.rec can get another version
	if last-first > 0 && !pointwise(&rec, last-first+1) {
		it := v.tx.Iter(cf.Default, engine.IterOptions{Prefix: v.tx.SubkeyPrefix(&rec)})
		defer it.Close()
		if same, err = v.unchanged(); !same || err != nil {
			return false, err
		}
		v.tx.ReadsDone()
		return true, walk(it, v.key, first, last, v.take)
	}
	var snap *engine.Snapshot
	if last > first {
		snap = v.tx.DB().NewSnapshot()
		defer snap.Close()
		if same, err = v.unchanged(); !same || err != nil {
			return false, err
		}
	}
	for n := first; n <= last; n++ {
		if err := v.readOne(&rec, n, snap); err != nil {
			return false, err
		}
	}
	if last > first {
		return true, nil
	}
	return v.unchanged()
}

func (v *view) readOne(rec *engine.Record, n uint64, snap *engine.Snapshot) error {
	lower := bytes.Clone(fragmentKey(v.tx, rec, n))
	it := v.tx.Iter(cf.Default, engine.IterOptions{Lower: lower, Upper: append(lower, 0), Limit: 1, Snapshot: snap})
	defer it.Close()
	if it.Next() {
		v.take(n, clip(it.Value()))
	}
	return it.Err()
}

// take copies the requested part of a fragment to its place in out.
func (v *view) take(n uint64, value []byte) bool {
	begin, end := n*fragment, n*fragment+uint64(len(value))
	begin, end = max(begin, v.from), min(end, v.from+uint64(len(v.out)))
	if begin < end {
		flip(v.out[begin-v.from:end-v.from], value[begin-n*fragment:end-n*fragment])
	}
	return true
}

// unchanged reads the record again and reports whether version and length are the same.
func (v *view) unchanged() (bool, error) {
	now, err := v.tx.Reread(&v.rec)
	same := now.Exists && now.Type == v.rec.Type && now.Version == v.rec.Version && now.Size == v.rec.Size
	v.rec = now
	return same, err
}
