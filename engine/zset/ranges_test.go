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

// TestAscendingScoreRanges reads ranges with gaps of all lengths in between, over what is stored and over writes that
// are not committed yet.
func TestAscendingScoreRanges(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("z")
	keys := [][]byte{key}
	fill(t, db, key, 1000)
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		var ranges []zset.ScoreRange
		for at := r.IntN(30); at < 1020 && len(ranges) < 12; {
			to := at + r.IntN(20)
			x := zset.ScoreRange{Min: float64(at), Max: float64(to), MaxOpen: to > at && r.IntN(2) == 0}
			ranges = append(ranges, x)
			if at = to + r.IntN(40); !x.MaxOpen {
				at++
			}
		}
		scan := func(tx *engine.Tx) error {
			scores := map[int]bool{}
			for i := range 1000 {
				scores[i] = true
			}
			if r.IntN(2) == 0 {
				for range 20 {
					i := r.IntN(1000)
					delete(scores, i)
					if _, err := zset.Remove(tx, key, [][]byte{fmt.Appendf(nil, "m%08d", i)}); err != nil {
						return err
					}
				}
			}
			var got, want []string
			for i, x := range ranges {
				for score := int(x.Min); score <= int(x.Max); score++ {
					if scores[score] && (!x.MaxOpen || float64(score) < x.Max) {
						want = append(want, fmt.Sprintf("%d:m%08d", i, score))
					}
				}
			}
			err := zset.ScoreRanges(tx, key, ranges, func(i int, member []byte, score float64) bool {
				got = append(got, fmt.Sprintf("%d:%s", i, member))
				return true
			})
			if !slices.Equal(got, want) {
				t.Fatalf("%v: %v, want %v", ranges, got, want)
			}
			return cmp.Or(err, errRolledBack)
		}
		if err := db.Update(ns, keys, scan); err != errRolledBack {
			t.Fatal(err)
		}
	}
}

var errRolledBack = errors.New("not to be committed")

func TestScoreRanges(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("z")
	keys := [][]byte{key}
	fill(t, db, key, 20)
	for _, tt := range []struct {
		name   string
		ranges []zset.ScoreRange
		most   int // entries until emit ends it
		want   string
	}{
		{"none", nil, 99, ""},
		{"in their order", []zset.ScoreRange{{Min: 5, Max: 7}, {Min: 1, Max: 2}}, 99, "0:5 0:6 0:7 1:1 1:2"},
		{"open", []zset.ScoreRange{{Min: 3, Max: 5, MaxOpen: true}, {Min: 3, Max: 5, MinOpen: true}}, 99, "0:3 0:4 1:4 1:5"},
		{"empty ones", []zset.ScoreRange{{Min: 5, Max: 3}, {Min: 3, Max: 3, MaxOpen: true},
			{Min: 100, Max: math.Inf(1)}, {Min: 9, Max: 9}}, 99, "3:9"},
		{"ended early", []zset.ScoreRange{{Min: 5, Max: 7}, {Min: 1, Max: 2}}, 2, "0:5 0:6"},
		{"ended with a range", []zset.ScoreRange{{Min: 5, Max: 6}, {Min: 1, Max: 2}}, 2, "0:5 0:6"},
	} {
		scan := func(tx *engine.Tx) error {
			var got []string
			err := zset.ScoreRanges(tx, key, tt.ranges, func(i int, member []byte, score float64) bool {
				if want := fmt.Sprintf("m%08d", int(score)); string(member) != want {
					t.Errorf("%s: %s has the score %v", tt.name, member, score)
				}
				got = append(got, fmt.Sprintf("%d:%v", i, score))
				return len(got) < tt.most
			})
			if text := strings.Join(got, " "); text != tt.want {
				t.Errorf("%s: %s, want %s", tt.name, text, tt.want)
			}
			return err
		}
		for _, f := range []func(ns string, keys [][]byte, f func(tx *engine.Tx) error) error{db.View, db.Update} {
			require.NoError(t, f(ns, keys, scan))
		}
	}
	err := db.Update(ns, keys, func(tx *engine.Tx) error {
		rec, err := tx.Load(key, cf.TypeZSet)
		tx.Put(cf.ZSetScore, tx.Subkey(&rec, []byte("short")), nil)
		if err != nil {
			return err
		}
		return zset.ScoreRanges(tx, key, []zset.ScoreRange{zset.AllScores}, func(int, []byte, float64) bool { return true })
	})
	if !errors.Is(err, cf.ErrCorrupt) || !strings.Contains(err.Error(), `key "z"`) {
		t.Errorf("a key without score: %v", err)
	}
}
