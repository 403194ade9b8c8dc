package proto

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// MaxFileList bounds the reply to _fetch_meta in bytes: some 600,000 files.
const MaxFileList = 16 << 20

// MaxParallel is the number of connections over which a replica fetches more than [ParallelFrom] files.
const (
	MaxParallel  = 4
	ParallelFrom = 20
)

// ErrFileName: a name is not that of a database file.
var ErrFileName = errors.New("not the name of a file of a database")

// AppendFileList appends the reply to _fetch_meta.
func AppendFileList(dst []byte, names []string) []byte {
	return append(append(dst, strings.Join(names, ",")...), '\r', '\n')
}

// ParseFileList parses the reply to _fetch_meta, or the argument of _fetch_file. It rejects names that RocksDB does not
// use, and duplicates.
func ParseFileList(line []byte) ([]string, error) {
	if len(line) == 0 || line[0] == '-' {
		return nil, replyError(line)
	}
	names := strings.Split(string(line), ",")
	seen := make(map[string]bool, len(names))
	for _, n := range names {
		if !ValidName(n) {
			return nil, fmt.Errorf("%w: %.64q", ErrFileName, n)
		}
		if seen[n] {
			return nil, fmt.Errorf("%w: %q occurs twice", ErrFileName, n)
		}
		seen[n] = true
	}
	return names, nil
}

// ValidName reports whether a checkpoint may contain a file of this name: CURRENT, IDENTITY, MANIFEST-<n>, OPTIONS-<n>,
// <n>.sst, <n>.blob, <n>.log.
func ValidName(name string) bool {
	if name == "CURRENT" || name == "IDENTITY" {
		return true
	}
	for _, prefix := range []string{"MANIFEST-", "OPTIONS-"} {
		if n, ok := strings.CutPrefix(name, prefix); ok {
			return digits(n)
		}
	}
	n, kind, ok := strings.Cut(name, ".")
	return ok && digits(n) && (kind == "sst" || kind == "blob" || kind == "log")
}

func digits(s string) bool {
	return len(s) > 0 && len(s) <= 20 && strings.Trim(s, "0123456789") == ""
}

// AppendFileHead appends the line before the content of a file.
func AppendFileHead(dst []byte, size int64) []byte {
	return append(strconv.AppendInt(dst, size, 10), '\r', '\n')
}

// ParseFileHead parses the line before the content of a file: its size in bytes.
func ParseFileHead(line []byte) (size int64, err error) {
	if len(line) == 0 || line[0] == '-' {
		return 0, replyError(line)
	}
	n, err := strconv.ParseUint(string(line), 10, 63)
	if err != nil {
		return 0, fmt.Errorf("%w: the size of a file is %.32q", ErrReply, line)
	}
	return int64(n), nil
}
