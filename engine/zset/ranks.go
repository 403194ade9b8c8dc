package zset

import (
	"bytes"
	"math"
	"slices"
	"sort"
	"sync"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/derived"
)

// rankKind is the state of sorted sets whose ranks are asked for: how many members lie between certain places of the
// score order. RocksDB can only count by reading the entries. Of a small set the state has all entries, see subkeys:
// then neither ranks nor ranges read RocksDB. In a large set, a rank, the member at a deep rank, or the size of a wide
// score range needs a scan of one block of entries.
//
// Every transaction that adds or removes a member changes the counts at once; it holds the key's lock for writing. So a
// reader, which holds the lock for reading, finds counts of what is committed, and a transaction finds counts that
// include its own writes. As a last check, the counts must add up to the size in the metadata record.
var rankKind = derived.Kind[*ranks]{ID: derived.Ranks}

const (
	rankSingle = 1024 // of sets up to this size all entries are kept, ...
	rankWhole  = 2048 // ... until they have grown to this size; larger sets get ...
	rankBlock  = 32   // ... blocks of at least this many entries, and ...
	rankBlocks = 4096 // ... at most this many blocks when the counts are made
	// An operation that would pass over this many entries uses the counts if they exist, ...
	rankNearSteps = 100
	// ... and one that would pass over this many has them made.
	rankFarSteps = 512
	rankMaxBytes = 1 << 20 // max bytes of the firsts or the entries of a set
	rankMaxLog   = 1 << 14 // max writes while the entries are counted
	rankPerBlock = 24      // approximate bytes of a block
	rankPerEntry = 40      // approximate bytes of an entry that is kept
)

type rankState uint8

const (
	rankCounting rankState = iota // a goroutine is counting: writes are logged
	rankReady
	rankDropped
)

// ranks holds the counts of one set.
type ranks struct {
	derived.Entry
	mu      sync.Mutex
	state   rankState
	maxSize uint32 // max entries of a block; a larger block is split
	total   uint64
	whole   bool    // subs are kept instead of blocks
	subs    subkeys // of a small set
	blocks  blocks
	upTo    []uint32 // upTo[i] is the number of entries before block i; recomputed by sums
	stale   bool     // upTo is out of date
	logged  []change // the writes during the counting
}

// blocks is a sequence of runs of entries in the order of the zset_score family. Block i holds the entries in
// [first(i), first(i+1)); first(0) is empty. A first is the shortest key that separates its block from the entry
// before.
type blocks struct {
	firsts []byte   // the firsts, concatenated
	ends   []uint32 // the end of each first in firsts
	count  []uint32
}

// change is a zset_score entry that was added (1) or removed (-1).
type change struct {
	sub []byte
	n   int
}

func (b *blocks) first(i int) []byte {
	at := uint32(0)
	if i > 0 {
		at = b.ends[i-1]
	}
	return b.firsts[at:b.ends[i]]
}

func (b *blocks) add(first []byte, n uint32) {
	b.firsts = append(b.firsts, first...)
	b.ends = append(b.ends, uint32(len(b.firsts)))
	b.count = append(b.count, n)
}

// of returns the index of the block of an entry.
func (b *blocks) of(sub []byte) int {
	return sort.Search(len(b.count)-1, func(i int) bool { return bytes.Compare(b.first(i+1), sub) > 0 })
}

// replace puts the blocks of with (maybe none) in the place of block i. The first of the first block is empty
// afterwards.
func (b *blocks) replace(i int, with *blocks) {
	from, to := b.ends[i]-uint32(len(b.first(i))), b.ends[i]
	b.firsts = slices.Replace(b.firsts, int(from), int(to), with.firsts...)
	b.ends = slices.Replace(b.ends, i, i+1, with.ends...)
	b.count = slices.Replace(b.count, i, i+1, with.count...)
	for j := range with.ends {
		b.ends[i+j] += from
	}
	grown := uint32(len(with.firsts)) - (to - from)
	for j := i + len(with.ends); j < len(b.ends); j++ {
		b.ends[j] += grown
	}
	if n := b.ends[0]; n > 0 {
		b.firsts = slices.Delete(b.firsts, 0, int(n))
		for j := range b.ends {
			b.ends[j] -= n
		}
	}
}

