package server_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server"
	"github.com/basaltdb/basalt/server/replication/proto"
	"github.com/basaltdb/basalt/server/servertest"
)

// withoutLogs returns options of a database that deletes logs as soon as possible, without automatic compactions.
func withoutLogs() engine.Options {
	o := engine.DefaultRocksOptions()
	o.WALTTLSeconds, o.WALSizeLimitMB, o.DisableAutoCompactions = 0, 0, true
	return engine.Options{Rocks: o}
}

// quiet returns options of a database without automatic compactions.
func quiet() engine.Options {
	o := engine.DefaultRocksOptions()
	o.DisableAutoCompactions = true
	return engine.Options{Rocks: o}
}

// flushFiles writes all memtables to files.
func flushFiles(t testing.TB, db *engine.DB) {
	t.Helper()
	require.NoError(t, db.FlushMemtables())
}

// caughtUp waits until a replica has all writes of its master, and has acknowledged them: only then is the in-memory
// state that follows from the writes (functions, namespaces) up to date.
func caughtUp(t testing.TB, replica, master *servertest.Harness) {
	t.Helper()
	servertest.Eventually(t, "the replica has caught up", func() bool {
		seq := master.DB.LatestSequence()
		return replica.Replica().Up() && replica.DB.LatestSequence() == seq &&
			master.Master().AckedBy(seq) == len(master.Master().Replicas())
	})
}

// replicaOf returns the command that makes h a replica of m.
func replicaOf(h *servertest.Harness, m *servertest.Harness) string {
	return "REPLICAOF 127.0.0.1 " + strconv.Itoa(m.Port())
}

