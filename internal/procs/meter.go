package procs

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc/stat: USER_HZ is 100 on every architecture that Go runs on.
const tick = 10 * time.Millisecond

// meter measures how much other processes use the cores that this process may use.
type meter struct {
	cpus   []int // the cores, ascending
	niced  bool  // this process has a lower priority than usual
	unused time.Duration
	known  bool // unused is valid: a measurement was made
}

// newMeter returns a meter for the cores in the affinity mask of this process. proc is the file system /proc.
func newMeter(proc fs.FS, niced bool) (*meter, error) {
	status, err := fs.ReadFile(proc, "self/status")
	if err != nil {
		return nil, err
	}
	cpus, err := parseAllowed(string(status))
	return &meter{cpus: cpus, niced: niced}, err
}

func (m *meter) cores() int { return len(m.cpus) }

// forget makes the next measurement the first one.
func (m *meter) forget() { m.known = false }

// others returns how many cores other processes used since the last measurement, span ago, while this process used
// mine. The first measurement returns ok false.
func (m *meter) others(proc fs.FS, span time.Duration, mine float64) (cores float64, ok bool, err error) {
	stat, err := fs.ReadFile(proc, "stat")
	if err != nil {
		return 0, false, err
	}
	unused, err := parseUnused(string(stat), m.cpus, m.niced)
	if err != nil {
		return 0, false, err
	}
	before, ok := m.unused, m.known
	m.unused, m.known = unused, true
	return float64(m.cores()) - float64(unused-before)/float64(span) - mine, ok, nil
}

var (
	errStatus = errors.New("/proc/self/status has no readable line Cpus_allowed_list")
	errStat   = errors.New("/proc/stat lacks the line of a core")
)

// parseAllowed reads the affinity mask from /proc/self/status: "Cpus_allowed_list:\t0-3,8" (man 5 proc_pid_status).
func parseAllowed(status string) (cpus []int, err error) {
	const name = "Cpus_allowed_list:"
	for line := range strings.Lines(status) {
		list, ok := strings.CutPrefix(line, name)
		if !ok {
			continue
		}
		for part := range strings.SplitSeq(strings.TrimSpace(list), ",") {
			from, to, isRange := strings.Cut(part, "-")
			if !isRange {
				to = from
			}
			first, err1 := strconv.Atoi(from)
			last, err2 := strconv.Atoi(to)
			const most = 1 << 16 // max number of cores
			if err1 != nil || err2 != nil || first < 0 || last < first || last >= most {
				return nil, errStatus
			}
			for cpu := first; cpu <= last; cpu++ {
				cpus = append(cpus, cpu)
			}
		}
		return cpus, nil
	}
	return nil, errStatus
}

// parseUnused returns the total CPU time of the given cores, since the start of the host, that no process has used.
// Unless this process is niced itself, time of niced processes counts as unused. The kernel measures idle time exactly,
// but attributes used time only at clock ticks.
//
// A line of /proc/stat is "cpu" and the number of a core, then the ticks of user, nice, system, idle, iowait, irq,
// softirq, steal, and others that are not needed here (man 5 proc_stat).
func parseUnused(stat string, cpus []int, niced bool) (time.Duration, error) {
	var sum int64
	left := cpus
	for line := range strings.Lines(stat) {
		if len(left) == 0 || !strings.HasPrefix(line, "cpu") {
			break
		}
		f := strings.Fields(line)
		if f[0] != "cpu"+strconv.Itoa(left[0]) {
			continue
		}
		if len(f) < 9 {
			return 0, errStat
		}
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
		left = left[1:]
	}
	if len(left) > 0 {
		return 0, errStat
	}
	return time.Duration(sum) * tick, nil
}
