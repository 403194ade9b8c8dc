// Package bloom is the Bloom filter type on an [engine.Tx]: a chain of split-block Bloom filters, each a record of
// the default family,
//
//	prefix · u16 number of the filter -> its bits
//
// and a metadata record ([cf.BloomMeta]) with the number of added items. Items are hashed by XXH64 with seed 0. A
// filter that holds as many items as it was made for gets a successor that is expansion times as large. The chain
// contains an item if one of its filters does. All filters of a chain have the same error rate, so the error rate of a
// chain is at most the sum of its filters' rates.
//
// A filter is one value, as in Kvrocks. So adding items writes the whole filter, once in a transaction. A look-up needs
// one block of 32 bytes of each filter, and only that is read. An item that the chain already contains causes no write.
//
// Functions that write need the key's lock for writing, the others for reading; [engine.DB.Update] and [engine.DB.View]
// take the locks. A key of another type gives [engine.ErrWrongType].
package bloom

import (
	"fmt"
	"math"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Options are the properties of a new chain.
type Options struct {
	Capacity  uint32  // of the first filter in items, at least 1
	ErrorRate float64 // of each filter, between 0 and 1, exclusive
	Expansion uint16  // size of each filter relative to the previous one; 0 = the chain does not grow
}

// DefaultOptions are the options that BF.ADD uses for a missing chain.
var DefaultOptions = Options{Capacity: 100, ErrorRate: 0.01, Expansion: 2}

// Errors that become replies.
var (
	ErrExists   = engine.NewError("ERR", "item exists")
	ErrNotFound = engine.NewError("ERR", "key is not found")
	ErrTooLong  = engine.NewError("ERR", "the filter cannot grow any more")
)

// Result is the outcome for one item.
type Result uint8

// The results of Add.
const (
	Added   Result = iota
	Present        // the item, or one that looks the same, is already present
	Full           // the chain does not grow and holds as many items as it was made for
)

// Info describes a chain.
type Info struct {
	Capacity  uint64 // total capacity of all filters in items
	Bytes     uint64 // total size of all filters
	Filters   uint16
	Items     uint64 // added items
	Expansion uint16 // 0 = the chain does not grow
}

// chain is the record of a chain, decoded.
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

// corrupt adds the key to an error.
func (c *chain) corrupt(err error) error { return fmt.Errorf("key %q: %w", c.tx.UserKey(&c.rec), err) }

// itemsOf returns the capacity of the i-th filter in items.
func (c *chain) itemsOf(i int) uint32 {
	n := float64(c.meta.BaseCapacity) * math.Pow(float64(c.meta.Expansion), float64(i))
	return uint32(min(n, math.MaxUint32))
}

// lenOf returns the length of the i-th filter in bytes.
func (c *chain) lenOf(i int) int {
	if i == 0 {
		return filterLen(c.meta.BaseCapacity, c.meta.ErrorRate)
	}
	return filterLen(c.itemsOf(i), c.meta.ErrorRate)
}

// capacity returns how many items fit before the chain grows.
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

// create fills in the description of a new chain. It writes nothing.
func (c *chain) create(o *Options) {
	c.meta = cf.BloomMeta{Filters: 1, Expansion: o.Expansion, BaseCapacity: o.Capacity, ErrorRate: o.ErrorRate}
	c.meta.Bytes = uint32(c.lenOf(0))
}

// writeCreated writes an empty chain.
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

// Reserve creates an empty chain. An existing chain gives [ErrExists].
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

// Describe returns the properties of a chain; found is false when it does not exist.
func Describe(tx *engine.Tx, key []byte) (info Info, found bool, err error) {
	c, err := load(tx, key)
	if err != nil || !c.rec.Exists {
		return info, false, err
	}
	m := &c.meta
	return Info{Capacity: c.capacity(), Bytes: uint64(m.Bytes), Filters: m.Filters, Items: c.rec.Size,
		Expansion: m.Expansion}, true, nil
}

// Exists calls f for each item in turn with whether the chain contains it. A missing chain contains nothing.
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
