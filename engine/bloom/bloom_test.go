package bloom_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/bloom"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/fixture"
	"github.com/basaltdb/basalt/internal/require"
)

const ns = cf.DefaultNamespace

var raw = enginetest.Bytes

func update(t testing.TB, db *engine.DB, key []byte, f func(tx *engine.Tx) error) {
	t.Helper()
	require.NoError(t, db.Update(ns, [][]byte{key}, f))
}

// numbers are the items from, from+1, ... before to.
func numbers(from, to int) (list [][]byte) {
	for i := from; i < to; i++ {
		list = append(list, strconv.AppendInt(nil, int64(i), 10))
	}
	return list
}

func add(tx *engine.Tx, key []byte, items [][]byte, o *bloom.Options) (string, error) {
	var b strings.Builder
	err := bloom.Add(tx, key, items, o, func(r bloom.Result) { fmt.Fprint(&b, r) })
	return b.String(), err
}

func exists(tx *engine.Tx, key []byte, items [][]byte) (string, error) {
	var b strings.Builder
	err := bloom.Exists(tx, key, items, func(has bool) {
		if has {
			b.WriteByte('1')
		} else {
			b.WriteByte('0')
		}
	})
	return b.String(), err
}

func TestAdd(t *testing.T) {
	const added, present, full = "0", "1", "2"
	db := enginetest.Open(t)
	key := []byte("b")
	update(t, db, key, func(tx *engine.Tx) error {
		if _, err := add(tx, key, raw("a"), nil); !errors.Is(err, bloom.ErrNotFound) {
			t.Errorf("without the key: %v", err)
		}
		if got, err := exists(tx, key, raw("a", "b")); got != "00" {
			t.Errorf("without the key: %s, %v", got, err)
		}
		if _, found, err := bloom.Describe(tx, key); found || err != nil {
			t.Errorf("without the key: described, %v", err)
		}
		o := bloom.Options{Capacity: 4, ErrorRate: 0.001}
		if err := bloom.Reserve(tx, key, o); err != nil {
			return err
		}
		if err := bloom.Reserve(tx, key, o); !errors.Is(err, bloom.ErrExists) {
			t.Errorf("reserved again: %v", err)
		}
		for _, tt := range []struct{ items, want string }{
			{"a", added}, {"a", present}, {"b a b", added + present + present}, {"c d e a e", added + added + full +
				present + full}, {"f", full},
		} {
			if got, err := add(tx, key, raw(strings.Fields(tt.items)...), &bloom.DefaultOptions); got != tt.want || err != nil {
				t.Errorf("%s: %s, %v, want %s", tt.items, got, err, tt.want)
			}
		}
		got, err := exists(tx, key, raw("a", "e", "d"))
		if got != "101" {
			t.Errorf("exists: %s", got)
		}
		return err
	})
	update(t, db, key, func(tx *engine.Tx) error {
		info, found, err := bloom.Describe(tx, key)
		if want := (bloom.Info{Capacity: 4, Bytes: 32, Filters: 1, Items: 4}); info != want || !found {
			t.Errorf("%+v, want %+v", info, want)
		}
		return err
	})
}

// A chain grows as Kvrocks's does, whether its items come together, in one transaction, or one by one.
func TestChain(t *testing.T) {
	for _, tt := range []struct {
		o     bloom.Options
		items int
		want  bloom.Info
	}{
		{bloom.Options{Capacity: 5, ErrorRate: 0.1, Expansion: 2}, 20,
			bloom.Info{Capacity: 35, Bytes: 96, Filters: 3, Items: 20, Expansion: 2}},
		{bloom.Options{Capacity: 100, ErrorRate: 0.0001, Expansion: 1}, 1000,
			bloom.Info{Capacity: 1000, Bytes: 5120, Filters: 10, Items: 1000, Expansion: 1}},
		{bloom.Options{Capacity: 1000, ErrorRate: 0.0001, Expansion: 4}, 20000,
			bloom.Info{Capacity: 21000, Bytes: 4096 + 16384 + 65536, Filters: 3, Items: 20000, Expansion: 4}},
	} {
		items := numbers(0, tt.items)
		for _, step := range []int{tt.items, 7, 1} {
			if step == 1 && tt.items > 1000 {
				continue
			}
			t.Run(fmt.Sprint(tt.o, step), func(t *testing.T) {
				db := enginetest.Open(t)
				key := []byte("b")
				for i := 0; i < tt.items; i += step {
					update(t, db, key, func(tx *engine.Tx) error {
						half := items[i:min(i+step, len(items))]
						if _, err := add(tx, key, half[:len(half)/2], &tt.o); err != nil {
							return err
						}
						_, err := add(tx, key, half[len(half)/2:], &tt.o)
						return err
					})
				}
				update(t, db, key, func(tx *engine.Tx) error {
					info, _, err := bloom.Describe(tx, key)
					lost := tt.want.Items - info.Items
					want := tt.want
					want.Items = info.Items
					if err != nil || info != want || float64(lost) > 2*tt.o.ErrorRate*float64(tt.items)*float64(want.Filters)+1 {
						t.Errorf("%+v, %v, want %+v", info, err, tt.want)
					}
					got, err := exists(tx, key, items)
					if strings.Contains(got, "0") {
						t.Error("an item is missing")
					}
					return err
				})
			})
		}
	}
}

