package session_test

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/str"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/servertest"
)

// Package difftest compares replies with redis-server. The tests of this file need several connections or look into the
// database.

// TestDatabasesAreNamespaces: databases are stored in the namespaces in which Kvrocks 2.15 stores them.
func TestDatabasesAreNamespaces(t *testing.T) {
	h := servertest.Start(t, "redis-databases", "16")
	put := func(ns, value string) {
		require.NoError(t, h.DB.Update(ns, [][]byte{[]byte("k")}, func(tx *engine.Tx) error {
			_, err := str.Set(tx, []byte("k"), []byte(value), str.SetOptions{})
			return err
		}))
	}
	put("__namespace", "zero")
	put("db1", "one")
	put("db15", "fifteen")
	put("db16", "none")
	c := h.Dial(t)
	c.Want("GET k", "$4\r\nzero\r\n")
	for _, tt := range []struct{ db, want string }{{"1", "one"}, {"15", "fifteen"}, {"0", "zero"}} {
		c.Want("SELECT "+tt.db, "+OK\r\n")
		c.Want("GET k", fmt.Sprintf("$%d\r\n%s\r\n", len(tt.want), tt.want))
	}
	c.Want("SELECT 16", "-ERR DB index is out of range\r\n")
	c.Want("SELECT 7", "+OK\r\n")
	c.Want("SET new v", "+OK\r\n")
	if keys, _ := h.DB.Count("db7"); keys != 1 {
		t.Errorf("%d keys in db7", keys)
	}
	c.Want("CONFIG GET databases", servertest.Bulk("databases", "16"))
	var dbs []string
	for l := range strings.SplitSeq(c.Do("INFO", "keyspace"), "\r\n") {
		if strings.HasPrefix(l, "db") {
			dbs = append(dbs, l)
		}
	}
	const one = ":keys=1,expires=0,avg_ttl=0,expired=0"
	if got, want := strings.Join(dbs, " "), "db0"+one+" db1"+one+" db7"+one+" db15"+one; got != want {
		t.Errorf("INFO keyspace: %s, want %s", got, want)
	}
	for _, cmd := range []string{"CURRENT", "GET *", "GET x", "ADD a t", "SET a t", "DEL a", "NOSUCH"} {
		c.Want("NAMESPACE "+cmd, "-ERR namespace command is not allowed when redis-databases > 0\r\n")
	}
	c.Want("MOVEX new token", "-ERR Forbidden to move key when requirepass is empty\r\n")
}

// TestOneDatabase: without redis-databases every namespace has database 0 only.
func TestOneDatabase(t *testing.T) {
	h := servertest.Start(t, "requirepass", "p", "namespace.n", "t")
	for _, password := range []string{"p", "t"} {
		c := h.Dial(t)
		c.Want("AUTH "+password, "+OK\r\n")
		for _, tt := range []struct{ command, want string }{
			{"SET k " + password, "+OK\r\n"},
			{"SELECT 0", "+OK\r\n"},
			{"GET k", "$1\r\n" + password + "\r\n"},
			{"SELECT 1", "-ERR DB index is out of range\r\n"},
			{"GET k", "$1\r\n" + password + "\r\n"},
			{"MOVE k 1", "-ERR DB index is out of range\r\n"},
			{"MOVE k 0", "-ERR source and destination objects are the same\r\n"},
			{"COPY k l DB 1", "-ERR DB index is out of range\r\n"},
			{"COPY k l DB 0", ":1\r\n"},
			{"SWAPDB 0 0", "+OK\r\n"},
			{"SWAPDB 0 1", "-ERR DB index is out of range\r\n"},
			{"DBSIZE", ":2\r\n"},
		} {
			c.Want(tt.command, tt.want)
		}
		if got := c.Do("INFO", "keyspace"); !strings.Contains(got, "db0:keys=2,expires=0") {
			t.Errorf("INFO keyspace: %s", got)
		}
	}
	c := servertest.Start(t).Dial(t)
	c.Want("CONFIG GET databases", servertest.Bulk("databases", "1"))
}

