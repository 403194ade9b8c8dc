package progress

import (
	"os"

	"golang.org/x/sys/unix"
)

// Width returns the number of columns of the terminal f, 0 if f is not a terminal.
func Width(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	switch {
	case err != nil:
		return 0
	case size.Col == 0:
		return 80 // a terminal of unknown width, such as a serial line
	default:
		return int(size.Col)
	}
}
