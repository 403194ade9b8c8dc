package engine_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/hash"
	keyspace "github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/internal/require"
)

// recorder notes what it hears of.
type recorder struct {
	origins []any
	keys    []string
	flushes int
}

func (r *recorder) Committed(origin any, nsKeys [][]byte) {
	r.origins = append(r.origins, origin)
	for _, k := range nsKeys {
		r.keys = append(r.keys, string(k[len(k)-1:]))
	}
}

func (r *recorder) Flushed(origin any, begin, end []byte) { r.flushes++ }

func TestObserver(t *testing.T) {
	db := enginetest.Open(t)
	update := func(origin any, f func(tx *engine.Tx) error) {
		t.Helper()
		tx := db.NewTx()
		tx.Origin = origin
		tx.Begin("ns")
		defer tx.Release()
		for _, k := range []string{"a", "b"} {
			tx.AddLock([]byte(k), true)
		}
		tx.Acquire()
		require.NoError(t, f(tx))
		require.NoError(t, tx.Commit())
	}
	set := func(key string, fields int) func(tx *engine.Tx) error {
		return func(tx *engine.Tx) error {
			for i := range fields {
				if _, err := hash.Set(tx, []byte(key), [][]byte{fmt.Append(nil, i), []byte("v")}); err != nil {
					return err
				}
			}
			return nil
		}
	}
	var r recorder
	update(1, set("a", 1))
	db.Observe(&r)
	update(2, set("a", 10))
	update(3, func(tx *engine.Tx) error { return nil }) // nothing is written
	update(4, func(tx *engine.Tx) error {
		if err := set("b", 2)(tx); err != nil {
			return err
		}
		_, err := keyspace.Del(tx, []byte("a"))
		return err
	})
	require.NoError(t, db.FlushNamespace("ns"))
	db.Observe(nil)
	update(5, set("a", 1))
	slices.Sort(r.keys)
	if got := slices.Compact(r.keys); !slices.Equal(got, []string{"a", "b"}) ||
		!slices.Equal(r.origins, []any{2, 4}) || r.flushes != 1 {
		t.Errorf("%q, origins %v, %d flushes", got, r.origins, r.flushes)
	}
	if n := db.Watching(); n != 0 {
		t.Errorf("%d watches", n)
	}
}
