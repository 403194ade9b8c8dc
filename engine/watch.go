package engine

import (
	"bytes"
	"math"
	"sync"
	"sync/atomic"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/lock"
)

// watchTable maps keys to the watches on them. A commit looks into it only when watches or an observer exist.
type watchTable struct {
	n        atomic.Int64 // watches of keys, and the observer
	shards   [64]watchShard
	observer atomic.Pointer[Observer]
}

// Observer is called for every commit, while the locks of its keys are held. origin is the transaction's Origin.
type Observer interface {
	// Committed gets the metadata keys that were written, a key possibly more than once. The keys are valid until it
	// returns.
	Committed(origin any, nsKeys [][]byte)
	// Flushed is called when all metadata keys in [begin, end) were deleted or replaced.
	Flushed(origin any, begin, end []byte)
}

// Observe sets the observer of commits from now on; nil = none. A commit that is under way when Observe returns is
// observed, unless its writes are visible already.
func (db *DB) Observe(o Observer) {
	var p *Observer
	if o != nil {
		p = &o
	}
	t := &db.watches
	if old := t.observer.Swap(p); (old == nil) != (p == nil) {
		if p == nil {
			t.n.Add(-1)
		} else {
			t.n.Add(1)
		}
	}
}

type watchShard struct {
	mu    sync.Mutex
	byKey map[string][]*Watch // by metadata key
}

// Watch detects whether keys have changed since they were added to it: WATCH of Redis. One goroutine uses it.
//
// A key has changed when a commit has written or deleted one of its records (even if the value stays the same), when a
// flush has deleted the key, or when the key existed and it or one of its fields has expired.
type Watch struct {
	db    *DB
	dirty atomic.Bool
	keys  map[string]watchedKey // by metadata key
}

type watchedKey struct {
	live   bool   // the key existed when the watch began
	expire uint64 // see NextEnd
}

// NewWatch returns a watch of no keys; Close ends it.
func (db *DB) NewWatch() *Watch { return &Watch{db: db, keys: map[string]watchedKey{}} }

func (t *watchTable) shard(db *DB, nsKey []byte) *watchShard {
	return &t.shards[db.locks.Name(nsKey)%uint64(len(t.shards))]
}

// Watch adds a key. The transaction must hold its lock, at least for reading, and must not have written anything.
func (tx *Tx) Watch(w *Watch, userKey []byte) error {
	nsKey := tx.NSKey(userKey)
	if _, ok := w.keys[string(nsKey)]; ok {
		return nil
	}
	rec, err := tx.LoadHead(userKey)
	if err != nil {
		return err
	}
	k := watchedKey{live: rec.Exists}
	if rec.Exists {
		k.expire = tx.NextEnd(&rec, math.MaxUint64)
	}
	name := string(nsKey)
	w.keys[name] = k
	s := tx.db.watches.shard(tx.db, nsKey)
	s.mu.Lock()
	if s.byKey == nil {
		s.byKey = map[string][]*Watch{}
	}
	s.byKey[name] = append(s.byKey[name], w)
	s.mu.Unlock()
	tx.db.watches.n.Add(1)
	return nil
}

// LockWatched requests the locks of all keys of the watch, for reading: while they are held the keys do not change.
func (tx *Tx) LockWatched(w *Watch) {
	for k := range w.keys {
		tx.locks.Add(lock.Of(tx.db.locks.Name([]byte(k)), false))
	}
}

// Dirty reports whether a key has been written. It ignores expiries. Any goroutine may call it.
func (w *Watch) Dirty() bool { return w.dirty.Load() }

// Changed reports whether a key has changed.
func (w *Watch) Changed(now int64) bool {
	if w.dirty.Load() {
		return true
	}
	for _, k := range w.keys {
		if k.live && k.expire != 0 && k.expire <= uint64(now) {
			return true
		}
	}
	return false
}

// Any reports whether f accepts one of the watched keys.
func (w *Watch) Any(f func(userKey []byte) bool) bool {
	for k := range w.keys {
		if _, userKey, err := cf.SplitNSKey([]byte(k), w.db.slots); err == nil && f(userKey) {
			return true
		}
	}
	return false
}

// Len returns how many keys are watched.
func (w *Watch) Len() int { return len(w.keys) }

