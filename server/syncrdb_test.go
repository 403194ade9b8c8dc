package server_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/rdb"
	"github.com/basaltdb/basalt/server/replication/proto"
	"github.com/basaltdb/basalt/server/servertest"
)

// syncRDB asks for a copy and returns the file that comes before the end of the connection.
func syncRDB(t *testing.T, c *servertest.Client) []byte {
	t.Helper()
	c.Want("REPLCONF capa eof", "+OK\r\n")
	c.Want("REPLCONF rdb-only 1", "+OK\r\n")
	line, file := replyToSync(t, c)
	mark, marked := bytes.CutPrefix(line, []byte("$EOF:"))
	file, ended := bytes.CutSuffix(file, mark)
	if !marked || !ended || len(mark) != 40 {
		t.Fatalf("%q, %d bytes: %.80q", line, len(file), file)
	}
	return file
}

// replyToSync sends SYNC and returns the first line of the reply, and what comes before the end of the connection.
func replyToSync(t *testing.T, c *servertest.Client) (line, file []byte) {
	t.Helper()
	c.Send("SYNC\r\n")
	c.SetReadDeadline(time.Now().Add(servertest.Patience))
	b, err := io.ReadAll(c.R)
	require.NoError(t, err)
	line, file, ok := bytes.Cut(bytes.TrimLeft(b, "\n"), []byte("\r\n"))
	if !ok {
		t.Fatalf("%d bytes: %.80q", len(b), b)
	}
	return line, file
}

// TestSyncAlone: redis-cli --cluster backup, and redis-cli --rdb before 6.0, call SYNC without announcing anything.
func TestSyncAlone(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.Want("SET a 1", "+OK\r\n")
	line, file := replyToSync(t, c)
	if want := "$" + strconv.Itoa(len(file)); string(line) != want || keysOf(t, file) != "a" {
		t.Errorf("%q, want %q; keys %q", line, want, keysOf(t, file))
	}
}

// keysOf returns the names of the keys of a file, with those of the databases above 0 in front.
func keysOf(t *testing.T, file []byte) (names string) {
	t.Helper()
	f, err := rdb.NewFile(bytes.NewReader(file), int64(len(file)), 1<<30)
	require.NoError(t, err)
	for {
		i, err := f.Next()
		if err == io.EOF {
			return strings.TrimSpace(names)
		}
		require.NoError(t, err)
		if i.DB > 0 {
			names += string(rune('0'+i.DB)) + ":"
		}
		names += string(i.Key) + " "
	}
}

// TestSyncRDB: a client gets the keys of all databases, with and without TLS, and from a replica too.
func TestSyncRDB(t *testing.T) {
	for _, layer := range []string{"plain", "TLS"} {
		t.Run(layer, func(t *testing.T) {
			_, dial := servertest.Layered(t, layer)
			c := dial()
			c.Want("SET a 1", "+OK\r\n")
			c.Want("RPUSH b 1 2 3", ":3\r\n")
			if got := keysOf(t, syncRDB(t, dial())); got != "a b" {
				t.Errorf("keys %q", got)
			}
			if got := field(c, "stats", "sync_full"); got != "1" {
				t.Errorf("sync_full:%s", got)
			}
		})
	}
	h := servertest.Start(t, "redis-databases", "4")
	c := h.Dial(t)
	c.Want("SET a 1", "+OK\r\n")
	c.Want("SELECT 3", "+OK\r\n")
	c.Want("SET b 1", "+OK\r\n")
	if got := keysOf(t, syncRDB(t, h.Dial(t))); got != "a 3:b" {
		t.Errorf("keys %q", got)
	}
	h = servertest.Start(t)
	h.Dial(t).Want("JSON.SET j $ 1", "+OK\r\n")
	if got := keysOf(t, syncRDB(t, h.Dial(t))); got != "" {
		t.Errorf("keys %q", got)
	}
	if h.Logs.FilterMessage("the copy for a client lacks something").Len() != 1 {
		t.Error("the log has nothing of what the copy lacks")
	}
}

