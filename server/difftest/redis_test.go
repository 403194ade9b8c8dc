package difftest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
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
	return startRedisAt(t, path, append([]string{"--enable-debug-command", "local"}, options...)...)
}

// startRedisAt is startRedis for the redis-server of a path.
func startRedisAt(t testing.TB, path string, options ...string) target {
	t.Helper()
	// Another process may take the port between its choice and its use.
	for range 5 {
		port, err := freePort()
		require.NoError(t, err)
		if addr, ok := tryRedis(t, path, port, options); ok {
			return address(addr)
		}
	}
	t.Fatal("redis-server does not start")
	return nil
}

// tryRedis starts redis-server on a port. ok is false when it has not got the port. Its log says when it has: who
// answers there before may be a server of another test.
func tryRedis(t testing.TB, path string, port int, options []string) (addr string, ok bool) {
	args := append([]string{"--port", strconv.Itoa(port), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--dir", t.TempDir(), "--loglevel", "notice", "--logfile", ""}, options...)
	cmd := exec.Command(path, args...)
	log, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	ready, exited := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(exited)
		for lines := bufio.NewReader(log); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				break
			}
			if strings.Contains(line, "Ready to accept connections") {
				close(ready)
				break
			}
		}
		io.Copy(io.Discard, log) // what it says later must not hold it up
		cmd.Wait()
	}()
	stop := sync.OnceFunc(func() {
		cmd.Process.Kill()
		<-exited
	})
	select {
	case <-ready:
		t.Cleanup(stop)
		return fmt.Sprintf("127.0.0.1:%d", port), true
	case <-exited:
	case <-time.After(patience):
		stop()
	}
	return "", false
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// TestPortOfAnotherServer: a server that has the port already is not taken for the redis-server that could not get it.
func TestPortOfAnotherServer(t *testing.T) {
	path, err := exec.LookPath("redis-server")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(startBasalt(t).Addr())
	require.NoError(t, err)
	n, err := strconv.Atoi(port)
	require.NoError(t, err)
	if addr, ok := tryRedis(t, path, n, nil); ok {
		t.Errorf("redis-server is said to listen on %s", addr)
	}
}
