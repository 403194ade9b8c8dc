package zset_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/zset"
	"github.com/basaltdb/basalt/internal/require"
)

const ns = cf.DefaultNamespace

// model is a sorted set in memory.
type model map[string]float64

func (m model) clone() model {
	c := model{}
	for k, v := range m {
		c[k] = v
	}
	return c
}

// sorted returns the members by score and member.
func (m model) sorted() []string {
	var all []string
	for k := range m {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(m[a], m[b]), cmp.Compare(a, b)) })
	return all
}

// byMember returns the members in their own order.
func (m model) byMember() []string {
	all := m.sorted()
	slices.Sort(all)
	return all
}

// add is ZADD, one pair after the other.
func (m model) add(f zset.Flags, incr bool, member string, score float64) (added, changed bool, err error) {
	old, had := m[member]
	if had && f&zset.NX != 0 || !had && f&zset.XX != 0 {
		return false, false, nil
	}
	if had && incr {
		score += old
		if math.IsNaN(score) {
			return false, false, zset.ErrNaN
		}
	}
	if had && (f&zset.GT != 0 && score <= old || f&zset.LT != 0 && score >= old) {
		return false, false, nil
	}
	if had && score == old {
		return false, false, nil
	}
	m[member] = score + 0
	return !had, had, nil
}

// pick applies offset and count to a list.
func pick(all []string, offset, count int64) []string {
	if offset < 0 || offset >= int64(len(all)) {
		return nil
	}
	all = all[offset:]
	if count >= 0 && count < int64(len(all)) {
		all = all[:count]
	}
	return all
}

// query answers a query; sets whose scores differ have ranges by member in the order of the members.
func (m model) query(q *zset.Query) []string {
	var all []string
	switch q.By {
	case zset.ByRank:
		all = m.sorted()
		if q.Reverse {
			slices.Reverse(all)
		}
		start, stop := q.Start, q.Stop
		if start < 0 {
			start += int64(len(all))
		}
		if stop < 0 {
			stop += int64(len(all))
		}
		start, stop = max(start, 0), min(stop, int64(len(all))-1)
		if start > stop {
			return nil
		}
		return all[start : stop+1]
	case zset.ByScore:
		for _, k := range m.sorted() {
			s := m[k]
			if (s > q.Score.Min || s == q.Score.Min && !q.Score.MinOpen) &&
				(s < q.Score.Max || s == q.Score.Max && !q.Score.MaxOpen) {
				all = append(all, k)
			}
		}
	case zset.ByLex:
		for _, k := range m.byMember() {
			lo, hi := q.Lex.Min, q.Lex.Max
			above := lo.Infinite < 0 || lo.Infinite == 0 && (k > string(lo.Member) || k == string(lo.Member) && !lo.Open)
			below := hi.Infinite > 0 || hi.Infinite == 0 && (k < string(hi.Member) || k == string(hi.Member) && !hi.Open)
			if above && below {
				all = append(all, k)
			}
		}
	}
	if q.Reverse {
		slices.Reverse(all)
	}
	return pick(all, q.Offset, q.Count)
}

// check compares everything that can be read of a key with the model.
func check(t *testing.T, tx *engine.Tx, key []byte, m model) {
	t.Helper()
	if n, err := zset.Card(tx, key); err != nil || int(n) != len(m) {
		t.Fatalf("Card = %d, %v, want %d", n, err, len(m))
	}
	var got []string
	err := zset.Range(tx, key, &zset.Query{Start: 0, Stop: -1}, func(member []byte, score float64) {
		got = append(got, string(member))
		if s, ok := m[string(member)]; !ok || s != score || math.Signbit(s) != math.Signbit(score) {
			t.Fatalf("%q has the score %v, want %v (%v)", member, score, s, ok)
		}
	})
	if want := m.sorted(); err != nil || !slices.Equal(got, want) {
		t.Fatalf("members %.200q, %v, want %.200q", strings.Join(got, " "), err, strings.Join(want, " "))
	}
	got = got[:0]
	err = zset.Range(tx, key, &zset.Query{By: zset.ByLex, Lex: zset.AllMembers, Count: -1},
		func(member []byte, score float64) {
			got = append(got, string(member))
		})
	slices.Sort(got)
	if want := m.byMember(); err != nil || !slices.Equal(got, want) {
		t.Fatalf("by member %.200q, %v, want %.200q", strings.Join(got, " "), err, strings.Join(want, " "))
	}
	consistent(t, tx, key)
}

