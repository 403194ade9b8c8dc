package engine_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/derived"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// keptNode is a node as package search would keep it: here with the value of its record.
type keptNode struct {
	derived.Entry
	raw string
}

var (
	graphPrefix = cf.AppendSearchField(nil, cf.DefaultNamespace, cf.SearchFieldData, []byte("i"), []byte("f"))
	graphEnd, _ = cf.AppendSuccessor(nil, graphPrefix)
)

func nodeRecord(key string) []byte {
	return cf.AppendSearchNode(bytes.Clone(graphPrefix), 0, []byte(key))
}

func edgeRecord(from, to string) []byte {
	return cf.AppendSearchEdge(bytes.Clone(graphPrefix), 0, []byte(from), []byte(to))
}

// graphView reads nodes through the memory, as package search does.
type graphView struct {
	testing.TB
	tx   *engine.Tx
	snap *engine.Snapshot
	at   uint64
}

func (v graphView) inMemory(key string) string {
	record := nodeRecord(key)
	if n, _ := v.tx.FindNode(v.at, v.tx.NodeHash(record), record).(*keptNode); n != nil {
		return n.raw
	}
	return ""
}

// read returns the value of a node's record, "" if it does not exist, and tries to keep it.
func (v graphView) read(key string) string {
	v.Helper()
	list := v.tx.Keys()
	list.Add(nodeRecord(key))
	get := v.tx.MultiGet
	if v.snap != nil {
		get = func(id cf.ID, l *engine.KeyList) ([][]byte, error) { return v.tx.MultiGetAt(v.snap, id, l) }
	}
	records, err := get(cf.Search, list)
	require.NoError(v, err)
	raw := string(records[0])
	if kept := v.inMemory(key); kept != "" && kept != raw {
		v.Errorf("%q is in memory, %q in the record", kept, raw)
	}
	if raw != "" {
		v.tx.KeepNode(v.at, v.tx.NodeHash(nodeRecord(key)), nodeRecord(key), &keptNode{raw: raw}, len(raw), false)
	}
	return raw
}

// viewGraph calls f with a view of the present, and with one of a snapshot.
func viewGraph(t testing.TB, db *engine.DB, f func(v graphView)) {
	t.Helper()
	enginetest.View(t, db, nil, func(tx *engine.Tx) error {
		f(graphView{t, tx, nil, tx.NodeTime(nil)})
		snap := db.NewSnapshot()
		defer snap.Close()
		f(graphView{t, tx, snap, tx.NodeTime(snap)})
		return nil
	})
}

