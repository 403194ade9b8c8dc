package engine_test

import (
	"fmt"
	"math/rand"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// crowded is a database with 30 files in level 0, on a disk without the space that their compaction needs. The
// compaction has failed.
type crowded struct {
	*engine.DB
	t      *testing.T
	disk   string
	random *rand.Rand
}

func openCrowded(t *testing.T, log *zap.Logger, failed <-chan struct{}) *crowded {
	db := &crowded{t: t, disk: enginetest.MountSmall(t, 128<<20), random: rand.New(rand.NewSource(1))}
	ro := engine.DefaultRocksOptions()
	ro.WriteBufferSize, ro.Level0StopWritesTrigger = 1<<20, 1024
	var err error
	if db.DB, err = engine.Open(engine.Options{Dir: db.disk + "/db", Logger: log, Rocks: ro}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() }) // the file system cannot be unmounted otherwise
	db.set("disable_auto_compactions", "true")
	for i := range 1500 { // 30 MB
		require.NoError(t, db.put(i))
	}
	require.NoError(t, db.FlushAll())
	if err := db.put(0); err != nil { // the log takes its space
		t.Fatal(err)
	}
	enginetest.FillDisk(t, db.ballast())
	info, err := os.Stat(db.ballast())
	require.NoError(t, err)
	if err := os.Truncate(db.ballast(), info.Size()-12<<20); err != nil { // for logs and flushes
		t.Fatal(err)
	}
	db.set("disable_auto_compactions", "false")
	db.await(failed, "the compaction had space")
	for end := time.Now().Add(recoveryTime); db.free() < 4<<20; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the failed compaction leaves its files")
		}
	}
	return db
}

func (db *crowded) free() uint64 {
	var s syscall.Statfs_t
	require.NoError(db.t, syscall.Statfs(db.disk, &s))
	return s.Bavail * uint64(s.Bsize)
}

func (db *crowded) ballast() string { return db.disk + "/ballast" }

func (db *crowded) set(key, value string) {
	db.t.Helper()
	require.NoError(db.t, db.SetFamilyOption(key, value))
}

// put writes 20 kB that cannot be compressed.
func (db *crowded) put(n int) error {
	key := fmt.Sprint("key", n)
	return db.Update(ns, keys(key), func(tx *engine.Tx) error {
		value := make([]byte, 20000)
		db.random.Read(value)
		s := tx.Fresh([]byte(key), cf.TypeString)
		tx.SaveAppend(&s, value)
		return nil
	})
}

func (db *crowded) await(c <-chan struct{}, otherwise string) {
	db.t.Helper()
	select {
	case <-c:
	case <-time.After(recoveryTime):
		db.t.Fatal(otherwise)
	}
}

// TestCompactionWithoutSpace: a compaction that finds too little space stops no writes, until level 0 is full. Both
// states can be told apart, and both end by themselves when there is space.
func TestCompactionWithoutSpace(t *testing.T) {
	t.Parallel() // RocksDB looks for space every five seconds
	log, logged := logEvents("a compaction failed", "compactions have space again")
	db := openCrowded(t, log, logged[0])
	if err := db.put(0); err != nil {
		t.Error("a write fails because a compaction had no space:", err)
	}
	if db.BackgroundError() != nil || db.CompactionError() == nil {
		t.Errorf("the database writes: error %v, error of compactions %v", db.BackgroundError(), db.CompactionError())
	}
	db.set("level0_stop_writes_trigger", "4")
	if err := db.put(0); err == nil || !strings.Contains(err.Error(), "No space left on device") {
		t.Error("level 0 is full, and a write ends with", err)
	}
	if db.BackgroundError() == nil {
		t.Error("level 0 is full, and the database is said to write")
	}
	require.NoError(t, os.Remove(db.ballast()))
	db.await(logged[1], "there is space, and compactions do not go on")
	if err := db.put(0); err != nil { // waits for the compaction
		t.Error("after the recovery:", err)
	}
	if db.BackgroundError() != nil || db.CompactionError() != nil {
		t.Errorf("after the recovery: error %v, error of compactions %v", db.BackgroundError(), db.CompactionError())
	}
}

// TestCheckpointWithoutSpace: a checkpoint waits for a compaction that waits for space. It does not keep the process
// from ending.
func TestCheckpointWithoutSpace(t *testing.T) {
	t.Parallel()
	log, logged := logEvents("a compaction failed")
	db := openCrowded(t, log, logged[0])
	db.set("level0_stop_writes_trigger", "4")
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := db.Checkpoint(db.disk + "/checkpoint"); err == nil {
			t.Error("the checkpoint was made")
		}
	}()
	db.Interrupt()
	db.await(done, "the checkpoint goes on after Interrupt")
}

// TestReplaceWithoutSpace: a checkpoint that waits for a compaction, which waits for space, does not keep the database
// from being replaced by a smaller one, which makes room.
func TestReplaceWithoutSpace(t *testing.T) {
	t.Parallel()
	log, logged := logEvents("a compaction failed", "waits for those who use it")
	db := openCrowded(t, log, logged[0])
	other := makeOther(t, db.disk, "new", 3)
	db.set("level0_stop_writes_trigger", "4")
	done := make(chan struct{})
	go func() {
		defer close(done)
		db.Checkpoint(db.disk + "/checkpoint")
	}()
	select {
	case <-done:
		t.Fatal("the checkpoint does not wait")
	case <-time.After(100 * time.Millisecond):
	}
	replaced := make(chan struct{})
	go func() {
		defer close(replaced)
		if err := db.Replace(other, nil); err != nil {
			t.Error(err)
		}
	}()
	db.await(replaced, "the exchange waits for the checkpoint")
	mustGet(t, db.DB, "k1", "new")
}