// consistent checks that each default record has exactly its score key and that the size is right.
func consistent(t *testing.T, tx *engine.Tx, key []byte) {
	t.Helper()
	rec, err := tx.Load(key, cf.TypeZSet)
	require.NoError(t, err)
	if !rec.Exists {
		return
	}
	var members, scores []string
	it := tx.Iter(cf.Default, engine.IterOptions{Prefix: tx.SubkeyPrefix(&rec)})
	for it.Next() {
		members = append(members, string(it.Value())+string(it.Key()))
	}
	require.NoError(t, it.Err())
	it.Close()
	it = tx.Iter(cf.ZSetScore, engine.IterOptions{Prefix: tx.SubkeyPrefix(&rec)})
	for it.Next() {
		scores = append(scores, string(it.Key()))
		if len(it.Value()) != 0 {
			t.Errorf("score key %q has the value %q", it.Key(), it.Value())
		}
	}
	require.NoError(t, it.Err())
	it.Close()
	slices.Sort(members)
	if !slices.Equal(members, scores) {
		t.Fatalf("the families differ:\n%.500q\n%.500q", strings.Join(members, " "), strings.Join(scores, " "))
	}
	if uint64(len(members)) != rec.Size {
		t.Fatalf("size %d, counted %d", rec.Size, len(members))
	}
}

// maker makes random arguments.
type maker struct {
	*rand.Rand
	members int // how many different ones there are
	same    bool
}

func (g maker) member() string { return fmt.Sprintf("m%03d", g.IntN(g.members)) }

func (g maker) score() float64 {
	if g.same {
		return 7
	}
	switch g.IntN(12) {
	case 0:
		return math.Inf(1)
	case 1:
		return math.Inf(-1)
	case 2:
		return 0
	case 3:
		return math.Copysign(0, -1)
	}
	return float64(g.IntN(40)-20) / 2
}

func (g maker) flags() zset.Flags {
	return []zset.Flags{0, 0, 0, zset.NX, zset.XX, zset.GT, zset.LT, zset.XX | zset.GT, zset.XX | zset.LT}[g.IntN(9)]
}

func (g maker) lexBound() zset.LexBound {
	if g.IntN(8) == 0 {
		return zset.LexBound{Infinite: int8(g.IntN(2)*2 - 1)}
	}
	return zset.LexBound{Member: []byte(g.member()), Open: g.IntN(2) == 0}
}

func (g maker) query(by zset.By) *zset.Query {
	q := &zset.Query{By: by, Reverse: g.IntN(2) == 0, Count: -1}
	q.Start, q.Stop = int64(g.IntN(2*g.members)-g.members), int64(g.IntN(2*g.members)-g.members)
	q.Score = zset.ScoreRange{Min: g.score(), Max: g.score(), MinOpen: g.IntN(3) == 0, MaxOpen: g.IntN(3) == 0}
	q.Lex = zset.LexRange{Min: g.lexBound(), Max: g.lexBound()}
	if g.IntN(2) == 0 {
		q.Offset, q.Count = int64(g.IntN(12)-1), int64(g.IntN(12)-1)
		if g.IntN(2) == 0 {
			q.Offset = int64(g.IntN(g.members))
		}
	}
	return q
}

// TestAgainstModel runs random commands on one key in random transactions, committed or not, and compares all
// results with a sorted set in memory. The members of a small set all have one score, so that ranges by member
// mean the same in both.
func TestAgainstModel(t *testing.T) {
	for _, c := range []struct {
		name    string
		members int
		same    bool
		steps   int
	}{{"small", 60, true, 600}, {"mixed", 60, false, 600}, {"big", 600, false, 900}, {"bigsame", 600, true,
		900}, {"ranked", 6000, false, 500}} {
		t.Run(c.name, func(t *testing.T) {
			db := enginetest.Open(t)
			g := maker{rand.New(rand.NewPCG(5, uint64(c.members))), c.members, c.same}
			key := []byte("z")
			m := model{}
			if c.members > 2000 { // so many that the rank cache takes part
				update(t, db, "z", func(tx *engine.Tx) error {
					var entries []zset.Entry
					for len(m) < c.members/2 {
						e := zset.Entry{Member: []byte(g.member()), Score: g.score() * 100}
						m[string(e.Member)] = e.Score + 0
						entries = append(entries, e)
					}
					_, _, err := zset.Add(tx, key, 0, entries)
					return err
				})
			}
			tx := db.NewTx()
			defer tx.Release()
			whole := false // reads came from the entries of a small set
			for step := 0; step < c.steps; {
				work := m.clone()
				tx.Begin(ns)
				tx.AddLock(key, true)
				tx.Acquire()
				for range 1 + g.IntN(6) {
					mark := tx.Savepoint()
					before := work.clone()
					g.write(t, tx, key, work)
					if g.IntN(10) == 0 {
						require.NoError(t, tx.Rollback(mark))
						work = before
					}
					g.read(t, tx, key, work)
					whole = whole || zset.Whole(tx, key)
					step++
				}
				if g.IntN(8) != 0 {
					require.NoError(t, tx.Commit())
					m = work
				} else if err := tx.Rollback(engine.Mark{}); err != nil {
					t.Fatal(err)
				}
				tx.Release()
				if step%40 < 6 {
					db.View(ns, [][]byte{key}, func(tx *engine.Tx) error {
						check(t, tx, key, m)
						return nil
					})
				}
			}
			if len(m) == 0 {
				t.Error("the test ended with an empty set")
			}
			if !whole && c.members < zset.RankSingle {
				t.Error("no read came from the entries that are kept of a small set")
			}
		})
	}
}

