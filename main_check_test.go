package main

import (
	"encoding/json"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine/offline"
)

// call runs a sub-command to its end.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	cmd := basalt(t, args...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// A server is inspected while it runs, its directory is checked when it was killed.
func TestInspectAndCheck(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "--dir", dir)
	for i := range 250 {
		p.want("OK", "SET", "key:"+strconv.Itoa(i), strings.Repeat("v", i))
	}
	p.want("3", "SADD", "a set", "a", "b", "c")
	p.want("1", "EXPIRE", "key:1", "1000")
	p.want("OK", "CONFIG", "SET", "requirepass", "secret")
	code, out, stderr := call(t, "inspect", "--json", "--top", "3", "--password", "secret", p.addr)
	var in offline.Inspection
	if err := json.Unmarshal([]byte(out), &in); code != 0 || err != nil || in.Keys != 251 || in.Sampled ||
		in.Types["string"].Keys != 250 || in.Biggest[0].Key != "key:249" || in.TTLs[2].Keys != 1 {
		t.Errorf("%d, %v, %s%s", code, err, out, stderr)
	}
	code, out, _ = call(t, "inspect", "--sample", "100", "--password", "secret", p.addr)
	if code != 0 || !strings.Contains(out, "(a sample: --all looks at all keys)") {
		t.Errorf("%d, %s", code, out)
	}
	if code, _, stderr = call(t, "inspect", p.addr); code != 1 || !strings.Contains(stderr, "NOAUTH") {
		t.Errorf("without a password: %d, %s", code, stderr)
	}
	if code, _, stderr = call(t, "check", dir); code != 1 || !strings.Contains(stderr, "stop the server") {
		t.Errorf("check of a running server: %d, %s", code, stderr)
	}
	p.cmd.Process.Kill()
	p.cmd.Wait()
	if code, out, stderr = call(t, "check", dir); code != 0 || !strings.Contains(out, "\n  string           250 keys\n") {
		t.Errorf("check: %d, %s%s", code, out, stderr)
	}
	code, out, _ = call(t, "inspect", "--raw", "a set", dir)
	if code != 0 || strings.Count(out, "\n  ldb --db=") != 4 {
		t.Errorf("--raw: %d, %s", code, out)
	}
}
