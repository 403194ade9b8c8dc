package wal

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/basaltdb/basalt/engine/manifest"
)

// DamagedSuffix ends the names of logs that were put aside. RocksDB does not know it and leaves such files alone.
const DamagedSuffix = ".damaged"

// Keep gives all logs from that of the first loss on a second name, under which they stay when RocksDB has read them
// and deletes them. It returns the new names.
func (r *Report) Keep(dir string) (kept []string, err error) {
	for _, f := range r.files[r.first():] {
		if f.listed {
			continue
		}
		name := Name(f.number)
		err := os.Link(filepath.Join(dir, name), filepath.Join(dir, name+DamagedSuffix))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return kept, err
		}
		kept = append(kept, name+DamagedSuffix)
	}
	return kept, nil
}

// Cut takes everything from the first loss on out of the logs, after [Report.Keep]. What is left is whole. The caller
// holds the lock of the directory.
func (r *Report) Cut(dir string) error {
	first := r.first()
	for i := len(r.files) - 1; i >= first; i-- { // from the last one: whenever it stops, what is there ends at one place
		f := r.files[i]
		path := filepath.Join(dir, Name(f.number))
		switch {
		case f.listed:
		case i > first || r.Loss.Offset < 0:
			if err := os.Remove(path); err != nil {
				return err
			}
		default:
			// Not in place: the other name is the same file.
			src, err := os.Open(path)
			if err != nil {
				return err
			}
			data, err := io.ReadAll(io.LimitReader(src, r.Loss.Offset))
			if err = errors.Join(err, src.Close()); err != nil {
				return err
			}
			if err := manifest.ReplaceFile(path, data); err != nil {
				return err
			}
		}
	}
	return manifest.SyncDir(dir)
}

// first returns the index of the file of the first loss.
func (r *Report) first() int {
	for i, f := range r.files {
		if f.first {
			return i
		}
	}
	return len(r.files)
}
