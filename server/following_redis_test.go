package server_test

import (
	"bufio"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/crc64"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server"
	"github.com/basaltdb/basalt/server/replication/replica"
	"github.com/basaltdb/basalt/server/servertest"
	"github.com/basaltdb/basalt/server/wire/wiretest"
)

// redisMaster simulates a Redis master: its data is an RDB file and a stream of commands, and its backlog is the whole
// stream.
type redisMaster struct {
	t    *testing.T
	l    net.Listener
	mu   sync.Mutex
	more sync.Cond // the stream has grown, or connections were cut

	file   string
	stream string
	psyncs []string // the arguments of all PSYNC commands
	conns  []net.Conn
	acked  int // the largest acknowledged offset
}

const redisID = "0123456789abcdef0123456789abcdef01234567"

// rdbString is a string of up to 63 bytes in an RDB file.
func rdbString(s string) string { return string(rune(len(s))) + s }

// rdbFile is an RDB file of databases and keys.
func rdbFile(body string) string {
	file := "REDIS0011" + body + "\xff"
	return file + string(binary.LittleEndian.AppendUint64(nil, crc64.Update(0, []byte(file))))
}

// playRedis starts a master that has strings under keys in database 0.
func playRedis(t *testing.T, keys ...string) *redisMaster {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	body := "\xfe\x00"
	for _, k := range keys {
		body += "\x00" + rdbString(k) + rdbString("old")
	}
	m := &redisMaster{t: t, l: l, file: rdbFile(body)}
	m.more.L = &m.mu
	t.Cleanup(func() {
		l.Close()
		m.cut()
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			m.mu.Lock()
			m.conns = append(m.conns, c)
			m.mu.Unlock()
			go m.serve(c)
		}
	}()
	return m
}

// cut closes all connections.
func (m *redisMaster) cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.conns {
		c.Close()
	}
	m.conns = nil
	m.more.Broadcast()
}

// replicaOf returns the command that makes a server its replica.
func (m *redisMaster) replicaOf() string {
	return "REPLICAOF 127.0.0.1 " + strconv.Itoa(m.l.Addr().(*net.TCPAddr).Port)
}

// say appends commands to the stream.
func (m *redisMaster) say(lines ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stream += servertest.Pipeline(lines...)
	m.more.Broadcast()
}

// caughtUp waits until the whole stream was acknowledged.
func (m *redisMaster) caughtUp() {
	m.t.Helper()
	m.mu.Lock()
	m.stream += servertest.Pipeline("REPLCONF GETACK *")
	want := len(m.stream) - len(servertest.Pipeline("REPLCONF GETACK *"))
	m.more.Broadcast()
	m.mu.Unlock()
	servertest.Eventually(m.t, "the stream is acknowledged", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.acked >= want
	})
}

// asked returns the arguments of all PSYNC commands so far.
func (m *redisMaster) asked() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.psyncs)
}

// serve serves a replica.
func (m *redisMaster) serve(c net.Conn) {
	in := bufio.NewReader(c)
	for {
		words, err := wiretest.ReadCommand(in)
		if err != nil {
			return
		}
		switch strings.ToUpper(words[0]) {
		case "PING":
			io.WriteString(c, "+PONG\r\n")
		case "REPLCONF":
			if words[1] != "ACK" {
				io.WriteString(c, "+OK\r\n")
				break
			}
			n, _ := strconv.Atoi(words[2])
			m.mu.Lock()
			m.acked = max(m.acked, n)
			m.mu.Unlock()
		case "PSYNC":
			m.mu.Lock()
			m.psyncs = append(m.psyncs, words[1]+" "+words[2])
			file, at := m.file, 0
			if n, _ := strconv.Atoi(words[2]); words[1] == redisID && n >= 1 && n <= len(m.stream)+1 {
				io.WriteString(c, "+CONTINUE "+redisID+"\r\n")
				at = n - 1
			} else {
				fmt.Fprintf(c, "+FULLRESYNC %s 0\r\n$%d\r\n%s", redisID, len(file), file)
			}
			m.mu.Unlock()
			go m.feed(c, at)
		default:
			fmt.Fprintf(c, "-ERR unknown command '%s', with args beginning with: \r\n", words[0])
		}
	}
}

