package options

import (
	"fmt"
	"math"
	"syscall"

	"github.com/basaltdb/basalt/server/config"
)

// reservedFiles is the number of file descriptors for other purposes than clients and table files: logs, files that
// flushes and compactions write, links to other servers.
const reservedFiles = 64

// manyTables is how many table files are expected where rocksdb.max_open_files has no bound.
const manyTables = 1000

// OpenFiles divides the limit of open files. Clients get what the table files of rocksdb.max_open_files leave, and at
// least half: a flush that finds no descriptor ends writing until a restart.
func OpenFiles(cfg *config.Config) (clients, tables int64) {
	var r syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r); err != nil {
		r.Cur = math.MaxInt32
	}
	return divideFiles(int64(min(r.Cur, math.MaxInt32)), cfg.Int("rocksdb.max_open_files"))
}

func divideFiles(limit, wanted int64) (clients, tables int64) {
	tables = wanted
	if wanted < 0 {
		tables = manyTables
	}
	rest := max(limit-reservedFiles, 2)
	tables = min(tables, rest/2)
	return rest - tables, tables
}

// CheckClients refuses a maxclients that exceeds the limit of open files.
func CheckClients(cfg *config.Config) error {
	if most, _ := OpenFiles(cfg); cfg.Int("maxclients") > most {
		return clientsError(most)
	}
	return nil
}

// clientsError is the error for a too large maxclients, with the max value; its text is Redis's.
type clientsError int64

func (e clientsError) Error() string {
	return fmt.Sprintf("The operating system is not able to handle the specified number of clients, try with %d", int64(e))
}
