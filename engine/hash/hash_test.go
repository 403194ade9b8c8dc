package hash_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/hash"
	"github.com/basaltdb/basalt/internal/require"
)

const ns = cf.DefaultNamespace

var raw = enginetest.Bytes

func update(t testing.TB, db *engine.DB, key []byte, f func(tx *engine.Tx) error) {
	t.Helper()
	require.NoError(t, db.Update(ns, [][]byte{key}, f))
}

func view(t testing.TB, db *engine.DB, key []byte, f func(tx *engine.Tx) error) {
	t.Helper()
	require.NoError(t, db.View(ns, [][]byte{key}, f))
}

// all returns the fields and values of a hash in their order, by Each, which checks their number.
func all(tx *engine.Tx, key []byte) ([]string, error) {
	var kv []string
	announced := uint64(0)
	err := hash.Each(tx, key, false, func(n uint64) { announced = n },
		func(f, v []byte) { kv = append(kv, string(f), string(v)) })
	if err == nil && announced != uint64(len(kv)/2) {
		err = fmt.Errorf("%d fields announced, %d came", announced, len(kv)/2)
	}
	return kv, err
}

func TestIncrBy(t *testing.T) {
	for _, c := range []struct {
		old  string // "none": no such field
		by   int64
		want int64
		err  error
	}{
		{"none", 5, 5, nil},
		{"none", math.MinInt64, math.MinInt64, nil},
		{"10", -3, 7, nil},
		{"-9223372036854775808", math.MaxInt64, -1, nil},
		{"9223372036854775807", 0, math.MaxInt64, nil},
		{"9223372036854775807", 1, 0, hash.ErrOverflow},
		{"-1", math.MinInt64, 0, hash.ErrOverflow},
		{"9223372036854775808", 1, 0, hash.ErrNotInteger},
		{"", 1, 0, hash.ErrNotInteger},
		{"+1", 1, 0, hash.ErrNotInteger},
		{"-0", 1, 0, hash.ErrNotInteger},
		{"01", 1, 0, hash.ErrNotInteger},
		{" 1", 1, 0, hash.ErrNotInteger},
		{"1.0", 1, 0, hash.ErrNotInteger},
		{"1_0", 1, 0, hash.ErrNotInteger},
		{strings.Repeat("1", 100), 1, 0, hash.ErrNotInteger},
	} {
		t.Run(fmt.Sprintf("%.20q%+d", c.old, c.by), func(t *testing.T) {
			db := enginetest.Open(t)
			key := []byte("h")
			stored := []string{"other", "x"}
			if c.old != "none" {
				stored = []string{"f", c.old, "other", "x"}
			}
			update(t, db, key, func(tx *engine.Tx) error {
				_, err := hash.Set(tx, key, raw(stored...))
				return err
			})
			err := db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error {
				n, err := hash.IncrBy(tx, key, []byte("f"), c.by)
				if err == nil && n != c.want {
					t.Errorf("returned %d, want %d", n, c.want)
				}
				return err
			})
			if !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if c.err == nil {
				stored = []string{"f", fmt.Sprint(c.want), "other", "x"}
			}
			view(t, db, key, func(tx *engine.Tx) error {
				got, err := all(tx, key)
				if !slices.Equal(got, stored) {
					t.Errorf("the hash holds %q, want %q", got, stored)
				}
				return err
			})
		})
	}
}

func TestIncrByFloat(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("h")
	for _, c := range []struct {
		field, old, by, want string
		err                  error
	}{
		{"a", "none", "10.50", "10.5", nil},
		{"b", "10.50", "0.1", "10.6", nil},
		{"c", "3.0", "0.1", "3.1", nil},
		{"d", "5.0e3", "2.0e2", "5200", nil},
		{"e", "1", "-1", "0", nil},
		{"f", "text", "1", "", hash.ErrNotFloat},
		{"g", "", "1", "", hash.ErrNotFloat},
		{"h", " 1", "1", "", hash.ErrNotFloat},
		{"i", "inf", "1", "", hash.ErrNaN},
		{"j", "1e4932", "1e4932", "", hash.ErrNaN},
	} {
		if c.old != "none" {
			update(t, db, key, func(tx *engine.Tx) error {
				_, err := hash.Set(tx, key, raw(c.field, c.old))
				return err
			})
		}
		err := db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error {
			sum, err := hash.IncrByFloat(tx, key, []byte(c.field), []byte(c.by))
			if err == nil && string(sum) != c.want {
				t.Errorf("%s + %s = %s, want %s", c.old, c.by, sum, c.want)
			}
			return err
		})
		if !errors.Is(err, c.err) {
			t.Errorf("%s + %s: error %v, want %v", c.old, c.by, err, c.err)
		}
		want := c.want
		if c.err != nil {
			want = c.old
		}
		view(t, db, key, func(tx *engine.Tx) error {
			v, _, err := hash.Get(tx, key, []byte(c.field))
			if string(v) != want {
				t.Errorf("after %s + %s the field is %q, want %q", c.old, c.by, v, want)
			}
			return err
		})
	}
}