// TestReplicaOf: a server follows another server from the log or after a full synchronisation, and has its own replica.
// Each replica has the same records as its master, with the same sequence numbers.
func TestReplicaOf(t *testing.T) {
	for _, full := range []bool{false, true} {
		for _, rsid := range []string{"no", "yes"} {
			t.Run(fmt.Sprintf("full=%t,rsid=%s", full, rsid), func(t *testing.T) {
				o := quiet()
				if full {
					o = withoutLogs()
				}
				m := startWith(t, o, "use-rsid-psync", rsid, "requirepass", "secret", "repl-namespace-enabled", "yes")
				c := m.Dial(t)
				c.Want("AUTH secret", "+OK\r\n")
				fill(c, 0)
				if full {
					for i := range 3 {
						flushFiles(t, m.DB)
						fill(c, i)
					}
				}
				r := startWith(t, quiet(), "use-rsid-psync", rsid, "masterauth", "secret", "repl-namespace-enabled",
					"yes", "requirepass", "own")
				cr := r.Dial(t)
				cr.Want("AUTH own", "+OK\r\n")
				if full {
					fill(cr, 7)
					cr.Want("SET own past", "+OK\r\n")
				}
				cr.Want(replicaOf(r, m), "+OK\r\n")
				fill(c, 2)
				caughtUp(t, r, m)
				same(t, c, cr, 3)
				cr.Want("EXISTS own", ":0\r\n")
				sub := startWith(t, quiet(), "masterauth", "own")
				cs := sub.Dial(t)
				cs.Want(replicaOf(sub, r), "+OK\r\n")

				// The in-memory state follows.
				c.Want("NAMESPACE ADD ns token", "+OK\r\n")
				c.Do("SCRIPT", "LOAD", "return 'loaded'")
				c.Do("FUNCTION", "LOAD",
					"#!lua name=lib\nredis.register_function{function_name='f', callback=function() return 'one' end, "+
						"flags={'no-writes'}}")
				caughtUp(t, r, m)
				cr.Want("FCALL f 0", "$3\r\none\r\n")
				cr.Want("SCRIPT EXISTS "+loadedSHA, "*1\r\n:1\r\n")
				servertest.Eventually(t, "the namespace is known",
					func() bool { return r.Dial(t).Do("AUTH", "token") == "+OK\r\n" })
				c.Do("FUNCTION", "LOAD", "REPLACE",
					"#!lua name=lib\nredis.register_function{function_name='f', callback=function() return 'two' end, "+
						"flags={'no-writes'}}")
				c.Want("SCRIPT FLUSH", "+OK\r\n")
				caughtUp(t, r, m)
				cr.Want("FCALL f 0", "$3\r\ntwo\r\n")
				cr.Want("SCRIPT EXISTS "+loadedSHA, "*1\r\n:0\r\n")
				c.Want("NAMESPACE DEL ns", "+OK\r\n")
				servertest.Eventually(t, "the namespace is forgotten",
					func() bool { return r.Dial(t).Do("AUTH", "token") != "+OK\r\n" })
				for range 3 { // so that the caches have the value
					cr.Want("GET s0:1", "$9\r\nvaluemore\r\n")
				}
				c.Want("SET s0:1 changed", "+OK\r\n")
				caughtUp(t, r, m)
				cr.Want("GET s0:1", "$7\r\nchanged\r\n")

				// Clients of the replica see the change.
				watcher := r.Dial(t)
				watcher.Want("AUTH own", "+OK\r\n")
				watcher.Want("WATCH watched", "+OK\r\n")
				watcher.Want("MULTI", "+OK\r\n")
				watcher.Want("GET watched", "+QUEUED\r\n")
				reader := r.Dial(t)
				reader.Want("AUTH own", "+OK\r\n")
				reader.Send(servertest.Encode("XREAD", "BLOCK", "0", "STREAMS", "news", "$"))
				servertest.Eventually(t, "a client waits", func() bool { return r.Sessions().Counts().Blocked == 1 })
				listener := r.Dial(t)
				listener.Want("AUTH own", "+OK\r\n")
				listener.Want("SUBSCRIBE news", "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n")
				tracker := r.Dial(t)
				tracker.Do("HELLO", "3", "AUTH", "default", "own")
				tracker.Want("CLIENT TRACKING ON", "+OK\r\n")
				tracker.Want("GET watched", "_\r\n")
				c.Want("SET watched 1", "+OK\r\n")
				tracker.Expect(servertest.Invalidated("watched"))
				c.Want("XADD news 5-1 f v", "$3\r\n5-1\r\n")
				c.Want("PUBLISH news hello", ":0\r\n")
				if got := reader.Reply(); !strings.Contains(got, "5-1") {
					t.Errorf("XREAD: %q", got)
				}
				if got := listener.Reply(); !strings.Contains(got, "hello") {
					t.Errorf("SUBSCRIBE: %q", got)
				}
				watcher.Want("EXEC", "*-1\r\n")

				caughtUp(t, sub, r)
				enginetest.SameRecords(t, m.DB, r.DB)
				enginetest.SameRecords(t, r.DB, sub.DB)
				for _, h := range []*servertest.Harness{r, sub} {
					if a, b := m.DB.LatestSequence(), h.DB.LatestSequence(); a != b {
						t.Errorf("sequence numbers %d and %d", a, b)
					}
					k, e := h.DB.Count(cf.DefaultNamespace)
					mk, me := m.DB.Count(cf.DefaultNamespace)
					if k != mk || e != me {
						t.Errorf("%d keys, %d with an expiry, the master has %d and %d", k, e, mk, me)
					}
				}

				// The replica becomes the master.
				c.Want("WAIT 1 5000", ":1\r\n")
				cr.Want("REPLICAOF NO ONE", "+OK\r\n")
				cr.Want("SET after promotion", "+OK\r\n")
				caughtUp(t, sub, r)
				cs.Want("GET after", "$9\r\npromotion\r\n")
				enginetest.SameRecords(t, r.DB, sub.DB)
			})
		}
	}
}

// loadedSHA is the SHA-1 of "return 'loaded'".
const loadedSHA = "b534286061d4b9e4026607613b95c06c06015ae8"

