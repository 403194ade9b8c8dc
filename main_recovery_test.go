package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/internal/require"
)

// TestForceRecovery: a start over a damaged log is refused with one line, --force-recovery opens the database, and
// INFO says what was lost. The setting does not outlive the start.
func TestForceRecovery(t *testing.T) {
	dir := t.TempDir()
	conf := write(t, filepath.Join(dir, "kvrocks.conf"), "port 0\n")
	args := []string{"-c", conf, "--dir", dir + "/data", "--log-dir", "stdout"}
	p := start(t, args...)
	for _, key := range []string{"a", "b", "c"} {
		p.want("OK", "SET", key, strings.Repeat("v", 100))
	}
	p.stop(os.Interrupt)
	logs, err := filepath.Glob(dir + "/data/db/*.log")
	if err != nil || len(logs) == 0 {
		t.Fatalf("logs %q, %v", logs, err)
	}
	newest := logs[len(logs)-1]
	b := require.File(t, newest)
	b[len(b)-250] ^= 0xff // in the second of three records
	write(t, newest, string(b))

	var stderr bytes.Buffer
	cmd := basalt(t, args...)
	cmd.Stderr = &stderr
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("the damaged database was opened: %v", err)
	}
	line := stderr.String()
	for _, want := range []string{"basalt: dir: the database is damaged: ", newest, "--force-recovery",
		"later writes that can be read: 1"} {
		if !strings.Contains(line, want) || strings.Count(line, "\n") != 1 {
			t.Errorf("the refusal does not say %q: %q", want, line)
		}
	}

	p = start(t, append(args, "--force-recovery", "point-in-time")...)
	p.errors = true
	p.want(strings.Repeat("v", 100), "GET", "a")
	p.want("", "GET", "b")
	p.want("", "GET", "c")
	if info := p.do("INFO", "persistence"); !strings.Contains(info,
		"recovery_lost:"+filepath.Base(newest)+" is damaged at byte") {
		t.Errorf("INFO: %s", info)
	}
	p.want("force-recovery no", "CONFIG", "GET", "force-recovery")
	p.stop(os.Interrupt)
	p = start(t, args...)
	if info := p.do("INFO", "persistence"); !strings.Contains(info, "recovery_lost:\r\n") ||
		!strings.Contains(info, "corrupt_reads:0") {
		t.Errorf("INFO after the next start: %s", info)
	}
	if info := p.do("INFO", "server"); !strings.Contains(info, "rocksdb_version:7.8.") ||
		!strings.Contains(info, "rocksdb_assertions:") {
		t.Errorf("INFO server: %s", info)
	}
	p.stop(os.Interrupt)
}
