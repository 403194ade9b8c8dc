package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/linxGnu/grocksdb"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/logfile"
	"github.com/basaltdb/basalt/engine/manifest"
	"github.com/basaltdb/basalt/engine/wal"
	"github.com/basaltdb/basalt/internal/require"
)

// crashed returns a copy of the directory of an open database: what a kill leaves. It has two logs that are needed,
// the newest is the second: the family of the hashes was never flushed. There are the strings and hashes a0 to a49 in
// the first log and b0 to b49 in the second one.
func crashed(t *testing.T) (dir string, logs []string) {
	t.Helper()
	log, listed := logEvents("the list of logs was written")
	ro := engine.DefaultRocksOptions()
	ro.DisableAutoCompactions = true // the files are copied while the database is open
	db := enginetest.OpenWith(t, engine.Options{Dir: filepath.Join(t.TempDir(), "db"), Logger: log, Rocks: ro})
	for _, name := range []string{"a", "b"} {
		for i := range 50 {
			setString(t, db, fmt.Sprintf("%s%d", name, i), 0)
			setHash(t, db, fmt.Sprintf("%shash%d", name, i), "f")
		}
		if name == "a" {
			require.NoError(t, db.FlushMemtable(cf.Metadata))
		}
	}
	<-listed[0]
	dir = filepath.Join(t.TempDir(), "db")
	require.NoError(t, os.CopyFS(dir, os.DirFS(db.Dir())))
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(logs) != 2 {
		t.Fatalf("logs %q, %v", logs, err)
	}
	slices.Sort(logs)
	return dir, logs
}

func edit(t *testing.T, path string, f func(b []byte) []byte) {
	t.Helper()
	b := require.File(t, path)
	require.NoError(t, os.WriteFile(path, f(b), 0o644))
}

func flip(at int) func(b []byte) []byte {
	return func(b []byte) []byte {
		at := (at + len(b)) % len(b)
		for i := range 4 {
			b[at+i] ^= 0xff
		}
		return b
	}
}

// TestDamagedLog: a log that lacks writes is refused, nothing is changed, and each way to force the opening keeps
// what it promises. The incomplete tail of the newest log is left out.
func TestDamagedLog(t *testing.T) {
	const all = 200 // keys; their metadata, which is counted, is in table files but for the b's
	for _, tt := range []struct {
		name   string
		damage func(t *testing.T, logs []string)
		text   string // of the refusal; empty = it is opened
		prefix [2]int // how many keys are there with PointInTime, or when it is not refused: at least, at most
		skip   [2]int // with SkipDamaged
	}{
		{"nothing", func(*testing.T, []string) {}, "", [2]int{all, all}, [2]int{all, all}},
		{"the middle of the newest log", func(t *testing.T, l []string) { edit(t, l[1], flip(1500)) },
			"is damaged at byte", [2]int{110, 150}, [2]int{110, 199}},
		{"the middle of the log before", func(t *testing.T, l []string) { edit(t, l[0], flip(1500)) },
			"is damaged at byte", [2]int{100, 100}, [2]int{all, all}},
		{"the newest log is missing", func(t *testing.T, l []string) { os.Remove(l[1]) },
			"missing", [2]int{100, 100}, [2]int{100, 100}},
		{"the log before is missing", func(t *testing.T, l []string) { os.Remove(l[0]) },
			"is missing", [2]int{100, 100}, [2]int{all, all}},
		{"the newest log is empty", func(t *testing.T, l []string) { edit(t, l[1], func([]byte) []byte { return nil }) },
			"", [2]int{100, 100}, [2]int{100, 100}},
		{"a tail is cut off", func(t *testing.T, l []string) {
			edit(t, l[1], func(b []byte) []byte { return b[:len(b)-20] })
		}, "", [2]int{199, 199}, [2]int{199, 199}},
		{"a tail of zeros", func(t *testing.T, l []string) {
			edit(t, l[1], func(b []byte) []byte { return append(b[:len(b)-20], make([]byte, 100000)...) })
		}, "", [2]int{199, 199}, [2]int{199, 199}},
		{"a tail of nonsense", func(t *testing.T, l []string) {
			edit(t, l[1], func(b []byte) []byte { return append(b, bytes.Repeat([]byte("nonsense"), 10000)...) })
		}, "", [2]int{all, all}, [2]int{all, all}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, logs := crashed(t)
			tt.damage(t, logs)
			before := tree(t, dir)
			count := func(force engine.Force, want [2]int) *engine.DB {
				t.Helper()
				copied := filepath.Join(t.TempDir(), "db")
				require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
				o := engine.Options{Dir: copied, Force: force}
				db := enginetest.OpenWith(t, o)
				n, _ := db.Count(ns)
				if int(n) < want[0] || int(n) > want[1] {
					t.Errorf("force %d: %d keys, want %v", force, n, want)
				}
				if lost := db.Recovery().Lost; (lost != "") != (tt.text != "") {
					t.Errorf("force %d: it says that %q is lost", force, lost)
				}
				if kept, _ := filepath.Glob(copied + "/*.damaged"); len(kept) > 0 && tt.text == "" {
					t.Errorf("force %d: %q was put aside", force, kept)
				}
				setString(t, db, "new", 0)
				return db
			}
			if tt.text == "" {
				count(engine.RefuseLoss, tt.prefix)
			} else {
				live := engine.LiveObjects()
				db, err := engine.Open(engine.Options{Dir: dir})
				if err == nil {
					db.Close()
					t.Fatal("it was opened")
				}
				for _, want := range []string{tt.text, dir, ".log", "--force-recovery", "lost"} {
					text := err.Error()
					if !errors.Is(err, engine.ErrDamaged) || !strings.Contains(text, want) || strings.Contains(text, "\n") {
						t.Errorf("the refusal does not say %q: %v", want, err)
					}
				}
				if n := engine.LiveObjects(); n != live {
					t.Errorf("%d native objects were left open", n-live)
				}
				if after := tree(t, dir); !slices.Equal(before, after) {
					t.Error("the refusal has changed the directory")
				}
			}
			count(engine.PointInTime, tt.prefix)
			count(engine.SkipDamaged, tt.skip)
		})
	}
}