// rankBlockOf returns how many entries a block gets when the counts of a set of the given size, not a small one, are
// made.
func rankBlockOf(size uint64) uint64 { return max(rankBlock, size/rankBlocks) }

// drop invalidates the counts for all who hold a pointer to them. The mutex must be held.
func (a *ranks) drop() {
	a.state, a.subs, a.blocks, a.upTo, a.logged = rankDropped, subkeys{}, blocks{}, nil, nil
	a.Drop()
}

// sums returns how many entries come before each block.
func (a *ranks) sums() []uint32 {
	if a.stale || len(a.upTo) != len(a.blocks.count) {
		a.upTo = slices.Grow(a.upTo[:0], len(a.blocks.count))[:len(a.blocks.count)]
		n := uint32(0)
		for i, c := range a.blocks.count {
			a.upTo[i] = n
			n += c
		}
		a.stale = false
	}
	return a.upTo
}

// findRanks returns the counts of a set, which may not be ready, or nil.
func findRanks(tx *engine.Tx, rec *engine.Record) *ranks { return engine.FindState(tx, rankKind, rec) }

// wantRanks returns counts to fill and the iterator to fill them from, once the missing counts of a set have been
// wanted often enough. The caller must hold the key's lock; it may release it before it fills the counts.
func wantRanks(tx *engine.Tx, rec *engine.Record) (*ranks, *engine.Iter) {
	size := rankPerEntry * int(rec.Size)
	if rec.Size > rankSingle {
		size = rankPerBlock * int(min(rec.Size/rankBlockOf(rec.Size)+1, rankBlocks))
	}
	if !tx.Empty() || rec.Size > math.MaxUint32 || !engine.WorthState(tx, rankKind, rec, size) {
		return nil, nil // the transaction's own writes may be rolled back while the entries are counted
	}
	if engine.HaveState(tx, rankKind, rec) != nil { // counting is under way, or the set is too large
		return nil, nil
	}
	s := span{id: cf.ZSetScore}
	it, _ := s.open(tx, rec, false, 0, math.MaxUint64)
	if it == nil {
		return nil, nil
	}
	a := &ranks{}
	if !engine.KeepState(tx, rankKind, rec, a, size) {
		it.Close()
		return nil, nil
	}
	return a, it
}

// settle fills the counts that wantRanks has returned, if any, after the operation without them has succeeded.
func (a *ranks) settle(it *engine.Iter, rec *engine.Record, err error) error {
	if a == nil {
		return err
	}
	if err == nil {
		return a.fill(it, rec.Size)
	}
	it.Close()
	a.mu.Lock()
	a.drop()
	a.mu.Unlock()
	return err
}

// fill counts the entries of the iterator, or keeps them if the set is small, and closes the iterator. At the end it
// applies the logged changes: those since the iterator was opened.
func (a *ranks) fill(it *engine.Iter, size uint64) error {
	whole := size <= rankSingle
	block := rankBlockOf(size)
	var b blocks
	var subs subkeys
	var err error
	if whole {
		subs, err = readSubkeys(it)
	} else {
		b, err = countBlocks(it, block)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err != nil:
		a.drop()
		return err
	case a.state != rankCounting:
		return nil
	case len(b.firsts)+len(subs.data) > rankMaxBytes:
		a.state, a.logged = rankDropped, nil // kept, so that no one tries again
		return nil
	}
	a.state, a.blocks, a.maxSize, a.stale = rankReady, b, uint32(4*block), true
	a.whole, a.subs, a.total = whole, subs, uint64(len(subs.ends))
	for _, n := range b.count {
		a.total += uint64(n)
	}
	for _, ch := range a.logged {
		if a.state == rankReady {
			a.change(ch.sub, ch.n)
		}
	}
	a.logged = nil
	if a.state == rankReady {
		a.resize()
	}
	return nil
}

