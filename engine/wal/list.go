package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/basaltdb/basalt/engine/manifest"
)

// List is the list of logs that a server keeps in its directory: RocksDB's own (track_and_verify_wals_in_manifest)
// knows neither the newest log nor any that was not synced, and RocksDB up to 10.6 crashes when it opens such a
// directory for reading only.
//
// It is a text file, which RocksDB and Kvrocks leave alone:
//
//	basalt logs 1
//	NUMBER             a log, one line each, in ascending order
//	NUMBER clean SIZE  only the last one, after the database was closed
//
// What it names and the MANIFEST does not need any more may be missing: another server may have had the directory
// since.
type List struct {
	Logs  []uint64
	Clean int64 // bytes of the last one when the database was closed, 0 = it was not
}

const (
	listName   = "basalt-logs"
	listHeader = "basalt logs 1\n"
)

// ReadList reads the list of a directory; it is empty when there is none, or one of another kind.
func ReadList(dir string) (List, error) {
	b, err := os.ReadFile(filepath.Join(dir, listName))
	if errors.Is(err, fs.ErrNotExist) {
		return List{}, nil
	}
	if err != nil {
		return List{}, err
	}
	text, ok := strings.CutPrefix(string(b), listHeader)
	if !ok {
		return List{}, nil
	}
	var l List
	for line := range strings.Lines(text) {
		var n uint64
		if _, err := fmt.Sscanf(line, "%d clean %d\n", &n, &l.Clean); err != nil {
			l.Clean = 0
			if _, err := fmt.Sscanf(line, "%d\n", &n); err != nil {
				return List{}, nil
			}
		}
		l.Logs = append(l.Logs, n)
	}
	return l, nil
}

// WriteList notes the logs that are in the directory. After the database was closed, with all that it has written on
// the disk, closed is true.
func WriteList(dir string, closed bool) error {
	numbers, err := Numbers(dir)
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(listHeader)
	for i, n := range numbers {
		fmt.Fprint(&b, n)
		if closed && i == len(numbers)-1 {
			info, err := os.Stat(filepath.Join(dir, Name(n)))
			if err != nil {
				return err
			}
			if info.Size() > 0 {
				fmt.Fprint(&b, " clean ", info.Size())
			}
		}
		b.WriteByte('\n')
	}
	// First the names of the logs, so that the list never knows one that a crash takes away.
	if err := manifest.SyncDir(dir); err != nil {
		return err
	}
	return manifest.ReplaceFile(filepath.Join(dir, listName), []byte(b.String()))
}
