package keys

import (
	"fmt"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// ErrSwapSize is returned by Swap when the two namespaces have too much data.
var ErrSwapSize = engine.NewError("ERR",
	"the databases are too large to be exchanged: their keys lie on disk under their numbers and are written anew")

// Swap exchanges all keys of two namespaces, including their expiries. The caller must hold all locks, see
// [engine.Tx.AcquireAll]. It fails with [ErrSwapSize] as soon as the batch has more than most bytes. After an error the
// transaction must be rolled back.
//
// All records of all keys are written again, in one batch behind two range tombstones. Then Swap calls after, which may
// write more for the new keys and calls full meanwhile; nil = nothing.
func Swap(tx *engine.Tx, one, other string, most int, after func(full func() error) error) error {
	spaces := [2]string{one, other}
	var all [2]*engine.Iter // of what is there before the tombstones
	for i, ns := range spaces {
		all[i] = tx.Iter(cf.Metadata, engine.IterOptions{Prefix: cf.AppendNSPrefix(nil, ns), NoFill: true})
		defer all[i].Close()
	}
	for _, ns := range spaces {
		if err := tx.InNamespace(ns, tx.FlushNamespace); err != nil {
			return err
		}
	}
	full := func() error {
		if tx.Size() > most {
			return ErrSwapSize
		}
		return tx.BatchError()
	}
	for i, it := range all {
		for it.Next() {
			if err := rewrite(tx, it, spaces[i], spaces[1-i], full); err != nil {
				return err
			}
		}
		if err := it.Err(); err != nil {
			return err
		}
	}
	if after != nil {
		if err := after(full); err != nil {
			return err
		}
	}
	return full()
}

// rewrite writes the key of a metadata record of a namespace into another namespace.
func rewrite(tx *engine.Tx, it *engine.Iter, from, to string, full func() error) error {
	key := it.Key()
	if tx.DB().Slots() {
		key = key[min(2, len(key)):]
	}
	meta, tail, err := cf.DecodeMeta(it.Value())
	switch {
	case err != nil:
		return fmt.Errorf("key %q: %w", key, err)
	case !meta.Live(tx.Now()):
		return nil
	}
	if err := full(); err != nil {
		return err
	}
	var src engine.Record
	tx.InNamespace(from, func() error { src = tx.Fresh(key, meta.Type); return nil })
	src.Meta, src.Tail, src.Exists = meta, tail, true
	if err := copyable(tx, &src); err != nil {
		return err
	}
	logType(tx, &src)
	return tx.InNamespace(to, func() error { return write(tx, &src, key, true, full) })
}
