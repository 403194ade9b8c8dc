package keys_test

import (
	"errors"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/internal/require"
)

// TestTypesOfKvrocks: keys of types that only newer versions of Kvrocks have are preserved, and can be deleted and
// given an expiry. A cuckoo filter, whose records are all its own, can get another name; an unknown type cannot.
func TestTypesOfKvrocks(t *testing.T) {
	for _, typ := range []cf.Type{cf.TypeCuckooFilter, 15} {
		t.Run(typ.String(), func(t *testing.T) {
			db := enginetest.Open(t)
			put(t, db, "k", typ, never, "a", "b")
			put(t, db, "empty", typ, never)
			subkeys := func(key string) (n int) {
				update(t, db, key, func(tx *engine.Tx) error {
					rec, err := tx.LoadHead([]byte(key))
					if err != nil || !rec.Exists {
						return err
					}
					it := tx.Iter(cf.Default, engine.IterOptions{Prefix: tx.SubkeyPrefix(&rec)})
					defer it.Close()
					for it.Next() {
						n++
					}
					return it.Err()
				})
				return n
			}
			compact := func() {
				t.Helper()
				require.NoError(t, db.CompactNamespace(""))
			}
			compact()
			bound := typ != cf.TypeCuckooFilter
			update(t, db, "k empty other", func(tx *engine.Tx) error {
				if n, err := keys.Exists(tx, []byte("k"), []byte("empty")); n != 2 || err != nil {
					t.Errorf("%d keys, %v", n, err)
				}
				if ok, err := keys.Copy(tx, []byte("k"), []byte("other"), false); ok == bound || bound &&
					!errors.Is(err, keys.ErrBound) {
					t.Errorf("copied %v, %v", ok, err)
				}
				_, err := keys.Rename(tx, []byte("empty"), []byte("empty2"), false)
				if bound && !errors.Is(err, keys.ErrBound) || !bound && err != nil {
					t.Errorf("renamed: %v", err)
				}
				if _, err := keys.Move(tx, []byte("k"), "ns2"); bound && !errors.Is(err, keys.ErrBound) {
					t.Errorf("moved: %v", err)
				}
				return nil
			})
			if bound {
				if n := subkeys("k"); n != 2 {
					t.Errorf("%d subkeys", n)
				}
			} else if n := subkeys("other"); n != 2 {
				t.Errorf("%d subkeys in the copy", n)
			}
			put(t, db, "k", typ, never, "a", "b")
			update(t, db, "k", func(tx *engine.Tx) error {
				_, err := keys.Expire(tx, []byte("k"), later, 0)
				return err
			})
			compact()
			if n := subkeys("k"); n != 2 {
				t.Errorf("%d subkeys after an expiry was set", n)
			}
			require.NoError(t, db.FlushAll())
			update(t, db, "k empty", func(tx *engine.Tx) error {
				n, err := keys.Exists(tx, []byte("k"), []byte("empty"))
				if n != 0 {
					t.Errorf("%d keys after FLUSHALL", n)
				}
				return err
			})
		})
	}
}
