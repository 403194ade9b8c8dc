package hash

import (
	"bytes"
	"fmt"
	"math/rand/v2"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// The functions of the package on hashes whose fields may expire. They take the record by pointer and keep it, which
// moves it to the heap. The functions on plain hashes pass a copy, so that their own record stays on the stack.

func clone(rec *engine.Record) *engine.Record {
	r := *rec
	return &r
}

// Value decodes the stored value of a field. live is false if the field is missing or has expired. rec is the record of
// a hash of either form. value aliases stored.
func Value(tx *engine.Tx, rec *engine.Record, stored []byte) (value []byte, live bool, err error) {
	if plain(rec) {
		return stored, true, nil
	}
	_, _, err = cf.DecodeHashTail(rec.Tail)
	var expire uint64
	if err == nil {
		expire, value, err = cf.DecodeHashValue(stored)
	}
	if err != nil {
		return nil, false, fmt.Errorf("key %q: %w", tx.UserKey(rec), err)
	}
	if cf.FieldExpired(expire, tx.Now()) {
		return nil, false, nil
	}
	return value, true, nil
}

// liveValues replaces the stored values of several fields (nil = missing) by the values that commands see.
func liveValues(tx *engine.Tx, rec *engine.Record, values [][]byte) error {
	for i, v := range values {
		if v != nil {
			var err error
			if values[i], _, err = Value(tx, rec, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// lenTTL counts the live fields. It holds no lock, so the hash may be deleted, with its fields, before they are read.
// Therefore it reads the metadata record again after the iterator was created: if the version is unchanged, the
// iterator sees the fields of that version.
func lenTTL(tx *engine.Tx, key []byte, rec *engine.Record) (uint64, error) {
	for {
		h, err := open(tx, key, rec)
		if err != nil {
			return 0, err
		}
		if n, ok := h.certain(); ok {
			return n, nil
		}
		n, now, again, err := uint64(0), tx.Now(), engine.Record{}, error(nil)
		func() {
			it := tx.Iter(cf.Default, engine.IterOptions{Prefix: tx.SubkeyPrefix(rec), ValueMax: cf.HashValueHead,
				Limit: hint(rec.Size)})
			defer it.Close()
			if again, err = tx.Reread(rec); err != nil || again.Version != rec.Version {
				return
			}
			err = h.scanIter(it, func(_ []byte, expire uint64) {
				if !cf.FieldExpired(expire, now) {
					n++
				}
			})
		}()
		switch {
		case err != nil:
			return 0, err
		case again.Version == rec.Version:
			return n, nil
		case again.Type != cf.TypeHash: // also a missing key
			return 0, nil
		case plain(&again):
			return again.Size, nil
		}
		*rec = again
	}
}

// setTTL is Set and SetMissing for a hash whose fields may expire. A field that is set loses its expiry.
func setTTL(tx *engine.Tx, key []byte, rec *engine.Record, pairs [][]byte, missing bool) (added int, err error) {
	h, err := open(tx, key, rec)
	if err != nil {
		return 0, err
	}
	olds, err := h.getMany(pairs, 2)
	if err != nil {
		return 0, err
	}
	repeats := engine.NewRepeats(len(olds))
	for i := len(olds) - 1; i >= 0; i-- { // Kvrocks's order
		name, value, old := pairs[2*i], pairs[2*i+1], olds[i]
		switch {
		case repeats.Again(name):
			continue
		case !old.live(tx.Now()):
			added++
		case missing, old.expire == 0 && bytes.Equal(old.value, value):
			continue
		}
		if err := h.put(name, old, value, 0); err != nil {
			return 0, err
		}
	}
	return added, h.save(false, false)
}

func deleteTTL(tx *engine.Tx, key []byte, rec *engine.Record, fields [][]byte) (deleted int, err error) {
	h, err := open(tx, key, rec)
	if err != nil {
		return 0, err
	}
	err = h.delete(fields, func(_ []byte, found bool) {
		if found {
			deleted++
		}
	})
	return deleted, err
}

func saveFieldTTL(tx *engine.Tx, key []byte, rec *engine.Record, name, value []byte) error {
	h, err := open(tx, key, rec)
	if err != nil {
		return err
	}
	old, err := h.get(name)
	if err != nil {
		return err
	}
	expire := uint64(0)
	if old.live(tx.Now()) {
		expire = old.expire
	}
	if err := h.put(name, old, value, expire); err != nil {
		return err
	}
	return h.save(false, false)
}

// eachTTL is Each. When fields may have expired, it counts the live ones before it calls f.
func eachTTL(tx *engine.Tx, key []byte, rec *engine.Record, begin func(n uint64), f func(field, value []byte)) error {
	h, err := open(tx, key, rec)
	if err != nil {
		return err
	}
	want, err := h.live()
	if err != nil {
		return err
	}
	n := uint64(0)
	o := engine.IterOptions{Prefix: tx.SubkeyPrefix(rec), Limit: hint(rec.Size)}
	err = eachLive(tx, key, o, func() {
		tx.ReadsDone()
		begin(want)
	}, func(field, value []byte, _ uint64) {
		f(field, value)
		n++
	})
	if err != nil {
		return err
	}
	if n != want {
		return h.corrupt("%d fields, the metadata says %d", n, want)
	}
	return nil
}

// randomTries is how many samples without a live field are drawn before the whole hash is read.
const randomTries = 8

// randomTTL is Random. A sample may consist of expired fields; after too many such samples it reads all live fields.
func randomTTL(tx *engine.Tx, key []byte, rec *engine.Record, n uint64, f func(field, value []byte) bool) error {
	misses := 0
	for n > 0 && misses < randomTries {
		names, err := tx.Sample(cf.Default, tx.SubkeyPrefix(rec), rec.Size, int(min(n, valuesChunk)))
		if err != nil || len(names) == 0 {
			return err
		}
		values, err := getMany(tx, rec, names)
		if err != nil {
			return err
		}
		had := n
		for i, name := range names {
			if values[i] == nil {
				continue
			}
			if !f(name, values[i]) {
				return nil
			}
			n--
		}
		if had-n < uint64(len(names))/8 || had == n {
			misses++
		}
	}
	if n == 0 {
		return nil
	}
	all, err := liveFields(tx, key, rec)
	if err != nil || len(all) == 0 {
		return err
	}
	for ; n > 0; n-- {
		i := rand.IntN(len(all)/2) * 2
		if !f(all[i], all[i+1]) {
			return nil
		}
	}
	return nil
}

// distinctTTL is RandomDistinct.
func distinctTTL(tx *engine.Tx, key []byte, rec *engine.Record, n uint64, f func(field, value []byte) bool) error {
	if n < rec.Size/3 {
		names, err := tx.SampleDistinct(cf.Default, tx.SubkeyPrefix(rec), rec.Size, int(n))
		if err != nil {
			return err
		}
		values, err := getMany(tx, rec, names)
		if err != nil {
			return err
		}
		expired := uint64(len(names)) < n
		for _, v := range values {
			expired = expired || v == nil
		}
		if !expired {
			for i, name := range names {
				if !f(name, values[i]) {
					return nil
				}
			}
			return nil
		}
	}
	all, err := liveFields(tx, key, rec)
	if err != nil {
		return err
	}
	fields := uint64(len(all) / 2)
	if n < fields {
		rand.Shuffle(len(all)/2, func(i, j int) {
			all[2*i], all[2*j] = all[2*j], all[2*i]
			all[2*i+1], all[2*j+1] = all[2*j+1], all[2*i+1]
		})
	}
	for i := range min(n, fields) {
		if !f(all[2*i], all[2*i+1]) {
			return nil
		}
	}
	return nil
}

// liveFields reads all live fields and their values, alternating.
func liveFields(tx *engine.Tx, key []byte, rec *engine.Record) (all [][]byte, err error) {
	if _, err := open(tx, key, rec); err != nil { // checks the counters
		return nil, err
	}
	o := engine.IterOptions{Prefix: tx.SubkeyPrefix(rec), Limit: hint(rec.Size)}
	err = eachLive(tx, key, o, tx.ReadsDone, func(field, value []byte, _ uint64) {
		all = append(all, bytes.Clone(field), bytes.Clone(value))
	})
	return all, err
}
