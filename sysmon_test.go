package main

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
)

// TestSysmon checks what the server adds to GODEBUG, and that it is the process that was started, under its name.
func TestSysmon(t *testing.T) {
	for _, c := range []struct{ given, want string }{
		{"", "schedtrace=2147483647"},
		{"gctrace=0", "gctrace=0,schedtrace=2147483647"},
		{"schedtrace=0", "schedtrace=0"},
	} {
		t.Setenv("GODEBUG", c.given)
		p := start(t, "--dir", t.TempDir())
		proc := "/proc/" + strconv.Itoa(p.cmd.Process.Pid)
		env := strings.Split(string(require.File(t, proc+"/environ")), "\x00")
		if !slices.Contains(env, "GODEBUG="+c.want) {
			t.Errorf("GODEBUG %q: the environment is %q", c.given, env)
		}
		name, _ := os.Executable()
		if got := strings.TrimSpace(string(require.File(t, proc+"/comm"))); got == "" || !strings.Contains(name, got) {
			t.Errorf("the process is called %q", got)
		}
		p.want("PONG", "PING")
		p.stop(os.Interrupt)
	}
}

// TestConfigFromStdin checks that the configuration may come from stdin, which can be read only once.
func TestConfigFromStdin(t *testing.T) {
	cmd := basalt(t, "-c", "-", "--port", "0", "--dir", t.TempDir())
	cmd.Stdin = strings.NewReader("timeout 77\n")
	p := follow(t, cmd)
	p.ready(p.await(" ready "))
	p.want("timeout 77", "CONFIG", "GET", "timeout")
	p.stop(os.Interrupt)
}
