package derived

import "hash/maphash"

// Readers of a snapshot take no locks: while they read, others may change the records, before or after the snapshot. So
// the state of such records has another rule of validity. The registry has a clock, which grows with the end of each
// transaction that has changed records, and a state is stamped with a time since which it is valid.
//
//	reader   Now; take the snapshot; FindAsOf; read the missing states from the snapshot; PutAsOf
//	writer   BeginChange of each record before it is visible; commit; EndChanges; PutAsOf what was written
//
// A state is kept only while nobody changes its record, and a reader may keep one only if nobody has changed the record
// since the reader's time. So a state is always the one of the newest commit, and it is valid for each snapshot whose
// time is not before its stamp: a transaction that ended before that time is in the snapshot, and no other one has
// changed the record.

// changesSlots is how many slots remember when changes ended, in each shard. Records that share a slot keep the states
// of each other out for a short time.
const changesSlots = 16

// changes are the changes of the records of one shard. The mutex of the shard guards the fields.
type changes struct {
	open  map[uint64]int32 // the transactions that are changing a record, by the hash of the state
	all   int32            // the transactions that change any number of records
	ended [changesSlots]uint64
}

func changesSlot(h uint64) uint64 { return h / numShards % changesSlots }

// since reports whether a record is being changed, or was changed after a time.
func (c *changes) since(h, at uint64) bool {
	return c.all > 0 || c.open[h] > 0 || c.ended[changesSlot(h)] > at
}

// Now returns the time of the clock. A reader takes it before its snapshot.
func (r *Registry) Now() uint64 { return r.clock.Load() }

// Hash returns the hash of a key of a kind, for the methods that want it.
func (r *Registry) Hash(id ID, key []byte) uint64 { return r.hash(id, key) }

// FindAsOf returns the state of a key that is valid for a reader of the time at, else nil. h is the hash of the key.
// FindAsOf takes no locks and leaves the statistics to [Registry.Count]. Two keys that have both hashes in common do
// not exist in practice (2^-128), so it does not compare the keys, whose bytes are elsewhere in memory.
func (r *Registry) FindAsOf(id ID, h uint64, key []byte, at uint64) State {
	e := r.shard(h).index.find(h)
	if e == nil || e.kind != id || e.stamp > at || e.check != maphash.Bytes(r.check, key) {
		return nil
	}
	e.use()
	return e.state
}

// Count counts look-ups.
func (r *Registry) Count(id ID, hits, misses int64) {
	s := &r.shards[0]
	s.mu.Lock()
	s.stats[id].Hits += hits
	s.stats[id].Misses += misses
	s.mu.Unlock()
}

// PutAsOf is [Kind.Put] for a state that a reader of the time at has read. It keeps nothing if the record may have
// changed since.
func (r *Registry) PutAsOf(id ID, h uint64, key []byte, at uint64, state State, bytes int) bool {
	e := state.entry()
	e.indexed, e.check = true, maphash.Bytes(r.check, key)
	s := r.shard(h)
	s.mu.Lock()
	if s.changes.since(h, at) {
		s.mu.Unlock()
		return false
	}
	return Kind[State]{id}.put(r, s, h, key, at, state, bytes)
}

// BeginChange drops the state of a key, and none is kept until EndChanges.
func (r *Registry) BeginChange(id ID, h uint64) {
	s := r.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changes.open == nil {
		s.changes.open = map[uint64]int32{}
	}
	s.changes.open[h]++
	if e := s.entries[h]; e != nil && e.kind == id {
		s.remove(e)
	}
}

// EndChanges ends the changes of the keys with some hashes, each of which BeginChange was called for. It returns the
// time since which what was written is valid, if it was committed.
func (r *Registry) EndChanges(hashes []uint64) (at uint64) {
	at = r.clock.Add(1)
	for _, h := range hashes {
		s := r.shard(h)
		s.mu.Lock()
		c := &s.changes
		if c.open[h]--; c.open[h] == 0 {
			delete(c.open, h)
		}
		ended := &c.ended[changesSlot(h)]
		*ended = max(*ended, at)
		s.mu.Unlock()
	}
	return at
}

// BeginChangeAll is BeginChange of all keys of the kind.
func (r *Registry) BeginChangeAll(id ID) {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		s.changes.all++
		for _, e := range s.entries {
			if e.kind == id {
				s.remove(e)
			}
		}
		s.mu.Unlock()
	}
}

// EndChangeAll ends what BeginChangeAll has begun.
func (r *Registry) EndChangeAll() {
	at := r.clock.Add(1)
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		s.changes.all--
		for slot := range s.changes.ended {
			s.changes.ended[slot] = max(s.changes.ended[slot], at)
		}
		s.mu.Unlock()
	}
}
