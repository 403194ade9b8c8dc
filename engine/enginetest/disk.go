package enginetest

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
)

// MountSmall mounts a file system of the given size in bytes, in memory, and returns its directory. It skips the
// test where that is not permitted.
func MountSmall(t testing.TB, size int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprint("size=", size)); err != nil {
		t.Skipf("a disk cannot be filled here: mounting a file system for it failed: %v (root may)", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// FillDisk writes to a file until the file system is full.
func FillDisk(t testing.TB, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	for n := 1 << 20; n > 0; {
		if _, err := f.Write(make([]byte, n)); errors.Is(err, syscall.ENOSPC) {
			n /= 2
		} else if err != nil {
			t.Error(err)
			return
		}
	}
}