// resize reports the current size of the counts to the registry.
func (a *ranks) resize() {
	a.Resize(cap(a.subs.data) + 4*cap(a.subs.ends) +
		cap(a.blocks.firsts) + 4*(cap(a.blocks.ends)+2*cap(a.blocks.count)) + 128)
}

// countBlocks counts the entries of the iterator in blocks of the given size, and closes it.
func countBlocks(it *engine.Iter, size uint64) (b blocks, err error) {
	defer it.Close()
	var last []byte // entry of the block before
	for it.Next() {
		// The key is valid until the next Skip: its block is added first, and counted afterwards.
		var first []byte
		if len(b.count) > 0 {
			first = separator(last, it.Key())
		}
		b.add(first, 0)
		n := uint64(1)
		if size > 2 {
			n += it.Skip(size - 2)
		}
		if n+1 == size && it.Next() {
			n++
		}
		b.count[len(b.count)-1] = uint32(n)
		last = append(last[:0], it.Key()...)
	}
	if len(b.count) == 0 {
		b.add(nil, 0)
	}
	return b, it.Err()
}

// separator returns the shortest string that is greater than before and not greater than sub, which is.
func separator(before, sub []byte) []byte {
	n := 0
	for n < len(before) && n < len(sub) && before[n] == sub[n] {
		n++
	}
	return sub[:min(n+1, len(sub))]
}

// changed keeps the counts up to date: an entry was added or removed.
func (a *ranks) changed(sub []byte, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch a.state {
	case rankReady:
		a.change(sub, n)
	case rankCounting:
		a.logged = append(a.logged, change{bytes.Clone(sub), n})
		if len(a.logged) > rankMaxLog {
			a.drop()
		}
	}
}

// change counts one entry. It joins an empty block with its neighbour.
func (a *ranks) change(sub []byte, n int) {
	if a.whole {
		a.changeSub(sub, n)
		return
	}
	i := a.blocks.of(sub)
	a.blocks.count[i] += uint32(n)
	a.total += uint64(n)
	a.stale = true
	if a.blocks.count[i] == 0 && len(a.blocks.count) > 1 {
		a.blocks.replace(i, &blocks{})
	}
}

// place is the beginning of a block.
type place struct {
	first  []byte
	n      uint64 // the number of entries before it
	tooBig bool   // the block should be split
	exact  bool   // the place is that of the entry: nothing to count
}

// usable reports whether the counts are ready and add up to the size of the set. The mutex must be held.
func (a *ranks) usable(rec *engine.Record) bool {
	if a.state == rankReady && a.total != rec.Size {
		a.drop()
	}
	return a.state == rankReady
}

// before returns the place from which to count the entries before sub. exists says whether the set contains sub.
func (a *ranks) before(rec *engine.Record, sub []byte, exists bool) (p place, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.usable(rec) {
		return p, false
	}
	if a.whole {
		n, found := a.subs.find(sub)
		if exists && !found {
			a.drop() // wrong
			return p, false
		}
		return place{n: uint64(n), exact: true}, true
	}
	i := a.blocks.of(sub)
	if exists && a.blocks.count[i] == 1 {
		return place{n: uint64(a.sums()[i]), exact: true}, true
	}
	return a.place(i), true
}

// at returns the beginning of the block that contains the entry of a rank.
func (a *ranks) at(rec *engine.Record, rank uint64) (p place, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.usable(rec) || rank >= a.total {
		return p, false
	}
	if a.whole {
		return place{first: bytes.Clone(a.subs.at(int(rank))), n: rank}, true
	}
	sums := a.sums()
	return a.place(sort.Search(len(sums)-1, func(i int) bool { return uint64(sums[i+1]) > rank })), true
}

