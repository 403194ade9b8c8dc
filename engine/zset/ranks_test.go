package zset_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/zset"
	"github.com/basaltdb/basalt/internal/require"
)

// warm asks for ranks in the middle of a set until its counts are in the cache.
func warm(t testing.TB, db *engine.DB, key []byte, n int) {
	t.Helper()
	for range 5 {
		view(t, db, key, func(tx *engine.Tx) {
			if _, _, _, err := zset.Rank(tx, key, fmt.Appendf(nil, "m%08d", n/2), false); err != nil {
				t.Fatal(err)
			}
		})
	}
	view(t, db, key, func(tx *engine.Tx) {
		if !zset.Ranked(tx, key) {
			t.Fatal("the set is not in the rank cache")
		}
	})
}

func view(t testing.TB, db *engine.DB, key []byte, f func(tx *engine.Tx)) {
	t.Helper()
	require.NoError(t, db.View(ns, [][]byte{key}, func(tx *engine.Tx) error {
		f(tx)
		return nil
	}))
}

// checkRanks compares some ranks, deep ranges and counts with those of a set whose scores are first, first+1, ...
func checkRanks(t *testing.T, tx *engine.Tx, key []byte, first, n int) {
	t.Helper()
	for _, i := range []int{0, 1, n / 3, n / 2, n - 2, n - 1} {
		if i < 0 || i >= n {
			continue
		}
		member := fmt.Appendf(nil, "m%08d", first+i)
		for _, reverse := range []bool{false, true} {
			want := i
			if reverse {
				want = n - 1 - i
			}
			rank, _, found, err := zset.Rank(tx, key, member, reverse)
			if err != nil || !found || int(rank) != want {
				t.Fatalf("rank of %s (reverse %v) = %d, %v, %v, want %d", member, reverse, rank, found, err, want)
			}
			got := -1
			q := zset.Query{Start: int64(want), Stop: int64(want), Reverse: reverse}
			err = zset.Range(tx, key, &q, func(_ []byte, score float64) { got = int(score) })
			if err != nil || got != first+i {
				t.Fatalf("member at %d (reverse %v) = %d, %v, want %d", want, reverse, got, err, first+i)
			}
		}
		r := zset.ScoreRange{Min: float64(first), Max: float64(first + i), MaxOpen: true}
		if got, err := zset.Count(tx, key, r); err != nil || int(got) != i {
			t.Fatalf("Count = %d, %v, want %d", got, err, i)
		}
	}
}

func TestRankCacheFollowsWrites(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("z")
	n := 3000
	fill(t, db, key, n)
	warm(t, db, key, n)
	var made any
	view(t, db, key, func(tx *engine.Tx) { made = zset.RanksOf(tx, key) })
	// Members are added behind the last one until its block must be split, and popped in front.
	first := 0
	for range 40 {
		update(t, db, "z", func(tx *engine.Tx) error {
			for range 50 {
				if _, _, err := zset.Add(tx, key, 0, []zset.Entry{{Member: fmt.Appendf(nil, "m%08d", first+n),
					Score: float64(first + n)}}); err != nil {
					return err
				}
				n++
			}
			checkRanks(t, tx, key, first, n)
			err := zset.Pop(tx, key, 30, false, func([]byte, float64) { first, n = first+1, n-1 })
			checkRanks(t, tx, key, first, n)
			return err
		})
		view(t, db, key, func(tx *engine.Tx) { checkRanks(t, tx, key, first, n) })
	}
	// Changed scores move members between blocks.
	update(t, db, "z", func(tx *engine.Tx) error {
		for i := range 200 {
			member := fmt.Appendf(nil, "m%08d", first+i*7)
			for _, score := range []float64{1e6, float64(first + i*7)} {
				if _, _, err := zset.Add(tx, key, 0, []zset.Entry{{Member: member, Score: score}}); err != nil {
					return err
				}
			}
		}
		checkRanks(t, tx, key, first, n)
		return nil
	})
	view(t, db, key, func(tx *engine.Tx) {
		if zset.RanksOf(tx, key) != made {
			t.Error("the entries were counted again")
		}
		if !zset.Ranked(tx, key) {
			t.Error("the set has left the cache")
		}
		if blocks, biggest := zset.Blocks(tx, key); biggest > 320 || blocks < 20 {
			t.Errorf("%d blocks, the biggest has %d entries", blocks, biggest)
		}
	})
	// A removed range in the middle empties whole blocks.
	update(t, db, "z", func(tx *engine.Tx) error {
		_, err := zset.RemoveRange(tx, key, &zset.Query{Start: 1000, Stop: -1})
		n = 1000
		return err
	})
	view(t, db, key, func(tx *engine.Tx) { checkRanks(t, tx, key, first, n) })
}

