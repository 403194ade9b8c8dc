package session_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/internal/crc64"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/rdb"
	"github.com/basaltdb/basalt/server/servertest"
)

// rdbString returns a string as an RDB file holds it.
func rdbString(s string) string { return string(rdb.AppendString(nil, []byte(s))) }

// rdbKey returns the record of a key that holds a string.
func rdbKey(name, value string) string { return "\x00" + rdbString(name) + rdbString(value) }

// rdbList returns the record of a key that holds a list.
func rdbList(name string, elems ...string) string {
	b := "\x01" + rdbString(name) + string(rune(len(elems)))
	for _, e := range elems {
		b += rdbString(e)
	}
	return b
}

// rdbExpire returns the expiry of the key that follows.
func rdbExpire(at time.Time) string {
	return "\xfc" + string(binary.LittleEndian.AppendUint64(nil, uint64(at.UnixMilli())))
}

// rdbFile writes an RDB file of records with the right checksum and returns its path.
func rdbFile(t testing.TB, items ...string) string {
	b := "REDIS0011" + strings.Join(items, "") + "\xff"
	return rdbRaw(t, string(binary.LittleEndian.AppendUint64([]byte(b), crc64.Update(0, []byte(b)))))
}

// rdbRaw writes a file with a text and returns its path.
func rdbRaw(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dump.rdb")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestRDBLoad(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	future, past := time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	path := rdbFile(t, "\xfa"+rdbString("redis-ver")+rdbString("7.2.0"), "\xfe\x00", "\xfb\x03\x01",
		rdbKey("a", "new"), rdbExpire(future), rdbKey("e", "new"), rdbKey("after",
			"new"), rdbExpire(past), rdbKey("p", "new"),
		rdbList("l", "1", "2"), "\x01"+rdbString("none")+"\x00", "\xfe\x02", rdbKey("two", "new"))
	c.Want("SET a old EX 1000", "+OK\r\n")
	c.Want("SET p old", "+OK\r\n")
	c.Want("RPUSH e old", ":1\r\n")
	if got := c.Do("RDB", "LOAD", path, "nx", "db", "0"); got != "+OK\r\n" {
		t.Fatal(got)
	}
	c.Want("GET a", "$3\r\nold\r\n")
	c.Want("LRANGE e 0 -1", "*1\r\n$3\r\nold\r\n")
	c.Want("GET after", "$3\r\nnew\r\n")
	c.Want("DBSIZE", ":5\r\n")
	if got := c.Do("RDB", "LOAD", path); got != "+OK\r\n" {
		t.Fatal(got)
	}
	c.Want("GET a", "$3\r\nnew\r\n")
	c.Want("TTL a", ":-1\r\n")
	c.Want("GET e", "$3\r\nnew\r\n")
	c.Want("PEXPIRETIME e", fmt.Sprintf(":%d\r\n", future.UnixMilli()))
	c.Want("TTL after", ":-1\r\n") // an expiry applies to one key only
	c.Want("GET p", "$3\r\nold\r\n")
	c.Want("LRANGE l 0 -1", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n")
	c.Want("EXISTS two none", ":0\r\n")
	c.Want("DBSIZE", ":5\r\n")
	if got := c.Do("RDB", "LOAD", path, "DB", "2"); got != "+OK\r\n" {
		t.Fatal(got)
	}
	c.Want("GET two", "$3\r\nnew\r\n")
	c.Want("DBSIZE", ":6\r\n")
	if n := h.Logs.FilterMessageSnippet("4 keys and 0 libraries were loaded; 1 keys had expired, 0 were kept as they " +
		"were, 1 were empty").Len(); n != 1 {
		t.Errorf("the log does not tell how many keys were loaded: %v", h.Logs.All())
	}
}

