// Package raw reads and writes the parts of values in RDB files: lengths, strings, numbers, packed forms of small
// values, and parts of modules' values. It checks every length, and bounds its memory.
package raw

import (
	"errors"
	"fmt"
)

// The errors of readers.
var (
	// ErrFormat: the bytes are not in the format of Redis.
	ErrFormat   = errors.New("rdb: malformed value")
	ErrTooLarge = errors.New("rdb: value too large")
	ErrRead     = errors.New("rdb: reading failed")
)

// Malformed returns an ErrFormat with a description.
func Malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
}