// TestRanksBeyondABuffer asks for all deep ranks of a set whose entries do not fit the buffer of an iterator, so that
// blocks begin at the end of one buffer and go on in the next.
func TestRanksBeyondABuffer(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("z")
	const n = 20000
	fill(t, db, key, n)
	warm(t, db, key, n)
	view(t, db, key, func(tx *engine.Tx) {
		tx.KeepLocks()
		for want := n / 4; want < n*3/4; want += 7 {
			got := -1
			q := zset.Query{Start: int64(want), Stop: int64(want)}
			if err := zset.Range(tx, key, &q, func(_ []byte, score float64) { got = int(score) }); err != nil || got != want {
				t.Fatalf("member at %d = %d, %v", want, got, err)
			}
		}
	})
}

// TestRanksOfALargeSet changes a set of several thousand members at random and compares ranks, short ranges and counts
// with a sorted slice. The sizes of the registry leave room for all entries, for some of them, and for nothing.
func TestRanksOfALargeSet(t *testing.T) {
	for name, c := range map[string]struct {
		size    int64
		kept    bool // entries can be kept
		members int
	}{
		"room for all":  {16 << 20, true, 4000},
		"room for some": {256 << 10, true, 4000},
		"no room":       {4 << 10, false, 3000},
	} {
		t.Run(name, func(t *testing.T) {
			db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", DerivedState: c.size})
			key := []byte("z")
			r := rand.New(rand.NewPCG(6, 6))
			m := rankModel{scores: map[string]float64{}}
			member := func() []byte { return fmt.Appendf(nil, "member%d", r.IntN(2*c.members)) }
			update(t, db, "z", func(tx *engine.Tx) error {
				for range c.members {
					if err := m.add(tx, key, member(), float64(r.IntN(1000))); err != nil {
						return err
					}
				}
				return nil
			})
			most := 0
			for range 150 {
				update(t, db, "z", func(tx *engine.Tx) error {
					for range r.IntN(20) {
						if err := m.change(tx, key, r, member()); err != nil {
							return err
						}
					}
					if r.IntN(2) == 0 { // a transaction reads its own writes
						m.check(t, tx, key, r)
					}
					return nil
				})
				view(t, db, key, func(tx *engine.Tx) {
					tx.KeepLocks()
					m.check(t, tx, key, r)
					kept, bytes := zset.Kept(tx, key)
					if most = max(most, kept); int64(bytes) > c.size/4 {
						t.Errorf("the state has %d bytes, at most %d are allowed", bytes, c.size/4)
					}
				})
			}
			if (most > 0) != c.kept {
				t.Errorf("the entries of up to %d blocks were kept", most)
			}
			if d := db.Derived(); d.Used() > d.Limit() {
				t.Errorf("%d bytes of derived state, at most %d are allowed", d.Used(), d.Limit())
			}
		})
	}
}

// rankModel is a plain model of a sorted set.
type rankModel struct {
	scores map[string]float64
	sorted []zset.Entry // nil = out of date
}

func (m *rankModel) add(tx *engine.Tx, key, member []byte, score float64) error {
	m.scores[string(member)], m.sorted = score, nil
	_, _, err := zset.Add(tx, key, 0, []zset.Entry{{Member: member, Score: score}})
	return err
}

