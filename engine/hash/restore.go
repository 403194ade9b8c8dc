package hash

import (
	"fmt"
	"math"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Expiring counts the live fields of a hash and those of them that have an expiry, at the time of the transaction.
type Expiring struct {
	Fields   uint64 // the number of live fields
	Expiring uint64 // the number of them with an expiry
	First    uint64 // the earliest expiry, in milliseconds since the epoch
}

// EachExpiring calls f with every field, its value and its expiry (milliseconds since the epoch, 0 = never), in the
// byte order of the fields. It calls begin before. It reads the hash twice: the caller must hold the key's lock during
// both.
func EachExpiring(tx *engine.Tx, key []byte, begin func(e Expiring), f func(field, value []byte, expire uint64)) error {
	rec, err := load(tx, key)
	if err != nil {
		return err
	}
	var e Expiring
	if !rec.Exists {
		begin(e)
		return nil
	}
	_, on, err := cf.DecodeHashTail(rec.Tail)
	if err != nil {
		return fmt.Errorf("key %q: %w", key, err)
	}
	if !on {
		return Each(tx, key, false, func(n uint64) { begin(Expiring{Fields: n}) },
			func(field, value []byte) { f(field, value, 0) })
	}
	o := engine.IterOptions{Prefix: tx.SubkeyPrefix(&rec), ValueMax: cf.HashValueHead, Limit: hint(rec.Size)}
	err = eachLive(tx, key, o, nil, func(_, _ []byte, expire uint64) {
		e.Fields++
		if expire != 0 {
			if e.Expiring == 0 || expire < e.First {
				e.First = expire
			}
			e.Expiring++
		}
	})
	if err != nil {
		return err
	}
	o.ValueMax = 0
	return eachLive(tx, key, o, func() { begin(e) }, f)
}

// eachLive calls f with the live fields of a hash whose fields may expire. It calls begin, if not nil, when its
// iterator exists.
func eachLive(tx *engine.Tx, key []byte, o engine.IterOptions, begin func(),
	f func(field, value []byte, expire uint64)) error {
	it := tx.Iter(cf.Default, o)
	defer it.Close()
	if begin != nil {
		begin()
	}
	for it.Next() {
		expire, value, err := cf.DecodeHashValue(it.Value())
		if err != nil {
			return fmt.Errorf("key %q: field %q: %w", key, it.Key(), err)
		}
		if !cf.FieldExpired(expire, tx.Now()) {
			f(it.Key(), value, expire)
		}
	}
	return it.Err()
}

// Restore creates a hash. pairs holds fields and values in turn, expires the expiry of each field in milliseconds since
// the epoch, 0 = never. The key must not exist and the fields must be distinct. Fields that have expired are left out.
// If no field remains, Restore creates nothing.
func Restore(tx *engine.Tx, key []byte, pairs [][]byte, expires []uint64) error {
	rec, err := load(tx, key)
	if err != nil {
		return err
	}
	t := cf.HashTTL{Lower: math.MaxUint64}
	for _, at := range expires {
		switch {
		case at == 0:
			t.Persist++
		case int64(at) > tx.Now():
			rec.Size++
			t.Lower, t.Upper = min(t.Lower, at), max(t.Upper, at)
		}
	}
	expiring := rec.Size > 0
	if rec.Size += t.Persist; rec.Size == 0 {
		return nil
	}
	var value []byte
	if expiring {
		tx.LogData(cf.LogHashTTL)
	} else {
		tx.LogData(cf.LogHash)
	}
	for i, at := range expires {
		switch field := pairs[2*i]; {
		case at != 0 && int64(at) <= tx.Now():
		case expiring:
			value = cf.AppendHashValue(value[:0], at, pairs[2*i+1])
			tx.PutSubkey(&rec, cf.Default, tx.Subkey(&rec, field), value)
		default:
			tx.PutSubkey(&rec, cf.Default, tx.Subkey(&rec, field), pairs[2*i+1])
		}
	}
	if !expiring {
		tx.Save(&rec, nil)
		return nil
	}
	rec.SetFieldsEnd(t.FieldsEnd())
	tx.Save(&rec, cf.AppendHashTail(nil, t))
	return nil
}