func TestRangeByLex(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("h")
	update(t, db, key, func(tx *engine.Tx) error {
		_, err := hash.Set(tx, key, raw("", "0", "a", "1", "a\x00", "2", "ab", "3", "b", "4", "\xff\xff", "5"))
		return err
	})
	bound := func(s string) hash.LexBound { // "[a", "(a" or ""
		if s == "" {
			return hash.LexBound{Inf: true}
		}
		return hash.LexBound{Field: []byte(s[1:]), Open: s[0] == '('}
	}
	for _, c := range []struct {
		min, max      string
		reverse       bool
		offset, limit int64
		want          string
	}{
		{"", "", false, 0, -1, "0 1 2 3 4 5"},
		{"", "", true, 0, -1, "5 4 3 2 1 0"},
		{"[a", "[b", false, 0, -1, "1 2 3 4"},
		{"(a", "(b", false, 0, -1, "2 3"},
		{"(a", "(b", true, 0, -1, "3 2"},
		{"[a", "[a", false, 0, -1, "1"},
		{"(a", "[a", false, 0, -1, ""},
		{"[b", "[a", false, 0, -1, ""},
		{"[", "[a", false, 0, -1, "0 1"},
		{"(", "[a", false, 0, -1, "1"},
		{"[\xff\xff", "", false, 0, -1, "5"},
		{"(\xff\xff", "", false, 0, -1, ""},
		{"", "(\xff\xff", true, 0, 2, "4 3"},
		{"", "", false, 1, 2, "1 2"},
		{"", "", true, 1, 2, "4 3"},
		{"", "", false, 5, 10, "5"},
		{"", "", false, 6, 10, ""},
		{"", "", false, 0, 0, ""},
		{"", "", false, -3, 1, "0"},
	} {
		view(t, db, key, func(tx *engine.Tx) error {
			var got []string
			r := hash.LexRange{Min: bound(c.min), Max: bound(c.max), Reverse: c.reverse, Offset: c.offset, Limit: c.limit}
			err := hash.RangeByLex(tx, key, r, func(_, v []byte) { got = append(got, string(v)) })
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("%q to %q, reverse %v, limit %d %d: %q, want %q", c.min, c.max, c.reverse, c.offset, c.limit, s, c.want)
			}
			return err
		})
	}
}

// TestRandom draws from hashes that are read whole and from ones that are not.
func TestRandom(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("h")
	have := map[string]string{}
	for _, size := range []int{1, 5, 100, 1000} {
		var pairs [][]byte
		for len(have) < size {
			f, v := fmt.Sprintf("field:%d", len(have)), fmt.Sprint("v", len(have))
			have[f] = v
			pairs = append(pairs, []byte(f), []byte(v))
		}
		update(t, db, key, func(tx *engine.Tx) error {
			_, err := hash.Set(tx, key, pairs)
			return err
		})
		for _, n := range []int{0, 1, 3, size - 1, size, size + 10} {
			view(t, db, key, func(tx *engine.Tx) error {
				seen := map[string]bool{}
				err := hash.RandomDistinct(tx, key, uint64(n), true, func(f, v []byte) bool {
					if have[string(f)] != string(v) || seen[string(f)] {
						t.Errorf("of %d: field %q with %q, seen before: %v", size, f, v, seen[string(f)])
					}
					seen[string(f)] = true
					return true
				})
				if len(seen) != min(n, size) {
					t.Errorf("%d of %d distinct fields: %d came", n, size, len(seen))
				}
				return err
			})
			view(t, db, key, func(tx *engine.Tx) error {
				count := 0
				err := hash.Random(tx, key, uint64(n), true, func(f, v []byte) bool {
					if _, ok := have[string(f)]; !ok || have[string(f)] != string(v) {
						t.Errorf("of %d: field %q with %q", size, f, v)
					}
					count++
					return true
				})
				if count != n {
					t.Errorf("%d of %d fields: %d came", n, size, count)
				}
				return err
			})
		}
		view(t, db, key, func(tx *engine.Tx) error {
			calls := 0
			err := hash.Random(tx, key, 5000, false, func(_, _ []byte) bool { calls++; return calls < 3 })
			if calls != 3 {
				t.Errorf("%d calls after f returned false at the third", calls)
			}
			return err
		})
	}
}

