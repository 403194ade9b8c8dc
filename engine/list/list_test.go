package list_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/list"
)

const ns = cf.DefaultNamespace

var (
	update = enginetest.Update
	view   = enginetest.View
	raw    = enginetest.Bytes
)

func push(t testing.TB, db *engine.DB, key []byte, elems ...string) {
	t.Helper()
	update(t, db, [][]byte{key}, func(tx *engine.Tx) error {
		_, err := list.Push(tx, key, raw(elems...), false, false)
		return err
	})
}

// slice returns the elements from start to stop, by Range.
func slice(tx *engine.Tx, key []byte, start, stop int64) ([]string, error) {
	var elems []string
	announced := uint64(0)
	err := list.Range(tx, key, start, stop, func(n uint64) { announced = n },
		func(e []byte) { elems = append(elems, string(e)) })
	if err == nil && announced != uint64(len(elems)) {
		err = fmt.Errorf("%d elements announced, %d came", announced, len(elems))
	}
	return elems, err
}

// calls are all functions of the package, each on one key.
func calls(key []byte) map[string]func(tx *engine.Tx) error {
	none := func([]byte) {}
	count := func(uint64) {}
	return map[string]func(tx *engine.Tx) error{
		"Len":     func(tx *engine.Tx) error { _, err := list.Len(tx, key); return err },
		"Push":    func(tx *engine.Tx) error { _, err := list.Push(tx, key, raw("a"), true, false); return err },
		"Pop":     func(tx *engine.Tx) error { return list.Pop(tx, key, 1, true, count, none) },
		"Index":   func(tx *engine.Tx) error { _, _, err := list.Index(tx, key, 0); return err },
		"Range":   func(tx *engine.Tx) error { return list.Range(tx, key, 0, -1, count, none) },
		"Set":     func(tx *engine.Tx) error { return list.Set(tx, key, 0, key) },
		"Trim":    func(tx *engine.Tx) error { return list.Trim(tx, key, 0, 0) },
		"Pos":     func(tx *engine.Tx) error { return list.Pos(tx, key, key, list.PosOptions{Rank: 1}, count) },
		"Insert":  func(tx *engine.Tx) error { _, err := list.Insert(tx, key, key, key, true); return err },
		"Remove":  func(tx *engine.Tx) error { _, err := list.Remove(tx, key, 0, key); return err },
		"Move":    func(tx *engine.Tx) error { _, _, err := list.Move(tx, key, []byte("other"), true, true); return err },
		"Move it": func(tx *engine.Tx) error { _, _, err := list.Move(tx, key, key, true, false); return err },
		"MoveMany": func(tx *engine.Tx) error {
			_, err := list.MoveMany(tx, key, []byte("other"), list.MoveOptions{Min: 1, Max: 2})
			return err
		},
	}
}

func TestWrongType(t *testing.T) {
	db := enginetest.Open(t)
	key, other, missing := []byte("s"), []byte("other"), []byte("missing")
	keys := [][]byte{key, other, missing}
	update(t, db, keys, func(tx *engine.Tx) error {
		rec := tx.Fresh(key, cf.TypeString)
		tx.SaveAppend(&rec, []byte("v"))
		return nil
	})
	for name, f := range calls(key) {
		if err := db.Update(ns, keys, f); !errors.Is(err, engine.ErrWrongType) {
			t.Errorf("%s of a string: %v", name, err)
		}
	}
	push(t, db, other, "a")
	err := db.Update(ns, keys, func(tx *engine.Tx) error {
		_, _, err := list.Move(tx, other, key, true,
			true)
		return err
	})
	if !errors.Is(err, engine.ErrWrongType) {
		t.Errorf("Move to a string: %v", err)
	}
	// Redis looks at the source first.
	update(t, db, keys, func(tx *engine.Tx) error {
		_, found, err := list.Move(tx, missing, key, true, true)
		if found {
			t.Error("moved out of a missing list")
		}
		return err
	})
}

