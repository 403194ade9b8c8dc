package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/internal/testcert"
)

func TestVersionAndHelp(t *testing.T) {
	for arg, want := range map[string]string{"-v": "basalt " + version + "\n", "--version": "basalt " + version +
		"\n", "-h": "usage: basalt", "--help": "usage: basalt"} {
		out, err := basalt(t, "--dir", "/nosuch/dir", arg).Output()
		if err != nil || !strings.HasPrefix(string(out), want) {
			t.Errorf("%s: %q, %v", arg, out, err)
		}
	}
}

// A first argument that names a sub-command selects it; the help of the server lists them.
func TestSubCommand(t *testing.T) {
	out, err := basalt(t, "version").Output()
	if err != nil || !strings.HasPrefix(string(out), "basalt "+version+"\nRocksDB ") {
		t.Errorf("%q, %v", out, err)
	}
	out, err = basalt(t, "--help").Output()
	if err != nil || !strings.Contains(string(out), "\nusage: basalt SUB-COMMAND ...\n") ||
		!strings.Contains(string(out), "\n  version ") {
		t.Errorf("%q, %v", out, err)
	}
	cmd := basalt(t, "version", "--nosuch")
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("a wrong command line ends with %v", err)
	}
}

// tree describes all files below a directory.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			fmt.Fprint(&b, path, " ", info.Mode())
			if !d.IsDir() {
				fmt.Fprint(&b, " ", info.Size(), " ", info.ModTime().UnixNano())
			}
			b.WriteByte('\n')
		}
		return err
	}))
	return b.String()
}

