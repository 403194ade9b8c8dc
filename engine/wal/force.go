package wal

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/basaltdb/basalt/internal/durable"
)

// DamagedSuffix ends the names of logs that are kept after damage. RocksDB ignores such files.
const DamagedSuffix = ".damaged"

// Keep gives the logs from the first loss on a second name each, under which they remain when RocksDB deletes the logs
// after reading them. It returns the new names.
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

// Cut removes everything from the first loss on from the logs. [Report.Keep] must have been called. The remaining logs
// are intact. The caller must hold the lock of the directory.
func (r *Report) Cut(dir string) error {
	first := r.first()
	for i := len(r.files) - 1; i >= first; i-- { // backwards: wherever it stops, the remaining logs end at one place
		f := r.files[i]
		path := filepath.Join(dir, Name(f.number))
		switch {
		case f.listed:
		case i > first || r.Loss.Offset < 0:
			if err := os.Remove(path); err != nil {
				return err
			}
		default:
			// Write a new file: the kept name is a hard link to this one.
			src, err := os.Open(path)
			if err != nil {
				return err
			}
			data, err := io.ReadAll(io.LimitReader(src, r.Loss.Offset))
			if err = errors.Join(err, src.Close()); err != nil {
				return err
			}
			if err := durable.Write(path, data, 0o644); err != nil {
				return err
			}
		}
	}
	return durable.SyncDir(dir)
}

// first returns the index of the file with the first loss.
func (r *Report) first() int {
	for i, f := range r.files {
		if f.first {
			return i
		}
	}
	return len(r.files)
}
