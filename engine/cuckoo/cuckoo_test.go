package cuckoo_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/cuckoo"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/fixture"
	"github.com/basaltdb/basalt/internal/murmur"
	"github.com/basaltdb/basalt/internal/require"
)

const ns = cf.DefaultNamespace

var key = []byte("c")

func update(t testing.TB, db *engine.DB, f func(tx *engine.Tx) error) {
	t.Helper()
	require.NoError(t, db.Update(ns, [][]byte{key}, f))
}

func item(i int) []byte { return strconv.AppendInt(nil, int64(i), 10) }

func add(tx *engine.Tx, unique bool, o *cuckoo.Options, items ...[]byte) (results []cuckoo.Result, err error) {
	err = cuckoo.Add(tx, key, items, unique, o, func(r cuckoo.Result) { results = append(results, r) })
	return results, err
}

func exists(tx *engine.Tx, items ...[]byte) (results []bool, err error) {
	err = cuckoo.Exists(tx, key, items, func(has bool) { results = append(results, has) })
	return results, err
}

// reference is a chain in plain memory, after the descriptions of Redis's module and of Kvrocks.
type reference struct {
	o       cuckoo.Options
	filters [][]byte
}

func (r *reference) grow() {
	capacity := r.o.Capacity
	for range r.filters {
		capacity *= uint64(r.o.Expansion)
	}
	buckets := 1
	for float64(buckets)*float64(r.o.BucketSize)*0.955 < float64(capacity) {
		buckets *= 2
	}
	r.filters = append(r.filters, make([]byte, buckets*int(r.o.BucketSize)))
}

func (r *reference) bucket(k int, hash uint64) []byte {
	n := uint64(r.o.BucketSize)
	i := hash % (uint64(len(r.filters[k])) / n) * n
	return r.filters[k][i : i+n]
}

// put replaces a fingerprint in one of the buckets of an item, from the newest filter to the oldest.
func (r *reference) put(item []byte, from, to byte) bool {
	h := murmur.Sum64(item, 0)
	fp := byte(h%255 + 1)
	for k := len(r.filters) - 1; k >= 0; k-- {
		for _, hash := range []uint64{h, h ^ uint64(fp)*0x5bd1e995} {
			b := r.bucket(k, hash)
			if i := bytes.IndexByte(b, from); i >= 0 {
				b[i] = to
				return true
			}
		}
	}
	return false
}

func (r *reference) add(item []byte) cuckoo.Result {
	h := murmur.Sum64(item, 0)
	fp := byte(h%255 + 1)
	if len(r.filters) == 0 {
		r.grow()
	}
	if r.put(item, 0, fp) {
		return cuckoo.Added
	}
	newest := len(r.filters) - 1
	before := bytes.Clone(r.filters[newest])
	buckets := uint64(len(before) / int(r.o.BucketSize))
	i, moving := h%buckets, fp
	for n := range int(r.o.MaxIterations) {
		b := r.bucket(newest, i)
		slot := n % len(b)
		moving, b[slot] = b[slot], moving
		i = (i ^ uint64(moving)*0x5bd1e995) % buckets
		b = r.bucket(newest, i)
		if free := bytes.IndexByte(b, 0); free >= 0 {
			b[free] = moving
			return cuckoo.Added
		}
	}
	r.filters[newest] = before
	if r.o.Expansion == 0 {
		return cuckoo.Full
	}
	r.grow()
	r.put(item, 0, fp)
	return cuckoo.Added
}

// pages returns the records that the filters must have: pages of at most 2,048 bytes of whole buckets. A page that was
// never written has no record; the reference does not know which, so pages of zeros are left out.
func (r *reference) pages() map[string]string {
	pages := map[string]string{}
	per := 2048 / int(r.o.BucketSize) * int(r.o.BucketSize)
	for k, f := range r.filters {
		n := 0
		for p := range slices.Chunk(f, per) {
			pages[string(cf.AppendCuckooSub(nil, uint16(k), uint32(n)))] = string(p)
			n++
		}
	}
	return pages
}

// same compares the records of the chain with the reference.
func (r *reference) same(t *testing.T, tx *engine.Tx) {
	t.Helper()
	rec, err := tx.Load(key, cf.TypeCuckooFilter)
	require.NoError(t, err)
	want := r.pages()
	it := tx.Iter(cf.Default, engine.IterOptions{Prefix: tx.SubkeyPrefix(&rec)})
	defer it.Close()
	for it.Next() {
		sub := string(it.Key())
		if want[sub] != string(it.Value()) {
			t.Fatalf("page %x is\n%x, want\n%x", sub, it.Value(), want[sub])
		}
		delete(want, sub)
	}
	if it.Err() != nil {
		t.Fatal(it.Err())
	}
	for sub, p := range want {
		if strings.Trim(p, "\x00") != "" {
			t.Fatalf("page %x has no record, want %x", sub, p)
		}
	}
}