// Close ends the watch.
func (w *Watch) Close() {
	for k := range w.keys {
		s := w.db.watches.shard(w.db, []byte(k))
		s.mu.Lock()
		list := s.byKey[k]
		for j := range list {
			if list[j] == w {
				list[j] = list[len(list)-1]
				list[len(list)-1] = nil
				list = list[:len(list)-1]
				break
			}
		}
		if len(list) == 0 {
			delete(s.byKey, k)
		} else {
			s.byKey[k] = list
		}
		s.mu.Unlock()
	}
	w.db.watches.n.Add(-int64(len(w.keys)))
	clear(w.keys)
	w.dirty.Store(false)
}

// touchWatches marks the watches of the keys that the transaction has committed, and calls the observer. The locks must
// still be held.
func (tx *Tx) touchWatches() {
	t := &tx.db.watches
	var buf, last, all []byte
	var ends []int
	observer := t.observer.Load()
	touch := func(key []byte) {
		if bytes.Equal(key, last) {
			return // a collection of many elements
		}
		last = append(last[:0], key...)
		if observer != nil {
			all = append(all, key...)
			ends = append(ends, len(all))
		}
		t.dirty(tx.db, key)
	}
	for i := range tx.over.ents {
		e := &tx.over.ents[i]
		if e.kind < written {
			continue
		}
		key := tx.over.keyOf(e)
		switch e.id {
		case cf.Metadata:
		case cf.Default, cf.ZSetScore, cf.Stream:
			var err error
			if buf, err = cf.AppendNSKeyOf(buf[:0], key, tx.db.slots); err != nil {
				continue
			}
			key = buf
		default:
			continue
		}
		touch(key)
	}
	for i := range tx.over.ranges {
		r := &tx.over.ranges[i]
		switch r.id {
		case cf.Metadata:
			t.flushed(r.begin, r.end)
			if observer != nil {
				(*observer).Flushed(tx.Origin, r.begin, r.end)
			}
		case cf.Default, cf.ZSetScore, cf.Stream:
			if tx.foreign {
				tx.touchForeign(r, touch)
			}
		}
	}
	if len(ends) > 0 {
		keys := make([][]byte, len(ends))
		from := 0
		for i, end := range ends {
			keys[i] = all[from:end:end]
			from = end
		}
		(*observer).Committed(tx.Origin, keys)
	}
}

// Touch reports a change of a key, if it exists, to its watches and the observer after the commit, although the key is
// not written: a part of it was replaced by an equal one.
func (tx *Tx) Touch(userKey []byte) {
	t := &tx.db.watches
	if t.n.Load() == 0 {
		return
	}
	if rec, err := tx.LoadHead(userKey); err != nil || !rec.Exists {
		return
	}
	nsKey := tx.NSKey(userKey)
	tx.OnCommit(func() {
		t.dirty(tx.db, nsKey)
		if o := t.observer.Load(); o != nil {
			(*o).Committed(tx.Origin, [][]byte{nsKey})
		}
	})
}

// dirty marks the watches of a key.
func (t *watchTable) dirty(db *DB, nsKey []byte) {
	s := t.shard(db, nsKey)
	s.mu.Lock()
	for _, w := range s.byKey[string(nsKey)] {
		w.dirty.Store(true)
	}
	s.mu.Unlock()
}

// flushed marks the watches of keys in the range that existed when their watches began.
func (t *watchTable) flushed(begin, end []byte) {
	t.mark(begin, end, func(w *Watch, key string) bool { return w.keys[key].live })
}

// replaced marks the watches of all keys in the range, and tells the observer, because the records were replaced. end
// nil = no bound.
func (t *watchTable) replaced(begin, end []byte) {
	t.mark(begin, end, func(*Watch, string) bool { return true })
	if o := t.observer.Load(); o != nil {
		if end == nil {
			end = metadataEnd
		}
		(*o).Flushed(nil, begin, end)
	}
}

// mark marks the watches of keys in the range for which changed, called with the watch and the key, returns true. end
// nil = no bound.
func (t *watchTable) mark(begin, end []byte, changed func(w *Watch, key string) bool) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for key, list := range s.byKey {
			if key < string(begin) || end != nil && key >= string(end) {
				continue
			}
			for _, w := range list {
				if changed(w, key) {
					w.dirty.Store(true)
				}
			}
		}
		s.mu.Unlock()
	}
}
