package server_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server"
	"github.com/basaltdb/basalt/server/servertest"
)

// A server may listen on several addresses. With port 0 all TCP addresses have the port that the system has chosen.
func TestSeveralAddresses(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	for range 2 {
		db := enginetest.Open(t)
		s := server.New(servertest.Config(t, "bind", "127.0.0.1 127.0.0.2", "unixsocket", socket, "unixsocketperm", "700"),
			db, nil)
		require.NoError(t, s.Start())
		addrs := s.Addrs()
		if len(addrs) != 3 || strings.TrimPrefix(addrs[0], "127.0.0.1:") != strings.TrimPrefix(addrs[1],
			"127.0.0.2:") || addrs[2] != socket {
			t.Fatalf("addresses %v", addrs)
		}
		if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("the socket's mode: %v %v", info.Mode(), err)
		}
		for i, network := range []string{"tcp", "tcp", "unix"} {
			nc, err := net.Dial(network, addrs[i])
			require.NoError(t, err)
			c := servertest.NewClient(t, nc)
			got := c.Do("CLIENT", "INFO")
			if network == "unix" && !strings.Contains(got, " addr="+socket+":0 laddr="+socket+":0 ") {
				t.Errorf("CLIENT INFO on %s: %s", network, got)
			}
			if strings.Contains(got, " flags=U ") != (network == "unix") {
				t.Errorf("flags on %s: %s", network, got)
			}
			nc.Close()
		}
		s.Close()
	}
}

// TestSettingsOfRedis: CONFIG GET returns settings that only Redis has by name and by pattern, but not for the pattern
// *.
func TestSettingsOfRedis(t *testing.T) {
	c := servertest.Start(t).Dial(t)
	for _, tt := range []struct{ command, want string }{
		{"CONFIG GET maxmemory-policy", servertest.Bulk("maxmemory-policy", "noeviction")},
		{"CONFIG GET save appendonly databases", servertest.Bulk("appendonly", "no", "databases", "1", "save", "")},
		{"CONFIG GET hash-max-z*entries HZ", servertest.Bulk("hash-max-ziplist-entries", "512", "HZ", "10")},
		{"CONFIG SET hash-max-listpack-entries 7 maxmemory 1048576", "+OK\r\n"},
		{"CONFIG GET hash-max-ziplist-entries", servertest.Bulk("hash-max-ziplist-entries", "7")},
		{"CONFIG SET maxmemory-policy allkeys-lru",
			"-ERR CONFIG SET failed (possibly related to argument 'maxmemory-policy') - " +
				"nothing is evicted: max-db-size limits the data, memory-budget-mb the memory\r\n"},
	} {
		c.Want(tt.command, tt.want)
	}
	for _, name := range []string{"rocksdb.block_size", "hash-max-listpack-entries", "maxmemory"} {
		if all := c.Do("CONFIG", "GET", "*"); strings.Count(all, "\r\n"+name+"\r\n") != 1 {
			t.Errorf("CONFIG GET * without %s: %q", name, all)
		}
	}
	if info := c.Do("INFO", "memory"); !strings.Contains(info, "maxmemory:1048576\r\n") {
		t.Errorf("INFO: %q", info)
	}
}

// TestMinReplicas checks that writes are refused while there are fewer replicas than min-replicas-to-write.
func TestMinReplicas(t *testing.T) {
	const refused = "-NOREPLICAS Not enough good replicas to write.\r\n"
	c := servertest.Start(t).Dial(t)
	for _, tt := range []struct{ command, want string }{
		{"CONFIG SET min-slaves-to-write 1", "+OK\r\n"}, {"SET a 1", refused}, {"GET a", "$-1\r\n"},
		{"EVAL return(redis.call('GET','a')) 0", "$-1\r\n"},
		{"MULTI", "+OK\r\n"}, {"SET a 1", refused}, {"EXEC",
			"-EXECABORT Transaction discarded because of previous errors.\r\n"},
	} {
		c.Want(tt.command, tt.want)
	}
	for source, want := range map[string]string{
		"#!lua\nreturn redis.call('GET', 'a')": refused, "#!lua flags=no-writes\nreturn redis.call('GET', 'a')": "$-1\r\n",
	} {
		if have := c.Do("EVAL", source, "0"); have != want {
			t.Errorf("EVAL %q: %q, want %q", source, have, want)
		}
	}
	c.Want("CONFIG SET min-replicas-to-write 0", "+OK\r\n")
	c.Want("SET a 1", "+OK\r\n")
}

