package server

import (
	"fmt"
	"math"
	"syscall"
)

// reservedFiles is how many file descriptors are kept for other things than clients, as in Redis.
const reservedFiles = 32

// mostClients returns how many clients the system's limit of open files allows.
func mostClients() int64 {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil || r.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return max(1, int64(r.Cur)-reservedFiles)
}

// checkClients refuses a maxclients that the system cannot bear.
func checkClients(wanted int64) error {
	if most := mostClients(); wanted > most {
		return clientsError(most)
	}
	return nil
}

// clientsError is how many clients there may be; its text is Redis's.
type clientsError int64

func (e clientsError) Error() string {
	return fmt.Sprintf("The operating system is not able to handle the specified number of clients, try with %d", int64(e))
}
