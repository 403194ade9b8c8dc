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
	smoothing = 2
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
	niced := isNiced()
	online, err := onlineCores()
	if err != nil {
		return
	}
	last := ownTime()
	at := time.Now()
	unused := time.Duration(-1) // when last was taken; negative = not known
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
			unused = -1
			timer.Reset(idlePeriod)
			continue
		}
		left, err := unusedTime(niced)
		if err != nil {
			return
		}
		if unused >= 0 {
			apply(g.Step(mine, float64(online)-float64(left-unused)/float64(span)-mine))
		}
		unused = left
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

// onlineCores is how many cores the machine has, whether this process may use them or not.
func onlineCores() (n int, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if len(line) > 3 && line[:3] == "cpu" && line[3] >= '0' && line[3] <= '9' {
			n++
		}
	}
	if n == 0 {
		return 0, errStat
	}
	return n, nil
}

// unusedTime is the CPU time since the start of the machine that no process has used, or only one of a lower priority,
// unless this process has such a one itself. The kernel knows exactly how long a core was idle, while it counts at the
// ticks of its clock what a core was used for.
func unusedTime(niced bool) (time.Duration, error) {
	f, err := os.Open("/proc/stat")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var line [256]byte
	n, _ := f.Read(line[:])
	return parseUnused(string(line[:n]), niced)
}

var errStat = errors.New("/proc/stat does not begin with the cpu line")

// parseUnused reads the first line of /proc/stat: "cpu" and the ticks of user, nice, system, idle, iowait, irq, softirq,
// steal and more that do not count here (man 5 proc_stat).
func parseUnused(stat string, niced bool) (time.Duration, error) {
	line, _, _ := strings.Cut(stat, "\n")
	f := strings.Fields(line)
	if len(f) < 9 || f[0] != "cpu" {
		return 0, errStat
	}
	var sum int64
	for i, s := range f[1:9] {
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return 0, errStat
		}
		switch i {
		case 3, 4, 7: // idle, iowait, steal
			sum += n
		case 1:
			if !niced {
				sum += n
			}
		}
	}
	return time.Duration(sum) * tick, nil
}
