package launch

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// CPUTime returns the CPU time that the process has used.
func (s *Server) CPUTime() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.Pid()))
	if err != nil {
		return 0, err
	}
	return ParseCPUTime(string(stat))
}

// ParseCPUTime returns the user and system time in a stat file of /proc. The name of the program, the second field, may
// contain anything.
func ParseCPUTime(stat string) (time.Duration, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/PID/stat has no processor time: %q", stat)
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	const tick = time.Second / 100 // the kernel's USER_HZ
	return time.Duration(ticks) * tick, nil
}

// PeakResident returns the peak of the resident memory of the process in bytes, since the last ResetPeak.
func (s *Server) PeakResident() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Pid()))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.Fields(text)[0], 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("no VmHWM of process %d", s.Pid())
}

// ResetPeak lets PeakResident count from now on.
func (s *Server) ResetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.Pid()), []byte("5"), 0)
}
