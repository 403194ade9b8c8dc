package engine_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/linxGnu/grocksdb"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
)

// tree returns a line for every file below dir: its name, size, time of change and content. The lock file is not
// read: closing it would give back the lock of this process (fcntl(2)).
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || d.IsDir() || d.Name() == "LOCK" {
			out = append(out, path)
			return err
		}
		b, err := os.ReadFile(path)
		out = append(out, fmt.Sprintf("%s %d %v %x", path, info.Size(), info.ModTime(), b))
		return err
	}))
	return out
}

// names returns the names of the files in dir: of a database that is open, and so may write to any of them.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// native makes a RocksDB database with the given families by other means than this package, and puts a record
// k = v into each.
func native(t *testing.T, dir string, families ...string) {
	t.Helper()
	w := grocksdb.NewDefaultWriteOptions()
	defer w.Destroy()
	inNative(t, dir, families, func(db *grocksdb.DB, h *grocksdb.ColumnFamilyHandle) {
		require.NoError(t, db.PutCF(w, h, []byte("k"), []byte("v")))
	})
}

// emptyNative is native without the records.
func emptyNative(t *testing.T, dir string, families ...string) {
	t.Helper()
	inNative(t, dir, families, func(*grocksdb.DB, *grocksdb.ColumnFamilyHandle) {})
}

func inNative(t *testing.T, dir string, families []string, each func(*grocksdb.DB, *grocksdb.ColumnFamilyHandle)) {
	t.Helper()
	o := grocksdb.NewDefaultOptions()
	defer o.Destroy()
	o.SetCreateIfMissing(true)
	o.SetCreateIfMissingColumnFamilies(true)
	opts := slices.Repeat([]*grocksdb.Options{o}, len(families))
	db, handles, err := grocksdb.OpenDbColumnFamilies(o, dir, families, opts)
	require.NoError(t, err)
	defer db.Close()
	for _, h := range handles {
		each(db, h)
		h.Destroy()
	}
}

// readNative reads the record k of each family, without changing the database.
func readNative(t *testing.T, dir string) map[string]string {
	t.Helper()
	o := grocksdb.NewDefaultOptions()
	defer o.Destroy()
	families, err := grocksdb.ListColumnFamilies(o, dir)
	require.NoError(t, err)
	opts := slices.Repeat([]*grocksdb.Options{o}, len(families))
	db, handles, err := grocksdb.OpenDbForReadOnlyColumnFamilies(o, dir, families, opts, false)
	require.NoError(t, err)
	defer db.Close()
	r := grocksdb.NewDefaultReadOptions()
	defer r.Destroy()
	out := map[string]string{}
	for i, h := range handles {
		v, err := db.GetCF(r, h, []byte("k"))
		require.NoError(t, err)
		out[families[i]] = string(v.Data())
		v.Free()
		h.Destroy()
	}
	return out
}

// TestOpenRefuses: what is not a database of ours is refused with a clear error, nothing in it is changed, and no
// native object stays open.
func TestOpenRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(t *testing.T, dir string)
		err  error
		text string
	}{
		{"other files", func(t *testing.T, dir string) { write(t, dir, "photo.jpg", "x") }, engine.ErrNotDatabase,
			"photo.jpg"},
		{"a sub-directory", func(t *testing.T, dir string) { write(t, dir, "sub/file", "x") }, engine.ErrNotDatabase, "sub"},
		{"a database of another program", func(t *testing.T, dir string) { native(t, dir, "default", "blocks") },
			engine.ErrNotDatabase, "default, blocks"},
		{"a database with the default family only", func(t *testing.T, dir string) { native(t, dir, "default") },
			engine.ErrNotDatabase, "default"},
		{"a CURRENT that points nowhere", func(t *testing.T, dir string) {
			write(t, dir, "CURRENT",
				"MANIFEST-000007\n")
		}, engine.ErrDamaged, "MANIFEST-000007"},
		{"a CURRENT that is not one", func(t *testing.T, dir string) { write(t, dir, "CURRENT", "hello") },
			engine.ErrDamaged, "CURRENT"},
		{"a manifest that is not one", func(t *testing.T, dir string) {
			write(t, dir, "CURRENT", "MANIFEST-000007\n")
			write(t, dir, "MANIFEST-000007", strings.Repeat("nonsense", 100))
		}, engine.ErrDamaged, "MANIFEST-000007"},
		{"no CURRENT", func(t *testing.T, dir string) {
			write(t, dir, "000009.sst", "x")
			write(t, dir, "MANIFEST-000007", "x")
		}, engine.ErrDamaged, "put MANIFEST-000007 and a newline into a new CURRENT: docs/recovery.md"},
		{"no CURRENT, and two that it may name", func(t *testing.T, dir string) {
			write(t, dir, "000009.log", "x")
			write(t, dir, "MANIFEST-000007", "x")
			write(t, dir, "MANIFEST-000008", "x")
		}, engine.ErrDamaged, "; restore the directory from a backup: docs/recovery.md"},
		{"no CURRENT and no MANIFEST", func(t *testing.T, dir string) { write(t, dir, "000009.sst", "x") },
			engine.ErrDamaged, "CURRENT and the MANIFEST are missing in "},
		{"a file", func(t *testing.T, dir string) {
			require.NoError(t, os.WriteFile(dir, []byte("x"), 0o644))
		}, nil, "not a directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir() + "/db"
			tt.make(t, dir)
			before, live := tree(t, dir), engine.LiveObjects()
			db, err := engine.Open(engine.Options{Dir: dir})
			if err == nil {
				db.Close()
				t.Fatal("it was opened")
			}
			if tt.err != nil && !errors.Is(err, tt.err) || !strings.Contains(err.Error(), tt.text) ||
				!strings.Contains(err.Error(), dir) {
				t.Errorf("error %q", err)
			}
			if after := tree(t, dir); !slices.Equal(before, after) {
				t.Errorf("the directory was changed from\n%.200q\nto\n%.200q", before, after)
			}
			if n := engine.LiveObjects(); n != live {
				t.Errorf("%d native objects were left open", n-live)
			}
		})
	}
}

