package server_test

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server"
	"github.com/basaltdb/basalt/server/config"
	"github.com/basaltdb/basalt/server/report"
	"github.com/basaltdb/basalt/server/servertest"
)

func TestRenameCommand(t *testing.T) {
	h := servertest.Start(t, "rename-command", "CONFIG b840fc02d524045429941cc15f59e41cb7be6c52", "rename-command",
		`FLUSHALL ""`, "rename-command", "get fetch")
	plain := servertest.Start(t) // in the same process, with its own table of commands
	c := h.Dial(t)
	for _, tt := range []struct{ command, want string }{
		{"CONFIG GET port", "-ERR unknown command 'CONFIG', with args beginning with: 'GET' 'port' \r\n"},
		{"B840FC02d524045429941cc15f59e41cb7be6c52 SET timeout 5000", "+OK\r\n"},
		{"flushall", "-ERR unknown command 'flushall', with args beginning with: \r\n"},
		{"SET k v", "+OK\r\n"},
		{"GET k", "-ERR unknown command 'GET', with args beginning with: 'k' \r\n"},
		{"Fetch k", "$1\r\nv\r\n"},
		{"fetch", "-ERR wrong number of arguments for 'get' command\r\n"},
		{"COMMAND INFO get", "*1\r\n$-1\r\n"},
	} {
		c.Want(tt.command, tt.want)
	}
	// A pipeline with known and unknown names.
	c.Send(servertest.Pipeline("SET k w", "GET k", "fetch k", "get k", "fetch k"))
	for _, want := range []string{"+OK\r\n", "-ERR unknown command 'GET', with args beginning with: 'k' \r\n",
		"$1\r\nw\r\n",
		"-ERR unknown command 'get', with args beginning with: 'k' \r\n", "$1\r\nw\r\n"} {
		if got := c.Reply(); got != want {
			t.Errorf("in a pipeline: %q, want %q", got, want)
		}
	}
	fields, _ := servertest.ParseInfo(t, c.Do("INFO", "commandstats"))
	if fields["cmdstat_get"] == "" || fields["cmdstat_fetch"] != "" {
		t.Errorf("the statistics are not under the command's original name: %v", fields)
	}
	p := plain.Dial(t)
	p.Want("SET k v", "+OK\r\n")
	p.Want("GET k", "$1\r\nv\r\n")
	p.Want("fetch k", "-ERR unknown command 'fetch', with args beginning with: 'k' \r\n")
}

func TestCheckRenames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kvrocks.conf")
	for _, tt := range []struct{ text, want string }{
		{"rename-command keys \"\"\nrename-command nosuch x\n", path + ":2: rename-command: no such command: 'nosuch'"},
		{"\n\nrename-command get SET\n", path + ":3: rename-command: target command name already exists: 'set'"},
		{"rename-command get G # comment\nrename-command set get\n", ""},
	} {
		require.NoError(t, os.WriteFile(path, []byte(tt.text), 0o600))
		cfg, err := config.Load([]string{"-c", path, "--port", "0"}, nil)
		require.NoError(t, err)
		err = server.Check(cfg)
		if (err == nil) != (tt.want == "") || err != nil && err.Error() != tt.want {
			t.Errorf("%q: %v, want %s", tt.text, err, tt.want)
		}
		s := server.New(cfg, enginetest.Open(t), nil)
		if started := s.Start(); (started == nil) != (tt.want == "") {
			t.Errorf("%q: Start returns %v", tt.text, started)
		}
		s.Close()
	}
}

// TestMaxDBSize: a database that has reached max-db-size refuses the commands that add data. The test sets the size.
func TestMaxDBSize(t *testing.T) {
	var used atomic.Uint64
	s := server.New(servertest.Config(t, "max-db-size", "2"), enginetest.Open(t), zap.NewNop())
	s.SetDiskSize(used.Load)
	require.NoError(t, s.Start())
	t.Cleanup(s.Close)
	c := (&servertest.Harness{Server: s}).Dial(t)
	c.Want("MSET a 1 b 2 c 3", "+OK\r\n")
	c.Want("RPUSH l 1 2", ":2\r\n")

	const refused = "-ERR write command not allowed when reached max-db-size.\r\n"
	used.Store(2<<30 - 1)
	s.Work().CheckSize()
	c.Want("SET a 2", "+OK\r\n")
	used.Store(2 << 30)
	s.Work().CheckSize()
	for _, tt := range []struct{ command, want string }{
		{"SET a 3", refused},
		{"HSET h f v", refused},
		{"RPUSH l 3", refused},
		{"ZADD z 1 m", refused},
		{"APPEND a x", refused},
		{"GET a", "$1\r\n2\r\n"},
		{"DEL b", ":1\r\n"},
		{"EXPIRE c 100", ":1\r\n"},
		{"LPOP l", "$1\r\n1\r\n"},
		{"LTRIM l 1 0", "+OK\r\n"},
	} {
		c.Want(tt.command, tt.want)
	}
	c.Send(servertest.Pipeline("GET a", "DEL c", "SET a 3", "GET a", "EXISTS c"))
	for _, want := range []string{"$1\r\n2\r\n", ":1\r\n", refused, "$1\r\n2\r\n", ":0\r\n"} {
		if got := c.Reply(); got != want {
			t.Errorf("in a pipeline: %q, want %q", got, want)
		}
	}
	fields, _ := servertest.ParseInfo(t, c.Do("INFO", "keyspace"))
	if fields["used_db_size"] != "2147483648" || fields["max_db_size"] != "2147483648" ||
		fields["used_percent"] != " 100%" {
		t.Errorf("INFO: %v", fields)
	}
	// A new limit applies at once.
	c.Want("CONFIG SET max-db-size 3", "+OK\r\n")
	c.Want("SET a 3", "+OK\r\n")
	c.Want("CONFIG SET max-db-size 1", "+OK\r\n")
	c.Want("SET a 4", refused)
	c.Want("CONFIG SET max-db-size 0", "+OK\r\n")
	c.Want("SET a 4", "+OK\r\n")
	c.Want("CONFIG SET max-db-size 1", "+OK\r\n")
	used.Store(1)
	s.Work().CheckSize()
	c.Want("SET a 5", "+OK\r\n")
	c.Want("FLUSHALL", "+OK\r\n")
}

