package zset_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/zset"
	"github.com/basaltdb/basalt/internal/require"
)

// outside is a database that gets the writes of another one as batches, in both ways in which they come.
type outside struct {
	db   *engine.DB
	last uint64 // the last sequence number of the other one that it has
}

// take applies what the other database has written since.
func (o *outside) take(t *testing.T, from *engine.DB) error {
	t.Helper()
	u, err := from.UpdatesAfter(o.last, engine.UpdatesLimit{Batches: 1 << 20, Bytes: 1 << 30})
	require.NoError(t, err)
	o.last = u.Last
	return o.apply(u.Batches...)
}

// apply applies batches: a replica together, any other server one by one as APPLYBATCH does.
func (o *outside) apply(reps ...[]byte) error {
	var updates []*engine.ExternalBatch
	for _, rep := range reps {
		if o.db.IsReplica() {
			b, err := o.db.CheckUpdate(rep)
			if err != nil {
				return err
			}
			updates = append(updates, b)
		} else if err := o.applyOne(rep); err != nil {
			return err
		}
	}
	_, err := o.db.ApplyUpdates(updates, false, nil, nil)
	return err
}

func (o *outside) applyOne(rep []byte) error {
	b, err := o.db.CheckBatch(rep)
	if err != nil {
		return err
	}
	tx := o.db.NewTx()
	tx.Begin(ns)
	defer tx.Release()
	if err := tx.AcquireFor(b); err != nil {
		return err
	}
	if err := tx.Apply(b); err != nil {
		return err
	}
	return tx.Commit()
}

// TestRanksFollowBatches: the counts of a set stay, and stay right, while batches of another server change it. They go
// when a batch may have come to nothing, and when it deletes a range of entries.
func TestRanksFollowBatches(t *testing.T) {
	for _, replica := range []bool{false, true} {
		t.Run(fmt.Sprint("replica ", replica), func(t *testing.T) {
			key, n := []byte("z"), 3000
			from := enginetest.Open(t)
			o := outside{db: enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Replica: replica})}
			fill(t, from, key, n)
			require.NoError(t, o.take(t, from))
			warm(t, o.db, key, n)
			var made any
			view(t, o.db, key, func(tx *engine.Tx) { made = zset.RanksOf(tx, key) })
			rng := rand.New(rand.NewPCG(1, 2))
			first := 0
			add := func(tx *engine.Tx, i int, score float64) {
				_, _, err := zset.Add(tx, key, 0, []zset.Entry{{Member: fmt.Appendf(nil, "m%08d", i), Score: score}})
				require.NoError(t, err)
			}
			for range 100 {
				update(t, from, "z", func(tx *engine.Tx) error {
					for range 1 + rng.IntN(5) {
						add(tx, first+n, float64(first+n))
						n++
					}
					i := first + rng.IntN(n) // away and back in one batch
					add(tx, i, 1e6)
					add(tx, i, float64(i))
					return zset.Pop(tx, key, uint64(1+rng.IntN(4)), false, func([]byte, float64) { first, n = first+1, n-1 })
				})
				if rng.IntN(3) > 0 {
					continue // several batches in one write
				}
				require.NoError(t, o.take(t, from))
				view(t, o.db, key, func(tx *engine.Tx) { checkRanks(t, tx, key, first, n) })
			}
			view(t, o.db, key, func(tx *engine.Tx) {
				if zset.RanksOf(tx, key) != made || !zset.Ranked(tx, key) {
					t.Error("the counts are gone")
				}
			})

			// Kvrocks puts entries that exist, and deletes others that do not.
			var b batch.Builder
			view(t, o.db, key, func(tx *engine.Tx) {
				rec, err := tx.Load(key, cf.TypeZSet)
				require.NoError(t, err)
				b.Put(cf.ZSetScore, tx.ScoreKey(&rec, float64(first), fmt.Appendf(nil, "m%08d", first)), nil)
				b.Delete(cf.ZSetScore, tx.ScoreKey(&rec, 1e6, []byte("none")))
			})
			require.NoError(t, o.apply(b.Bytes()))
			view(t, o.db, key, func(tx *engine.Tx) {
				if !zset.Ranked(tx, key) {
					t.Error("the counts are gone")
				}
				checkRanks(t, tx, key, first, n)
			})

			// A batch that moves a member, and is never committed.
			update(t, from, "z", func(tx *engine.Tx) error { add(tx, first, 1e6); return nil })
			o.db.InjectWriteError(errors.New("disk full"))
			if err := o.take(t, from); err == nil {
				t.Error("the write has not failed")
			}
			o.db.InjectWriteError(nil)
			view(t, o.db, key, func(tx *engine.Tx) {
				if zset.Ranked(tx, key) {
					t.Error("the counts are still there")
				}
				checkRanks(t, tx, key, first, n)
			})
			warm(t, o.db, key, 2*first+n)

			b.Reset()
			view(t, o.db, key, func(tx *engine.Tx) {
				rec, err := tx.Load(key, cf.TypeZSet)
				require.NoError(t, err)
				at := tx.ScoreKey(&rec, 1e6, []byte("none"))
				b.DeleteRange(cf.ZSetScore, at, append(at[:len(at):len(at)], 0))
			})
			require.NoError(t, o.apply(b.Bytes()))
			view(t, o.db, key, func(tx *engine.Tx) {
				if zset.Ranked(tx, key) {
					t.Error("the counts are still there")
				}
				checkRanks(t, tx, key, first, n)
			})
		})
	}
}