// TestModel does random operations, some of which are rolled back, and compares: what was added is there, what
// was not is not, but for a few.
func TestModel(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("b")
	r := rand.New(rand.NewPCG(1, 2))
	o := bloom.Options{Capacity: 200, ErrorRate: 0.00001, Expansion: 3}
	have := map[string]bool{}
	count := uint64(0)
	for range 300 {
		update(t, db, key, func(tx *engine.Tx) error {
			for range 1 + r.IntN(4) {
				var items [][]byte
				for range 1 + r.IntN(40) {
					items = append(items, strconv.AppendInt(nil, int64(r.IntN(8000)), 10))
				}
				mark := tx.Savepoint()
				got, err := add(tx, key, items, &o)
				if err != nil {
					return err
				}
				if r.IntN(4) == 0 {
					if err := tx.Rollback(mark); err != nil {
						return err
					}
					continue
				}
				for i, item := range items {
					if wasThere := got[i] == '1'; have[string(item)] != wasThere {
						return fmt.Errorf("%q: result %c, was added before: %v", item, got[i], have[string(item)])
					}
					if !have[string(item)] {
						have[string(item)] = true
						count++
					}
				}
			}
			return nil
		})
	}
	update(t, db, key, func(tx *engine.Tx) error {
		info, _, err := bloom.Describe(tx, key)
		if err != nil || info.Items != count || info.Filters < 3 {
			t.Errorf("%+v, %v, want %d items", info, err, count)
		}
		got, err := exists(tx, key, numbers(0, 8000))
		for i := range got {
			if (got[i] == '1') != have[strconv.Itoa(i)] {
				t.Errorf("item %d: %c", i, got[i])
			}
		}
		return err
	})
}

// The error rate of a chain in the database, as its users see it.
func TestMillionItems(t *testing.T) {
	if testing.Short() {
		t.Skip("a million items")
	}
	db := enginetest.Open(t)
	key := []byte("b")
	const n, step = 1_000_000, 50_000
	update(t, db, key, func(tx *engine.Tx) error {
		return bloom.Reserve(tx, key, bloom.Options{Capacity: n, ErrorRate: 0.01, Expansion: 2})
	})
	for i := 0; i < n; i += step {
		update(t, db, key, func(tx *engine.Tx) error { _, err := add(tx, key, numbers(i, i+step), nil); return err })
	}
	update(t, db, key, func(tx *engine.Tx) error {
		info, _, err := bloom.Describe(tx, key)
		if info.Filters != 1 || info.Items < 0.99*n {
			t.Errorf("%+v", info)
		}
		for i := 0; i < n; i += step {
			got, err := exists(tx, key, numbers(i, i+step))
			if err != nil || strings.Contains(got, "0") {
				t.Fatalf("an item from %d on is missing, %v", i, err)
			}
		}
		wrong := 0
		for i := n; i < 2*n; i += step {
			got, err := exists(tx, key, numbers(i, i+step))
			require.NoError(t, err)
			wrong += strings.Count(got, "1")
		}
		t.Logf("%d of %d items that were not added were found", wrong, n)
		if float64(wrong) > 0.01*n {
			t.Errorf("the error rate is %g", float64(wrong)/n)
		}
		return err
	})
}

