package keys_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/internal/require"
)

const other = "db3"

// across runs f in a transaction in one namespace that has the locks of a key there and in another one.
func across(db *engine.DB, from, to, key string, f func(tx *engine.Tx) error) error {
	tx := db.NewTx()
	tx.Begin(from)
	defer tx.Release()
	tx.AddLock([]byte(key), true)
	tx.AddLockIn(to, []byte(key), true)
	tx.Acquire()
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// move moves a key and reports whether it was.
func move(t testing.TB, db *engine.DB, from, to, key string) (done bool) {
	t.Helper()
	require.NoError(t, across(db, from, to, key, func(tx *engine.Tx) (err error) {
		done, err = keys.Move(tx, []byte(key), to)
		if tx.Namespace() != from {
			t.Errorf("the transaction is left in %s", tx.Namespace())
		}
		return err
	}))
	return done
}

func wantCounts(t testing.TB, db *engine.DB, inOwn, inOther int64) {
	t.Helper()
	a, _ := db.Count(ns)
	b, _ := db.Count(other)
	if a != inOwn || b != inOther {
		t.Errorf("%d and %d keys counted, want %d and %d", a, b, inOwn, inOther)
	}
}

func TestMoveEveryType(t *testing.T) {
	db := enginetest.Open(t)
	all := everyType(t, db)
	n := int64(len(all))
	for i, key := range all {
		want := show(t, db, key)
		if !move(t, db, ns, other, key) {
			t.Errorf("%s was not moved", key)
		}
		if got := showIn(t, db, other, key); got != want {
			t.Errorf("%s moved: %s, want %s", key, got, want)
		}
		if got := show(t, db, key); got != "-" {
			t.Errorf("%s after it was moved: %s", key, got)
		}
		wantCounts(t, db, n-int64(i)-1, int64(i)+1)
	}
	for _, key := range all {
		want := showIn(t, db, other, key)
		err := across(db, other, ns, key, func(tx *engine.Tx) error {
			_, err := keys.CopyTo(tx, []byte(key), ns, []byte(key), false)
			return err
		})
		if err != nil || show(t, db, key) != want || showIn(t, db, other, key) != want {
			t.Errorf("copy of %s: %s and %s, want %s (%v)", key, show(t, db, key), showIn(t, db, other, key), want, err)
		}
	}
	wantCounts(t, db, n, n)
}

func TestMoveConditions(t *testing.T) {
	db := enginetest.Open(t)
	put(t, db, "a", cf.TypeHash, never, "f")
	put(t, db, "expired", cf.TypeString, 1, "v")
	for _, tt := range []struct {
		key, to string
		done    bool
	}{
		{"missing", other, false}, {"expired", other, false}, {"a", ns, false}, {"a", other, true}, {"a", other, false},
	} {
		seq := db.LatestSequence()
		if done := move(t, db, ns, tt.to, tt.key); done != tt.done {
			t.Errorf("%v: %v", tt, done)
		}
		if !tt.done && db.LatestSequence() != seq {
			t.Errorf("%v has written", tt)
		}
	}
	put(t, db, "a", cf.TypeString, never, "here")
	if move(t, db, ns, other, "a") || move(t, db, other, ns, "a") {
		t.Error("a key that is there was replaced")
	}
	for _, replace := range []bool{false, true} {
		err := across(db, ns, other, "a", func(tx *engine.Tx) error {
			done, err := keys.CopyTo(tx, []byte("a"), other, []byte("a"), replace)
			if done != replace {
				t.Errorf("copy with replace %v: %v", replace, done)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if got := showIn(t, db, other, "a"); !strings.HasSuffix(got, `"here"`) {
		t.Errorf("the copy is %s", got)
	}
	wantCounts(t, db, 1, 1)
}

// TestMoveDoesNotResurrect: what was deleted from a key stays deleted when the key comes back.
func TestMoveDoesNotResurrect(t *testing.T) {
	db := enginetest.Open(t)
	put(t, db, "k", cf.TypeHash, never, "a", "b")
	move(t, db, ns, other, "k")
	require.NoError(t, db.Update(other, list("k"), func(tx *engine.Tx) error {
		rec, err := tx.LoadAny([]byte("k"))
		tx.Delete(cf.Default, tx.Subkey(&rec, []byte("b")))
		rec.Size--
		tx.Save(&rec, nil)
		return err
	}))
	move(t, db, other, ns, "k")
	if got := show(t, db, "k"); strings.Contains(got, `"vb"`) || !strings.Contains(got, `"va"`) {
		t.Errorf("moved and back: %s", got)
	}
}

// TestMoveBatch: the write batch is that of Kvrocks's MOVEX, which is that of RENAME.
func TestMoveBatch(t *testing.T) {
	db := enginetest.Open(t)
	put(t, db, "h", cf.TypeHash, never, "f")
	put(t, db, "z", cf.TypeZSet, never, "a")
	for key, want := range map[string]string{
		"h": "log 2, delete metadata h, put metadata h, put default h f",
		"z": "log 5, delete metadata z, put metadata z, put default z a, put zset_score z \x80\x00\x00\x00\x00\x00\x00\x00a",
	} {
		seq := db.LatestSequence()
		move(t, db, ns, other, key)
		if got := enginetest.LastBatch(t, db, seq+1); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

// TestMoveRolledBack: a transaction that goes back sees and counts what was there before.
func TestMoveRolledBack(t *testing.T) {
	db := enginetest.Open(t)
	put(t, db, "k", cf.TypeHash, never, "a")
	want := show(t, db, "k")
	stop := errors.New("stop")
	err := across(db, ns, other, "k", func(tx *engine.Tx) error {
		count := func(where string, n int64) {
			if got, _ := tx.CountKeys(); got != n {
				t.Errorf("%d keys in %s, want %d", got, where, n)
			}
		}
		mark := tx.Savepoint()
		if _, err := keys.Move(tx, []byte("k"), other); err != nil {
			return err
		}
		count("the old namespace", 0)
		tx.SwitchNamespace(other)
		count("the new namespace", 1)
		if rec, err := tx.LoadAny([]byte("k")); err != nil || string(tx.UserKey(&rec)) != "k" || !rec.Exists {
			t.Errorf("the moved key: %v, %v", rec, err)
		}
		tx.SwitchNamespace(ns)
		if err := tx.Rollback(mark); err != nil {
			return err
		}
		count("the old namespace", 1)
		return stop
	})
	if err != stop || show(t, db, "k") != want || showIn(t, db, other, "k") != "-" {
		t.Errorf("%v: %s, %s", err, show(t, db, "k"), showIn(t, db, other, "k"))
	}
	wantCounts(t, db, 1, 0)
}

// TestLookingLeavesNoCount: namespaces that were only looked at are not kept.
func TestLookingLeavesNoCount(t *testing.T) {
	db := enginetest.Open(t)
	for i := range 10 {
		require.NoError(t, db.View(cf.DatabaseNamespace(i+1), list("k"), func(tx *engine.Tx) error {
			if n, _ := tx.CountKeys(); n != 0 {
				t.Errorf("%d keys", n)
			}
			_, err := tx.LoadAny([]byte("k"))
			return err
		}))
	}
	if all := db.Namespaces(); len(all) != 0 {
		t.Errorf("namespaces %v", all)
	}
}

// TestConcurrentMove: a key that several move to and fro is always in exactly one namespace, whole.
func TestConcurrentMove(t *testing.T) {
	db := enginetest.Open(t)
	put(t, db, "k", cf.TypeZSet, never, "a", "b", "c")
	want := show(t, db, "k")
	spaces := []string{ns, other, "db4"}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for r := range 100 {
				from, to := spaces[(r+w)%3], spaces[(r+w+1+r%2)%3]
				err := across(db, from, to, "k", func(tx *engine.Tx) error {
					_, err := keys.Move(tx, []byte("k"), to)
					return err
				})
				if err != nil {
					t.Error(err)
				}
				tx := db.NewTx()
				tx.Begin(ns)
				for _, s := range spaces {
					tx.AddLockIn(s, []byte("k"), false)
				}
				tx.Acquire()
				var there []string
				for _, s := range spaces {
					tx.SwitchNamespace(s)
					if rec, err := tx.LoadAny([]byte("k")); err != nil {
						t.Error(err)
					} else if rec.Exists {
						there = append(there, s)
					}
				}
				tx.Release()
				if len(there) != 1 {
					t.Errorf("the key is in %v", there)
				}
			}
		})
	}
	wg.Wait()
	sum := int64(0)
	for _, s := range spaces {
		if got := showIn(t, db, s, "k"); got != "-" && got != want {
			t.Errorf("in %s it is %s, want %s", s, got, want)
		}
		n, _ := db.Count(s)
		sum += n
	}
	if sum != 1 {
		t.Errorf("%d keys counted", sum)
	}
}
