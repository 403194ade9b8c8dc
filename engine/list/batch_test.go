package list_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/list"
	"github.com/basaltdb/basalt/internal/require"
)

// describe describes a record. Indexes are told relative to that of the first element of a new list: "put l 0 a",
// "del l -1", "meta l [0,3)" with head and tail, "del meta l".
func describe(t testing.TB, rec *batch.Record) string {
	t.Helper()
	place := func(i uint64) int64 { return int64(i - cf.ListOrigin) }
	switch {
	case rec.Kind == batch.LogData:
		return "log " + string(rec.Value)
	case rec.Family == cf.Metadata:
		_, key, err := cf.SplitNSKey(rec.Key, false)
		require.NoError(t, err)
		if rec.Kind == batch.Delete {
			return fmt.Sprintf("del meta %s", key)
		}
		m, tail, err := cf.DecodeMeta(rec.Value)
		require.NoError(t, err)
		from, to, err := cf.DecodeListTail(tail)
		if err != nil || m.Type != cf.TypeList || m.Size != to-from || m.Version == 0 {
			t.Errorf("metadata %+v with %x: %v", m, tail, err)
		}
		return fmt.Sprintf("meta %s [%d,%d)", key, place(from), place(to))
	}
	k, err := cf.ParseSubkey(rec.Key, false)
	if err != nil || len(k.Sub) != 8 {
		t.Fatalf("subkey %q: %v", rec.Key, err)
	}
	if rec.Kind == batch.Delete {
		return fmt.Sprintf("del %s %d", k.UserKey, place(binary.BigEndian.Uint64(k.Sub)))
	}
	return fmt.Sprintf("put %s %d %s", k.UserKey, place(binary.BigEndian.Uint64(k.Sub)), rec.Value)
}

