package hash_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/internal/require"
)

// expiringText shows what EachExpiring tells.
func expiringText(tx *engine.Tx, key []byte) (string, error) {
	var b strings.Builder
	err := hash.EachExpiring(tx, key, func(e hash.Expiring) {
		fmt.Fprintf(&b, "%d %d %d:", e.Fields, e.Expiring,
			e.First)
	},
		func(field, value []byte, expire uint64) { fmt.Fprintf(&b, " %s=%s@%d", field, value, expire) })
	return b.String(), err
}

// TestRestore makes hashes of fields with and without an expiry, some of which have passed.
func TestRestore(t *testing.T) {
	const late = 1 << 45
	db := enginetest.Open(t)
	for _, tt := range []struct {
		name    string
		expires []uint64 // of the fields a, b, c
		want    string
	}{
		{"none", []uint64{0, 0, 0}, "3 0 0: a=1@0 b=2@0 c=3@0"},
		{"some", []uint64{late + 5, 0, late}, fmt.Sprintf("3 2 %d: a=1@%d b=2@0 c=3@%d", late, late+5, late)},
		{"all", []uint64{late, late, late}, fmt.Sprintf("3 3 %d: a=1@%d b=2@%d c=3@%d", late, late, late, late)},
		{"one has passed", []uint64{1, 0, late}, fmt.Sprintf("2 1 %d: b=2@0 c=3@%d", late, late)},
		{"those that expire have passed", []uint64{1, 0, 2}, "1 0 0: b=2@0"},
		{"all have passed", []uint64{1, 2, 3}, "0 0 0:"},
	} {
		key := []byte(tt.name)
		update(t, db, key, func(tx *engine.Tx) error {
			return hash.Restore(tx, key, raw("a", "1", "b", "2", "c", "3"),
				tt.expires)
		})
		view(t, db, key, func(tx *engine.Tx) error {
			got, err := expiringText(tx, key)
			if got != tt.want {
				t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
			}
			rec, e := tx.LoadAny(key)
			if rec.Exists != (tt.want[0] != '0') || e != nil {
				t.Errorf("%s: exists %v, %v", tt.name, rec.Exists, e)
			}
			return err
		})
	}
}

// TestRestoredIsSound goes on working with restored hashes: the numbers in the metadata must fit.
func TestRestoredIsSound(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	db := enginetest.Open(t)
	for round := range 30 {
		key := fmt.Append(nil, round)
		n := 1 + r.IntN(40)
		var pairs [][]byte
		expires := make([]uint64, n)
		for i := range expires {
			pairs = append(pairs, raw(fmt.Sprintf("f%02d", i), "v")...)
			expires[i] = []uint64{0, 1, 1<<45 + r.Uint64N(5)}[r.IntN(3)]
		}
		live := uint64(0)
		for _, at := range expires {
			if at != 1 {
				live++
			}
		}
		update(t, db, key, func(tx *engine.Tx) error { return hash.Restore(tx, key, pairs, expires) })
		for i, at := range expires {
			update(t, db, key, func(tx *engine.Tx) error {
				if got, err := hash.Len(tx, key); got != live || err != nil {
					t.Fatalf("%d fields, want %d, %v", got, live, err)
				}
				deleted, err := hash.Delete(tx, key, pairs[2*i:2*i+1])
				if (deleted == 1) != (at != 1) {
					t.Errorf("field %d with the expiry %d: %d deleted", i, at, deleted)
				}
				live -= uint64(deleted)
				return err
			})
		}
		view(t, db, key, func(tx *engine.Tx) error {
			rec, err := tx.LoadAny(key)
			if rec.Exists {
				t.Errorf("there is still something: %+v", rec.Meta)
			}
			return err
		})
	}
}

func TestEachExpiringCorrupt(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("h")
	update(t, db, key, func(tx *engine.Tx) error {
		return hash.Restore(tx, key, raw("a", "1"), []uint64{1 << 45})
	})
	update(t, db, key, func(tx *engine.Tx) error {
		rec, err := tx.LoadAny(key)
		tx.Put(cf.Default, tx.Subkey(&rec, []byte("a")), []byte("short"))
		return err
	})
	view(t, db, key, func(tx *engine.Tx) error {
		if text, err := expiringText(tx, key); err == nil || !strings.Contains(err.Error(), `key "h": field "a"`) {
			t.Errorf("%s, %v", text, err)
		}
		return nil
	})
	require.NoError(t, db.Update(ns, [][]byte{[]byte("set")}, func(tx *engine.Tx) error {
		rec := tx.Fresh([]byte("set"), cf.TypeSet)
		rec.Size = 1
		tx.Save(&rec, nil)
		return nil
	}))
	view(t, db, []byte("set"), func(tx *engine.Tx) error {
		if _, err := expiringText(tx, []byte("set")); err != engine.ErrWrongType {
			t.Errorf("a set: %v", err)
		}
		return nil
	})
}