// TestDemotion: clients that are blocked when the server becomes a replica get an error, as in Redis, and are
// disconnected.
func TestDemotion(t *testing.T) {
	m, h := servertest.Start(t), servertest.Start(t)
	var waiting []*servertest.Client
	for _, command := range []string{"BLPOP l 0", "XREAD BLOCK 0 STREAMS s $", "WAIT 1 0"} {
		c := h.Dial(t)
		c.Want("SET k v", "+OK\r\n")
		c.Send(command + "\r\n")
		waiting = append(waiting, c)
	}
	h.BlockedClients(t, len(waiting))
	c := h.Dial(t)
	c.Want(replicaOf(h, m), "+OK\r\n")
	for _, w := range waiting {
		if got := w.Closed(); got != "-UNBLOCKED force unblock from blocking operation, instance state changed "+
			"(master -> replica?)\r\n" {
			t.Errorf("%q", got)
		}
	}
	c.Want("BLPOP l 0", "-READONLY You can't write against a read only replica.\r\n")
}

// TestReplicaStates: the state that clients and Sentinel see of a replica, and the commands that it refuses.
func TestReplicaStates(t *testing.T) {
	m := startWith(t, quiet())
	c := m.Dial(t)
	c.Want("SET a 1", "+OK\r\n")
	r := startWith(t, quiet())
	cr := r.Dial(t)
	cr.Want("ROLE", "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n")
	// Sentinel sends SLAVEOF in a transaction.
	cr.Want("MULTI", "+OK\r\n")
	cr.Want(fmt.Sprintf("SLAVEOF 127.0.0.1 %d", m.Port()), "+QUEUED\r\n")
	cr.Want("PING", "+QUEUED\r\n")
	cr.Want("EXEC", "*2\r\n+OK\r\n+PONG\r\n")
	caughtUp(t, r, m)
	cr.Want("ROLE", fmt.Sprintf("*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:%d\r\n$9\r\nconnected\r\n:1\r\n", m.Port()))
	cr.Want(fmt.Sprintf("REPLICAOF 127.0.0.1 %d", m.Port()), "+OK\r\n") // the same master again
	for name, want := range map[string]string{
		"role": "slave", "master_host": "127.0.0.1", "master_port": strconv.Itoa(m.Port()), "master_link_status": "up",
		"master_sync_in_progress": "0", "slave_repl_offset": "1", "slave_priority": "100", "slave_read_only": "1",
		"connected_slaves": "0",
	} {
		if got := field(cr, "replication", name); got != want {
			t.Errorf("%s:%s, want %s", name, got, want)
		}
	}
	if got := field(c, "replication", "slave0"); !strings.Contains(got,
		fmt.Sprintf("ip=127.0.0.1,port=%d,state=online", r.Port())) {
		t.Errorf("slave0:%s", got)
	}
	cr.Want("SET b 1", "-READONLY You can't write against a read only replica.\r\n")
	for _, tt := range []struct{ command, want string }{
		{fmt.Sprintf("REPLICAOF 127.0.0.1 %d", r.Port()), "-ERR can't replicate itself\r\n"},
		{fmt.Sprintf("REPLICAOF localhost %d", r.Port()), "-ERR can't replicate itself\r\n"},
		{"REPLICAOF 127.0.0.1 x", "-ERR Invalid master port\r\n"},
		{"REPLICAOF nowhere.invalid 1", "-ERR Can not resolve hostname: nowhere.invalid\r\n"},
		{"REPLCONF listening-port 7000", "+OK\r\n"},
		{"SYNC", "-ERR " + string(proto.ErrRedis) + "\r\n"},
		{"PSYNC ? -1", "-ERR " + string(proto.ErrRedis) + "\r\n"},
	} {
		cr.Want(tt.command, tt.want)
	}
	c.Want(fmt.Sprintf("REPLICAOF 127.0.0.1 %d", r.Port()), "-ERR can't replicate your own replicas\r\n")

	// The master has ended.
	cr.Want("CONFIG SET slave-serve-stale-data no", "+OK\r\n")
	cr.Want("GET a", "$1\r\n1\r\n")
	m.Close()
	servertest.Eventually(t, "the link is down",
		func() bool { return field(cr, "replication", "master_link_status") == "down" })
	const stale = "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n"
	cr.Want("GET a", stale)
	cr.Want("CONFIG SET slave-serve-stale-data yes", "+OK\r\n")
	cr.Want("GET a", "$1\r\n1\r\n")
	cr.Want("CONFIG SET slave-read-only no", "+OK\r\n")
	cr.Want("SET b 1", "+OK\r\n")
	cr.Want("CONFIG SET slave-read-only yes", "+OK\r\n")
	cr.Want("SET b 2", "-READONLY You can't write against a read only replica.\r\n")
	if got := field(cr, "replication", "master_link_down_since_seconds"); got == "" || got[0] == '-' {
		t.Errorf("master_link_down_since_seconds:%s", got)
	}
	cr.Want("REPLICAOF NO ONE", "+OK\r\n")
	cr.Want("SET b 2", "+OK\r\n")
	cr.Want("ROLE", fmt.Sprintf("*3\r\n$6\r\nmaster\r\n:%d\r\n*0\r\n", r.DB.LatestSequence()))
}

