package main

import (
	"bufio"
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// dropPageCache writes the files below dir to the disk and removes them from the page cache.
func dropPageCache(dir string) error {
	syscall.Sync()
	return forget(dir)
}

// fadvDontNeed is POSIX_FADV_DONTNEED.
const fadvDontNeed = 4

// forget removes the clean pages of the files below dir from the page cache. Files may be created and deleted
// meanwhile.
func forget(dir string) error {
	return eachFile(dir, func(path string, _ int64) error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, _, errno := syscall.Syscall6(syscall.SYS_FADVISE64, f.Fd(), 0, 0, fadvDontNeed, 0, 0); errno != 0 {
			return errno
		}
		return nil
	})
}

// starve replaces a memory cgroup: it removes the files below dir from the page cache every half second, until the
// returned function is called.
func starve(dir string) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTicker(500 * time.Millisecond)
		defer t.Stop()
		for {
			select {
			case <-end:
				return
			case <-t.C:
				_ = forget(dir) // repeated in half a second
			}
		}
	}()
	return func() { close(end); <-ended }
}

// inMemory reports whether a directory is in a file system without a disk.
func inMemory(dir string) bool {
	const tmpfs = 0x01021994 // TMPFS_MAGIC
	var s syscall.Statfs_t
	return syscall.Statfs(dir, &s) == nil && s.Type == tmpfs
}

// diskUse returns the size in bytes of the table files, including blobs, and of all other files below dir.
func diskUse(dir string) (tables, rest int64, err error) {
	err = eachFile(dir, func(path string, size int64) error {
		switch filepath.Ext(path) {
		case ".sst", ".blob":
			tables += size
		default:
			rest += size
		}
		return nil
	})
	return tables, rest, err
}

func eachFile(dir string, do func(path string, size int64) error) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var info fs.FileInfo
			if info, err = d.Info(); err == nil {
				err = do(path, info.Size())
			}
		}
		if os.IsNotExist(err) {
			return nil
		}
		return err
	})
}

// compactionInput returns the bytes that compactions have read so far, from the events in RocksDB's info log: ...
// EVENT_LOG_v1 {..., "event": "compaction_started", ..., "input_data_size": 123, ...}
func compactionInput(dir string) (int64, error) {
	logs, err := filepath.Glob(filepath.Join(dir, "db", "LOG*"))
	if err != nil {
		return 0, err
	}
	sum := int64(0)
	for _, path := range logs {
		f, err := os.Open(path)
		if err != nil {
			return 0, err
		}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 16*mib)
		for lines.Scan() {
			sum += inputSize(lines.Bytes())
		}
		f.Close()
		if err := lines.Err(); err != nil {
			return 0, err
		}
	}
	return sum, nil
}

// inputSize returns the bytes that one line adds to compactionInput.
func inputSize(line []byte) int64 {
	if !bytes.Contains(line, []byte(`"event": "compaction_started"`)) {
		return 0
	}
	_, text, _ := bytes.Cut(line, []byte(`"input_data_size": `))
	digits := bytes.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	n, _ := strconv.ParseInt(string(text[:max(digits, 0)]), 10, 64)
	return n
}
