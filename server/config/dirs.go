package config

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// permissions of access(2): write and search.
const writeAndSearch = 2 | 1

var (
	errNotDir      = errors.New("is not a directory")
	errNotWritable = errors.New("is not writable")
)

// PrepareDir makes sure that the base directory exists and can be written to. It is created when only its last
// part is missing, so that a mistyped path does not leave a tree behind. The error is of type [*Error] and names
// the directory.
func (c *Config) PrepareDir() error {
	d := c.Dir()
	err := os.Mkdir(d, 0o755)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrExist):
		var path *fs.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return &Error{File: "dir", Key: d, Err: err}
	}
	info, err := os.Stat(d)
	switch {
	case err != nil:
		return &Error{File: "dir", Key: d, Err: err}
	case !info.IsDir():
		return &Error{File: "dir", Key: d, Err: errNotDir}
	case syscall.Access(d, writeAndSearch) != nil:
		return &Error{File: "dir", Key: d, Err: errNotWritable}
	}
	return nil
}
