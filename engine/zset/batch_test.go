package zset_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/zset"
	"github.com/basaltdb/basalt/internal/require"
)

// describe describes a record: log data, "put" or "del" with family and subkey, and the size in a metadata record.
func describe(t testing.TB, rec *batch.Record) string {
	t.Helper()
	if rec.Kind == batch.LogData {
		return fmt.Sprintf("log %s", rec.Value)
	}
	op := map[batch.Kind]string{batch.Put: "put", batch.Delete: "del"}[rec.Kind]
	if rec.Family == cf.Metadata {
		if op == "del" {
			return "del meta"
		}
		m, _, err := cf.DecodeMeta(rec.Value)
		require.NoError(t, err)
		return fmt.Sprintf("%s meta %s %d", op, m.Type, m.Size)
	}
	k, err := cf.ParseSubkey(rec.Key, false)
	require.NoError(t, err)
	if rec.Family == cf.ZSetScore {
		score, member, err := cf.SplitScoreSub(k.Sub)
		require.NoError(t, err)
		return fmt.Sprintf("%s score %v %s", op, score, member)
	}
	if op == "del" {
		return fmt.Sprintf("del %s", k.Sub)
	}
	score, err := cf.ParseDouble(rec.Value)
	require.NoError(t, err)
	return fmt.Sprintf("put %s %v", k.Sub, score)
}

func pairs(kv ...any) (entries []zset.Entry) {
	for i := 0; i < len(kv); i += 2 {
		entries = append(entries, zset.Entry{Member: []byte(kv[i+1].(string)), Score: kv[i].(float64)})
	}
	return entries
}

