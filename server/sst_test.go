package server_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/servertest"
)

// tableFiles writes table files with lists of one element under each key, as [load], and returns their directory.
func tableFiles(t *testing.T, keys ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	made, stop := filepath.Join(t.TempDir(), "made"), errors.New("the files are made")
	db := enginetest.OpenPlain(t, engine.Options{Dir: t.TempDir()})
	defer db.Close()
	g, err := db.NewLoad(made, func(string) bool { return true }, func() error {
		if err := os.CopyFS(dir, os.DirFS(made)); err != nil {
			t.Error(err)
		}
		return stop
	}, nil)
	require.NoError(t, err)
	defer g.Close()
	for _, batch := range loadBatches(t, cf.DefaultNamespace, keys...) {
		require.NoError(t, g.Add([]byte(batch)))
	}
	if err := g.Commit(); !errors.Is(err, stop) {
		t.Fatal(err)
	}
	return dir
}

func fileNames(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestSSTLoad: keys in table files replace existing keys, see watchLoad, and are counted; the files stay or go.
func TestSSTLoad(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	other, tracks, noticed := watchLoad(t, h)
	dir := tableFiles(t, "a", "b", "n", "new", "q")
	if got := c.Do("SST", "LOAD", dir); got != "*2\r\n$12\r\nfiles_loaded\r\n:2\r\n" {
		t.Fatal(got)
	}
	noticed()
	h.DB.WaitScans()
	other.Want("DBSIZE", ":5\r\n")
	if got := h.DB.KeyCount(cf.DefaultNamespace); !got.Exact || got.Expires != 0 {
		t.Errorf("%+v", got)
	}
	other.Want("LPUSH b x", ":2\r\n")

	// A second time, now the files are moved.
	if names := fileNames(t, dir); len(names) != 2 {
		t.Errorf("left of the copied files: %v", names)
	}
	if got := tracks.Do("SST", "LOAD", dir, "MOVEFILES", "yes"); got != "%1\r\n$12\r\nfiles_loaded\r\n:2\r\n" {
		t.Fatal(got)
	}
	if names := fileNames(t, dir); names != nil {
		t.Errorf("left of the moved files: %v", names)
	}
	other.Want("LRANGE b 0 -1", servertest.Bulk("e-b"))
	h.DB.WaitScans()
	other.Want("DBSIZE", ":6\r\n") // with q
}

// TestSSTLoadAgain: a server that is killed before it has removed moved files leaves them as they were, so that they
// can be loaded again.
func TestSSTLoadAgain(t *testing.T) {
	c := servertest.Start(t).Dial(t)
	c.Want("SET a old", "+OK\r\n") // so that the records get a sequence number
	dir, left := tableFiles(t, "a", "b"), t.TempDir()
	for _, name := range fileNames(t, dir) {
		require.NoError(t, os.Link(filepath.Join(dir, name), filepath.Join(left, name)))
	}
	for _, dir := range []string{dir, left} {
		if got := c.Do("SST", "LOAD", dir, "MOVEFILES", "yes"); !strings.Contains(got, ":2\r\n") {
			t.Fatal(got)
		}
		c.Want("LRANGE a 0 -1", servertest.Bulk("e-a"))
		c.Want("LPUSH a x", ":2\r\n")
	}
}

// TestSSTLoadRefused: when one file cannot be taken, none is.
func TestSSTLoadRefused(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	refused := func(what string, args ...string) {
		t.Helper()
		if got := c.Do(args...); !strings.HasPrefix(got, "-ERR") || !strings.Contains(got, what) {
			t.Errorf("%s: %q, want an error with %q", args, got, what)
		}
	}
	damage := func(name string, change func(b []byte) []byte) (dir string) {
		t.Helper()
		dir = tableFiles(t, "a", "b")
		path := filepath.Join(dir, name)
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, change(b), 0o600)
		}
		require.NoError(t, err)
		return dir
	}
	refused("syntax", "SST", "LOAD", "dir", "FILES", "yes")
	refused("syntax", "SST", "LOAD", "dir", "MOVEFILES")
	refused("'yes' or 'no'", "SST", "LOAD", "dir", "MOVEFILES", "maybe")
	refused("no such file", "SST", "LOAD", "/no/such/dir")
	refused("no .sst file", "SST", "LOAD", t.TempDir())
	refused("default-0.sst: Corruption", "SST", "LOAD", damage("default-0.sst", func(b []byte) []byte {
		b[20] ^= 1 // in a data block
		return b
	}))
	refused("metadata-0.sst: ", "SST", "LOAD", damage("metadata-0.sst", func(b []byte) []byte { return b[:len(b)/2] }))
	refused("metadata-0.sst: ", "SST", "LOAD", damage("metadata-0.sst", func(b []byte) []byte {
		b[len(b)-12] = 99 // the version of the format, in the footer
		return b
	}))
	for _, name := range []string{"propagate-1.sst", "default-metadata.sst"} {
		dir := tableFiles(t, "a", "b")
		require.NoError(t, os.Rename(filepath.Join(dir, "default-0.sst"), filepath.Join(dir, name)))
		refused("the name of "+name, "SST", "LOAD", dir)
	}
	dir := tableFiles(t, "a", "b")
	c.Want("FT.CREATE i SCHEMA t TAG", "+OK\r\n")
	refused("search indexes", "SST", "LOAD", dir)
	refused("search indexes", "_ingest", "BEGIN")
	c.Want("FT.DROPINDEX i", "+OK\r\n")
	c.Want("ACL SETUSER some on nopass +@all ~some*", "+OK\r\n")
	c.Want("AUTH some x", "+OK\r\n")
	refused("restrictions", "SST", "LOAD", dir)
	c.Want("AUTH default x", "+OK\r\n")
	c.Want("DBSIZE", ":0\r\n")
	c.Want("EXISTS a b", ":0\r\n")
	c.Want("REPLICAOF 127.0.0.1 1", "+OK\r\n")
	if got := c.Do("SST", "LOAD", dir); !strings.HasPrefix(got, "-READONLY") {
		t.Errorf("on a replica: %q", got)
	}
	c.Want("REPLICAOF NO ONE", "+OK\r\n")
	if got := c.Do("SST", "LOAD", dir); !strings.Contains(got, ":2\r\n") {
		t.Errorf("the intact files: %q", got)
	}

	in := servertest.Start(t, "cluster-enabled", "yes").Dial(t)
	if got := in.Do("SST", "LOAD", dir); got != "-ERR SST LOAD is not supported in cluster mode\r\n" {
		t.Errorf("in a cluster: %q", got)
	}
}
