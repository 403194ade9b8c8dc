// Package set is the set type on an [engine.Tx]. A member is one record of the default family:
//
//	prefix · member -> empty
//
// and the metadata record holds the number of members. Members are kept in the order of their bytes.
//
// Functions that write need the key's lock for writing, the others for reading; [engine.DB.Update] and
// [engine.DB.View] take them. Slices that are returned are valid until the end of the transaction, those passed
// to callbacks until the callback returns. A key of another type is [engine.ErrWrongType].
package set

import (
	"fmt"
	"math"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

func load(tx *engine.Tx, key []byte) (engine.Record, error) { return tx.Load(key, cf.TypeSet) }

// Card returns the number of members.
func Card(tx *engine.Tx, key []byte) (uint64, error) {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists {
		return 0, err
	}
	return rec.Size, nil
}

// Contains reports for each member whether it is in the set. The slice is valid until the next batched read.
func Contains(tx *engine.Tx, key []byte, members [][]byte) ([]bool, error) {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists {
		return make([]bool, len(members)), err
	}
	return contains(tx, &rec, members)
}

// IsMember reports whether a member is in the set.
func IsMember(tx *engine.Tx, key, member []byte) (bool, error) {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists {
		return false, err
	}
	_, found, err := tx.Get(cf.Default, tx.Subkey(&rec, member))
	return found, err
}

func contains(tx *engine.Tx, rec *engine.Record, members [][]byte) ([]bool, error) {
	keys := tx.Keys()
	for _, m := range members {
		keys.Add(tx.Subkey(rec, m))
	}
	values, err := tx.MultiGet(cf.Default, keys)
	if err != nil {
		return nil, err
	}
	has := make([]bool, len(values))
	for i, v := range values {
		has[i] = v != nil
	}
	return has, nil
}

// Add adds members and returns how many are new.
func Add(tx *engine.Tx, key []byte, members [][]byte) (added int, err error) {
	rec, err := load(tx, key)
	if err != nil {
		return 0, err
	}
	if len(members) == 1 { // the common case, without a batched read
		k := tx.Subkey(&rec, members[0])
		if rec.Exists {
			if _, found, err := tx.Get(cf.Default, k); err != nil || found {
				return 0, err
			}
		}
		tx.LogData(cf.LogSet)
		tx.Put(cf.Default, k, nil)
		added = 1
	} else if added, err = addMany(tx, &rec, members); err != nil || added == 0 {
		return 0, err
	}
	rec.Size += uint64(added)
	tx.Save(&rec, nil)
	return added, nil
}

func addMany(tx *engine.Tx, rec *engine.Record, members [][]byte) (added int, err error) {
	var has []bool
	if rec.Exists {
		if has, err = contains(tx, rec, members); err != nil {
			return 0, err
		}
	}
	seen := make(map[string]struct{}, len(members))
	for i, m := range members {
		if _, dup := seen[string(m)]; dup || has != nil && has[i] {
			continue
		}
		seen[string(m)] = struct{}{}
		if added == 0 {
			tx.LogData(cf.LogSet)
		}
		tx.Put(cf.Default, tx.Subkey(rec, m), nil)
		added++
	}
	return added, nil
}

// Remove removes members and returns how many there were. With the last one the key goes.
func Remove(tx *engine.Tx, key []byte, members [][]byte) (removed int, err error) {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists {
		return 0, err
	}
	has, err := contains(tx, &rec, members)
	if err != nil {
		return 0, err
	}
	seen := make(map[string]struct{}, len(members))
	for i, m := range members {
		if _, dup := seen[string(m)]; dup || !has[i] {
			continue
		}
		seen[string(m)] = struct{}{}
		if removed == 0 {
			tx.LogData(cf.LogSet)
		}
		tx.Delete(cf.Default, tx.Subkey(&rec, m))
		removed++
	}
	if removed == 0 {
		return 0, nil
	}
	if rec.Size -= min(rec.Size, uint64(removed)); rec.Size == 0 {
		tx.Drop(&rec)
	} else {
		tx.Save(&rec, nil)
	}
	return removed, nil
}

// Move moves a member from one set to another and reports whether it was there. The destination may have the
// member already.
func Move(tx *engine.Tx, from, to, member []byte) (bool, error) {
	src, err := load(tx, from)
	if err != nil || !src.Exists {
		return false, err
	}
	if _, err := load(tx, to); err != nil {
		return false, err
	}
	if string(from) == string(to) {
		return IsMember(tx, from, member)
	}
	one := [][]byte{member}
	n, err := Remove(tx, from, one)
	if err != nil || n == 0 {
		return false, err
	}
	_, err = Add(tx, to, one)
	return true, err
}

// Each calls f with every member in the order of their bytes. begin is called before with their number, 0 when
// there is no such key.
func Each(tx *engine.Tx, key []byte, begin func(n uint64), f func(member []byte)) error {
	rec, err := load(tx, key)
	if err != nil {
		return err
	}
	if !rec.Exists {
		begin(0)
		return nil
	}
	it := tx.Iter(cf.Default, engine.IterOptions{Prefix: tx.SubkeyPrefix(&rec), KeysOnly: true, Limit: int(min(rec.Size, math.MaxInt32)) + 1})
	defer it.Close()
	tx.ReadsDone()
	begin(rec.Size)
	n := uint64(0)
	for it.Next() {
		f(it.Key())
		n++
	}
	if err := it.Err(); err != nil {
		return err
	}
	if n != rec.Size {
		return fmt.Errorf("key %q: %w: %d members, the metadata says %d", key, cf.ErrCorrupt, n, rec.Size)
	}
	return nil
}

// Pop removes n random members and calls f with them. A set that loses its last member stays as a record of size
// 0, which no one sees, as in Kvrocks.
func Pop(tx *engine.Tx, key []byte, n uint64, f func(member []byte)) error {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists || n == 0 {
		return err
	}
	members, err := tx.PopSample(cf.Default, tx.SubkeyPrefix(&rec), rec.Size, int(min(n, rec.Size)))
	if err != nil {
		return err
	}
	if len(members) == 0 {
		return fmt.Errorf("key %q: %w: no members, the metadata says %d", key, cf.ErrCorrupt, rec.Size)
	}
	tx.LogData(cf.LogSet)
	for _, m := range members {
		tx.Delete(cf.Default, tx.Subkey(&rec, m))
		f(m)
	}
	rec.Size -= min(rec.Size, uint64(len(members)))
	tx.Save(&rec, nil)
	return nil
}

// sampleChunk is how many random members are drawn at once.
const sampleChunk = 1024

// Random calls f with n random members, the same ones perhaps several times, until f returns false. It does not
// read the whole set.
func Random(tx *engine.Tx, key []byte, n uint64, f func(member []byte) bool) error {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists {
		return err
	}
	for n > 0 {
		some := min(n, sampleChunk)
		members, err := tx.Sample(cf.Default, tx.SubkeyPrefix(&rec), rec.Size, int(some))
		if err != nil || len(members) == 0 {
			return err
		}
		for _, m := range members {
			if !f(m) {
				return nil
			}
		}
		n -= some
	}
	return nil
}

// RandomDistinct calls f with n random members, all different, or with all when there are no more.
func RandomDistinct(tx *engine.Tx, key []byte, n uint64, f func(member []byte)) error {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists || n == 0 {
		return err
	}
	members, err := tx.SampleDistinct(cf.Default, tx.SubkeyPrefix(&rec), rec.Size, int(min(n, rec.Size)))
	if err != nil {
		return err
	}
	for _, m := range members {
		f(m)
	}
	return nil
}
