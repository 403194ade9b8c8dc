package cuckoo

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/basaltdb/basalt/cf"
)

// pageID names a page of a chain.
type pageID struct {
	filter uint16
	page   uint32
}

// page is a page that was read.
type page struct {
	data    []byte // nil = no record: all is free
	size    int
	changed bool // data is a copy
}

// bucket is a bucket of a page that was read.
type bucket struct {
	*page
	at, n int
}

// slots returns the fingerprints; nil = all are free.
func (b bucket) slots() []byte {
	if b.data == nil {
		return nil
	}
	return b.data[b.at : b.at+b.n]
}

// index returns the position of a fingerprint, -1 if there is none.
func (b bucket) index(fp byte) int { return bytes.IndexByte(b.slots(), fp) }

func (b bucket) count(fp byte) uint64 { return uint64(bytes.Count(b.slots(), []byte{fp})) }

// free returns the first free position, -1 if the bucket is full.
func (b bucket) free() int {
	if b.data == nil {
		return 0
	}
	return b.index(0)
}

// set changes a fingerprint.
func (b bucket) set(i int, fp byte) {
	if !b.changed {
		data := make([]byte, b.size)
		copy(data, b.data)
		b.data, b.changed = data, true
	}
	b.data[b.at+i] = fp
}

func (c *chain) idOf(filter int, number uint64) pageID {
	return pageID{uint16(filter), uint32(number / c.meta.PageBuckets())}
}

// read reads the pages that were not read yet.
func (c *chain) read(ids []pageID) error {
	keys := c.tx.Keys()
	missing := ids[:0]
	for _, id := range ids {
		if c.pages[id] == nil {
			c.pages[id] = &page{size: c.meta.PageLen(c.buckets[id.filter], id.page)}
			keys.Add(c.subkey(id))
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	values, err := c.tx.MultiGet(cf.Default, keys)
	if err != nil {
		return err
	}
	for i, v := range values {
		p := c.pages[missing[i]]
		if v != nil && len(v) != p.size {
			return c.corrupt(fmt.Errorf("%w: page %d of filter %d of %d bytes instead of %d", cf.ErrCorrupt,
				missing[i].page, missing[i].filter, len(v), p.size))
		}
		p.data = v
	}
	return nil
}

// subkey returns the key of a page, valid until the next call of a method that builds one.
func (c *chain) subkey(id pageID) []byte {
	var sub [6]byte
	return c.tx.Subkey(&c.rec, cf.AppendCuckooSub(sub[:0], id.filter, id.page))
}

func (c *chain) bucket(filter int, number uint64) (bucket, error) {
	id := c.idOf(filter, number)
	if c.pages[id] == nil {
		if err := c.read([]pageID{id}); err != nil {
			return bucket{}, err
		}
	}
	n := int(c.meta.BucketSize)
	return bucket{c.pages[id], int(number%c.meta.PageBuckets()) * n, n}, nil
}

// scanBatch is how many filters are read in one batch, after the newest.
const scanBatch = 32

// scan calls f with the two buckets of an item in each filter, from the newest, until f returns true.
func (c *chain) scan(p placed, f func(b bucket) bool) error {
	batch := 1
	for newest := len(c.buckets) - 1; newest >= 0; newest -= batch {
		if newest < len(c.buckets)-1 {
			batch = scanBatch
		}
		oldest := max(newest-batch+1, 0)
		var buf [2 * scanBatch]pageID
		ids := buf[:0]
		for k := newest; k >= oldest; k-- {
			n := c.buckets[k]
			ids = append(ids, c.idOf(k, p.hash%n), c.idOf(k, other(p.hash, p.fp)%n))
		}
		if err := c.read(ids); err != nil {
			return err
		}
		for k := newest; k >= oldest; k-- {
			first, second := p.hash%c.buckets[k], other(p.hash, p.fp)%c.buckets[k]
			b, err := c.bucket(k, first)
			if err != nil || f(b) {
				return err
			}
			if second == first {
				continue
			}
			if b, err = c.bucket(k, second); err != nil || f(b) {
				return err
			}
		}
	}
	return nil
}

// forgetMin is from how many pages on the unchanged ones are dropped after an item: an item has two in each filter.
const forgetMin = 1024

// forgetUnchanged bounds the memory of a command with many items.
func (c *chain) forgetUnchanged() {
	if len(c.pages) > forgetMin {
		maps.DeleteFunc(c.pages, func(_ pageID, p *page) bool { return !p.changed })
	}
}

// writePages writes the changed pages in their order.
func (c *chain) writePages() {
	var ids []pageID
	for id, p := range c.pages {
		if p.changed {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b pageID) int {
		return cmp.Or(cmp.Compare(a.filter, b.filter), cmp.Compare(a.page, b.page))
	})
	for _, id := range ids {
		c.tx.Replace(cf.Default, c.subkey(id), c.pages[id].data)
	}
}
