package engine_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// TestDiskFullAssertions walks the error paths on which a RocksDB that is built with assertions, as Debian's, could
// end the process, and one without them could refuse writes for ever: its own log on the full disk, syncs of the
// write-ahead log beside writes that fail and after them, and the closing of a database that cannot write. What was
// acknowledged is there afterwards.
func TestDiskFullAssertions(t *testing.T) {
	t.Logf("assertions: %v", rocksAssertions())
	disk := enginetest.MountSmall(t, 16<<20)
	ro := engine.DefaultRocksOptions()
	ro.WriteBufferSize = 1 << 20
	o := engine.Options{Dir: disk + "/db", Rocks: ro}
	db, err := engine.Open(o)
	require.NoError(t, err)
	enginetest.FillDisk(t, disk+"/ballast")
	var failed atomic.Bool
	var acked sync.Map
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := 0; !failed.Load(); i++ {
				key := fmt.Sprintf("w%d-%d", w, i)
				err := db.Update(ns, keys(key), func(tx *engine.Tx) error {
					s := tx.Fresh([]byte(key), cf.TypeString)
					tx.SaveAppend(&s, make([]byte, 700))
					return nil
				})
				if err != nil {
					failed.Store(true)
					return
				}
				acked.Store(key, true)
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			for !failed.Load() {
				db.SyncWAL() // fails at some time
			}
		})
	}
	wg.Wait()
	if err := db.SyncWAL(); err == nil || !strings.Contains(err.Error(), "No space left") {
		t.Errorf("SyncWAL on the full disk: %v", err)
	}
	if err := db.SetDBOption("stats_dump_period_sec", "7"); err == nil { // RocksDB logs this, and writes an OPTIONS file
		t.Log("the option was changed")
	}
	if err := db.Close(); err == nil || errors.Is(err, engine.ErrClosed) {
		t.Errorf("Close on the full disk: %v", err)
	}
	require.NoError(t, os.Remove(disk+"/ballast"))
	if db, err = engine.Open(o); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	acked.Range(func(key, _ any) bool {
		err := db.View(ns, keys(key.(string)), func(tx *engine.Tx) error {
			rec, err := tx.LoadAny([]byte(key.(string)))
			if !rec.Exists {
				t.Errorf("%s is lost", key)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		return true
	})
}

func rocksAssertions() bool {
	_, a := engine.RocksDB()
	return a
}
