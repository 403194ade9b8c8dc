package zset

import (
	"bytes"
	"math"
	"math/bits"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/derived"
)

// rankKind is the state of sorted sets whose ranks are asked for: how many members lie between certain places of the
// score order. RocksDB can only count by reading the entries. The state divides the entries into blocks, and has the
// number of entries of each. Of blocks that were read it keeps the entries, too, as long as there is memory for them,
// see subkeys: then neither ranks nor short ranges read RocksDB. Otherwise a rank, the member at a deep rank, or the
// size of a wide score range needs a scan of one block. A small set is one block, which is always kept.
//
// Every transaction that adds or removes a member changes the counts and the kept entries at once; it holds the key's
// lock for writing. So a reader, which holds the lock for reading, finds what is committed, and a transaction finds its
// own writes, too. As a last check, the counts must add up to the size in the metadata record.
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
	rankMaxRange = 128     // max members of a range that is read from the kept entries of a large set
	rankMaxBytes = 1 << 20 // max bytes of the firsts of a set, or of the entries of a small one
	rankMaxKept  = 1 << 16 // max bytes of the entries of a block that is kept
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
	whole   bool    // the set is small: it is one block, ...
	all     subkeys // ... of these entries
	long    bool    // entries are too long to be kept
	blocks  blocks
	sums    prefixSums           // of the counts of the blocks; nil = out of date
	kept    atomic.Pointer[kept] // nil = no entries are kept; Shrink may set it to nil at any time
	hand    int                  // the block whose entries are given up next
	logged  []change             // the writes during the counting
}

// blocks is a sequence of runs of entries in the order of the zset_score family. Block i holds the entries in
// [first(i), first(i+1)); first(0) is empty. A first is the shortest key that separates its block from the entry
// before.
type blocks struct {
	firsts []byte   // the firsts, concatenated
	ends   []uint32 // the end of each first in firsts
	count  []uint32
}

// kept holds the entries of some blocks.
type kept struct {
	subs  []*subkeys // of each block; nil = not kept
	bytes int        // of all subs
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
	a.state, a.blocks, a.sums, a.logged, a.whole, a.all = rankDropped, blocks{}, nil, nil, false, subkeys{}
	a.kept.Store(nil)
	a.Drop()
}

// Shrink implements [derived.Shrinker]: no entries are kept any more.
func (a *ranks) Shrink() { a.kept.Store(nil) }

// subs returns the entries of block i, nil when they are not kept.
func (a *ranks) subs(i int) *subkeys {
	if a.whole {
		return &a.all
	}
	if k := a.kept.Load(); k != nil {
		return k.subs[i]
	}
	return nil
}

// replace puts the blocks of with (maybe none), whose entries are not kept, in the place of block i.
func (a *ranks) replace(i int, with *blocks) {
	if k := a.kept.Load(); k != nil {
		k.giveUp(i)
		k.subs = slices.Replace(k.subs, i, i+1, make([]*subkeys, len(with.count))...)
	}
	a.blocks.replace(i, with)
	a.sums = nil
}

// beforeBlock returns how many entries come before block i.
func (a *ranks) beforeBlock(i int) uint64 {
	if i == 0 {
		return 0
	}
	if a.sums == nil {
		a.sums = newPrefixSums(a.blocks.count)
	}
	return uint64(a.sums.before(i))
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
		subs, err = readSubkeys(it, rankMaxBytes)
		b.add(nil, uint32(len(subs.ends)))
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
	case max(len(b.firsts), len(subs.data)) > rankMaxBytes:
		a.state, a.logged = rankDropped, nil // kept, so that no one tries again
		return nil
	}
	a.state, a.blocks, a.whole, a.maxSize = rankReady, b, whole, uint32(4*block)
	if whole {
		a.maxSize = rankWhole
		a.all = subs
	}
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

// resize reports the current size of the counts to the registry. A large set can do without the entries.
func (a *ranks) resize() { a.ResizeSpare(a.memory(), a.keptMemory()) }

func (a *ranks) memory() int {
	b := &a.blocks
	return 160 + a.all.memory() + cap(b.firsts) + 4*(cap(b.ends)+2*cap(b.count)) + a.keptMemory()
}

