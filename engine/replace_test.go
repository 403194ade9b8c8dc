package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/internal/require"
)

// makeOther makes a database with n strings of a value in dir/sync_checkpoint, and returns the directory.
func makeOther(t testing.TB, dir, value string, n int) string {
	t.Helper()
	other := filepath.Join(dir, "sync_checkpoint")
	db := enginetest.OpenPlain(t, engine.Options{Dir: other})
	setStrings(t, db, value, n)
	require.NoError(t, db.Close())
	return other
}

func setStrings(t testing.TB, db *engine.DB, value string, n int) {
	t.Helper()
	for i := range n {
		key := fmt.Appendf(nil, "k%d", i)
		require.NoError(t, db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error {
			_, err := str.Set(tx, key, []byte(value), str.SetOptions{})
			return err
		}))
	}
}

// get returns the value of a string, "" when there is none.
func get(db *engine.DB, key string) (value string, err error) {
	err = db.View(ns, keys(key), func(tx *engine.Tx) error {
		v, _, err := str.Get(tx, []byte(key))
		value = string(v)
		return err
	})
	return value, err
}

func mustGet(t testing.TB, db *engine.DB, key, want string) {
	t.Helper()
	if got, err := get(db, key); err != nil || got != want {
		t.Errorf("%s holds %q, %v, want %q", key, got, err, want)
	}
}

// TestReplace: after the exchange nothing of the old database is seen, in memory or on the disk.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	db := enginetest.OpenWith(t, engine.Options{Dir: dir + "/db", DerivedState: 1 << 20})
	setStrings(t, db, "old", 20)
	setHash(t, db, "h", "a", "b")
	for range 3 { // into the caches
		mustGet(t, db, "k1", "old")
	}
	watch := db.NewWatch()
	defer watch.Close()
	require.NoError(t, db.View(ns, keys("none"), func(tx *engine.Tx) error { return tx.Watch(watch, []byte("none")) }))
	require.NoError(t, db.SetFamilyOption("write_buffer_size", "1048576"))
	pooled := db.NewTx()
	pooled.Begin(ns)
	pooled.AddLock([]byte("k1"), true)
	require.NoError(t, pooled.Acquire())
	if _, err := str.Set(pooled, []byte("k1"), []byte("old2"), str.SetOptions{}); err != nil {
		t.Fatal(err)
	}
	require.NoError(t, pooled.Commit())
	pooled.Release()

	other := makeOther(t, dir, "new", 5)
	require.NoError(t, db.Replace(other, nil))
	for _, gone := range []string{other, dir + "/db.tmp"} {
		if _, err := os.Stat(gone); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", gone, err)
		}
	}
	mustGet(t, db, "k1", "new")
	mustGet(t, db, "k9", "")
	wantCount(t, db, ns, 5, 0)
	if !watch.Dirty() {
		t.Error("a watch has not noticed")
	}
	if got := db.LatestSequence(); got != 5 {
		t.Errorf("sequence %d, want 5", got)
	}
	for range 2 { // and it goes on
		pooled.Begin(ns)
		pooled.AddLock([]byte("k8"), true)
		require.NoError(t, pooled.Acquire())
		if _, err := str.Set(pooled, []byte("k8"), []byte("more"), str.SetOptions{}); err != nil {
			t.Fatal(err)
		}
		require.NoError(t, pooled.Commit())
		pooled.Release()
		wantCount(t, db, ns, 6, 0)
	}
	compact(t, db)
	require.NoError(t, db.Replace(makeOther(t, dir, "third", 2), nil))
	mustGet(t, db, "k1", "third")
	wantCount(t, db, ns, 2, 0)
	if err := db.SyncWAL(); err != nil {
		t.Error(err)
	}
}

// TestReplaceUnwanted: when no transaction can commit to the old database any more, whoever replaces it may change its
// mind.
func TestReplaceUnwanted(t *testing.T) {
	dir := t.TempDir()
	db := enginetest.OpenWith(t, engine.Options{Dir: dir + "/db"})
	setStrings(t, db, "old", 1)
	err := db.Replace(makeOther(t, dir, "new", 3), func() bool {
		if _, err := get(db, "k0"); !errors.Is(err, engine.ErrLoading) {
			t.Errorf("a transaction meanwhile: %v", err)
		}
		return false
	})
	if !errors.Is(err, engine.ErrUnwanted) {
		t.Errorf("%v, want %v", err, engine.ErrUnwanted)
	}
	mustGet(t, db, "k0", "old")
	setStrings(t, db, "later", 2)
	mustGet(t, db, "k1", "later")
	wantCount(t, db, ns, 2, 0)
}

// TestReplaceEndsErrors: what compactions of the old database have reported is not said of the next one.
func TestReplaceEndsErrors(t *testing.T) {
	dir := t.TempDir()
	db := enginetest.OpenWith(t, engine.Options{Dir: dir + "/db"})
	db.CompactionFailed()
	if db.CompactionError() == nil {
		t.Fatal("no error is reported: the test shows nothing")
	}
	require.NoError(t, db.Replace(makeOther(t, dir, "new", 1), nil))
	if err := db.CompactionError(); err != nil {
		t.Error("of the next database:", err)
	}
}

