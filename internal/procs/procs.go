// Package procs fits the number of threads that run Go code to the cores that other processes leave, and to the reads
// that wait for the disk: see diskReads.
//
// The Go scheduler wakes a sleeping thread whenever there is more to run than running threads, as if all cores were
// its own. Where clients on the same machine keep some of them busy, each such thread only takes turns with a client:
// with 2 cores and redis-benchmark without pipelining, GET reached 0.66 of redis-server on two threads and 0.97 on
// one, as every request woke a thread. So a Governor watches how many cores others use and lowers GOMAXPROCS by as
// many, to half of the cores at the least: other processes cannot crowd this one out by being greedy. Those of a lower
// priority (a positive nice value) do not count, they give way by themselves.
//
// Cores are those that this process may use: its affinity mask, which a cpuset narrows. What others do on the rest of
// the machine is not seen. Others do not count where GOMAXPROCS is fewer than these, by the CPU quota of a control
// group. Nothing is changed where the environment sets GOMAXPROCS.
package procs

import (
	"io/fs"
	"os"
	"runtime"
	"syscall"
	"time"
)

const (
	// period is the time between two looks. The kernel rounds the idle time of each core to 10 ms.
	period = 100 * time.Millisecond
	// idle is the use of the CPU, in cores, below which the process does little.
	idle = 0.25
	// A step counts one part in so many of the moving average.
	smoothing = 2
	// After so many steps of doing little what was learned of the others is out of date.
	forget = int(5 * time.Second / period)
)

// A Governor decides how many threads may run Go code. It belongs to one goroutine.
type Governor struct {
	cores  int
	now    int
	others float64 // cores that others use: a moving average
	seen   int     // steps that it is made of, at most smoothing
	little int     // steps in which this process did little, the last ones
}

// NewGovernor returns the governor of a process that may use all of cores.
func NewGovernor(cores int) *Governor {
	return &Governor{cores: cores, now: cores}
}

// Step takes what this process and all others used since the last step, in cores, and returns how many threads may
// run Go code from now on.
//
// The process gives way when others use more than 0.7 of a core, and returns when they use less than 0.6: between the
// two limits nothing changes, lest it goes to and fro. Nor does it while this process does little, for some seconds:
// what comes after a pause is most likely what was before.
//
// Others is a moving average: what one step sees of them is off by about 0.15. With 2 cores, redis-benchmark uses 0.8
// to 1 without pipelining and 0.4 with 16 commands at a time, where the second thread is worth a quarter of all writes.
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

// Run governs this process until done is closed and then restores the number of threads. It returns at once when
// GOMAXPROCS in the environment has set that. enabled is asked again and again whether other processes count.
func Run(done <-chan struct{}, enabled func() bool) {
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
	run(done, enabled, proc, m, cores, commands, func(n int) { runtime.GOMAXPROCS(n) })
}

// run is Run on so many cores, apart from the process: use returns the CPU time that the process has used and the blocks
// that its commands have read, and set sets the number of threads. m is nil where other processes do not count.
func run(done <-chan struct{}, enabled func() bool, proc fs.FS, m *meter, cores int,
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
		apply(g.now + waiting)
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