// TestSelectInPipeline: each command of a pipeline works in the database that the last SELECT before it has selected.
func TestSelectInPipeline(t *testing.T) {
	h := servertest.Start(t, "redis-databases", "16")
	c := h.Dial(t)
	var commands []string
	var want strings.Builder
	for i := range 100 {
		db := i % 3
		commands = append(commands, "SELECT "+strconv.Itoa(db), "INCR n", "SET k"+strconv.Itoa(i)+" v", "GET n",
			"EXISTS k"+strconv.Itoa(i-1))
		fmt.Fprintf(&want, "+OK\r\n:%d\r\n+OK\r\n$%d\r\n%d\r\n:0\r\n", i/3+1, len(strconv.Itoa(i/3+1)), i/3+1)
	}
	c.Send(servertest.Pipeline(commands...))
	var got strings.Builder
	for range commands {
		got.WriteString(c.Reply())
	}
	if got.String() != want.String() {
		t.Errorf("%q\nwant %q", got.String(), want.String())
	}
	for i, n := range []int{35, 34, 34} {
		c.Want("SELECT "+strconv.Itoa(i), "+OK\r\n")
		c.Want("DBSIZE", ":"+strconv.Itoa(n)+"\r\n")
	}
}

func TestClientListShowsDatabase(t *testing.T) {
	h := servertest.Start(t, "redis-databases", "16")
	a, b := h.Dial(t), h.Dial(t)
	a.Want("SELECT 5", "+OK\r\n")
	b.Want("MULTI", "+OK\r\n")
	b.Want("SELECT 7", "+QUEUED\r\n")
	b.Want("EXEC", "*1\r\n+OK\r\n")
	list := a.Do("CLIENT", "LIST")
	if !strings.Contains(list, " db=5 ") || !strings.Contains(list, " db=7 ") || strings.Contains(list, "namespace=") {
		t.Errorf("CLIENT LIST: %s", list)
	}
	if info := b.Do("CLIENT", "INFO"); !strings.Contains(info, " db=7 ") {
		t.Errorf("CLIENT INFO: %s", info)
	}
	if list := servertest.Start(t).Dial(t).Do("CLIENT", "LIST"); !strings.Contains(list, " namespace=__namespace db=0 ") {
		t.Errorf("CLIENT LIST without databases: %s", list)
	}
}

// Clients wait for keys of their own database, and are served by all commands that write there.
func TestBlockedClientsOfDatabases(t *testing.T) {
	h := servertest.Start(t, "redis-databases", "16")
	zero, three, w := h.Dial(t), h.Dial(t), h.Dial(t)
	three.Want("SELECT 3", "+OK\r\n")
	zero.Send(servertest.Encode("BLPOP", "k", "0"))
	h.BlockedClients(t, 1)
	for _, tt := range []struct{ write, check, left string }{
		{"SELECT 3;RPUSH k a b;SELECT 0", "EXISTS k", ":0\r\n"},
		{"MULTI;SELECT 3;RPUSH k a;SELECT 4;RPUSH k x;DEL k;EXEC;SELECT 0", "EXISTS k", ":0\r\n"},
		{"SELECT 5;RPUSH k a;MOVE k 3;SELECT 0", "DBSIZE", ":0\r\n"},
		{"SELECT 5;RPUSH o a;COPY o k DB 3;DEL o;SELECT 0", "DBSIZE", ":0\r\n"},
		{"MULTI;RPUSH o a;SELECT 0;COPY o k DB 3;DEL o;EXEC", "DBSIZE", ":0\r\n"},
		{"SELECT 5;RPUSH k a;MULTI;MOVE k 3;EXEC;SELECT 0", "DBSIZE", ":0\r\n"},
	} {
		three.Send(servertest.Encode("BLPOP", "k", "0"))
		h.BlockedClients(t, 2)
		for _, cmd := range strings.Split(tt.write, ";") {
			if got := w.Do(strings.Fields(cmd)...); got[0] == '-' {
				t.Errorf("%s: %s", cmd, got)
			}
		}
		if got := three.Reply(); got != servertest.Bulk("k", "a") {
			t.Errorf("%s: %q", tt.write, got)
		}
		three.Want("DEL k", map[bool]string{true: ":1\r\n", false: ":0\r\n"}[strings.Contains(tt.write, "a b")])
		w.Want(tt.check, tt.left)
		h.BlockedClients(t, 1)
	}
	w.Do("RPUSH", "k", "z")
	if got := zero.Reply(); got != servertest.Bulk("k", "z") {
		t.Errorf("the client of database 0: %q", got)
	}
}

