// Package raw reads and writes what values in RDB files consist of: lengths, strings, numbers, packed forms of small
// values, and parts of modules' values. It takes no length for granted, and no more memory than it is allowed.
package raw

import (
	"errors"
	"fmt"
)

// The errors of readers.
var (
	// ErrFormat: the bytes are not what Redis writes.
	ErrFormat = errors.New("rdb: malformed value")
	// ErrTooLarge: the value needs more memory than it may.
	ErrTooLarge = errors.New("rdb: value too large")
	// ErrRead: the file cannot be read.
	ErrRead = errors.New("rdb: reading failed")
)

// Malformed returns an ErrFormat that says what is wrong.
func Malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
}
