package cf

import (
	"errors"
	"fmt"
)

// ErrCorrupt is wrapped by every error that a decoder of this package returns.
var ErrCorrupt = errors.New("corrupt record")

// corrupt reports what could not be decoded.
func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}
