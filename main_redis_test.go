package main

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/resp"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/servertest"
)

// startRedisServer starts a redis-server with some options, on a free port.
func startRedisServer(t *testing.T, options ...string) *process {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatalf("redis-server is needed (Debian: redis-server): %v", err)
	}
	for range 5 { // another process may take the port between its choice and its use
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		addr := l.Addr().String()
		_, port, _ := net.SplitHostPort(addr)
		l.Close()
		p := follow(t, exec.CommandContext(t.Context(), path, append([]string{"--port", port, "--bind", "127.0.0.1",
			"--save", "", "--dir", t.TempDir()}, options...)...))
		p.addr = addr
		for line, ok := p.next(); ok; line, ok = p.next() {
			if strings.Contains(line, "Ready to accept connections") {
				go func() {
					for range p.lines { // it must not be held up
					}
				}()
				return p
			}
		}
	}
	t.Fatal("redis-server does not start")
	return nil
}

// infoField returns a field of INFO.
func (p *process) infoField(section, name string) string {
	for line := range strings.SplitSeq(p.do("INFO", section), "\r\n") {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return v
		}
	}
	return ""
}

// count writes to a server in pipelines until stop is closed. The values show whether a write is lost or repeated.
func count(addr string, stop <-chan struct{}) error {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer nc.Close()
	w, r := resp.NewWriter(nc), resp.NewReader(nc)
	for i := 0; ; {
		select {
		case <-stop:
			return nil
		default:
		}
		n := 0
		for ; n < 100; i++ {
			lines := []string{fmt.Sprintf("INCR counter:%d", i%50), fmt.Sprintf("RPUSH list:%d %d", i%10, i)}
			switch i % 10 {
			case 0:
				lines = append(lines, "MULTI", "INCR one", fmt.Sprintf("SELECT %d", i/10%3), "INCR other", "EXEC")
			case 1:
				lines = append(lines, "EVAL redis.call('INCR',KEYS[1]);redis.call('APPEND',KEYS[2],'x') 2 script text")
			case 2:
				lines = append(lines, fmt.Sprintf("HINCRBY hash f%d 1", i%7), "SETEX short 1 v", "XADD stream * f v",
					"LTRIM list:0 -100 -1", "SADD set a b c", "SPOP set")
			}
			for _, line := range lines {
				var words []resp.Value
				for _, word := range strings.Fields(line) {
					words = append(words, resp.StringValue(word))
				}
				if err := w.WriteArray(words); err != nil {
					return err
				}
				n++
			}
		}
		for range n {
			if v, _, err := r.ReadValue(); err != nil || v.Type() == resp.Error {
				return fmt.Errorf("%v %w", v, err)
			}
		}
		time.Sleep(time.Millisecond) // which is load enough
	}
}

// TestKilledReplicaOfRedis: a replica of a redis-server that is repeatedly killed or disconnected in the middle of the
// stream loses no write, repeats none, and needs no full synchronisation after the first.
func TestKilledReplicaOfRedis(t *testing.T) {
	redis := startRedisServer(t, "--repl-diskless-sync-delay", "0", "--repl-backlog-size", "256mb")
	redis.do("SET", "before", "1")
	_, port, _ := net.SplitHostPort(redis.addr)
	args := []string{"--dir", t.TempDir(), "--bind", "127.0.0.1", "--log-dir", "stdout", "--redis-databases", "3",
		"--slaveof", "127.0.0.1 " + port}
	stop, written := make(chan struct{}), make(chan error, 1)
	go func() { written <- count(redis.addr, stop) }()
	const rounds = 6
	up := func(p *process) bool { return p.infoField("replication", "master_link_status") == "up" }
	var replica *process
	for range rounds {
		replica = start(t, args...)
		servertest.Eventually(t, "the link comes up", func() bool { return up(replica) })
		if n := redis.do("CLIENT", "KILL", "TYPE", "replica"); n != "1" {
			t.Errorf("%s connections were cut", n)
		}
		servertest.Eventually(t, "the link comes up again", func() bool { return up(replica) })
		at := replica.infoField("replication", "slave_repl_offset")
		servertest.Eventually(t, "the stream goes on", func() bool {
			return replica.infoField("replication", "slave_repl_offset") != at
		})
		replica.cmd.Process.Signal(syscall.SIGKILL)
		replica.cmd.Wait()
	}
	replica = start(t, args...)
	close(stop)
	require.NoError(t, <-written)
	servertest.Eventually(t, "the replica catches up", func() bool {
		return up(replica) &&
			replica.infoField("replication", "slave_repl_offset") == redis.infoField("replication", "master_repl_offset")
	})
	read := func(args ...string) {
		t.Helper()
		if want := redis.do(args...); replica.do(args...) != want {
			t.Errorf("%q: %.200s, want %.200s", args, replica.do(args...), want)
		}
	}
	for i := range 50 {
		read("GET", fmt.Sprint("counter:", i))
	}
	for i := range 10 {
		read("LRANGE", fmt.Sprint("list:", i), "0", "-1")
	}
	for _, line := range []string{"GET before", "GET one", "GET other", "GET script", "STRLEN text",
		"HMGET hash f0 f1 f2 f3 f4 f5 f6",
		"XLEN stream", "XRANGE stream - +", "SCARD set", "DBSIZE"} {
		read(strings.Fields(line)...)
	}
	if n := redis.infoField("stats", "sync_full"); n != "1" {
		t.Errorf("%s full synchronisations", n)
	}
	replica.stop(syscall.SIGTERM)
}