func (g maker) write(t *testing.T, tx *engine.Tx, key []byte, m model) {
	t.Helper()
	switch n := g.IntN(24); {
	case n < 10:
		var entries []zset.Entry
		f := g.flags()
		wantAdded, wantChanged := 0, 0
		for range 1 + g.IntN(1+g.IntN(40)) {
			e := zset.Entry{Member: []byte(g.member()), Score: g.score()}
			entries = append(entries, e)
			a, c, _ := m.add(f, false, string(e.Member), e.Score)
			if a {
				wantAdded++
			}
			if c {
				wantChanged++
			}
		}
		added, changed, err := zset.Add(tx, key, f, entries)
		if err != nil || added != wantAdded || changed != wantChanged {
			t.Fatalf("Add = %d, %d, %v, want %d, %d", added, changed, err, wantAdded, wantChanged)
		}
	case n < 13:
		member, by, f := g.member(), g.score(), g.flags()
		if g.same {
			by = 0
			if _, ok := m[member]; !ok {
				by = 7
			}
		}
		_, _, wantErr := m.add(f, true, member, by)
		score, ok, err := zset.Incr(tx, key, f, []byte(member), by)
		if err != wantErr && (err == nil) != (wantErr == nil) {
			t.Fatalf("Incr: %v, want %v", err, wantErr)
		}
		if err == nil && ok && score != m[member] {
			t.Fatalf("Incr = %v, want %v", score, m[member])
		}
	case n < 16:
		var members [][]byte
		want := 0
		for range 1 + g.IntN(20) {
			x := g.member()
			members = append(members, []byte(x))
			if _, ok := m[x]; ok {
				want++
				delete(m, x)
			}
		}
		if got, err := zset.Remove(tx, key, members); err != nil || got != want {
			t.Fatalf("Remove = %d, %v, want %d", got, err, want)
		}
	case n < 18:
		if g.IntN(3) > 0 {
			return // ranges are big: not too often
		}
		q := g.query(zset.By(g.IntN(3)))
		q.Reverse, q.Offset, q.Count = false, 0, -1
		if !g.same && q.By == zset.ByLex && len(m) <= 128 {
			return
		}
		want := m.query(q)
		got, err := zset.RemoveRange(tx, key, q)
		if err != nil || got != len(want) {
			t.Fatalf("RemoveRange(%+v) = %d, %v, want %d", q, got, err, len(want))
		}
		for _, x := range want {
			delete(m, x)
		}
	default:
		highest := g.IntN(2) == 0
		n := 1 + g.IntN(4)
		want := m.sorted()
		if highest {
			slices.Reverse(want)
		}
		want = want[:min(n, len(want))]
		var got []string
		err := zset.Pop(tx, key, uint64(n), highest, func(member []byte, score float64) {
			got = append(got, string(member))
			if score != m[string(member)] {
				t.Fatalf("popped %q with %v, want %v", member, score, m[string(member)])
			}
		})
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("Pop(%d, %v) = %q, %v, want %q", n, highest, got, err, want)
		}
		for _, x := range want {
			delete(m, x)
		}
	}
}

