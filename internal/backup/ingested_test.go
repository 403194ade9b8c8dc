package backup

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/linxGnu/grocksdb"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/internal/require"
)

// ingest brings a table file into a closed database as RocksDB does by default, and as Kvrocks does: it copies the
// file, and writes the sequence number of the records into the copy.
func ingest(t *testing.T, db, file string) {
	t.Helper()
	o, in := grocksdb.NewDefaultOptions(), grocksdb.NewDefaultIngestExternalFileOptions()
	defer o.Destroy()
	defer in.Destroy()
	names, err := grocksdb.ListColumnFamilies(o, db)
	require.NoError(t, err)
	d, families, err := grocksdb.OpenDbColumnFamilies(o, db, names, slices.Repeat([]*grocksdb.Options{o}, len(names)))
	require.NoError(t, err)
	defer d.Close()
	for i, f := range families {
		defer f.Destroy()
		if names[i] == cf.Metadata.String() {
			require.NoError(t, d.IngestExternalFileCF(f, []string{file}, in))
		}
	}
}

// TestIngestedTwice: a table file that was ingested twice is two files with one unique id. The backup has both.
func TestIngestedTwice(t *testing.T) {
	o, env := grocksdb.NewDefaultOptions(), grocksdb.NewDefaultEnvOptions()
	defer o.Destroy()
	defer env.Destroy()
	file := filepath.Join(t.TempDir(), "metadata.sst")
	w := grocksdb.NewSSTFileWriter(env, o)
	defer w.Destroy()
	require.NoError(t, w.Open(file))
	m := cf.Meta{Type: cf.TypeString}
	key := cf.AppendNSKey(nil, cf.DefaultNamespace, []byte("k"), false)
	require.NoError(t, w.Add(key, append(m.Append(nil), "new"...)))
	require.NoError(t, w.Finish())

	r := newRepo(t)
	dir := t.TempDir()
	for range 2 {
		s := startServer(t, dir)
		s.dial(t).do("SET k old")
		s.stop()
		ingest(t, filepath.Join(dir, "db"), file)
		if _, err := r.CreateFromDir(t.Context(), dir, CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	s, _ := restore(t, r, RestoreOptions{})
	if got := s.dial(t).do("GET k"); got != "new" {
		t.Errorf("the restored database has %q", got)
	}
	s = startServer(t, dir) // its files are reused, too
	if c := s.create(r); c.ReusedFiles < 2 {
		t.Errorf("%d files are reused", c.ReusedFiles)
	}
}
