// Package derived keeps state that was derived from collections: the counts of a sorted set, its members that are
// popped next, the reply of a command. Losing any state costs time and nothing else.
//
// One [Registry] holds the state of all kinds. It is bounded by bytes: beyond the limit the state that was not used
// lately is evicted, whatever its kind, see [Registry.SetLimit]. The registry is sharded. No lock is held while a state
// is computed.
//
// A state is found by its kind, its key and its stamp: only a state with exactly this stamp is found. The choice of the
// stamp is the rule of validity. Package engine has two rules: the epoch of a bucket of key locks for state that
// writers keep current, and the generation of the bucket for state that any write invalidates. State of which readers
// of snapshots take no locks has a rule of its own, see [Registry.Now].
package derived

import (
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// ID names a kind of state.
type ID uint8

// The kinds of state. Their table is in docs/architecture.md.
const (
	Bounds  ID = iota // where the live entries of a collection begin and end
	Pools             // random subkeys of a collection, for sampling
	Ranks             // counts of the members of a sorted set
	Pops              // members of a sorted set that are popped next
	Runs              // ids of the oldest entries of a stream
	Aheads            // entries of a stream that its groups hand out next
	Waits             // pending entries of a stream that have waited longest
	Cells             // points of a cell of the map
	Replies           // replies of commands
	Nodes             // nodes of the graphs of search indexes
	NumIDs
)

var names = [NumIDs]string{"bounds", "pools", "ranks", "pops", "runs", "aheads", "waits", "cells", "replies", "nodes"}

// String returns the name of the kind in INFO.
func (id ID) String() string { return names[id] }

// State is something that the registry can keep: a pointer to a struct that embeds [Entry].
type State interface{ entry() *Entry }

// Shrinker is a state that can give up a part of its memory, the spare bytes of [Entry.ResizeSpare]. The registry makes
// it do so instead of evicting the state.
type Shrinker interface {
	State
	// Shrink gives up the spare bytes. It is called with locks held, also within Put and Resize, and must not block.
	Shrink()
}

// Follower is a state of a sorted set that follows a batch of another server, whose records say which entries of the
// score index it writes.
type Follower interface {
	State
	// Follow notes that an entry is added (1) or removed (-1). sub is valid during the call.
	Follow(sub []byte, n int)
}

// Kind is the typed handle of a kind of state; P is the type of its states.
type Kind[P State] struct{ ID ID }

// Entry is the bookkeeping of the registry for a state. The mutex of its shard guards its fields; those that are set by
// Put and never changed afterwards are also read without.
type Entry struct {
	registry   *Registry // set by Put
	hash       uint64    // set by Put
	next, prev *Entry    // the ring of the shard
	bytes      int64     // with overhead
	spare      int64     // of bytes: what Shrink frees
	// What FindAsOf reads is side by side, and next to the beginning of the state.
	key     string // set by Put, as the next four
	kind    ID
	indexed bool // the entry is in the index of the shard
	used    atomic.Bool
	check   uint64 // a second hash of the key, of entries in the index
	stamp   uint64
	state   State
}

func (e *Entry) entry() *Entry { return e }

// use notes that the state was used since the clock hand has passed it.
func (e *Entry) use() {
	if !e.used.Load() { // most of the time it is set
		e.used.Store(true)
	}
}

const (
	numShards = 64
	// overhead is the approximate memory of an entry beside its state, in bytes, including the bytes of the key: the
	// Entry, its place in the map, and the allocator's rounding.
	overhead = 240
	// maxShare: one state may take 1/maxShare of the limit.
	maxShare = 4
	// maxLooks is the max number of used entries that the clock hand skips before it evicts one of them.
	maxLooks = 16
	// bytesPerMark: one mark (see Asked) exists for each so many bytes of the limit.
	bytesPerMark = 256
	// marksOfSet is the associativity of the marks: a mark is in one of so many places.
	marksOfSet = 4
	// oneOf: while the registry is full, Worth approves only one of so many states that are worth computing.
	oneOf = 8
	// roomToGrow: a state grows freely as long as 1/roomToGrow of the limit is free.
	roomToGrow = 4
)

// Registry holds derived state. Its methods may be called by several goroutines.
type Registry struct {
	seed, check maphash.Seed
	limit, used atomic.Int64
	clock       atomic.Uint64 // see Now
	hand        atomic.Uint32 // the shard that evicts next
	count       [NumIDs]atomic.Int64
	marks       atomic.Pointer[[]atomic.Uint32]
	shards      [numShards]shard
}

type shard struct {
	mu      sync.Mutex
	entries map[uint64]*Entry
	hand    *Entry // in a ring of all entries; nil = none
	stats   [NumIDs]Stats
	changes changes
	index   index
	_       [64]byte
}

// Stats are the statistics of one kind, or of all kinds.
type Stats struct {
	Entries, Bytes          int64
	Hits, Misses, Evictions int64
}

// New returns a registry of up to limit bytes; 0 = nothing is kept.
func New(limit int64) *Registry {
	r := &Registry{seed: maphash.MakeSeed(), check: maphash.MakeSeed()}
	r.SetLimit(limit)
	return r
}

// SetLimit changes how many bytes all states together may take; 0 = nothing is kept.
func (r *Registry) SetLimit(n int64) {
	marks := 1024
	for int64(marks)*bytesPerMark < n {
		marks *= 2
	}
	if old := r.marks.Load(); old == nil || len(*old) != marks {
		fresh := make([]atomic.Uint32, marks)
		r.marks.Store(&fresh)
	}
	r.limit.Store(n)
	r.evict()
}

// Limit returns how many bytes the states may take.
func (r *Registry) Limit() int64 { return r.limit.Load() }

// MaxState returns how many bytes one state may take.
func (r *Registry) MaxState() int64 { return r.limit.Load() / maxShare }

// Used returns how many bytes the states take.
func (r *Registry) Used() int64 { return r.used.Load() }

// Stats returns the statistics of each kind.
func (r *Registry) Stats() (all [NumIDs]Stats) {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		for id := range all {
			a, b := &all[id], &s.stats[id]
			a.Entries += b.Entries
			a.Bytes += b.Bytes
			a.Hits += b.Hits
			a.Misses += b.Misses
			a.Evictions += b.Evictions
		}
		s.mu.Unlock()
	}
	return all
}