func TestMissing(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("missing")
	keys := [][]byte{key, []byte("other")}
	for name, f := range calls(key) {
		want := error(nil)
		switch name {
		case "Push":
			continue
		case "Set":
			want = list.ErrNoKey
		}
		if err := db.Update(ns, keys, f); !errors.Is(err, want) {
			t.Errorf("%s of a missing key: %v, want %v", name, err, want)
		}
	}
	update(t, db, keys, func(tx *engine.Tx) error {
		n, err := list.Push(tx, key, raw("a"), true, true)
		if rec, _ := tx.LoadAny(key); n != 0 || rec.Exists {
			t.Errorf("a push to existing lists only returned %d, the key exists: %v", n, rec.Exists)
		}
		return err
	})
}

func TestRange(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("l")
	push(t, db, key, "a", "b", "c", "d", "e")
	const least, most = -1 << 63, 1<<63 - 1
	for _, c := range []struct {
		start, stop int64
		want        string
	}{
		{0, -1, "abcde"}, {0, 0, "a"}, {1, 3, "bcd"}, {-3, -2, "cd"}, {-100, 100, "abcde"}, {-100, -100, ""}, {-100, -5, "a"},
		{5, 10, ""}, {4, 10, "e"}, {3, 1, ""}, {-1, 0, ""}, {least, most, "abcde"}, {most, least, ""}, {least, least,
			""}, {most, most, ""},
	} {
		view(t, db, [][]byte{key}, func(tx *engine.Tx) error {
			got, err := slice(tx, key, c.start, c.stop)
			if s := strings.Join(got, ""); s != c.want {
				t.Errorf("%d to %d: %q, want %q", c.start, c.stop, s, c.want)
			}
			return err
		})
		update(t, db, [][]byte{key, []byte("copy")}, func(tx *engine.Tx) error {
			dup := []byte("copy")
			if err := list.Trim(tx, dup, 1, 0); err != nil {
				return err
			}
			if _, err := list.Push(tx, dup, raw("a", "b", "c", "d", "e"), false, false); err != nil {
				return err
			}
			if err := list.Trim(tx, dup, c.start, c.stop); err != nil {
				return err
			}
			got, err := slice(tx, dup, 0, -1)
			if s := strings.Join(got, ""); s != c.want {
				t.Errorf("trimmed to %d to %d: %q, want %q", c.start, c.stop, s, c.want)
			}
			rec, _ := tx.LoadAny(dup)
			if rec.Exists != (c.want != "") {
				t.Errorf("trimmed to %d to %d: the key exists: %v", c.start, c.stop, rec.Exists)
			}
			return err
		})
	}
	for _, c := range []struct {
		index int64
		want  string
	}{{0, "a"}, {4, "e"}, {-1, "e"}, {-5, "a"}, {5, ""}, {-6, ""}, {least, ""}, {most, ""}} {
		view(t, db, [][]byte{key}, func(tx *engine.Tx) error {
			got, found, err := list.Index(tx, key, c.index)
			if string(got) != c.want || found != (c.want != "") {
				t.Errorf("index %d: %q, found %v, want %q", c.index, got, found, c.want)
			}
			return err
		})
		err := db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error {
			if err := list.Set(tx, key, c.index, []byte("X")); err != nil {
				return err
			}
			got, _, err := list.Index(tx, key, c.index)
			if string(got) != "X" {
				t.Errorf("index %d was set and is %q", c.index, got)
			}
			return errors.Join(err, errors.New("abandoned"))
		})
		if c.want == "" && !errors.Is(err, list.ErrIndex) || c.want != "" && errors.Is(err, list.ErrIndex) {
			t.Errorf("setting index %d: %v", c.index, err)
		}
	}
}

