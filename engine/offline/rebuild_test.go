package offline

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/str"
)

func overwrite(t *testing.T, file string, at int64) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if at < 0 {
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
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

// A table file that cannot be opened at all, or is missing, is found.
func TestUnopenable(t *testing.T) {
	dir := kvrocks(t)
	tables, _ := filepath.Glob(dir + "/*.sst")
	overwrite(t, tables[0], -6)
	r := check(t, dir)
	if r.Found[BadFile] != 2 || !strings.Contains(r.Problems[0].String(), filepath.Base(tables[0])) ||
		strings.Contains(r.Problems[1].String(), "basalt-read-") {
		t.Errorf("%+v", r)
	}
	if _, err := Repair(t.Context(), dir, Options{}); err == nil {
		t.Error("it was repaired")
	}
	if err := os.Remove(tables[1]); err != nil {
		t.Fatal(err)
	}
	if r = check(t, dir); r.Found[BadFile] != 2 {
		t.Errorf("%+v", r)
	}
}