func (r *Registry) hash(id ID, key []byte) uint64 {
	return maphash.Bytes(r.seed, key) ^ uint64(id+1)*0x9e3779b97f4a7c15
}

func (r *Registry) shard(h uint64) *shard { return &r.shards[h%numShards] }

// Any reports whether any state of the kind exists.
func (k Kind[P]) Any(r *Registry) bool { return r.count[k.ID].Load() > 0 }

// Find returns the state of a key with exactly this stamp, else nil. A state with another stamp is dropped.
func (k Kind[P]) Find(r *Registry, key []byte, stamp uint64) P { return k.get(r, key, stamp, true) }

// Have is Find for callers that keep the state current but do not use it: it neither counts as a use nor delays
// eviction.
func (k Kind[P]) Have(r *Registry, key []byte, stamp uint64) P { return k.get(r, key, stamp, false) }

func (k Kind[P]) get(r *Registry, key []byte, stamp uint64, use bool) (p P) {
	h := r.hash(k.ID, key)
	s := r.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[h]
	if e != nil && e.kind == k.ID && e.key == string(key) {
		if e.stamp == stamp {
			if use {
				e.use()
				s.stats[k.ID].Hits++
			}
			return e.state.(P)
		}
		s.remove(e)
	}
	if use {
		s.stats[k.ID].Misses++
	}
	return p
}

// Put stores a state, which must not have been put before. bytes is its size beside its Entry and key. A previous state
// of the key is dropped. Put reports whether the state is kept: a state beyond the max share of the limit is not.
func (k Kind[P]) Put(r *Registry, key []byte, stamp uint64, p P, bytes int) bool {
	h := r.hash(k.ID, key)
	s := r.shard(h)
	s.mu.Lock()
	return k.put(r, s, h, key, stamp, p, bytes)
}

// put is Put. The mutex of the shard must be held; put releases it.
func (k Kind[P]) put(r *Registry, s *shard, h uint64, key []byte, stamp uint64, p P, bytes int) bool {
	e := p.entry()
	size := int64(bytes + len(key) + overhead)
	if old := s.entries[h]; old != nil {
		s.remove(old)
	}
	e.registry, e.hash, e.key, e.stamp, e.state, e.kind, e.bytes = r, h, string(key), stamp, p, k.ID, size
	if size > r.MaxState() {
		s.mu.Unlock()
		return false
	}
	s.add(e)
	s.mu.Unlock()
	r.evict()
	return true
}

// Resize notes the new size of the state in bytes.
func (e *Entry) Resize(bytes int) { e.ResizeSpare(bytes, 0) }

// ResizeSpare is Resize for a [Shrinker]: spare of the bytes are those that Shrink frees.
func (e *Entry) ResizeSpare(bytes, spare int) {
	r := e.registry
	if r == nil {
		return
	}
	s := r.shard(e.hash)
	s.mu.Lock()
	if !s.holds(e) {
		s.mu.Unlock()
		return
	}
	size := int64(bytes + len(e.key) + overhead)
	s.stats[e.kind].Bytes += size - e.bytes
	r.used.Add(size - e.bytes)
	e.bytes, e.spare = size, int64(spare)
	e.use()
	if size > r.MaxState() {
		s.remove(e)
		s.stats[e.kind].Evictions++
	}
	s.mu.Unlock()
	r.evict()
}

// MaxSize returns to how many bytes the state may grow before it is dropped, see Resize.
func (e *Entry) MaxSize() int {
	if e.registry == nil {
		return 0
	}
	return int(e.registry.MaxState()) - len(e.key) - overhead
}

// WorthGrowing reports whether a state should grow to so many bytes, which costs more than doing without once. While
// little of the registry is free, or of the state's share, it reports true only now and then, as Worth does.
func (e *Entry) WorthGrowing(bytes int) bool {
	r := e.registry
	if r == nil {
		return false
	}
	s := r.shard(e.hash)
	s.mu.Lock()
	grown := int64(bytes+len(e.key)+overhead) - e.bytes
	s.mu.Unlock()
	return bytes <= e.MaxSize() && r.hasRoom(grown+r.Limit()/roomToGrow) || rand.IntN(oneOf) == 0
}

