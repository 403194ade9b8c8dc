package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/basaltdb/basalt/internal/durable"
)

// dirStore is a store in a directory. Objects are written below tmp/ and renamed.
type dirStore struct{ dir string }

const tmpDir = "tmp"

func openDir(dir string, create bool) (Store, error) {
	if create {
		if err := os.MkdirAll(filepath.Join(dir, tmpDir), 0o700); err != nil {
			return nil, err
		}
	} else if info, err := os.Stat(dir); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	return &dirStore{dir: dir}, nil
}

func (s *dirStore) String() string { return s.dir }

func (s *dirStore) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

type dirWriter struct {
	*os.File
	s *dirStore
}

func (s *dirStore) Create(context.Context) (Writer, error) {
	f, err := os.CreateTemp(filepath.Join(s.dir, tmpDir), "")
	if err != nil {
		return nil, err
	}
	return &dirWriter{f, s}, nil
}

func (w *dirWriter) Commit(name string) error {
	if err := errors.Join(w.Sync(), w.Close()); err != nil {
		return err
	}
	to := w.s.path(name)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if err := os.Rename(w.Name(), to); err != nil {
		return err
	}
	// The parent directories may be new.
	for d := filepath.Dir(to); ; d = filepath.Dir(d) {
		if err := durable.SyncDir(d); err != nil {
			return err
		}
		if d == filepath.Clean(w.s.dir) || d == filepath.Dir(d) {
			return nil
		}
	}
}

func (w *dirWriter) Abort() {
	w.Close()
	os.Remove(w.Name()) // does nothing after Commit
}

func (s *dirStore) Open(_ context.Context, name string) (io.ReadCloser, error) {
	return os.Open(s.path(name))
}

func (s *dirStore) List(ctx context.Context, prefix string, f func(Object) error) error {
	err := filepath.WalkDir(s.path(prefix), func(file string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // removed meanwhile
		}
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		rel, err := filepath.Rel(s.dir, file)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if d.IsDir() {
			if name == tmpDir {
				return filepath.SkipDir
			}
			return nil
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return f(Object{Name: name, Size: info.Size(), Modified: info.ModTime()})
	})
	if err != nil {
		return fmt.Errorf("listing %s: %w", path.Join(s.dir, prefix), err)
	}
	return nil
}

func (s *dirStore) Remove(_ context.Context, name string) error {
	err := os.Remove(s.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		// Remove the directory with its last object. It may have a new one meanwhile, or be removed already.
		if dir := path.Dir(name); strings.Contains(dir, "/") {
			os.Remove(s.path(dir))
		}
	}
	return err
}

func (s *dirStore) CleanUp(_ context.Context, before time.Time) error {
	entries, err := os.ReadDir(filepath.Join(s.dir, tmpDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.ModTime().Before(before) {
			if err := os.Remove(filepath.Join(s.dir, tmpDir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}
