package enginetest

import (
	"syscall"
	"time"
)

// rusageThread is RUSAGE_THREAD of getrusage(2), which package syscall lacks.
const rusageThread = 1

// ThreadCPU returns the CPU time that the calling thread has used. On a host with other load it measures the cost of an
// operation better than the clock. The caller must have locked its goroutine to the thread.
func ThreadCPU() time.Duration { return usage(rusageThread) }

// ProcessCPU returns the CPU time that the process has used, RocksDB's background work included.
func ProcessCPU() time.Duration { return usage(syscall.RUSAGE_SELF) }

func usage(who int) time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(who, &r); err != nil {
		panic(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