// TestReplaceRefuses: what cannot be opened replaces nothing.
func TestReplaceRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(t *testing.T, dir string) string
		err  error
	}{
		{"no directory", func(t *testing.T, dir string) string { return dir + "/nothing" }, os.ErrNotExist},
		{"no CURRENT", func(t *testing.T, dir string) string {
			other := makeOther(t, dir, "new", 1)
			os.Remove(other + "/CURRENT")
			return other
		}, os.ErrNotExist},
		{"another program's", func(t *testing.T, dir string) string {
			native(t, dir+"/sync_checkpoint", "default", "blocks")
			return dir + "/sync_checkpoint"
		}, engine.ErrNotDatabase},
		{"a log is missing", func(t *testing.T, dir string) string {
			other := makeOther(t, dir, "new", 1)
			logs, _ := filepath.Glob(other + "/*.log")
			for _, l := range logs {
				os.Remove(l)
			}
			return other
		}, engine.ErrDamaged},
		{"another form of the keys", func(t *testing.T, dir string) string {
			db := enginetest.OpenPlain(t, engine.Options{Dir: dir + "/sync_checkpoint", Slots: true})
			setStrings(t, db, "new", 5)
			require.NoError(t, db.Close())
			return dir + "/sync_checkpoint"
		}, engine.ErrSlots},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			db := enginetest.OpenWith(t, engine.Options{Dir: dir + "/db"})
			setStrings(t, db, "old", 3)
			if err := db.Replace(tt.make(t, dir), nil); !errors.Is(err, tt.err) {
				t.Errorf("error %v, want %v", err, tt.err)
			}
			mustGet(t, db, "k1", "old")
			setStrings(t, db, "older", 3)
			mustGet(t, db, "k1", "older")
		})
	}
}

// TestReplaceMovesBack: when the new database cannot be opened in its place, the old one is opened again.
func TestReplaceMovesBack(t *testing.T) {
	dir := t.TempDir()
	db := enginetest.OpenWith(t, engine.Options{Dir: dir + "/db"})
	setStrings(t, db, "old", 3)
	other := makeOther(t, dir, "new", 3)
	defer engine.OnExchangeStep(func(step int) {
		if step == 5 {
			os.Remove(dir + "/db/CURRENT")
			manifests, _ := filepath.Glob(dir + "/db/MANIFEST-*")
			for _, m := range manifests {
				os.Remove(m)
			}
			if err := os.WriteFile(dir+"/db/CURRENT", []byte("MANIFEST-999999\n"), 0o644); err != nil {
				t.Error(err)
			}
		}
	})()
	if err := db.Replace(other, nil); err == nil {
		t.Fatal("a database without a MANIFEST has replaced one")
	}
	mustGet(t, db, "k1", "old")
	wantCount(t, db, ns, 3, 0)
	setStrings(t, db, "older", 4)
	wantCount(t, db, ns, 4, 0)
	if _, err := os.Stat(dir + "/db.tmp"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("db.tmp: %v", err)
	}
}

// TestMaintenanceDuringReplace: what needs no transaction is told to wait, too.
func TestMaintenanceDuringReplace(t *testing.T) {
	dir := t.TempDir()
	db := enginetest.OpenWith(t, engine.Options{Dir: dir + "/db"})
	setStrings(t, db, "old", 3)
	operations := map[string]func() error{
		"flush":      db.FlushMemtables,
		"compact":    func() error { return db.CompactNamespace(ns) },
		"checkpoint": func() error { return db.Checkpoint(dir + "/checkpoint") },
		"sync":       db.SyncWAL,
		"usable":     db.Usable,
	}
	defer engine.OnExchangeStep(func(step int) {
		if step < 3 || step > 5 {
			return
		}
		for name, do := range operations {
			if err := do(); !errors.Is(err, engine.ErrLoading) {
				t.Errorf("%s in step %d: %v", name, step, err)
			}
		}
	})()
	require.NoError(t, db.Replace(makeOther(t, dir, "new", 3), nil))
	for name, do := range operations {
		if err := do(); err != nil {
			t.Errorf("%s afterwards: %v", name, err)
		}
	}
	require.NoError(t, db.Close())
	for name, do := range operations {
		if err := do(); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("%s of a closed database: %v", name, err)
		}
	}
}

