package offline

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/internal/require"
)

// flipped verifies a copy of a file with one bit changed at a time, at every n-th byte from the first on.
func flipped(t *testing.T, file string, first, n int, verify func(path string) error) {
	t.Helper()
	whole := require.File(t, file)
	path := filepath.Join(t.TempDir(), filepath.Base(file))
	require.NoError(t, os.WriteFile(path, whole, 0o600))
	if err := verify(path); err != nil {
		t.Fatalf("%s is whole: %v", file, err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	missed := 0
	for i := first; i < len(whole); i += n {
		if i == len(whole)-footerLen+footerHead && i%8 == 0 {
			continue // format versions 4 and 5 are read alike
		}
		f.WriteAt([]byte{whole[i] ^ 1<<(i%8)}, int64(i))
		if verify(path) == nil {
			if missed++; missed < 10 {
				t.Errorf("%s: bit %d of byte %d of %d was not found", filepath.Base(file), i%8, i, len(whole))
			}
		}
		f.WriteAt(whole[i:i+1], int64(i))
	}
	if missed > 0 {
		t.Errorf("%d flips were not found", missed)
	}
}

// Every bit of a table file that Kvrocks wrote counts.
func TestFlippedKvrocks(t *testing.T) {
	files, err := filepath.Glob(kvrocks(t) + "/*.sst")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, file := range files {
		flipped(t, file, 0, 7, verifyTable)
	}
}

// large makes a database with one table file of many blocks, filter and index in parts, and returns its directory.
func large(t *testing.T, o engine.RocksOptions) string {
	t.Helper()
	dir := t.TempDir() + "/db"
	db := enginetest.OpenPlain(t, engine.Options{Dir: dir, Rocks: &o})
	defer db.Close()
	for i := range 100 {
		var keys, pairs [][]byte
		for j := range 100 {
			key := fmt.Appendf(nil, "key:%d", 100*i+j)
			keys, pairs = append(keys, key), append(pairs, key, bytes.Repeat(key, 10))
		}
		enginetest.Update(t, db, keys, func(tx *engine.Tx) error {
			str.MSet(tx, pairs)
			return nil
		})
	}
	require.NoError(t, db.FlushMemtable(cf.Metadata))
	return dir
}

// Blocks, parts of the filter and of the index, properties, footer: each has a checksum that is compared.
func TestFlippedBlocks(t *testing.T) {
	dir := large(t, *engine.DefaultRocksOptions())
	files, _ := filepath.Glob(dir + "/*.sst")
	if len(files) != 1 {
		t.Fatal(files)
	}
	flipped(t, files[0], 0, 2503, verifyTable)
	o := *engine.DefaultRocksOptions()
	o.Compression, o.EnableBlobFiles, o.MinBlobSize = "no", true, 60
	if files, _ = filepath.Glob(large(t, o) + "/*.blob"); len(files) != 1 {
		t.Fatal(files)
	}
	flipped(t, files[0], blobHeader, 2503, func(path string) error {
		_, err := verifyBlobs(path)
		return err
	})
}