// TestTailOfSeveralBlocks: of a write that was cut off after its first block in the log, RocksDB reports what it leaves
// out. It is no damage.
func TestTailOfSeveralBlocks(t *testing.T) {
	db := enginetest.OpenWith(t, engine.Options{Dir: filepath.Join(t.TempDir(), "db")})
	setString(t, db, "before", 0)
	enginetest.Update(t, db, [][]byte{[]byte("cut")}, func(tx *engine.Tx) error {
		rec := tx.Fresh([]byte("cut"), cf.TypeString)
		tx.SaveAppend(&rec, make([]byte, 100_000))
		return nil
	})
	dir := filepath.Join(t.TempDir(), "db")
	require.NoError(t, os.CopyFS(dir, os.DirFS(db.Dir())))
	logs, _ := filepath.Glob(filepath.Join(dir, "*.log"))
	edit(t, logs[len(logs)-1], func(b []byte) []byte { return b[:len(b)-20] })
	log, dropped := logEvents("RocksDB has left out a part of a log")
	db = enginetest.OpenWith(t, engine.Options{Dir: dir, Logger: log})
	if n, _ := db.Count(ns); n != 1 {
		t.Errorf("%d keys, want that of the first write", n)
	}
	if r := db.Recovery(); r.TailBytes < 90_000 || r.DroppedBytes != 0 || r.Lost != "" {
		t.Errorf("Recovery = %+v", r)
	}
	select {
	case <-dropped[0]:
		t.Error("the tail is reported as damage")
	default:
	}
}

// TestLargeBatchInLog: a start says that recovery takes much memory if the log has a batch that the server would not
// write.
func TestLargeBatchInLog(t *testing.T) {
	db := enginetest.OpenWith(t, engine.Options{Dir: filepath.Join(t.TempDir(), "db")})
	enginetest.Update(t, db, [][]byte{[]byte("large")}, func(tx *engine.Tx) error {
		rec := tx.Fresh([]byte("large"), cf.TypeString)
		tx.SaveAppend(&rec, make([]byte, 100_000))
		return nil
	})
	for _, c := range []struct {
		limit int64
		warns bool
	}{{0, false}, {99_000, true}, {101_000, false}} {
		dir := filepath.Join(t.TempDir(), "db")
		require.NoError(t, os.CopyFS(dir, os.DirFS(db.Dir())))
		log, warned := logEvents("the log has a write batch that is larger than this server may write: recovering it takes " +
			"about four times its size in memory; if the system kills the process, start once with more")
		enginetest.OpenWith(t, engine.Options{Dir: dir, Logger: log, MaxBatchBytes: c.limit})
		select {
		case <-warned[0]:
			if !c.warns {
				t.Errorf("limit %d: a warning", c.limit)
			}
		default:
			if c.warns {
				t.Errorf("limit %d: no warning", c.limit)
			}
		}
	}
}

