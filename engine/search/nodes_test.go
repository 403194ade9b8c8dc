package search_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/derived"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/engine/search"
	"github.com/basaltdb/basalt/internal/require"
)

// openBounded opens a database that may keep so many bytes of derived state.
func openBounded(t testing.TB, bytes int64) fixture {
	db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", DerivedState: bytes})
	return fixture{t, db, search.Open(db, func(text string) { t.Log(text) })}
}

// checkNodes compares the nodes in memory with the records, as of a new snapshot.
func (f fixture) checkNodes(gone ...string) (kept, all int) {
	f.Helper()
	enginetest.View(f, f.db, nil, func(tx *engine.Tx) (err error) {
		snap := f.db.NewSnapshot()
		defer snap.Close()
		kept, all, err = f.r.CheckNodes(tx, snap, "i", "v", gone...)
		return err
	})
	return kept, all
}

// records returns the records of the search family.
func (f fixture) records() map[string]string {
	all := map[string]string{}
	enginetest.View(f, f.db, nil, func(tx *engine.Tx) error {
		it := tx.Iter(cf.Search, engine.IterOptions{})
		defer it.Close()
		for it.Next() {
			all[string(it.Key())] = string(it.Value())
		}
		return it.Err()
	})
	return all
}

var errUndone = errors.New("undone")

// step is a random change of a graph; the same for all databases.
type step struct {
	seed  uint64
	kind  int
	names []string
	vecs  []string
}

func newStep(g *rand.Rand, names []string) step {
	s := step{seed: g.Uint64(), kind: g.IntN(20)}
	for range 1 + g.IntN(1+g.IntN(8)) {
		s.names = append(s.names, names[g.IntN(len(names))])
		v := randomVector(g, 3)
		if g.IntN(10) == 0 {
			v[g.IntN(3)] = []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1)}[g.IntN(4)]
		}
		s.vecs = append(s.vecs, blob(v...))
	}
	return s
}

// run makes the change.
func (s step) run(f fixture, on cf.SearchVectorParams) {
	f.Helper()
	search.DrawLevels(s.seed)
	at := 0
	change := func(tx *engine.Tx, key []byte) (err error) {
		if at++; at%4 == 0 {
			_, err = keys.Del(tx, key)
		} else {
			_, err = hash.Set(tx, key, enginetest.Bytes("v", s.vecs[at%len(s.vecs)]))
		}
		return err
	}
	switch {
	case s.kind == 0: // the index is dropped and made again
		require.NoError(f, f.update(nil, true, func(tx *engine.Tx) error { return f.r.Drop(tx, "i") }))
		f.createVectors(cf.TypeHash, on)
	case s.kind == 1: // all keys are deleted
		require.NoError(f, f.update(nil, true, func(tx *engine.Tx) error {
			f.r.Flush(tx, ns)
			return tx.FlushNamespace()
		}))
	case s.kind == 2:
		f.db.DropCaches()
	case s.kind == 3: // a transaction that is never committed
		err := f.update(enginetest.Bytes(s.names...), false, func(tx *engine.Tx) error {
			for _, name := range s.names {
				if err := f.one(tx, []byte(name), change); err != nil {
					return err
				}
			}
			return errUndone
		})
		if err != errUndone {
			f.Fatal(err)
		}
	case s.kind == 4: // a rollback of the second half
		require.NoError(f, f.update(enginetest.Bytes(s.names...), false, func(tx *engine.Tx) error {
			var mark engine.Mark
			for i, name := range s.names {
				if i == len(s.names)/2 {
					mark = tx.Savepoint()
				}
				if err := f.one(tx, []byte(name), change); err != nil {
					return err
				}
			}
			if err := tx.Rollback(mark); err != nil {
				return err
			}
			if _, _, err := f.r.CheckNodes(tx, nil, "i", "v", s.names...); err != nil {
				return err
			}
			return f.one(tx, []byte(s.names[0]), change)
		}))
	default:
		f.each(s.names, func(tx *engine.Tx, key []byte) error {
			if _, _, err := f.r.CheckNodes(tx, nil, "i", "v", s.names...); err != nil {
				return err
			}
			return change(tx, key)
		})
	}
}

