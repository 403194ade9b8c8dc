package engine

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/basaltdb/basalt/cf"
)

// sortRecords holds records of a family in memory and sorts them. A record is
//
//	u32 length of the key · u32 length of the value · key · value
//
// with the lengths in the host's byte order, for engine/rocks.
//
// The records of a collection, which must come one after the other, are sorted among themselves, and collections are
// sorted by their first records: a quarter of the comparisons for collections of four elements, and the elements are
// copied from one place.
type sortRecords struct {
	arena  []byte
	at     []uint64 // offsets of the records in the arena, as they came
	groups []uint32 // where in at the records of another collection begin
	order  []uint64 // what sorted returned last
	prefix int      // how many bytes all keys of the last record's collection begin with; 0 = it is of none
	common int      // how many bytes all keys begin with
	first  []byte   // a key
}

const recordHead = 8

// collectionPrefix returns how many bytes the keys of a record's collection begin with, which no other key begins with;
// 0 = the record stands alone.
func collectionPrefix(id cf.ID, key []byte, slots bool) int {
	switch id {
	case cf.Default, cf.ZSetScore, cf.Stream:
		if s, err := cf.ParseSubkey(key, slots); err == nil {
			return len(key) - len(s.Sub)
		}
	}
	return 0
}

// put adds a record, of the collection whose keys begin with prefix bytes of the key, and returns the memory that it
// takes, about.
func (f *sortRecords) put(key, value []byte, prefix int) int {
	if n := len(f.at); prefix == 0 || prefix != f.prefix ||
		string(recordKey(f.arena, f.at[n-1])[:prefix]) != string(key[:prefix]) {
		f.groups = append(f.groups, uint32(n))
		f.prefix = prefix
	}
	at := len(f.arena)
	if need := at + recordHead + len(key) + len(value); need > cap(f.arena) {
		// append would grow the arena by a quarter, and copy all of it each time
		f.arena = append(make([]byte, 0, max(2*cap(f.arena), need, 64<<10)), f.arena...)
	}
	f.at = append(f.at, uint64(at))
	f.arena = appendRecord(f.arena, key, value)
	if f.first == nil {
		f.first = bytes.Clone(key)
		f.common = len(key)
	} else if f.common > len(key) || string(key[:f.common]) != string(f.first[:f.common]) {
		n := 0
		for n < len(key) && n < f.common && key[n] == f.first[n] {
			n++
		}
		f.common = n
	}
	return len(f.arena) - at + 16
}

// reset forgets the records and keeps the memory.
func (f *sortRecords) reset() {
	*f = sortRecords{arena: f.arena[:0], at: f.at[:0], groups: f.groups[:0], order: f.order[:0]}
}

func appendRecord(arena, key, value []byte) []byte {
	arena = binary.NativeEndian.AppendUint32(arena, uint32(len(key)))
	arena = binary.NativeEndian.AppendUint32(arena, uint32(len(value)))
	return append(append(arena, key...), value...)
}

// recordKey returns the key of the record at an offset of an arena.
func recordKey(arena []byte, at uint64) []byte {
	n := uint64(binary.NativeEndian.Uint32(arena[at:]))
	return arena[at+recordHead : at+recordHead+n]
}

func recordLen(arena []byte, at uint64) uint64 {
	return recordHead + uint64(binary.NativeEndian.Uint32(arena[at:])) + uint64(binary.NativeEndian.Uint32(arena[at+4:]))
}

// sorted returns the offsets in the order of the keys. Sorting compares the eight bytes behind the common prefix of all
// keys, and the whole keys only if these bytes are equal.
func (f *sortRecords) sorted() []uint64 {
	type group struct {
		head    uint64
		from, n uint32 // in at
	}
	byKey := func(x, y uint64) int { return bytes.Compare(recordKey(f.arena, x), recordKey(f.arena, y)) }
	groups := make([]group, len(f.groups))
	for i, from := range f.groups {
		to := uint32(len(f.at))
		if i+1 < len(f.groups) {
			to = f.groups[i+1]
		}
		if elements := f.at[from:to]; len(elements) > 1 {
			slices.SortFunc(elements, byKey)
		}
		groups[i] = group{keyHead(recordKey(f.arena, f.at[from])[f.common:]), from, to - from}
	}
	slices.SortFunc(groups, func(x, y group) int {
		if c := cmp.Compare(x.head, y.head); c != 0 {
			return c
		}
		return byKey(f.at[x.from], f.at[y.from])
	})
	f.order = slices.Grow(f.order[:0], len(f.at))
	for _, g := range groups {
		f.order = append(f.order, f.at[g.from:g.from+g.n]...)
	}
	return f.order
}

// keyHead returns the first eight bytes of a key as a number of the same order.
func keyHead(k []byte) (head uint64) {
	if len(k) >= 8 {
		return binary.BigEndian.Uint64(k)
	}
	for i, c := range k {
		head |= uint64(c) << (56 - 8*i)
	}
	return head
}