// TestRefusals checks that an error at the start is reported in one line that names its cause, and that nothing is
// changed.
func TestRefusals(t *testing.T) {
	base := t.TempDir()
	occupied, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer occupied.Close()
	_, busy, _ := net.SplitHostPort(occupied.Addr().String())
	conf := func(name, text string) string { return write(t, base+"/files/"+name, text) }
	file := conf("file", "x")
	write(t, base+"/photos/db/photo.jpg", "x")
	write(t, base+"/checkpoint/CURRENT", "MANIFEST-000005\n")
	write(t, base+"/broken/db/CURRENT", "x")
	locked := t.TempDir() + "/locked" // its owner writes to it meanwhile
	holder := start(t, "--dir", locked)
	tlsCert, tlsKey := testcert.New(t).Issue("server")
	for _, tt := range []struct {
		name string
		args []string
		want string // of the line, after "basalt: "
	}{
		{"unknown key", []string{"-c", conf("u.conf", "port 1\nprot 2\n")}, base + "/files/u.conf:2: prot: unknown key"},
		{"unknown key in TOML", []string{"-c", conf("u.toml", "port = 1\n[rocksdb]\nsize = 2\n")}, base +
			"/files/u.toml:3: rocksdb.size: unknown key"},
		{"unknown option", []string{"--prot", "2"}, "command line: --prot: unknown key"},
		{"bad value", []string{"-c", conf("v.conf", "# c\n\ntimeout soon\n")}, base +
			"/files/v.conf:3: timeout: argument couldn't be parsed into an integer"},
		{"bad value in TOML", []string{"-c", conf("v.toml", "daemonize = 1\n")}, base +
			"/files/v.toml:1: daemonize: wants true or false"},
		{"bad option", []string{"--port", "65536"}, "command line: --port: argument must be between 0 and 65535 inclusive"},
		{"no value", []string{"--port"}, "command line: --port: wants a value"},
		{"no option", []string{"kvrocks.conf"}, "command line: kvrocks.conf: neither an option"},
		{"no file", []string{"-c", base + "/nosuch.conf"}, base + "/nosuch.conf: no such file or directory"},
		{"bad quotes", []string{"-c", conf("q.conf", "port 1\nrequirepass \"x\n")}, base +
			"/files/q.conf:2: malformed line: config line ends unexpectedly in quoted string"},
		{"bad TOML", []string{"-c", conf("q.toml", "port = 1\nbind = \n")}, base + "/files/q.toml:2: expected value"},
		{"command that is not there", []string{"-c", conf("r.conf", "\nrename-command NOSUCH \"\"\n")}, base +
			"/files/r.conf:2: rename-command: no such command: 'nosuch'"},
		{"name that is taken", []string{"-c", conf("r.toml", "[rename-command]\nGET = 'set'\n")}, base +
			"/files/r.toml:2: rename-command: target command name already exists: 'set'"},
		{"namespace without password", []string{"-c", conf("n.conf", "namespace.a t\n")}, "configuration: requirepass: "},
		{"missing parent", []string{"--dir", base + "/a/b"}, "dir: " + base + "/a/b: no such file or directory"},
		{"file as directory", []string{"--dir", file}, "dir: " + file + ": is not a directory"},
		{"own replica", []string{"--port", busy, "--slaveof", "localhost " + busy},
			"slaveof: localhost:" + busy + " is this server: can't replicate itself"},
		{"port in use", []string{"--port", busy}, "port: 127.0.0.1:" + busy + " is in use"},
		{"port of operators in use", []string{"--admin-listen", occupied.Addr().String()}, "admin-listen: "},
		{"missing aclfile", []string{"--aclfile", base + "/users.acl"}, "aclfile: Error loading ACLs, opening file"},
		{"bad aclfile", []string{"--aclfile", file}, "aclfile: "},
		{"TLS without certificate", []string{"--tls-port", "1"}, "tls-cert-file: a TLS port needs a certificate"},
		{"no certificate", []string{"--tls-port", "1", "--tls-cert-file", file, "--tls-key-file", file},
			"tls-cert-file: there is no certificate in it"},
		{"unknown TLS version", []string{"--tls-port", "1", "--tls-protocols", "SSLv2", "--tls-cert-file", tlsCert,
			"--tls-key-file", tlsKey, "--tls-auth-clients", "no"}, "tls-protocols: unknown version 'sslv2'"},
		{"address of another machine", []string{"--bind", "192.0.2.1"}, "bind: cannot listen on 192.0.2.1:"},
		{"file as socket", []string{"--unixsocket", file}, "unixsocket: " + file + " exists and is not a socket"},
		{"file as log directory", []string{"--log-dir", file}, "log-dir: "},
		{"locked", []string{"--dir", locked}, "dir: the data directory is locked by another process: " + locked + "/db"},
		{"no database", []string{"--dir", base + "/photos"},
			"dir: the data directory was not written by Kvrocks or basalt: " + base + "/photos/db holds photo.jpg"},
		{"a database itself", []string{"--dir", base + "/checkpoint"}, "dir: " + base + "/checkpoint: is a database itself"},
		{"broken database", []string{"--dir", base + "/broken"},
			"dir: the database is damaged: " + base + "/broken/db/CURRENT does not name a MANIFEST; restore "},
	} {
		before := tree(t, base)
		var stdout, stderr bytes.Buffer
		cmd := basalt(t, append([]string{"--dir", base + "/new", "--port", "0"}, tt.args...)...)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		if cmd.ProcessState.ExitCode() != 1 {
			t.Errorf("%s: the process ended with %v", tt.name, err)
		}
		if line := stderr.String(); !strings.HasPrefix(line, "basalt: "+tt.want) || strings.Count(line, "\n") != 1 {
			t.Errorf("%s: %q, want %q", tt.name, line, tt.want)
		}
		if strings.Contains(stdout.String(), " error ") {
			t.Errorf("%s: the log has it too: %s", tt.name, stdout.String())
		}
		if after := tree(t, base); after != before {
			t.Errorf("%s: files were\n%s\nand are\n%s", tt.name, before, after)
		}
	}
	holder.stop(syscall.SIGTERM)
}

