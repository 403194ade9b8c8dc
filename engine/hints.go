package engine

import (
	"bytes"
	"sync"
	"sync/atomic"

	"github.com/basaltdb/basalt/cf"
)

// Hints are what the process remembers about hot collections so that popping from them stays fast: deleted
// entries leave tombstones, and a scan from the beginning of a sorted set that has been popped 100,000 times
// would step over all of them.
//
// A hint belongs to one family and one subkey prefix, which holds the version, so a key that is deleted and
// made anew never meets an old hint. Bounds are read and changed under the key's lock. Everything that may
// leave a hint wrong (a rollback, a failed commit, FLUSHALL, a batch applied from outside) clears them all: they
// cost one scan to learn again.
type hints struct {
	mu     sync.Mutex
	byKey  map[string]*hint
	active atomic.Bool
	pooled int // bytes that the pools take
}

type hint struct {
	low, high []byte // no live key < low; no live key >= high; nil = unknown
	pool      pool   // random subkeys, to be verified before use
	draws     int    // how often the pool may be drawn from with replacement
	popPool   int    // size of the last pool that was made for pops
}

// Bounds of the memory: a hint is dropped at random when there are more, and all pools when they take more bytes.
const (
	maxHints  = 2048
	maxPooled = 64 << 20
)

func (h *hints) clear() {
	if !h.active.Load() {
		return
	}
	h.mu.Lock()
	clear(h.byKey)
	h.pooled = 0
	h.active.Store(false)
	h.mu.Unlock()
}

func hintKey(dst []byte, id cf.ID, prefix []byte) []byte {
	return append(append(dst, byte(id)), prefix...)
}

// with calls f with the hint of a prefix under the lock. Without make, f is not called when there is none.
func (tx *Tx) withHint(id cf.ID, prefix []byte, create bool, f func(*hint)) {
	h := &tx.db.hints
	if !create && !h.active.Load() {
		return
	}
	var kb [128]byte
	key := hintKey(kb[:0], id, prefix)
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.byKey[string(key)]
	if x == nil {
		if !create {
			return
		}
		if len(h.byKey) >= maxHints {
			for k, old := range h.byKey {
				h.pooled -= old.pool.memory()
				delete(h.byKey, k)
				break
			}
		}
		if h.byKey == nil {
			h.byKey = make(map[string]*hint)
		}
		x = new(hint)
		h.byKey[string(key)] = x
		h.active.Store(true)
	}
	f(x)
}

// setPool puts a new pool in the place of the old one.
func (tx *Tx) setPool(id cf.ID, prefix []byte, p pool) {
	h := &tx.db.hints
	tx.withHint(id, prefix, true, func(x *hint) {
		h.pooled += p.memory() - x.pool.memory()
		if h.pooled > maxPooled {
			for _, other := range h.byKey {
				other.pool, other.draws = pool{}, 0
			}
			h.pooled = p.memory()
		}
		x.pool, x.draws = p, poolDraws*p.len()
	})
}

// LowBound returns a key below which the collection with this subkey prefix has no live entry, nil when nothing
// is known. An ascending scan may begin there.
func (tx *Tx) LowBound(id cf.ID, prefix []byte) (low []byte) {
	tx.withHint(id, prefix, false, func(h *hint) { low = tx.cloneHint(h.low) })
	return low
}

// HighBound returns a key from which on the collection has no live entry, nil when nothing is known.
func (tx *Tx) HighBound(id cf.ID, prefix []byte) (high []byte) {
	tx.withHint(id, prefix, false, func(h *hint) { high = tx.cloneHint(h.high) })
	return high
}

func (tx *Tx) cloneHint(b []byte) []byte {
	if b == nil {
		return nil
	}
	return tx.arena.copy(b)
}

// SetLowBound notes that no live entry is below key: the caller has just popped everything below it. The key's
// lock must be held for writing.
func (tx *Tx) SetLowBound(id cf.ID, prefix, key []byte) {
	tx.withHint(id, prefix, true, func(h *hint) { h.low = append(h.low[:0], key...) })
}

// SetHighBound notes that no live entry is at or above key.
func (tx *Tx) SetHighBound(id cf.ID, prefix, key []byte) {
	tx.withHint(id, prefix, true, func(h *hint) { h.high = append(h.high[:0], key...) })
}

// KeyAdded must be called for every entry that is added to a family whose bounds are used (zset_score), before
// or after the Put, with the key's lock held for writing.
func (tx *Tx) KeyAdded(id cf.ID, prefix, key []byte) {
	if !tx.db.hints.active.Load() {
		return
	}
	tx.withHint(id, prefix, false, func(h *hint) {
		if h.low != nil && bytes.Compare(key, h.low) < 0 {
			h.low = append(h.low[:0], key...)
		}
		if h.high != nil && bytes.Compare(key, h.high) >= 0 {
			h.high = append(append(h.high[:0], key...), 0)
		}
	})
}