// TestSyncRefused: who may not have a copy, and what is not asked in the form of a copy, gets an error.
func TestSyncRefused(t *testing.T) {
	h := servertest.Start(t, "requirepass", "secret", "repl-namespace-enabled", "yes")
	h.AddNamespaces(t, "ns1")
	c := h.Dial(t)
	for _, tt := range []struct{ command, want string }{
		{"SYNC", "-NOAUTH Authentication required.\r\n"},
		{"AUTH token1", "+OK\r\n"},
		{"REPLCONF rdb-only 1", "+OK\r\n"},
		{"SYNC", "-ERR admin permission required to perform the command\r\n"},
		{"AUTH secret", "+OK\r\n"},
		{"SYNC now", "-ERR wrong number of arguments for 'sync' command\r\n"},
		{"REPLCONF rdb-only 2", "-ERR value is out of range, must be between 0 and 1\r\n"},
		{"REPLCONF rdb-only x", "-ERR value is not an integer or out of range\r\n"},
		{"REPLCONF rdb-filter-only keys", "-ERR Unsupported rdb-filter-only option: keys\r\n"},
		{"REPLCONF rdb-only 0 listening-port 7000", "+OK\r\n"},
		{"SYNC", "-ERR " + string(proto.ErrRedis) + "\r\n"},
		{"MULTI", "+OK\r\n"},
		{"SYNC", "-ERR Command not allowed inside a transaction\r\n"},
	} {
		c.Want(tt.command, tt.want)
	}
}

// TestSyncOfReplica: a replica gives a copy while its link is up.
func TestSyncOfReplica(t *testing.T) {
	m, r := servertest.Start(t), servertest.Start(t)
	c := r.Dial(t)
	m.Dial(t).Want("SET a 1", "+OK\r\n")
	c.Want(replicaOf(r, m), "+OK\r\n")
	servertest.Eventually(t, "the key has arrived", func() bool { return c.Do("GET", "a") == "$1\r\n1\r\n" })
	if got := keysOf(t, syncRDB(t, r.Dial(t))); got != "a" {
		t.Errorf("keys %q", got)
	}
	m.Close()
	servertest.Eventually(t, "the link is down",
		func() bool { return field(c, "replication", "master_link_status") == "down" })
	c.Want("REPLCONF rdb-only 1", "+OK\r\n")
	c.Want("SYNC", "-NOMASTERLINK Can't SYNC while not connected with my master\r\n")
}

// TestSyncEnds: a client that does not read its copy is cut off by CLIENT KILL and by the end of the server at once,
// else after repl-timeout, and nothing of the copy is left.
func TestSyncEnds(t *testing.T) {
	for _, how := range []string{"kill", "shutdown", "timeout"} {
		t.Run(how, func(t *testing.T) {
			timeout := "600"
			if how == "timeout" {
				timeout = "1"
			}
			h := servertest.Start(t, "repl-timeout", timeout)
			c := h.Dial(t)
			big := strings.Repeat("x", 1<<20)
			for i := range 24 { // more than sockets and the queue take
				c.Do("SET", "k"+strconv.Itoa(i), big)
			}
			slow := h.Dial(t)
			slow.Want("REPLCONF capa eof rdb-only 1", "+OK\r\n")
			slow.Send("SYNC\r\n")
			slow.SetReadDeadline(time.Now().Add(servertest.Patience))
			for line := "\n"; line == "\n"; {
				var err error
				if line, err = slow.R.ReadString('\n'); err != nil || line != "\n" && line[:5] != "$EOF:" {
					t.Fatalf("%q, %v", line, err)
				}
			}
			switch how {
			case "kill":
				c.Want("CLIENT KILL TYPE replica", ":1\r\n")
			case "shutdown":
				h.Close()
			}
			servertest.Eventually(t, "the copy has ended",
				func() bool { return h.Logs.FilterMessage("sending a copy to a client has failed").Len() == 1 })
			if _, err := os.Stat(filepath.Join(filepath.Dir(h.DB.Dir()), "sync_copy")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the copy: %v", err)
			}
		})
	}
}
