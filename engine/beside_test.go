package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	enginekeys "github.com/basaltdb/basalt/engine/keys"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/internal/require"
)

// fromMaster runs f in a transaction for commands of a master, and commits it.
func fromMaster(db *engine.DB, f func(tx *engine.Tx) error) error {
	tx := db.NewTx()
	tx.Begin(cf.DefaultNamespace)
	defer tx.Release()
	tx.FromMaster()
	if err := f(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func setFromMaster(key, value string) func(tx *engine.Tx) error {
	return func(tx *engine.Tx) error {
		_, err := str.Set(tx, []byte(key), []byte(value), str.SetOptions{})
		return err
	}
}

// TestBeside: what was written without a log is there after the exchange, and nothing of what was there before.
func TestBeside(t *testing.T) {
	db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db"})
	setStrings(t, db, "old", 10)
	dir := filepath.Join(t.TempDir(), "beside")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "left"), 0o755))
	b, err := db.OpenBeside(dir)
	require.NoError(t, err)
	require.NoError(t, fromMaster(b.DB, setFromMaster("new", "value")))
	if err := b.Update(cf.DefaultNamespace, nil, setFromMaster("other", "v")); !errors.Is(err, engine.ErrReplica) {
		t.Errorf("another transaction: %v", err)
	}
	require.NoError(t, b.Finish())
	require.NoError(t, db.Replace(dir, nil))
	require.NoError(t, b.Discard())
	mustGet(t, db, "new", "value")
	if n, _ := db.Count(cf.DefaultNamespace); n != 1 {
		t.Errorf("%d keys", n)
	}
}

// TestDiscardBeside: a database that is given up leaves nothing.
func TestDiscardBeside(t *testing.T) {
	db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db"})
	dir := filepath.Join(t.TempDir(), "beside")
	b, err := db.OpenBeside(dir)
	require.NoError(t, err)
	require.NoError(t, b.Discard())
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory: %v", err)
	}
}

// TestFromMaster: commands of a master find what has expired here, write while clients cannot, and no longer when the
// database is a master's again.
func TestFromMaster(t *testing.T) {
	db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db"})
	if err := fromMaster(db, setFromMaster("k", "v")); !errors.Is(err, engine.ErrNoReplica) {
		t.Fatalf("on a master: %v", err)
	}
	db.SetReplica(func(set func(bool)) { set(true) })
	require.NoError(t, fromMaster(db, func(tx *engine.Tx) error {
		if err := setFromMaster("k", "v")(tx); err != nil {
			return err
		}
		_, err := enginekeys.Expire(tx, []byte("k"), 1000, 0) // in 1970
		return err
	}))
	if v, err := get(db, "k"); v != "" || err != nil {
		t.Errorf("a client gets %q, %v", v, err)
	}
	require.NoError(t, fromMaster(db, func(tx *engine.Tx) error {
		_, err := enginekeys.Persist(tx, []byte("k"))
		return err
	}))
	mustGet(t, db, "k", "v")
	db.SetMaster()
	if err := fromMaster(db, setFromMaster("k", "w")); !errors.Is(err, engine.ErrNoReplica) {
		t.Errorf("after the promotion: %v", err)
	}
	mustGet(t, db, "k", "v")
}