// TestRandomReachesAll draws so often that a field which is never drawn shows.
func TestRandomReachesAll(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("h")
	var pairs [][]byte
	for i := range 300 {
		pairs = append(pairs, fmt.Appendf(nil, "%03d", i), nil)
	}
	update(t, db, key, func(tx *engine.Tx) error {
		_, err := hash.Set(tx, key, pairs)
		return err
	})
	seen := map[string]bool{}
	for round := 0; len(seen) < 300 && round < 200; round++ {
		view(t, db, key, func(tx *engine.Tx) error {
			return hash.Random(tx, key, 300, false, func(f, _ []byte) bool {
				seen[string(f)] = true
				return true
			})
		})
	}
	if len(seen) != 300 {
		t.Errorf("only %d of 300 fields were ever drawn", len(seen))
	}
}

// calls are all functions of the package, for the tests of what they have in common.
func calls(key []byte) map[string]func(tx *engine.Tx) error {
	none := func(_, _ []byte) {}
	draw := func(_, _ []byte) bool { return true }
	return map[string]func(tx *engine.Tx) error{
		"Len":            func(tx *engine.Tx) error { _, err := hash.Len(tx, key); return err },
		"Get":            func(tx *engine.Tx) error { _, _, err := hash.Get(tx, key, key); return err },
		"GetMany":        func(tx *engine.Tx) error { _, err := hash.GetMany(tx, key, raw("a", "b")); return err },
		"Set":            func(tx *engine.Tx) error { _, err := hash.Set(tx, key, raw("a", "b")); return err },
		"SetMissing":     func(tx *engine.Tx) error { _, err := hash.SetMissing(tx, key, raw("a", "b")); return err },
		"Delete":         func(tx *engine.Tx) error { _, err := hash.Delete(tx, key, raw("a")); return err },
		"IncrBy":         func(tx *engine.Tx) error { _, err := hash.IncrBy(tx, key, key, 1); return err },
		"IncrByFloat":    func(tx *engine.Tx) error { _, err := hash.IncrByFloat(tx, key, key, []byte("1")); return err },
		"Each":           func(tx *engine.Tx) error { return hash.Each(tx, key, false, func(uint64) {}, none) },
		"RangeByLex":     func(tx *engine.Tx) error { return hash.RangeByLex(tx, key, hash.LexRange{Limit: -1}, none) },
		"Random":         func(tx *engine.Tx) error { return hash.Random(tx, key, 1, true, draw) },
		"RandomDistinct": func(tx *engine.Tx) error { return hash.RandomDistinct(tx, key, 1, true, draw) },
	}
}

func TestWrongType(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("s")
	update(t, db, key, func(tx *engine.Tx) error {
		rec := tx.Fresh(key, cf.TypeString)
		tx.SaveAppend(&rec, []byte("v"))
		return nil
	})
	for name, f := range calls(key) {
		if err := db.Update(ns, [][]byte{key}, f); !errors.Is(err, engine.ErrWrongType) {
			t.Errorf("%s of a string: %v", name, err)
		}
	}
}