// TestRDBLoadErrors: the reply says what is wrong, where, and how many keys were loaded. The loaded keys stay.
func TestRDBLoadErrors(t *testing.T) {
	h := servertest.Start(t, "requirepass", "secret", "repl-namespace-enabled", "yes")
	c := h.Dial(t)
	c.Want("AUTH secret", "+OK\r\n")
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	good := rdbKey("good", "1")
	for _, tt := range []struct {
		path string
		args string
		want string
		keys string
	}{
		{filepath.Join(dir, "missing"), "", "-ERR the RDB file cannot be opened: open " + dir +
			"/missing: no such file or directory", ":0\r\n"},
		{dir, "", "-ERR the RDB file cannot be opened: it is not a regular file", ":0\r\n"},
		{pipe, "", "-ERR the RDB file cannot be opened: it is not a regular file", ":0\r\n"},
		{rdbRaw(t, "hello, world"), "",
			"-ERR rdb: not an RDB file that can be read: it does not begin as one; 0 keys were loaded", ":0\r\n"},
		{rdbRaw(t, "REDIS0099"), "",
			`-ERR rdb: not an RDB file that can be read: version "0099", not 0001 to 0012; 0 keys were loaded`, ":0\r\n"},
		{rdbFile(t, good), "what", "-ERR syntax error", ":0\r\n"},
		{rdbFile(t, good), "DB", "-ERR syntax error", ":0\r\n"},
		{rdbFile(t, good), "DB -1", "-ERR value is not an integer or out of range", ":0\r\n"},
		{rdbFile(t, good), "DB 4294967296", "-ERR value is not an integer or out of range", ":0\r\n"},
		{rdbFile(t, good, "\x00\x01b\x80\x30\x00\x00\x00abc"), "",
			`-ERR rdb: malformed value: 805306368 bytes wanted, 12 left, in the value of "b" before byte 25; 1 keys were loaded`,
			":1\r\n"},
		{rdbFile(t, good, "\x06\x01m"), "NX",
			`-ERR rdb: unsupported type of value, in the value of "m" before byte 20; 0 keys were loaded`, ":1\r\n"},
		{rdbRaw(t, "REDIS0011"+good+"\xff12345678"), "",
			"-ERR rdb: wrong checksum, before byte 26; 1 keys were loaded", ":1\r\n"},
		{rdbFile(t, good, "\xf5"+rdbString("no library")), "",
			"-ERR a library of functions: Missing library metadata; 0 keys were loaded", ":1\r\n"},
	} {
		if got := c.Do(append([]string{"RDB", "LOAD", tt.path}, strings.Fields(tt.args)...)...); got != tt.want+"\r\n" {
			t.Errorf("%s %s: %q, want %q", filepath.Base(tt.path), tt.args, got, tt.want)
		}
		c.Want("DBSIZE", tt.keys)
	}
	for command, want := range map[string]string{
		"RDB":      "-ERR wrong number of arguments for 'rdb' command\r\n",
		"RDB LOAD": "-ERR wrong number of arguments for 'rdb|load' command\r\n",
		"RDB SAVE": "-ERR unknown subcommand 'SAVE'. Try RDB HELP.\r\n",
	} {
		c.Want(command, want)
	}
	if got := c.Do("RDB", "HELP"); !strings.Contains(got, "LOAD <path> [NX] [DB <n>]") {
		t.Errorf("RDB HELP: %q", got)
	}
	path := rdbFile(t, rdbKey("k", "v"))
	c.Want("MULTI", "+OK\r\n")
	c.Want("RDB LOAD "+path, "-ERR Command not allowed inside a transaction\r\n")
	c.Want("DISCARD", "+OK\r\n")
	if got := c.Do("EVAL", "return redis.call('rdb', 'load', ARGV[1])", "0", path); !strings.HasPrefix(got,
		"-ERR This Redis command is not allowed from script") {
		t.Errorf("in a script: %q", got)
	}
	c.Want("NAMESPACE ADD ns token", "+OK\r\n")
	other := h.Dial(t)
	other.Want("RDB LOAD "+path, "-NOAUTH Authentication required.\r\n")
	other.Want("AUTH token", "+OK\r\n")
	other.Want("RDB LOAD "+path, "-ERR admin permission required to perform the command\r\n")
	c.Want("EXISTS k", ":0\r\n")
}

// TestRDBLoadNewerForms loads encodings that Redis 7.0 does not write: a set as a listpack, a hash with fields that
// expire, and a stream with the times of a consumer.
func TestRDBLoadNewerForms(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	const at = 4102444800000 // the year 2100
	u64 := func(n uint64) string { return string(binary.LittleEndian.AppendUint64(nil, n)) }
	path := rdbFile(t, "\x14\x01s\x0a"+"\x0a\x00\x00\x00\x01\x00\x81a\x02\xff",
		"\x18\x01h"+u64(at)+"\x02"+"\x01\x01f\x01v"+"\x00\x01g\x01w",
		"\x18\x01p"+u64(1000)+"\x01"+"\x01\x01f\x01v",
		"\x15\x01x\x00"+"\x00"+"\x07\x00"+"\x00\x00"+"\x00\x00"+"\x01"+"\x01"+"\x01g"+"\x05\x01"+"\x01"+"\x00"+"\x01"+"\x01c"+
			u64(50)+u64(40)+"\x00")
	c.Want("RDB LOAD "+path, "+OK\r\n")
	c.Want("SMEMBERS s", "*1\r\n$1\r\na\r\n")
	c.Want("HPEXPIRETIME h FIELDS 2 f g", fmt.Sprintf("*2\r\n:%d\r\n:-1\r\n", at))
	c.Want("HGET h f", "$1\r\nv\r\n")
	c.Want("EXISTS p", ":0\r\n")
	c.Want("XGROUP DELCONSUMER x g c", ":0\r\n")
	c.Want("XADD x 6-0 a b", "-ERR The ID specified in XADD is equal or smaller than the target stream top item\r\n")
	c.Want("DBSIZE", ":3\r\n")
}

