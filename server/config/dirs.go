package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/basaltdb/basalt/server/config/conffile"
)

// permissions of access(2): write and search.
const writeAndSearch = 2 | 1

var (
	errNotDir      = errors.New("is not a directory")
	errNotWritable = errors.New("is not writable")
	errIsDatabase  = errors.New("is a database itself, such as a backup: move it to the directory db in another one, " +
		"and name that")
	errImport  = errors.New("holds an import that has not ended: remove " + Importing + " and import again, or wait")
	errRestore = errors.New("holds a restore that has not ended: run basalt restore again, or wait")
)

// Directories below the base directory that hold an unfinished database: of basalt import and basalt restore.
const (
	Importing = "import.tmp"
	Restoring = "restore.tmp"
)

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// PrepareDir makes sure that the base directory exists, can be written to, is not a database itself, and is not one
// that an import or a restore has left unfinished. It is created when only its last part is missing, so that a mistyped
// path does not leave a tree behind. undo removes the created directory while it is empty, and is meant for a start
// that fails later. The error is of type [*Error] and names the directory.
func (c *Config) PrepareDir() (undo func(), err error) {
	d := c.Dir()
	fail := func(err error) (func(), error) { return nil, &conffile.Error{File: "dir", Key: d, Err: err} }
	err = os.Mkdir(d, 0o755)
	switch {
	case err == nil:
		return func() { os.Remove(d) }, nil
	case !errors.Is(err, fs.ErrExist):
		if path, ok := errors.AsType[*fs.PathError](err); ok {
			err = path.Err
		}
		return fail(err)
	}
	info, err := os.Stat(d)
	switch {
	case err != nil:
		return fail(err)
	case !info.IsDir():
		return fail(errNotDir)
	case syscall.Access(d, writeAndSearch) != nil:
		return fail(errNotWritable)
	case exists(filepath.Join(d, "CURRENT")) && !exists(c.DBDir()):
		return fail(errIsDatabase) // the server would begin with an empty one below it
	case exists(filepath.Join(d, Importing)) && !exists(c.DBDir()):
		return fail(errImport)
	case exists(filepath.Join(d, Restoring)) && !exists(c.DBDir()):
		return fail(errRestore)
	}
	return func() {}, nil
}
