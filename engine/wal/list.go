package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/basaltdb/basalt/internal/durable"
)

// List is the list of logs that a server keeps in its database directory. RocksDB's own list
// (track_and_verify_wals_in_manifest) omits the newest log and every log that was not synced, and RocksDB up to 10.6
// crashes when it opens such a directory read-only.
//
// It is a text file, which RocksDB and Kvrocks ignore:
//
//	basalt logs 1
//	NUMBER             a log, one line each, in ascending order
//	NUMBER clean SIZE  only the last one, after the database was closed
//
// A log in the list that the MANIFEST no longer needs may be missing: another server may have used the directory since.
type List struct {
	Logs  []uint64
	Clean int64 // size in bytes of the last log when the database was closed, 0 = it was not closed
}

const (
	listName   = "basalt-logs"
	listHeader = "basalt logs 1\n"
)

// ReadList reads the list of a directory. It is empty if the file is missing or has another format.
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

// WriteList writes the list of the logs in the directory. closed says that the database was closed and all its writes
// are synced.
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
	// Sync the names of the logs first, so that the list never names a log whose directory entry a crash removes.
	if err := durable.SyncDir(dir); err != nil {
		return err
	}
	return durable.Write(filepath.Join(dir, listName), []byte(b.String()), 0o644)
}
