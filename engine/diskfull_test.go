package engine_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// logEvents returns a logger, and for each text a channel that is closed when a message that holds the text is logged.
func logEvents(texts ...string) (*zap.Logger, []<-chan struct{}) {
	logged := make([]<-chan struct{}, len(texts))
	see := make([]func(), len(texts))
	for i := range texts {
		c := make(chan struct{})
		logged[i], see[i] = c, sync.OnceFunc(func() { close(c) })
	}
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(new(nowhere)),
		zap.DebugLevel)
	return zap.New(core, zap.Hooks(func(e zapcore.Entry) error {
		for i, text := range texts {
			if strings.Contains(e.Message, text) {
				see[i]()
			}
		}
		return nil
	})), logged
}

type nowhere struct{}

func (*nowhere) Write(b []byte) (int, error) { return len(b), nil }

// recoveryTime bounds the wait for the database to come back: two of the longest pauses between its attempts.
const recoveryTime = time.Minute

// TestDiskFull fills the disk under writers. Writes then fail with an error that says so, each of them and every
// transaction of a group; reads go on and see nothing of what failed. When there is space again the database
// writes again, by itself. Nothing that was acknowledged is lost, then and after a restart.
func TestDiskFull(t *testing.T) {
	for _, tt := range []struct {
		name string
		sync bool
		size int // of a value: small ones fill up the log, big ones memtables, which are flushed
	}{{"log", false, 2000}, {"log, sync", true, 2000}, {"memtables", false, 60000}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // RocksDB looks for space every five seconds
			disk := enginetest.MountSmall(t, 32<<20)
			log, recovered := logEvents("has recovered and writes again")
			ro := engine.DefaultRocksOptions()
			ro.WriteBufferSize = 1 << 20
			o := engine.Options{Dir: disk + "/db", Sync: tt.sync, Logger: log, Rocks: ro}
			db, err := engine.Open(o)
			require.NoError(t, err)
			closed := false
			defer func() {
				if !closed { // the file system cannot be unmounted otherwise
					db.Close()
				}
			}()
			put := func(key string) error {
				return db.Update(ns, keys(key), func(tx *engine.Tx) error {
					s := tx.Fresh([]byte(key), cf.TypeString)
					tx.SaveAppend(&s, make([]byte, tt.size))
					return nil
				})
			}
			var mu sync.Mutex
			acked, failed := map[string]bool{}, map[string]bool{}
			try := func(key string) error {
				err := put(key)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					acked[key] = true
				} else {
					failed[key] = true
				}
				return err
			}
			clear := func(err error) {
				t.Helper()
				if e := new(engine.Error); !errors.As(err, &e) || e.Code != "ERR" ||
					!strings.Contains(e.Text, "No space left on device") {
					t.Errorf("the error is %q, it does not say that the disk is full", err)
				}
			}
			seen := func(db *engine.DB, when string) {
				t.Helper()
				wantCount(t, db, ns, len(acked), 0)
				for _, m := range []map[string]bool{acked, failed} {
					for key := range m {
						if err := db.View(ns, keys(key), func(tx *engine.Tx) error {
							rec, err := tx.LoadAny([]byte(key))
							if rec.Exists != acked[key] || rec.Exists && len(rec.Tail) != tt.size {
								t.Errorf("%s: %s: acknowledged %v, found %v with %d bytes", when, key, acked[key], rec.Exists, len(rec.Tail))
							}
							return err
						}); err != nil {
							t.Errorf("%s: %s: %v", when, key, err)
						}
					}
				}
				if n := records(t, db, cf.Metadata); n != len(acked) {
					t.Errorf("%s: %d records, want %d", when, n, len(acked))
				}
			}
			for i := range 50 {
				require.NoError(t, try(fmt.Sprint("early", i)))
			}
			enginetest.FillDisk(t, disk+"/ballast")
			const writers = 16
			var wg sync.WaitGroup
			var full atomic.Bool
			for w := range writers { // each until its own first error: all of a group get it
				wg.Go(func() {
					for i := 0; ; i++ {
						if err := try(fmt.Sprintf("w%d-%d", w, i)); err != nil {
							clear(err)
							full.Store(true)
							return
						}
					}
				})
			}
			wg.Wait()
			if !full.Load() || db.BackgroundError() == nil || db.BackgroundErrors() == 0 {
				t.Fatalf("the disk is full, and the database knows of no error: %v", db.BackgroundError())
			}
			for i := range writers {
				wg.Go(func() {
					if err := try(fmt.Sprint("full", i)); err == nil {
						t.Error("a write to the full disk was acknowledged")
					} else {
						clear(err)
					}
				})
			}
			wg.Wait()
			if err := db.FlushAll(); err == nil {
				t.Error("FlushAll was acknowledged on the full disk")
			} else {
				clear(err)
			}
			seen(db, "on the full disk")
			require.NoError(t, os.Remove(disk+"/ballast"))
			select {
			case <-recovered[0]:
			case <-time.After(recoveryTime):
				t.Fatalf("there is space again, and the database does not write: %v", db.BackgroundError())
			}
			for i := range 50 {
				if err := try(fmt.Sprint("late", i)); err != nil {
					t.Errorf("after the recovery: %v", err)
				}
			}
			seen(db, "after the recovery")
			closed = true
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			o.Logger = nil
			if db, err = engine.Open(o); err != nil { // not by enginetest, whose count of objects is the process's
				t.Fatal(err)
			}
			closed = false
			seen(db, "after a restart")
		})
	}
}