// TestExpired: an expired hash is not there, and a new one under its name has none of its fields.
func TestExpired(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("h")
	update(t, db, key, func(tx *engine.Tx) error {
		if _, err := hash.Set(tx, key, raw("old", "1", "older", "2")); err != nil {
			return err
		}
		rec, err := tx.Load(key, cf.TypeHash)
		rec.Expire = uint64(tx.Now() - 1)
		tx.SaveAppend(&rec, nil)
		return err
	})
	view(t, db, key, func(tx *engine.Tx) error {
		n, err := hash.Len(tx, key)
		if _, found, _ := hash.Get(tx, key, []byte("old")); n != 0 || found {
			t.Errorf("an expired hash has %d fields, its field was found: %v", n, found)
		}
		return err
	})
	update(t, db, key, func(tx *engine.Tx) error {
		n, err := hash.Set(tx, key, raw("new", "3", "old", "4"))
		if n != 2 {
			t.Errorf("%d of 2 fields are new", n)
		}
		return err
	})
	view(t, db, key, func(tx *engine.Tx) error {
		got, err := all(tx, key)
		if want := []string{"new", "3", "old", "4"}; !slices.Equal(got, want) {
			t.Errorf("the new hash holds %q, want %q", got, want)
		}
		rec, _ := tx.LoadAny(key)
		if rec.Expire != 0 {
			t.Errorf("the new hash expires at %d", rec.Expire)
		}
		return err
	})
}

// TestExpiryStays: writing a field does not change when a hash expires.
func TestExpiryStays(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("h")
	const later = 4102444800000
	update(t, db, key, func(tx *engine.Tx) error {
		rec := tx.Fresh(key, cf.TypeHash)
		rec.Expire, rec.Size = later, 1
		tx.Put(cf.Default, tx.Subkey(&rec, []byte("f")), []byte("1"))
		tx.Save(&rec, nil)
		return nil
	})
	update(t, db, key, func(tx *engine.Tx) error {
		if _, err := hash.Set(tx, key, raw("g", "1")); err != nil {
			return err
		}
		_, err := hash.Delete(tx, key, raw("f"))
		return err
	})
	view(t, db, key, func(tx *engine.Tx) error {
		rec, err := tx.LoadAny(key)
		if rec.Expire != later || rec.Size != 1 {
			t.Errorf("expires at %d with %d fields", rec.Expire, rec.Size)
		}
		return err
	})
}

// TestMetadataDisagrees: a hash whose metadata tells another number of fields than there are is an error and not
// a wrong reply.
func TestMetadataDisagrees(t *testing.T) {
	db := enginetest.Open(t)
	key := []byte("h")
	update(t, db, key, func(tx *engine.Tx) error {
		if _, err := hash.Set(tx, key, raw("a", "1", "b", "2")); err != nil {
			return err
		}
		rec, err := tx.Load(key, cf.TypeHash)
		tx.Delete(cf.Default, tx.Subkey(&rec, []byte("a")))
		return err
	})
	err := db.View(ns, [][]byte{key}, func(tx *engine.Tx) error {
		_, err := all(tx, key)
		return err
	})
	if !errors.Is(err, cf.ErrCorrupt) {
		t.Errorf("error %v, want %v", err, cf.ErrCorrupt)
	}
}

// TestNoAllocation: a pipelined run of commands on one field allocates nothing.
func TestNoAllocation(t *testing.T) {
	db := enginetest.Open(t)
	key, value := []byte("h"), bytes.Repeat([]byte("v"), 100)
	field := []byte("f0000")
	pair, one := [][]byte{field, value}, [][]byte{field}
	next := func() { // counts the field up
		i := len(field) - 1
		for ; field[i] == '9'; i-- {
			field[i] = '0'
		}
		field[i]++
	}
	tx := db.NewTx()
	tx.Begin(ns)
	tx.AddLock(key, true)
	tx.Acquire()
	defer tx.Release()
	for _, c := range []struct {
		name string
		f    func() error
	}{
		{"Set", func() error { next(); _, err := hash.Set(tx, key, pair); return err }},
		{"Set again", func() error { _, err := hash.Set(tx, key, pair); return err }},
		{"IncrBy", func() error { _, err := hash.IncrBy(tx, key, []byte("counter"), 1); return err }},
		{"Get", func() error { _, _, err := hash.Get(tx, key, field); return err }},
		{"Delete", func() error {
			next()
			if _, err := hash.Set(tx, key, pair); err != nil {
				return err
			}
			_, err := hash.Delete(tx, key, one)
			return err
		}},
	} {
		enginetest.NoAllocs(t, c.name, c.f)
	}
}
