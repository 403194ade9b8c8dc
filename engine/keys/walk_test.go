package keys_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/internal/require"
)

func TestWalk(t *testing.T) {
	for _, slots := range []bool{false, true} {
		t.Run(fmt.Sprintf("slots %v", slots), func(t *testing.T) {
			db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Slots: slots})
			for _, k := range []string{"", "a", "ab", "abc", "b", "b\xff", "b\xff\xff", "c"} {
				put(t, db, k, cf.TypeString, never, strings.Repeat("long value", 100))
			}
			put(t, db, "abd", cf.TypeString, 1, "expired")
			put(t, db, "abe", cf.TypeHash, never)
			// A neighbouring namespace whose name continues that of the other.
			require.NoError(t, db.Update(ns+"x", list("a"), func(tx *engine.Tx) error {
				rec := tx.Fresh([]byte("a"), cf.TypeString)
				tx.SaveAppend(&rec, []byte("elsewhere"))
				return nil
			}))
			walk := func(r keys.Range) (found []string) {
				update(t, db, "", func(tx *engine.Tx) error {
					return keys.Walk(tx, r, func(e *keys.Entry) bool {
						if e.Live && strings.HasPrefix(string(e.Key), string(r.Prefix)) {
							found = append(found, string(e.Key))
						}
						return true
					})
				})
				slices.Sort(found) // with slots they come in another order
				return found
			}
			for _, tt := range []struct {
				r    keys.Range
				want []string
			}{
				{keys.Range{}, []string{"", "a", "ab", "abc", "b", "b\xff", "b\xff\xff", "c"}},
				{keys.Range{Prefix: []byte("ab")}, []string{"ab", "abc"}},
				{keys.Range{Prefix: []byte("b\xff")}, []string{"b\xff", "b\xff\xff"}},
				{keys.Range{Prefix: []byte("ab"), Exact: true}, []string{"ab"}},
				{keys.Range{Prefix: []byte("abd"), Exact: true}, nil},
				{keys.Range{Exact: true}, []string{""}},
				{keys.Range{Prefix: []byte("nothing")}, nil},
			} {
				got := walk(tt.r)
				if tt.r.Exact {
					got = slices.DeleteFunc(got, func(k string) bool { return k != string(tt.r.Prefix) })
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("%+v: %q, want %q", tt.r, got, tt.want)
				}
			}
			if slots {
				return
			}
			for _, tt := range []struct {
				r    keys.Range
				want []string
			}{
				{keys.Range{From: []byte("abc")}, []string{"abc", "b", "b\xff", "b\xff\xff", "c"}},
				{keys.Range{From: []byte("abc"), Prefix: []byte("ab")}, []string{"abc"}},
				{keys.Range{From: []byte("A"), Prefix: []byte("ab")}, []string{"ab", "abc"}},
				{keys.Range{From: []byte("zzz"), Prefix: []byte("ab")}, nil},
				{keys.Range{From: []byte("ab\x00"), Prefix: []byte("ab"), Exact: true}, nil},
				{keys.Range{From: []byte("\xff\xff")}, nil},
			} {
				if got := walk(tt.r); !slices.Equal(got, tt.want) {
					t.Errorf("%+v: %q, want %q", tt.r, got, tt.want)
				}
			}
		})
	}
}

func TestRandom(t *testing.T) {
	db := enginetest.Open(t)
	random := func() (string, bool) {
		var key string
		var found bool
		update(t, db, "", func(tx *engine.Tx) error {
			k, ok, err := keys.Random(tx)
			key, found = string(k), ok
			return err
		})
		return key, found
	}
	if k, ok := random(); ok {
		t.Errorf("found %q in an empty database", k)
	}
	update(t, db, "", func(tx *engine.Tx) error {
		for i := range 2000 {
			rec := tx.Fresh(fmt.Appendf(nil, "expired:%04d", i), cf.TypeString)
			rec.Expire = 1
			tx.SaveAppend(&rec, nil)
		}
		return nil
	})
	if k, ok := random(); ok {
		t.Errorf("found %q although all has expired", k)
	}
	// The one key that is alive is found among them, before or behind all others too.
	for _, only := range []string{"a", "expired:1000x", "z"} {
		put(t, db, only, cf.TypeString, never, "v")
		if k, ok := random(); !ok || k != only {
			t.Errorf("found %q, %v; want %q", k, ok, only)
		}
		update(t, db, only, func(tx *engine.Tx) error { _, err := keys.Del(tx, []byte(only)); return err })
	}
	seen := map[string]bool{}
	for i := range 200 {
		put(t, db, fmt.Sprintf("%03d", i), cf.TypeString, never, "v")
	}
	for range 300 {
		k, ok := random()
		if !ok || len(k) != 3 {
			t.Fatalf("found %q, %v", k, ok)
		}
		seen[k] = true
	}
	if len(seen) < 20 {
		t.Errorf("300 draws gave %d keys", len(seen))
	}
}

func TestEncoding(t *testing.T) {
	db := enginetest.Open(t)
	long := strings.Repeat("x", 65)
	numbers := func(n int) (out []string) {
		for i := range n {
			out = append(out, fmt.Sprint(i))
		}
		return out
	}
	for _, tt := range []struct {
		typ     cf.Type
		members []string
		want    string
	}{
		{cf.TypeHash, numbers(128), "listpack"},
		{cf.TypeHash, numbers(129), "hashtable"},
		{cf.TypeHash, []string{long[:64]}, "hashtable"}, // the value is longer
		{cf.TypeHash, []string{long[:63]}, "listpack"},
		{cf.TypeSet, numbers(512), "intset"},
		{cf.TypeSet, numbers(513), "hashtable"},
		{cf.TypeSet, []string{"1", "01"}, "listpack"},
		{cf.TypeSet, []string{"1", long}, "hashtable"},
		{cf.TypeZSet, numbers(128), "listpack"},
		{cf.TypeZSet, numbers(129), "skiplist"},
		{cf.TypeZSet, []string{long}, "skiplist"},
		{cf.TypeList, numbers(1000), "listpack"},
		{cf.TypeList, numbers(5000), "quicklist"},
		{cf.TypeList, []string{strings.Repeat("x", 9000)}, "quicklist"},
		{cf.TypeStream, numbers(1), "stream"},
		{cf.TypeBitmap, numbers(1), "raw"},
		{cf.TypeJSON, numbers(1), "raw"},
	} {
		put(t, db, "k", tt.typ, never, tt.members...)
		update(t, db, "", func(tx *engine.Tx) error {
			rec, err := tx.LoadAny([]byte("k"))
			if err != nil {
				return err
			}
			got, err := keys.Encoding(tx, &rec)
			if got != tt.want {
				t.Errorf("%s of %d: %s, want %s", tt.typ, len(tt.members), got, tt.want)
			}
			return err
		})
	}
}
