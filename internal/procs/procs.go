// Package procs adapts the number of threads that run Go code to the cores that other processes leave idle, and to
// reads that wait for the disk: see diskReads.
//
// The Go scheduler wakes a sleeping thread whenever there is more runnable work than running threads, as if it had all
// cores to itself. If clients on the same host keep some cores busy, such a thread only takes turns with a client: with
// 2 cores and redis-benchmark without pipelining, GET reached 0.66 of redis-server's throughput on two threads and 0.97
// on one, because every request woke a thread. So a Governor measures how many cores other processes use and lowers
// GOMAXPROCS by as many, to at least half of the cores: greedy processes cannot crowd this one out. Processes of lower
// priority (a positive nice value) do not count, because they yield by themselves.
//
// The cores are those that this process may use: its affinity mask, which a cpuset narrows. Use of other cores of the
// host is ignored. Other processes are ignored too if a CPU quota of a control group makes GOMAXPROCS smaller than the
// number of these cores. If the environment sets GOMAXPROCS, the package changes nothing.
package procs

import (
	"io/fs"
	"os"
	"runtime"
	"syscall"
	"time"
)

const (
	// period is the time between two measurements. The kernel rounds the idle time of each core to 10 ms.
	period = 100 * time.Millisecond
	// idle is the CPU use, in cores, below which the process counts as idle.
	idle = 0.25
	// smoothing: a step has the weight 1/smoothing in the moving average.
	smoothing = 2
	// forget is the number of idle steps after which the average of the others is out of date.
	forget = int(5 * time.Second / period)
)

// Governor decides how many threads may run Go code. It must be used by one goroutine.
type Governor struct {
	cores  int
	now    int
	others float64 // moving average of the cores that others use
	seen   int     // number of steps in the average, at most smoothing
	little int     // number of the latest consecutive idle steps
}

// NewGovernor returns the governor of a process that may use the given number of cores.
func NewGovernor(cores int) *Governor {
	return &Governor{cores: cores, now: cores}
}

// Step takes what this process and all others used since the last step, in cores, and returns how many threads may run
// Go code from now on.
//
// The process yields a core when others use more than 0.7 of it, and takes it back when they use less than 0.6; the gap
// prevents oscillation. Nor does anything change during some idle seconds, because the load after a pause is probably
// the load before it.
//
// others is averaged, because a single measurement is off by about 0.15. With 2 cores, redis-benchmark uses 0.8 to 1
// without pipelining, and 0.4 with 16 commands at a time, where the second thread is worth a quarter of all writes.
func (g *Governor) Step(own, others float64) int {
	if own < idle {
		if g.little++; g.little >= forget {
			g.others, g.seen, g.now = 0, 0, g.cores
		}
		return g.now
	}
	g.little = 0
	g.seen = min(g.seen+1, smoothing)
	g.others += (max(others, 0) - g.others) / float64(g.seen)
	if down := g.cores - int(g.others+0.3); down < g.now && g.seen > 1 {
		g.now = max(down, (g.cores+1)/2)
	}
	if up := g.cores - int(g.others+0.4); up > g.now {
		g.now = up
	}
	return g.now
}

// Run governs this process until done is closed, and then restores the number of threads. It returns at once if the
// environment sets GOMAXPROCS. enabled is called repeatedly and says whether other processes count. syncs says that
// each write waits for the disk: then one more thread may run, since one that waits keeps its place. Without that,
// readers on a single thread would wait for a part of each sync.
func Run(done <-chan struct{}, enabled func() bool, syncs bool) {
	if os.Getenv("GOMAXPROCS") != "" {
		return
	}
	proc := os.DirFS("/proc")
	m, err := newMeter(proc, isNiced())
	if err != nil || m.cores() < 2 || runtime.GOMAXPROCS(0) != m.cores() {
		m = nil
	}
	cores := runtime.GOMAXPROCS(0)
	others := background{proc: proc}
	var all, theirs int64
	commands := func() (time.Duration, int64) {
		cpu, blocks := usage()
		if blocks != all {
			all, theirs = blocks, others.blocks()
		}
		return cpu, blocks - theirs
	}
	syncing := 0
	if syncs {
		syncing = 1
	}
	run(done, enabled, syncing, proc, m, cores, commands, func(n int) { runtime.GOMAXPROCS(n) })
}

// run is Run on so many cores, apart from the process: use returns the CPU time that the process has used and the
// blocks that its commands have read, and set sets the number of threads. syncing is the number of threads that sync.
// m is nil where other processes do not count.
func run(done <-chan struct{}, enabled func() bool, syncing int, proc fs.FS, m *meter, cores int,
	use func() (cpu time.Duration, blocks int64), set func(n int)) {
	threads := cores
	apply := func(n int) {
		if n != threads {
			set(n)
			threads = n
		}
	}
	defer func() { apply(cores) }()
	g := NewGovernor(cores)
	timer := time.NewTicker(period)
	defer timer.Stop()
	last, blocks := use()
	at := time.Now()
	disk := diskReads{blocks: blocks}
	for {
		select {
		case <-done:
			return
		case <-timer.C:
		}
		own, blocks := use()
		now := time.Now()
		span := now.Sub(at)
		mine := float64(own-last) / float64(span)
		last, at = own, now
		waiting := disk.step(blocks, span)
		switch {
		case m == nil || !enabled():
			g = NewGovernor(cores)
		case mine < idle:
			g.Step(mine, 0)
			m.forget()
		default:
			others, ok, err := m.others(proc, span, mine)
			switch {
			case err != nil:
				m = nil
			case ok:
				g.Step(mine, others)
			}
		}
		apply(g.now + syncing + waiting)
	}
}

// usage returns the CPU time of this process, and how many blocks of 512 bytes it has read from disks.
func usage() (cpu time.Duration, blocks int64) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), int64(u.Inblock)
}

// isNiced reports whether this process has a lower priority than usual.
func isNiced() bool {
	p, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	return err == nil && p < 20 // the system call returns 20 - nice
}
