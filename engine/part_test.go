package engine_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/rocks"
	"github.com/basaltdb/basalt/internal/require"
)

// Records of any length are seen the same in whole, by their heads and by parts, in every order, whether they lie in
// the database or in the transaction's own batch.
func TestPartsOfRecords(t *testing.T) {
	db := enginetest.Open(t)
	values := map[string][]byte{"empty": {}, "short": []byte("0123456789")}
	for _, n := range []int{2048 - 20, 2048, 20 << 10, 100 << 10, 1<<20 + 5} {
		values[fmt.Sprint(n)] = bytes.Repeat([]byte("abcdefghi"), n/9+1)[:n]
	}
	save := func(tx *engine.Tx) error {
		for key, value := range values {
			rec := tx.Fresh([]byte(key), cf.TypeString)
			rec.Expire = 1 << 50
			tx.SaveAppend(&rec, value)
		}
		return nil
	}
	steps := map[string]func(tx *engine.Tx, key string, value []byte){
		"whole": func(tx *engine.Tx, key string, value []byte) {
			rec, err := tx.Load([]byte(key), cf.TypeString)
			if err != nil || !rec.Exists || rec.Rest != 0 || !bytes.Equal(rec.Tail, value) {
				t.Errorf("%s: %d bytes and %d, %v", key, len(rec.Tail), rec.Rest, err)
			}
		},
		"head": func(tx *engine.Tx, key string, value []byte) {
			rec, err := tx.LoadHead([]byte(key))
			if err != nil || rec.Expire != 1<<50 || len(rec.Tail)+rec.Rest != len(value) || !bytes.HasPrefix(value, rec.Tail) {
				t.Errorf("head of %s: %d bytes and %d, %v", key, len(rec.Tail), rec.Rest, err)
			}
			if err := tx.LoadRest(&rec); err != nil || rec.Rest != 0 || !bytes.Equal(rec.Tail, value) {
				t.Errorf("rest of %s: %d bytes and %d, %v", key, len(rec.Tail), rec.Rest, err)
			}
		},
		"only the head": func(tx *engine.Tx, key string, value []byte) {
			if rec, err := tx.LoadHead([]byte(key)); err != nil || len(rec.Tail)+rec.Rest != len(value) {
				t.Errorf("head of %s: %d bytes and %d, %v", key, len(rec.Tail), rec.Rest, err)
			}
		},
		"wrong type": func(tx *engine.Tx, key string, value []byte) {
			if rec, err := tx.Load([]byte(key), cf.TypeList); err != engine.ErrWrongType || rec.Type != cf.TypeString {
				t.Errorf("%s as a list: %v", key, err)
			}
		},
		"parts": func(tx *engine.Tx, key string, value []byte) {
			n := len(value)
			for _, p := range [][2]int{{0, 0}, {0, 1}, {n - 3, n}, {n / 2, n/2 + 10}, {0, n}, {n, n + 5}, {-5, 3}, {7, 2}} {
				size := -1
				rec, err := tx.LoadPart([]byte(key), func(_ cf.Type, n int) (int, int) { size = n; return p[0], p[1] })
				from := min(max(p[0], 0), n)
				want := value[from:min(max(p[1], from), n)]
				if err != nil || size != n || rec.Rest != 0 || !bytes.Equal(rec.Tail, want) {
					t.Errorf("%s from %d to %d: %d bytes of %d, %v", key, p[0], p[1], len(rec.Tail), size, err)
				}
			}
		},
	}
	check := func(t *testing.T, prepare func(tx *engine.Tx) error) {
		for first, a := range steps {
			for second, b := range steps {
				err := db.Update("", keysOf(values), func(tx *engine.Tx) error {
					if err := prepare(tx); err != nil {
						return err
					}
					for key, value := range values {
						a(tx, key, value)
						b(tx, key, value)
					}
					return nil
				})
				if err != nil {
					t.Fatal(first, second, err)
				}
			}
		}
	}
	none := func(*engine.Tx) error { return nil }
	t.Run("own", func(t *testing.T) { check(t, save) })
	t.Run("memtable", func(t *testing.T) { check(t, none) })
	t.Run("prefetched", func(t *testing.T) {
		check(t, func(tx *engine.Tx) error { return tx.Prefetch(append(keysOf(values), []byte("missing"))) })
	})
	require.NoError(t, db.FlushMemtable(cf.Metadata))
	t.Run("file", func(t *testing.T) { check(t, none) })
	err := db.View("", [][]byte{[]byte("missing")}, func(tx *engine.Tx) error {
		rec, err := tx.LoadPart([]byte("missing"), func(cf.Type, int) (int,
			int) {
			t.Error("asked for a part of nothing")
			return 0, 0
		})
		if rec.Exists {
			t.Error("it exists")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func keysOf(values map[string][]byte) (keys [][]byte) {
	for k := range values {
		keys = append(keys, []byte(k))
	}
	return keys
}

// What a transaction does to keys of whose values it has seen the head only.
func TestWriteAfterLook(t *testing.T) {
	db := enginetest.Open(t)
	long := bytes.Repeat([]byte("x"), 100<<10)
	key := []byte("k")
	open := rocks.LiveObjects()
	update := func(f func(tx *engine.Tx, rec *engine.Record)) {
		t.Helper()
		require.NoError(t, db.Update("", [][]byte{key}, func(tx *engine.Tx) error {
			rec, err := tx.LoadHead(key)
			f(tx, &rec)
			return err
		}))
	}
	update(func(tx *engine.Tx, rec *engine.Record) {
		*rec = tx.Fresh(key, cf.TypeString)
		tx.SaveAppend(rec, long)
	})
	update(func(tx *engine.Tx, rec *engine.Record) {
		tx.Drop(rec)
		if rec, err := tx.LoadHead(key); rec.Exists || err != nil {
			t.Error("deleted, and seen by its head", err)
		}
		*rec = tx.Fresh(key, cf.TypeString)
		rec.Expire = 1 << 50
		tx.SaveAppend(rec, long[:5])
		if rec, err := tx.LoadAny(key); err != nil || len(rec.Tail) != 5 {
			t.Error("written, and not seen", err)
		}
	})
	update(func(tx *engine.Tx, rec *engine.Record) {
		*rec = tx.Fresh(key, cf.TypeString)
		tx.SaveAppend(rec, long)
	})
	update(func(tx *engine.Tx, rec *engine.Record) {
		if rec.Rest == 0 {
			t.Error("nothing is left to be copied")
		}
		rec.Expire = 1 << 50
		if err := tx.SaveHead(rec); err != nil {
			t.Error(err)
		}
	})
	update(func(tx *engine.Tx, rec *engine.Record) {
		if err := tx.LoadRest(rec); err != nil || rec.Expire != 1<<50 || !bytes.Equal(rec.Tail, long) {
			t.Errorf("with another head: %d bytes, expiry %d, %v", len(rec.Tail), rec.Expire, err)
		}
	})
	if n, expires := db.Count(""); n != 1 || expires != 1 {
		t.Errorf("%d keys, %d of them expire", n, expires)
	}
	if n := rocks.LiveObjects(); n != open {
		t.Errorf("%d native objects more than before are open", n-open)
	}
}
