package server

import (
	"fmt"
	"testing"

	"github.com/basaltdb/basalt/cf"
)

// apart returns a name that begins with the given one, of a key that shares no lock with the others. Keys share locks, each
// process in its own way: now and then a test that locks one key and goes on with another one would wait for itself. Nobody
// holds the others yet. Those that begin with a number and a colon are keys of that database.
func (h *harness) apart(t *testing.T, name string, others ...string) string {
	t.Helper()
	tx := h.db.NewTx()
	tx.Begin(cf.DefaultNamespace)
	defer tx.Release()
	for _, other := range others {
		var db int
		var key string
		if n, _ := fmt.Sscanf(other, "%d:%s", &db, &key); n == 2 {
			tx.AddLockIn(cf.DatabaseNamespace(db), []byte(key), true)
		} else {
			tx.AddLock([]byte(other), true)
		}
	}
	if err := tx.Acquire(); err != nil {
		t.Fatal(err)
	}
	key := name
	for i := 2; tx.Holds([]byte(key)); i++ {
		key = fmt.Sprint(name, i)
	}
	return key
}