func (a *ranks) keptMemory() int {
	if k := a.kept.Load(); k != nil {
		return 32 + 8*cap(k.subs) + k.bytes
	}
	return 0
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

// Follow implements [derived.Follower].
func (a *ranks) Follow(sub []byte, n int) { a.changed(sub, n) }

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

// change counts one entry, and adds or removes it where its block is kept. It joins an empty block with its neighbour.
func (a *ranks) change(sub []byte, n int) {
	i := a.blocks.of(sub)
	a.blocks.count[i] += uint32(n)
	a.total += uint64(n)
	if a.sums != nil {
		a.sums.add(i, uint32(n))
	}
	count := a.blocks.count[i]
	if s := a.subs(i); s != nil {
		was := s.memory()
		if !s.change(sub, n) || a.whole && count > a.maxSize {
			a.drop() // wrong, or no longer small
			return
		}
		if grown := s.memory() - was; grown != 0 {
			if k := a.kept.Load(); k != nil {
				k.bytes += grown
				// A block that is too big is split by the next reader.
				if count > a.maxSize || len(s.data) > rankMaxKept || a.memory() > a.MaxSize() {
					k.giveUp(i)
				}
			}
			a.resize()
		}
	}
	if count == 0 && len(a.blocks.count) > 1 {
		a.replace(i, &blocks{})
	}
}

// giveUp no longer keeps the entries of a block.
func (k *kept) giveUp(i int) {
	if s := k.subs[i]; s != nil {
		k.bytes -= s.memory()
		k.subs[i] = nil
	}
}

// place is the beginning of a block, or with exact an entry.
type place struct {
	first  []byte
	next   []byte // first of the next block; nil = this is the last block
	n      uint64 // the number of entries before it
	count  uint32 // the number of entries of the block
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
	i := a.blocks.of(sub)
	if s := a.subs(i); s != nil {
		n, found := s.find(sub)
		if exists && !found {
			a.drop() // wrong
			return p, false
		}
		return place{n: a.beforeBlock(i) + uint64(n), exact: true}, true
	}
	if exists && a.blocks.count[i] == 1 {
		return place{n: a.beforeBlock(i), exact: true}, true
	}
	return a.place(i), true
}

// at returns the beginning of the block that contains the entry of a rank, or with exact the entry itself.
func (a *ranks) at(rec *engine.Record, rank uint64) (p place, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.usable(rec) || rank >= a.total {
		return p, false
	}
	i, n := a.blockAt(rank)
	if s := a.subs(i); s != nil {
		return place{first: bytes.Clone(s.at(int(rank - n))), n: rank, exact: true}, true
	}
	return a.place(i), true
}

// blockAt returns the block that contains the entry of a rank, and how many entries come before the block.
func (a *ranks) blockAt(rank uint64) (i int, before uint64) {
	last := len(a.blocks.count) - 1
	if before = a.beforeBlock(last); rank >= before {
		return last, before
	}
	i = a.sums.find(uint32(rank))
	return i, a.beforeBlock(i)
}

// place returns the place of block i with copies of the firsts: other readers may split blocks, which moves the firsts.
func (a *ranks) place(i int) place {
	b := &a.blocks
	p := place{first: bytes.Clone(b.first(i)), n: a.beforeBlock(i), count: b.count[i], tooBig: b.count[i] > a.maxSize}
	if i+1 < len(b.count) {
		p.next = bytes.Clone(b.first(i + 1))
	}
	return p
}

// find returns the index of the block of a place; ok is false when another reader has split the block or keeps its
// entries.
func (a *ranks) find(p *place) (i int, ok bool) {
	if a.state != rankReady {
		return 0, false
	}
	i = a.blocks.of(p.first)
	return i, bytes.Equal(a.blocks.first(i), p.first) && a.blocks.count[i] == p.count && a.subs(i) == nil
}

// open returns an iterator over the entries of a block; nil = there are none. The caller must hold the key's lock until
// it has done with them what it will, so that they do not change.
func (p *place) open(tx *engine.Tx, rec *engine.Record) *engine.Iter {
	prefix := tx.SubkeyPrefix(rec)
	s := span{id: cf.ZSetScore, lower: memberBound(prefix, p.first, false)}
	if p.next != nil {
		s.upper = memberBound(prefix, p.next, false)
	}
	it, _ := s.open(tx, rec, false, 0, uint64(p.count))
	return it
}

// keep reads the entries of a block and keeps them, if they are worth the memory. The caller must hold the key's lock.
// tried is false when the block is as it was.
func (a *ranks) keep(tx *engine.Tx, rec *engine.Record, p *place) (tried bool, err error) {
	want := rankPerEntry * int(p.count)
	a.mu.Lock()
	_, ok := a.find(p)
	ok = ok && !a.long && a.WorthGrowing(a.memory()+want)
	a.mu.Unlock()
	if !ok || !tx.Locked() { // without the lock, the entries may change while they are read
		return false, nil
	}
	it := p.open(tx, rec)
	if it == nil {
		return false, nil
	}
	subs, err := readSubkeys(it, rankMaxKept)
	if err != nil {
		return false, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	i, ok := a.find(p)
	switch {
	case !ok:
	case len(subs.data) > rankMaxKept:
		a.long = true
	case len(subs.ends) != int(p.count):
		a.drop() // a wrong count
	default:
		subs.data, subs.ends = bytes.Clone(subs.data), slices.Clone(subs.ends)
		k := a.kept.Load()
		if k == nil {
			k = &kept{subs: make([]*subkeys, len(a.blocks.count))}
			a.kept.Store(k)
		}
		k.subs[i] = &subs
		k.bytes += subs.memory()
		for n := len(k.subs); n > 0 && a.memory() > a.MaxSize(); n-- {
			a.hand = (a.hand + 1) % len(k.subs)
			k.giveUp(a.hand)
		}
		a.resize()
	}
	return true, nil
}

// split splits a block that has grown too large. The caller must hold the key's lock.
func (a *ranks) split(tx *engine.Tx, rec *engine.Record, p *place) error {
	var part blocks
	if it := p.open(tx, rec); it != nil {
		var err error
		if part, err = countBlocks(it, max(uint64(a.maxSize)/4, 1)); err != nil {
			return err
		}
	}
	total := uint32(0)
	for _, c := range part.count {
		total += c
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	i, ok := a.find(p)
	if !ok {
		return nil
	}
	if total != p.count || len(a.blocks.count)+len(part.count) > 2*rankBlocks {
		a.drop() // a wrong count, or so many blocks that counting again is better
		return nil
	}
	part.firsts = append(bytes.Clone(p.first), part.firsts...)
	for j := range part.ends {
		part.ends[j] += uint32(len(p.first))
	}
	a.replace(i, &part)
	a.resize()
	return nil
}

// locate returns the place that find returns, once its block was split where it is too big, and kept where that is
// worth it.
func (a *ranks) locate(tx *engine.Tx, rec *engine.Record, find func() (place, bool)) (p place, ok bool, err error) {
	if p, ok = find(); ok && p.tooBig {
		if err := a.split(tx, rec, &p); err != nil {
			return p, false, err
		}
		p, ok = find()
	}
	if ok && !p.exact {
		tried, err := a.keep(tx, rec, &p)
		if err != nil {
			return p, false, err
		}
		if tried {
			p, ok = find()
		}
	}
	return p, ok, nil
}

// rank returns how many entries are before a zset_score subkey; ok is false when the counts cannot be used. The caller
// must hold the key's lock. exists says whether the subkey is that of a member.
func (a *ranks) rank(tx *engine.Tx, rec *engine.Record, sub []byte, exists bool) (rank uint64, ok bool, err error) {
	p, ok, err := a.locate(tx, rec, func() (place, bool) { return a.before(rec, sub, exists) })
	if !ok || err != nil || p.exact {
		return p.n, ok, err
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
	p, ok, err := a.locate(tx, rec, func() (place, bool) { return a.at(rec, rank) })
	if !ok || err != nil {
		return nil, 0, false, err
	}
	return memberBound(tx.SubkeyPrefix(rec), p.first, false), rank - p.n, true, nil
}

// read adds n entries from a rank on to the tape; ok is false when not all of their blocks are kept. The caller must
// hold the key's lock.
func (a *ranks) read(tx *engine.Tx, rec *engine.Record, rank, n uint64, t *tape) (ok bool, err error) {
	for n > 0 {
		got, err := a.readKept(tx, rec, rank, n, t)
		if rank, n = rank+got, n-got; n == 0 || err != nil {
			return n == 0, err
		}
		p, ok, err := a.locate(tx, rec, func() (place, bool) { return a.at(rec, rank) })
		if !ok || !p.exact || err != nil {
			return false, err
		}
	}
	return true, nil
}

// readKept adds up to n entries from a rank on to the tape, those before the first block that is not kept, and returns
// their number.
func (a *ranks) readKept(tx *engine.Tx, rec *engine.Record, rank, n uint64, t *tape) (got uint64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.usable(rec) || rank >= a.total {
		return 0, nil
	}
	i, before := a.blockAt(rank)
	at := int(rank - before)
	for ; i < len(a.blocks.count) && got < n; i++ {
		s := a.subs(i)
		if s == nil {
			break
		}
		for ; at < len(s.ends) && got < n; at++ {
			member, score, err := splitScored(tx, rec, s.at(at))
			if err != nil {
				return got, err
			}
			t.add(member, score)
			got++
		}
		at = 0
	}
	return got, nil
}

// prefixSums is a Fenwick tree over counts: a change and a sum take the logarithm of their number.
type prefixSums []uint32

func newPrefixSums(counts []uint32) prefixSums {
	s := slices.Clone(counts)
	for i := range s {
		if j := i | (i + 1); j < len(s) {
			s[j] += s[i]
		}
	}
	return s
}

// add adds to count i.
func (s prefixSums) add(i int, n uint32) {
	for ; i < len(s); i |= i + 1 {
		s[i] += n
	}
}

// before returns the sum of the counts before count i.
func (s prefixSums) before(i int) (sum uint32) {
	for ; i > 0; i &= i - 1 {
		sum += s[i-1]
	}
	return sum
}

// find returns the index of the last count before which the sum is at most n.
func (s prefixSums) find(n uint32) (i int) {
	for step := 1 << bits.Len(uint(len(s))); step > 0; step /= 2 {
		if next := i + step; next < len(s) && s[next-1] <= n {
			i, n = next, n-s[next-1]
		}
	}
	return i
}