// TestRDBLoadFunctions loads libraries; with NX an existing library is kept.
func TestRDBLoadFunctions(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	c.Do("FUNCTION", "LOAD", library("one", "f", "old"))
	path := rdbFile(t, "\xf5"+rdbString(library("one", "f", "new")), "\xf5"+rdbString(library("two", "g", "new")),
		rdbKey("k", "v"))
	c.Want("RDB LOAD "+path+" NX", "+OK\r\n")
	c.Want("FCALL f 0", "$3\r\nold\r\n")
	c.Want("FCALL g 0", "$3\r\nnew\r\n")
	c.Want("RDB LOAD "+path, "+OK\r\n")
	c.Want("FCALL f 0", "$3\r\nnew\r\n")
	c.Want("GET k", "$1\r\nv\r\n")
	clash := rdbFile(t, "\xf5"+rdbString(library("three", "g", "clash")), rdbKey("n", "v"))
	c.Want("RDB LOAD "+clash, "-ERR a library of functions: Function g already exists; 0 keys were loaded\r\n")
	c.Want("EXISTS n", ":0\r\n")
}

// TestRDBLoadDatabases: RDB LOAD loads the keys of one database of the file, 0 or DB, into the database that the client
// has selected.
func TestRDBLoadDatabases(t *testing.T) {
	h := servertest.Start(t, "redis-databases", "16")
	c := h.Dial(t)
	path := rdbFile(t, "\xfe\x00", rdbKey("zero", "v"), "\xfe\x07", rdbKey("seven", "v"))
	c.Want("SELECT 3", "+OK\r\n")
	c.Want("RDB LOAD "+path+" DB 7", "+OK\r\n")
	c.Want("KEYS *", "*1\r\n$5\r\nseven\r\n")
	c.Want("SELECT 0", "+OK\r\n")
	c.Want("RDB LOAD "+path, "+OK\r\n")
	c.Want("KEYS *", "*1\r\n$4\r\nzero\r\n")
	c.Want("SELECT 7", "+OK\r\n")
	c.Want("DBSIZE", ":0\r\n")
}

// TestRDBLoadPieces: many keys are written in few commits, and after an error the keys written before stay.
func TestRDBLoadPieces(t *testing.T) {
	h := servertest.Start(t)
	c := h.Dial(t)
	var items []string
	const n = 2000
	for i := range n {
		items = append(items, rdbKey(fmt.Sprint("key:", i), "v"))
	}
	path := rdbFile(t, items...)
	before := h.Ticker(t, "rocksdb.write.wal")
	c.Want("RDB LOAD "+path, "+OK\r\n")
	if writes := h.Ticker(t, "rocksdb.write.wal") - before; writes < n/256 || writes > n/256+2 {
		t.Errorf("%d keys took %d writes", n, writes)
	}
	c.Want("DBSIZE", fmt.Sprintf(":%d\r\n", n))
	before = h.Ticker(t, "rocksdb.write.wal")
	c.Want("RDB LOAD "+path+" NX", "+OK\r\n")
	if writes := h.Ticker(t, "rocksdb.write.wal") - before; writes != 0 {
		t.Errorf("RDB LOAD NX of existing keys took %d writes", writes)
	}
	// A piece that does not fit into a batch is written key by key.
	c.Want("FLUSHALL", "+OK\r\n")
	c.Want("CONFIG SET rocksdb.write_options.write_batch_max_bytes 300", "+OK\r\n")
	c.Want("RDB LOAD "+path, "+OK\r\n")
	c.Want("DBSIZE", fmt.Sprintf(":%d\r\n", n))
	big := rdbFile(t, rdbKey("small", "v"), rdbKey("big", strings.Repeat("x", 400)), rdbKey("later", "v"))
	c.Want("RDB LOAD "+big,
		"-ERR key \"big\": the write batch is larger than rocksdb.write_options.write_batch_max_bytes; 1 keys were "+
			"loaded\r\n")
	c.Want("EXISTS small big later", ":1\r\n")
	c.Want("CONFIG SET rocksdb.write_options.write_batch_max_bytes 0", "+OK\r\n")
	// A string that is longer than proto-max-bulk-len.
	c.Want("CONFIG SET proto-max-bulk-len 1048576", "+OK\r\n")
	c.Want("FLUSHALL", "+OK\r\n")
	long := rdbFile(t, rdbKey("small", "v"), rdbKey("long", strings.Repeat("x", 1<<20+1)), rdbKey("later", "v"))
	if got := c.Do("RDB", "LOAD", long); !strings.HasPrefix(got,
		`-ERR key "long": string exceeds maximum allowed size`) || !strings.HasSuffix(got, "; 1 keys were loaded\r\n") {
		t.Errorf("a string that is too long: %q", got)
	}
	c.Want("EXISTS small long later", ":1\r\n")
	c.Want("DEBUG DBSIZE-LIMIT 1", "+OK\r\n")
	c.Want("RDB LOAD "+path, "-ERR write command not allowed when reached max-db-size.\r\n")
}

