package logging

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// patience is the time for which a line waits for the reader of a pipe.
const patience = time.Second

// stream is stdout or stderr. When it is a pipe or a terminal whose reader has stalled, lines are lost: waiting for the
// reader would stop whoever logs, and with it the whole server, down to SIGTERM.
type stream struct {
	*os.File
	stalled bool
}

// Write writes a line. A pipe that poll(2) calls writable takes at least 4 KiB without waiting.
func (s *stream) Write(line []byte) (int, error) {
	wait := patience
	if s.stalled { // the lines before have waited long enough
		wait = 0
	}
	fd := []unix.PollFd{{Fd: int32(s.Fd()), Events: unix.POLLOUT}}
	n, err := unix.Poll(fd, int(wait.Milliseconds()))
	for err == unix.EINTR {
		n, err = unix.Poll(fd, int(wait.Milliseconds()))
	}
	if s.stalled = err == nil && n == 0; s.stalled {
		return len(line), nil // an error would be reported on stderr, often the same pipe
	}
	return s.File.Write(line)
}
