// Package sortedint is the sortedint type of Kvrocks on an [engine.Tx]: a set of unsigned 64-bit integers in
// ascending order. An id is one record of the default family:
//
//	prefix · u64 id, big-endian -> empty
//
// and the metadata record holds the number of ids. An id costs less than a member of a sorted set, which has two
// records, and paging through the ids needs no rank: see [Page].
//
// Functions that write need the key's lock for writing, the others for reading; [engine.DB.Update] and [engine.DB.View]
// take the locks. A key of another type gives [engine.ErrWrongType].
package sortedint

import (
	"fmt"
	"math"
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

func load(tx *engine.Tx, key []byte) (engine.Record, error) { return tx.Load(key, cf.TypeSortedInt) }

// Card returns the number of ids.
func Card(tx *engine.Tx, key []byte) (uint64, error) {
	rec, err := load(tx, key)
	return rec.Size, err
}

// Contains reports for each id whether the set contains it.
func Contains(tx *engine.Tx, key []byte, ids []uint64) ([]bool, error) {
	has := make([]bool, len(ids))
	rec, err := load(tx, key)
	if err != nil || !rec.Exists {
		return has, err
	}
	values, err := lookUp(tx, &rec, ids)
	if err != nil {
		return nil, err
	}
	for i, v := range values {
		has[i] = v != nil
	}
	return has, nil
}

// lookUp returns the records of ids, nil for missing ids.
func lookUp(tx *engine.Tx, rec *engine.Record, ids []uint64) ([][]byte, error) {
	keys := tx.Keys()
	for _, id := range ids {
		keys.Add(tx.SubkeyU64(rec, id))
	}
	return tx.MultiGet(cf.Default, keys)
}

// Add adds ids and returns how many are new.
func Add(tx *engine.Tx, key []byte, ids []uint64) (added int, err error) {
	rec, err := load(tx, key)
	if err != nil {
		return 0, err
	}
	ids = engine.Distinct(ids)
	var had [][]byte
	if rec.Exists {
		if had, err = lookUp(tx, &rec, ids); err != nil {
			return 0, err
		}
	}
	for i, id := range ids {
		if had != nil && had[i] != nil {
			continue
		}
		if added == 0 {
			tx.LogData(cf.LogSortedInt)
		}
		tx.Put(cf.Default, tx.SubkeyU64(&rec, id), nil)
		added++
	}
	if added > 0 {
		rec.Size += uint64(added)
		tx.Save(&rec, nil)
	}
	return added, nil
}

// Remove removes ids and returns how many the set contained. A set that loses its last id stays as a record of size 0,
// which commands do not see, as in Kvrocks.
func Remove(tx *engine.Tx, key []byte, ids []uint64) (removed int, err error) {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists {
		return 0, err
	}
	ids = engine.Distinct(ids)
	had, err := lookUp(tx, &rec, ids)
	if err != nil {
		return 0, err
	}
	for i, id := range ids {
		if had[i] == nil {
			continue
		}
		if removed == 0 {
			tx.LogData(cf.LogSortedInt)
		}
		tx.Delete(cf.Default, tx.SubkeyU64(&rec, id))
		removed++
	}
	if removed > 0 {
		rec.Size -= min(rec.Size, uint64(removed))
		tx.Save(&rec, nil)
	}
	return removed, nil
}

// Page selects a range of ids.
type Page struct {
	Min, Max uint64 // both included
	Offset   uint64 // ids to skip
	Limit    uint64 // max number of ids; 0 = all
	Reverse  bool   // from Max down to Min
}

// All is the page of all ids.
var All = Page{Max: math.MaxUint64}

// Above restricts the page to ids greater than id. The result is empty for the greatest id.
func (p Page) Above(id uint64) Page {
	if id == math.MaxUint64 {
		return Page{Min: 1}
	}
	p.Min = max(p.Min, id+1)
	return p
}

// Below restricts the page to ids less than id. The result is empty for 0.
func (p Page) Below(id uint64) Page {
	if id == 0 {
		return Page{Min: 1}
	}
	p.Max = min(p.Max, id-1)
	return p
}

// Each calls f with the ids of a page, in the page's order.
func Each(tx *engine.Tx, key []byte, p Page, f func(id uint64)) error {
	rec, err := load(tx, key)
	if err != nil || !rec.Exists || p.Min > p.Max {
		return err
	}
	prefix := tx.SubkeyPrefix(&rec)
	o := engine.IterOptions{Prefix: prefix, Reverse: p.Reverse, KeysOnly: true, Skip: p.Offset,
		Limit: int(min(p.Limit, math.MaxInt32))}
	if p.Min > 0 {
		o.Lower = slices.Clone(tx.SubkeyU64(&rec, p.Min))
	}
	if p.Max < math.MaxUint64 {
		o.Upper = slices.Clone(tx.SubkeyU64(&rec, p.Max+1))
	}
	it := tx.Iter(cf.Default, o)
	defer it.Close()
	tx.ReadsDone()
	for n := uint64(0); (p.Limit == 0 || n < p.Limit) && it.Next(); n++ {
		id, err := cf.ParseU64Sub(it.Key())
		if err != nil {
			return fmt.Errorf("key %q: %w", key, err)
		}
		f(id)
	}
	return it.Err()
}