// change makes a random change; most set the score of the member.
func (m *rankModel) change(tx *engine.Tx, key []byte, r *rand.Rand, member []byte) error {
	switch r.IntN(20) {
	case 0, 1:
		delete(m.scores, string(member))
		m.sorted = nil
		_, err := zset.Remove(tx, key, [][]byte{member})
		return err
	case 2:
		return zset.Pop(tx, key, 3, r.IntN(2) == 0, func(member []byte, _ float64) {
			delete(m.scores, string(member))
			m.sorted = nil
		})
	case 3: // a hot score, whose block must be split
		for i := range 40 {
			if err := m.add(tx, key, fmt.Appendf(nil, "hot%d", r.IntN(4000)+i), 500.5); err != nil {
				return err
			}
		}
		return nil
	case 4: // a range, whose blocks become empty
		all := m.entries()
		from := r.IntN(len(all) - 40)
		for _, e := range all[from : from+40] {
			delete(m.scores, string(e.Member))
		}
		m.sorted = nil
		_, err := zset.RemoveRange(tx, key, &zset.Query{Start: int64(from), Stop: int64(from + 39)})
		return err
	}
	by := float64(r.IntN(100))
	m.scores[string(member)] += by
	m.sorted = nil
	_, _, err := zset.Incr(tx, key, 0, member, by)
	return err
}

// entries returns the members in the order of their ranks.
func (m *rankModel) entries() []zset.Entry {
	if m.sorted == nil {
		for member, score := range m.scores {
			m.sorted = append(m.sorted, zset.Entry{Member: []byte(member), Score: score})
		}
		slices.SortFunc(m.sorted, func(a, b zset.Entry) int {
			return cmp.Or(cmp.Compare(a.Score, b.Score), bytes.Compare(a.Member, b.Member))
		})
	}
	return m.sorted
}

// check compares some ranks, ranges by rank and counts.
func (m *rankModel) check(t *testing.T, tx *engine.Tx, key []byte, r *rand.Rand) {
	t.Helper()
	all := m.entries()
	for range 20 {
		i := r.IntN(len(all))
		if rank, score, found, err := zset.Rank(tx, key, all[i].Member, false); err != nil || !found || int(rank) != i ||
			score != all[i].Score {
			t.Fatalf("rank of %s = %d, %v, %v, %v, want %d", all[i].Member, rank, score, found, err, i)
		}
		n := min(r.IntN(200), len(all)-i)
		for _, reverse := range []bool{false, true} {
			q := zset.Query{Start: int64(i), Stop: int64(i + n - 1), Reverse: reverse}
			want := slices.Clone(all[i : i+n])
			if reverse {
				q.Start, q.Stop = int64(len(all)-i-n), int64(len(all)-i-1)
				slices.Reverse(want)
			}
			got, err := zset.RangeEntries(tx, key, &q)
			if n > 0 && (err != nil || !slices.EqualFunc(got, want, func(a, b zset.Entry) bool {
				return a.Score == b.Score && bytes.Equal(a.Member, b.Member)
			})) {
				t.Fatalf("range %+v = %v, %v, want %v", q, got, err, want)
			}
		}
		scores := zset.ScoreRange{Min: all[i].Score, Max: all[min(i+n, len(all)-1)].Score, MaxOpen: true}
		want := 0
		for _, e := range all {
			if e.Score >= scores.Min && e.Score < scores.Max {
				want++
			}
		}
		if got, err := zset.Count(tx, key, scores); err != nil || int(got) != want {
			t.Fatalf("count of %+v = %d, %v, want %d", scores, got, err, want)
		}
	}
}

// TestLongMembersAreNotKept asks for ranks in a set whose blocks have more bytes than a block that is kept may have.
func TestLongMembersAreNotKept(t *testing.T) {
	db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", DerivedState: 64 << 20})
	key := []byte("z")
	const n = 1500
	update(t, db, "z", func(tx *engine.Tx) error {
		entries := make([]zset.Entry, n)
		for i := range entries {
			entries[i] = zset.Entry{Member: fmt.Appendf(nil, "m%08d%4096d", i, 0), Score: float64(i)}
		}
		return zset.Store(tx, key, entries)
	})
	var made any
	for i := range n {
		view(t, db, key, func(tx *engine.Tx) {
			rank, _, found, err := zset.Rank(tx, key, fmt.Appendf(nil, "m%08d%4096d", i, 0), false)
			if err != nil || !found || int(rank) != i {
				t.Fatalf("rank %d = %d, %v, %v", i, rank, found, err)
			}
			if i == n*2/3 {
				made = zset.RanksOf(tx, key)
			}
		})
	}
	view(t, db, key, func(tx *engine.Tx) {
		if kept, bytes := zset.Kept(tx, key); kept > 0 || !zset.Ranked(tx, key) {
			t.Errorf("%d blocks are kept, of %d bytes", kept, bytes)
		}
		if zset.RanksOf(tx, key) != made {
			t.Error("the entries were counted again")
		}
	})
}

