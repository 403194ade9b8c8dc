package main

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/resp"

	"github.com/basaltdb/basalt/internal/require"
)

// The tests run the program itself: the test binary acts as the program when this variable is set.
const beBasalt = "BASALT_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(beBasalt) != "" {
		stopAtSteps()
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// patience is the max time for an event that must happen. A busy host may stop the processes for minutes.
const patience = 10 * time.Minute

func basalt(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, args...)
	cmd.Env = append(os.Environ(), beBasalt+"=1")
	return cmd
}

// write writes a file and returns its path.
func write(t *testing.T, path, text string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	return path
}

// process is a running server.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string // of stdout, closed at its end
	log   []string    // those that were read
	addr  string
	// errors are expected in the log
	errors bool
}

// start runs a server and waits until it is ready. The system chooses the port unless args say otherwise. The log must
// go to stdout.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := spawn(t, args...)
	p.ready(p.await(" ready "))
	return p
}

// startOnPort is start with an option that names a free port. If another process takes the port before the server does,
// it tries another one.
func startOnPort(t *testing.T, option string, args ...string) *process {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		_, port, _ := net.SplitHostPort(l.Addr().String())
		l.Close()
		p := spawn(t, append([]string{option, port}, args...)...)
		line, ok := p.next()
		for ok && !strings.Contains(line, " ready ") && !strings.Contains(line, " is in use") {
			line, ok = p.next()
		}
		switch {
		case !ok:
			t.Fatalf("the process ended before it was ready; log:\n%s", strings.Join(p.log, "\n"))
		case strings.Contains(line, " ready "):
			p.ready(line)
			return p
		}
		t.Log(line)
	}
}

// ready reads the address from the log line that contains it.
func (p *process) ready(line string) {
	p.addr = regexp.MustCompile(`"addresses": \["([^"]+)"`).FindStringSubmatch(line)[1]
}

// spawn runs a server without waiting for it.
func spawn(t *testing.T, args ...string) *process {
	t.Helper()
	return follow(t, basalt(t, append([]string{"--port", "0"}, args...)...))
}

// spawnIn is spawn in a control group, given by its directory.
func spawnIn(t *testing.T, group string, args ...string) *process {
	t.Helper()
	cmd := basalt(t, append([]string{"--port", "0"}, args...)...)
	// The shell enters the group and then executes the server.
	enter := []string{"sh", "-c", `echo $$ >"$0"/cgroup.procs && exec "$@"`, group}
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	cmd.Path, cmd.Args = sh, append(enter, cmd.Args...)
	return follow(t, cmd)
}

// follow starts a server and reads its log.
func follow(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, lines: make(chan string, 1000)}
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.cmd.Stderr = p.cmd.Stdout
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() { p.cmd.Process.Kill() })
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
		close(p.lines)
	}()
	return p
}

// next reads a line of the log; ok is false at its end.
func (p *process) next() (line string, ok bool) {
	p.t.Helper()
	select {
	case line, ok = <-p.lines:
		if ok {
			p.log = append(p.log, line)
		}
		return line, ok
	case <-time.After(patience):
		p.t.Fatalf("nothing more is logged; log:\n%s", strings.Join(p.log, "\n"))
	}
	return "", false
}

// await reads the log up to a line with a text, and returns the line.
func (p *process) await(text string) string {
	p.t.Helper()
	line, ok := p.next()
	for ok && !strings.Contains(line, text) {
		line, ok = p.next()
	}
	if !ok {
		p.t.Fatalf("the process ended before it has logged %q; log:\n%s", text, strings.Join(p.log, "\n"))
	}
	return line
}

// logged returns the number of lines with a text, in the log so far or, after the end of the process, in the whole log.
func (p *process) logged(text string) (n int) {
	for _, line := range p.log {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// stop sends a signal and checks that the process ends in order.
func (p *process) stop(sig os.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(sig))
	p.ended()
}

func (p *process) ended() {
	p.t.Helper()
	p.await(" stopped")
	for line := range p.lines {
		p.log = append(p.log, line)
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("the process ended with %v", err)
	}
	if (p.logged(" error ") > 0) != p.errors {
		p.t.Errorf("errors in the log:\n%s", strings.Join(p.log, "\n"))
	}
}

// do sends a command and returns the reply as text; an array's elements are separated by blanks.
func (p *process) do(args ...string) string {
	p.t.Helper()
	nc, err := net.Dial("tcp", p.addr)
	require.NoError(p.t, err)
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	w, r := resp.NewWriter(nc), resp.NewReader(nc)
	var reply resp.Value
	for _, command := range [][]string{{"AUTH", "secret # 1"}, args} {
		var words []resp.Value
		for _, a := range command {
			words = append(words, resp.StringValue(a))
		}
		require.NoError(p.t, w.WriteArray(words))
		if reply, _, err = r.ReadValue(); err != nil {
			p.t.Fatalf("%q: %v", command, err)
		}
	}
	if reply.Type() == resp.Array {
		var words []string
		for _, v := range reply.Array() {
			words = append(words, v.String())
		}
		return strings.Join(words, " ")
	}
	return reply.String()
}

func (p *process) want(reply string, args ...string) {
	p.t.Helper()
	if got := p.do(args...); got != reply {
		p.t.Errorf("%q: %q, want %q", args, got, reply)
	}
}
