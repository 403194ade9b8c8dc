// Package procs fits the number of threads that run Go code to the cores that other processes leave.
//
// The Go scheduler wakes a sleeping thread whenever there is more to run than running threads, as if all cores were
// its own. Where clients on the same machine keep some of them busy, each such thread only takes turns with a client:
// with 2 cores and redis-benchmark without pipelining, GET reached 0.66 of redis-server on two threads and 0.97 on
// one, as every request woke a thread. So a Governor watches how many cores others use and lowers GOMAXPROCS by as
// many, to half of the cores at the least: other processes cannot crowd this one out by being greedy. Those of a lower
// priority (a positive nice value) do not count, they give way by themselves.
package procs

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Periods of looking. While this process does little it is not worth more.
const (
	busyPeriod = 50 * time.Millisecond
	idlePeriod = 100 * time.Millisecond
	// idle is the use of the CPU, in cores, below which the process does little.
	idle = 0.25
	// A step counts one part in so many of the moving average.
	smoothing = 4
	// After so many steps of doing little what was learned of the others is out of date.
	forget = int(5 * time.Second / idlePeriod)
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
// Others is a moving average: what a step sees of them is counted in ticks and off by about 0.2. With 2 cores,
// redis-benchmark uses about 0.9 without pipelining and 0.4 with 16 commands at a time, where the second thread is
// worth a quarter of all writes.
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

// Run governs this process until done is closed and then gives all cores back. It returns at once where it has
// nothing to say: on one core, or when GOMAXPROCS or a limit of the container has set the number of threads.
// enabled is asked again and again.
func Run(done <-chan struct{}, enabled func() bool) {
	cores := runtime.NumCPU()
	if cores < 2 || os.Getenv("GOMAXPROCS") != "" || runtime.GOMAXPROCS(0) != cores {
		return
	}
	set := cores
	apply := func(n int) {
		if n != set {
			runtime.GOMAXPROCS(n)
			set = n
		}
	}
	defer func() { apply(cores) }()
	g := NewGovernor(cores)
	timer := time.NewTimer(idlePeriod)
	defer timer.Stop()
	last := ownTime()
	at := time.Now()
	var all time.Duration // of all processes, when last was taken; 0 = not known
	niced := isNiced()
	for {
		select {
		case <-done:
			return
		case <-timer.C:
		}
		own, now := ownTime(), time.Now()
		span := now.Sub(at)
		mine := float64(own-last) / float64(span)
		last, at = own, now
		if !enabled() {
			g = NewGovernor(cores)
			apply(cores)
			mine = 0
		}
		if mine < idle {
			apply(g.Step(mine, 0))
			all = 0
			timer.Reset(idlePeriod)
			continue
		}
		busy, err := busyTime(niced)
		if err != nil {
			return
		}
		if all > 0 {
			apply(g.Step(mine, float64(busy-all)/float64(span)-mine))
		}
		all = busy
		timer.Reset(busyPeriod)
	}
}

// ownTime is the CPU time of this process.
func ownTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// tick is the unit of /proc/stat: USER_HZ is 100 on every architecture that Go runs on.
const tick = 10 * time.Millisecond

// isNiced reports whether this process has a lower priority than usual.
func isNiced() bool {
	p, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	return err == nil && p < 20 // the system call returns 20 - nice
}

// busyTime is the CPU time of all processes and of the kernel since the start of the machine, with or without the
// processes of lower priority.
func busyTime(niced bool) (time.Duration, error) {
	f, err := os.Open("/proc/stat")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var line [256]byte
	n, _ := f.Read(line[:])
	return parseBusy(string(line[:n]), niced)
}

var errStat = errors.New("/proc/stat does not begin with the cpu line")

// parseBusy reads the first line of /proc/stat: "cpu" and the ticks of user, nice, system, idle, iowait, irq, softirq
// and more that do not count here (man 5 proc_stat).
func parseBusy(stat string, niced bool) (time.Duration, error) {
	line, _, _ := strings.Cut(stat, "\n")
	f := strings.Fields(line)
	if len(f) < 8 || f[0] != "cpu" {
		return 0, errStat
	}
	var sum int64
	for i, s := range f[1:8] {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return 0, errStat
		}
		switch i {
		case 3, 4: // idle, iowait
		case 1:
			if niced {
				sum += n
			}
		default:
			sum += n
		}
	}
	return time.Duration(sum) * tick, nil
}
