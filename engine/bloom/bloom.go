// Package bloom is the Bloom filter type on an [engine.Tx]: a chain of split-block Bloom filters, each a record of
// the default family,
//
//	prefix · u16 number of the filter -> its bits
//
// and a metadata record ([cf.BloomMeta]) with the number of items that were added. Items are hashed by XXH64 with
// seed 0. A filter that has taken the items it was made for gets a successor, which is expansion times as large;
// an item is in the chain if one of its filters has it. All filters of a chain have the same error rate, so a chain
// of several errs up to as many times more often than one.
//
// A filter is one value, as in Kvrocks, so adding an item writes the whole filter, once in a transaction however
// many items it adds. What is asked of a filter is one block of 32 bytes, and no more of it is read, nor is
// anything written for an item that the chain already has.
//
// Functions that write need the key's lock for writing, the others for reading; [engine.DB.Update] and
// [engine.DB.View] take them. A key of another type is [engine.ErrWrongType].
package bloom

import (
	"fmt"
	"math"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Options are the properties of a chain that does not exist yet.
type Options struct {
	Capacity  uint32  // items that the first filter is made for, at least 1
	ErrorRate float64 // of each filter, between 0 and 1, exclusive
	Expansion uint16  // by which each filter is larger than the one before; 0: the chain does not grow
}

// DefaultOptions are those of a chain that Add creates by default.
var DefaultOptions = Options{Capacity: 100, ErrorRate: 0.01, Expansion: 2}

// Errors that are replies.
var (
	ErrExists   = engine.NewError("ERR", "item exists")
	ErrNotFound = engine.NewError("ERR", "key is not found")
	ErrTooLong  = engine.NewError("ERR", "the filter cannot grow any more")
)

// Result is what became of an item.
type Result uint8

// The results of Add.
const (
	Added   Result = iota
	Present        // it, or what looks like it, is there already
	Full           // the chain does not grow and has taken the items it was made for
)

// Info describes a chain.
type Info struct {
	Capacity  uint64 // items that all filters together are made for
	Bytes     uint64 // of all filters
	Filters   uint16
	Items     uint64 // that were added
	Expansion uint16 // 0: it does not grow
}

// chain is a chain of filters with its record.
type chain struct {
	tx   *engine.Tx
	rec  engine.Record
	meta cf.BloomMeta
}

func load(tx *engine.Tx, key []byte) (chain, error) {
	c := chain{tx: tx}
	var err error
	if c.rec, err = tx.Load(key, cf.TypeBloom); err != nil || !c.rec.Exists {
		return c, err
	}
	if c.meta, err = cf.DecodeBloomMeta(c.rec.Tail); err != nil {
		return c, c.corrupt(err)
	}
	m := &c.meta
	if m.Filters == 0 || m.BaseCapacity == 0 || !(m.ErrorRate > 0 && m.ErrorRate < 1) {
		return c, c.corrupt(fmt.Errorf("%w: bloom metadata with %d filters, capacity %d, error rate %v",
			cf.ErrCorrupt, m.Filters, m.BaseCapacity, m.ErrorRate))
	}
	return c, nil
}

// corrupt names the key that an error is about.
func (c *chain) corrupt(err error) error { return fmt.Errorf("key %q: %w", c.tx.UserKey(&c.rec), err) }

// itemsOf returns how many items the i-th filter is made for.
func (c *chain) itemsOf(i int) uint32 {
	n := float64(c.meta.BaseCapacity) * math.Pow(float64(c.meta.Expansion), float64(i))
	return uint32(min(n, math.MaxUint32))
}

// lenOf returns how many bytes the i-th filter has.
func (c *chain) lenOf(i int) int {
	if i == 0 {
		return filterLen(c.meta.BaseCapacity, c.meta.ErrorRate)
	}
	return filterLen(c.itemsOf(i), c.meta.ErrorRate)
}

// capacity returns how many items the chain takes before it grows.
func (c *chain) capacity() uint64 {
	m := &c.meta
	switch m.Expansion {
	case 0:
		return uint64(m.BaseCapacity)
	case 1:
		return uint64(m.BaseCapacity) * uint64(m.Filters)
	}
	e := float64(m.Expansion)
	return uint64(min(float64(m.BaseCapacity)*(1-math.Pow(e, float64(m.Filters)))/(1-e), 1<<62))
}

// key returns the key of the i-th filter, valid until the next call of a method that builds one.
func (c *chain) key(i int) []byte {
	var sub [2]byte
	return c.tx.Subkey(&c.rec, cf.AppendBloomSub(sub[:0], uint16(i)))
}

// create makes the chain's description for the options. Nothing is written yet.
func (c *chain) create(o *Options) {
	c.meta = cf.BloomMeta{Filters: 1, Expansion: o.Expansion, BaseCapacity: o.Capacity, ErrorRate: o.ErrorRate}
	c.meta.Bytes = uint32(c.lenOf(0))
}

// writeCreated writes a chain without items.
func (c *chain) writeCreated() {
	c.tx.LogData(cf.LogBloomCreate)
	c.rec.Size = 0
	c.save()
	c.tx.Put(cf.Default, c.key(0), make([]byte, c.lenOf(0)))
}

func (c *chain) tail(buf []byte) []byte { return c.meta.Append(buf[:0]) }

func (c *chain) save() {
	var buf [32]byte
	c.tx.Save(&c.rec, c.tail(buf[:]))
}

// Reserve makes a chain without items. One that exists is [ErrExists].
func Reserve(tx *engine.Tx, key []byte, o Options) error {
	c, err := load(tx, key)
	if err != nil {
		return err
	}
	if c.rec.Exists {
		return ErrExists
	}
	c.create(&o)
	c.writeCreated()
	return nil
}

// Describe returns the properties of a chain; found is false when there is none.
func Describe(tx *engine.Tx, key []byte) (info Info, found bool, err error) {
	c, err := load(tx, key)
	if err != nil || !c.rec.Exists {
		return info, false, err
	}
	m := &c.meta
	return Info{Capacity: c.capacity(), Bytes: uint64(m.Bytes), Filters: m.Filters, Items: c.rec.Size,
		Expansion: m.Expansion}, true, nil
}

// Exists calls f for each item in turn with whether the chain has it; a chain that does not exist has none.
func Exists(tx *engine.Tx, key []byte, items [][]byte, f func(has bool)) error {
	c, err := load(tx, key)
	if err != nil {
		return err
	}
	if !c.rec.Exists {
		for range items {
			f(false)
		}
		return nil
	}
	var buf [4]lookup
	l := lookups(buf[:0], items)
	if _, err := c.find(l); err != nil {
		return err
	}
	for i := range l {
		f(l[i].found)
	}
	return nil
}