// TestReplicaUnderLoad: clients write to the master and read from the replica during full synchronisations. They get
// replies, or the error LOADING while the database is being replaced. In the end both servers have the same records.
func TestReplicaUnderLoad(t *testing.T) {
	m := startWith(t, withoutLogs())
	r := startWith(t, quiet())
	stop := make(chan struct{})
	var wg sync.WaitGroup
	each := func(h *servertest.Harness, command func(i int) string, allowed ...string) {
		c := h.Dial(t)
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				got := c.Do(strings.Fields(command(i))...)
				if got[0] != '-' {
					continue
				}
				ok := false
				for _, a := range allowed {
					ok = ok || strings.HasPrefix(got, a)
				}
				if !ok {
					t.Errorf("%s: %s", command(i), got)
					return
				}
			}
		})
	}
	each(m, func(i int) string { return fmt.Sprintf("SET k%d v%d", i%500, i) })
	each(m, func(i int) string { return fmt.Sprintf("RPUSH l%d v%d", i%50, i) })
	each(m, func(i int) string { return fmt.Sprintf("ZADD z%d %d m%d", i%50, i, i%7) })
	each(r, func(i int) string { return fmt.Sprintf("GET k%d", i%500) }, "-LOADING")
	each(r, func(i int) string { return fmt.Sprintf("ZRANGE z%d 0 -1", i%50) }, "-LOADING")
	each(r, func(i int) string { return "INFO" }, "-LOADING")
	c := r.Dial(t)
	for range 3 {
		flushFiles(t, m.DB)
		flushFiles(t, m.DB)
		c.Want(replicaOf(r, m), "+OK\r\n")
		servertest.Eventually(t, "the link is up", r.Replica().Up)
		at := m.DB.LatestSequence() + 500
		servertest.Eventually(t, "the replica follows", func() bool { return r.DB.LatestSequence() > at })
		c.Want("REPLICAOF NO ONE", "+OK\r\n")
		c.Want("SET own write", "+OK\r\n") // so that the next synchronisation is a full one
	}
	c.Want(replicaOf(r, m), "+OK\r\n")
	servertest.Eventually(t, "the link is up", r.Replica().Up)
	close(stop)
	wg.Wait()
	caughtUp(t, r, m)
	enginetest.SameRecords(t, m.DB, r.DB)
	st, _ := r.Replica().Status()
	t.Logf("%d full synchronisations, sequence %d", st.FullSyncs, m.DB.LatestSequence())
}

