package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is a process, which may be restarted with the same files.
type Server struct {
	Name   string
	Port   int
	Args   []string
	Client *redis.Client // of a server that speaks RESP
	Ready  func() error  // nil when the process answers; by default a PING by Client
	log    string
	cmd    *exec.Cmd
	ended  chan struct{} // closed when the process has ended
}

// NewServer chooses a port, and makes a directory dir/name.
func NewServer(dir, name string) (*Server, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	s := &Server{Name: name, Port: port, log: filepath.Join(dir, name+".log")}
	s.Client = redis.NewClient(&redis.Options{Addr: s.Addr(), MaxRetries: -1, DialTimeout: time.Second,
		ReadTimeout: 10 * time.Second, DisableIndentity: true})
	s.Ready = func() error { return s.Client.Ping(context.Background()).Err() }
	return s, os.MkdirAll(filepath.Join(dir, name), 0o755)
}

// FreePort returns a port on which nobody listens.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)) }

// Start starts the process and waits until it replies.
func (s *Server) Start() error {
	out, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer out.Close()
	s.cmd = exec.Command(s.Args[0], s.Args[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = out, out
	if err := s.cmd.Start(); err != nil {
		return err
	}
	cmd, ended := s.cmd, make(chan struct{})
	s.ended = ended
	go func() {
		cmd.Wait()
		close(ended)
	}()
	return Await(s.Name+" answers", func() error {
		select {
		case <-ended:
			return errors.New("it has ended")
		default:
			return s.Ready()
		}
	})
}

// Signal sends a signal. After a SIGKILL it waits for the end of the process.
func (s *Server) Signal(sig syscall.Signal) error {
	if err := s.cmd.Process.Signal(sig); err != nil {
		return err
	}
	if sig == syscall.SIGKILL {
		<-s.ended
	}
	return nil
}

// Kill ends the process if it was started, however it has ended meanwhile.
func (s *Server) Kill() {
	if s.ended != nil {
		s.cmd.Process.Kill()
		<-s.ended
	}
}

// Info returns a field of INFO replication; "" = missing.
func (s *Server) Info(field string) (string, error) {
	text, err := s.Client.Info(context.Background(), "replication").Result()
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(v), nil
		}
	}
	return "", nil
}

// Replicates returns nil when the server is a replica of another one with its link up.
func (s *Server) Replicates(master *Server) error {
	for field, want := range map[string]string{"role": "slave", "master_port": strconv.Itoa(master.Port),
		"master_link_status": "up"} {
		if got, err := s.Info(field); err != nil || got != want {
			return fmt.Errorf("%s: %s is '%s', not '%s': %v", s.Name, field, got, want, err)
		}
	}
	return nil
}