func TestReplicaIsReadOnly(t *testing.T) {
	h := servertest.Start(t, "slaveof", "127.0.0.1 1")
	c := h.Dial(t)
	const refused = "-READONLY You can't write against a read only replica.\r\n"
	for _, tt := range []struct{ command, want string }{
		{"SET a 1", refused}, {"DEL a", refused}, {"FLUSHALL", refused}, {"GET a", "$-1\r\n"},
		{"CONFIG SET replica-read-only no", "+OK\r\n"},
		{"SET a 1", "+OK\r\n"},
		{"CONFIG SET slave-read-only yes", "+OK\r\n"},
		{"SET a 2", refused}, {"GET a", "$1\r\n1\r\n"},
		{"REPLICAOF 127.0.0.1 1", "+OK\r\n"},
		{"SLAVEOF no one", "+OK\r\n"},
		{"SET a 2", "+OK\r\n"}, {"CONFIG GET slaveof", servertest.Bulk("slaveof", "no one")},
		{"REPLICAOF NO ONE", "+OK\r\n"},
	} {
		c.Want(tt.command, tt.want)
	}
	servertest.Start(t, "slaveof", "no one").Dial(t).Want("SET a 1", "+OK\r\n")
}

func TestBuildVersion(t *testing.T) {
	s := server.New(servertest.Config(t), enginetest.Open(t), nil)
	s.SetBuild("v1.2.3-4-gabc")
	require.NoError(t, s.Start())
	t.Cleanup(s.Close)
	fields, _ := servertest.ParseInfo(t, (&servertest.Harness{Server: s}).Dial(t).Do("INFO", "server"))
	if fields["basalt_version"] != "v1.2.3-4-gabc" || fields["redis_version"] != "7.2.0" ||
		fields["kvrocks_version"] != report.KvrocksVersion {
		t.Errorf("INFO server: %v", fields)
	}
}

// TestRedisSettings: settings and notations that clients and configuration files for Redis and Kvrocks use.
func TestRedisSettings(t *testing.T) {
	c := servertest.Start(t, "redis-databases", "16").Dial(t)
	for _, tt := range []struct{ command, want string }{
		{"SELECT 0", "+OK\r\n"},
		{"SELECT 1", "+OK\r\n"},
		{"SELECT 16", "-ERR DB index is out of range\r\n"},
		{"SELECT -1", "-ERR DB index is out of range\r\n"},
		{"SELECT x", "-ERR value is not an integer or out of range\r\n"},
		{"CONFIG GET redis-databases", "*2\r\n$15\r\nredis-databases\r\n$2\r\n16\r\n"},
		{"CONFIG GET protected-mode", "*2\r\n$14\r\nprotected-mode\r\n$3\r\nyes\r\n"},
		{"CONFIG SET protected-mode maybe",
			"-ERR CONFIG SET failed (possibly related to argument 'protected-mode') - argument must be 'yes' or 'no'\r\n"},
		{"CONFIG SET protected-mode no", "+OK\r\n"},
		{"CONFIG GET protected-mode", "*2\r\n$14\r\nprotected-mode\r\n$2\r\nno\r\n"},
		{"CONFIG SET proto-max-bulk-len 1mb", "+OK\r\n"},
		{"CONFIG GET proto-max-bulk-len", "*2\r\n$18\r\nproto-max-bulk-len\r\n$7\r\n1048576\r\n"},
		{"CONFIG SET rocksdb.compaction_readahead_size 4mb", "+OK\r\n"},
		{"CONFIG GET rocksdb.compaction_readahead_size",
			"*2\r\n$33\r\nrocksdb.compaction_readahead_size\r\n$7\r\n4194304\r\n"},
	} {
		c.Want(tt.command, tt.want)
	}
}
