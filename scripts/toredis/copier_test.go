package main

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/scripts/internal/redisclient"
	"github.com/basaltdb/basalt/server"
	"github.com/basaltdb/basalt/server/servertest"
)

// startRedis starts a redis-server and returns its address.
func startRedis(t *testing.T) string {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatalf("redis-server is needed (Debian: redis-server): %v", err)
	}
	for range 5 { // another process may take the port between its choice and its use
		port := servertest.FreePort(t)
		out := &lockedBuffer{}
		cmd := exec.CommandContext(t.Context(), path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir",
			t.TempDir())
		cmd.Stdout = out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			cmd.Wait()
			close(ended)
		}()
		servertest.Eventually(t, "redis-server starts", func() bool {
			select {
			case <-ended:
				return true
			default:
				return strings.Contains(out.String(), "Ready to accept")
			}
		})
		if strings.Contains(out.String(), "Ready to accept") {
			return net.JoinHostPort("127.0.0.1", port)
		}
	}
	t.Fatal("redis-server does not start")
	return ""
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// startBasalt starts a basalt with two databases and a password.
func startBasalt(t *testing.T, o engine.Options, settings ...string) *servertest.Harness {
	t.Helper()
	o.Dir = t.TempDir() + "/db"
	db := enginetest.OpenWith(t, o)
	settings = append([]string{"redis-databases", "2", "requirepass", "secret"}, settings...)
	h := &servertest.Harness{Server: server.New(servertest.Config(t, settings...), db, nil), DB: db}
	if err := h.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// running is a copier that runs.
type running struct {
	t   *testing.T
	out lockedBuffer
	end func()
}

func copying(t *testing.T, from, to string) *running {
	r := &running{t: t}
	c := &copier{from: endpoint{from, "secret"}, to: endpoint{to, ""}, position: "toredis:position", databases: 16,
		log: log.New(&r.out, "", 0)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.run(ctx) }()
	r.end = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err == nil {
			t.Error("it has ended without an error")
		}
	})
	t.Cleanup(r.end)
	return r
}

