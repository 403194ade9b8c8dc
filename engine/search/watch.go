package search

import (
	"bytes"
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
	before [][]byte // keys of the search family, sorted
}

// Reset forgets the keys.
func (w *Watch) Reset() {
	clear(w.keys)
	w.keys = w.keys[:0]
}

// Before notes the entries of a key of the transaction's namespace. The key must be locked, and stay unchanged until
// After. What has expired still counts: its entries are there.
func (r *Registry) Before(tx *engine.Tx, w *Watch, key []byte) error {
	for _, ix := range r.load()[tx.Namespace()] {
		if !ix.covers(key) {
			continue
		}
		before, err := ix.entries(tx, key, 0)
		if err != nil {
			return err
		}
		w.keys = append(w.keys, watched{ix, key, before})
	}
	return nil
}

// After writes how the entries of the keys have changed.
func (w *Watch) After(tx *engine.Tx) error {
	for _, k := range w.keys {
		after, err := k.ix.entries(tx, k.key, tx.Now())
		if err != nil {
			return err
		}
		for _, e := range k.before {
			if _, found := slices.BinarySearchFunc(after, e, bytes.Compare); !found {
				tx.Delete(cf.Search, e)
			}
		}
		for _, e := range after {
			if _, found := slices.BinarySearchFunc(k.before, e, bytes.Compare); !found {
				tx.Put(cf.Search, e, nil)
			}
		}
	}
	return nil
}

// entries returns the keys of the entries of a user key, as of a time, sorted and each once. A key that is not there
// has none.
func (ix *Index) entries(tx *engine.Tx, key []byte, now int64) ([][]byte, error) {
	rows, err := ix.rows(tx, nil, now, [][]byte{key})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	var list [][]byte
	for i, f := range ix.Fields {
		v := &rows[0].Values[i]
		if f.NoIndex || !v.Exists {
			continue
		}
		switch f.Type {
		case cf.SearchTag:
			for _, tag := range v.Tags {
				list = append(list, cf.AppendSearchTag(ix.fieldData(f), f.tagKey(tag), key))
			}
		case cf.SearchNumeric:
			list = append(list, cf.AppendSearchNumeric(ix.fieldData(f), v.Num, key))
		}
	}
	slices.SortFunc(list, bytes.Compare)
	return slices.CompactFunc(list, bytes.Equal), nil
}
