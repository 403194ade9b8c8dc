package sortedint_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/engine/sortedint"
	"github.com/basaltdb/basalt/internal/fixture"
	"github.com/basaltdb/basalt/internal/require"
)

const ns = cf.DefaultNamespace

var (
	key  = []byte("si")
	keys = [][]byte{key}
)

func update(t testing.TB, db *engine.DB, f func(tx *engine.Tx) error) {
	t.Helper()
	require.NoError(t, db.Update(ns, keys, f))
}

func add(ids ...uint64) func(tx *engine.Tx) error {
	return func(tx *engine.Tx) error { _, err := sortedint.Add(tx, key, ids); return err }
}

func remove(ids ...uint64) func(tx *engine.Tx) error {
	return func(tx *engine.Tx) error { _, err := sortedint.Remove(tx, key, ids); return err }
}

func page(tx *engine.Tx, p sortedint.Page) (ids []uint64, err error) {
	err = sortedint.Each(tx, key, p, func(id uint64) { ids = append(ids, id) })
	return ids, err
}

func calls() map[string]func(tx *engine.Tx) error {
	return map[string]func(tx *engine.Tx) error{
		"Add":      add(1),
		"Remove":   remove(1),
		"Card":     func(tx *engine.Tx) error { _, err := sortedint.Card(tx, key); return err },
		"Contains": func(tx *engine.Tx) error { _, err := sortedint.Contains(tx, key, []uint64{1}); return err },
		"Each":     func(tx *engine.Tx) error { _, err := page(tx, sortedint.All); return err },
	}
}

func TestPages(t *testing.T) {
	db := enginetest.Open(t)
	update(t, db, add(1, 0, math.MaxUint64, 256, 255, 1))
	full := sortedint.All
	for _, c := range []struct {
		name string
		page sortedint.Page
		want []uint64
	}{
		{"all", full, []uint64{0, 1, 255, 256, math.MaxUint64}},
		{"all, descending", sortedint.Page{Max: math.MaxUint64, Reverse: true}, []uint64{math.MaxUint64, 256, 255, 1, 0}},
		{"limit", sortedint.Page{Max: math.MaxUint64, Limit: 2}, []uint64{0, 1}},
		{"offset", sortedint.Page{Max: math.MaxUint64, Offset: 1, Limit: 2}, []uint64{1, 255}},
		{"offset, descending", sortedint.Page{Max: math.MaxUint64, Offset: 3, Reverse: true}, []uint64{1, 0}},
		{"offset beyond", sortedint.Page{Max: math.MaxUint64, Offset: math.MaxUint64, Limit: math.MaxUint64}, nil},
		{"between", sortedint.Page{Min: 1, Max: 255}, []uint64{1, 255}},
		{"between, descending", sortedint.Page{Min: 1, Max: 256, Offset: 1, Reverse: true}, []uint64{255, 1}},
		{"the greatest", sortedint.Page{Min: math.MaxUint64, Max: math.MaxUint64}, []uint64{math.MaxUint64}},
		{"the wrong way round", sortedint.Page{Min: 2, Max: 1}, nil},
		{"above", full.Above(1), []uint64{255, 256, math.MaxUint64}},
		{"above the greatest", full.Above(math.MaxUint64), nil},
		{"below", full.Below(256), []uint64{0, 1, 255}},
		{"below the least", full.Below(0), nil},
		{"above and below", full.Above(0).Below(255), []uint64{1}},
		{"above the greatest and below", full.Above(math.MaxUint64).Below(5), nil},
	} {
		if err := db.View(ns, keys, func(tx *engine.Tx) error {
			got, err := page(tx, c.page)
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: %d, want %d", c.name, got, c.want)
			}
			return err
		}); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestBatches compares the records of each write with those that Kvrocks 2.10 writes, in its order.
func TestBatches(t *testing.T) {
	db := enginetest.Open(t)
	sub := func(id byte) string { return `"si" "\x00\x00\x00\x00\x00\x00\x00` + string(id) + `"` }
	const log = `log data "7"`
	show := func(t testing.TB, batches [][]byte) []string {
		return fixture.Lines(t, batches, ns+"/", "", "expire 0 version #1 ", "", " #1", "", " = sortedint", "", ` = ""`, "",
			` ""`, "")
	}
	for _, c := range []struct {
		name   string
		before []uint64
		f      func(tx *engine.Tx) error
		want   []string
	}{
		{"new ids, in their order", nil, add('b', 'a'), []string{log, "put default " + sub('b'), "put default " +
			sub('a'), `put metadata "si" size 2`}},
		{"twice the same", nil, add('a', 'b', 'a'), []string{log, "put default " + sub('a'), "put default " +
			sub('b'), `put metadata "si" size 2`}},
		{"an old and a new one", []uint64{'a'}, add('a', 'b'), []string{log, "put default " + sub('b'),
			`put metadata "si" size 2`}},
		{"nothing new", []uint64{'a'}, add('a'), nil},
		{"remove", []uint64{'a', 'b', 'c'}, remove('c', 'x', 'a', 'c'),
			[]string{log, "delete default " + sub('c'), "delete default " + sub('a'), `put metadata "si" size 1`}},
		{"remove nothing", []uint64{'a'}, remove('x'), nil},
		{"remove from nothing", nil, remove('x'), nil},
		{"remove the last", []uint64{'a'}, remove('a'), []string{log, "delete default " + sub('a'),
			`put metadata "si" size 0`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			update(t, db, func(tx *engine.Tx) error {
				rec, err := tx.LoadAny(key)
				if err == nil && rec.Exists {
					tx.Drop(&rec)
				}
				return errors.Join(err, add(c.before...)(tx))
			})
			enginetest.WantBatches(t, db, keys, nil, c.f, show, c.want)
		})
	}
}

func TestWrongType(t *testing.T) {
	db := enginetest.Open(t)
	update(t, db, func(tx *engine.Tx) error {
		_, err := hash.Set(tx, key, [][]byte{[]byte("f"), []byte("v")})
		return err
	})
	for name, f := range calls() {
		if err := db.Update(ns, keys, f); err != engine.ErrWrongType {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCorrupt: a record that no sortedint has is an error that names the key.
func TestCorrupt(t *testing.T) {
	db := enginetest.Open(t)
	update(t, db, func(tx *engine.Tx) error {
		rec := tx.Fresh(key, cf.TypeSortedInt)
		rec.Size = 1
		tx.Save(&rec, nil)
		tx.Put(cf.Default, tx.Subkey(&rec, []byte("short")), nil)
		return nil
	})
	bad := func(name string, err error) {
		if !errors.Is(err, cf.ErrCorrupt) || !strings.Contains(err.Error(), `key "si"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, reverse := range []bool{false, true} {
		bad("sub key", db.View(ns, keys, func(tx *engine.Tx) error {
			_, err := page(tx, sortedint.Page{Max: math.MaxUint64, Reverse: reverse})
			return err
		}))
	}
	update(t, db, func(tx *engine.Tx) error {
		tx.Put(cf.Metadata, tx.NSKey(key), []byte{0x87, 0})
		return nil
	})
	for name, f := range calls() {
		bad(name, db.Update(ns, keys, f))
	}
}
