package server_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server"
	"github.com/basaltdb/basalt/server/resp"
	"github.com/basaltdb/basalt/server/servertest"
)

// kvrocksServer is the environment variable that names a kvrocks binary for the tests with a real Kvrocks.
const kvrocksServer = "KVROCKS_SERVER"

// startKvrocks starts a Kvrocks with a configuration and returns a function that connects to it.
func startKvrocks(t *testing.T, settings ...string) (dial func() *servertest.Client) {
	t.Helper()
	dial, _ = startKvrocksIn(t, "", settings...)
	return dial
}

// startKvrocksIn starts a Kvrocks in a directory, "" = a new one. stop stops it.
func startKvrocksIn(t *testing.T, dir string, settings ...string) (dial func() *servertest.Client, stop func()) {
	t.Helper()
	path := os.Getenv(kvrocksServer)
	if path == "" {
		t.Skip("the environment variable " + kvrocksServer + " names no kvrocks binary")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	l.Close()
	_, port, _ := net.SplitHostPort(addr)
	if dir == "" {
		dir = t.TempDir()
	}
	conf := append([]string{"bind 127.0.0.1", "port " + port, "dir " + dir, "daemonize no", "workers 1",
		"log-level info"}, settings...)
	file := filepath.Join(dir, "kvrocks.conf")
	require.NoError(t, os.WriteFile(file, []byte(strings.Join(conf, "\n")+"\n"), 0o644))
	cmd := exec.Command(path, "-c", file)
	out, err := os.Create(filepath.Join(dir, "output"))
	require.NoError(t, err)
	cmd.Stdout, cmd.Stderr = out, out
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		out.Close()
		if t.Failed() {
			b, _ := os.ReadFile(out.Name())
			t.Logf("kvrocks: %s", b)
		}
	})
	dial = func() *servertest.Client {
		var nc net.Conn
		servertest.Eventually(t, "kvrocks listens", func() bool {
			nc, err = net.Dial("tcp", addr)
			return err == nil
		})
		t.Cleanup(func() { nc.Close() })
		return servertest.NewClient(t, nc)
	}
	return dial, func() {
		t.Helper()
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, cmd.Wait())
	}
}

// field returns a field of INFO, "" if it does not exist.
func field(c *servertest.Client, section, name string) string {
	return resp.ParseInfo(c.Do("INFO", section))[name]
}

// fill writes some keys of each type. The names of the keys depend on round.
func fill(c *servertest.Client, round int) {
	for i := range 30 {
		k := fmt.Sprintf("%d:%d", round, i)
		for _, command := range []string{
			"SET s" + k + " value", "APPEND s" + k + " more", "SET e" + k + " x PX 86400000", "HSET h" + k +
				" a 1 b 2", "HDEL h" + k + " a",
			"RPUSH l" + k + " a b c", "LPOP l" + k, "LSET l" + k + " 0 z", "SADD t" + k + " a b", "SREM t" + k +
				" a", "ZADD z" + k + " 1 a 2.5 b",
			"ZINCRBY z" + k + " 3 a", "SETBIT b" + k + " 9000 1", "XADD x" + k + " 1-1 f v", "XADD x" + k +
				" 1-2 f v", "SIADD i" + k + " 5 6",
			"JSON.SET j" + k + " $ [1,2]", "PFADD p" + k + " a b c", "SET gone" + k + " 1", "DEL gone" + k,
		} {
			c.Do(strings.Fields(command)...)
		}
	}
	c.Do("MULTI")
	c.Do("SET", fmt.Sprint("multi", round), "1")
	c.Do("HSET", fmt.Sprint("hmulti", round), "f", "v")
	c.Do("EXEC")
	c.Do("EVAL", "redis.call('set', KEYS[1], ARGV[1])", "1", fmt.Sprint("lua", round), "1")
}

