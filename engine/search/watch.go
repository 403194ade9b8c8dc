package search

import (
	"bytes"
	"math"
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Watch maintains the entries of the keys that a command writes: it notes the entries before the command, and writes
// the difference after it, in the command's transaction. The zero Watch is ready; it can be reused.
type Watch struct {
	keys []watched
}

// watched is a key that an index covers.
type watched struct {
	ix     *Index
	key    []byte
	before contents
}

// contents is what an index has of a key.
type contents struct {
	entries [][]byte // keys of the search family, sorted
	row     *Row     // nil = the key is not indexed
}

// vector returns the vector that the graph of a field has, nil if none.
func (c *contents) vector(f *Field) []float64 {
	if c.row == nil {
		return nil
	}
	return c.row.Value(f).Vector
}

// Reset forgets the keys.
func (w *Watch) Reset() {
	clear(w.keys)
	w.keys = w.keys[:0]
}

// Before notes the entries of a key of the transaction's namespace. The key must be locked, and stay unchanged until
// After. What has expired still counts: its entries may be there.
func (r *Registry) Before(tx *engine.Tx, w *Watch, key []byte) error {
	for _, ix := range r.load()[tx.Namespace()] {
		if !ix.covers(key) {
			continue
		}
		before, err := ix.contents(tx, key, 0)
		if err != nil {
			return err
		}
		w.keys = append(w.keys, watched{ix, key, before})
	}
	return nil
}

// After writes how the entries of the keys have changed. A change of a vector needs the lock of the index's graphs: it
// fails with a [NeedsLock] if another transaction holds the lock.
func (w *Watch) After(tx *engine.Tx) error {
	for _, k := range w.keys {
		after, err := k.ix.contents(tx, k.key, tx.Now())
		if err != nil {
			return err
		}
		if err := k.ix.update(tx, k.key, &k.before, &after); err != nil {
			return err
		}
	}
	return nil
}

// update writes how the entries of a key have changed. A compaction may have dropped those of a key that had expired,
// and another write those of a field that had expired, so such a key gets all its entries anew.
func (ix *Index) update(tx *engine.Tx, key []byte, before, after *contents) error {
	anew := before.row == nil || before.row.ended
	for _, e := range before.entries {
		if _, found := slices.BinarySearchFunc(after.entries, e, bytes.Compare); !found {
			tx.Delete(cf.Search, e)
		}
	}
	for _, e := range after.entries {
		if _, found := slices.BinarySearchFunc(before.entries, e, bytes.Compare); !found || anew {
			tx.Put(cf.Search, e, nil)
		}
	}
	for _, f := range ix.Fields {
		if !f.hasGraph() {
			continue
		}
		from, to := before.vector(f), after.vector(f)
		if to == nil && from == nil || !anew && to != nil && slices.EqualFunc(from, to, sameBits) {
			continue
		}
		if err := ix.lockGraphs(tx); err != nil {
			return err
		}
		g, err := ix.graph(tx, nil, f)
		if err != nil {
			return err
		}
		// A batch of a server with the same index has changed its graph already: another insertion would draw other
		// levels and make other edges, which the next batch does not know.
		switch node, err := g.readOne(0, string(key)); {
		case err != nil:
			return err
		case node == nil && to == nil, node != nil && to != nil && slices.EqualFunc(node.vector, to, sameBits):
			continue
		}
		// The graph may have the node of a key that a compaction has removed.
		if err := g.remove(string(key)); err != nil {
			return err
		}
		if to != nil {
			if err := g.insert(string(key), to); err != nil {
				return err
			}
		}
	}
	return nil
}

func sameBits(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

func (f *Field) hasGraph() bool { return f.Type == cf.SearchVector && !f.NoIndex }

// NeedsLock is the error of a change that needs the lock of a key, for writing, that another transaction holds. The
// transaction must be rolled back; the change succeeds in one that holds the lock from its beginning.
//
// The key is not a user's: it names the graphs of an index. A user's key of the same name has the same lock, which
// changes nothing but who waits for whom.
type NeedsLock struct {
	Namespace string
	Key       []byte
}

func (e *NeedsLock) Error() string { return "another client changes the vectors of the index" }

func (ix *Index) graphLock() []byte {
	return engine.GraphLock(ix.Namespace, []byte(ix.Name))
}

// lockGraphs takes the lock of the index's graphs, until the end of the transaction.
//
// An insertion reads and writes records of many keys: nodes, their edges, the number of levels. The lock makes each
// transaction that changes a graph see all that is committed of the graph, and keeps others out until its own changes
// are committed. It is taken only by changes of vectors, late, and without waiting, so there are no deadlocks. Queries
// do not need it: they read a snapshot, in which every change is complete, because it is one write batch.
func (ix *Index) lockGraphs(tx *engine.Tx) error {
	if key := ix.graphLock(); !tx.TryLockIn(ix.Namespace, key, true) {
		return &NeedsLock{ix.Namespace, key}
	}
	return nil
}

// GraphLocks returns the keys of the locks that changes of keys may need, see [NeedsLock].
func (r *Registry) GraphLocks(ns string, keys [][]byte) (locks [][]byte) {
	for _, ix := range r.load()[ns] {
		if ix.hasGraphs() && slices.ContainsFunc(keys, ix.covers) {
			locks = append(locks, ix.graphLock())
		}
	}
	return locks
}

// contents returns what the index has of a key, as of a time.
func (ix *Index) contents(tx *engine.Tx, key []byte, now int64) (c contents, err error) {
	rows, err := ix.rows(tx, nil, now, [][]byte{key})
	if err != nil || len(rows) == 0 {
		return c, err
	}
	c.row = &rows[0]
	for i, f := range ix.Fields {
		v := &c.row.Values[i]
		if f.NoIndex || !v.Exists {
			continue
		}
		switch f.Type {
		case cf.SearchTag:
			for _, tag := range v.Tags {
				c.entries = append(c.entries, cf.AppendSearchTag(ix.fieldData(f), f.TagKey(tag), key))
			}
		case cf.SearchNumeric:
			c.entries = append(c.entries, cf.AppendSearchNumeric(ix.fieldData(f), v.Num, key))
		}
	}
	slices.SortFunc(c.entries, bytes.Compare)
	c.entries = slices.CompactFunc(c.entries, bytes.Equal)
	return c, nil
}
