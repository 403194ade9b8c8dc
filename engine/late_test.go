package engine_test

import (
	"fmt"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// lateCount is more than the subkeys that a transaction indexes at once.
const lateCount = 3000

func lateSub(i int) []byte { return fmt.Appendf(nil, "member:%06d", i) }

// putLate makes a new version of a set with lateCount members.
func putLate(tx *engine.Tx, key []byte) engine.Record {
	rec := tx.Fresh(key, cf.TypeSet)
	for i := range lateCount {
		tx.PutSubkey(&rec, cf.Default, tx.Subkey(&rec, lateSub(i)), lateSub(i))
	}
	rec.Size = lateCount
	tx.Save(&rec, nil)
	return rec
}

// checkLate reads the members in every way. Those of which gone is true must not be found.
func checkLate(t *testing.T, tx *engine.Tx, rec *engine.Record, gone func(i int) bool) {
	t.Helper()
	live := 0
	keys := tx.Keys()
	for i := range lateCount {
		value, found, err := tx.Get(cf.Default, tx.Subkey(rec, lateSub(i)))
		require.NoError(t, err)
		if found == gone(i) || found && string(value) != string(lateSub(i)) {
			t.Fatalf("member %d: %q, %v", i, value, found)
		}
		keys.Add(tx.Subkey(rec, lateSub(i)))
		if found {
			live++
		}
	}
	values, err := tx.MultiGet(cf.Default, keys)
	require.NoError(t, err)
	for i, v := range values {
		if (v == nil) != gone(i) {
			t.Fatalf("member %d of a batched read: %q", i, v)
		}
	}
	it := tx.Iter(cf.Default, engine.IterOptions{Prefix: tx.SubkeyPrefix(rec)})
	defer it.Close()
	n := 0
	for ; it.Next(); n++ {
		if string(it.Key()) != string(it.Value()) {
			t.Fatalf("%q has the value %q", it.Key(), it.Value())
		}
	}
	require.NoError(t, it.Err())
	if n != live {
		t.Fatalf("the iterator returned %d members of %d", n, live)
	}
}

// Subkeys that are written late are seen by the transaction, are dropped by a rollback, and after the commit by others,
// also where the record cache had the old value.
func TestLateSubkeys(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("set")
	none := func(int) bool { return false }
	odd := func(i int) bool { return i%2 == 1 }
	update := func(f func(tx *engine.Tx, rec *engine.Record)) {
		t.Helper()
		require.NoError(t, db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error {
			rec, err := tx.Load(key, cf.TypeSet)
			f(tx, &rec)
			return err
		}))
	}
	update(func(tx *engine.Tx, _ *engine.Record) {
		rec := putLate(tx, key)
		checkLate(t, tx, &rec, none)
		again := putLate(tx, key)
		tx.DeleteRange(cf.Default, tx.SubkeyPrefix(&again), append(tx.Subkey(&again, nil), 0xff))
		checkLate(t, tx, &again, func(int) bool { return true })
		putLate(tx, key)
	})
	for range 2 { // the second time from the record cache
		update(func(tx *engine.Tx, rec *engine.Record) { checkLate(t, tx, rec, none) })
	}
	remove := func(tx *engine.Tx, rec *engine.Record) {
		for i := range lateCount {
			if odd(i) {
				tx.DeleteSubkey(cf.Default, tx.Subkey(rec, lateSub(i)))
			}
		}
		rec.Size = lateCount / 2
		tx.Save(rec, nil)
	}
	update(func(tx *engine.Tx, rec *engine.Record) {
		mark := tx.Savepoint()
		remove(tx, rec)
		require.NoError(t, tx.Rollback(mark))
		checkLate(t, tx, rec, none)
		remove(tx, rec)
	})
	update(func(tx *engine.Tx, rec *engine.Record) {
		checkLate(t, tx, rec, odd)
		remove(tx, rec)
		for i := range lateCount { // writes again what was deleted late
			tx.Put(cf.Default, tx.Subkey(rec, lateSub(i)), lateSub(i))
		}
		checkLate(t, tx, rec, none)
	})
	update(func(tx *engine.Tx, rec *engine.Record) { checkLate(t, tx, rec, none) })
}
