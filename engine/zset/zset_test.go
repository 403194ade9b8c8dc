package zset_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/zset"
	"github.com/basaltdb/basalt/internal/require"
)

func update(t testing.TB, db *engine.DB, key string, f func(tx *engine.Tx) error) {
	t.Helper()
	require.NoError(t, db.Update(ns, [][]byte{[]byte(key)}, f))
}

func TestWrongType(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("s")
	update(t, db, "s", func(tx *engine.Tx) error {
		rec := tx.Fresh(key, cf.TypeString)
		tx.SaveAppend(&rec, []byte("v"))
		return nil
	})
	none := func([]byte, float64) {}
	for name, f := range map[string]func(tx *engine.Tx) error{
		"Card":        func(tx *engine.Tx) error { _, err := zset.Card(tx, key); return err },
		"Score":       func(tx *engine.Tx) error { _, _, err := zset.Score(tx, key, key); return err },
		"Scores":      func(tx *engine.Tx) error { return zset.Scores(tx, key, [][]byte{key}, func(float64, bool) {}) },
		"Add":         func(tx *engine.Tx) error { _, _, err := zset.Add(tx, key, 0, pairs(1.0, "a")); return err },
		"Incr":        func(tx *engine.Tx) error { _, _, err := zset.Incr(tx, key, 0, key, 1); return err },
		"Remove":      func(tx *engine.Tx) error { _, err := zset.Remove(tx, key, [][]byte{key}); return err },
		"RemoveRange": func(tx *engine.Tx) error { _, err := zset.RemoveRange(tx, key, &zset.Query{}); return err },
		"Pop":         func(tx *engine.Tx) error { return zset.Pop(tx, key, 1, false, none) },
		"Range":       func(tx *engine.Tx) error { return zset.Range(tx, key, &zset.Query{}, none) },
		"Count":       func(tx *engine.Tx) error { _, err := zset.Count(tx, key, zset.AllScores); return err },
		"LexCount":    func(tx *engine.Tx) error { _, err := zset.LexCount(tx, key, zset.AllMembers); return err },
		"Rank":        func(tx *engine.Tx) error { _, _, _, err := zset.Rank(tx, key, key, false); return err },
		"Open":        func(tx *engine.Tx) error { _, err := zset.Open(tx, [][]byte{key}); return err },
		"Random": func(tx *engine.Tx) error {
			return zset.Random(tx, key, 1, false, func([]byte, float64) bool { return true })
		},
		"RandomDistinct": func(tx *engine.Tx) error { return zset.RandomDistinct(tx, key, 1, false, none) },
	} {
		if err := db.Update(ns, [][]byte{key}, f); !errors.Is(err, engine.ErrWrongType) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestIncrementToNaN(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("z")
	update(t, db, "z", func(tx *engine.Tx) error {
		_, _, err := zset.Add(tx, key, 0, pairs(math.Inf(1), "a"))
		return err
	})
	err := db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error {
		_, _, err := zset.Incr(tx, key, 0, []byte("a"), math.Inf(-1))
		return err
	})
	if !errors.Is(err, zset.ErrNaN) {
		t.Errorf("inf - inf: %v", err)
	}
}

// TestMinusZeroOfKvrocks reads and changes a score of -0, which Kvrocks stores as it is.
func TestMinusZeroOfKvrocks(t *testing.T) {
	db := enginetest.Open(t)
	key, minus := []byte("z"), math.Copysign(0, -1)
	update(t, db, "z", func(tx *engine.Tx) error {
		rec := tx.Fresh(key, cf.TypeZSet)
		for _, m := range []string{"a", "b"} {
			tx.Put(cf.Default, tx.Subkey(&rec, []byte(m)), cf.AppendDouble(nil, minus))
			tx.Put(cf.ZSetScore, tx.ScoreKey(&rec, minus, []byte(m)), nil)
		}
		rec.Size = 2
		tx.Save(&rec, nil)
		return nil
	})
	zero := zset.ScoreRange{Min: 0, Max: 0}
	open := zset.ScoreRange{Min: 0, Max: 1, MinOpen: true}
	below := zset.ScoreRange{Min: -1, Max: 0, MaxOpen: true}
	update(t, db, "z", func(tx *engine.Tx) error {
		for r, want := range map[zset.ScoreRange]uint64{zero: 2, open: 0, below: 0, {Min: minus, Max: minus}: 2} {
			if n, err := zset.Count(tx, key, r); err != nil || n != want {
				t.Errorf("Count(%+v) = %d, %v, want %d", r, n, err, want)
			}
		}
		if _, _, err := zset.Add(tx, key, 0, pairs(0.0, "c", 3.0, "a")); err != nil {
			return err
		}
		_, err := zset.Remove(tx, key, [][]byte{[]byte("b")})
		return err
	})
	db.View(ns, [][]byte{key}, func(tx *engine.Tx) error {
		check(t, tx, key, model{"c": 0, "a": 3})
		return nil
	})
}

// TestConcurrentWriters has many goroutines add, remove and pop on few keys while others read; at the end both
// families agree, and so does the number of members.
func TestConcurrentWriters(t *testing.T) {
	db := enginetest.Open(t)
	var keys [][]byte
	for i := range 3 {
		keys = append(keys, fmt.Appendf(nil, "z%d", i))
	}
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			g := maker{rand.New(rand.NewPCG(3, uint64(w))), 200, false}
			for range 150 {
				key := keys[g.IntN(len(keys))]
				fail := g.IntN(10) == 0
				stop := errors.New("stop")
				err := db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error {
					mark := tx.Savepoint()
					var err error
					switch g.IntN(5) {
					case 0, 1, 2:
						entries := []zset.Entry{{Member: []byte(g.member()), Score: g.score()},
							{Member: []byte(g.member()), Score: g.score()}}
						_, _, err = zset.Add(tx, key, 0, entries)
					case 3:
						_, err = zset.Remove(tx, key, [][]byte{[]byte(g.member()), []byte(g.member())})
					case 4:
						err = zset.Pop(tx, key, 1, g.IntN(2) == 0, func([]byte, float64) {})
					}
					if err == nil && fail {
						if err = tx.Rollback(mark); err == nil {
							err = stop
						}
					}
					return err
				})
				if err != nil && err != stop {
					t.Error(err)
				}
				err = db.View(ns, [][]byte{key}, func(tx *engine.Tx) error {
					size, err := zset.Card(tx, key)
					if err != nil {
						return err
					}
					n := uint64(0)
					err = zset.Range(tx, key, &zset.Query{Start: 0, Stop: -1, Reverse: g.IntN(2) == 0}, func([]byte, float64) { n++ })
					if n != size {
						t.Errorf("%d members in a set of %d", n, size)
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	db.View(ns, keys, func(tx *engine.Tx) error {
		for _, key := range keys {
			consistent(t, tx, key)
		}
		return nil
	})
}

// TestPopsDoNotScanTombstones pops 20,000 members one by one. Without the bounds that the engine remembers, each
// pop would pass over all tombstones of those before it; MaxSkip of a scan from the bound shows that it need not.
func TestPopsDoNotScanTombstones(t *testing.T) {
	for _, highest := range []bool{false, true} {
		db := enginetest.Open(t)
		key := []byte("z")
		const n = 5000
		fill(t, db, key, n)
		next := 0
		for range n / 2 {
			update(t, db, "z", func(tx *engine.Tx) error {
				return zset.Pop(tx, key, 1, highest, func(_ []byte, score float64) {
					want := float64(next)
					if highest {
						want = n - 1 - want
					}
					if score != want {
						t.Fatalf("popped %v, want %v", score, want)
					}
					next++
				})
			})
		}
		db.View(ns, [][]byte{key}, func(tx *engine.Tx) error {
			rec, err := tx.Load(key, cf.TypeZSet)
			if err != nil {
				return err
			}
			o := engine.IterOptions{Prefix: tx.SubkeyPrefix(&rec), Reverse: highest, Limit: 1, MaxSkip: 4}
			o.Lower, o.Upper = tx.Bounds(&rec, o.Prefix)
			it := tx.Iter(cf.ZSetScore, o)
			defer it.Close()
			if !it.Next() {
				t.Errorf("highest %v: a scan from the bound passes over tombstones: %v", highest, it.Err())
			}
			return nil
		})
	}
}

func TestSingleMemberWritesDoNotAllocate(t *testing.T) {
	db := enginetest.Open(t)
	key, member := []byte("z"), []byte("m")
	entries := pairs(1.0, "a")
	tx := db.NewTx()
	defer tx.Release()
	tx.Begin(ns)
	tx.AddLock(key, true)
	tx.Acquire()
	if _, _, err := zset.Add(tx, key, 0, pairs(1.0, "a", 2.0, "b")); err != nil {
		t.Fatal(err)
	}
	var err error
	score := 0.0
	if n := testing.AllocsPerRun(20, func() {
		score++
		entries[0].Score = score
		if _, _, e := zset.Add(tx, key, 0, entries); e != nil {
			err = e
		}
		if _, _, e := zset.Incr(tx, key, 0, member, 1); e != nil {
			err = e
		}
		if _, _, e := zset.Score(tx, key, member); e != nil {
			err = e
		}
	}); n > 1 { // the write batch and the overlay grow now and then
		t.Errorf("%v allocations", n)
	}
	require.NoError(t, err)
}
