// Package cuckoo is the cuckoo filter type on an [engine.Tx]: a chain of filters in Kvrocks's layout. A filter is a
// power of two of buckets, a bucket has some fingerprints of one byte, and pages of buckets are records of the default
// family,
//
//	prefix · u16 filter · u32 page -> fingerprints
//
// with a metadata record ([cf.CuckooMeta]) that has the number of items. An item has two buckets in each filter:
//
//	hash = MurmurHash64A with seed 0     fingerprint = hash mod 255 + 1
//	first bucket = hash mod buckets      second bucket = (hash xor fingerprint·0x5bd1e995) mod buckets
//
// Either bucket and the fingerprint give the other bucket. So a fingerprint may be moved without knowledge of its item:
// an item whose buckets are full in all filters takes the place of a fingerprint of the newest filter, which takes one
// in its other bucket, and so on. After max iterations the chain grows instead, and nothing is moved.
//
// An item that was added n times is there n times. Deleting an item that was not added may delete another one that
// looks the same.
//
// Functions that write need the key's lock for writing, the others for reading; [engine.DB.Update] and [engine.DB.View]
// take the locks. A key of another type gives [engine.ErrWrongType]. A function that fails writes nothing.
package cuckoo

import (
	"fmt"
	"math"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/internal/murmur"
)

// Options are the properties of a new chain.
type Options struct {
	Capacity      uint64 // of the first filter in items, at least 2
	BucketSize    uint8  // fingerprints in a bucket, at least 1
	MaxIterations uint16 // how many fingerprints an addition may move, at least 1
	Expansion     uint16 // size of each filter relative to the previous one, at most MaxExpansion; 0 = no growth
}

// DefaultOptions are the options that CF.ADD uses for a missing chain.
var DefaultOptions = Options{Capacity: 1024, BucketSize: 2, MaxIterations: 20, Expansion: 1}

// MaxExpansion is the largest expansion.
const MaxExpansion = 1 << 15

// PageSize is the max size in bytes of the pages of new chains, as in Kvrocks.
const PageSize = 2048

// Errors that become replies: those of Kvrocks, and of Redis's module where Kvrocks has none.
var (
	ErrExists   = engine.NewError("ERR", "Invalid argument: the key already exists")
	ErrCapacity = engine.NewError("ERR", "Invalid argument: capacity must be at least 2")
	ErrTooLarge = engine.NewError("ERR", "Invalid argument: capacity is too large")
	ErrNotFound = engine.NewError("ERR", "not found")
)

// Result is the outcome for one item.
type Result uint8

// The results of Add.
const (
	Added   Result = iota
	Present        // the item, or one that looks the same, is already present
	Full           // there is no room, and the chain does not grow any more
)

// Info describes a chain.
type Info struct {
	cf.CuckooMeta
	Bytes   uint64 // of all filters, with the pages that were not written yet
	Buckets uint64 // of the first filter
	Items   uint64
}

// chain is the record of a chain, decoded, and the pages that a function has read or changed.
type chain struct {
	tx      *engine.Tx
	key     []byte
	rec     engine.Record
	meta    cf.CuckooMeta
	buckets []uint64 // of each filter
	pages   map[pageID]*page
}

func load(tx *engine.Tx, key []byte) (*chain, error) {
	c := &chain{tx: tx, key: key, pages: map[pageID]*page{}}
	var err error
	if c.rec, err = tx.Load(key, cf.TypeCuckooFilter); err != nil || !c.rec.Exists {
		return c, err
	}
	if c.meta, err = cf.DecodeCuckooMeta(c.rec.Tail); err != nil {
		return c, c.corrupt(err)
	}
	c.measure()
	return c, nil
}

// measure computes the sizes of the filters.
func (c *chain) measure() {
	for i := len(c.buckets); i < int(c.meta.Filters); i++ {
		c.buckets = append(c.buckets, c.meta.FilterBuckets(i))
	}
}

// corrupt adds the key to an error.
func (c *chain) corrupt(err error) error { return fmt.Errorf("key %q: %w", c.tx.UserKey(&c.rec), err) }

// check refuses a capacity that no filter has.
func (o *Options) check() error {
	if o.Capacity < 2 {
		return ErrCapacity
	}
	if cf.CuckooBuckets(o.Capacity, o.BucketSize) == 0 {
		return ErrTooLarge
	}
	return nil
}

// create makes the description of a new chain. It writes nothing.
func (c *chain) create(o *Options) error {
	if err := o.check(); err != nil {
		return err
	}
	expansion := uint16(0)
	for o.Expansion > expansion {
		expansion = max(1, expansion<<1)
	}
	c.rec.Size = 0
	c.meta = cf.CuckooMeta{Filters: 1, Expansion: expansion, BaseCapacity: o.Capacity, BucketSize: o.BucketSize,
		MaxIterations: o.MaxIterations, PageSize: PageSize}
	c.measure()
	return nil
}

