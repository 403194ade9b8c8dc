package engine_test

import (
	"fmt"
	"math/rand"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
)

// TestCompactionWithoutSpace: a compaction that finds too little space stops no writes, until level 0 is full. Both
// states can be told apart, and both end by themselves when there is space.
func TestCompactionWithoutSpace(t *testing.T) {
	t.Parallel() // RocksDB looks for space every five seconds
	disk := enginetest.MountSmall(t, 128<<20)
	log, logged := logEvents("a compaction failed", "compactions have space again")
	ro := engine.DefaultRocksOptions()
	ro.WriteBufferSize, ro.Level0StopWritesTrigger = 1<<20, 1024
	db, err := engine.Open(engine.Options{Dir: disk + "/db", Logger: log, Rocks: ro})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() // the file system cannot be unmounted otherwise
	set := func(key, value string) {
		t.Helper()
		if err := db.SetFamilyOption(key, value); err != nil {
			t.Fatal(err)
		}
	}
	set("disable_auto_compactions", "true")
	r := rand.New(rand.NewSource(1)) // what cannot be compressed
	put := func(n int) error {
		key := fmt.Sprint("key", n)
		return db.Update(ns, keys(key), func(tx *engine.Tx) error {
			value := make([]byte, 20000)
			r.Read(value)
			s := tx.Fresh([]byte(key), cf.TypeString)
			tx.SaveAppend(&s, value)
			return nil
		})
	}
	for i := range 1500 { // 30 MB
		if err := put(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.FlushAll(); err != nil {
		t.Fatal(err)
	}
	enginetest.FillDisk(t, disk+"/ballast")
	ballast, err := os.Stat(disk + "/ballast")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(disk+"/ballast", ballast.Size()-12<<20); err != nil { // for logs and flushes
		t.Fatal(err)
	}
	set("disable_auto_compactions", "false")
	await := func(c <-chan struct{}, what string) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(recoveryTime):
			t.Fatal(what)
		}
	}
	await(logged[0], "the compaction had space")
	if err := put(0); err != nil {
		t.Error("a write fails because a compaction had no space:", err)
	}
	if db.BackgroundError() != nil || db.CompactionError() == nil {
		t.Errorf("the database writes: error %v, error of compactions %v", db.BackgroundError(), db.CompactionError())
	}
	set("level0_stop_writes_trigger", "4")
	if err := put(0); err == nil || !strings.Contains(err.Error(), "No space left on device") {
		t.Error("level 0 is full, and a write ends with", err)
	}
	if db.BackgroundError() == nil {
		t.Error("level 0 is full, and the database is said to write")
	}
	if err := os.Remove(disk + "/ballast"); err != nil {
		t.Fatal(err)
	}
	await(logged[1], "there is space, and compactions do not go on")
	if err := put(0); err != nil { // waits for the compaction
		t.Error("after the recovery:", err)
	}
	if db.BackgroundError() != nil || db.CompactionError() != nil {
		t.Errorf("after the recovery: error %v, error of compactions %v", db.BackgroundError(), db.CompactionError())
	}
}
