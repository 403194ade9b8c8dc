package procs

import (
	"bytes"
	"io/fs"
	"strconv"
	"time"
)

const (
	// waitingThreads is how many additional threads may run Go code while reads wait for the disk: enough for its
	// queue.
	waitingThreads = 32
	// manyBlocks is the rate in blocks of 512 bytes a second from which reads count as waiting for the disk: 2 MiB, or
	// a few hundred point reads, which block a thread for 1/20 of the time.
	manyBlocks = 4096
	// diskRest is how long additional threads remain allowed after the last such step.
	diskRest = time.Second
)

// diskReads decides how many threads may run Go code in addition to one a core, because some wait for the disk.
//
// A goroutine that calls into C keeps its place among the running threads until the scheduler notices that the call
// lasts, 20 microseconds to 10 milliseconds later. RocksDB's reads from the disk take 100 microseconds each: they leave
// cores idle and the disk's queue empty. Places that are held by waiting threads cost nothing. In memory more places
// cost, as idle threads look for work, so they are given only while commands read from a disk: what compactions read
// does not count, see background.
type diskReads struct {
	blocks int64         // total blocks read up to the last step
	rest   time.Duration // for how long additional threads remain allowed
}

// step takes the total number of blocks of 512 bytes that the process has read from disks, and the time since the last
// step. It returns how many additional threads may run Go code.
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

// background counts what RocksDB's own threads read from disks. No command waits for these reads.
type background struct {
	proc    fs.FS
	threads map[string]int64 // blocks that each has read, by its number; -1 = a thread of another kind
	ended   int64            // blocks of the threads that are gone
}

// blocks returns how many blocks of 512 bytes RocksDB's threads have read so far. Where the kernel does not tell,
// it returns 0.
func (b *background) blocks() int64 {
	tasks, err := fs.ReadDir(b.proc, "self/task")
	if err != nil {
		return 0
	}
	now := make(map[string]int64, len(tasks))
	sum := b.ended
	for _, t := range tasks {
		dir := "self/task/" + t.Name()
		have, known := b.threads[t.Name()]
		if !known {
			// Threads that a compaction starts inherit the name of the pool.
			if name, err := fs.ReadFile(b.proc, dir+"/comm"); err != nil || !bytes.HasPrefix(name, []byte("rocksdb:")) {
				have = -1
			}
		}
		if have >= 0 {
			have = max(have, readBlocks(b.proc, dir+"/io"))
			sum += have
		}
		now[t.Name()] = have
	}
	for id, n := range b.threads {
		if _, alive := now[id]; !alive && n > 0 {
			b.ended += n
			sum += n
		}
	}
	b.threads = now
	return sum
}

// readBlocks returns the blocks of 512 bytes that an io file of /proc counts as read from disks, 0 if it cannot be
// read.
func readBlocks(proc fs.FS, name string) int64 {
	text, err := fs.ReadFile(proc, name)
	if err != nil {
		return 0
	}
	for line := range bytes.Lines(text) {
		if n, found := bytes.CutPrefix(line, []byte("read_bytes: ")); found {
			v, _ := strconv.ParseInt(string(bytes.TrimSpace(n)), 10, 64)
			return v / 512
		}
	}
	return 0
}