// write writes the changed pages and the metadata record, in Kvrocks's order. op is for the log.
func (c *chain) write(op string) {
	c.tx.LogData(cf.AppendLogCuckoo(nil, op, c.key))
	c.writePages()
	c.tx.Save(&c.rec, c.meta.Append(nil))
}

// Reserve creates an empty chain. A wrong capacity is refused before an existing chain, which gives [ErrExists].
func Reserve(tx *engine.Tx, key []byte, o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	c, err := load(tx, key)
	if err != nil {
		return err
	}
	if c.rec.Exists {
		return ErrExists
	}
	if err := c.create(&o); err != nil {
		return err
	}
	c.write("reserve")
	return nil
}

// Add adds items and calls f with the result for each in turn. With unique, items that are present are not added. A
// missing chain is created with the options in create; if create is nil, it gives [ErrNotFound].
func Add(tx *engine.Tx, key []byte, items [][]byte, unique bool, create *Options, f func(r Result)) error {
	c, err := load(tx, key)
	if err != nil {
		return err
	}
	if !c.rec.Exists {
		if create == nil {
			return ErrNotFound
		}
		if err := c.create(create); err != nil {
			return err
		}
	}
	before := c.rec.Size
	results := make([]Result, 0, 16)
	for _, item := range items {
		r, err := c.add(place(item), unique)
		if err != nil {
			return err
		}
		results = append(results, r)
		c.forgetUnchanged()
	}
	if c.rec.Size != before {
		c.write("add")
	}
	for _, r := range results {
		f(r)
	}
	return nil
}

// Exists calls f for each item in turn with whether the chain contains it. A missing chain contains nothing.
func Exists(tx *engine.Tx, key []byte, items [][]byte, f func(has bool)) error {
	return counts(tx, key, items, 1, func(n uint64) { f(n > 0) })
}

// Count returns how often a chain contains an item, or items that look the same. A missing chain contains nothing.
func Count(tx *engine.Tx, key, item []byte) (n uint64, err error) {
	err = counts(tx, key, [][]byte{item}, math.MaxUint64, func(m uint64) { n = m })
	return n, err
}

// counts calls f for each item with how often the chain contains it. It stops to count an item at most.
func counts(tx *engine.Tx, key []byte, items [][]byte, most uint64, f func(n uint64)) error {
	c, err := load(tx, key)
	if err != nil {
		return err
	}
	for _, item := range items {
		p, n := place(item), uint64(0)
		if c.rec.Exists {
			err := c.scan(p, func(b bucket) bool {
				n += b.count(p.fp)
				return n >= most
			})
			if err != nil {
				return err
			}
			c.forgetUnchanged()
		}
		f(n)
	}
	return nil
}

// Delete deletes an item once, and reports whether it was there. A missing chain gives [ErrNotFound].
func Delete(tx *engine.Tx, key, item []byte) (deleted bool, err error) {
	c, err := load(tx, key)
	if err != nil {
		return false, err
	}
	if !c.rec.Exists {
		return false, ErrNotFound
	}
	p := place(item)
	err = c.scan(p, func(b bucket) bool {
		if i := b.index(p.fp); i >= 0 {
			b.set(i, 0)
			deleted = true
		}
		return deleted
	})
	if err != nil || !deleted {
		return false, err
	}
	c.rec.Size = max(c.rec.Size, 1) - 1 // a record of a wrong size is not made worse
	c.meta.Deleted++
	c.write("del")
	return true, nil
}

// Describe returns the properties of a chain. A missing chain gives [ErrNotFound].
func Describe(tx *engine.Tx, key []byte) (info Info, err error) {
	c, err := load(tx, key)
	if err != nil {
		return info, err
	}
	if !c.rec.Exists {
		return info, ErrNotFound
	}
	info = Info{CuckooMeta: c.meta, Buckets: c.buckets[0], Items: c.rec.Size}
	for _, n := range c.buckets {
		info.Bytes += n * uint64(c.meta.BucketSize)
	}
	return info, nil
}

// placed is an item as filters see it.
type placed struct {
	hash uint64
	fp   byte
}

func place(item []byte) placed {
	h := murmur.Sum64(item, 0)
	return placed{h, byte(h%255 + 1)}
}

// other returns the hash that selects the other bucket, from the hash or the number of one bucket.
func other(hash uint64, fp byte) uint64 { return hash ^ uint64(fp)*0x5bd1e995 }
