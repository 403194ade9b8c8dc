package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

const ns = cf.DefaultNamespace

var keys = enginetest.Bytes

// setHash writes a hash as the hash type does, with the given fields.
func setHash(t testing.TB, db *engine.DB, key string, fields ...string) {
	t.Helper()
	require.NoError(t, putHash(db, key, fields...))
}

func TestUpdateIsVisibleAfterCommitOnly(t *testing.T) {
	db := enginetest.Open(t)
	fail := errors.New("no")
	if err := db.Update(ns, keys("k"), func(tx *engine.Tx) error {
		rec, _ := tx.Load([]byte("k"), cf.TypeString)
		tx.SaveAppend(&rec, []byte("v"))
		got, _ := tx.Load([]byte("k"), cf.TypeString)
		if !got.Exists || string(got.Tail) != "v" {
			t.Error("the transaction does not see its own write")
		}
		return fail
	}); err != fail {
		t.Fatal(err)
	}
	db.View(ns, keys("k"), func(tx *engine.Tx) error {
		if rec, _ := tx.Load([]byte("k"), cf.TypeString); rec.Exists {
			t.Error("a failed transaction has written")
		}
		return nil
	})
}

// TestOverlayAgainstModel runs random writes, rollbacks and reads in one transaction over a database that
// already has content, and compares point reads, batched reads and iterators of all directions with a map.
func TestOverlayAgainstModel(t *testing.T) {
	db := enginetest.Open(t)
	rng := rand.New(rand.NewPCG(1, 2))
	prefix := []byte("p")
	key := func() []byte { return fmt.Appendf(nil, "p%03d", rng.IntN(60)) }
	model := map[string]string{}
	for round := range 30 {
		tx := db.NewTx()
		tx.Begin(ns)
		defer tx.Release()
		work := map[string]string{}
		maps.Copy(work, model)
		for range 40 {
			mark := tx.Savepoint()
			before := map[string]string{}
			maps.Copy(before, work)
			for range 1 + rng.IntN(4) {
				k := key()
				switch rng.IntN(12) {
				case 0:
					a, b := key(), key()
					if bytes.Compare(a, b) > 0 {
						a, b = b, a
					}
					tx.DeleteRange(cf.Default, a, b)
					for m := range work {
						if m >= string(a) && m < string(b) {
							delete(work, m)
						}
					}
				case 1, 2, 3, 4:
					tx.Delete(cf.Default, k)
					delete(work, string(k))
				default:
					v := fmt.Sprint(rng.IntN(1000))
					tx.Put(cf.Default, k, []byte(v))
					work[string(k)] = v
				}
			}
			if rng.IntN(4) == 0 {
				require.NoError(t, tx.Rollback(mark))
				work = before
			}
			checkReads(t, tx, prefix, work, rng)
		}
		if round%3 != 0 {
			require.NoError(t, tx.Commit())
			model = work
		}
		tx.Release()
	}
}

func checkReads(t *testing.T, tx *engine.Tx, prefix []byte, want map[string]string, rng *rand.Rand) {
	t.Helper()
	var sorted []string
	for k := range want {
		sorted = append(sorted, k)
	}
	slices.Sort(sorted)
	list := new(engine.KeyList)
	for i := range 60 {
		k := fmt.Sprintf("p%03d", i)
		list.Add([]byte(k))
		v, found, err := tx.Get(cf.Default, []byte(k))
		if w, ok := want[k]; err != nil || found != ok || string(v) != w {
			t.Fatalf("Get(%s) = %q %v %v, want %q %v", k, v, found, err, w, ok)
		}
	}
	vals, err := tx.MultiGet(cf.Default, list)
	require.NoError(t, err)
	for i, v := range vals {
		if w, ok := want[fmt.Sprintf("p%03d", i)]; (v != nil) != ok || string(v) != w {
			t.Fatalf("MultiGet %d = %q, want %q %v", i, v, w, ok)
		}
	}
	for _, reverse := range []bool{false, true} {
		skip := rng.IntN(5)
		it := tx.Iter(cf.Default, engine.IterOptions{Prefix: prefix, Reverse: reverse, Skip: uint64(skip)})
		var got []string
		for it.Next() {
			got = append(got, string(prefix)+string(it.Key())+"="+string(it.Value()))
		}
		if it.Err() != nil {
			t.Fatal(it.Err())
		}
		it.Close()
		var exp []string
		for _, k := range sorted {
			exp = append(exp, k+"="+want[k])
		}
		if reverse {
			slices.Reverse(exp)
		}
		exp = exp[min(skip, len(exp)):]
		if !slices.Equal(got, exp) {
			t.Fatalf("reverse %v skip %d:\n got %v\nwant %v", reverse, skip, got, exp)
		}
	}
	if n, err := tx.Count(cf.Default, []byte("p"), []byte("q")); err != nil || int(n) != len(want) {
		t.Fatalf("Count = %d %v, want %d", n, err, len(want))
	}
}