// TestSettingsDuringReplace: a transaction that has begun, but has no locks, may change an option while Replace waits
// for its end. The option is that of the next database. A family is not created.
func TestSettingsDuringReplace(t *testing.T) {
	enginetest.Deadline(t, time.Minute)
	dir := t.TempDir()
	db := enginetest.OpenWith(t, engine.Options{Dir: dir + "/db"})
	other := makeOther(t, dir, "new", 1)
	var changed, created error
	var users sync.WaitGroup
	defer engine.OnExchangeStep(func(step int) {
		if step != 2 {
			return
		}
		for err, do := range map[*error]func() error{
			&changed: func() error { return db.SetFamilyOption("write_buffer_size", "1048576") },
			&created: db.NeedIndex,
		} {
			tx := db.NewTx()
			tx.Begin(ns)
			users.Go(func() {
				defer tx.Release()
				*err = do()
			})
		}
	})()
	require.NoError(t, db.Replace(other, nil))
	users.Wait()
	require.NoError(t, changed)
	if !errors.Is(created, engine.ErrLoading) {
		t.Error("creating a family ends with", created)
	}
	files, err := filepath.Glob(dir + "/db/OPTIONS-*")
	require.NoError(t, err)
	if b := require.File(t, slices.Max(files)); !bytes.Contains(b, []byte("  write_buffer_size=1048576\n")) {
		t.Error("the next database does not have the option")
	}
	require.NoError(t, db.NeedIndex())
}

// TestReplaceUnderLoad: whoever reads and writes meanwhile sees one database or the other, or is told to wait.
func TestReplaceUnderLoad(t *testing.T) {
	dir := t.TempDir()
	db := enginetest.OpenWith(t, engine.Options{Dir: dir + "/db"})
	const n = 50
	setStrings(t, db, "0", n)
	var round atomic.Int64
	var refused, done atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	each := func(f func(i int) error) {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := f(i); errors.Is(err, engine.ErrLoading) {
					refused.Add(1)
				} else if err != nil {
					t.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	for range 2 {
		each(func(i int) error { // no value is older than the exchange
			least := round.Load()
			v, err := get(db, "k"+strconv.Itoa(i%n))
			if err != nil {
				return err
			}
			if got, _ := strconv.ParseInt(v, 10, 64); got < least {
				t.Errorf("a value of round %s was read in round %d", v, least)
			}
			return nil
		})
		each(func(i int) error {
			key := fmt.Appendf(nil, "w%d", i%n)
			return db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error {
				_, err := str.Set(tx, key, []byte("w"), str.SetOptions{})
				return err
			})
		})
		each(func(int) error { // without locks
			tx := db.NewTx()
			tx.Begin(ns)
			defer tx.Release()
			it := tx.Iter(cf.Metadata, engine.IterOptions{Limit: 10})
			defer it.Close()
			for it.Next() {
			}
			return it.Err()
		})
	}
	each(func(int) error { return db.FlushMemtables() })
	each(func(int) error { return db.SyncWAL() })
	each(func(int) error {
		db.MemoryUse()
		db.Count(ns)
		db.Recovery()
		db.FamilyProperty(cf.Default, "rocksdb.stats")
		s := db.NewSnapshot()
		s.Close()
		if err := db.ScanKeys(ns); err != nil && !errors.Is(err, engine.ErrScanning) {
			return err
		}
		db.WaitScans()
		return nil
	})
	for i := range 4 {
		before := done.Load()
		require.NoError(t, db.Replace(makeOther(t, dir, strconv.Itoa(i+1), n), nil))
		round.Store(int64(i + 1))
		for done.Load() < before+200 && !t.Failed() {
			mustGet(t, db, "k1", strconv.Itoa(i+1))
		}
	}
	close(stop)
	wg.Wait()
	t.Logf("%d calls, %d were told to wait", done.Load(), refused.Load())
	got, expires := scanCount(t, db, ns)
	wantCount(t, db, ns, got, expires)
}

// exchangeEnv tells the test binary to replace a database and to kill itself before a step: "<dir> <step>".
const exchangeEnv = "BASALT_TEST_EXCHANGE"

// killedExchange is what the process does that exchangeEnv was given to.
func killedExchange(what string) {
	dir, number, _ := strings.Cut(what, " ")
	at, _ := strconv.Atoi(number)
	engine.OnExchangeStep(func(step int) {
		if step == at {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	db, err := engine.Open(engine.Options{Dir: dir + "/db"})
	if err == nil {
		err = db.Replace(dir+"/sync_checkpoint", nil)
	}
	fmt.Println("not killed:", err)
	os.Exit(1)
}

// TestReplaceKilled: a process that is killed before any step leaves the old database or the new one.
func TestReplaceKilled(t *testing.T) {
	exe, err := os.Executable()
	require.NoError(t, err)
	for step := 1; step <= 6; step++ {
		dir := t.TempDir()
		db := enginetest.OpenPlain(t, engine.Options{Dir: dir + "/db"})
		setStrings(t, db, "old", 3)
		require.NoError(t, db.Close())
		makeOther(t, dir, "new", 7)
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d", exchangeEnv, dir, step))
		out, err := cmd.CombinedOutput()
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("step %d: %v, %s", step, err, out)
		}
		want, n := "old", 3
		if step > 4 {
			want, n = "new", 7
		}
		for range 2 {
			db, err = engine.Open(engine.Options{Dir: dir + "/db"})
			if err != nil {
				t.Fatalf("step %d: %v", step, err)
			}
			mustGet(t, db, "k2", want)
			wantCount(t, db, ns, n, 0)
			require.NoError(t, db.Close())
		}
		if _, err := os.Stat(dir + "/db.tmp"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("step %d: db.tmp: %v", step, err)
		}
	}
}