// TestWatchAcrossDatabases: changes of a key with the same name in another database do not affect EXEC, unless they
// also change the watched key.
func TestWatchAcrossDatabases(t *testing.T) {
	const nothing, ran = "*-1\r\n", "*1\r\n+PONG\r\n"
	h := servertest.Start(t, "redis-databases", "16")
	a, b := h.Dial(t), h.Dial(t)
	for _, tt := range []struct{ other, want string }{
		{"SELECT 1;SET k x;SELECT 0", ran},
		{"SET k x", nothing},
		{"SELECT 1;FLUSHDB;SELECT 0", ran},
		{"SELECT 1;FLUSHALL;SELECT 0", nothing},
		{"MULTI;SELECT 1;SET k x;EXEC;SELECT 0", ran},
		{"SELECT 1;MULTI;SELECT 0;SET k x;EXEC", nothing},
		{"MOVE k 1", nothing},
		{"SELECT 1;SET k x;COPY k k DB 0;SELECT 0", ran},
		{"SELECT 1;SET k x;COPY k k DB 0 REPLACE;SELECT 0", nothing},
	} {
		b.Do("FLUSHALL")
		b.Do("SET", "k", "v")
		a.Want("WATCH k", "+OK\r\n")
		b.DoAll(tt.other)
		a.Want("MULTI", "+OK\r\n")
		a.Want("PING", "+QUEUED\r\n")
		if got := a.Do("EXEC"); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.other, got, tt.want)
		}
		b.Do("SELECT", "0")
	}
	b.Do("FLUSHALL")
	a.Want("WATCH k", "+OK\r\n")
	b.Do("SELECT", "1")
	b.Do("SET", "k", "v")
	b.Do("MOVE", "k", "0")
	a.Want("MULTI", "+OK\r\n")
	a.Want("PING", "+QUEUED\r\n")
	a.Want("EXEC", nothing)
}

// TestSwapDB: SWAPDB alone, in a transaction and in a script, as other clients see it.
func TestSwapDB(t *testing.T) {
	for _, tt := range []struct{ name, swap, want string }{
		{"alone", "SWAPDB 0 1", "+OK\r\n"},
		{"the other way", "SWAPDB 1 0", "+OK\r\n"},
		{"in a transaction", "MULTI;SWAPDB 0 1;EXEC", "*1\r\n+OK\r\n"},
		{"in a script", "EVAL return{redis.call('swapdb',0,1)} 0", "*1\r\n+OK\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := servertest.Start(t, "redis-databases", "16")
			c, other, popper, watcher, cacher := h.Dial(t), h.Dial(t), h.Dial(t), h.Dial(t), h.Dial3(t)
			other.Want("SELECT 1", "+OK\r\n")
			other.Do("MSET", "k", "one", "only", "1")
			c.Want("SET k zero", "+OK\r\n")
			other.Do("RPUSH", "list", "x")
			watcher.Want("WATCH only", "+OK\r\n")
			cacher.Want("CLIENT TRACKING ON", "+OK\r\n")
			cacher.Want("GET k", "$4\r\nzero\r\n")
			popper.Send(servertest.Encode("BLPOP", "list", "0"))
			h.BlockedClients(t, 1)
			var got string
			for _, cmd := range strings.Split(tt.swap, ";") {
				if script, ok := strings.CutPrefix(cmd, "EVAL "); ok {
					got = c.Do("EVAL", strings.TrimSuffix(script, " 0"), "0")
				} else {
					got = c.Do(strings.Fields(cmd)...)
				}
			}
			if got != tt.want {
				t.Fatalf("%q, want %q", got, tt.want)
			}
			if got := popper.Reply(); got != "*2\r\n$4\r\nlist\r\n$1\r\nx\r\n" {
				t.Errorf("BLPOP: %q", got)
			}
			if got := cacher.Reply(); !strings.HasPrefix(got, ">2\r\n$10\r\ninvalidate") {
				t.Errorf("tracking: %q", got)
			}
			for _, want := range []struct {
				c               *servertest.Client
				command, answer string
			}{
				{c, "GET k", "$3\r\none\r\n"}, {c, "GET only", "$1\r\n1\r\n"}, {c, "DBSIZE", ":2\r\n"},
				{other, "GET k", "$4\r\nzero\r\n"}, {other, "DBSIZE", ":1\r\n"}, {other, "GET only", "$-1\r\n"},
				{watcher, "MULTI", "+OK\r\n"}, {watcher, "PING", "+QUEUED\r\n"}, {watcher, "EXEC", "*-1\r\n"},
				{c, "SWAPDB 3 3", "+OK\r\n"}, {c, "SWAPDB 0 16", "-ERR DB index is out of range\r\n"},
				{c, "SWAPDB x 0", "-ERR invalid first DB index\r\n"},
				{c, "SWAPDB 0 x", "-ERR invalid second DB index\r\n"},
			} {
				want.c.Want(want.command, want.answer)
			}
		})
	}
}

