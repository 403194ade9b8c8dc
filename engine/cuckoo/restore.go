package cuckoo

import (
	"bytes"
	"math"
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// ErrShape is the error for a chain of Redis's module that this layout cannot describe.
var ErrShape = engine.NewError("ERR", "the sizes of the cuckoo filter are none that a chain here can have")

// Chain is a whole chain as Redis's module keeps it. Hash, fingerprints and buckets are those of this package.
type Chain struct {
	Items, Deleted uint64
	BucketSize     uint8
	MaxIterations  uint16
	Expansion      uint16   // a power of two, or 0
	Filters        [][]byte // the buckets of each filter, the oldest first
}

// Restore writes a chain to a key that does not exist. A chain whose filters do not grow by its expansion, or whose
// numbers of buckets are no powers of two, gives [ErrShape].
func Restore(tx *engine.Tx, key []byte, v *Chain) error {
	c, err := load(tx, key)
	switch {
	case err != nil:
		return err
	case c.rec.Exists:
		return ErrExists
	case len(v.Filters) == 0 || len(v.Filters) > math.MaxUint16 || v.Expansion&(v.Expansion-1) != 0:
		return ErrShape
	}
	// The record has no number of buckets, but a capacity, from which it follows: the largest one that fits. (The module
	// computes the number in another way.)
	c.meta = cf.CuckooMeta{Filters: uint16(len(v.Filters)), Expansion: v.Expansion,
		BaseCapacity: uint64(len(v.Filters[0])) * 955 / 1000, BucketSize: v.BucketSize, MaxIterations: v.MaxIterations,
		Deleted: v.Deleted, PageSize: PageSize}
	if _, err := cf.DecodeCuckooMeta(c.meta.Append(nil)); err != nil {
		return ErrShape
	}
	c.measure()
	full := int(c.meta.PageBuckets()) * int(v.BucketSize)
	for k, f := range v.Filters {
		if uint64(len(f)) != c.buckets[k]*uint64(v.BucketSize) {
			return ErrShape
		}
		id := pageID{filter: uint16(k)}
		for data := range slices.Chunk(f, full) {
			if len(bytes.Trim(data, "\x00")) > 0 {
				c.pages[id] = &page{data, len(data), true}
			}
			id.page++
		}
	}
	c.rec.Size = v.Items
	c.write("reserve")
	return nil
}