// TestCleanLog: a log that was closed has no incomplete tail. A log of a directory that was only copied (a checkpoint
// has none) is not missed.
func TestCleanLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db := enginetest.OpenPlain(t, engine.Options{Dir: dir})
	for i := range 20 {
		setString(t, db, fmt.Sprint("k", i), 0)
	}
	check := filepath.Join(t.TempDir(), "db")
	require.NoError(t, db.Checkpoint(check))
	setString(t, db, "last", 0)
	require.NoError(t, db.Close())
	wantCount(t, enginetest.OpenWith(t, engine.Options{Dir: check}), ns, 20, 0)
	logs, _ := filepath.Glob(dir + "/*.log")
	newest := logs[len(logs)-1]
	whole := require.File(t, newest)
	for name, b := range map[string][]byte{
		"cut": whole[:len(whole)-10], "damaged": flip(-6)(bytes.Clone(whole)), "empty": nil,
	} {
		require.NoError(t, os.WriteFile(newest, b, 0o644))
		if db, err := engine.Open(engine.Options{Dir: dir}); !errors.Is(err, engine.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				db.Close()
			}
		}
	}
	require.NoError(t, os.WriteFile(newest, whole, 0o644))
	db = enginetest.OpenWith(t, engine.Options{Dir: dir})
	wantCount(t, db, ns, 21, 0)
	if r := db.Recovery(); r != (engine.Recovery{}) {
		t.Errorf("%+v", r)
	}
}

// TestDamagedTable: reading a damaged block is an error, it is counted and logged, and other keys can be read.
func TestDamagedTable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db := enginetest.OpenPlain(t, engine.Options{Dir: dir})
	for i := range 2000 {
		setString(t, db, fmt.Sprintf("key%04d", i), 0)
	}
	require.NoError(t, db.FlushMemtable(cf.Metadata))
	require.NoError(t, db.Close())
	files, _ := filepath.Glob(dir + "/*.sst")
	if len(files) != 1 {
		t.Fatalf("files %q", files)
	}
	edit(t, files[0], flip(40000)) // in the third block of 16 KiB: the first one is read at the start
	log, logged := logEvents("a file of the database is damaged or cannot be read")
	db = enginetest.OpenPlain(t, engine.Options{Dir: dir, Logger: log})
	read := func(key string) (exists bool, err error) {
		err = db.View(ns, keys(key), func(tx *engine.Tx) error {
			rec, err := tx.LoadAny([]byte(key))
			exists = rec.Exists
			return err
		})
		return exists, err
	}
	good, bad := 0, 0
	for i := range 2000 {
		switch ok, err := read(fmt.Sprintf("key%04d", i)); {
		case err != nil && strings.Contains(err.Error(), filepath.Base(files[0])):
			bad++
		case err == nil && ok:
			good++
		default:
			t.Fatalf("key %d: found %v, %v", i, ok, err)
		}
	}
	<-logged[0]
	if n := db.Recovery().CorruptReads; good == 0 || bad == 0 || n < int64(bad) {
		t.Errorf("%d keys were read, %d could not be, %d failed reads were counted", good, bad, n)
	}
}

// TestMissingBlobFile: reading a value of a missing blob file is an error, it is counted and logged.
func TestMissingBlobFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	ro := engine.DefaultRocksOptions()
	ro.EnableBlobFiles, ro.MinBlobSize = true, 0
	options := engine.Options{Dir: dir, Rocks: ro}
	db := enginetest.OpenPlain(t, options)
	setString(t, db, "key", 0)
	require.NoError(t, db.FlushMemtable(cf.Metadata))
	require.NoError(t, db.Close())
	files, _ := filepath.Glob(dir + "/*.blob")
	if len(files) != 1 {
		t.Fatalf("files %q", files)
	}
	require.NoError(t, os.Remove(files[0]))
	log, logged := logEvents("a file of the database is damaged or cannot be read")
	options.Logger = log
	db = enginetest.OpenPlain(t, options)
	err := db.View(ns, keys("key"), func(tx *engine.Tx) error {
		_, err := tx.LoadAny([]byte("key"))
		return err
	})
	if err == nil || !strings.Contains(err.Error(), filepath.Base(files[0])) || db.Recovery().CorruptReads == 0 {
		t.Fatalf("%v, %+v", err, db.Recovery())
	}
	<-logged[0]
}

// TestCutManifest: a MANIFEST that ends too early is refused. RocksDB takes the logs before its last entry for the only
// ones, and removes all table files that it does not name.
func TestCutManifest(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db := enginetest.OpenPlain(t, engine.Options{Dir: dir})
	names, _ := filepath.Glob(dir + "/MANIFEST-*")
	if len(names) != 1 {
		t.Fatalf("files %q", names)
	}
	first := 0 // the size after the first flush
	for i := range 4 {
		setString(t, db, fmt.Sprintf("key%d", i), 0)
		require.NoError(t, db.FlushMemtable(cf.Metadata))
		if i == 0 {
			first = len(require.File(t, names[0]))
		}
	}
	require.NoError(t, db.Close())
	whole := require.File(t, names[0])
	for size, want := range map[int]string{0: "holds no entry", 100: "", first + 9: "later ones are missing"} {
		require.NoError(t, os.WriteFile(names[0], whole[:size], 0o644))
		db, err := engine.Open(engine.Options{Dir: dir})
		if err == nil {
			db.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d of %d bytes: %v", size, len(whole), err)
		}
	}
	// The loss of whole entries is seen only by the number of the last write.
	require.NoError(t, os.WriteFile(names[0], whole[:first], 0o644))
	log, logged := logEvents("writes were lost at the start")
	db = enginetest.OpenPlain(t, engine.Options{Dir: dir, Logger: log})
	<-logged[0]
	if lost := db.Recovery().Lost; !strings.Contains(lost, "was closed with write") {
		t.Errorf("lost: %q", lost)
	}
}