// same checks that two servers have the same values of the keys that fill writes in the rounds below rounds.
func same(t *testing.T, a, b *servertest.Client, rounds int) {
	t.Helper()
	for round := range rounds {
		for i := range 30 {
			k := fmt.Sprintf("%d:%d", round, i)
			for _, command := range []string{
				"GET s" + k, "GET e" + k, "HGETALL h" + k, "LRANGE l" + k + " 0 -1", "SMEMBERS t" + k, "ZRANGE z" +
					k + " 0 -1 WITHSCORES",
				"GETBIT b" + k + " 9000", "BITCOUNT b" + k, "XRANGE x" + k + " - +", "SIRANGE i" + k +
					" 0 10", "JSON.GET j" + k, "PFCOUNT p" + k,
				"EXISTS gone" + k, "PEXPIRETIME e" + k, fmt.Sprint("GET multi", round), fmt.Sprint("GET lua",
					round), fmt.Sprint("HGETALL hmulti", round),
			} {
				words := strings.Fields(command)
				if x, y := a.Do(words...), b.Do(words...); x != y {
					t.Fatalf("%s: %q and %q", command, x, y)
				}
			}
		}
	}
}

// TestKvrocksIsAReplica: a real Kvrocks follows this server, from the log or after a full synchronisation, also after
// an interruption, and replies like its master.
func TestKvrocksIsAReplica(t *testing.T) {
	for _, full := range []bool{false, true} {
		for _, rsid := range []string{"no", "yes"} {
			t.Run(fmt.Sprintf("full=%t,rsid=%s", full, rsid), func(t *testing.T) {
				if os.Getenv(kvrocksServer) == "" {
					t.Skip("the environment variable " + kvrocksServer + " names no kvrocks binary")
				}
				o := engine.DefaultRocksOptions()
				if full {
					o.WALTTLSeconds, o.WALSizeLimitMB = 0, 0
				}
				db := enginetest.OpenWith(t, engine.Options{Dir: t.TempDir() + "/db", Rocks: o})
				core, logs := observer.New(zap.DebugLevel)
				h := &servertest.Harness{Server: server.New(servertest.Config(t, "use-rsid-psync", rsid, "requirepass", "secret"),
					db, zap.New(core)),
					DB: db, Logs: logs}
				require.NoError(t, h.Start())
				t.Cleanup(h.Close)
				c := h.Dial(t)
				c.Want("AUTH secret", "+OK\r\n")
				fill(c, 0)
				if full {
					for id := range cf.NumFamilies {
						require.NoError(t, db.FlushMemtable(id))
					}
				}
				fill(c, 1)
				dial := startKvrocks(t, "use-rsid-psync "+rsid, "masterauth secret", "slaveof 127.0.0.1 "+strconv.Itoa(h.Port()))
				k := dial()
				caughtUp := func() bool {
					return field(k, "replication", "master_link_status") == "up" &&
						field(k, "replication", "slave_repl_offset") == fmt.Sprint(db.LatestSequence())
				}
				fill(c, 2) // while the replica connects
				servertest.Eventually(t, "the replica has caught up", caughtUp)
				k2 := dial()
				k2.Want("SUBSCRIBE news", "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n")
				fill(c, 3)
				c.Want("PUBLISH news hello", ":0\r\n")
				if got := k2.Reply(); got != "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$5\r\nhello\r\n" {
					t.Errorf("%q", got)
				}
				c.Do("CLIENT", "KILL", "TYPE", "replica")
				fill(c, 4)
				servertest.Eventually(t, "the replica has caught up again", caughtUp)
				same(t, c, k, 5)
				stats := h.Master().Stats()
				if got := stats.SyncFull > 0; got != full {
					t.Errorf("%+v", stats)
				}
				if stats.SyncFull > 1 {
					t.Errorf("%d full synchronisations", stats.SyncFull)
				}
				c.Want("FLUSHALL", "+OK\r\n")
				c.Want("SET after flush", "+OK\r\n")
				servertest.Eventually(t, "the replica has caught up with the flush", caughtUp)
				k.Want("GET after", "$5\r\nflush\r\n")
				k.Want("EXISTS s0:0 h1:1", ":0\r\n")
				if got := field(c, "replication", "connected_slaves"); got != "1" {
					t.Errorf("connected_slaves:%s", got)
				}
			})
		}
	}
}