// TestCreationInterrupted: a directory in which a kill has interrupted the creation of the database is opened as a new
// one.
func TestCreationInterrupted(t *testing.T) {
	for name, make := range map[string]func(t *testing.T, dir string){
		"before CURRENT": func(t *testing.T, dir string) {
			write(t, dir, "IDENTITY", "x")
			write(t, dir, "MANIFEST-000001", "half of a")
			write(t, dir, "000001.dbtmp", "MANI")
			require.NoError(t, os.Mkdir(dir+"/archive", 0o755))
		},
		"before the other families": func(t *testing.T, dir string) { emptyNative(t, dir, "default") },
		"between the families":      func(t *testing.T, dir string) { emptyNative(t, dir, "default", "metadata") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir() + "/db"
			make(t, dir)
			for range 2 {
				db := enginetest.OpenWith(t, engine.Options{Dir: dir})
				setHash(t, db, "h", "f")
				require.NoError(t, db.Close())
			}
		})
	}
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}

// TestOpenDamaged: a database of ours that has lost a file is not opened, and can be once the file is back.
func TestOpenDamaged(t *testing.T) {
	dir := t.TempDir() + "/db"
	db := enginetest.OpenPlain(t, engine.Options{Dir: dir})
	setHash(t, db, "h", "f")
	require.NoError(t, db.FlushMemtable(cf.Metadata))
	require.NoError(t, db.Close())
	files, err := filepath.Glob(dir + "/*.sst")
	if err != nil || len(files) == 0 {
		t.Fatalf("table files %q, %v", files, err)
	}
	require.NoError(t, os.Rename(files[0], files[0]+".away"))
	live := engine.LiveObjects()
	for range 2 {
		if db, err := engine.Open(engine.Options{Dir: dir}); err == nil {
			db.Close()
			t.Fatal("a database without one of its files was opened")
		} else if !errors.Is(err, engine.ErrDamaged) || !strings.Contains(err.Error(), files[0]+" is missing") {
			t.Error(err)
		}
	}
	if n := engine.LiveObjects(); n != live {
		t.Errorf("%d native objects were left open", n-live)
	}
	require.NoError(t, os.Rename(files[0]+".away", files[0]))
	db = enginetest.OpenWith(t, engine.Options{Dir: dir})
	wantCount(t, db, ns, 1, 0)
}

// holderDir names the directory that the test binary shall open, as another process, and hold until its input
// ends.
const holderDir = "BASALT_TEST_HOLD"

func TestMain(m *testing.M) {
	if what := os.Getenv(exchangeEnv); what != "" {
		killedExchange(what)
	}
	dir := os.Getenv(holderDir)
	if dir == "" {
		os.Exit(m.Run())
	}
	db, err := engine.Open(engine.Options{Dir: dir})
	fmt.Println(err)
	if err != nil {
		os.Exit(1)
	}
	io.Copy(io.Discard, os.Stdin)
	if err := db.Close(); err != nil {
		os.Exit(1)
	}
}