// TestNodesInMemory: a graph whose nodes are in memory, all or some of them, has the same records after any changes as
// one that is read from the records, the nodes in memory are those of the records, and searches find the same.
func TestNodesInMemory(t *testing.T) {
	rounds := 120
	if testing.Short() {
		rounds = 40
	}
	for _, metric := range []uint8{search.MetricL2, search.MetricIP, search.MetricCosine} {
		t.Run(fmt.Sprint(metric), func(t *testing.T) {
			g := rand.New(rand.NewPCG(uint64(metric), 5))
			var names []string
			for i := range 60 {
				names = append(names, fmt.Sprint("k", i*i*i)) // of several lengths
			}
			direct, whole, some := openBounded(t, -1), openBounded(t, 16<<20), openBounded(t, 8<<10)
			on := cf.SearchVectorParams{Dim: 3, M: 3, EFConstruction: 20, EFRuntime: 10, Metric: metric}
			for _, f := range []fixture{direct, whole, some} {
				f.createVectors(cf.TypeHash, on)
			}
			used, nodes := [2]int{}, 0
			for range rounds {
				s, v, k := newStep(g, names), randomVector(g, 3), 1+g.IntN(20)
				s.run(direct, on)
				records, near := direct.records(), direct.knn(k, v)
				for i, f := range []fixture{whole, some} {
					s.run(f, on)
					kept, all := f.checkNodes(names...)
					got := f.records()
					for key, value := range records {
						if have, ok := got[key]; !ok || have != value {
							t.Fatalf("%+v: record %q: %q, %v, want %q", s, key, have, ok, value)
						}
					}
					if len(got) != len(records) {
						t.Fatalf("%+v: %d records, want %d", s, len(got), len(records))
					}
					if found := f.knn(k, v); fmt.Sprint(found) != fmt.Sprint(near) {
						t.Fatalf("%+v: found %q, want %q", s, found, near)
					}
					if used[i] += kept; i == 0 {
						nodes += all
					}
				}
			}
			if used[1] == 0 || used[1] >= used[0] || used[0] < nodes*3/4 {
				t.Errorf("of %d nodes %d were in a large memory, %d in a small one", nodes, used[0], used[1])
			}
			direct.graph()
		})
	}
}

// TestNodesOfManyClients: while clients change a graph, in transactions some of which fail, the nodes in memory as of a
// snapshot are those of its records.
func TestNodesOfManyClients(t *testing.T) {
	rounds := 150
	if testing.Short() {
		rounds = 40
	}
	for _, bytes := range []int64{16 << 20, 24 << 10} {
		f := openBounded(t, bytes)
		search.DrawLevels(1)
		f.createVectors(cf.TypeHash, cf.SearchVectorParams{Dim: 3, M: 3, EFConstruction: 20, EFRuntime: 10})
		var names []string
		for i := range 100 {
			names = append(names, fmt.Sprint("k", i))
		}
		var clients sync.WaitGroup
		var writing atomic.Int32
		for w := range 3 {
			writing.Add(1)
			clients.Go(func() {
				defer writing.Add(-1)
				g := rand.New(rand.NewPCG(uint64(w), 11))
				for range rounds {
					some := names[:0:0]
					for range 1 + g.IntN(4) {
						some = append(some, names[g.IntN(len(names))])
					}
					fails := g.IntN(5) == 0
					err := f.update(enginetest.Bytes(some...), false, func(tx *engine.Tx) error {
						for _, name := range some {
							err := f.one(tx, []byte(name), func(tx *engine.Tx, key []byte) (err error) {
								if g.IntN(5) == 0 {
									_, err = keys.Del(tx, key)
								} else {
									_, err = hash.Set(tx, key, enginetest.Bytes("v", blob(randomVector(g, 3)...)))
								}
								return err
							})
							if err != nil {
								return err
							}
						}
						if fails {
							return errUndone
						}
						return nil
					})
					if err != nil && err != errUndone {
						t.Error(err)
						return
					}
				}
			})
		}
		for r := range 2 {
			clients.Go(func() {
				g := rand.New(rand.NewPCG(uint64(r), 12))
				for writing.Load() > 0 {
					f.knn(5, randomVector(g, 3)) // keeps what it reads
					tx := f.db.NewTx()
					tx.Begin(ns)
					snap := f.db.NewSnapshot()
					for range 3 { // while the graph changes
						if _, _, err := f.r.CheckNodes(tx, snap, "i", "v", names...); err != nil {
							t.Error(err)
							break
						}
					}
					snap.Close()
					tx.Release()
				}
			})
		}
		clients.Wait()
		f.knn(5, []float64{0, 0, 0})
		if kept, _ := f.checkNodes(names...); kept == 0 {
			t.Error("no node is in memory")
		}
		f.graph()
	}
}