// feed sends the stream from an offset on.
func (m *redisMaster) feed(c net.Conn, at int) {
	for {
		m.mu.Lock()
		for at == len(m.stream) && slices.Contains(m.conns, c) {
			m.more.Wait()
		}
		part := m.stream[at:]
		alive := slices.Contains(m.conns, c)
		m.mu.Unlock()
		if !alive {
			return
		}
		if _, err := io.WriteString(c, part); err != nil {
			return
		}
		at += len(part)
	}
}

// TestRedisMaster: the state that a replica of a Redis master shows, and its continuation after a cut and after a
// restart.
func TestRedisMaster(t *testing.T) {
	m := playRedis(t, "a", "b")
	dir := t.TempDir() + "/db"
	o := quiet()
	o.Dir = dir
	h := startWith(t, o, "redis-databases", "4")
	c := h.Dial(t)
	c.Want("SET mine 1", "+OK\r\n")
	c.Want(m.replicaOf(), "+OK\r\n")
	m.say("SELECT 0", "SET a new", "MULTI", "INCR n", "RPUSH l x y", "EXEC", "SELECT 3", "SADD s 1 2")
	m.caughtUp()
	c.Want("MGET mine a b n", "*4\r\n$-1\r\n$3\r\nnew\r\n$3\r\nold\r\n$1\r\n1\r\n")
	c.Want("LRANGE l 0 -1", "*2\r\n$1\r\nx\r\n$1\r\ny\r\n")
	c.Want("SELECT 3", "+OK\r\n")
	c.Want("SCARD s", ":2\r\n")
	c.Want("SET a b", "-READONLY You can't write against a read only replica.\r\n")
	for name, want := range map[string]string{"role": "slave", "master_link_status": "up",
		"slave_repl_offset":       strconv.Itoa(len(m.stream)),
		"master_sync_in_progress": "0", "slave_full_syncs": "1"} {
		if got := field(c, "replication", name); got != want {
			t.Errorf("INFO: %s is %s, want %s", name, got, want)
		}
	}
	m.cut()
	m.say("SADD s 3") // database 3 is still selected
	m.caughtUp()
	c.Want("SCARD s", ":3\r\n")

	port := strings.Fields(m.replicaOf())[2]
	at := len(m.stream)
	h.Close()
	core, logs := observer.New(zap.DebugLevel)
	again := &servertest.Harness{Server: server.New(servertest.Config(t, "redis-databases", "4", "slaveof",
		"127.0.0.1 "+port), h.DB, zap.New(core)), DB: h.DB, Logs: logs}
	require.NoError(t, again.Start())
	t.Cleanup(again.Close)
	m.say("SADD s 4", "SELECT 0", "INCR n")
	m.caughtUp()
	c = again.Dial(t)
	c.Want("GET n", "$1\r\n2\r\n")
	c.Want("SELECT 3", "+OK\r\n")
	c.Want("SCARD s", ":4\r\n")
	if got := m.asked(); len(got) != 3 || got[0] != "? -1" || got[2] != fmt.Sprintf("%s %d", redisID, at+1) {
		t.Errorf("PSYNC %q, the last one before the restart was at %d", got, at)
	}
}

// TestRedisMasterEnds: REPLICAOF NO ONE keeps the data. A server that follows the master again starts with a full
// synchronisation.
func TestRedisMasterEnds(t *testing.T) {
	for _, rsid := range []string{"no", "yes"} {
		m := playRedis(t, "a")
		h := startWith(t, quiet(), "use-rsid-psync", rsid)
		c := h.Dial(t)
		c.Want(m.replicaOf(), "+OK\r\n")
		m.say("SELECT 0", "SET b 1")
		m.caughtUp()
		if !hasRedisState(t, h.DB) {
			t.Error("the database has no record of its position in the stream")
		}
		c.Want("REPLICAOF NO ONE", "+OK\r\n")
		if hasRedisState(t, h.DB) {
			t.Error("the record of the position in the stream is left")
		}
		m.say("SET b 2")
		c.Want("SET c 1", "+OK\r\n")
		c.Want("MGET a b c", "*3\r\n$3\r\nold\r\n$1\r\n1\r\n$1\r\n1\r\n")
		c.Want(m.replicaOf(), "+OK\r\n")
		m.caughtUp()
		c.Want("MGET a b c", "*3\r\n$3\r\nold\r\n$1\r\n2\r\n$-1\r\n")
		if got := m.asked(); !slices.Equal(got, []string{"? -1", "? -1"}) {
			t.Errorf("PSYNC %q", got)
		}
	}
}