// TestFailedExecSelectsNothing: after a failed commit, the database is selected that was selected before EXEC.
func TestFailedExecSelectsNothing(t *testing.T) {
	h := servertest.Start(t, "redis-databases", "16")
	c := h.Dial(t)
	c.Want("SELECT 2", "+OK\r\n")
	c.DoAll("MULTI;SELECT 3;SET k v")
	h.DB.InjectWriteError(engine.NewError("ERR", "write failed"))
	c.Want("EXEC", "-ERR write failed\r\n")
	h.DB.InjectWriteError(nil)
	if info := c.Do("CLIENT", "INFO"); !strings.Contains(info, " db=2 ") {
		t.Errorf("CLIENT INFO: %s", info)
	}
	c.Want("SET k v", "+OK\r\n")
	c.Want("SELECT 3", "+OK\r\n")
	c.Want("DBSIZE", ":0\r\n")
	// A MOVE whose commit fails.
	c.Want("SELECT 2", "+OK\r\n")
	h.DB.InjectWriteError(engine.NewError("ERR", "write failed"))
	c.Want("MOVE k 3", "-ERR write failed\r\n")
	h.DB.InjectWriteError(nil)
	c.Want("DBSIZE", ":1\r\n")
	c.Want("MOVE k 3", ":1\r\n")
	c.Want("DBSIZE", ":0\r\n")
}

// Keyspace events name the database by its number.
func TestEventsOfDatabases(t *testing.T) {
	h := servertest.Start(t, "redis-databases", "16", "notify-keyspace-events", "KA")
	s, c := h.Dial(t), h.Dial(t)
	s.Do("PSUBSCRIBE", "__key*")
	for _, tt := range []struct{ command, want string }{
		{"SELECT 3", ""},
		{"SET k v", "3 k set"},
		{"MOVE k 4", "3 k move_from;4 k move_to"},
		{"MOVE k 4", ""},
		{"SELECT 4", ""},
		{"COPY k l DB 0", "0 l copy_to"},
		{"COPY k m", "4 m copy_to"},
		{"CONFIG SET notify-keyspace-events KAn", ""},
		{"MOVE k 3", "3 k new;4 k move_from;3 k move_to"},
		{"COPY m l DB 0 REPLACE", "0 l new;0 l copy_to"},
		{"MULTI", ""},
		{"SELECT 0", ""},
		{"DEL l", ""},
		{"SELECT 3", ""},
		{"DEL k", ""},
		{"EXEC", "0 l del;3 k del"},
	} {
		if got := c.Do(strings.Fields(tt.command)...); got[0] == '-' {
			t.Fatalf("%s: %s", tt.command, got)
		}
		for _, want := range strings.Split(tt.want, ";") {
			if want == "" {
				continue
			}
			f := strings.Split(s.Reply(), "\r\n")
			got := strings.NewReplacer("__keyspace@", "", "__:", " ").Replace(f[6]) + " " + f[8]
			if got != want {
				t.Errorf("%s: %s, want %s", tt.command, got, want)
			}
		}
	}
}