// TestOpenLocked: a directory that this process or another one has open is refused, and the attempt changes
// nothing, not even a log file. When the other process is killed the directory is free.
func TestOpenLocked(t *testing.T) {
	refused := func(t *testing.T, dir string) {
		t.Helper()
		before, live := inUse(t, dir), engine.LiveObjects()
		for range 2 { // the first attempt must not free the lock
			db, err := engine.Open(engine.Options{Dir: dir})
			if err == nil {
				db.Close()
				t.Fatal("it was opened")
			}
			if !errors.Is(err, engine.ErrLocked) || !strings.Contains(err.Error(), dir) {
				t.Errorf("error %q", err)
			}
		}
		if after := inUse(t, dir); !slices.Equal(before, after) {
			t.Errorf("the attempt changed the files from %q to %q", before, after)
		}
		if n := engine.LiveObjects(); n != live {
			t.Errorf("%d native objects were left open", n-live)
		}
	}
	t.Run("by nobody, but LOCK is a directory", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(dir+"/LOCK", 0o755))
		if _, err := engine.Open(engine.Options{Dir: dir}); err == nil || errors.Is(err, engine.ErrLocked) ||
			!strings.Contains(err.Error(), "Is a directory") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("by this process", func(t *testing.T) {
		dir := t.TempDir() + "/db"
		db := enginetest.OpenWith(t, engine.Options{Dir: dir})
		refused(t, dir)
		link := filepath.Dir(dir) + "/link"
		require.NoError(t, os.Symlink(dir, link))
		if _, err := engine.Open(engine.Options{Dir: link}); !errors.Is(err, engine.ErrLocked) {
			t.Errorf("through a link: %v", err)
		}
		cmd := hold(t, dir)
		if line, err := bufio.NewReader(cmd.out).ReadString('\n'); err != nil ||
			!strings.Contains(line, engine.ErrLocked.Error()) {
			t.Errorf("another process, after the attempts of this one: %q, %v", line, err)
		}
		setHash(t, db, "h", "f")
	})
	t.Run("by another process", func(t *testing.T) {
		dir := t.TempDir() + "/db"
		cmd := hold(t, dir)
		if line, err := bufio.NewReader(cmd.out).ReadString('\n'); err != nil || line != "<nil>\n" {
			t.Fatalf("the other process: %q, %v", line, err)
		}
		// It is stopped, with the lock held, so that what changes in the directory is not its work.
		require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
		defer cmd.Process.Kill() // otherwise nobody would wake it
		var state syscall.WaitStatus
		if _, err := syscall.Wait4(cmd.Process.Pid, &state, syscall.WUNTRACED, nil); err != nil || !state.Stopped() {
			t.Fatalf("the other process did not stop: %v, %#x", err, state)
		}
		refused(t, dir)
		require.NoError(t, cmd.Process.Kill())
		cmd.Wait()
		db := enginetest.OpenWith(t, engine.Options{Dir: dir})
		setHash(t, db, "h", "f")
	})
}

// inUse returns the names of the files of a database but for those of old MANIFESTs, which the one that has it open
// deletes some time after it has opened it.
func inUse(t *testing.T, dir string) []string {
	t.Helper()
	current := require.File(t, dir+"/CURRENT")
	return slices.DeleteFunc(names(t, dir), func(name string) bool {
		return strings.HasPrefix(name, "MANIFEST-") && name != strings.TrimSpace(string(current))
	})
}

type holder struct {
	*exec.Cmd
	out io.Reader
}

// hold starts a process that opens the directory; it ends with the test at the latest.
func hold(t *testing.T, dir string) holder {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), holderDir+"="+dir)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	return holder{cmd, out}
}

// TestOpenKeepsUnknownFamilies: column families of a newer version are opened, named and left alone, whatever
// happens to the others.
func TestOpenKeepsUnknownFamilies(t *testing.T) {
	dir := t.TempDir() + "/db"
	db := enginetest.OpenPlain(t, engine.Options{Dir: dir})
	if names := db.UnknownFamilies(); len(names) != 0 {
		t.Errorf("a new database has the unknown families %q", names)
	}
	require.NoError(t, db.Close())
	native(t, dir, append(slices.Clone(cf.Names[:]), "index", "future")...)
	want := readNative(t, dir)
	if want["index"] != "v" || want["future"] != "v" {
		t.Fatalf("the families hold %v", want)
	}
	for range 2 {
		db := enginetest.OpenPlain(t, engine.Options{Dir: dir})
		if names := slices.Sorted(slices.Values(db.UnknownFamilies())); !slices.Equal(names, []string{"future"}) {
			t.Errorf("unknown families %q", names)
		}
		setHash(t, db, "h", "a", "b")
		wantCount(t, db, ns, 1, 0)
		if err := db.FlushAll(); err != nil {
			t.Error(err)
		}
		compact(t, db)
		if err := db.CompactNamespace(""); err != nil {
			t.Error(err)
		}
		if err := db.SetFamilyOption("write_buffer_size", "1048576"); err != nil {
			t.Error(err)
		}
		check := filepath.Join(t.TempDir(), "copy")
		if err := db.Checkpoint(check); err != nil {
			t.Error(err)
		}
		require.NoError(t, db.Close())
		for _, d := range []string{dir, check} {
			got := readNative(t, d)
			for _, name := range []string{"index", "future"} {
				if got[name] != "v" {
					t.Errorf("%s: family %s holds %q, want %q", filepath.Base(d), name, got[name], "v")
				}
			}
		}
	}
}

// TestClosed: a closed database refuses everything.
func TestClosed(t *testing.T) {
	db := enginetest.OpenPlain(t, engine.Options{Dir: t.TempDir() + "/db"})
	require.NoError(t, db.Close())
	for name, f := range map[string]func(string, [][]byte, func(*engine.Tx) error) error{"Update": db.Update,
		"View": db.View} {
		if err := f(ns, keys("k"), func(*engine.Tx) error {
			t.Errorf("%s ran its function",
				name)
			return nil
		}); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := db.Close(); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("Close: %v", err)
	}
}