func TestSaveOverwritesInPlaceAndRollsBack(t *testing.T) {
	db := enginetest.Open(t)
	tx := db.NewTx()
	tx.Begin(ns)
	defer tx.Release()
	tx.AddLock([]byte("h"), true)
	tx.Acquire()
	rec, _ := tx.Load([]byte("h"), cf.TypeHash)
	rec.Size = 1
	tx.Save(&rec, nil)
	size := tx.Size()
	mark := tx.Savepoint()
	rec.Size = 2
	tx.Save(&rec, nil)
	if tx.Size() != size {
		t.Errorf("the second Save grew the batch from %d to %d bytes", size, tx.Size())
	}
	if !tx.Wrote(mark) {
		t.Error("Wrote does not see an in-place overwrite")
	}
	require.NoError(t, tx.Rollback(mark))
	if got, _ := tx.Load([]byte("h"), cf.TypeHash); got.Size != 1 {
		t.Errorf("size after the rollback = %d, want 1", got.Size)
	}
}

func TestCommitErrorFailsEveryTransactionOfTheGroup(t *testing.T) {
	db := enginetest.Open(t)
	db.InjectWriteError(errors.New("disk full"))
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			k := fmt.Sprintf("k%d", i)
			err := db.Update(ns, keys(k), func(tx *engine.Tx) error {
				rec, _ := tx.Load([]byte(k), cf.TypeString)
				tx.SaveAppend(&rec, []byte("v"))
				return nil
			})
			if err == nil || !strings.Contains(err.Error(), "disk full") {
				t.Errorf("commit returned %v", err)
			}
		})
	}
	wg.Wait()
	db.InjectWriteError(nil)
	if n, _ := db.Count(ns); n != 0 {
		t.Errorf("%d keys are counted after failed commits", n)
	}
}

// TestConcurrentIncrements has many writers on few keys: no update may be lost.
func TestConcurrentIncrements(t *testing.T) {
	db := enginetest.Open(t)
	const writers, rounds = 16, 200
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range rounds {
				a, b := fmt.Sprint("c", (w+i)%3), fmt.Sprint("c", (w+i+1)%3)
				err := db.Update(ns, keys(a, b), func(tx *engine.Tx) error {
					for _, k := range []string{a, b} {
						rec, err := tx.Load([]byte(k), cf.TypeHash)
						if err != nil {
							return err
						}
						rec.Size++
						tx.Save(&rec, nil)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var sum uint64
	db.View(ns, keys("c0", "c1", "c2"), func(tx *engine.Tx) error {
		for i := range 3 {
			rec, _ := tx.Load(fmt.Append(nil, "c", i), cf.TypeHash)
			sum += rec.Size
		}
		return nil
	})
	if sum != writers*rounds*2 {
		t.Errorf("sum of the counters = %d, want %d", sum, writers*rounds*2)
	}
}

func TestReopenKeepsDataAndCounts(t *testing.T) {
	dir := t.TempDir() + "/db"
	db := enginetest.OpenPlain(t, engine.Options{Dir: dir})
	for i := range 100 {
		setHash(t, db, fmt.Sprint("h", i), "a", "b")
	}
	if _, err := engine.Open(engine.Options{Dir: dir}); !errors.Is(err, engine.ErrLocked) {
		t.Errorf("second open of the same directory: %v", err)
	}
	require.NoError(t, db.Close())
	db = enginetest.OpenWith(t, engine.Options{Dir: dir})
	if n, _ := db.Count(ns); n != 100 {
		t.Errorf("%d keys after reopening, want 100", n)
	}
	require.NoError(t, db.FlushNamespace(ns))
	if n, _ := db.Count(ns); n != 0 {
		t.Errorf("%d keys after FlushNamespace", n)
	}
	setHash(t, db, "again", "x")
	require.NoError(t, db.FlushAll())
	if n, _ := db.Count(ns); n != 0 {
		t.Errorf("%d keys after FlushAll", n)
	}
}