// TestBatches compares the records of each write with those that Kvrocks 2.10 writes, in its order.
func TestBatches(t *testing.T) {
	key := []byte("z")
	add := func(f zset.Flags, kv ...any) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error {
			_, _, err := zset.Add(tx, key, f, pairs(kv...))
			return err
		}
	}
	incr := func(by float64, member string) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error {
			_, _, err := zset.Incr(tx, key, 0, []byte(member), by)
			return err
		}
	}
	remove := func(members ...string) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error {
			_, err := zset.Remove(tx, key, enginetest.Bytes(members...))
			return err
		}
	}
	removeRange := func(q zset.Query) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error {
			_, err := zset.RemoveRange(tx, key, &q)
			return err
		}
	}
	pop := func(n uint64, highest bool) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error { return zset.Pop(tx, key, n, highest, func([]byte, float64) {}) }
	}
	store := func(kv ...any) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error {
			return zset.Store(tx, key, pairs(kv...))
		}
	}
	lex := func(min, max string) zset.Query {
		return zset.Query{By: zset.ByLex, Lex: zset.LexRange{Min: zset.LexBound{Member: []byte(min)},
			Max: zset.LexBound{Member: []byte(max)}}}
	}
	for _, c := range []struct {
		name   string
		before func(tx *engine.Tx) error
		f      func(tx *engine.Tx) error
		want   []string
	}{
		{"new members, the last one first", nil, add(0, 1.5, "a", -2.0, "b"),
			[]string{"log 5", "put b -2", "put score -2 b", "put a 1.5", "put score 1.5 a", "put meta zset 2"}},
		{"another score", add(0, 1.5, "a"), add(0, 3.0, "a"), []string{"log 5", "del score 1.5 a", "put a 3",
			"put score 3 a"}},
		{"same score", add(0, 1.5, "a"), add(0, 1.5, "a"), nil},
		{"a new one and an old one", add(0, 1.5, "a"), add(0, 3.0, "a", 4.0, "b"),
			[]string{"log 5", "put b 4", "put score 4 b", "del score 1.5 a", "put a 3", "put score 3 a", "put meta zset 2"}},
		{"twice the same, the last score counts", nil, add(0, 1.0, "a", 5.0, "b", 2.0, "a"),
			[]string{"log 5", "put a 2", "put score 2 a", "put b 5", "put score 5 b", "put meta zset 2"}},
		{"twice the same, NX", nil, add(zset.NX, 1.0, "a", 2.0, "a"), []string{"log 5", "put a 1", "put score 1 a",
			"put meta zset 1"}},
		{"there and back", add(0, 1.0, "a"), add(0, 2.0, "a", 1.0, "a"), nil},
		{"XX on nothing", nil, add(zset.XX, 1.0, "a"), nil},
		{"GT refused", add(0, 5.0, "a"), add(zset.GT, 1.0, "a"), nil},
		{"minus zero is stored as zero", nil, add(0, math.Copysign(0, -1), "a"),
			[]string{"log 5", "put a 0", "put score 0 a", "put meta zset 1"}},
		{"increment", add(0, 1.0, "a"), incr(2, "a"), []string{"log 5", "del score 1 a", "put a 3", "put score 3 a"}},
		{"increment of nothing", nil, incr(2, "a"), []string{"log 5", "put a 2", "put score 2 a", "put meta zset 1"}},
		{"increment by zero", add(0, 1.0, "a"), incr(0, "a"), nil},
		{"remove", add(0, 1.0, "a", 2.0, "b", 3.0, "c"), remove("c", "x", "a", "c"),
			[]string{"log 5", "del c", "del score 3 c", "del a", "del score 1 a", "put meta zset 1"}},
		{"remove one", add(0, 1.0, "a", 2.0, "b"), remove("b"), []string{"log 5", "del b", "del score 2 b",
			"put meta zset 1"}},
		{"remove nothing", add(0, 1.0, "a"), remove("x", "y"), nil},
		{"remove the last", add(0, 1.0, "a"), remove("a"), []string{"log 5", "del a", "del score 1 a", "put meta zset 0"}},
		{"by rank, without log data", add(0, 1.0, "a", 2.0, "b", 3.0, "c"), removeRange(zset.Query{Start: 1, Stop: -1}),
			[]string{"del b", "del score 2 b", "del c", "del score 3 c", "put meta zset 1"}},
		{"by score", add(0, 1.0, "a", 2.0, "b", 3.0, "c"), removeRange(zset.Query{By: zset.ByScore,
			Score: zset.ScoreRange{Min: 1, Max: 2}}),
			[]string{"log 5", "del a", "del score 1 a", "del b", "del score 2 b", "put meta zset 1"}},
		{"by member, the score key first", add(0, 1.0, "a", 1.0, "b", 1.0, "c"), removeRange(lex("a", "b")),
			[]string{"log 5", "del score 1 a", "del a", "del score 1 b", "del b", "put meta zset 1"}},
		{"nothing in the range", add(0, 1.0, "a"), removeRange(zset.Query{By: zset.ByScore,
			Score: zset.ScoreRange{Min: 5, Max: 6}}), nil},
		{"pop", add(0, 1.0, "a", 2.0, "b", 3.0, "c"), pop(2, false),
			[]string{"log 5", "del a", "del score 1 a", "del b", "del score 2 b", "put meta zset 1"}},
		{"pop the highest", add(0, 1.0, "a", 2.0, "b", 3.0, "c"), pop(1, true),
			[]string{"log 5", "del c", "del score 3 c", "put meta zset 2"}},
		{"pop all", add(0, 1.0, "a"), pop(5, false), []string{"log 5", "del a", "del score 1 a", "put meta zset 0"}},
		{"store", add(0, 9.0, "old"), store(1.0, "a", 2.0, "b"),
			[]string{"log 5", "put a 1", "put score 1 a", "put b 2", "put score 2 b", "put meta zset 2"}},
		{"store nothing", add(0, 9.0, "old"), store(), []string{"log 5", "put meta zset 0"}},
		{"store nothing in place of nothing", nil, store(), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			enginetest.WantBatches(t, enginetest.Open(t), [][]byte{key}, c.before, c.f, enginetest.Each(describe), c.want)
		})
	}
}
