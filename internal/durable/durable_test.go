package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/basaltdb/basalt/internal/durable"
	"github.com/basaltdb/basalt/internal/require"
)

func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	check := func(text string, perm fs.FileMode) {
		t.Helper()
		got, err := os.ReadFile(path)
		info, e := os.Stat(path)
		if err = errors.Join(err, e); err != nil || string(got) != text || info.Mode() != perm {
			t.Errorf("%q, %v (%v), want %q, %v", got, info.Mode(), err, text, perm)
		}
		if _, err := os.Stat(path + ".tmp"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the temporary file is still there: %v", err)
		}
	}
	require.NoError(t, durable.Replace(path, []byte("first"), 0o600))
	check("first", 0o600)
	require.NoError(t, os.Chmod(path, 0o666))
	require.NoError(t, durable.Replace(path, []byte("second"), 0o600))
	check("second", 0o666) // as the old file, whatever the umask is

	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(path, link))
	require.NoError(t, durable.Replace(link, []byte("third"), 0o600))
	check("third", 0o666)
	if to, err := os.Readlink(link); to != path {
		t.Errorf("the link leads to %q: %v", to, err)
	}
	require.NoError(t, durable.Write(link, []byte("of the link"), 0o600))
	check("third", 0o666)
	if info, err := os.Lstat(link); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the link was not replaced: %v, %v", info, err)
	}
}

// A directory takes no new name of a file, so the rename fails.
func TestReplaceFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "directory")
	require.NoError(t, os.MkdirAll(filepath.Join(path, "below"), 0o700))
	if err := durable.Replace(path, []byte("text"), 0o600); err == nil {
		t.Error("a directory was replaced")
	}
	if _, err := os.Stat(path + ".tmp"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the temporary file is still there: %v", err)
	}
}