// TestNodesFollowRecords: whoever writes a record of a node or of an edge of it, in whichever way it ends, the node in
// memory is the one that the record tells, for readers of the present and of snapshots from before.
func TestNodesFollowRecords(t *testing.T) {
	failed := errors.New("disk full")
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, db *engine.DB) error // changes the node a, but not b
		err  error
		want string
		both bool // b is no longer in memory, too
	}{
		{name: "node", do: func(t *testing.T, db *engine.DB) error {
			return db.Update("", nil, func(tx *engine.Tx) error { tx.Put(cf.Search, nodeRecord("a"), []byte("a2")); return nil })
		}, want: "a2"},
		{name: "deleted", do: func(t *testing.T, db *engine.DB) error {
			return db.Update("", nil, func(tx *engine.Tx) error { tx.Delete(cf.Search, nodeRecord("a")); return nil })
		}},
		{name: "edge", do: func(t *testing.T, db *engine.DB) error {
			return db.Update("", nil, func(tx *engine.Tx) error { tx.Put(cf.Search, edgeRecord("a", "b"), nil); return nil })
		}, want: "a1"},
		{name: "dropped", do: func(t *testing.T, db *engine.DB) error {
			return db.Update("", nil, func(tx *engine.Tx) error {
				tx.Put(cf.Search, nodeRecord("a"), []byte("a2"))
				setNode(tx, "a", "a2")
				return failed
			})
		}, err: failed, want: "a1"},
		{name: "failed commit", do: func(t *testing.T, db *engine.DB) error {
			db.InjectWriteError(failed)
			defer db.InjectWriteError(nil)
			return db.Update("", nil, func(tx *engine.Tx) error {
				tx.Put(cf.Search, nodeRecord("a"), []byte("a2"))
				setNode(tx, "a", "a2")
				return nil
			})
		}, err: failed, want: "a1"},
		{name: "rolled back", do: func(t *testing.T, db *engine.DB) error {
			return db.Update("", nil, func(tx *engine.Tx) error {
				tx.Put(cf.Search, nodeRecord("a"), []byte("a2"))
				setNode(tx, "a", "a2")
				mark := tx.Savepoint()
				tx.Put(cf.Search, nodeRecord("a"), []byte("a3"))
				setNode(tx, "a", "a3")
				if err := tx.Rollback(mark); err != nil {
					return err
				}
				if got := (graphView{t, tx, nil, tx.NodeTime(nil)}).read("a"); got != "a2" {
					t.Errorf("after the rollback: %q", got)
				}
				return nil
			})
		}, want: "a2"},
		{name: "rolled back to the beginning", do: func(t *testing.T, db *engine.DB) error {
			return db.Update("", nil, func(tx *engine.Tx) error {
				mark := tx.Savepoint()
				tx.Put(cf.Search, nodeRecord("a"), []byte("a2"))
				setNode(tx, "a", "a2")
				return tx.Rollback(mark)
			})
		}, want: "a1"},
		{name: "range", do: func(t *testing.T, db *engine.DB) error {
			return db.Update("", nil, func(tx *engine.Tx) error {
				tx.DeleteRange(cf.Search, graphPrefix, graphEnd)
				tx.Put(cf.Search, nodeRecord("b"), []byte("b1"))
				return nil
			})
		}, both: true},
		{name: "range, dropped", do: func(t *testing.T, db *engine.DB) error {
			return db.Update("", nil, func(tx *engine.Tx) error {
				tx.DeleteRange(cf.Search, graphPrefix, graphEnd)
				return failed
			})
		}, err: failed, want: "a1", both: true},
		{name: "batch", do: func(t *testing.T, db *engine.DB) error {
			var b batch.Builder
			b.Put(cf.Search, nodeRecord("a"), []byte("a2"))
			return apply(db, b.Bytes())
		}, want: "a2"},
		{name: "batch with a range", do: func(t *testing.T, db *engine.DB) error {
			var b batch.Builder
			b.DeleteRange(cf.Search, nodeRecord("a"), edgeRecord("a", ""))
			b.Put(cf.Search, nodeRecord("b"), []byte("b1"))
			return apply(db, b.Bytes())
		}, both: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db := enginetest.Open(t)
			enginetest.Update(t, db, nil, func(tx *engine.Tx) error {
				tx.Put(cf.Search, nodeRecord("a"), []byte("a1"))
				tx.Put(cf.Search, nodeRecord("b"), []byte("b1"))
				return nil
			})
			viewGraph(t, db, func(v graphView) { v.read("a"); v.read("b") })
			viewGraph(t, db, func(v graphView) {
				if a, b := v.inMemory("a"), v.inMemory("b"); a != "a1" || b != "b1" {
					t.Fatalf("in memory: %q, %q", a, b)
				}
			})
			enginetest.View(t, db, nil, func(tx *engine.Tx) error {
				snap := db.NewSnapshot()
				defer snap.Close()
				if err := tt.do(t, db); !errors.Is(err, tt.err) {
					t.Fatal(err)
				}
				old := graphView{t, tx, snap, tx.NodeTime(snap)}
				for range 2 {
					if got := old.read("a"); got != "a1" {
						t.Errorf("as of before: %q", got)
					}
				}
				if got := old.inMemory("a"); got == "a1" && tt.want != "a1" {
					t.Error("the node as of before is kept")
				}
				if got := old.inMemory("b"); (got == "") != tt.both {
					t.Errorf("of the other node %q is in memory", got)
				}
				return nil
			})
			for range 2 {
				viewGraph(t, db, func(v graphView) {
					if got := v.read("a"); got != tt.want {
						t.Errorf("%q, want %q", got, tt.want)
					}
					if got := v.read("b"); got != "b1" {
						t.Errorf("the other node: %q", got)
					}
				})
			}
			viewGraph(t, db, func(v graphView) {
				if a, b := v.inMemory("a"), v.inMemory("b"); a != tt.want || b != "b1" {
					t.Errorf("afterwards %q and %q are in memory", a, b)
				}
			})
		})
	}
}

