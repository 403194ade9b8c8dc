package main

import (
	"encoding/json"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
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
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// A server is inspected while it runs, and its directory is checked after it was killed.
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
	if code != 0 || !strings.Contains(out, "(the first of SCAN: --all looks at all keys)") {
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

// A start prints its choices in five lines, and warns of a password that every local user may read.
func TestStartLines(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir+"/kvrocks.conf", "requirepass secret\ndir "+dir+"/data\n") // 0644
	p := start(t, "-c", file)
	for _, line := range []string{" info basalt ", " info memory: block cache ", " info threads: ",
		" info files: configuration " + file + ", data in " + dir + "/data/db (", " info ready ",
		" warning " + file + " holds requirepass, and everybody on the machine may read it; chmod 640 " + file} {
		if p.logged(line) != 1 {
			t.Errorf("%q is not in the log:\n%s", line, strings.Join(p.log, "\n"))
		}
	}
	if n := p.logged(" info "); n != 5 {
		t.Errorf("%d lines:\n%s", n, strings.Join(p.log, "\n"))
	}
}

// The doctor examines made-up facts, a file and a running server.
func TestDoctor(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/root/proc/sys/vm/overcommit_memory", "2\n")
	file := write(t, dir+"/kvrocks.conf", "requirepass secret\ndir "+dir+"/data\nlog-level debug\n"+
		"admin-listen 0.0.0.0:9121\n")
	p := start(t, "--dir", dir+"/data")
	code, out, stderr := call(t, "doctor", "-c", file, "--root", dir+"/root", "--server", p.addr)
	if code != 3 || !strings.HasPrefix(out, "wrong (machine): vm.overcommit_memory is 2") ||
		!strings.Contains(out, "\nwrong (settings): "+file+" holds requirepass, ") ||
		!strings.Contains(out, "\nadvice (settings): everybody who reaches admin-listen 0.0.0.0:9121 may ") ||
		!strings.Contains(out, "\nadvice (settings): log-level is debug: the log grows fast\n  set log-level info\n") {
		t.Errorf("%d, %s%s", code, out, stderr)
	}
	_, out, stderr = call(t, "doctor", "--root", dir+"/none", "--server", p.addr)
	if strings.Contains(out, "(settings)") || strings.Contains(out, "(machine): the disk of") || stderr != "" {
		t.Errorf("a server whose settings are not known: %s%s", out, stderr)
	}
	p.stop(syscall.SIGTERM)
	code, out, _ = call(t, "doctor", "-c", file, "--root", dir+"/root", "--server", p.addr)
	if code != 3 || !strings.Contains(out, "(settings)") || !strings.Contains(out, "wrong (server): "+p.addr) {
		t.Errorf("%d, %s", code, out)
	}
	code, out, _ = call(t, "doctor", "--json", "-c", file, "--root", dir+"/root")
	var found []map[string]string
	if err := json.Unmarshal([]byte(out), &found); code != 3 || err != nil || found[0]["level"] != "wrong" ||
		found[0]["do"] == "" {
		t.Errorf("%d, %v, %s", code, err, out)
	}
	file = write(t, dir+"/bad.conf", "port 6666\ntimeout soon\n")
	if code, out, _ = call(t, "doctor", "-c", file); code != 3 || !strings.Contains(out, file+":2: timeout: ") {
		t.Errorf("%d, %s", code, out)
	}
	found = nil
	code, out, _ = call(t, "doctor", "--json", "-c", file)
	if err := json.Unmarshal([]byte(out), &found); code != 3 || err != nil || len(found) != 1 ||
		!strings.HasPrefix(found[0]["what"], file+":2: timeout: ") {
		t.Errorf("%d, %v, %s", code, err, out)
	}
	for _, line := range []string{"log-dir stdout:loud", "aclfile " + dir + "/none"} { // errors that no single setting has
		write(t, file, line+"\n")
		name, _, _ := strings.Cut(line, " ")
		if code, out, _ = call(t, "doctor", "-c", file); code != 3 || !strings.Contains(out, name+": ") {
			t.Errorf("%s: %d, %s", line, code, out)
		}
	}
}