// TestBatches compares the records of each write with those that Kvrocks 2.10 writes, in its order.
func TestBatches(t *testing.T) {
	l, d := []byte("l"), []byte("d")
	type do = func(tx *engine.Tx) error
	add := func(left bool, elems ...string) do {
		return func(tx *engine.Tx) error { _, err := list.Push(tx, l, raw(elems...), left, false); return err }
	}
	pop := func(n uint64, left bool) do {
		return func(tx *engine.Tx) error { return list.Pop(tx, l, n, left, func(uint64) {}, func([]byte) {}) }
	}
	assign := func(i int64, e string) do {
		return func(tx *engine.Tx) error { return list.Set(tx, l, i, []byte(e)) }
	}
	insert := func(pivot, e string, before bool) do {
		return func(tx *engine.Tx) error {
			_, err := list.Insert(tx, l, []byte(pivot), []byte(e), before)
			return err
		}
	}
	remove := func(count int64, e string) do {
		return func(tx *engine.Tx) error { _, err := list.Remove(tx, l, count, []byte(e)); return err }
	}
	trim := func(start, stop int64) do {
		return func(tx *engine.Tx) error { return list.Trim(tx, l, start, stop) }
	}
	move := func(to []byte, fromLeft, toLeft bool) do {
		return func(tx *engine.Tx) error { _, _, err := list.Move(tx, l, to, fromLeft, toLeft); return err }
	}
	moveMany := func(to []byte, o list.MoveOptions) do {
		return func(tx *engine.Tx) error { _, err := list.MoveMany(tx, l, to, o); return err }
	}
	for _, c := range []struct {
		name   string
		before do
		f      do
		want   []string
	}{
		{"push right", nil, add(false, "a", "b"), []string{"log 3 7", "put l 0 a", "put l 1 b", "meta l [0,2)"}},
		{"push left", nil, add(true, "a", "b"), []string{"log 3 6", "put l -1 a", "put l -2 b", "meta l [-2,0)"}},
		{"pop left", add(false, "a", "b", "c"), pop(1, true), []string{"log 3 3", "del l 0", "meta l [1,3)"}},
		{"pop right", add(false, "a", "b", "c"), pop(2, false), []string{"log 3 4", "del l 2", "del l 1", "meta l [0,1)"}},
		{"pop all", add(false, "a", "b"), pop(9, true), []string{"log 3 3", "del l 0", "del l 1", "del meta l"}},
		{"pop none", add(false, "a"), pop(0, true), nil},
		{"set", add(false, "a", "b"), assign(1, "x"), []string{"log 3 0 1", "put l 1 x"}},
		{"set from the end, logged from the beginning", add(false, "a", "b"), assign(-1, "x"),
			[]string{"log 3 0 1", "put l 1 x"}},
		{"set to the same", add(false, "a", "b"), assign(0, "a"), nil},
		{"insert before, left part shorter", add(false, "a", "b", "c"), insert("b", "x", true),
			[]string{"log 3 1 1 b x", "put l -1 a", "put l 0 x", "meta l [-1,3)"}},
		{"insert before, right part shorter", add(false, "a", "b", "c"), insert("c", "x", true),
			[]string{"log 3 1 1 c x", "put l 3 c", "put l 2 x", "meta l [0,4)"}},
		{"insert after, left part shorter", add(false, "a", "b", "c", "d"), insert("a", "x", false),
			[]string{"log 3 1 0 a x", "put l -1 a", "put l 0 x", "meta l [-1,4)"}},
		{"insert after, right part shorter", add(false, "a", "b", "c"), insert("b", "x", false),
			[]string{"log 3 1 0 b x", "put l 3 c", "put l 2 x", "meta l [0,4)"}},
		{"insert after, parts equal", add(false, "a", "b"), insert("a", "x", false),
			[]string{"log 3 1 0 a x", "put l -1 a", "put l 0 x", "meta l [-1,2)"}},
		{"insert at the head", add(false, "a", "b"), insert("a", "x", true),
			[]string{"log 3 1 1 a x", "put l -1 x", "meta l [-1,2)"}},
		{"insert at the tail", add(false, "a", "b"), insert("b", "x", false),
			[]string{"log 3 1 0 b x", "put l 2 x", "meta l [0,3)"}},
		{"insert without pivot", add(false, "a"), insert("x", "y", true), nil},
		{"remove, right part moves", add(false, "a", "b", "x", "c", "x", "d"), remove(0, "x"),
			[]string{"log 3 5 0 x", "put l 2 c", "put l 3 d", "del l 5", "del l 4", "meta l [0,4)"}},
		{"remove, left part moves", add(false, "a", "x", "b", "x", "c", "d", "e"), remove(2, "x"),
			[]string{"log 3 5 2 x", "put l 3 b", "put l 2 a", "del l 0", "del l 1", "meta l [2,7)"}},
		{"remove from the end", add(false, "x", "a", "x"), remove(-1, "x"),
			[]string{"log 3 5 -1 x", "del l 2", "meta l [0,2)"}},
		{"remove all", add(false, "x", "x"), remove(0, "x"), []string{"log 3 5 0 x", "del meta l"}},
		{"remove none", add(false, "a"), remove(0, "x"), nil},
		{"trim", add(false, "a", "b", "c", "d"), trim(1, 2), []string{"log 3 2 1 2", "del l 0", "del l 3", "meta l [1,3)"}},
		{"trim, logged from the beginning", add(false, "a", "b", "c", "d"), trim(-3, -1),
			[]string{"log 3 2 1 3", "del l 0", "meta l [1,4)"}},
		{"trim beyond the end", add(false, "a", "b"), trim(1, 9), []string{"log 3 2 1 9", "del l 0", "meta l [1,2)"}},
		{"trim to nothing, without log data", add(false, "a", "b"), trim(1, 0), []string{"del meta l"}},
		{"trim to everything", add(false, "a", "b"), trim(0, -1), nil},
		{"move to a new list", add(false, "a", "b"), move(d, true, false),
			[]string{"log 3 12 l d left right", "del l 0", "meta l [1,2)", "put d 0 a", "meta d [0,1)"}},
		{"move the last", add(false, "a"), move(d, false, true),
			[]string{"log 3 12 l d right left", "del l 0", "del meta l", "put d -1 a", "meta d [-1,0)"}},
		{"rotate", add(false, "a", "b", "c"), move(l, true, false), []string{"log 3 12 l l left right", "del l 0",
			"put l 3 a", "meta l [1,4)"}},
		{"rotate back", add(false, "a", "b", "c"), move(l, false, true),
			[]string{"log 3 12 l l right left", "del l 2", "put l -1 c", "meta l [-1,2)"}},
		{"rotate nowhere", add(false, "a", "b"), move(l, true, true), nil},
		{"rotate one", add(false, "a"), move(l, true, false), nil},
		{"move many: pops and pushes", add(false, "a", "b", "c"),
			moveMany(d, list.MoveOptions{Min: 1, Max: 2, FromLeft: true}),
			[]string{"log 3 3", "del l 0", "del l 1", "meta l [2,3)", "log 3 7", "put d 0 a", "put d 1 b", "meta d [0,2)"}},
		{"move many to the left in bulk: the last one is pushed first", add(false, "a", "b"),
			moveMany(d, list.MoveOptions{Min: 2, Max: 2, FromLeft: true, ToLeft: true, Bulk: true}), []string{"log 3 3",
				"del l 0", "del l 1", "del meta l", "log 3 6", "put d -1 b", "put d -2 a", "meta d [-2,0)"}},
		{"move one of many", add(false, "a", "b"), moveMany(d, list.MoveOptions{Min: 1, Max: 1, FromLeft: true}),
			[]string{"log 3 12 l d left right", "del l 0", "meta l [1,2)", "put d 0 a", "meta d [0,1)"}},
		{"rotate many", add(false, "a", "b", "c"), moveMany(l, list.MoveOptions{Min: 1, Max: 2}),
			[]string{"log 3 4", "del l 2", "del l 1", "log 3 7", "put l 1 c", "put l 2 b", "meta l [0,3)"}},
		{"rotate all", add(false, "a", "b"), moveMany(l, list.MoveOptions{Min: 1, Max: 9, FromLeft: true}), nil},
		{"rotate many in bulk nowhere", add(false, "a", "b", "c"), moveMany(l, list.MoveOptions{Min: 1, Max: 2, Bulk: true}),
			nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			enginetest.WantBatches(t, enginetest.Open(t), raw("l", "d"), c.before, c.f, enginetest.Each(describe), c.want)
		})
	}
}
