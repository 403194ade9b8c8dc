package servertest

import (
	"strconv"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// StartApart is Start of a server in which no two of these keys share a lock, so that who holds one of them leaves the
// others alone. There are 16384 locks, and the seed of the hash that chooses among them is random. A key of another
// database than 0 comes after its number: "3:key".
func StartApart(t *testing.T, keys []string, settings ...string) *Harness {
	t.Helper()
	for {
		if h := Start(t, settings...); apart(h.DB, keys) {
			return h
		}
	}
}

func apart(db *engine.DB, keys []string) bool {
	tx := db.NewTx()
	tx.Begin(cf.DefaultNamespace)
	defer tx.Release()
	for _, key := range keys {
		ns := cf.DefaultNamespace
		if number, name, ok := strings.Cut(key, ":"); ok {
			n, err := strconv.Atoi(number)
			if err != nil {
				panic(err)
			}
			ns, key = cf.DatabaseNamespace(n), name
		}
		tx.SwitchNamespace(ns)
		if tx.Holds([]byte(key)) || !tx.TryLock([]byte(key)) {
			return false
		}
	}
	return true
}