func (g maker) read(t *testing.T, tx *engine.Tx, key []byte, m model) {
	t.Helper()
	for by := zset.ByRank; by <= zset.ByLex; by++ {
		if by == zset.ByLex && !g.same && len(m) <= 128 {
			continue
		}
		q := g.query(by)
		want := m.query(q)
		var got []string
		err := zset.Range(tx, key, q, func(member []byte, score float64) {
			got = append(got, string(member))
			if score != m[string(member)] {
				t.Fatalf("%q with %v, want %v", member, score, m[string(member)])
			}
		})
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("Range(%+v) = %.200q, %v, want %.200q", q, strings.Join(got, " "), err, strings.Join(want, " "))
		}
		q.Offset, q.Count, q.Reverse = 0, -1, false
		var n uint64
		switch by {
		case zset.ByScore:
			n, err = zset.Count(tx, key, q.Score)
		case zset.ByLex:
			n, err = zset.LexCount(tx, key, q.Lex)
		default:
			continue
		}
		if want := m.query(q); err != nil || int(n) != len(want) {
			t.Fatalf("count of %+v = %d, %v, want %d", q, n, err, len(want))
		}
	}
	member := g.member()
	reverse := g.IntN(2) == 0
	order := m.sorted()
	if reverse {
		slices.Reverse(order)
	}
	wantRank := slices.Index(order, member)
	rank, score, found, err := zset.Rank(tx, key, []byte(member), reverse)
	if err != nil || found != (wantRank >= 0) || found && (int(rank) != wantRank || score != m[member]) {
		t.Fatalf("Rank(%q, %v) = %d, %v, %v, %v, want %d", member, reverse, rank, score, found, err, wantRank)
	}
	ask := [][]byte{[]byte(g.member()), []byte(g.member()), []byte("none")}
	i := 0
	err = zset.Scores(tx, key, ask, func(score float64, found bool) {
		if want, ok := m[string(ask[i])]; ok != found || found && score != want {
			t.Fatalf("score of %q = %v, %v, want %v, %v", ask[i], score, found, want, ok)
		}
		i++
	})
	if err != nil || i != len(ask) {
		t.Fatalf("Scores: %d, %v", i, err)
	}
	checkRandom(t, tx, key, m)
}

func checkRandom(t *testing.T, tx *engine.Tx, key []byte, m model) {
	t.Helper()
	n := 0
	err := zset.Random(tx, key, 5, true, func(member []byte, score float64) bool {
		n++
		if want, ok := m[string(member)]; !ok || want != score {
			t.Fatalf("random member %q with %v, want %v, %v", member, score, want, ok)
		}
		return true
	})
	if err != nil || n != 5 && len(m) > 0 {
		t.Fatalf("%d random members, %v", n, err)
	}
	seen := map[string]bool{}
	err = zset.RandomDistinct(tx, key, 10, true, func(member []byte, score float64) {
		if want, ok := m[string(member)]; !ok || want != score || seen[string(member)] {
			t.Fatalf("distinct random member %q with %v, want %v, %v", member, score, want, ok)
		}
		seen[string(member)] = true
	})
	if err != nil || len(seen) != min(10, len(m)) {
		t.Fatalf("%d distinct random members, %v", len(seen), err)
	}
}

// TestRemoveTooMuch: a removal that does not fit into a write batch changes nothing.
func TestRemoveTooMuch(t *testing.T) {
	db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir(), MaxBatchBytes: 200_000})
	key := []byte("z")
	m := model{}
	for i := range 10 {
		update(t, db, "z", func(tx *engine.Tx) error {
			var entries []zset.Entry
			for j := range 1000 {
				e := zset.Entry{Member: fmt.Appendf(nil, "m%04d", i*1000+j), Score: float64(i)}
				m[string(e.Member)] = e.Score
				entries = append(entries, e)
			}
			_, _, err := zset.Add(tx, key, 0, entries)
			return err
		})
	}
	for name, f := range map[string]func(tx *engine.Tx) error{
		"by rank": func(tx *engine.Tx) error {
			_, err := zset.RemoveRange(tx, key, &zset.Query{Start: 0, Stop: 8000})
			return err
		},
		"by score": func(tx *engine.Tx) error {
			_, err := zset.RemoveRange(tx, key, &zset.Query{By: zset.ByScore, Score: zset.ScoreRange{Min: 1, Max: 8}})
			return err
		},
		"by member": func(tx *engine.Tx) error {
			_, err := zset.RemoveRange(tx, key, &zset.Query{By: zset.ByLex, Lex: zset.AllMembers})
			return err
		},
		"pop": func(tx *engine.Tx) error { return zset.Pop(tx, key, 8000, false, func([]byte, float64) {}) },
	} {
		if err := db.Update(ns, [][]byte{key}, f); !errors.Is(err, engine.ErrBatchSize) {
			t.Errorf("%s: %v", name, err)
		}
		enginetest.View(t, db, [][]byte{key}, func(tx *engine.Tx) error {
			check(t, tx, key, m)
			return nil
		})
	}
}