// TestNothingIsKeptWithoutTheLock asks for a rank after the lock was given back: entries that are read then may have
// changed since.
func TestNothingIsKeptWithoutTheLock(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("z")
	const n = 3000
	fill(t, db, key, n)
	warm(t, db, key, n)
	view(t, db, key, func(tx *engine.Tx) {
		before, _ := zset.Kept(tx, key)
		tx.ReadsDone()
		for i := 100; i < n; i += 100 {
			rank, _, _, err := zset.Rank(tx, key, fmt.Appendf(nil, "m%08d", i), false)
			if err != nil || int(rank) != i {
				t.Errorf("rank %d = %d, %v", i, rank, err)
			}
		}
		if after, _ := zset.Kept(tx, key); after != before {
			t.Errorf("%d blocks are kept, before %d", after, before)
		}
	})
}

// TestRankCacheIsDroppedOnDoubt makes the counts wrong, or might have, in every way in which a write can come to
// nothing.
func TestRankCacheIsDroppedOnDoubt(t *testing.T) {
	const n = 2000
	key := []byte("z")
	// The size stays as it is, so nothing but the doubt can show that the counts are wrong.
	move := func(tx *engine.Tx) error {
		_, _, err := zset.Add(tx, key, 0, []zset.Entry{{Member: []byte("m00000000"), Score: n}})
		return err
	}
	for name, f := range map[string]func(db *engine.DB) error{
		"rollback": func(db *engine.DB) error {
			return db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error {
				mark := tx.Savepoint()
				if err := move(tx); err != nil {
					return err
				}
				if err := tx.Rollback(mark); err != nil {
					return err
				}
				// Asked only once, so that the counts are not made anew.
				rank, _, found, err := zset.Rank(tx, key, []byte("m00001000"), false)
				if err != nil || !found || rank != 1000 {
					t.Errorf("rank = %d, %v, %v", rank, found, err)
				}
				return nil
			})
		},
		"failed commit": func(db *engine.DB) error {
			db.InjectWriteError(errors.New("disk full"))
			defer db.InjectWriteError(nil)
			if err := db.Update(ns, [][]byte{key}, move); err == nil || !strings.Contains(err.Error(), "disk full") {
				return fmt.Errorf("the commit returned %v", err)
			}
			return nil
		},
		"a new set under the same key": func(db *engine.DB) error {
			err := db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error {
				rec, err := tx.Load(key, cf.TypeZSet)
				if err == nil {
					tx.Drop(&rec)
				}
				return err
			})
			if err == nil {
				fill(t, db, key, n)
			}
			return err
		},
		"stored over": func(db *engine.DB) error {
			return db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error {
				entries, err := zset.RangeEntries(tx, key, &zset.Query{Start: 0, Stop: -1})
				return errors.Join(err, zset.Store(tx, key, entries))
			})
		},
		"flushed": func(db *engine.DB) error {
			if err := db.FlushAll(); err != nil {
				return err
			}
			fill(t, db, key, n)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			db := enginetest.Open(t)
			fill(t, db, key, n)
			warm(t, db, key, n)
			require.NoError(t, f(db))
			view(t, db, key, func(tx *engine.Tx) {
				if zset.Ranked(tx, key) {
					t.Error("the counts are still in the cache")
				}
				checkRanks(t, tx, key, 0, n)
			})
			warm(t, db, key, n)
			view(t, db, key, func(tx *engine.Tx) { checkRanks(t, tx, key, 0, n) })
		})
	}
}