func setNode(tx *engine.Tx, key, raw string) {
	record := nodeRecord(key)
	tx.SetNode(tx.NodeHash(record), record, &keptNode{raw: raw}, len(raw))
}

// TestNodesOfUpdates: the batches of a master change the nodes in memory of a replica.
func TestNodesOfUpdates(t *testing.T) {
	db := openReplica(t)
	seq := uint64(1)
	update := func(build func(b *batch.Builder)) {
		t.Helper()
		_, err := applyUpdates(db, true, masterBatch(seq, build))
		require.NoError(t, err)
		seq = db.LatestSequence() + 1
	}
	for _, tt := range []struct {
		build func(b *batch.Builder)
		want  string
	}{
		{func(b *batch.Builder) { b.Put(cf.Search, nodeRecord("a"), []byte("a1")) }, "a1"},
		{func(b *batch.Builder) { b.Put(cf.Search, nodeRecord("a"), []byte("a2")) }, "a2"},
		{func(b *batch.Builder) { b.Put(cf.Search, edgeRecord("a", "b"), nil) }, "a2"},
		{func(b *batch.Builder) { b.DeleteRange(cf.Search, graphPrefix, graphEnd) }, ""},
		{func(b *batch.Builder) { b.Put(cf.Search, nodeRecord("a"), []byte("a3")) }, "a3"},
		{func(b *batch.Builder) { b.Delete(cf.Search, nodeRecord("a")) }, ""},
	} {
		update(tt.build)
		for range 2 {
			viewGraph(t, db, func(v graphView) {
				if got := v.read("a"); got != tt.want {
					t.Errorf("%q, want %q", got, tt.want)
				}
			})
		}
		viewGraph(t, db, func(v graphView) {
			if got := v.inMemory("a"); got != tt.want {
				t.Errorf("in memory %q, want %q", got, tt.want)
			}
		})
	}
}

// TestManyChangedNodes: a transaction that changes more nodes than the bound allows keeps a part of them only.
func TestManyChangedNodes(t *testing.T) {
	db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", DerivedState: 64 << 10})
	const nodes, size = 100, 1 << 10
	name := func(i int) string { return string(rune('a' + i)) }
	value := func(i int) string { return name(i) + string(make([]byte, size)) }
	enginetest.Update(t, db, nil, func(tx *engine.Tx) error {
		kept := 0
		for i := range nodes {
			tx.Put(cf.Search, nodeRecord(name(i)), []byte(value(i)))
			setNode(tx, name(i), value(i))
		}
		for i := range nodes {
			if (graphView{t, tx, nil, tx.NodeTime(nil)}).inMemory(name(i)) != "" {
				kept++
			}
		}
		if want := (64 << 10) / 4 / size; kept < want/2 || kept > want {
			t.Errorf("%d nodes are in memory, at most %d may be", kept, want)
		}
		return nil
	})
	viewGraph(t, db, func(v graphView) {
		for i := range nodes {
			if got := v.read(name(i)); got != value(i) {
				t.Errorf("node %d: %d bytes", i, len(got))
			}
		}
	})
	if used, limit := db.Derived().Used(), db.Derived().Limit(); used == 0 || used > limit {
		t.Errorf("%d bytes of %d", used, limit)
	}
}
