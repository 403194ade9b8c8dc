package engine_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// TestFlushesBesideEachOther has two callers wait for the same family at once. RocksDB forgets the request of the
// second when it comes while the job of the first syncs the log, unless one memtable is enough for a flush (see the
// options in package rocks); nothing but a later request would then end the wait. So there are rounds, in each of
// which both have to end, and the second comes a little later in each.
func TestFlushesBesideEachOther(t *testing.T) {
	flush := func(db *engine.DB, _ string) error { return db.FlushMemtable(cf.Default) }
	checkpoint := func(db *engine.DB, dir string) error { return db.Checkpoint(dir) }
	compact := func(db *engine.DB, _ string) error { return db.CompactRange(cf.Default, nil, nil) }
	for _, c := range []struct {
		name          string
		first, second func(db *engine.DB, dir string) error
	}{
		{"two flushes", flush, flush},
		{"a flush and a checkpoint", flush, checkpoint},
		{"a checkpoint and a flush", checkpoint, flush},
		{"a compaction and a flush", compact, flush},
	} {
		t.Run(c.name, func(t *testing.T) {
			enginetest.Deadline(t, 5*time.Minute)
			dir := t.TempDir()
			db := enginetest.OpenWith(t, engine.Options{Dir: dir + "/db"})
			for round := range 60 {
				var wg sync.WaitGroup
				wg.Go(func() {
					if err := putHash(db, "first", "f"); err != nil {
						t.Error(err)
					}
					if err := c.first(db, fmt.Sprintf("%s/a%d", dir, round)); err != nil {
						t.Error(err)
					}
				})
				wg.Go(func() {
					for range 1 + round%30 {
						if err := putHash(db, "second", "f"); err != nil {
							t.Error(err)
						}
					}
					if err := c.second(db, fmt.Sprintf("%s/b%d", dir, round)); err != nil {
						t.Error(err)
					}
				})
				wg.Wait()
			}
		})
	}
}

// TestFlushBesideRocksDBsOwn has one caller wait for a flush that is asked for while RocksDB flushes full memtables
// on its own account: no lock of ours can keep those two apart. It takes many write buffers, because with few a flush
// that is asked for waits for the one that runs.
func TestFlushBesideRocksDBsOwn(t *testing.T) {
	enginetest.Deadline(t, 5*time.Minute)
	o := engine.DefaultRocksOptions()
	o.WriteBufferSize = 64 << 10
	o.MaxWriteBufferNumber = 8
	db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Rocks: o})
	value := make([]byte, 8<<10)
	write := func(i int) {
		require.NoError(t, db.Update(ns, keys("filled"), func(tx *engine.Tx) error {
			tx.Put(cf.Default, fmt.Appendf(nil, "filled%d", i), value)
			return nil
		}))
	}
	property := func(name string) uint64 {
		n, ok := db.FamilyIntProperty(cf.Default, name)
		if !ok {
			t.Fatalf("there is no property %s", name)
		}
		return n
	}
	met := 0
	for round := range 200 {
		for i := range 100 {
			if write(i); property("rocksdb.mem-table-flush-pending")+property("rocksdb.num-running-flushes") > 0 {
				met++
				break
			}
		}
		for i := range round % 4 {
			write(i)
		}
		require.NoError(t, db.FlushMemtable(cf.Default))
	}
	if met == 0 {
		t.Error("no flush of RocksDB's own was under way in any round")
	}
	t.Logf("a flush of RocksDB's own was under way in %d rounds", met)
}