// TestClusterEnabledFitsTheDatabase: the setting decides how keys are stored, so it cannot change over a database.
func TestClusterEnabledFitsTheDatabase(t *testing.T) {
	for _, mode := range []string{"no", "yes"} {
		dir := t.TempDir()
		p := start(t, "--dir", dir, "--cluster-enabled", mode)
		if mode == "yes" { // all slots are this node's
			id := strings.Repeat("a", 40)
			p.want("OK", "CLUSTERX", "SETNODEID", id)
			p.want("OK", "CLUSTERX", "SETNODES", id+" 127.0.0.1 6666 master - 0-16383", "1")
		}
		p.want("OK", "SET", "a", "v")
		p.want("OK", "SET", "b", "v")
		p.stop(os.Interrupt)
		other := map[string]string{"no": "yes", "yes": "no"}[mode]
		var stderr bytes.Buffer
		cmd := basalt(t, "--dir", dir, "--port", "0", "--cluster-enabled", other)
		cmd.Stderr = &stderr
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != 1 {
			t.Errorf("cluster-enabled %s over %s: %v", other, mode, err)
		}
		if line := stderr.String(); !strings.HasPrefix(line,
			"basalt: cluster-enabled: the keys of the database have another form: ") || strings.Count(line, "\n") != 1 {
			t.Errorf("cluster-enabled %s over %s: %q", other, mode, line)
		}
		p = start(t, "--dir", dir, "--cluster-enabled", mode)
		p.want("v", "GET", "a")
		p.stop(os.Interrupt)
	}
}

// restricted makes commands of a user to whom the permissions of files in dir apply: not root.
func restricted(t *testing.T, dir string) func(args ...string) *exec.Cmd {
	t.Helper()
	if os.Getuid() != 0 {
		return func(args ...string) *exec.Cmd { return basalt(t, args...) }
	}
	copied := filepath.Join(filepath.Dir(dir), "basalt") // within reach
	require.NoError(t, os.WriteFile(copied, require.File(t, basalt(t).Path), 0o755))
	t.Cleanup(func() { os.Remove(copied) })
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	return func(args ...string) *exec.Cmd {
		cmd := basalt(t, args...)
		cmd.Path = copied
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		return cmd
	}
}

// TestBackupOfUnwritableDirectory: a backup of a stopped server's directory needs no right to write there, as in a
// snapshot of a file system. A server is kept out all the same.
func TestBackupOfUnwritableDirectory(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "--dir", dir)
	p.want("OK", "SET", "k", "v")
	p.stop(os.Interrupt)
	run := restricted(t, dir)
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chmod(path, 0o555))
	}))
	to := t.TempDir()
	require.NoError(t, os.Chmod(to, 0o777))
	if out, err := run("backup", "--from", dir, "--to", filepath.Join(to, "backups")).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	unlock, err := engine.LockDir(filepath.Join(dir, "db"))
	require.NoError(t, err)
	defer unlock()
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Chmod(path, 0o755))
	}))
	out, err := basalt(t, "--port", "0", "--dir", dir).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "locked by another process") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestUnreadableFile: a file of another owner is neither damaged nor in use, and a repair does not drop it.
func TestUnreadableFile(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "--dir", dir)
	p.want("OK", "SET", "k", "v")
	p.want("OK", "FLUSHMEMTABLE")
	p.stop(os.Interrupt)
	run := restricted(t, dir)
	if os.Getuid() == 0 {
		require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Chown(path, 65534, 65534))
		}))
	}
	for _, pattern := range []string{"db/CURRENT", "db/MANIFEST-*", "db/*.sst", "db/LOCK", "db", "."} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		info, err := os.Stat(found[0])
		require.NoError(t, err)
		require.NoError(t, os.Chmod(found[0], 0))
		for _, args := range [][]string{{"--port", "0", "--dir", dir}, {"check", "--repair", dir}} {
			out, err := run(args...).CombinedOutput()
			text := string(out)
			if err == nil || !strings.Contains(strings.ToLower(text), "permission denied") &&
				!strings.Contains(text, "not writable") || strings.Contains(text, "damaged") || strings.Contains(text, "locked") {
				t.Errorf("%s, %s: %v, %s", pattern, args[0], err, text)
			}
		}
		require.NoError(t, os.Chmod(found[0], info.Mode().Perm()))
	}
	p = start(t, "--dir", dir)
	p.want("v", "GET", "k")
	p.stop(os.Interrupt)
}

