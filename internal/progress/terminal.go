package progress

import (
	"os"

	"golang.org/x/sys/unix"
)

// Width returns the columns of the terminal that f is, 0 if it is none.
func Width(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	switch {
	case err != nil:
		return 0
	case size.Col == 0:
		return 80 // a terminal that does not say, such as a serial line
	default:
		return int(size.Col)
	}
}
