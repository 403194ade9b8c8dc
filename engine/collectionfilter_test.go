package engine_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// collections is a database and what must be in it: the elements of each collection.
type collections struct {
	*testing.T
	db    *engine.DB
	r     *rand.Rand
	id    cf.ID
	kind  cf.Type
	keys  [][]byte
	model map[string]map[string]bool
}

func (c *collections) element() []byte {
	return fmt.Appendf(nil, "%0*d", 1+c.r.IntN(5), c.r.IntN(3000))
}

// change makes random changes in one transaction.
func (c *collections) change(n int) {
	enginetest.Update(c, c.db, c.keys, func(tx *engine.Tx) error {
		recs := map[string]*engine.Record{}
		for range n {
			key := c.keys[c.r.IntN(len(c.keys))]
			name := string(key)
			rec := recs[name]
			if rec == nil {
				loaded, err := tx.Load(key, c.kind)
				if err != nil {
					return err
				}
				rec = &loaded
				recs[name] = rec
			}
			if !rec.Exists || c.r.IntN(4000) == 0 { // a new version
				fresh := tx.Fresh(key, c.kind)
				fresh.Size = 1
				tx.Save(&fresh, nil)
				*rec, c.model[name] = fresh, map[string]bool{}
				rec.Exists = true
			}
			have := c.model[name]
			switch op := c.r.IntN(1000); {
			case op == 0:
				lower, upper := c.element(), c.element()
				if string(lower) > string(upper) {
					lower, upper = upper, lower
				}
				begin := slices.Clone(tx.Subkey(rec, lower))
				tx.DeleteRange(c.id, begin, slices.Clone(tx.Subkey(rec, upper)))
				maps.DeleteFunc(have, func(e string, _ bool) bool { return e >= string(lower) && e < string(upper) })
			case op == 1:
				begin := slices.Clone(tx.SubkeyPrefix(rec))
				end, _ := cf.AppendSuccessor(nil, begin)
				tx.DeleteRange(c.id, begin, end)
				clear(have)
			case op < 200:
				e := c.element()
				tx.Delete(c.id, tx.Subkey(rec, e))
				delete(have, string(e))
			default:
				e := c.element()
				tx.Put(c.id, tx.Subkey(rec, e), e)
				have[string(e)] = true
			}
		}
		return nil
	})
}

// check compares what iterators return with the model: all elements, those from a random one on, and backwards.
func (c *collections) check() {
	c.Helper()
	enginetest.View(c, c.db, c.keys, func(tx *engine.Tx) error {
		for _, key := range c.keys {
			rec, err := tx.Load(key, c.kind)
			if err != nil {
				return err
			}
			if !rec.Exists {
				continue
			}
			want := slices.Sorted(maps.Keys(c.model[string(key)]))
			prefix := slices.Clone(tx.SubkeyPrefix(&rec))
			c.compare(tx, key, want, engine.IterOptions{Prefix: prefix})
			from := c.element()
			i, _ := slices.BinarySearch(want, string(from))
			c.compare(tx, key, want[i:], engine.IterOptions{Prefix: prefix, Lower: slices.Concat(prefix, from)})
			slices.Reverse(want)
			c.compare(tx, key, want, engine.IterOptions{Prefix: prefix, Reverse: true})
		}
		return nil
	})
}

func (c *collections) compare(tx *engine.Tx, key []byte, want []string, o engine.IterOptions) {
	c.Helper()
	it := tx.Iter(c.id, o)
	defer it.Close()
	var got []string
	for it.Next() {
		got = append(got, string(it.Key()))
	}
	if err := it.Err(); err != nil {
		c.Fatal(err)
	}
	if !slices.Equal(got, want) {
		c.Fatalf("collection %q, lower %q, reverse %t: %d elements, want %d", key, o.Lower, o.Reverse, len(got), len(want))
	}
}

// TestCollectionsInManyFiles: iterators over collections, whose elements and deletions lie in some of many files, find
// what a model holds, while filters keep them from reading the others. Names are prefixes of each other, a file has
// many partitions of its filter, and ranges of elements are deleted.
func TestCollectionsInManyFiles(t *testing.T) {
	for _, family := range []struct {
		id   cf.ID
		kind cf.Type
	}{{cf.Default, cf.TypeHash}, {cf.Stream, cf.TypeStream}} {
		for _, slots := range []bool{false, true} {
			t.Run(fmt.Sprintf("%v slots %t", family.id, slots), func(t *testing.T) {
				o := engine.Options{Dir: t.TempDir() + "/db", Slots: slots}
				c := &collections{T: t, db: enginetest.OpenWith(t, o), r: rand.New(rand.NewPCG(7, 8)), id: family.id,
					kind: family.kind, model: map[string]map[string]bool{}}
				for i := range 60 {
					name := fmt.Appendf(nil, "%b", i)
					if i%7 == 0 {
						name = append(name, 0xff, 0xff, 0xff, 0xff)
					}
					c.keys = append(c.keys, name)
				}
				all := c.keys
				for range 12 {
					c.r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
					c.keys = all[:1+c.r.IntN(len(all))]
					c.change(8000)
					c.keys = all
					c.check()
					if c.r.IntN(4) > 0 {
						require.NoError(t, c.db.FlushMemtable(c.id))
					}
					if c.r.IntN(4) == 0 {
						start := fmt.Appendf(nil, "%c", c.r.IntN(30))
						require.NoError(t, c.db.CompactRange(c.id, start, nil))
					}
					c.check()
				}
				if ticker(t, c.db, "rocksdb.bloom.filter.prefix.useful") == 0 {
					t.Error("no file was passed over")
				}
			})
		}
	}
}