func TestPos(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("l")
	push(t, db, key, "a", "b", "a", "c", "a", "b", "a")
	for _, c := range []struct {
		elem string
		o    list.PosOptions
		want string
	}{
		{"a", list.PosOptions{Rank: 1, Count: 1}, "[0]"},
		{"a", list.PosOptions{Rank: 1}, "[0 2 4 6]"},
		{"a", list.PosOptions{Rank: 2}, "[2 4 6]"},
		{"a", list.PosOptions{Rank: 2, Count: 2}, "[2 4]"},
		{"a", list.PosOptions{Rank: 5}, "[]"},
		{"a", list.PosOptions{Rank: -1, Count: 1}, "[6]"},
		{"a", list.PosOptions{Rank: -2}, "[4 2 0]"},
		{"a", list.PosOptions{Rank: -1<<63 + 1}, "[]"},
		{"a", list.PosOptions{Rank: 1<<63 - 1}, "[]"},
		{"b", list.PosOptions{Rank: 1, MaxLen: 1}, "[]"},
		{"b", list.PosOptions{Rank: 1, MaxLen: 2}, "[1]"},
		{"b", list.PosOptions{Rank: -1, MaxLen: 2}, "[5]"},
		{"a", list.PosOptions{Rank: 1, MaxLen: 3}, "[0 2]"},
		{"a", list.PosOptions{Rank: 1, MaxLen: 100}, "[0 2 4 6]"},
		{"x", list.PosOptions{Rank: 1}, "[]"},
	} {
		view(t, db, [][]byte{key}, func(tx *engine.Tx) error {
			got := []uint64{}
			err := list.Pos(tx, key, []byte(c.elem), c.o, func(i uint64) { got = append(got, i) })
			if s := fmt.Sprint(got); s != c.want {
				t.Errorf("%s %+v: %s, want %s", c.elem, c.o, s, c.want)
			}
			return err
		})
	}
}

// TestMoveToNewList: a destination that is made by a move is a list like any other, with a version of its own,
// which Kvrocks 2.10 leaves out.
func TestMoveToNewList(t *testing.T) {
	db := enginetest.Open(t)
	src, dst := []byte("src"), []byte("dst")
	keys := [][]byte{src, dst}
	push(t, db, src, "a", "b", "c")
	update(t, db, keys, func(tx *engine.Tx) error {
		_, _, err := list.Move(tx, src, dst, false, true)
		return err
	})
	var version uint64
	view(t, db, keys, func(tx *engine.Tx) error {
		rec, err := tx.LoadAny(dst)
		if version = rec.Version; version == 0 {
			t.Error("the destination has the version 0")
		}
		return err
	})
	// Emptied, and made again by another move: the elements of the first time do not come back.
	update(t, db, keys, func(tx *engine.Tx) error { return list.Trim(tx, dst, 1, 0) })
	update(t, db, keys, func(tx *engine.Tx) error {
		_, _, err := list.Move(tx, src, dst, true, false)
		return err
	})
	view(t, db, keys, func(tx *engine.Tx) error {
		got, err := slice(tx, dst, 0, -1)
		rec, _ := tx.LoadAny(dst)
		if !slices.Equal(got, []string{"a"}) || rec.Version <= version {
			t.Errorf("the destination holds %q, version %d after %d", got, rec.Version, version)
		}
		return err
	})
}

func TestCorrupt(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("l")
	keys := [][]byte{key, []byte("other")}
	push(t, db, key, "a", "b", "c", "d", "e", "f")
	update(t, db, keys, func(tx *engine.Tx) error { // without the second element
		rec, err := tx.Load(key, cf.TypeList)
		tx.Delete(cf.Default, tx.SubkeyU64(&rec, cf.ListOrigin+1))
		return err
	})
	elem := []byte("x")
	for name, f := range map[string]func(tx *engine.Tx) error{
		"Index":  func(tx *engine.Tx) error { _, _, err := list.Index(tx, key, 1); return err },
		"Range":  func(tx *engine.Tx) error { _, err := slice(tx, key, 0, -1); return err },
		"Pop":    func(tx *engine.Tx) error { return list.Pop(tx, key, 3, true, func(uint64) {}, func([]byte) {}) },
		"Set":    func(tx *engine.Tx) error { return list.Set(tx, key, 1, elem) },
		"Insert": func(tx *engine.Tx) error { _, err := list.Insert(tx, key, []byte("d"), elem, true); return err },
		"Remove": func(tx *engine.Tx) error { _, err := list.Remove(tx, key, 1, []byte("c")); return err },
		"MoveMany": func(tx *engine.Tx) error {
			_, err := list.MoveMany(tx, key, key, list.MoveOptions{Min: 1, Max: 3, FromLeft: true})
			return err
		},
	} {
		if err := db.Update(ns, keys, f); !errors.Is(err, cf.ErrCorrupt) {
			t.Errorf("%s of a list with a gap: %v", name, err)
		}
	}
	for _, tail := range [][]byte{nil, []byte("short"), cf.AppendListTail(nil, cf.ListOrigin, cf.ListOrigin+7)} {
		update(t, db, keys, func(tx *engine.Tx) error {
			rec := tx.Fresh(key, cf.TypeList)
			rec.Size = 2
			tx.SaveAppend(&rec, tail)
			return nil
		})
		for name, f := range calls(key) {
			if err := db.Update(ns, keys, f); !errors.Is(err, cf.ErrCorrupt) {
				t.Errorf("%s with the metadata %x: %v", name, tail, err)
			}
		}
	}
}

