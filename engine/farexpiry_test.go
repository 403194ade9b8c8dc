package engine_test

import (
	"math"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// TestFarExpiry: an expiry beyond the range of int64, which a batch or a table file from elsewhere may hold, has not
// passed.
func TestFarExpiry(t *testing.T) {
	db := enginetest.Open(t)
	var reported int64
	db.OnExpiry(func(_ string, _ []byte, at int64) { reported = at })
	putStrings(t, db, "k", 1, 1<<63)
	if reported != math.MaxInt64 {
		t.Errorf("the expiry is reported as %d", reported)
	}
	require.NoError(t, db.EachExpiring(math.MaxInt64-1, func(_, key []byte, at int64) bool {
		t.Errorf("%s is said to expire at %d", key, at)
		return true
	}))
	w := db.NewWatch()
	defer w.Close()
	enginetest.View(t, db, keys("k0"), func(tx *engine.Tx) error {
		if how, err := tx.Ended([]byte("k0")); how != engine.NotEnded || err != nil {
			t.Errorf("the key has ended: %v, %v", how, err)
		}
		if w.Changed(tx.Now()) {
			t.Error("a watch of no key has changed")
		}
		return tx.Watch(w, []byte("k0"))
	})
	if w.Changed(math.MaxInt64) {
		t.Error("the watched key is said to have expired")
	}
	if how, err := db.DeleteExpired(cf.DefaultNamespace, []byte("k0"), nil, nil); how != engine.NotEnded || err != nil {
		t.Errorf("the key is deleted: %v, %v", how, err)
	}
	wantCount(t, db, ns, 1, 1)
}