// Drop removes the state if it is kept.
func (e *Entry) Drop() {
	if e.registry == nil {
		return
	}
	s := e.registry.shard(e.hash)
	s.mu.Lock()
	if s.holds(e) {
		s.remove(e)
	}
	s.mu.Unlock()
}

// Clear drops everything.
func (r *Registry) Clear() {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		s.entries, s.hand = nil, nil
		s.index.clear()
		for id := range s.stats {
			st := &s.stats[id]
			r.used.Add(-st.Bytes)
			r.count[id].Add(-st.Entries)
			st.Bytes, st.Entries = 0, 0
		}
		s.mu.Unlock()
	}
}

// Asked notes that a state was wanted that the registry does not have.
func (k Kind[P]) Asked(r *Registry, key []byte, stamp uint64) {
	set, mark := r.marked(k.ID, key, stamp)
	free := rand.IntN(len(set))
	for i := range set {
		switch set[i].Load() {
		case mark:
			return
		case 0:
			free = i
		}
	}
	set[free].Store(mark)
}

// Worth reports whether a missing state should be computed now, which costs more than doing without it once. It reports
// true when the state was asked for before with the same stamp. While the registry is full it reports true only now and
// then, so that states which displace one another before they are used cost little.
func (k Kind[P]) Worth(r *Registry, key []byte, stamp uint64, bytes int) bool {
	set, mark := r.marked(k.ID, key, stamp)
	asked := false
	for i := range set {
		asked = asked || set[i].Load() == mark
	}
	size := int64(bytes + len(key) + overhead)
	return asked && size <= r.MaxState() && (r.hasRoom(size) || rand.IntN(oneOf) == 0)
}

// HasRoom reports whether a state of so many bytes beside its key can be kept without the eviction of another one.
func (r *Registry) HasRoom(key []byte, bytes int) bool {
	return r.hasRoom(int64(bytes + len(key) + overhead))
}

func (r *Registry) hasRoom(size int64) bool { return r.used.Load()+size <= r.limit.Load() }

// marked returns the set of marks for a state, and the mark itself. Marks displace one another.
func (r *Registry) marked(id ID, key []byte, stamp uint64) (set []atomic.Uint32, mark uint32) {
	h := r.hash(id, key) + stamp*0xff51afd7ed558ccd
	marks := *r.marks.Load()
	at := h % uint64(len(marks)/marksOfSet) * marksOfSet
	return marks[at : at+marksOfSet], uint32(h>>32) | 1
}

// evict evicts states until the rest is within the limit.
func (r *Registry) evict() {
	for r.used.Load() > r.limit.Load() {
		s := &r.shards[r.hand.Add(1)%numShards]
		s.mu.Lock()
		s.evictOne()
		s.mu.Unlock()
	}
}

// evictOne evicts or shrinks the next entry that was not used since the hand has passed it; none if all of the shard
// were used.
func (s *shard) evictOne() {
	e := s.hand
	if e == nil {
		return
	}
	for looks := 0; e.used.Load() && looks < maxLooks; looks++ {
		e.used.Store(false)
		if e = e.next; e == s.hand {
			return
		}
	}
	s.hand = e
	s.stats[e.kind].Evictions++
	if e.spare == 0 {
		s.remove(e)
		return
	}
	e.state.(Shrinker).Shrink()
	s.stats[e.kind].Bytes -= e.spare
	e.registry.used.Add(-e.spare)
	e.bytes, e.spare = e.bytes-e.spare, 0
	s.hand = e.next
}

func (s *shard) holds(e *Entry) bool { return s.entries[e.hash] == e }

// add inserts an entry right behind the hand, so that the hand reaches it last.
func (s *shard) add(e *Entry) {
	if s.entries == nil {
		s.entries = map[uint64]*Entry{}
	}
	s.entries[e.hash] = e
	if s.hand == nil {
		e.next, e.prev = e, e
		s.hand = e
	} else {
		e.next, e.prev = s.hand, s.hand.prev
		e.prev.next, e.next.prev = e, e
	}
	s.stats[e.kind].Entries++
	s.stats[e.kind].Bytes += e.bytes
	e.registry.used.Add(e.bytes)
	e.registry.count[e.kind].Add(1)
	if e.indexed {
		s.index.set(e.hash, e)
	}
}

func (s *shard) remove(e *Entry) {
	delete(s.entries, e.hash)
	if e.indexed {
		s.index.set(e.hash, nil)
	}
	if e.next == e {
		s.hand = nil
	} else {
		e.prev.next, e.next.prev = e.next, e.prev
		if s.hand == e {
			s.hand = e.next
		}
	}
	e.next, e.prev = nil, nil
	s.stats[e.kind].Entries--
	s.stats[e.kind].Bytes -= e.bytes
	e.registry.used.Add(-e.bytes)
	e.registry.count[e.kind].Add(-1)
}
