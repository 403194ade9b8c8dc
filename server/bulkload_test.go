package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/servertest"
)

// loadBatches returns write batches with a list of one element under each key, for _ingest RECORDS.
func loadBatches(t *testing.T, ns string, keys ...string) (batches []string) {
	t.Helper()
	s := engine.NewSorter(1 << 20)
	for _, key := range keys {
		m := cf.Meta{Type: cf.TypeList, Size: 1, Version: s.Version()}
		nsKey := cf.AppendNSKey(nil, ns, []byte(key), false)
		s.Put(cf.Metadata, nsKey, cf.AppendListTail(m.Append(nil), cf.ListOrigin, cf.ListOrigin+1))
		sub := cf.AppendSubkeyPrefix(nil, nsKey, false, m.Version)
		s.Put(cf.Default, append(sub, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), []byte("e-"+key))
	}
	require.NoError(t, s.Batches(1<<20, func(b []byte) error {
		batches = append(batches, string(b))
		return nil
	}))
	return batches
}

// load sends lists with these keys as table files.
func load(t *testing.T, c *servertest.Client, keys ...string) {
	t.Helper()
	c.Want("_ingest BEGIN", "+OK\r\n")
	sendRecords(t, c, cf.DefaultNamespace, keys...)
	c.Want("_ingest END", "+OK\r\n")
}

// sendRecords sends the records of lists between BEGIN and END.
func sendRecords(t *testing.T, c *servertest.Client, ns string, keys ...string) {
	t.Helper()
	for _, batch := range loadBatches(t, ns, keys...) {
		if got := c.Do("_ingest", "RECORDS", batch); got != "+OK\r\n" {
			t.Fatal(got)
		}
	}
}

// watchLoad prepares a server for table files with the lists a, b, n, new and q. noticed checks that they replace
// existing keys, and that caches, watched keys, tracking clients and blocked clients notice the change.
func watchLoad(t *testing.T, h *servertest.Harness) (other, tracks *servertest.Client, noticed func()) {
	t.Helper()
	other, tracks = h.Dial(t), h.Dial3(t)
	other.Want("SET a old", "+OK\r\n")
	other.Want("SET a v", "+OK\r\n") // the server remembers that the key exists
	other.Want("HSET b f v g w", ":2\r\n")
	other.Want("SET n 1 EX 1000", "+OK\r\n")
	other.Want("RPUSH stays x", ":1\r\n")
	other.Want("LRANGE stays 0 -1", servertest.Bulk("x"))
	other.Want("WATCH a", "+OK\r\n")
	other.Want("GET a", "$1\r\nv\r\n")
	tracks.Want("CLIENT TRACKING ON", "+OK\r\n")
	tracks.Want("HGET b f", "$1\r\nv\r\n")
	blocked := h.Dial(t)
	blocked.Send(servertest.Encode("BLPOP", "q", "0"))
	h.BlockedClients(t, 1)
	return other, tracks, func() {
		t.Helper()
		blocked.Expect(servertest.Bulk("q", "e-q"))
		tracks.Expect(">2\r\n$10\r\ninvalidate\r\n_\r\n")
		other.Want("MULTI", "+OK\r\n")
		other.Want("GET stays", "+QUEUED\r\n")
		other.Want("EXEC", "*-1\r\n")
		for _, key := range []string{"a", "b", "n", "new"} {
			other.Want("TYPE "+key, "+list\r\n")
			other.Want("LRANGE "+key+" 0 -1", servertest.Bulk("e-"+key))
			other.Want("TTL "+key, ":-1\r\n")
		}
		other.Want("LRANGE stays 0 -1", servertest.Bulk("x"))
	}
}

// TestLoad: keys in table files replace existing keys, see watchLoad, and are counted.
func TestLoad(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	other, _, noticed := watchLoad(t, h)
	load(t, c, "a", "b", "n", "new", "q")
	noticed()
	other.Want("LPUSH b x", ":2\r\n")
	load(t, c, "a", "b", "more")
	other.Want("LRANGE b 0 -1", servertest.Bulk("e-b"))
	c.Send(servertest.Encode("QUIT"))
	c.Closed()
	servertest.Eventually(t, "the keys are counted", func() bool {
		h.DB.WaitScans()
		return other.Do("DBSIZE") == ":6\r\n"
	})
	if got := h.DB.KeyCount(cf.DefaultNamespace); !got.Exact || got.Expires != 0 {
		t.Errorf("%+v", got)
	}
	servertest.Eventually(t, "the files are removed", func() bool {
		_, err := os.Stat(filepath.Join(filepath.Dir(h.DB.Dir()), "importing_files"))
		return os.IsNotExist(err)
	})
}

// TestLoadRefused: table files are refused in the wrong order, with keyspace events, from restricted users and for
// unknown databases, and wait for the end of a pause.
func TestLoadRefused(t *testing.T) {
	h := servertest.Start(t, "redis-databases", "2")
	c, other := h.Dial(t), h.Dial(t)
	refused := func(c *servertest.Client, what string, args ...string) {
		t.Helper()
		if got := c.Do(args...); !strings.HasPrefix(got, "-") || !strings.Contains(got, what) {
			t.Errorf("%s: %q, want an error with %q", args[:2], got, what)
		}
	}
	batch := loadBatches(t, cf.DefaultNamespace, "a")[0]
	refused(c, "have been begun", "_ingest", "RECORDS", batch)
	refused(c, "have been begun", "_ingest", "END")
	c.Want("CONFIG SET notify-keyspace-events KEA", "+OK\r\n")
	refused(c, "notify-keyspace-events", "_ingest", "BEGIN")
	if got := c.Do("CONFIG", "SET", "notify-keyspace-events", ""); got != "+OK\r\n" {
		t.Fatal(got)
	}
	c.Want("ACL SETUSER some on nopass +@all ~some*", "+OK\r\n")
	other.Want("AUTH some x", "+OK\r\n")
	refused(other, "restrictions", "_ingest", "BEGIN")
	other.Want("AUTH default x", "+OK\r\n")

	c.Want("_ingest BEGIN", "+OK\r\n")
	refused(other, "another client", "_ingest", "BEGIN")
	refused(other, "have been begun", "_ingest", "RECORDS", batch)
	refused(c, "takes no keys", "_ingest", "RECORDS", loadBatches(t, cf.DatabaseNamespace(2), "a")[0])
	refused(c, "takes no keys", "_ingest", "END")
	refused(c, "have been begun", "_ingest", "END")
	c.Want("_ingest BEGIN", "+OK\r\n")
	sendRecords(t, c, cf.DatabaseNamespace(1), "b")
	c.Want("_ingest BEGIN", "+OK\r\n") // a new BEGIN drops b
	sendRecords(t, c, cf.DefaultNamespace, "a")
	other.Want("CLIENT PAUSE 100000 WRITE", "+OK\r\n")
	c.Send(servertest.Encode("_ingest", "END"))
	h.PausedClients(t, 1)
	other.Want("EXISTS a", ":0\r\n")
	other.Want("CLIENT UNPAUSE", "+OK\r\n")
	c.Expect("+OK\r\n")
	other.Want("EXISTS a", ":1\r\n")
	other.Want("SELECT 1", "+OK\r\n")
	other.Want("DBSIZE", ":0\r\n")
	c.Want("_ingest BEGIN", "+OK\r\n")
	c.Send(servertest.Encode("QUIT"))
	c.Closed()
	servertest.Eventually(t, "the connection has ended", func() bool { return other.Do("_ingest", "BEGIN") == "+OK\r\n" })
}
