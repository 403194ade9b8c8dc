package difftest

import (
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// target is a server under test.
type target interface{ Addr() string }

type address string

func (a address) Addr() string { return string(a) }

// startRedis starts a redis-server that keeps nothing on disk and stops it at the
// end of the test. Options are those of its command line.
func startRedis(t testing.TB, options ...string) target {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatalf("redis-server is needed to compare with; install it (Debian: redis-server): %v", err)
	}
	// Another process may take the port between its choice and its use.
	for range 5 {
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		if addr, ok := tryRedis(t, path, port, options); ok {
			return address(addr)
		}
	}
	t.Fatal("redis-server does not start")
	return nil
}

func tryRedis(t testing.TB, path string, port int, options []string) (addr string, ok bool) {
	args := append([]string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--dir", t.TempDir(), "--loglevel", "warning", "--enable-debug-command", "local"}, options...)
	cmd := exec.Command(path, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		cmd.Wait()
		close(exited)
	}()
	stop := sync.OnceFunc(func() {
		cmd.Process.Kill()
		<-exited
	})
	addr = fmt.Sprintf("127.0.0.1:%d", port)
	retry := time.NewTicker(10 * time.Millisecond)
	defer retry.Stop()
	deadline := time.After(patience)
	for {
		select {
		case <-exited:
			return "", false
		case <-deadline:
			stop()
			return "", false
		case <-retry.C:
			c, err := dial(addr, 2)
			if err != nil {
				continue
			}
			r, err := c.do("PING")
			c.close()
			if err == nil && (string(r.raw) == "+PONG\r\n" || strings.HasPrefix(string(r.raw), "-NOAUTH")) {
				t.Cleanup(stop)
				return addr, true
			}
		}
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