// TestRedisMasterIndexes: a full synchronisation from a Redis master keeps the definitions of the search indexes, and
// indexes the keys that come, and so does the stream.
func TestRedisMasterIndexes(t *testing.T) {
	m := playRedis(t)
	body := ""
	for db, keys := range [][]string{{"shop:1", "shop:2", "other"}, {"shop:3"}} {
		body += "\xfe" + string(rune(db))
		for _, k := range keys {
			n := k[len(k)-1:]
			body += "\x04" + rdbString(k) + "\x03" + rdbString("color") + rdbString("red") + rdbString("n") + rdbString(n) +
				rdbString("v") + rdbString("1234567"+n)
		}
	}
	m.file = rdbFile(body)
	h := startWith(t, quiet(), "redis-databases", "2")
	c := h.Dial(t)
	for db := range 2 {
		c.Want(fmt.Sprint("SELECT ", db), "+OK\r\n")
		c.Want("HSET shop:0 color blue", ":1\r\n")
		c.Want("FT.CREATE shop PREFIX 1 shop: SCHEMA color TAG n NUMERIC "+
			"v VECTOR HNSW 6 TYPE FLOAT64 DIM 1 DISTANCE_METRIC L2", "+OK\r\n")
	}
	c.Want(m.replicaOf(), "+OK\r\n")
	m.say("SELECT 0", "HSET shop:4 color red,green", "DEL shop:2")
	m.caughtUp()
	c.Want("FT.SEARCH shop @color:{red} RETURN 1 n", "*3\r\n:1\r\n$6\r\nshop:3\r\n*2\r\n$1\r\nn\r\n$1\r\n3\r\n")
	c.Want("SELECT 0", "+OK\r\n")
	c.Want("FT.SEARCH shop @color:{red} RETURN 1 n",
		"*5\r\n:2\r\n$6\r\nshop:1\r\n*2\r\n$1\r\nn\r\n$1\r\n1\r\n$6\r\nshop:4\r\n*0\r\n")
	c.Want("FT.TAGVALS shop color", "*2\r\n$3\r\nred\r\n$5\r\ngreen\r\n")
	if got := c.Do("FT.SEARCH", "shop", "*=>[KNN 9 @v $v]", "PARAMS", "2", "v", "12345671", "RETURN", "1", "n"); got !=
		"*3\r\n:1\r\n$6\r\nshop:1\r\n*2\r\n$1\r\nn\r\n$1\r\n1\r\n" {
		t.Errorf("%q", got)
	}
	c.Want("REPLICAOF NO ONE", "+OK\r\n")
	c.Want("HSET shop:1 color white", ":0\r\n")
	c.Want("FT.SEARCH shop @color:{red} RETURN 1 n", "*3\r\n:1\r\n$6\r\nshop:4\r\n*0\r\n")
}

// TestRedisMasterSwaps: SWAPDB of a Redis master reaches the search indexes, too.
func TestRedisMasterSwaps(t *testing.T) {
	m := playRedis(t)
	h := startWith(t, quiet(), "redis-databases", "2")
	c := h.Dial(t)
	c.Want("FT.CREATE i SCHEMA t TAG", "+OK\r\n")
	c.Want(m.replicaOf(), "+OK\r\n")
	m.say("SELECT 0", "HSET a t x", "SELECT 1", "HSET b t x", "SWAPDB 0 1", "SELECT 0", "HSET c t x")
	m.caughtUp()
	c.Want("FT.SEARCH i @t:{x} RETURN 0", "*3\r\n:2\r\n$1\r\nb\r\n$1\r\nc\r\n")
}