func TestConfigCommands(t *testing.T) {
	h := servertest.Start(t, "timeout", "100")
	c := h.Dial(t)
	for _, tt := range []struct{ command, want string }{
		{"CONFIG GET timeout", "*2\r\n$7\r\ntimeout\r\n$3\r\n100\r\n"},
		{"CONFIG GET TIME?UT maxcl* time*", "*4\r\n$10\r\nmaxclients\r\n$5\r\n10000\r\n$7\r\ntimeout\r\n$3\r\n100\r\n"},
		{"CONFIG GET nosuch", "*0\r\n"},
		{"CONFIG SET timeout 200 maxclients 77", "+OK\r\n"},
		{"CONFIG GET timeout", "*2\r\n$7\r\ntimeout\r\n$3\r\n200\r\n"},
		{"CONFIG SET timeout", "-ERR wrong number of arguments for 'config|set' command\r\n"},
		{"CONFIG SET timeout 1 x", "-ERR syntax error\r\n"},
		{"CONFIG SET nosuch 1", "-ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'\r\n"},
		{"CONFIG SET port 1",
			"-ERR CONFIG SET failed (possibly related to argument 'port') - can't set immutable config\r\n"},
		{"CONFIG SET maxclients 5 timeout x",
			"-ERR CONFIG SET failed (possibly related to argument 'timeout') - argument couldn't be parsed into an integer\r\n"},
		{"CONFIG GET maxclients", "*2\r\n$10\r\nmaxclients\r\n$2\r\n77\r\n"},
		{"CONFIG SET rocksdb.level0_slowdown_writes_trigger 25", "+OK\r\n"},
	} {
		c.Want(tt.command, tt.want)
	}
	if h.MaxClients() != 77 || h.Sessions().Limits.Timeout.Load() != 200 {
		t.Error("the server does not follow the settings")
	}
	c.Want("CONFIG SET proto-max-bulk-len 1mb client-output-buffer-limit", "-ERR syntax error\r\n")
	c.Want("CONFIG SET proto-max-bulk-len 1m", "+OK\r\n")
	if h.Sessions().Limits.Bulk.Load() != 1<<20 {
		t.Errorf("proto-max-bulk-len is %d", h.Sessions().Limits.Bulk.Load())
	}
	if got := c.Do("CONFIG", "SET", "client-output-buffer-limit", "normal 1mb 0 0"); got != "+OK\r\n" ||
		h.Sessions().Limits.Out.Load() != 1<<20 {
		t.Errorf("%q, limit %d", got, h.Sessions().Limits.Out.Load())
	}
	if got := c.Do("CONFIG", "REWRITE"); !strings.HasPrefix(got, "-ERR ") {
		t.Errorf("CONFIG REWRITE without a file: %q", got)
	}
	// New clients need the password, connected clients do not.
	c.Want("CONFIG SET requirepass pw", "+OK\r\n")
	c.Want("PING", "+PONG\r\n")
	other := h.Dial(t)
	other.Want("PING", "-NOAUTH Authentication required.\r\n")
	other.Want("AUTH pw", "+OK\r\n")
	c.Want("CONFIG SET resp3-enabled no", "+OK\r\n")
	c.Send(servertest.Pipeline("HELLO 3"))
	if got := c.Reply(); !strings.HasPrefix(got, "*14\r\n") || !strings.Contains(got, "proto\r\n:2\r\n") {
		t.Errorf("HELLO 3 with resp3-enabled no: %q", got)
	}
}
