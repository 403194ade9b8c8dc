package hash

import (
	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// valuesChunk is how many values of random fields one batch reads.
const valuesChunk = 1024

// Random calls f with n random fields and their values, until f returns false. A field may occur several times. Random
// does not read the whole hash.
func Random(tx *engine.Tx, key []byte, n uint64, values bool, f func(field, value []byte) bool) error {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists {
		return err
	}
	if !plain(&rec) {
		return randomTTL(tx, key, clone(&rec), n, f)
	}
	for n > 0 {
		some := min(n, engine.SampleMost)
		drawn, err := tx.Draw(cf.Default, tx.SubkeyPrefix(&rec), rec.Size, int(some), false, values)
		if err != nil || len(drawn.Subs) == 0 {
			return err
		}
		if goOn, err := emit(tx, &rec, drawn, values, f); err != nil || !goOn {
			return err
		}
		n -= some
	}
	return nil
}

// RandomDistinct calls f with n different random fields, until f returns false. A hash of at most n fields is passed
// whole, in byte order.
func RandomDistinct(tx *engine.Tx, key []byte, n uint64, values bool, f func(field, value []byte) bool) error {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists || n == 0 {
		return err
	}
	if !plain(&rec) {
		return distinctTTL(tx, key, clone(&rec), n, f)
	}
	if n >= rec.Size {
		it := tx.Iter(cf.Default, engine.IterOptions{Prefix: tx.SubkeyPrefix(&rec), KeysOnly: !values, Limit: hint(rec.Size)})
		defer it.Close()
		tx.ReadsDone()
		for it.Next() && f(it.Key(), it.Value()) {
		}
		return it.Err()
	}
	drawn, err := tx.Draw(cf.Default, tx.SubkeyPrefix(&rec), rec.Size, int(n), true, values)
	if err != nil {
		return err
	}
	_, err = emit(tx, &rec, drawn, values, f)
	return err
}

func emit(tx *engine.Tx, rec *engine.Record, drawn engine.Drawn, values bool,
	f func(field, value []byte) bool) (goOn bool, err error) {
	fields := drawn.Subs
	var vals [][]byte
	for i, field := range fields {
		var v []byte
		switch {
		case drawn.Values != nil:
			v = drawn.Values[i]
		case values:
			if i%valuesChunk == 0 {
				if vals, err = getMany(tx, rec, fields[i:min(i+valuesChunk, len(fields))]); err != nil {
					return false, err
				}
			}
			v = vals[i%valuesChunk]
		}
		if !f(field, v) {
			return false, nil
		}
	}
	return true, nil
}
