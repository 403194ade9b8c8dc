package offline

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/internal/require"
)

func overwrite(t *testing.T, file string, at int64) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	if at < 0 {
		info, err := f.Stat()
		require.NoError(t, err)
		at += info.Size()
	}
	if _, err := f.WriteAt([]byte("damage"), at); err != nil {
		t.Fatal(err)
	}
}

// A damaged block costs the keys in it and no others; the damaged database stays.
func TestRebuild(t *testing.T) {
	dir := large(t, *engine.DefaultRocksOptions())
	tables, _ := filepath.Glob(dir + "/*.sst")
	overwrite(t, tables[0], 100000)
	overwrite(t, tables[0], 500000)
	found := check(t, dir)
	if found.Found[BadFile] != 1 || found.Found[Unreadable] < 2 {
		t.Fatalf("%+v", found.Problems)
	}
	r, err := Repair(t.Context(), dir, Options{})
	if err != nil || r.Left != 0 || r.Repaired < 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	again := check(t, dir)
	if len(again.Problems) != 0 {
		t.Errorf("%+v", again.Problems)
	}
	if n := again.Types["string"].Keys; n < 9800 || n == 10000 { // of two blocks, and what lies around them
		t.Errorf("%d keys of 10000 are left", n)
	}
	if kept, _ := filepath.Glob(dir + ".damaged-*/*.sst"); len(kept) != 1 {
		t.Errorf("kept: %v", kept)
	}
	if left, _ := filepath.Glob(dir + ".rebuilt*"); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	db := enginetest.OpenWith(t, engine.Options{Dir: dir})
	enginetest.Update(t, db, enginetest.Bytes("new"), func(tx *engine.Tx) error {
		str.MSet(tx, enginetest.Bytes("new", "v"))
		return nil
	})
	if n := db.KeyCount(cf.DefaultNamespace); n.Keys != again.Types["string"].Keys+1 {
		t.Errorf("%+v keys", n)
	}
}

// Two repairs in the same second keep two damaged databases.
func TestRebuildTwice(t *testing.T) {
	dir := large(t, *engine.DefaultRocksOptions())
	now := time.Now()
	for kept := 1; kept <= 2; kept++ {
		tables, _ := filepath.Glob(dir + "/*.sst")
		overwrite(t, tables[0], 100000)
		r, err := Repair(t.Context(), dir, Options{Now: func() time.Time { return now },
			Dropped: filepath.Join(t.TempDir(), "dropped")})
		if err != nil || r.Left != 0 || r.Found[BadFile] != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		if aside, _ := filepath.Glob(dir + ".damaged-*"); len(aside) != kept {
			t.Errorf("kept: %v", aside)
		}
	}
	if left, _ := filepath.Glob(dir + ".rebuilt*"); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// Table files that cannot be opened, or are missing, are left out by a check and by a repair. Each is listed with the
// range of its records.
func TestLostTables(t *testing.T) {
	dir := kvrocks(t)
	before := check(t, dir)
	tables, _ := filepath.Glob(dir + "/*.sst")
	overwrite(t, tables[0], -6)
	require.NoError(t, os.Truncate(tables[1], 100))
	require.NoError(t, os.Remove(tables[2]))
	found := check(t, dir)
	for i, what := range []string{"Bad table magic number", "the file has 100 bytes instead of ", "the file is missing"} {
		p := found.Problems[i]
		if p.Kind != BadFile || p.File != filepath.Base(tables[i]) || !strings.Contains(p.Detail, what) ||
			!strings.Contains(p.Detail, " with records between 0x") || strings.Contains(p.Detail, "basalt-read-") {
			t.Errorf("%+v", p)
		}
	}
	if found.Found[BadFile] != 3 || found.Files.Tables != len(tables)-3 {
		t.Errorf("%+v", found)
	}
	r, err := Repair(t.Context(), dir, Options{})
	if err != nil || r.Left != 0 || r.Found[BadFile] != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	if again := check(t, dir); len(again.Problems) != 0 || again.keys() == 0 || again.keys() >= before.keys() {
		t.Errorf("%d keys of %d: %+v", again.keys(), before.keys(), again.Problems)
	}
}

func (r *Report) keys() (n int64) {
	for _, c := range r.Types {
		n += c.Keys
	}
	return n
}

// The table file of another database keeps RocksDB from opening this one, though the file is whole. A repair changes
// nothing then.
func TestUnopenable(t *testing.T) {
	dir, other := large(t, *engine.DefaultRocksOptions()), large(t, *engine.DefaultRocksOptions())
	tables, _ := filepath.Glob(dir + "/*.sst")
	others, _ := filepath.Glob(other + "/*.sst")
	require.NoError(t, os.Rename(others[0], tables[0]))
	r := check(t, dir)
	if r.Found[BadFile] != 1 || !strings.Contains(r.Problems[0].Detail, "the database cannot be opened: ") ||
		strings.Contains(r.Problems[0].Detail, "basalt-read-") {
		t.Errorf("%+v", r.Problems)
	}
	if _, err := Repair(t.Context(), dir, Options{}); !errors.Is(err, engine.ErrDamaged) {
		t.Errorf("repaired: %v", err)
	}
}

// Without its MANIFEST the files of a database cannot be read. A check says so, with the name of the file that is
// damaged and of damaged table files, and a repair changes nothing.
func TestDamagedManifest(t *testing.T) {
	dir := kvrocks(t)
	manifests, _ := filepath.Glob(dir + "/MANIFEST-*")
	tables, _ := filepath.Glob(dir + "/*.sst")
	overwrite(t, manifests[0], 1000)
	overwrite(t, tables[0], 20)
	r := check(t, dir)
	if r.Found[BadFile] != 2 || r.Problems[0].File != filepath.Base(tables[0]) ||
		!strings.Contains(r.Problems[1].Detail, "the database is damaged: "+manifests[0]+": damaged at byte ") {
		t.Errorf("%+v", r.Problems)
	}
	if _, err := Repair(t.Context(), dir, Options{}); !errors.Is(err, engine.ErrDamaged) {
		t.Errorf("repaired: %v", err)
	}
}
