package procs

import "time"

const (
	// waitingThreads is how many threads more may run Go code while reads wait for the disk: enough for its queue.
	waitingThreads = 32
	// manyBlocks is the rate in blocks of 512 bytes a second from which on reads wait for the disk: 2 MiB, or a few
	// hundred point reads, which hold a thread for 1/20 of the time.
	manyBlocks = 4096
	// So long after the last such step more threads are allowed still.
	diskRest = time.Second
)

// diskReads decides how many threads may run Go code beside one a core, as some wait for the disk.
//
// A goroutine that calls into C keeps its place among the running threads until the scheduler notices that the call
// lasts, 20 microseconds to 10 milliseconds later. RocksDB's reads from the disk take 100 microseconds each: they leave
// cores idle and the disk's queue empty. Places that are held by waiting threads cost nothing. In memory more places
// cost, as idle threads look for work, so they are given only while the process reads from a disk.
type diskReads struct {
	blocks int64         // that were read, up to the last step
	rest   time.Duration // more threads are allowed for so long
}

// step takes the blocks of 512 bytes that were read from disks since the process began, and the time since the last
// step. It returns how many more threads may run Go code.
func (d *diskReads) step(blocks int64, span time.Duration) int {
	read := blocks - d.blocks
	d.blocks = blocks
	if float64(read) >= manyBlocks*span.Seconds() && read > 0 {
		d.rest = diskRest
		return waitingThreads
	}
	if d.rest -= span; d.rest <= 0 {
		d.rest = 0
		return 0
	}
	return waitingThreads
}