// TestReplicaAfterRestart: a restarted replica follows the master that the settings name, and continues from the
// master's log.
func TestReplicaAfterRestart(t *testing.T) {
	m := startWith(t, quiet())
	c := m.Dial(t)
	fill(c, 0)
	dir := t.TempDir() + "/db"
	o := quiet()
	o.Dir = dir
	for i := range 3 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			r := startWith(t, o, "slaveof", "127.0.0.1 "+strconv.Itoa(m.Port()))
			fill(c, i+1)
			caughtUp(t, r, m)
			enginetest.SameRecords(t, m.DB, r.DB)
			if st, _ := r.Replica().Status(); st.FullSyncs != 0 {
				t.Errorf("%d full synchronisations", st.FullSyncs)
			}
		})
	}
	if _, err := os.Stat(dir + ".tmp"); err == nil {
		t.Error("the directory db.tmp exists")
	}
}

// TestFormerMaster: with use-rsid-psync, a former master becomes a replica of its successor without a full
// synchronisation, whether or not it was restarted, unless clients have written to it meanwhile. Sentinel's
// announcements do not count as writes.
func TestFormerMaster(t *testing.T) {
	for _, restart := range []bool{false, true} {
		for _, writes := range []bool{false, true} {
			t.Run(fmt.Sprintf("restart=%t,writes=%t", restart, writes), func(t *testing.T) {
				m := startWith(t, quiet(), "use-rsid-psync", "yes")
				r := startWith(t, quiet(), "use-rsid-psync", "yes")
				third := startWith(t, quiet(), "use-rsid-psync", "yes")
				for _, o := range []*servertest.Harness{r, third} {
					o.Dial(t).Want(replicaOf(o, m), "+OK\r\n")
				}
				m.Dial(t).Want("SET k before", "+OK\r\n")
				caughtUp(t, r, m)
				caughtUp(t, third, m)
				r.Dial(t).Want("REPLICAOF NO ONE", "+OK\r\n")
				r.Dial(t).Want("SET k after", "+OK\r\n")
				if restart {
					m.Close()
					m = &servertest.Harness{Server: server.New(servertest.Config(t, "use-rsid-psync", "yes"), m.DB, zap.NewNop()),
						DB: m.DB, Logs: m.Logs}
					require.NoError(t, m.Start())
					t.Cleanup(m.Close)
				}
				m.Dial(t).Want("PUBLISH __sentinel__:hello greeting", ":0\r\n")
				full := int64(0)
				if writes {
					m.Dial(t).Want("SET k other", "+OK\r\n")
					full = 1
				}
				servertest.Eventually(t, "the new master is no longer listed as a replica", func() bool {
					return m.Dial(t).Do(strings.Fields(replicaOf(m, r))...) == "+OK\r\n"
				})
				caughtUp(t, m, r)
				m.Dial(t).Want("GET k", "$5\r\nafter\r\n")
				if st, _ := m.Replica().Status(); st.FullSyncs != full {
					t.Errorf("%d full synchronisations, want %d", st.FullSyncs, full)
				}
			})
		}
	}
}

// TestKillMaster: CLIENT KILL on a replica closes the connection to the master, which is made again.
func TestKillMaster(t *testing.T) {
	m := startWith(t, quiet())
	r := startWith(t, quiet())
	c := r.Dial(t)
	c.Want("CLIENT KILL TYPE master", ":0\r\n")
	c.Want(replicaOf(r, m), "+OK\r\n")
	addr := "127.0.0.1:" + strconv.Itoa(m.Port())
	for _, tt := range []struct{ command, want string }{
		{"CLIENT KILL TYPE master", ":1\r\n"},
		{"CLIENT KILL TYPE normal ADDR " + addr, ":0\r\n"},
		{"CLIENT KILL ID 9999 ADDR " + addr, ":0\r\n"},
		{"CLIENT KILL ADDR " + addr, ":1\r\n"},
		{"CLIENT KILL " + addr, "+OK\r\n"},
		{"CLIENT KILL TYPE master ADDR 1.2.3.4:5", ":0\r\n"},
	} {
		servertest.Eventually(t, tt.command, func() bool { return c.Do(strings.Fields(tt.command)...) == tt.want })
	}
	m.Dial(t).Want("SET a b", "+OK\r\n")
	caughtUp(t, r, m)
	c.Want("GET a", "$1\r\nb\r\n")
}