// hasRedisState reports whether the database has a record of its position in the stream of a Redis master.
func hasRedisState(t *testing.T, db *engine.DB) (has bool) {
	t.Helper()
	require.NoError(t, db.View(cf.DefaultNamespace, nil, func(tx *engine.Tx) (err error) {
		_, has, err = tx.Get(cf.Propagate, []byte(cf.PropagateRedisMaster))
		return err
	}))
	return has
}

// TestRedisStateOfMaster: a server that starts as a master drops its position in the stream of a former master.
func TestRedisStateOfMaster(t *testing.T) {
	o := quiet()
	o.Dir = t.TempDir() + "/db"
	db := enginetest.OpenWith(t, o)
	enginetest.Update(t, db, nil, func(tx *engine.Tx) error {
		tx.Put(cf.Propagate, []byte(cf.PropagateRedisMaster), []byte("1 "+redisID+" 5 0"))
		return nil
	})
	s := server.New(servertest.Config(t), db, nil)
	require.NoError(t, s.Start())
	defer s.Close()
	if hasRedisState(t, db) {
		t.Error("the record is left")
	}
}

// TestRedisMasterUnknown: a command that cannot be applied ends the link with an error that names it. Earlier commands
// have taken effect, and later ones have not.
func TestRedisMasterUnknown(t *testing.T) {
	for _, tt := range []struct{ name, line, want string }{
		{"no such command", "FROBNICATE k", "FROBNICATE \"k\" in database 0: the command does not exist here"},
		{"an unknown subcommand", "FUNCTION FROBNICATE", "FUNCTION"},
		{"too few arguments", "SET k", "SET"},
		{"a database that does not exist", "SWAPDB 0 1", "SWAPDB"},
		{"a command that fails", "LPUSH a x", "LPUSH \"a\" in database 0: Operation against a key"},
		{"a command for clients only", "MONITOR", "MONITOR in database 0: the command does not belong in a stream of writes"},
		{"another database", "SELECT 1", "redis-databases is 0"},
	} {
		m := playRedis(t, "a")
		h := startWith(t, quiet())
		c := h.Dial(t)
		c.Want(m.replicaOf(), "+OK\r\n")
		m.say("SELECT 0", "SET before 1")
		m.caughtUp()
		m.say("MULTI", "INCR before", "EXEC", "MULTI", "SET inside 1", tt.line, "SET behind 1", "EXEC", "SET behind 2")
		servertest.Eventually(t, tt.name,
			func() bool { return strings.Contains(field(c, "replication", "master_link_error"), tt.want) })
		if got := field(c, "replication", "master_link_status"); got != "down" {
			t.Errorf("%s: the link is %s", tt.name, got)
		}
		c.Want("MGET before inside behind", "*3\r\n$1\r\n2\r\n$-1\r\n$-1\r\n")
	}
}

// TestRedisMasterExpiry: a key that has expired by the local clock is hidden from clients, but commands of the master
// find it until the master deletes it.
func TestRedisMasterExpiry(t *testing.T) {
	m := playRedis(t)
	h := startWith(t, quiet())
	c := h.Dial(t)
	c.Want(m.replicaOf(), "+OK\r\n")
	m.say("SELECT 0", "SET n 5 PXAT 1000", "RPUSH l a", "PEXPIREAT l 1000", "HSET h f 1 g 2",
		"HPEXPIREAT h 1000 FIELDS 1 f",
		"SET gone 1 PXAT 1000", "DEL gone", "EXPIRE l 100", "SETEX rel 100 v")
	m.caughtUp()
	c.Want("MGET n gone", "*2\r\n$-1\r\n$-1\r\n")
	c.Want("HGETALL h", "*2\r\n$1\r\ng\r\n$1\r\n2\r\n")
	for _, k := range []string{"l", "rel"} {
		if ttl := c.Do("TTL", k); ttl != ":100\r\n" && ttl != ":99\r\n" {
			t.Errorf("TTL %s: %q", k, ttl)
		}
	}
	m.say("INCR n", "PERSIST n", "RPUSH l b", "HINCRBY h f 1", "HPERSIST h FIELDS 1 f")
	m.caughtUp()
	c.Want("GET n", "$1\r\n6\r\n")
	c.Want("LRANGE l 0 -1", "*2\r\n$1\r\na\r\n$1\r\nb\r\n")
	c.Want("HMGET h f g", "*2\r\n$1\r\n2\r\n$1\r\n2\r\n")
}

