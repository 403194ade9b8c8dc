package engine

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/basaltdb/basalt/engine/rocks"
	"github.com/basaltdb/basalt/internal/require"
)

// TestFailedLogIsForgotten: once a full disk has space again and there is a new log, later errors of another kind no
// longer look for space on the disk, and for log files, two hundred times a second.
func TestFailedLogIsForgotten(t *testing.T) {
	recovered := make(chan struct{}, 8)
	core, _ := observer.New(zapcore.InfoLevel)
	log := zap.New(core, zap.Hooks(func(e zapcore.Entry) error {
		if e.Message == "the database has recovered and writes again" {
			recovered <- struct{}{}
		}
		return nil
	}))
	db, err := Open(Options{Dir: t.TempDir() + "/db", Logger: log})
	require.NoError(t, err)
	defer db.Close()
	require.NoError(t, writeString(db, "before"))
	broken := db.newestLog()
	if broken == 0 {
		t.Fatal("the database has no log")
	}
	for _, text := range []string{
		fmt.Sprintf("IO error: No space left on device: While appending to file: %s/%06d.log: No space left on device",
			db.dir, broken),
		"IO error: Input/output error: While appending to file: " + db.dir + "/000123.sst: Input/output error",
	} {
		db.onEvent(rocks.Event{Kind: rocks.BackgroundError, Text: text, Code: 2})
		if err := writeString(db, "k"); err == nil {
			t.Errorf("after %q a write succeeds", text)
		}
		db.onEvent(rocks.Event{Kind: rocks.Recovered}) // so that the next attempt comes soon
		select {
		case <-recovered:
		case <-time.After(time.Minute):
			t.Fatalf("the database does not recover from %q", text)
		}
		if n := db.events.failedLog.Load(); n != 0 {
			t.Errorf("log %d still counts as broken; the newest one is %d", n, db.newestLog())
		}
		if err := writeString(db, "after"); err != nil {
			t.Errorf("after the recovery from %q: %v", text, err)
		}
	}
	if n := db.newestLog(); n <= broken {
		t.Errorf("the newest log is %d, and %d was broken", n, broken)
	}
}

// TestFatalError: an error from which RocksDB does not recover is told as such, whatever errors come before and after.
func TestFatalError(t *testing.T) {
	db, err := Open(Options{Dir: t.TempDir() + "/db"})
	require.NoError(t, err)
	defer db.Close()
	for _, e := range []rocks.Event{{Text: "before", Code: 2}, {Text: "fatal", Code: 3}, {Text: "after", Code: 3}} {
		e.Kind = rocks.BackgroundError
		db.onEvent(e)
	}
	const want = "the database cannot write before a restart: fatal"
	if err := writeString(db, "k"); err == nil || err.Error() != want {
		t.Errorf("a write ends with %v, want %s", err, want)
	}
	if db.resumable() {
		t.Error("the database tries to resume after a fatal error")
	}
}