// Chains that a Kvrocks wrote.
func TestKvrocksData(t *testing.T) {
	dir := t.TempDir()
	fixture.Unpack(t, dir)
	db := enginetest.OpenWith(t, engine.Options{Dir: dir + "/db"})
	for _, tt := range []struct {
		key, items, want string
	}{
		{"bloom:reserved", "a b c d e f zzz", "1111100"},
		{"bloom:default", "item1 item2 item3", "110"},
		{"bloom:insert", "i1 i2 i3 i4", "1110"},
		{"bloom:scaled", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20", strings.Repeat("1", 20)},
	} {
		key := []byte(tt.key)
		update(t, db, key, func(tx *engine.Tx) error {
			got, err := exists(tx, key, raw(strings.Fields(tt.items)...))
			if got != tt.want {
				t.Errorf("%s: %s, want %s", tt.key, got, tt.want)
			}
			return err
		})
	}
	key := []byte("bloom:scaled")
	update(t, db, key, func(tx *engine.Tx) error { _, err := add(tx, key, numbers(100, 140), nil); return err })
	update(t, db, key, func(tx *engine.Tx) error {
		info, _, err := bloom.Describe(tx, key)
		if info.Filters != 4 || info.Capacity != 75 || info.Bytes != 96+32 {
			t.Errorf("after more items: %+v", info)
		}
		return err
	})
}

func TestCorrupt(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("b\x00\xff")
	o := bloom.Options{Capacity: 10, ErrorRate: 0.01, Expansion: 1000}
	update(t, db, key, func(tx *engine.Tx) error { _, err := add(tx, key, numbers(0, 20), &o); return err })
	// try breaks the chain in a transaction that is dropped, and uses it.
	try := func(name string, broken bool, f func(tx *engine.Tx, rec *engine.Record)) {
		t.Helper()
		dropped := errors.New("dropped")
		err := db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error {
			rec, err := tx.Load(key, cf.TypeBloom)
			if err != nil {
				return err
			}
			f(tx, &rec)
			for what, err := range map[string]error{
				"add":    second(add(tx, key, raw("new", "newer"), nil)),
				"exists": second(exists(tx, key, raw("new"))),
			} {
				if broken && (!errors.Is(err, cf.ErrCorrupt) || !strings.HasPrefix(err.Error(),
					`key "b\x00\xff": `)) || !broken && err != nil {
					t.Errorf("%s, %s: %v", name, what, err)
				}
			}
			return dropped
		})
		if !errors.Is(err, dropped) {
			t.Fatal(err)
		}
	}
	filter := func(i uint16, value []byte) func(tx *engine.Tx, rec *engine.Record) {
		return func(tx *engine.Tx, rec *engine.Record) {
			k := tx.Subkey(rec, cf.AppendBloomSub(nil, i))
			if value == nil {
				tx.Delete(cf.Default, k)
			} else {
				tx.Put(cf.Default, k, value)
			}
		}
	}
	meta := func(change func(m *cf.BloomMeta)) func(tx *engine.Tx, rec *engine.Record) {
		return func(tx *engine.Tx, rec *engine.Record) {
			m, err := cf.DecodeBloomMeta(rec.Tail)
			require.NoError(t, err)
			change(&m)
			tx.Save(rec, m.Append(nil))
		}
	}
	try("nothing", false, func(*engine.Tx, *engine.Record) {})
	try("small filter missing", true, filter(0, nil))
	try("small filter empty", true, filter(0, []byte{}))
	try("small filter of 33 bytes", true, filter(0, make([]byte, 33)))
	try("small filter, larger than it was", false, filter(0, make([]byte, 4096)))
	try("large filter missing", true, filter(1, nil))
	try("large filter empty", true, filter(1, []byte{}))
	try("large filter of 3 KiB", true, filter(1, make([]byte, 3<<10)))
	try("large filter, smaller than it was", false, filter(1, make([]byte, 1<<10)))
	try("tail", true, func(tx *engine.Tx, rec *engine.Record) { tx.Save(rec, rec.Tail[:19]) })
	try("no filters", true, meta(func(m *cf.BloomMeta) { m.Filters = 0 }))
	try("too many filters", true, meta(func(m *cf.BloomMeta) { m.Filters = 3 }))
	try("no capacity", true, meta(func(m *cf.BloomMeta) { m.BaseCapacity = 0 }))
	try("error rate 0", true, meta(func(m *cf.BloomMeta) { m.ErrorRate = 0 }))
	try("error rate -1", true, meta(func(m *cf.BloomMeta) { m.ErrorRate = -1 }))
}

func second[T any](_ T, err error) error { return err }

// A chain cannot have more bytes than the metadata can say.
func TestCannotGrow(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("b")
	update(t, db, key, func(tx *engine.Tx) error {
		if err := bloom.Reserve(tx, key, bloom.Options{Capacity: 1, ErrorRate: 0.01, Expansion: 1}); err != nil {
			return err
		}
		rec, err := tx.Load(key, cf.TypeBloom)
		if err != nil {
			return err
		}
		m, err := cf.DecodeBloomMeta(rec.Tail)
		m.Bytes = 1<<32 - 32
		rec.Size = 1
		tx.Save(&rec, m.Append(nil))
		return err
	})
	update(t, db, key, func(tx *engine.Tx) error {
		if _, err := add(tx, key, raw("x"), nil); !errors.Is(err, bloom.ErrTooLong) || !tx.Empty() {
			t.Errorf("%v", err)
		}
		return nil
	})
}

func TestWrongType(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("s")
	update(t, db, key, func(tx *engine.Tx) error {
		rec := tx.Fresh(key, cf.TypeString)
		tx.SaveAppend(&rec, []byte("v"))
		return nil
	})
	update(t, db, key, func(tx *engine.Tx) error {
		for what, err := range map[string]error{
			"add":     second(add(tx, key, raw("a"), &bloom.DefaultOptions)),
			"exists":  second(exists(tx, key, raw("a"))),
			"reserve": bloom.Reserve(tx, key, bloom.DefaultOptions),
		} {
			if !errors.Is(err, engine.ErrWrongType) {
				t.Errorf("%s: %v", what, err)
			}
		}
		return nil
	})
}