// TestRankCacheMakesUpForWrites writes between the moment at which the entries to be counted are fixed and that at
// which they are counted.
func TestRankCacheMakesUpForWrites(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("z")
	const n = 2000
	fill(t, db, key, n)
	tx := db.NewTx()
	tx.Begin(ns)
	tx.AddLock(key, false)
	tx.Acquire()
	finish, err := zset.BeginRanks(tx, key)
	require.NoError(t, err)
	tx.ReadsDone()
	update(t, db, "z", func(tx *engine.Tx) error {
		if err := zset.Pop(tx, key, 500, false, func([]byte, float64) {}); err != nil {
			return err
		}
		for i := n; i < n+400; i++ {
			if _, _, err := zset.Add(tx, key, 0, []zset.Entry{{Member: fmt.Appendf(nil, "m%08d", i),
				Score: float64(i)}}); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, finish())
	tx.Release()
	view(t, db, key, func(tx *engine.Tx) {
		if !zset.Ranked(tx, key) {
			t.Error("the counts are wrong")
		}
		checkRanks(t, tx, key, 500, n-100)
	})
}

// TestRankCacheIsFilledDuringWrites lets readers ask for ranks, and so fill and drop counts, while writers change
// the set; now and then a writer rolls back.
func TestRankCacheIsFilledDuringWrites(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("z")
	const n = 3000
	fill(t, db, key, n)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for r := range 3 {
		readers.Go(func() {
			rng := rand.New(rand.NewPCG(4, uint64(r)))
			for {
				select {
				case <-stop:
					return
				default:
				}
				view(t, db, key, func(tx *engine.Tx) {
					tx.KeepLocks() // both answers are those of one moment
					size, err := zset.Card(tx, key)
					if err != nil {
						t.Error(err)
						return
					}
					at := rng.IntN(int(size))
					q := zset.Query{Start: int64(at), Stop: int64(at), Reverse: rng.IntN(2) == 0}
					found, err := zset.RangeEntries(tx, key, &q)
					if err != nil || len(found) != 1 {
						t.Errorf("%v at rank %d of %d, %v", found, at, size, err)
						return
					}
					rank, score, ok, err := zset.Rank(tx, key, found[0].Member, q.Reverse)
					if err != nil || !ok || int(rank) != at || score != found[0].Score {
						t.Errorf("rank of %v = %d, %v, %v, %v, want %d", found[0], rank, score, ok, err, at)
					}
				})
			}
		})
	}
	for w := range 2 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(5, uint64(w)))
			for range 400 {
				update(t, db, "z", func(tx *engine.Tx) error {
					mark := tx.Savepoint()
					i := rng.IntN(n)
					entries := []zset.Entry{{Member: fmt.Appendf(nil, "m%08d", i), Score: float64(rng.IntN(n))},
						{Member: fmt.Appendf(nil, "n%d", rng.IntN(n)), Score: float64(rng.IntN(n))}}
					if _, _, err := zset.Add(tx, key, 0, entries); err != nil {
						return err
					}
					if rng.IntN(50) == 0 {
						return tx.Rollback(mark)
					}
					return nil
				})
			}
		})
	}
	wg.Wait()
	close(stop)
	readers.Wait()
	view(t, db, key, func(tx *engine.Tx) { consistent(t, tx, key) })
	// Whatever the cache holds now must agree with a plain count.
	warm(t, db, key, n)
	view(t, db, key, func(tx *engine.Tx) {
		rank := uint64(0)
		err := zset.Range(tx, key, &zset.Query{Start: 0, Stop: -1}, func(member []byte, _ float64) {
			if rank%97 == 0 {
				got, _, _, err := zset.Rank(tx, key, member, false)
				if err != nil || got != rank {
					t.Errorf("rank of %q = %d, %v, want %d", member, got, err, rank)
				}
			}
			rank++
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// TestRanksOfSmallSets adds and removes members of sets whose members are counted one by one, and asks for all ranks.
func TestRanksOfSmallSets(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("z")
	r := rand.New(rand.NewPCG(3, 3))
	have := map[string]float64{}
	for round := range 300 {
		update(t, db, "z", func(tx *engine.Tx) error {
			for range r.IntN(6) {
				member := fmt.Appendf(nil, "m%d", r.IntN(60))
				if r.IntN(3) == 0 {
					delete(have, string(member))
					if _, err := zset.Remove(tx, key, [][]byte{member}); err != nil {
						return err
					}
					continue
				}
				have[string(member)] = float64(r.IntN(8)) // many are equal
				if _, _, err := zset.Add(tx, key, 0, []zset.Entry{{Member: member, Score: have[string(member)]}}); err != nil {
					return err
				}
			}
			return nil
		})
		view(t, db, key, func(tx *engine.Tx) {
			tx.KeepLocks()
			for member, score := range have {
				want := 0
				for other, s := range have {
					if s < score || s == score && other < member {
						want++
					}
				}
				got, _, found, err := zset.Rank(tx, key, []byte(member), false)
				if err != nil || !found || int(got) != want {
					t.Fatalf("round %d: rank of %s = %d, %v, %v, want %d", round, member, got, found, err, want)
				}
			}
			if blocks, _ := zset.Blocks(tx, key); len(have) > 3 && blocks != len(have) {
				t.Fatalf("round %d: %d members in %d blocks", round, len(have), blocks)
			}
		})
	}
}

// TestRanksAreBounded asks for ranks in more sets than there is memory for.
func TestRanksAreBounded(t *testing.T) {
	db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", DerivedState: 64 << 10})
	entries := make([]zset.Entry, 100)
	for i := range entries {
		entries[i] = zset.Entry{Member: fmt.Appendf(nil, "m%08d", i), Score: float64(i)}
	}
	const sets = 300
	ranked := 0
	for i := range sets {
		key := fmt.Appendf(nil, "z%d", i)
		update(t, db, string(key), func(tx *engine.Tx) error { return zset.Store(tx, key, entries) })
		for range 3 {
			view(t, db, key, func(tx *engine.Tx) {
				if rank, _, _, err := zset.Rank(tx, key, []byte("m00000060"), false); err != nil || rank != 60 {
					t.Fatal(rank, err)
				}
			})
		}
	}
	for i := range sets {
		key := fmt.Appendf(nil, "z%d", i)
		view(t, db, key, func(tx *engine.Tx) {
			if zset.Ranked(tx, key) {
				ranked++
			}
		})
	}
	d := db.Derived()
	if ranked < 10 || ranked > 100 || d.Used() > d.Limit() {
		t.Errorf("%d of %d sets are ranked, %d bytes of %d", ranked, sets, d.Used(), d.Limit())
	}
}

// TestSmallSetsPassNoTombstones changes scores of a small set again and again, and counts the deleted entries that
// reads pass then.
func TestSmallSetsPassNoTombstones(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("z")
	const members, changes = 100, 2000
	score := func(member, change int) float64 { return float64((member*7919 + change*104729) % 10007) }
	have := make([]zset.Entry, members)
	change := func(n int) {
		update(t, db, "z", func(tx *engine.Tx) error {
			for i := range have {
				have[i] = zset.Entry{Member: fmt.Appendf(nil, "m%03d", i), Score: score(i, n)}
			}
			_, _, err := zset.Add(tx, key, 0, have)
			return err
		})
	}
	read := func(tx *engine.Tx) {
		for _, q := range []zset.Query{
			{Start: 0, Stop: 9},
			{Start: 0, Stop: 9, Reverse: true},
			{By: zset.ByScore, Score: zset.ScoreRange{Min: 1000, Max: 9000}, Count: 10},
		} {
			got, err := zset.RangeEntries(tx, key, &q)
			if err != nil || len(got) != 10 {
				t.Fatalf("%+v: %v, %v", q, got, err)
			}
		}
		if _, err := zset.Count(tx, key, zset.ScoreRange{Min: 1000, Max: 9000}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range changes / members {
		change(n)
		view(t, db, key, read)
	}
	view(t, db, key, func(tx *engine.Tx) {
		tx.KeepLocks()
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		stop := engine.ProfileThread()
		read(tx)
		if perf, _ := stop(); strings.Contains(perf, "internal_delete_skipped_count") {
			t.Errorf("reads have passed tombstones: %s", perf)
		}
		slices.SortFunc(have, func(a, b zset.Entry) int {
			return cmp.Or(cmp.Compare(a.Score, b.Score), bytes.Compare(a.Member, b.Member))
		})
		got, err := zset.RangeEntries(tx, key, &zset.Query{Start: 0, Stop: -1})
		if err != nil || !slices.EqualFunc(got, have, func(a, b zset.Entry) bool {
			return a.Score == b.Score && bytes.Equal(a.Member, b.Member)
		}) {
			t.Errorf("%v, %v, want %v", got, err, have)
		}
	})
}