// place returns the place of block i with a copy of its first: other readers may split blocks, which moves the firsts.
func (a *ranks) place(i int) place {
	return place{first: bytes.Clone(a.blocks.first(i)), n: uint64(a.sums()[i]), tooBig: a.blocks.count[i] > a.maxSize}
}

// split splits a block that has grown too large. The caller must hold the key's lock, so that the entries do not
// change.
func (a *ranks) split(tx *engine.Tx, rec *engine.Record, first []byte) error {
	a.mu.Lock()
	i := 0
	ok := a.state == rankReady
	var next []byte
	var n, maxSize uint32
	if ok {
		i = a.blocks.of(first)
		n, maxSize = a.blocks.count[i], a.maxSize
		if ok = bytes.Equal(a.blocks.first(i), first) && n > maxSize; ok && i+1 < len(a.blocks.count) {
			next = bytes.Clone(a.blocks.first(i + 1))
		}
	}
	a.mu.Unlock()
	if !ok { // another reader has split it
		return nil
	}
	prefix := tx.SubkeyPrefix(rec)
	s := span{id: cf.ZSetScore, lower: memberBound(prefix, first, false)}
	if next != nil {
		s.upper = memberBound(prefix, next, false)
	}
	var part blocks
	if it, _ := s.open(tx, rec, false, 0, uint64(n)); it != nil {
		var err error
		if part, err = countBlocks(it, max(uint64(maxSize)/4, 1)); err != nil {
			return err
		}
	}
	total := uint32(0)
	for _, c := range part.count {
		total += c
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.state != rankReady {
		return nil
	}
	if i = a.blocks.of(first); !bytes.Equal(a.blocks.first(i), first) || a.blocks.count[i] != n {
		return nil // another reader has split it
	}
	if total != n || len(a.blocks.count)+len(part.count) > 2*rankBlocks {
		a.drop() // a wrong count, or so many blocks that counting again is better
		return nil
	}
	part.firsts = append(bytes.Clone(first), part.firsts...)
	for j := range part.ends {
		part.ends[j] += uint32(len(first))
	}
	a.blocks.replace(i, &part)
	a.stale = true
	a.resize()
	return nil
}

// rank returns how many entries are before a zset_score subkey; ok is false when the counts cannot be used. The caller
// must hold the key's lock. exists says whether the subkey is that of a member.
func (a *ranks) rank(tx *engine.Tx, rec *engine.Record, sub []byte, exists bool) (rank uint64, ok bool, err error) {
	p, ok := a.before(rec, sub, exists)
	if ok && p.tooBig {
		if err := a.split(tx, rec, p.first); err != nil {
			return 0, false, err
		}
		p, ok = a.before(rec, sub, exists)
	}
	if !ok || p.exact {
		return p.n, ok, nil
	}
	prefix := tx.SubkeyPrefix(rec)
	var lo, up [192]byte
	lower := append(append(lo[:0], prefix...), p.first...)
	upper := append(append(up[:0], prefix...), sub...)
	if low, _ := tx.Bounds(rec, prefix); bytes.Compare(low, lower) > 0 {
		lower = low // only tombstones are before it
	}
	if bytes.Compare(lower, upper) >= 0 {
		return p.n, true, nil
	}
	n, err := tx.Count(cf.ZSetScore, lower, upper)
	return p.n + n, true, err
}

// seek returns the lower bound of a scan that reaches the entry of a rank after skip entries.
func (a *ranks) seek(tx *engine.Tx, rec *engine.Record, rank uint64) (lower []byte, skip uint64, ok bool, err error) {
	p, ok := a.at(rec, rank)
	if ok && p.tooBig {
		if err := a.split(tx, rec, p.first); err != nil {
			return nil, 0, false, err
		}
		p, ok = a.at(rec, rank)
	}
	if !ok {
		return nil, 0, false, nil
	}
	return memberBound(tx.SubkeyPrefix(rec), p.first, false), rank - p.n, true, nil
}