// TestTransfersBetweenDatabases: transactions move amounts, and MOVE moves a key, between databases. No client ever
// sees another sum, and no key is lost or doubled.
func TestTransfersBetweenDatabases(t *testing.T) {
	h := servertest.Start(t, "redis-databases", "4")
	const dbs, sum = 4, 400
	setup := h.Dial(t)
	for db := range dbs {
		setup.Do("SELECT", strconv.Itoa(db))
		setup.Do("SET", "account", strconv.Itoa(sum/dbs))
	}
	setup.Do("SET", "token", "x")
	var wg sync.WaitGroup
	for w := range 4 {
		c := h.Dial(t)
		wg.Go(func() {
			for i := range 60 {
				from, to := (w+i)%dbs, (w+i*3+1)%dbs
				c.Send(servertest.Pipeline("SELECT "+strconv.Itoa(from), "MULTI", "DECRBY account 3", "SELECT "+strconv.Itoa(to),
					"INCRBY account 3", "EXEC",
					"SELECT "+strconv.Itoa(from), "MOVE token "+strconv.Itoa(to),
					"MULTI", "SELECT 0", "GET account", "EXISTS token", "SELECT 1", "GET account", "EXISTS token",
					"SELECT 2", "GET account", "EXISTS token", "SELECT 3", "GET account", "EXISTS token", "EXEC"))
				for range 21 {
					c.Reply()
				}
				lines := strings.Split(strings.TrimSuffix(c.Reply(), "\r\n"), "\r\n")
				total, tokens := 0, 0
				for j, l := range lines {
					if strings.HasPrefix(l, "$") {
						n, _ := strconv.Atoi(lines[j+1])
						total += n
					} else if l == ":1" {
						tokens++
					}
				}
				if total != sum || tokens != 1 {
					t.Errorf("the sum is %d, %d tokens: %q", total, tokens, lines)
					return
				}
			}
		})
	}
	wg.Wait()
	keys := int64(0)
	for db := range dbs {
		setup.Do("SELECT", strconv.Itoa(db))
		n, _ := strconv.ParseInt(strings.Trim(setup.Do("DBSIZE"), ":\r\n"), 10, 64)
		keys += n
	}
	if keys != dbs+1 {
		t.Errorf("%d keys counted", keys)
	}
}

// TestAuthKeepsDatabase: a new login keeps the selected database; RESET does not.
func TestAuthKeepsDatabase(t *testing.T) {
	h := servertest.Start(t, "redis-databases", "4", "requirepass", "secret")
	c := h.Dial(t)
	for _, login := range []string{"AUTH secret", "AUTH default secret", "HELLO 2 AUTH default secret"} {
		c.Do("AUTH", "secret")
		c.Want("SELECT 3", "+OK\r\n")
		c.Do("SET", "k", "three")
		c.Do(strings.Fields(login)...)
		c.Want("GET k", "$5\r\nthree\r\n")
		c.Want("AUTH wrong", "-WRONGPASS invalid username-password pair or user is disabled.\r\n")
		c.Want("GET k", "$5\r\nthree\r\n")
		c.Do("RESET")
		c.Do("AUTH", "secret")
		c.Want("GET k", "$-1\r\n")
	}
}

// TestAuthInTransaction: the commands after AUTH in a transaction work in the namespace of the password.
func TestAuthInTransaction(t *testing.T) {
	h := servertest.Start(t, "requirepass", "p", "namespace.n", "t")
	c := h.Dial(t)
	c.Want("AUTH p", "+OK\r\n")
	c.DoAll("MULTI;SET k default;AUTH t;SET k n;GET k;AUTH wrong;GET k;CONFIG GET port")
	c.Want("EXEC",
		"*7\r\n+OK\r\n+OK\r\n+OK\r\n$1\r\nn\r\n-WRONGPASS invalid username-password pair or user is disabled.\r\n$1\r\n"+
			"n\r\n-ERR admin permission required to perform the command\r\n")
	c.Want("GET k", "$1\r\nn\r\n")
	c.Want("AUTH p", "+OK\r\n")
	c.Want("GET k", "$7\r\ndefault\r\n")
}

// BenchmarkMoveZSet moves a sorted set of 10,000 members to and fro.
func BenchmarkMoveZSet(b *testing.B) {
	h := servertest.Start(b, "redis-databases", "2")
	c := h.Dial(b)
	for i := range 100 {
		args := []string{"ZADD", "z"}
		for j := range 100 {
			args = append(args, strconv.Itoa(i*j), fmt.Sprintf("member-%d-%d", i, j))
		}
		c.Do(args...)
	}
	db := 0
	for b.Loop() {
		db = 1 - db
		if got := c.Do("MOVE", "z", strconv.Itoa(db)); got != ":1\r\n" {
			b.Fatal(got)
		}
		c.Do("SELECT", strconv.Itoa(db))
	}
}
