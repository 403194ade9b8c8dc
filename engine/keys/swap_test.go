package keys_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/internal/require"
)

// swap exchanges ns and other.
func swap(db *engine.DB, most int) error {
	tx := db.NewTx()
	tx.Begin(ns)
	defer tx.Release()
	if err := tx.AcquireAll(); err != nil {
		return err
	}
	if err := keys.Swap(tx, ns, other, most, nil); err != nil {
		return err
	}
	return tx.Commit()
}

// TestSwap: keys of every type that one namespace has, or the other one, or both; afterwards each has what the other
// one had, and after a second time its own again. Nothing comes back in a compaction.
func TestSwap(t *testing.T) {
	db := enginetest.Open(t)
	all := everyType(t, db)
	for i, key := range all {
		if i%3 > 0 {
			move(t, db, ns, other, key)
		}
		if i%3 == 2 { // in both
			put(t, db, key, cf.TypeHash, 1<<41, "field")
		}
	}
	for i, space := range []string{other, ns} {
		put(t, db, "long", cf.TypeString, never, strings.Repeat("ab"[i:i+1], 10000))
		if space == other {
			move(t, db, ns, other, "long")
		}
	}
	all = append(all, "long")
	put(t, db, "expired", cf.TypeString, 1, "v")
	look := func() (here, there []string) {
		for _, key := range all {
			here, there = append(here, showIn(t, db, ns, key)), append(there, showIn(t, db, other, key))
		}
		return here, there
	}
	here, there := look()
	inOwn, _ := db.Count(ns)
	inOther, _ := db.Count(other)
	for round := range 2 {
		require.NoError(t, swap(db, 1<<20))
		here, there, inOwn, inOther = there, here, inOther, inOwn
		require.NoError(t, db.CompactNamespace(""))
		gotHere, gotThere := look()
		for i, key := range all {
			if gotHere[i] != here[i] || gotThere[i] != there[i] {
				t.Errorf("round %d, %s: %s and %s, want %s and %s", round, key, gotHere[i], gotThere[i], here[i],
					there[i])
			}
		}
		wantCounts(t, db, inOwn, inOther)
	}
}

// TestSwapRefused: what cannot be exchanged changes nothing.
func TestSwapRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		typ  cf.Type
		want error
	}{
		{"a long string", cf.TypeString, keys.ErrSwapSize},
		{"a long collection", cf.TypeSet, keys.ErrSwapSize},
		{"a type of a newer version", 15, keys.ErrBound},
	} {
		db := enginetest.Open(t)
		put(t, db, "a", cf.TypeString, never, "v")
		put(t, db, "b", tt.typ, never, strings.Repeat("x", 5000), strings.Repeat("y", 5000))
		seq := db.LatestSequence()
		if err := swap(db, 4000); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
		if db.LatestSequence() != seq {
			t.Errorf("%s: something was written", tt.name)
		}
	}
	db := enginetest.Open(t)
	put(t, db, strings.Repeat("k", 5000), cf.TypeString, never, "v")
	if err := swap(db, 4000); !errors.Is(err, keys.ErrSwapSize) {
		t.Errorf("a long name: %v", err)
	}
}

// TestCopyTooLarge: a copy that cannot be committed ends while the batch is small.
func TestCopyTooLarge(t *testing.T) {
	db := enginetest.Open(t)
	put(t, db, "k", cf.TypeSet, never, strings.Repeat("x", 5000), strings.Repeat("y", 5000), strings.Repeat("z", 5000))
	db.SetMaxBatchBytes(4000)
	err := db.Update(ns, list("k", "l"), func(tx *engine.Tx) error {
		_, err := keys.Copy(tx, []byte("k"), []byte("l"), false)
		if tx.Size() > 15000 { // one of the three members
			t.Errorf("the batch has %d bytes", tx.Size())
		}
		return err
	})
	if !errors.Is(err, engine.ErrBatchSize) {
		t.Error(err)
	}
}
