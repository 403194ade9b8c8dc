package bloom

import (
	"fmt"
	"math"
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// maxBytes limits the total size of the filters of a chain: the metadata record has 32 bits for it.
const maxBytes = math.MaxUint32

// plan collects an addition before anything is written. It holds the changed blocks of the filters that take items: the
// newest filter and the filters that the chain grows by.
type plan struct {
	chain
	size   uint64 // items including the planned ones
	first  int    // index of the filter that was the newest
	grown  []growth
	lens   []int // lengths of the filters from first on, in bytes
	blocks []change
	at     map[uint64]int // filter and block -> index in blocks; used when several items are added
	many   bool
}

// change is one changed block.
type change struct {
	filter int
	at     uint32 // offset of the block in bytes
	block  [blockLen]byte
}

// growth is a copy of the metadata counters when the chain grew.
type growth struct {
	meta cf.BloomMeta
	size uint64
}

// Add adds items and calls f with the result for each in turn. A missing chain is created with the options in create;
// if create is nil, it gives [ErrNotFound].
func Add(tx *engine.Tx, key []byte, items [][]byte, create *Options, f func(r Result)) error {
	c, err := load(tx, key)
	if err != nil {
		return err
	}
	p := plan{chain: c, many: len(items) > 1}
	var buf [2]lookup
	l := lookups(buf[:0], items)
	created := !c.rec.Exists
	if created {
		if create == nil {
			return ErrNotFound
		}
		p.create(create)
		p.lens = append(p.lens, p.lenOf(0))
	} else {
		newest, err := p.find(l)
		if err != nil {
			return err
		}
		p.first = int(p.meta.Filters) - 1
		p.lens = append(p.lens, newest)
		p.size = p.rec.Size
	}
	results := make([]Result, 0, 16)
	for i := range l {
		r, err := p.add(&l[i])
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	if created {
		p.writeCreated()
	}
	if err := p.write(); err != nil {
		return err
	}
	for _, r := range results {
		f(r)
	}
	return nil
}

// add plans one item.
func (p *plan) add(l *lookup) (Result, error) {
	if l.found || p.planned(l.hash) {
		return Present, nil
	}
	if p.size+1 > p.capacity() {
		if p.meta.Expansion == 0 {
			return Full, nil
		}
		if err := p.grow(); err != nil {
			return 0, err
		}
	}
	newest := len(p.lens) - 1
	at := blockAt(l.hash, p.lens[newest])
	i := p.changed(newest, at)
	if i < 0 {
		ch := change{filter: p.first + newest, at: at}
		if newest == 0 { // only the first filter may be an existing, empty one; later ones are planned, new and empty
			ch.block = l.block
		}
		i = len(p.blocks)
		p.blocks = append(p.blocks, ch)
		if p.many {
			if p.at == nil {
				p.at = map[uint64]int{}
			}
			p.at[uint64(newest)<<32|uint64(at)] = i
		}
	}
	set(p.blocks[i].block[:], l.hash)
	p.size++
	return Added, nil
}

// planned reports whether the items planned so far already make the chain contain an item.
func (p *plan) planned(h uint64) bool {
	for i := len(p.lens) - 1; i >= 0 && len(p.blocks) > 0; i-- {
		if j := p.changed(i, blockAt(h, p.lens[i])); j >= 0 && has(p.blocks[j].block[:], h) {
			return true
		}
	}
	return false
}

// changed returns the index of a changed block, -1 if the block is unchanged. filter counts from p.first.
func (p *plan) changed(filter int, at uint32) int {
	if i, ok := p.at[uint64(filter)<<32|uint64(at)]; ok {
		return i
	}
	return -1
}

// grow plans a new filter.
func (p *plan) grow() error {
	n := p.lenOf(int(p.meta.Filters))
	if p.meta.Filters == math.MaxUint16 || uint64(p.meta.Bytes)+uint64(n) > maxBytes {
		return ErrTooLong
	}
	p.meta.Filters++
	p.meta.Bytes += uint32(n)
	p.lens = append(p.lens, n)
	p.grown = append(p.grown, growth{p.meta, p.size})
	return nil
}

// write writes the plan in Kvrocks's order: for each filled filter the filter and then the metadata with its successor,
// and at the end the metadata and the newest filter.
func (p *plan) write() error {
	if len(p.blocks) == 0 {
		return nil
	}
	p.tx.LogData(cf.LogBloomInsert)
	final := p.meta
	blocks := p.blocks
	for i, g := range p.grown {
		var err error
		if blocks, err = p.writeFilter(i, blocks); err != nil {
			return err
		}
		p.meta, p.rec.Size = g.meta, g.size
		var buf [32]byte
		p.tx.SaveAppend(&p.rec, p.tail(buf[:]))
	}
	p.meta, p.rec.Size = final, p.size
	p.save()
	_, err := p.writeFilter(len(p.lens)-1, blocks)
	return err
}

// writeFilter writes the changed blocks of a filter, counted from p.first. They come first in blocks; it returns the
// remaining blocks. A filter that this transaction has written already is changed in place in the batch.
func (p *plan) writeFilter(filter int, blocks []change) ([]change, error) {
	number := p.first + filter
	n := slices.IndexFunc(blocks, func(c change) bool { return c.filter != number })
	if n < 0 {
		n = len(blocks)
	}
	if n == 0 {
		return blocks, nil
	}
	key := p.key(number)
	ours := blocks[:n]
	if !p.tx.Patch(cf.Default, key, int(ours[0].at), ours[0].block[:]) {
		whole := make([]byte, p.lens[filter])
		if filter == 0 {
			// One slice, the whole value: Get would read it twice, the first time into a buffer that is too small.
			n, found, err := p.tx.GetSlices(cf.Default, key, []uint32{0}, whole)
			if err != nil {
				return nil, err
			}
			if !found || n != len(whole) {
				return nil, p.corrupt(fmt.Errorf("%w: filter %d is missing", cf.ErrCorrupt, number))
			}
		}
		p.tx.Put(cf.Default, key, whole)
		p.tx.Patch(cf.Default, key, int(ours[0].at), ours[0].block[:])
	}
	for i := range ours[1:] {
		p.tx.Patch(cf.Default, key, int(ours[i+1].at), ours[i+1].block[:])
	}
	return blocks[n:], nil
}
