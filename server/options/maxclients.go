package options

import (
	"fmt"
	"math"
	"syscall"
)

// reservedFiles is the number of file descriptors reserved for other purposes than clients, as in Redis.
const reservedFiles = 32

// MaxOpenClients returns how many clients the limit of open files allows.
func MaxOpenClients() int64 {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil || r.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return max(1, int64(r.Cur)-reservedFiles)
}

// CheckClients refuses a maxclients that exceeds the limit of open files.
func CheckClients(wanted int64) error {
	if most := MaxOpenClients(); wanted > most {
		return clientsError(most)
	}
	return nil
}

// clientsError is the error for a too large maxclients, with the max value; its text is Redis's.
type clientsError int64

func (e clientsError) Error() string {
	return fmt.Sprintf("The operating system is not able to handle the specified number of clients, try with %d", int64(e))
}
