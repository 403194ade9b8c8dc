package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/manifest"
	"github.com/basaltdb/basalt/engine/wal"
	"github.com/basaltdb/basalt/server/replication/proto"
)

// dirSnapshot is a database directory that no process has open, such as that of a stopped server or a result of BGSAVE.
type dirSnapshot struct {
	root   *os.Root // remains the same directory when BGSAVE replaces it
	list   []string
	unlock func()
}

// openDirSnapshot opens a data directory (with the database in db/) or a database. It keeps servers from opening it.
func openDirSnapshot(dir string) (snapshot, error) {
	if _, err := os.Stat(filepath.Join(dir, "CURRENT")); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(dir, "db", "CURRENT")); err != nil {
			return nil, fmt.Errorf("%s: there is no database in it", dir)
		}
		dir = filepath.Join(dir, "db")
	}
	unlock, err := engine.LockDir(dir)
	if errors.Is(err, engine.ErrLocked) {
		return nil, fmt.Errorf("%s: a server has it open: give its HOST:PORT, or its backup-dir after BGSAVE", dir)
	}
	if err != nil {
		return nil, err
	}
	s := &dirSnapshot{unlock: unlock}
	if err := s.read(dir); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *dirSnapshot) read(dir string) (err error) {
	if s.root, err = os.OpenRoot(dir); err != nil {
		return err
	}
	m, err := manifest.Read(dir)
	if err != nil {
		return err
	}
	d, err := s.root.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	opened, err := d.Stat()
	if err != nil {
		return err
	}
	if now, err := os.Stat(dir); err != nil || !os.SameFile(opened, now) {
		return fmt.Errorf("%s was replaced meanwhile: try again", dir) // the MANIFEST may be that of the new directory
	}
	entries, err := d.ReadDir(-1)
	if err != nil {
		return err
	}
	for _, e := range entries {
		var log uint64
		name := e.Name()
		switch {
		case !e.Type().IsRegular() || !proto.ValidName(name):
			continue
		case filepath.Ext(name) == ".log":
			if fmt.Sscanf(name, "%d.log", &log); log < m.MinLog || wal.Name(log) != name {
				continue // its writes are in table files
			}
		case len(name) > 9 && name[:9] == "MANIFEST-" && name != m.Name:
			continue
		}
		s.list = append(s.list, name)
	}
	return nil
}

func (s *dirSnapshot) names() []string { return s.list }

func (s *dirSnapshot) open(_ context.Context, name string) (io.ReadCloser, int64, error) {
	return opened(s.root.Open(name))
}

// opened returns a file that was opened, and its length.
func opened(f *os.File, err error) (io.ReadCloser, int64, error) {
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

func (s *dirSnapshot) close() {
	if s.root != nil {
		s.root.Close()
	}
	s.unlock()
}
