// Package launch starts the servers that this repository's tools measure and
// torture: on a free loopback port, and ready to answer when Start returns.
package launch

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/basaltdb/basalt/server/resp"

	"github.com/basaltdb/basalt/scripts/internal/redisclient"
)

// readyTimeout bounds the wait for the first reply. Recovery of a large WAL takes
// seconds; a server that takes longer than this has hung.
const readyTimeout = 60 * time.Second

// Command is what to start, given a port and a data directory that exists: the server itself, not a script that
// starts it.
type Command func(port int, dir string) *exec.Cmd

// Basalt is the command line of the basalt program at path, with its default
// configuration and the given extra arguments ("--name", "value", ...).
func Basalt(path string, extra ...string) Command {
	return func(port int, dir string) *exec.Cmd {
		args := append([]string{"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir, "--log-dir",
			"stdout"}, extra...)
		return exec.Command(path, args...)
	}
}

// Redis is a redis-server that keeps nothing on disk.
func Redis(port int, dir string) *exec.Cmd {
	return exec.Command("redis-server", "--bind", "127.0.0.1", "--port", strconv.Itoa(port),
		"--dir", dir, "--save", "", "--appendonly", "no")
}

// DurableRedis is a redis-server that writes each command to its append-only file before it replies, so that it
// survives a killed process as basalt does. The tools' own tests run against it.
func DurableRedis(port int, dir string) *exec.Cmd {
	return exec.Command("redis-server", "--bind", "127.0.0.1", "--port", strconv.Itoa(port),
		"--dir", dir, "--save", "", "--appendonly", "yes", "--appendfsync", "no")
}

// Server is a running server process.
type Server struct {
	Addr string // host:port
	cmd  *exec.Cmd
	out  *tail
	done chan struct{}
	err  error // of Wait, once done is closed
}

// Start starts a server with its data under dir, which it makes, and returns
// when it answers. The error holds the end of the server's output.
func Start(command Command, dir string) (s *Server, err error) {
	// Another process may take the port between its choice and its use.
	const tries = 3
	for range tries {
		if s, err = start(command, dir); err == nil || !PortTaken(err.Error()) {
			break
		}
	}
	return s, err
}

// PortTaken reports whether the output of a server that has ended says that its port was in use, as basalt and
// redis-server do.
func PortTaken(output string) bool {
	return strings.Contains(output, " is in use") || strings.Contains(output, "Address already in use")
}

// Spawn is Start without the wait: the server may be recovering, or ending with an error, when Spawn returns.
func Spawn(command Command, dir string) (*Server, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	cmd := command(port, dir)
	out := &tail{}
	cmd.Stdout, cmd.Stderr = out, out
	// A tool that is killed must not leave its servers behind.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &Server{
		Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		cmd:  cmd,
		out:  out,
		done: make(chan struct{}),
	}
	go func() {
		s.err = cmd.Wait()
		close(s.done)
	}()
	return s, nil
}

func start(command Command, dir string) (*Server, error) {
	s, err := Spawn(command, dir)
	if err != nil {
		return nil, err
	}
	if err := s.awaitReady(); err != nil {
		s.Kill()
		return nil, fmt.Errorf("%s: %w\n%s", filepath.Base(s.cmd.Path), err, s.out)
	}
	return s, nil
}

func (s *Server) awaitReady() error {
	retry := time.NewTicker(5 * time.Millisecond)
	defer retry.Stop()
	deadline := time.After(readyTimeout)
	for {
		select {
		case <-s.done:
			return fmt.Errorf("ended before it was ready: %v", s.cmd.ProcessState)
		case <-deadline:
			return fmt.Errorf("not ready after %v", readyTimeout)
		case <-retry.C:
			if s.answers() {
				return nil
			}
		}
	}
}

// answers reports whether the process serves at its address. Until it has its port another process may have it, which
// answers too; and while redis-server loads its data it refuses PING, but not INFO.
func (s *Server) answers() bool {
	c, err := redisclient.Dial(s.Addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second))
	v, err := c.Do("INFO", "server")
	if err != nil || !strings.Contains(v.String(), fmt.Sprintf("\r\nprocess_id:%d\r\n", s.Pid())) {
		return false
	}
	v, err = c.Do("PING")
	return err == nil && v.String() == "PONG"
}

// patience bounds the time of a command. Migrations and compactions of much data take minutes.
const patience = 10 * time.Minute

// Do sends a command over a connection of its own.
func (s *Server) Do(args ...string) (resp.Reply, error) {
	v, err := redisclient.Do(s.Addr, patience, args...)
	if err != nil {
		err = fmt.Errorf("%s: %w", strings.Join(args[:min(2, len(args))], " "), err)
	}
	return v, err
}

// Info returns a field of a section of INFO; "" = missing.
func (s *Server) Info(section, field string) (string, error) {
	v, err := s.Do("INFO", section)
	return redisclient.Field(v.String(), field), err
}

// Working tells whether a basalt or a Kvrocks flushes or compacts, or is about to. While a compaction deletes its
// input, the next one is pending and neither runs.
func (s *Server) Working() (bool, error) {
	info, err := s.Do("INFO", "rocksdb")
	if err != nil {
		return false, err
	}
	for _, field := range []string{"num_running_flushes", "num_running_compactions", "compaction_pending"} {
		if redisclient.Field(info.String(), field) != "0" {
			return true, nil
		}
	}
	return false, nil
}

// Settled waits until a basalt has had no compaction or flush for half a second.
func (s *Server) Settled(ctx context.Context) error {
	for quiet := 0; quiet < 25; quiet++ {
		working, err := s.Working()
		if err != nil {
			return err
		}
		if working {
			quiet = -1
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// Pid is the process's id.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Output is the end of what the server has printed.
func (s *Server) Output() string { return s.out.String() }

// Done is closed when the process has ended.
func (s *Server) Done() <-chan struct{} { return s.done }

// Kill ends the process with SIGKILL and waits for its end.
func (s *Server) Kill() {
	s.cmd.Process.Kill()
	<-s.done
}

// Stop asks the process to end with SIGTERM, waits, and returns an error when it
// ends with a status other than 0 or has to be killed.
func (s *Server) Stop() error {
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.done:
		if s.err != nil {
			return fmt.Errorf("after SIGTERM: %w\n%s", s.err, s.out)
		}
		return nil
	case <-time.After(readyTimeout):
		s.Kill()
		return fmt.Errorf("still running %v after SIGTERM\n%s", readyTimeout, s.out)
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// tail keeps the last tailSize bytes written to it, or up to twice as many.
type tail struct {
	mu sync.Mutex
	b  []byte
}

const tailSize = 16 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if len(t.b) > 2*tailSize {
		t.b = append(t.b[:0], t.b[len(t.b)-tailSize:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}
