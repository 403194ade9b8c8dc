package geo

import (
	"fmt"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

const ns = cf.DefaultNamespace

var update = enginetest.Update

func view(t testing.TB, db *engine.DB, key []byte, f func(tx *engine.Tx) error) {
	t.Helper()
	require.NoError(t, db.View(ns, [][]byte{key}, f))
}

// place is a Place with a name that is text.
func place(name string, lon, lat float64) Place { return Place{[]byte(name), lon, lat} }

func add(t testing.TB, db *engine.DB, key []byte, places ...Place) {
	t.Helper()
	update(t, db, [][]byte{key}, func(tx *engine.Tx) error {
		n, _, err := Add(tx, key, 0, places)
		if err == nil && n != len(places) {
			err = fmt.Errorf("%d of %d places are new", n, len(places))
		}
		return err
	})
}

// names returns the members that a search finds, in its order.
func names(tx *engine.Tx, key []byte, q *Query) (list []string, err error) {
	err = Search(tx, key, q, func(f *Found) { list = append(list, string(f.Member)) })
	return list, err
}
