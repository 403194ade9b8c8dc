// Package durable replaces files so that a crash or a power failure leaves the old file or the new one.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// Replace gives a file new contents: it writes path.tmp, syncs it and renames it. The new file has the permissions of
// the old one; perm, less the umask, are those of a file that did not exist. A symbolic link remains, and the file to
// which it leads is replaced.
func Replace(path string, data []byte, perm os.FileMode) error {
	if file, err := filepath.EvalSymlinks(path); err == nil {
		path = file
	}
	return Write(path, data, perm)
}

// Write is Replace that replaces a symbolic link itself. The file to which it leads keeps its contents.
func Write(path string, data []byte, perm os.FileMode) error {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	if old, e := os.Stat(path); e == nil {
		err = f.Chmod(old.Mode().Perm())
	}
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		os.Remove(tmp)
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir syncs a directory: the names of its files. Of a file it syncs the contents.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
