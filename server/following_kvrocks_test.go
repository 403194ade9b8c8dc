package server_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server"
	"github.com/basaltdb/basalt/server/servertest"
)

// startWith starts a server with a new database. If the test fails, it prints the server's log.
func startWith(t *testing.T, o engine.Options, settings ...string) *servertest.Harness {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir() + "/db"
	}
	return startOn(t, enginetest.OpenWith(t, o), settings...)
}

// startOn starts a server for a database. If the test fails, it prints the server's log.
func startOn(t *testing.T, db *engine.DB, settings ...string) *servertest.Harness {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	h := &servertest.Harness{Server: server.New(servertest.Config(t, settings...), db, zap.New(core)), DB: db, Logs: logs}
	require.NoError(t, h.Start())
	t.Cleanup(h.Close)
	t.Cleanup(func() {
		if t.Failed() {
			for _, e := range logs.All() {
				t.Log(e.Time.Format("15:04:05.000"), e.Level, e.Message, e.ContextMap())
			}
		}
	})
	return h
}

// TestKvrocksIsTheMaster: this server follows a real Kvrocks, from the log or after a full synchronisation, also after
// an interruption, and replies like its master.
func TestKvrocksIsTheMaster(t *testing.T) {
	for _, full := range []bool{false, true} {
		for _, rsid := range []string{"no", "yes"} {
			t.Run(fmt.Sprintf("full=%t,rsid=%s", full, rsid), func(t *testing.T) {
				if os.Getenv(kvrocksServer) == "" {
					t.Skip("the environment variable " + kvrocksServer + " names no kvrocks binary")
				}
				settings := []string{"use-rsid-psync " + rsid, "requirepass secret"}
				if full {
					settings = append(settings, "rocksdb.wal_ttl_seconds 0", "rocksdb.wal_size_limit_mb 0")
				}
				dial := startKvrocks(t, settings...)
				k := dial()
				k.Want("AUTH secret", "+OK\r\n")
				k.Do("SCRIPT", "LOAD", "return 1")
				fill(k, 0)
				if full {
					k.Do("COMPACT")
					for i := range 40 { // many table files, and writes that are no longer in the log
						fill(k, 1)
						k.Do("SET", "big", fmt.Sprint(i))
					}
					k.Do("CONFIG", "SET", "rocksdb.write_buffer_size", "1")
				}
				fill(k, 1)
				h := startWith(t, engine.Options{}, "use-rsid-psync", rsid, "masterauth", "secret")
				c := h.Dial(t)
				if full || rsid == "yes" { // own writes, so that the histories differ
					c.Want("SET own history", "+OK\r\n")
					c.Want("SET own past", "+OK\r\n")
				}
				port := port(k)
				c.Want(fmt.Sprintf("REPLICAOF 127.0.0.1 %d", port), "+OK\r\n")
				fill(k, 2)
				caughtUp := func() bool {
					return field(c, "replication", "master_link_status") == "up" &&
						field(c, "replication", "slave_repl_offset") == field(k, "replication", "master_repl_offset")
				}
				servertest.Eventually(t, "the replica has caught up", caughtUp)
				c2 := h.Dial(t)
				c2.Want("SUBSCRIBE news", "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n")
				k.Do("PUBLISH", "news", "hello")
				if got := c2.Reply(); got != "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$5\r\nhello\r\n" {
					t.Errorf("%q", got)
				}
				fill(k, 3)
				k.Do("CLIENT", "KILL", "TYPE", "slave")
				fill(k, 4)
				servertest.Eventually(t, "the replica has caught up again", caughtUp)
				same(t, k, c, 5)
				c.Want("SET x y", "-READONLY You can't write against a read only replica.\r\n")
				st, _ := h.Replica().Status()
				t.Logf("full synchronisations: %d", st.FullSyncs)
				k.Want("FLUSHALL", "+OK\r\n")
				k.Want("SET after flush", "+OK\r\n")
				servertest.Eventually(t, "the replica has caught up with the flush", caughtUp)
				c.Want("GET after", "$5\r\nflush\r\n")
				c.Want("EXISTS s0:0 h1:1 own", ":0\r\n")
				c.Want("REPLICAOF NO ONE", "+OK\r\n")
				c.Want("SET x y", "+OK\r\n")
				c.Want("DBSIZE", ":2\r\n")
			})
		}
	}
}

// port returns the TCP port of a client's server.
func port(c *servertest.Client) int {
	var port int
	fmt.Sscan(field(c, "server", "tcp_port"), &port)
	return port
}
