package offline

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/internal/fixture"
	"github.com/basaltdb/basalt/internal/require"
)

// kvrocks returns a copy of the data directory that Kvrocks has written.
func kvrocks(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	fixture.Unpack(t, dir)
	return dir + "/db"
}

func check(t *testing.T, dir string) *Report {
	t.Helper()
	before := engine.LiveObjects()
	r, err := Check(t.Context(), dir, Options{})
	require.NoError(t, err)
	if n := engine.LiveObjects(); n != before {
		t.Errorf("%d native objects were left open", n-before)
	}
	return r
}

// state describes all files of a directory.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(&b, "%s %d %s %x\n", path, info.Size(), info.ModTime(), maskedSum(data))
		return err
	}))
	return b.String()
}

// A directory of Kvrocks is sound, and nothing in it is changed by looking at it.
func TestKvrocksDirectory(t *testing.T) {
	dir := kvrocks(t)
	before := listing(t, dir)
	r := check(t, dir)
	for _, p := range r.Problems {
		t.Error(p.String())
	}
	t.Logf("%+v", r)
	for name, c := range r.Types {
		t.Logf("%s %+v", name, c)
	}
	if after := listing(t, dir); after != before {
		t.Errorf("the directory was changed:\n%s\n%s", before, after)
	}
	_, err := Check(context.Background(), t.TempDir(), Options{})
	if err == nil {
		t.Error("an empty directory was checked")
	}
}