func dial(t *testing.T, addr, password string) *redisclient.Conn {
	t.Helper()
	c, err := endpoint{addr, password}.dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func do(t *testing.T, c *redisclient.Conn, line string) string {
	t.Helper()
	v, err := c.Do(strings.Fields(line)...)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return v.String()
}

// everything returns what the databases of a server hold, but for the position.
func everything(t *testing.T, c *redisclient.Conn) []string {
	t.Helper()
	var all []string
	for db := range 2 {
		do(t, c, fmt.Sprint("SELECT ", db))
		names, err := c.Strings("KEYS", "*")
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range names {
			if k == "toredis:position" {
				continue
			}
			read := map[string]string{"string": "GET", "list": "LRANGE 0 -1", "set": "SMEMBERS", "hash": "HGETALL",
				"zset": "ZRANGE 0 -1 WITHSCORES", "stream": "XRANGE - +"}[do(t, c, "TYPE "+k)]
			words := strings.Fields(read)
			if len(words) == 0 || strings.HasPrefix(k, "bits") {
				words = []string{"BITCOUNT"}
			}
			value := do(t, c, strings.Join(slices.Insert(words, 1, k), " "))
			if words[0] == "SMEMBERS" || words[0] == "HGETALL" {
				parts := strings.Fields(strings.Trim(value, "[]"))
				slices.Sort(parts)
				value = strings.Join(parts, " ")
			}
			all = append(all, fmt.Sprint(db, " ", k, " ", value, " ", do(t, c, "PEXPIRETIME "+k)))
		}
	}
	slices.Sort(all)
	return all
}

// becomeEqual waits until a Redis has what the source has.
func becomeEqual(t *testing.T, from, to *redisclient.Conn) {
	t.Helper()
	servertest.Eventually(t, "the Redis has what the source has", func() bool {
		do(t, to, "SELECT 0")
		v, err := to.Do("GET", "toredis:position")
		if err != nil || v.IsNull() {
			return false
		}
		last, _, _ := strings.Cut(v.String(), " ")
		return strings.Contains(do(t, from, "INFO replication"), "master_repl_offset:"+last+"\r\n")
	})
	if want, got := everything(t, from), everything(t, to); !slices.Equal(got, want) {
		t.Errorf("the Redis has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// write changes keys of all types in both databases.
func write(t *testing.T, c *redisclient.Conn, round int) {
	t.Helper()
	for i := range 40 {
		k := strconv.Itoa(i % 7)
		for _, line := range []string{
			"SELECT " + strconv.Itoa(i%2), "SET s" + k + " " + strconv.Itoa(round*i), "INCR n" + k,
			"SET e" + k + " v PXAT 410244480000" + k, "RPUSH l" + k + " a b c", "LPOP l" + k, "LREM l" + k + " 1 b",
			fmt.Sprintf("SADD t%s %d %d", k, i, round), fmt.Sprintf("SREM t%s %d", k, i-7),
			fmt.Sprintf("HSET h%s f%d %d", k, i, round), fmt.Sprintf("ZADD z%s %d m%d", k, i, i%5),
			"XADD x" + k + " * f v", fmt.Sprintf("SETBIT bits%s %d 1", k, i*round),
			fmt.Sprintf("DEL gone%s", k), fmt.Sprintf("SET gone%s v", k), fmt.Sprintf("DEL gone%s", k),
		} {
			do(t, c, line)
		}
	}
}

// TestToRedis: a Redis gets all keys and follows the changes, goes on after interruptions where it was, and is copied
// anew when the log does not reach back.
func TestToRedis(t *testing.T) {
	for _, rsid := range []string{"no", "yes"} {
		o := engine.DefaultRocksOptions()
		o.DisableAutoCompactions = true
		h := startBasalt(t, engine.Options{RedisBitOrder: true, Rocks: o}, "use-rsid-psync", rsid)
		to := startRedis(t)
		s, r := dial(t, h.Addr(), "secret"), dial(t, to, "")
		write(t, s, 0)
		do(t, r, "SET left over")
		run := copying(t, h.Addr(), to)
		write(t, s, 1)
		becomeEqual(t, s, r)
		for round := 2; round < 5; round++ {
			run.end()
			if n := strings.Count(run.out.String(), "all keys are copied"); (n > 0) != (round == 2) {
				t.Errorf("round %d: %s", round, run.out.String())
			}
			write(t, s, round)
			run = copying(t, h.Addr(), to)
			write(t, s, round+10)
			becomeEqual(t, s, r)
		}
		do(t, s, "SELECT 1")
		do(t, s, "FLUSHDB")
		do(t, s, "SET behind it")
		becomeEqual(t, s, r)
		do(t, s, "FLUSHALL")
		becomeEqual(t, s, r)
		write(t, s, 20)
		do(t, s, "JSON.SET doc $ {}") // a Redis has no such type
		do(t, s, "DEL doc")
		becomeEqual(t, s, r)
	}
}

// TestToRedisWithoutLog: without the log everything is copied again.
func TestToRedisWithoutLog(t *testing.T) {
	o := engine.DefaultRocksOptions()
	o.WALTTLSeconds, o.WALSizeLimitMB, o.DisableAutoCompactions = 0, 0, true
	h := startBasalt(t, engine.Options{RedisBitOrder: true, Rocks: o})
	to := startRedis(t)
	s, r := dial(t, h.Addr(), "secret"), dial(t, to, "")
	write(t, s, 0)
	run := copying(t, h.Addr(), to)
	becomeEqual(t, s, r)
	run.end()
	write(t, s, 1)
	do(t, s, "DEL s1 h1")
	for id := range cf.NumFamilies { // the log ends with each
		if err := h.DB.FlushMemtable(id); err != nil {
			t.Fatal(err)
		}
	}
	write(t, s, 2)
	run = copying(t, h.Addr(), to)
	becomeEqual(t, s, r)
	if out := run.out.String(); !strings.Contains(out, "no longer has") {
		t.Error(out)
	}
}