// TestRDBLoadBesideOthers: RDB LOAD serves blocked clients, changes watched keys, and waits for the end of a pause.
func TestRDBLoadBesideOthers(t *testing.T) {
	h := servertest.Start(t)
	c, waits, watches := h.Dial(t), h.Dial(t), h.Dial(t)
	path := rdbFile(t, rdbKey("k", "new"), rdbList("l", "1", "2"))
	waits.Send(servertest.Encode("BLPOP", "l", "0"))
	servertest.Eventually(t, "BLPOP waits", func() bool { return h.Sessions().Counts().Blocked == 1 })
	watches.Want("SET k old", "+OK\r\n")
	watches.Want("WATCH k", "+OK\r\n")
	c.Want("CLIENT PAUSE 100000 WRITE", "+OK\r\n")
	c.Send(servertest.Encode("RDB", "LOAD", path))
	servertest.Eventually(t, "RDB LOAD waits", func() bool { return h.Sessions().Counts().Paused == 1 })
	watches.Want("GET k", "$3\r\nold\r\n")
	watches.Want("CLIENT UNPAUSE", "+OK\r\n")
	if got := c.Reply(); got != "+OK\r\n" {
		t.Fatal(got)
	}
	if got := waits.Reply(); got != "*2\r\n$1\r\nl\r\n$1\r\n1\r\n" {
		t.Errorf("BLPOP: %q", got)
	}
	c.Want("LRANGE l 0 -1", "*1\r\n$1\r\n2\r\n")
	watches.Want("MULTI", "+OK\r\n")
	watches.Want("GET k", "+QUEUED\r\n")
	watches.Want("EXEC", "*-1\r\n")
}

// TestRDBLoadLetsOthersRun: while another transaction holds the lock of the file's last key, other clients already see
// the keys before it.
func TestRDBLoadLetsOthersRun(t *testing.T) {
	h := servertest.Start(t)
	c, other := h.Dial(t), h.Dial(t)
	tx := h.DB.NewTx()
	tx.Begin(cf.DefaultNamespace)
	release := sync.OnceFunc(tx.Release)
	defer release()
	tx.AddLock([]byte("last"), true)
	require.NoError(t, tx.Acquire())
	// Full pieces of keys that do not share the lock of the last key, so that the last key is alone in its piece.
	exists := []string{"EXISTS"}
	var items []string
	for i := 0; len(items) < 3*256; i++ {
		if key := fmt.Sprint("key:", i); !tx.Holds([]byte(key)) {
			items = append(items, rdbKey(key, "v"))
			exists = append(exists, key)
		}
	}
	c.Send(servertest.Encode("RDB", "LOAD", rdbFile(t, append(items, rdbKey("last", "v"))...)))
	servertest.Eventually(t, "the pieces before the last one are written",
		func() bool { return other.Do(exists...) == fmt.Sprintf(":%d\r\n", len(items)) })
	release()
	if got := c.Reply(); got != "+OK\r\n" {
		t.Error(got)
	}
	other.Want("EXISTS last", ":1\r\n")
}