var options = []cuckoo.Options{
	cuckoo.DefaultOptions,
	{Capacity: 2, BucketSize: 1, MaxIterations: 1, Expansion: 1},
	{Capacity: 300, BucketSize: 4, MaxIterations: 500, Expansion: 2},
	{Capacity: 9000, BucketSize: 3, MaxIterations: 20, Expansion: 4}, // several pages, the last one is shorter
	{Capacity: 2000, BucketSize: 255, MaxIterations: 20},
	{Capacity: 500, BucketSize: 2, MaxIterations: 1000},
}

// TestModel does random operations in random transactions, some of which are rolled back, and compares: all pages with
// those of the reference, and the items with a multiset, of which none may be missing.
func TestModel(t *testing.T) {
	for n, o := range options {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			db := enginetest.Open(t)
			rng := rand.New(rand.NewPCG(1, uint64(n)))
			ref := reference{o: o}
			have := map[int]int{}
			total, deleted, full := uint64(0), uint64(0), 0
			steps := 1 + int(o.Capacity)/15
			for step := range 40 {
				update(t, db, func(tx *engine.Tx) error {
					for range 1 + rng.IntN(3) {
						mark := tx.Savepoint()
						undone := rng.IntN(5) == 0
						if rng.IntN(3) == 0 && step > 0 {
							for _, i := range slices.Sorted(maps.Keys(have)) {
								ok, err := cuckoo.Delete(tx, key, item(i))
								if err != nil || !ok {
									return fmt.Errorf("item %d, which is there %d times, was deleted: %v, %w", i, have[i], ok, err)
								}
								if undone {
									break
								}
								ref.put(item(i), byte(murmur.Sum64(item(i), 0)%255+1), 0)
								if have[i]--; have[i] == 0 {
									delete(have, i)
								}
								total--
								if deleted++; deleted%4 == 0 {
									break
								}
							}
						} else {
							var list [][]byte
							var numbers []int
							for range 1 + rng.IntN(2*steps) {
								i := rng.IntN(1000 * steps)
								list, numbers = append(list, item(i)), append(numbers, i)
							}
							got, err := add(tx, false, &o, list...)
							if err != nil {
								return err
							}
							for j := range list {
								if undone {
									break
								}
								if want := ref.add(list[j]); got[j] != want {
									return fmt.Errorf("item %s: result %d, want %d", list[j], got[j], want)
								}
								if got[j] == cuckoo.Full {
									full++
									continue
								}
								have[numbers[j]]++
								total++
							}
						}
						if undone {
							if err := tx.Rollback(mark); err != nil {
								return err
							}
						}
					}
					return nil
				})
			}
			update(t, db, func(tx *engine.Tx) error {
				ref.same(t, tx)
				for i, n := range have {
					if got, err := cuckoo.Count(tx, key, item(i)); err != nil || got < uint64(n) {
						t.Errorf("item %d is there %d times, %v, want %d", i, got, err, n)
					}
					if has, err := exists(tx, item(i)); err != nil || !has[0] {
						t.Errorf("item %d is missing, %v", i, err)
					}
				}
				info, err := cuckoo.Describe(tx, key)
				if info.Items != total || info.Deleted != deleted || int(info.Filters) != len(ref.filters) {
					t.Errorf("%+v, want %d items, %d deleted, %d filters", info, total, deleted, len(ref.filters))
				}
				return err
			})
			if (full > 0) != (o.Expansion == 0) || total == 0 {
				t.Errorf("%d items, %d did not fit", total, full)
			}
		})
	}
}