// TestNoAllocation: a pipelined run of pushes and pops of one element allocates nothing.
func TestNoAllocation(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("l")
	one := raw("element")
	tx := db.NewTx()
	tx.Begin(ns)
	tx.AddLock(key, true)
	tx.Acquire()
	defer tx.Release()
	count, elem := func(uint64) {}, func([]byte) {}
	for _, left := range []bool{true, false} {
		for name, f := range map[string]func() error{
			"Push": func() error { _, err := list.Push(tx, key, one, left, false); return err },
			"Push and Pop": func() error {
				if _, err := list.Push(tx, key, one, left, false); err != nil {
					return err
				}
				return list.Pop(tx, key, 1, left, count, elem)
			},
		} {
			enginetest.NoAllocs(t, fmt.Sprintf("%s, left %v", name, left), f)
		}
	}
}

// TestTrimKeepsLittle: of a long list of which little is left, that is written again. The expiry stays, and what is in
// the batch is as much as is kept.
func TestTrimKeepsLittle(t *testing.T) {
	const n = 15000
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint("e", i)
	}
	for _, c := range []struct {
		start, stop int64
		again       bool // the elements are written again
	}{
		{0, 99, true},
		{-100, -1, true},
		{7000, 7100, true},
		{0, 2999, false}, // a quarter of those that are removed
		{0, 0, true},
		{10, n - 10, false},
	} {
		db := enginetest.Open(t)
		key := []byte("l")
		push(t, db, key, all...)
		until := time.Now().Add(time.Hour).UnixMilli()
		update(t, db, [][]byte{key}, func(tx *engine.Tx) error {
			rec, err := tx.LoadAny(key)
			rec.Expire = uint64(until)
			tx.SaveAppend(&rec, rec.Tail)
			return err
		})
		from, to := (c.start+n)%n, (c.stop+n)%n
		want := append(slices.Clone(all[from:to+1]), "last")
		update(t, db, [][]byte{key}, func(tx *engine.Tx) error {
			if err := list.Trim(tx, key, c.start, c.stop); err != nil {
				return err
			}
			written := 40 * (n - len(want))
			if c.again {
				written = 40 * len(want)
			}
			if got := tx.Size(); got > written*5/4+200 || got < written/2 {
				t.Errorf("%d to %d: %d bytes are written, want about %d", c.start, c.stop, got, written)
			}
			_, err := list.Push(tx, key, raw("last"), false, false)
			return err
		})
		view(t, db, [][]byte{key}, func(tx *engine.Tx) error {
			got, err := slice(tx, key, 0, -1)
			if !slices.Equal(got, want) {
				t.Errorf("%d to %d: %d elements, want %d\n%.300q\n%.300q", c.start, c.stop, len(got), len(want), got, want)
			}
			if rec, _ := tx.LoadAny(key); rec.Expire != uint64(until) {
				t.Errorf("%d to %d: the list expires at %d, want %d", c.start, c.stop, rec.Expire, until)
			}
			return err
		})
	}
}

// TestTrimTooMuch: a trim whose deletions do not fit into a write batch changes nothing.
func TestTrimTooMuch(t *testing.T) {
	db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir(), MaxBatchBytes: 200_000})
	key := []byte("l")
	for range 10 {
		push(t, db, key, slices.Repeat([]string{"0123456789"}, 1000)...)
	}
	err := db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error { return list.Trim(tx, key, 0, 1000) })
	if !errors.Is(err, engine.ErrBatchSize) {
		t.Errorf("Trim: %v", err)
	}
	view(t, db, [][]byte{key}, func(tx *engine.Tx) error {
		n, err := list.Len(tx, key)
		if n != 10000 {
			t.Errorf("%d elements are left", n)
		}
		return err
	})
}
