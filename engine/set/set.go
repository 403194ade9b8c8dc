// Package set is the set type on an [engine.Tx]. A member is one record of the default family:
//
//	prefix · member -> empty
//
// and the metadata record holds the number of members. Members are stored in byte order.
//
// Functions that write need the key's lock for writing, the others for reading; [engine.DB.Update] and [engine.DB.View]
// take the locks. Returned slices are valid until the end of the transaction, slices passed to a callback until the
// callback returns. A key of another type gives [engine.ErrWrongType].
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
	return rec.Size, err
}

// Contains reports for each member whether the set contains it. The slice is valid until the next batched read.
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
	values, err := tx.GetSubkeys(rec, members, 1)
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
	var had [][]byte
	if rec.Exists {
		if had, err = tx.GetSubkeys(&rec, members, 1); err != nil {
			return 0, err
		}
	}
	repeats := engine.NewRepeats(len(members))
	for i, m := range members {
		if had != nil && had[i] != nil || repeats.Again(m) {
			continue
		}
		if added == 0 {
			tx.LogData(cf.LogSet)
		}
		tx.PutSubkey(&rec, cf.Default, tx.Subkey(&rec, m), nil)
		added++
	}
	if added > 0 {
		rec.Size += uint64(added)
		tx.Save(&rec, nil)
	}
	return added, nil
}

// Remove removes members and returns how many the set contained. Without members the key does not exist any more.
func Remove(tx *engine.Tx, key []byte, members [][]byte) (removed int, err error) {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists {
		return 0, err
	}
	if removed, err = tx.DeleteSubkeys(&rec, members, cf.LogSet); err != nil || removed == 0 {
		return 0, err
	}
	if rec.Size -= min(rec.Size, uint64(removed)); rec.Size == 0 {
		tx.Drop(&rec)
	} else {
		tx.Save(&rec, nil)
	}
	return removed, nil
}

// Move moves a member from one set to another. It reports whether the first set contained the member, and whether the
// second one did not.
func Move(tx *engine.Tx, from, to, member []byte) (moved, added bool, err error) {
	src, err := load(tx, from)
	if err != nil || !src.Exists {
		return false, false, err
	}
	if _, err := load(tx, to); err != nil {
		return false, false, err
	}
	if string(from) == string(to) {
		moved, err = IsMember(tx, from, member)
		return moved, false, err
	}
	one := [][]byte{member}
	n, err := Remove(tx, from, one)
	if err != nil || n == 0 {
		return false, false, err
	}
	n, err = Add(tx, to, one)
	return true, n > 0, err
}

// Each calls f with every member in byte order. Before that it calls begin with their number, 0 when the key does not
// exist.
func Each(tx *engine.Tx, key []byte, begin func(n uint64), f func(member []byte)) error {
	rec, err := load(tx, key)
	if err != nil {
		return err
	}
	if !rec.Exists {
		begin(0)
		return nil
	}
	it := iter(tx, &rec, 1)
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

// iter returns an iterator over the members in byte order; beside is how many are read at the same time.
func iter(tx *engine.Tx, rec *engine.Record, beside int) *engine.Iter {
	return tx.Iter(cf.Default, engine.IterOptions{Prefix: tx.SubkeyPrefix(rec), KeysOnly: true,
		Limit: int(min(rec.Size, math.MaxInt32)) + 1, Buffer: engine.MergeBuffer(beside)})
}

// Pop removes n random members and calls f with them. A set that loses its last member stays as a record of size 0,
// which commands do not see, as in Kvrocks.
func Pop(tx *engine.Tx, key []byte, n uint64, f func(member []byte)) error {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists || n == 0 {
		return err
	}
	n = min(n, rec.Size)
	if err := tx.SubkeysFit(&rec, n, 0); err != nil {
		return err
	}
	members, err := tx.PopSample(cf.Default, tx.SubkeyPrefix(&rec), rec.Size, int(n))
	if err != nil {
		return err
	}
	if uint64(len(members)) < n {
		return fmt.Errorf("key %q: %w: %d members, the metadata says %d", key, cf.ErrCorrupt, len(members), rec.Size)
	}
	tx.LogData(cf.LogSet)
	for _, m := range members {
		tx.DeleteSubkey(cf.Default, tx.Subkey(&rec, m))
		f(m)
	}
	rec.Size -= n
	tx.Save(&rec, nil)
	return nil
}

// Random calls f with n random members, until f returns false. A member may occur several times. Random does not read
// the whole set.
func Random(tx *engine.Tx, key []byte, n uint64, f func(member []byte) bool) error {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists {
		return err
	}
	for n > 0 {
		some := min(n, engine.SampleMost)
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

// RandomDistinct calls f with n different random members. A set of at most n members is passed whole, in byte order.
func RandomDistinct(tx *engine.Tx, key []byte, n uint64, f func(member []byte)) error {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists || n == 0 {
		return err
	}
	if n >= rec.Size {
		it := iter(tx, &rec, 1)
		defer it.Close()
		tx.ReadsDone()
		for it.Next() {
			f(it.Key())
		}
		return it.Err()
	}
	members, err := tx.SampleDistinct(cf.Default, tx.SubkeyPrefix(&rec), rec.Size, int(n))
	if err != nil {
		return err
	}
	for _, m := range members {
		f(m)
	}
	return nil
}