// TestUnique adds items that are there.
func TestUnique(t *testing.T) {
	db := enginetest.Open(t)
	update(t, db, func(tx *engine.Tx) error {
		got, err := add(tx, true, &cuckoo.DefaultOptions, enginetest.Bytes("a", "b", "a")...)
		if want := []cuckoo.Result{cuckoo.Added, cuckoo.Added, cuckoo.Present}; !slices.Equal(got, want) {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
		n, err := cuckoo.Count(tx, key, []byte("a"))
		if n != 1 {
			t.Errorf("a is there %d times", n)
		}
		return err
	})
}

// TestBatches: each write is one batch, with the log data, the changed pages and the metadata record in Kvrocks's
// order. What changes nothing writes nothing. The fingerprint of item c is 203, its buckets are 1 and 2 of 4.
func TestBatches(t *testing.T) {
	o := cuckoo.Options{Capacity: 4, BucketSize: 2, MaxIterations: 20}
	adding := func(items ...string) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error { _, err := add(tx, false, nil, enginetest.Bytes(items...)...); return err }
	}
	deleting := func(item string) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error { _, err := cuckoo.Delete(tx, key, []byte(item)); return err }
	}
	show := func(t testing.TB, batches [][]byte) []string {
		lines := fixture.Lines(t, batches, ns+"/", "")
		for i, l := range lines {
			if head, value, _ := strings.Cut(l, " = "); strings.HasPrefix(l, "put metadata") {
				lines[i] = head + " " + regexp.MustCompile(`size \d+`).FindString(value)
			}
		}
		return lines
	}
	page := func(b string) string { return `put default "c" #1 "\x00\x00\x00\x00\x00\x00" = ` + b }
	db := enginetest.Open(t)
	for _, c := range []struct {
		name string
		f    func(tx *engine.Tx) error
		want []string
	}{
		{"reserve", func(tx *engine.Tx) error { return cuckoo.Reserve(tx, key, o) },
			[]string{`log data "14 reserve c"`, `put metadata "c" size 0`}},
		{"add", adding("c"), []string{`log data "14 add c"`, page(`"\x00\x00\xcb\x00\x00\x00\x00\x00"`),
			`put metadata "c" size 1`}},
		{"delete nothing", deleting("none"), nil},
		{"delete", deleting("c"), []string{`log data "14 del c"`, page(`"\x00\x00\x00\x00\x00\x00\x00\x00"`),
			`put metadata "c" size 0`}},
		{"two commands", func(tx *engine.Tx) error { return errors.Join(adding("c")(tx), adding("c", "c")(tx)) },
			[]string{`log data "14 add c"`, page(`"\x00\x00\xcb\xcb\xcb\x00\x00\x00"`), `put metadata "c" size 3`,
				`log data "14 add c"`}},
		{"the last one", adding("c"), []string{`log data "14 add c"`, page(`"\x00\x00\xcb\xcb\xcb\xcb\x00\x00"`),
			`put metadata "c" size 4`}},
		{"full", adding("c"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			enginetest.WantBatches(t, db, [][]byte{key}, nil, c.f, show, c.want)
		})
	}
}

// TestTwoClients: two clients that add to one chain lose nothing of each other.
func TestTwoClients(t *testing.T) {
	db := enginetest.Open(t)
	const each = 2000
	o := cuckoo.Options{Capacity: 500, BucketSize: 2, MaxIterations: 20, Expansion: 2}
	var clients sync.WaitGroup
	for n := range 2 {
		clients.Go(func() {
			for i := range each {
				if err := db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error {
					_, err := add(tx, false, &o, item(n*each+i))
					return err
				}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	clients.Wait()
	update(t, db, func(tx *engine.Tx) error {
		for i := range 2 * each {
			if has, err := exists(tx, item(i)); err != nil || !has[0] {
				t.Errorf("item %d is missing, %v", i, err)
			}
		}
		info, err := cuckoo.Describe(tx, key)
		if info.Items != 2*each || info.Filters < 3 {
			t.Errorf("%+v", info)
		}
		return err
	})
}

func TestCorrupt(t *testing.T) {
	db := enginetest.Open(t)
	update(t, db, func(tx *engine.Tx) error {
		_, err := add(tx, false, &cuckoo.DefaultOptions, []byte("a"))
		return err
	})
	dropped := errors.New("dropped")
	for name, value := range map[string]func(tx *engine.Tx, rec *engine.Record){
		"a short page": func(tx *engine.Tx, rec *engine.Record) {
			tx.Put(cf.Default, tx.Subkey(rec, cf.AppendCuckooSub(nil, 0, 0)), make([]byte, 2047))
		},
		"no filters":   func(tx *engine.Tx, rec *engine.Record) { tx.Save(rec, append([]byte{0, 0}, rec.Tail[2:]...)) },
		"a short tail": func(tx *engine.Tx, rec *engine.Record) { tx.Save(rec, rec.Tail[:26]) },
		"a large capacity": func(tx *engine.Tx, rec *engine.Record) {
			tx.Save(rec, append([]byte{0, 1, 0, 1, 1}, rec.Tail[5:]...))
		},
	} {
		err := db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error {
			rec, err := tx.Load(key, cf.TypeCuckooFilter)
			if err != nil {
				return err
			}
			rec.Tail = bytes.Clone(rec.Tail)
			value(tx, &rec)
			_, addErr := add(tx, false, nil, []byte("a"))
			_, existsErr := exists(tx, []byte("a"))
			_, deleteErr := cuckoo.Delete(tx, key, []byte("a"))
			for _, err := range []error{addErr, existsErr, deleteErr} {
				if !errors.Is(err, cf.ErrCorrupt) || !strings.HasPrefix(err.Error(), `key "c": `) {
					t.Errorf("%s: %v", name, err)
				}
			}
			return dropped
		})
		if !errors.Is(err, dropped) {
			t.Fatal(err)
		}
	}
}
