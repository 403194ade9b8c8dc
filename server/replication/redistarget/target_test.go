package redistarget

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/rdb"
	"github.com/basaltdb/basalt/server/replication/redislink"
)

// commands writes each command, item and script as a record of pubsub.
type commands struct{ db *engine.DB }

var errFull = errors.New("no such database")

func (c commands) Namespace(db int) (string, error) {
	if db > 3 {
		return "", errFull
	}
	return cf.DatabaseNamespace(db), nil
}

func (c commands) Run(list []redislink.Command, _ <-chan struct{}, first func(tx *engine.Tx)) error {
	return c.db.WriteFromMaster(func(tx *engine.Tx) {
		first(tx)
		for i := range list {
			tx.Put(cf.PubSub, list[i].Args[1], list[i].Args[0])
		}
	})
}

func (c commands) BeginLoad(tx *engine.Tx) error {
	tx.Put(cf.PubSub, []byte("an index"), []byte("definition"))
	return nil
}

func (c commands) Restore(tx *engine.Tx, i *rdb.Item) error {
	tx.Put(cf.PubSub, i.Key, []byte(tx.Namespace()))
	return nil
}

func (c commands) StoreLibrary(tx *engine.Tx, source []byte) error {
	tx.Put(cf.PubSub, source, []byte("library"))
	return nil
}

func (c commands) StoreScript(tx *engine.Tx, source []byte) error {
	tx.Put(cf.PubSub, source, []byte("script"))
	return nil
}

// open opens the database of a replica, and its target.
func open(t *testing.T) (*engine.DB, *Target) {
	db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Replica: true})
	return db, New(Options{DB: db, Log: zap.NewNop(), Commands: commands{db}, Dir: filepath.Dir(db.Dir()) + "/sync",
		WithID: func() bool { return true }, Prepare: func() error { return nil },
		Replace: func(dir string) error { return db.Replace(dir, nil) }})
}

func get(t *testing.T, db *engine.DB, id cf.ID, key string) (value string) {
	t.Helper()
	require.NoError(t, db.View(cf.DefaultNamespace, nil, func(tx *engine.Tx) error {
		v, _, err := tx.Get(id, []byte(key))
		value = string(v)
		return err
	}))
	return value
}

// place is the state that is kept.
func place(t *testing.T, target *Target) redislink.State {
	t.Helper()
	s, _, err := target.State()
	require.NoError(t, err)
	return s
}

func at(offset int64) redislink.State {
	return redislink.State{ID: strings.Repeat("ab", 20), Offset: offset, DB: 2}
}

// TestState: what is applied and where the stream is go together, until that is forgotten.
func TestState(t *testing.T) {
	db, target := open(t)
	if _, ok, err := target.State(); ok || err != nil {
		t.Errorf("%t, %v", ok, err)
	}
	if err := target.Keep(at(1)); err != nil || place(t, target) != at(1) {
		t.Errorf("%v: %+v", err, place(t, target))
	}
	before := db.LatestSequence()
	list := []redislink.Command{{Args: [][]byte{[]byte("SET"), []byte("k")}}}
	if err := target.Apply(list, at(2)); err != nil || place(t, target) != at(2) {
		t.Errorf("%v: %+v", err, place(t, target))
	}
	if _, ok, err := New(Options{DB: db, Anew: true}).State(); ok || err != nil {
		t.Errorf("a full synchronisation was wanted: %t, %v", ok, err)
	}
	u, err := db.UpdatesAfter(before, engine.UpdatesLimit{Batches: 10, Bytes: 1 << 20})
	if err != nil || len(u.Batches) != 1 || get(t, db, cf.PubSub, "k") != "SET" {
		t.Errorf("%d batches, %v", len(u.Batches), err)
	}
	for _, replica := range []bool{true, false} {
		if !replica {
			require.NoError(t, target.Keep(at(3)))
			db.SetMaster()
		}
		require.NoError(t, Forget(db))
		if _, ok, err := target.State(); ok || err != nil {
			t.Errorf("replica %t: %t, %v", replica, ok, err)
		}
	}
}

// TestLoad: a copy takes the place of the database when it is whole, and not before.
func TestLoad(t *testing.T) {
	db, target := open(t)
	for _, tt := range []struct {
		name string
		add  func(l redislink.Loader) error
		good bool
	}{
		{"cut", func(l redislink.Loader) error { return nil }, false},
		{"a database too many", func(l redislink.Loader) error {
			return l.Add(&rdb.Item{DB: 9, Key: []byte("x"), Value: &rdb.Value{}})
		}, false},
		{"whole", func(l redislink.Loader) error { return l.Script([]byte("return 1")) }, true},
	} {
		list := []redislink.Command{{Args: [][]byte{[]byte("old"), []byte("k")}}}
		require.NoError(t, target.Apply(list, at(1)))
		l, err := target.Load()
		require.NoError(t, err)
		for _, i := range []*rdb.Item{{Function: []byte("#!lua")}, {Key: []byte("a"), Value: &rdb.Value{}},
			{DB: 2, Key: []byte("b"), Value: &rdb.Value{}}, {Key: []byte("empty")}} {
			require.NoError(t, l.Add(i))
		}
		err = tt.add(l)
		if err == nil && tt.name != "cut" {
			err = l.End(at(100))
		}
		l.Abort()
		if _, e := os.Stat(target.o.Dir); !errors.Is(e, os.ErrNotExist) {
			t.Errorf("%s: the directory is still there: %v", tt.name, e)
		}
		if !tt.good {
			if tt.name != "cut" && !errors.Is(err, errFull) {
				t.Errorf("%s: %v", tt.name, err)
			}
			if get(t, db, cf.PubSub, "k") != "old" || get(t, db, cf.PubSub, "a") != "" || place(t, target) != at(1) {
				t.Errorf("%s: the database has changed", tt.name)
			}
			continue
		}
		require.NoError(t, err)
		for key, want := range map[string]string{"k": "", "a": cf.DefaultNamespace, "b": cf.DatabaseNamespace(2),
			"empty": "", "#!lua": "library", "return 1": "script",
			"an index": "definition"} {
			if got := get(t, db, cf.PubSub, key); got != want {
				t.Errorf("%s: %q, want %q", key, got, want)
			}
		}
		if id, err := db.StoredReplicationID(); len(id) != cf.ReplicationIDLen || place(t, target) != at(100) {
			t.Errorf("%q, %v, %+v", id, err, place(t, target))
		}
	}
}
