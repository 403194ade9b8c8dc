package launch

import (
	"net"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
)

func TestStartStopKill(t *testing.T) {
	for _, end := range []struct {
		name string
		fn   func(*Server) error
	}{
		{"stop", (*Server).Stop},
		{"kill", func(s *Server) error { s.Kill(); return nil }},
	} {
		t.Run(end.name, func(t *testing.T) {
			s, err := Start(Redis, t.TempDir())
			require.NoError(t, err)
			if err := end.fn(s); err != nil {
				t.Error(err)
			}
			select {
			case <-s.Done():
			default:
				t.Error("the process has not ended")
			}
			if s.answers() {
				t.Error("it still answers")
			}
		})
	}
}

func TestStartTellsWhyNot(t *testing.T) {
	_, err := Start(func(int, string) *exec.Cmd {
		return exec.Command("sh", "-c", "echo no such option; exit 3")
	}, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no such option") {
		t.Errorf("got %v, want the exit status and the output", err)
	}
}

func TestPortTaken(t *testing.T) {
	s, err := Start(Redis, t.TempDir())
	require.NoError(t, err)
	defer s.Kill()
	_, text, _ := net.SplitHostPort(s.Addr)
	port, err := strconv.Atoi(text)
	require.NoError(t, err)
	out, err := Redis(port, t.TempDir()).CombinedOutput()
	if err == nil || !PortTaken(string(out)) {
		t.Errorf("a second redis-server on the port: %v\n%s", err, out)
	}
	if PortTaken("Ready to accept connections") {
		t.Error("a server that serves has no port")
	}
}

// TestStrangerAnswers: what answers at the address is not the server when another process has taken the port.
func TestStrangerAnswers(t *testing.T) {
	s, err := Start(Redis, t.TempDir())
	require.NoError(t, err)
	defer s.Kill()
	late := exec.Command("sleep", "60")
	require.NoError(t, late.Start())
	defer func() {
		late.Process.Kill()
		late.Wait()
	}()
	if err := s.awaitReady(); err != nil { // again: one try may come to nothing on a busy machine
		t.Error(err)
	}
	if (&Server{Addr: s.Addr, cmd: late}).answers() {
		t.Error("another server's answer was taken for that of the process")
	}
}

func TestTailIsBounded(t *testing.T) {
	var out tail
	line := strings.Repeat("x", 1000) + "\n"
	for range 1000 {
		out.Write([]byte(line))
	}
	out.Write([]byte("the end"))
	if n := len(out.String()); n > 2*tailSize || n < tailSize {
		t.Errorf("%d bytes kept", n)
	}
	if !strings.HasSuffix(out.String(), line+"the end") {
		t.Error("the end is missing")
	}
}

func TestUsage(t *testing.T) {
	got := parseFields("Name:\tredis-server\nVmRSS:\t    1234 kB\nread_bytes: 7\nState:\tZ (zombie)\nnothing\n")
	if len(got) != 2 || got["VmRSS"] != 1234<<10 || got["read_bytes"] != 7 {
		t.Errorf("got %v", got)
	}
	s, err := Start(Redis, t.TempDir())
	require.NoError(t, err)
	defer s.Kill()
	rss, err := s.Resident()
	peak, err2 := s.PeakResident()
	if err != nil || err2 != nil || rss < 1<<20 || peak < rss {
		t.Errorf("resident %d, %v; peak %d, %v", rss, err, peak, err2)
	}
	if cpu, err := s.CPUTime(); err != nil || cpu <= 0 {
		t.Errorf("processor time %v, %v", cpu, err)
	}
	s.Kill()
	if rss, err := s.Resident(); err == nil {
		t.Errorf("a process that has ended has %d bytes", rss)
	}
}
