package stream_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/stream"
)

// TestReadAhead lets two groups read a stream in small pieces while entries are added, deleted and trimmed, ids are
// set back and transactions are rolled back, and compares what they get with what there is.
func TestReadAhead(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("s")
	type entry struct {
		id   uint64
		text string
	}
	type state struct {
		entries []entry
		last    uint64
		at      [2]uint64
	}
	var have state
	groups := [2][]byte{[]byte("g0"), []byte("g1")}
	update := func(f func(tx *engine.Tx) error) error { return db.Update(ns, [][]byte{key}, f) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(update(func(tx *engine.Tx) error {
		return errors.Join(stream.CreateGroup(tx, key, groups[0], stream.GroupStart{}, true),
			stream.CreateGroup(tx, key, groups[1], stream.GroupStart{}, true))
	}))
	r := rand.New(rand.NewPCG(7, 7))
	got := 0
	for step := range 6000 {
		next := have
		next.entries = slices.Clone(have.entries)
		undo := r.IntN(10) == 0
		err := update(func(tx *engine.Tx) error {
			for range 1 + r.IntN(3) {
				switch n := r.IntN(20); {
				case n < 8:
					for range r.IntN(12) {
						next.last++
						e := entry{next.last, fmt.Sprint("v", step, "-", next.last)}
						next.entries = append(next.entries, e)
						_, _, err := stream.Add(tx, key, raw("f", e.text),
							&stream.AddOptions{NewID: stream.NewID{ID: stream.ID{Ms: e.id}}})
						must(err)
					}
				case n < 17:
					i, count := r.IntN(2), 1+r.IntN(20)
					g, err := stream.OpenGroup(tx, key, groups[i])
					must(err)
					var want []entry
					for _, e := range next.entries {
						if e.id > next.at[i] && len(want) < count {
							want = append(want, e)
						}
					}
					var read []entry
					must(readNew(g, "c", uint64(count), true, func(e *stream.Entry) {
						e.Next()
						v, _ := e.Next()
						read = append(read, entry{e.ID.Ms, string(v)})
					}))
					if !slices.Equal(read, want) {
						t.Fatalf("step %d: group %d got %v, want %v", step, i, read, want)
					}
					if got += len(read); len(read) > 0 {
						next.at[i] = read[len(read)-1].id
					}
				case n == 17 && len(next.entries) > 0:
					i := r.IntN(len(next.entries))
					_, err := stream.Delete(tx, key, []stream.ID{{Ms: next.entries[i].id}})
					must(err)
					next.entries = slices.Delete(next.entries, i, i+1)
				case n == 18 && len(next.entries) > 0:
					most := r.IntN(len(next.entries)+1) * r.IntN(2)
					_, err := stream.TrimOld(tx, key, &stream.Trim{By: stream.TrimMaxLen, MaxLen: uint64(most)})
					must(err)
					next.entries = next.entries[len(next.entries)-most:]
					if most > 0 || next.last <= 20 {
						break
					}
					// Ids of entries that were trimmed may come back.
					if stream.SetID(tx, key, stream.ID{Ms: next.last - 10}, stream.SetIDOptions{}) == nil {
						next.last -= 10
						for i := range groups {
							g, err := stream.OpenGroup(tx, key, groups[i])
							must(err)
							g.SetStart(stream.GroupStart{ID: stream.ID{Ms: next.last - 5}})
							next.at[i] = next.last - 5
						}
					}
				}
			}
			if undo {
				return errUndone
			}
			return nil
		})
		if undo {
			if err != errUndone {
				t.Fatalf("the transaction ended with %v", err)
			}
			continue
		}
		must(err)
		have = next
	}
	if got < 10000 {
		t.Errorf("only %d entries were read", got)
	}
}

var errUndone = errors.New("undone")