func TestUnwritableDirectory(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o555))
	out, err := restricted(t, dir)("--port", "0", "--dir", dir).CombinedOutput()
	if err == nil || string(out) != "basalt: dir: "+dir+": is not writable\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// TestServe starts with a file in Kvrocks's grammar and options that override it, and stops by signals and SHUTDOWN.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	conf := write(t, dir+"/kvrocks.conf", `# all that the grammar has
  port 6666    # overridden
requirepass "secret # 1"   # quoted
bind 127.0.0.1 ::1
timeout 0x10
log-level 'info'
rename-command KEYS ""
rename-command GET FETCH
namespace.One token1
namespace.two 'token 2'
rocksdb.block_size 8kb
masterauth ""
`)
	data := dir + "/data"
	p := start(t, "-c", conf, "--dir", data, "--bind", "127.0.0.1", "--timeout", "0", "--proto-max-bulk-len", "2mb")
	for _, want := range []struct{ reply, command string }{
		{"OK", "SET k v"}, {"v", "FETCH k"}, {"PONG", "PING"},
		{"timeout 0", "CONFIG GET timeout"}, {"bind 127.0.0.1", "CONFIG GET bind"}, {"proto-max-bulk-len 2097152",
			"CONFIG GET proto-max-bulk-len"},
		{"rocksdb.block_size 8192", "CONFIG GET rocksdb.block_size"}, {"requirepass secret # 1", "CONFIG GET requirepass"},
		{"rename-command KEYS \"\" rename-command GET FETCH", "CONFIG GET rename-command"},
		{"dir " + data, "CONFIG GET dir"}, {"OK", "AUTH token1"}, {"OK", "AUTH default token 2"},
	} {
		words := strings.SplitN(want.command, " ", 3)
		p.want(want.reply, words...)
	}
	if got := p.do("GET", "k"); !strings.HasPrefix(got, "ERR unknown command 'GET'") {
		t.Errorf("the former name of a command: %q", got)
	}
	pid, err := os.ReadFile(data + "/kvrocks.pid")
	if err != nil || string(pid) != strconv.Itoa(p.cmd.Process.Pid)+"\n" {
		t.Errorf("the pid file holds %q, %v", pid, err)
	}
	p.stop(os.Interrupt)
	if _, err := os.Stat(data + "/kvrocks.pid"); err == nil {
		t.Error("the pid file is left behind")
	}
	p = start(t, "-c", conf, "--dir", data)
	p.want("v", "FETCH", "k")
	p.stop(syscall.SIGTERM)
	p = start(t, "--dir", data, "--daemonize", "yes")
	if p.logged(`settings without effect here: daemonize`) != 1 {
		t.Errorf("log:\n%s", strings.Join(p.log, "\n"))
	}
	p.want("v", "GET", "k")
	nc, err := net.Dial("tcp", p.addr)
	require.NoError(t, err)
	defer nc.Close()
	io.WriteString(nc, "SHUTDOWN\r\n")
	p.ended()
}

// TestMemoryIsLogged checks that the log contains the memory plan, and that the plan takes at most half of the memory.
func TestMemoryIsLogged(t *testing.T) {
	p := start(t, "--dir", t.TempDir())
	p.stop(os.Interrupt)
	line := regexp.MustCompile(`memory: block cache (\d+) MiB \(chosen\), write buffers (\d+) x (\d+) KiB \(chosen\), ` +
		`Go heap (\d+) MiB, budget (\d+) MiB \(chosen\) of (\d+) MiB (physical memory|cgroup v[12] limit)$`)
	for _, l := range p.log {
		m := line.FindStringSubmatch(l)
		if m == nil {
			continue
		}
		var n [6]int
		for i := range n {
			n[i], _ = strconv.Atoi(m[i+1])
		}
		cache, buffers, heap, budget, total := n[0], n[1]*n[2]/1024, n[3], n[4], n[5]
		if cache == 0 || buffers == 0 || cache+buffers+heap > budget || 4*budget > total {
			t.Errorf("more than a quarter, or nothing: %s", l)
		}
		return
	}
	t.Errorf("no line about memory:\n%s", strings.Join(p.log, "\n"))
}

// TestNewerColumnFamily checks that a column family of a newer Kvrocks stays, and is named in the log.
func TestNewerColumnFamily(t *testing.T) {
	dir := t.TempDir()
	start(t, "--dir", dir).stop(os.Interrupt)
	ldb := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("ldb", append([]string{"--db=" + dir + "/db"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("ldb %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	ldb("create_column_family", "newer")
	ldb("--column_family=newer", "put", "key", "value")
	p := start(t, "--dir", dir)
	if p.logged(`column families of a newer version are preserved {"families": ["newer"]}`) != 1 {
		t.Errorf("log:\n%s", strings.Join(p.log, "\n"))
	}
	p.want("OK", "SET", "k", "v")
	p.want("OK", "FLUSHALL")
	p.stop(os.Interrupt)
	if got := ldb("--column_family=newer", "get", "key"); !strings.Contains(got, "value") {
		t.Errorf("the family holds %q", got)
	}
}

// TestLogLevelAtRunTime looks for a message of level info before and after the level is set to info.
func TestLogLevelAtRunTime(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "--dir", dir+"/data", "--backup-dir", dir+"/backup")
	p.want("OK", "CONFIG", "SET", "log-level", "warning")
	p.want("Background saving started", "BGSAVE")
	for end := time.Now().Add(patience); !strings.Contains(p.do("INFO", "persistence"), "rdb_bgsave_in_progress:0"); {
		if time.Now().After(end) {
			t.Fatal("the backup does not end")
		}
	}
	p.want("OK", "CONFIG", "SET", "log-level", "info")
	p.want("Background saving started", "BGSAVE")
	p.await("backup made")
	p.stop(os.Interrupt)
	if n := p.logged("backup made"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, strings.Join(p.log, "\n"))
	}
}

// TestSystemd checks what a service of Type=notify says: that it is ready once it serves, and that it stops.
func TestSystemd(t *testing.T) {
	address := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	require.NoError(t, err)
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", address)
	next := func() string {
		t.Helper()
		b := make([]byte, 100)
		socket.SetReadDeadline(time.Now().Add(patience))
		n, err := socket.Read(b)
		require.NoError(t, err)
		return string(b[:n])
	}
	p := start(t, "--dir", t.TempDir())
	if got := next(); got != "READY=1" {
		t.Errorf("%q", got)
	}
	p.want("PONG", "PING")
	p.stop(syscall.SIGTERM)
	if got := next(); got != "STOPPING=1" {
		t.Errorf("%q", got)
	}
}

// TestRewrite checks that CONFIG REWRITE keeps comments and what it does not know, in both grammars.
func TestRewrite(t *testing.T) {
	for name, text := range map[string][2]string{
		"kvrocks.conf": {"# first\ntimeout 5 # old\n\n# second\nrename-command KEYS \"\"\n",
			"# first\ntimeout 7 # old\n\n# second\nrename-command KEYS \"\"\nmaxclients 77\n"},
		"kvrocks.toml": {"# first\ntimeout = 5 # kept\n\n# second\n[rename-command]\nKEYS = \"\" # third\n",
			"# first\ntimeout = 7 # kept\nmaxclients = 77\n\n# second\n[rename-command]\nKEYS = \"\" # third\n"},
	} {
		dir := t.TempDir()
		file := write(t, dir+"/"+name, text[0])
		p := start(t, "-c", file, "--dir", dir+"/data")
		p.want("OK", "CONFIG", "SET", "timeout", "7", "maxclients", "77")
		p.want("OK", "CONFIG", "REWRITE")
		p.stop(os.Interrupt)
		got := require.File(t, file)
		var rest []string // without what came from the command line
		for line := range strings.Lines(string(got)) {
			if !strings.HasPrefix(line, "port") && !strings.HasPrefix(line, "dir") {
				rest = append(rest, line)
			}
		}
		if strings.Join(rest, "") != text[1] {
			t.Errorf("%s is\n%s\nwant\n%s", name, got, text[1])
		}
		p = start(t, "-c", file)
		p.want("timeout 7", "CONFIG", "GET", "timeout")
		p.want("dir "+dir+"/data", "CONFIG", "GET", "dir")
		p.stop(os.Interrupt)
	}
}

// TestLogDirectory checks the log file; package logging tests its rotation.
func TestLogDirectory(t *testing.T) {
	dir := t.TempDir()
	cmd := basalt(t, "--port", "0", "--dir", dir, "--log-dir", dir+"/logs", "--unixsocket", dir+"/s", "--bind", "")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if nc, err := net.Dial("unix", dir+"/s"); err == nil {
			// The socket exists before the server replies on it.
			io.WriteString(nc, "SHUTDOWN\r\n")
			io.Copy(io.Discard, nc)
			nc.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatal("no server")
		}
	}
	if err := cmd.Wait(); err != nil || out.Len() > 0 {
		t.Errorf("%v, output %q", err, out.String())
	}
	files, err := filepath.Glob(dir + "/logs/basalt*.log") // at midnight there are two, the older one first
	require.NoError(t, err)
	var log []byte
	for _, file := range files {
		part := require.File(t, file)
		log = append(log, part...)
	}
	if !bytes.Contains(log, []byte(" ready ")) || !bytes.HasSuffix(log, []byte("info stopped\n")) {
		t.Errorf("the log is %q, of %q", log, files)
	}
	if _, err := os.Stat(dir + "/s"); err == nil {
		t.Error("the socket is left behind")
	}
}

// TestSignalsDuringStart: a SIGHUP, such as that of logrotate, does not end a server that opens its database. Neither
// does a stdout that nobody reads.
func TestSignalsDuringStart(t *testing.T) {
	p := spawn(t, "--dir", t.TempDir())
	p.await(" files: ") // the last line before the database is opened
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGHUP))
	p.ready(p.await(" ready "))
	p.want("PONG", "PING")
	p.stop(syscall.SIGTERM)

	r, w, err := os.Pipe()
	require.NoError(t, err)
	dir := t.TempDir()
	cmd := basalt(t, "--bind", "", "--unixsocket", dir+"/s", "--dir", dir+"/data")
	cmd.Stdout = w
	r.Close()
	require.NoError(t, cmd.Start())
	w.Close()
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case err := <-done:
			t.Fatalf("the start ended: %v", err)
		case <-time.After(time.Millisecond):
		}
		if nc, err := net.Dial("unix", dir+"/s"); err == nil {
			io.WriteString(nc, "SHUTDOWN\r\n") // waits until the server replies
			io.Copy(io.Discard, nc)
			nc.Close()
			break
		}
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestLogReaderEnds: a server goes on when nobody reads its stdout any more, as after the end of a log collector.
func TestLogReaderEnds(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	cmd := basalt(t, "--port", "0", "--dir", t.TempDir())
	cmd.Stdout = w
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() })
	w.Close()
	p := &process{t: t, cmd: cmd}
	for s := bufio.NewScanner(r); s.Scan(); {
		if strings.Contains(s.Text(), " ready ") {
			p.ready(s.Text())
			break
		}
	}
	r.Close()
	p.want("OK", "CONFIG", "SET", "slowlog-max-len", "7") // is logged
	p.want("slowlog-max-len 7", "CONFIG", "GET", "slowlog-max-len")
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
