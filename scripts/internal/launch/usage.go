package launch

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime returns the CPU time that a process on this host has used.
func CPUTime(pid int) (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(int32(^pid)<<3|2, &t) // the clock of the process: clock_getcpuclockid(3)
	return time.Duration(t.Nano()), err
}

// CPUTime returns the CPU time that the process has used.
func (s *Server) CPUTime() (time.Duration, error) { return CPUTime(s.Pid()) }

// Spent returns the CPU time that the process uses during a call.
func (s *Server) Spent(call func() error) (time.Duration, error) {
	before, err := s.CPUTime()
	if err != nil {
		return 0, err
	}
	if err := call(); err != nil {
		return 0, err
	}
	after, err := s.CPUTime()
	return after - before, err
}

// Fields parses a file in the process's directory in /proc with lines such as "name: 123" or "name: 123 kB", whose
// value is in bytes. It skips lines without a number.
func (s *Server) Fields(file string) (map[string]int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", s.Pid(), file))
	if err != nil {
		return nil, err
	}
	return parseFields(string(b)), nil
}

func parseFields(text string) map[string]int64 {
	out := map[string]int64{}
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(line, ":")
		number, kib := strings.CutSuffix(strings.TrimSpace(rest), " kB")
		if n, err := strconv.ParseInt(number, 10, 64); err == nil {
			if kib {
				n <<= 10
			}
			out[name] = n
		}
	}
	return out
}

// PeakResident returns the peak of the resident memory of the process in bytes, since the last ResetPeak.
func (s *Server) PeakResident() (int64, error) { return s.status("VmHWM") }

// Resident returns the resident memory of the process in bytes.
func (s *Server) Resident() (int64, error) { return s.status("VmRSS") }

func (s *Server) status(name string) (int64, error) {
	fields, err := s.Fields("status")
	if n, ok := fields[name]; ok || err != nil {
		return n, err
	}
	return 0, fmt.Errorf("process %d has no %s: it has ended", s.Pid(), name)
}

// ResetPeak lets PeakResident count from now on.
func (s *Server) ResetPeak() error {
	return os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.Pid()), []byte("5"), 0)
}