// TestClientsSeeWritesOfRedisMaster: the master's writes reach subscribers and blocked clients, and change scripts.
func TestClientsSeeWritesOfRedisMaster(t *testing.T) {
	m := playRedis(t)
	h := startWith(t, quiet())
	c, sub, wait := h.Dial(t), h.Dial(t), h.Dial(t)
	c.Want(m.replicaOf(), "+OK\r\n")
	m.say("SELECT 0", "XADD x 1-1 f v")
	m.caughtUp()
	sub.Want("SUBSCRIBE ch", "*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n")
	wait.Send(servertest.Encode("XREAD", "BLOCK", "0", "STREAMS", "x", "$"))
	h.BlockedClients(t, 1)
	m.say("PUBLISH ch hello", "XADD x 2-1 f v", "SCRIPT LOAD return(1)",
		"EVAL redis.call('SET',KEYS[1],ARGV[1]) 1 k v", "EVAL redis.call('SET',KEYS[1],'w');error('x') 1 failed")
	m.caughtUp()
	sub.Expect("*3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$5\r\nhello\r\n")
	wait.Expect("*1\r\n*2\r\n$1\r\nx\r\n*1\r\n*2\r\n$3\r\n2-1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n")
	c.Want("MGET k failed", "*2\r\n$1\r\nv\r\n$1\r\nw\r\n")
	c.Want(fmt.Sprintf("EVALSHA %x 0", sha1.Sum([]byte("return(1)"))), ":1\r\n")
}

// TestRedisMasterInChain: a replica of the replica has the same records, also after a full synchronisation of the first
// replica.
func TestRedisMasterInChain(t *testing.T) {
	for _, rsid := range []string{"no", "yes"} {
		m := playRedis(t, "a", "b")
		h := startWith(t, quiet(), "use-rsid-psync", rsid)
		r := startWith(t, quiet(), "use-rsid-psync", rsid)
		c, cr := h.Dial(t), r.Dial(t)
		cr.Want(replicaOf(r, h), "+OK\r\n")
		cr.Want("SUBSCRIBE ch", "*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n")
		c.Want(m.replicaOf(), "+OK\r\n")
		m.say("SELECT 0", "SET a new", "HSET h f v")
		m.caughtUp()
		caughtUp(t, r, h)
		enginetest.SameRecords(t, h.DB, r.DB)
		c.Want("REPLICAOF NO ONE", "+OK\r\n")
		c.Want(m.replicaOf(), "+OK\r\n")
		m.say("SET b new")
		m.caughtUp()
		caughtUp(t, r, h)
		enginetest.SameRecords(t, h.DB, r.DB)
		m.say("PUBLISH ch again")
		cr.Expect("*3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$5\r\nagain\r\n")
		r.Dial(t).Want("MGET a b", "*2\r\n$3\r\nnew\r\n$3\r\nnew\r\n")
	}
}

// TestRedisMasterThenBasalt: a server that has followed a Redis master can follow another server of this program. They
// share no history, so the replica synchronises in full.
func TestRedisMasterThenBasalt(t *testing.T) {
	m, other := playRedis(t, "a"), startWith(t, quiet())
	co := other.Dial(t)
	for i := range 5000 {
		co.Do("SET", "k"+strconv.Itoa(i%10), strconv.Itoa(i))
	}
	h := startWith(t, quiet())
	c := h.Dial(t)
	c.Want(m.replicaOf(), "+OK\r\n")
	m.caughtUp()
	c.Want(replicaOf(h, other), "+OK\r\n")
	caughtUp(t, h, other)
	enginetest.SameRecords(t, other.DB, h.DB)
	if st, ok := h.Replica().Status(); !ok || st.Redis || st.State != replica.Connected {
		t.Errorf("the link: %+v", st)
	}
}