// TestNewerManifest: a MANIFEST with bounds that RocksDB 7.8 refuses is opened; nothing is lost, and it stays
// readable.
func TestNewerManifest(t *testing.T) {
	for _, placeholder := range []byte{0x18, 0x1a} {
		t.Run(fmt.Sprintf("%#x", placeholder), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "db")
			db := enginetest.OpenPlain(t, engine.Options{Dir: dir})
			setHash(t, db, "h", "f", "g")
			setString(t, db, "s", 0)
			require.NoError(t, db.FlushMemtable(cf.Metadata))
			require.NoError(t, db.Close())
			placeholders(t, dir, placeholder)
			o := grocksdb.NewDefaultOptions()
			defer o.Destroy()
			_, err := grocksdb.ListColumnFamilies(o, dir)
			if version, _ := engine.RocksDB(); strings.HasPrefix(version, "7.") &&
				(err == nil || !strings.Contains(err.Error(), "new-file4 entry")) {
				t.Fatalf("RocksDB reads it: %v", err)
			}
			db = enginetest.OpenPlain(t, engine.Options{Dir: dir})
			wantCount(t, db, ns, 2, 0)
			kept, _ := filepath.Glob(dir + "/*" + manifest.KeptSuffix)
			if len(kept) != 1 {
				t.Errorf("kept %q", kept)
			}
			setString(t, db, "new", 0)
			require.NoError(t, db.Close())
			wantCount(t, enginetest.OpenWith(t, engine.Options{Dir: dir}), ns, 3, 0)
		})
	}
}

// placeholders gives the least bound of the table file in the MANIFEST another type, as newer versions may. The
// file's entry is the one whose bounds are the keys of the metadata family.
func placeholders(t *testing.T, dir string, kind byte) {
	t.Helper()
	m, err := manifest.Read(dir)
	require.NoError(t, err)
	changed := 0
	edit(t, filepath.Join(dir, m.Name), func(b []byte) []byte {
		s := logfile.NewScanner(bytes.NewReader(b), 0)
		for s.Next() {
			f := s.Fragments()[0]
			user := append([]byte("\x0b"), cf.DefaultNamespace...)
			at := bytes.Index(s.Record(), append(user, 'h'))
			if at < 0 {
				continue
			}
			at += len(user) + 1
			b[int(f.Start)+at] = kind
			logfile.Seal(b, f.Header, f.Len)
			changed++
		}
		return b
	})
	if changed == 0 {
		t.Fatal("the MANIFEST holds no such bound")
	}
}

// TestNewerFormat: what a newer RocksDB has written and this one cannot read is refused with one clear line.
func TestNewerFormat(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	db := enginetest.OpenPlain(t, engine.Options{Dir: dir})
	setString(t, db, "s", 0)
	require.NoError(t, db.FlushMemtable(cf.Metadata))
	require.NoError(t, db.Close())
	files, _ := filepath.Glob(dir + "/*.sst")
	edit(t, files[0], func(b []byte) []byte { // the footer ends with u32 version, u64 magic
		b[len(b)-12] = 7
		return b
	})
	db, err := engine.Open(engine.Options{Dir: dir})
	if err == nil {
		db.Close()
		t.Fatal("it was opened")
	}
	if text := err.Error(); !strings.Contains(text, files[0]+": it has format_version 7") || strings.Contains(text, "\n") {
		t.Errorf("the error is %q", text)
	}
}

// TestLogsAreListed: the list of logs follows when RocksDB begins a new one.
func TestLogsAreListed(t *testing.T) {
	log, listed := logEvents("the list of logs was written")
	db := enginetest.OpenPlain(t, engine.Options{Dir: filepath.Join(t.TempDir(), "db"), Logger: log})
	defer db.Close()
	setString(t, db, "a", 0)
	setHash(t, db, "h", "f")
	require.NoError(t, db.FlushMemtable(cf.Metadata))
	<-listed[0]
	logs, err := wal.Numbers(db.Dir())
	list, listErr := wal.ReadList(db.Dir())
	if err != nil || listErr != nil || len(logs) < 2 || !slices.Equal(list.Logs, logs) || list.Clean != 0 {
		t.Errorf("logs %v, %v; the list is %v, %v", logs, err, list, listErr)
	}
}