// TestNodesOfAReplica: the nodes in memory of a replica follow the batches of its master.
func TestNodesOfAReplica(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 60
	}
	f := openBounded(t, 16<<20)
	copied := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Replica: true, DerivedState: 16 << 20})
	replica := fixture{t, copied, search.Open(copied, func(text string) { t.Log(text) })}
	follow := func() {
		t.Helper()
		for {
			updates, err := f.db.UpdatesAfter(copied.LatestSequence(), engine.UpdatesLimit{Batches: 100, Bytes: 1 << 20})
			require.NoError(t, err)
			if len(updates.Batches) == 0 {
				replica.r.Reload()
				return
			}
			for _, rep := range updates.Batches {
				b, err := copied.CheckUpdate(rep)
				if err == nil {
					_, err = copied.ApplyUpdates([]*engine.ExternalBatch{b}, true, nil, nil)
				}
				require.NoError(t, err)
			}
		}
	}
	on := cf.SearchVectorParams{Dim: 3, M: 3, EFConstruction: 20, EFRuntime: 10}
	f.createVectors(cf.TypeHash, on)
	follow()
	var names []string
	for i := range 60 {
		names = append(names, fmt.Sprint("k", i))
	}
	g := rand.New(rand.NewPCG(1, 13))
	found := 0
	for range rounds {
		newStep(g, names).run(f, on)
		follow()
		kept, _ := replica.checkNodes(names...)
		found += kept
		v := randomVector(g, 3)
		if got, want := replica.knn(5, v), f.knn(5, v); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("found %q, the master finds %q", got, want)
		}
	}
	if st := copied.Derived().Stats()[derived.Nodes]; found == 0 || st.Hits == 0 || st.Misses == 0 || st.Bytes == 0 {
		t.Errorf("%d nodes were in memory, %+v", found, st)
	}
}

// TestSearchesInMemory: a search of a graph that was written since the start reads no node from the records.
func TestSearchesInMemory(t *testing.T) {
	f := openBounded(t, 16<<20)
	search.DrawLevels(1)
	f.createVectors(cf.TypeHash, cf.SearchVectorParams{Dim: 3, M: 3})
	g := rand.New(rand.NewPCG(1, 14))
	for i := range 100 {
		f.hset(fmt.Sprint("k", i), "v", blob(randomVector(g, 3)...))
	}
	before := f.db.Derived().Stats()[derived.Nodes]
	for range 20 {
		f.knn(5, randomVector(g, 3))
	}
	after := f.db.Derived().Stats()[derived.Nodes]
	if after.Hits == before.Hits || after.Misses != before.Misses || after.Entries < 100 {
		t.Errorf("before %+v, after %+v", before, after)
	}
}
