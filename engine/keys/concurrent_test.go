package keys_test

import (
	"sync"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/keys"
)

// TestConcurrentRename: a hash that several rename to and fro is always there under exactly one name, whole.
func TestConcurrentRename(t *testing.T) {
	db := enginetest.Open(t)
	put(t, db, "a", cf.TypeHash, never, "f", "g", "h")
	want := show(t, db, "a")
	names := list("a", "b", "c")
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for r := range 150 {
				from, to := names[(r+w)%3], names[(r+w+1+r%2)%3]
				err := db.Update(ns, [][]byte{from, to}, func(tx *engine.Tx) error {
					if _, err := keys.Rename(tx, from, to, true); err != nil && err != keys.ErrNoSuchKey {
						return err
					}
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
				err = db.View(ns, names, func(tx *engine.Tx) error {
					n, err := keys.Exists(tx, names...)
					if n != 1 {
						t.Errorf("it is there %d times", n)
					}
					return err
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, k := range names {
		if got := show(t, db, string(k)); got != "-" && got != want {
			t.Errorf("%s is %s, want %s", k, got, want)
		}
	}
}
