package server

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
)

// withoutLogs are options of a database that keeps no logs beyond those that it needs, with nothing compacted.
func withoutLogs() engine.Options {
	o := engine.DefaultRocksOptions()
	o.WALTTLSeconds, o.WALSizeLimitMB, o.DisableAutoCompactions = 0, 0, true
	return engine.Options{Rocks: o}
}

func quiet() engine.Options {
	o := engine.DefaultRocksOptions()
	o.DisableAutoCompactions = true
	return engine.Options{Rocks: o}
}

func flushFiles(t testing.TB, db *engine.DB) {
	t.Helper()
	for id := range cf.NumFamilies {
		if err := db.FlushMemtable(id); err != nil {
			t.Fatal(err)
		}
	}
}

// caughtUp waits until a replica has everything of its master, and has acknowledged it: until then what follows a write
// in memory (functions, namespaces) may be missing.
func caughtUp(t testing.TB, replica, master *harness) {
	t.Helper()
	eventually(t, "the replica has caught up", func() bool {
		seq := master.db.LatestSequence()
		return replica.replica.Up() && replica.db.LatestSequence() == seq &&
			master.master.AckedBy(seq) == len(master.master.Replicas())
	})
}

func (h *harness) replicaOf(m *harness) string {
	return "REPLICAOF 127.0.0.1 " + strconv.Itoa(m.port())
}

// TestReplicaOf: a server follows another one from the log and by a full synchronisation, a replica of it in turn,
// and each has record by record what its master has, with the same sequence numbers.
func TestReplicaOf(t *testing.T) {
	for _, full := range []bool{false, true} {
		for _, rsid := range []string{"no", "yes"} {
			t.Run(fmt.Sprintf("full=%t,rsid=%s", full, rsid), func(t *testing.T) {
				o := quiet()
				if full {
					o = withoutLogs()
				}
				m := startWith(t, o, "use-rsid-psync", rsid, "requirepass", "secret", "repl-namespace-enabled", "yes")
				c := m.dial(t)
				c.want("AUTH secret", "+OK\r\n")
				fill(c, 0)
				if full {
					for i := range 3 {
						flushFiles(t, m.db)
						fill(c, i)
					}
				}
				r := startWith(t, quiet(), "use-rsid-psync", rsid, "masterauth", "secret", "repl-namespace-enabled",
					"yes", "requirepass", "own")
				cr := r.dial(t)
				cr.want("AUTH own", "+OK\r\n")
				if full {
					fill(cr, 7)
					cr.want("SET own past", "+OK\r\n")
				}
				cr.want(r.replicaOf(m), "+OK\r\n")
				fill(c, 2)
				caughtUp(t, r, m)
				same(t, c, cr, 3)
				cr.want("EXISTS own", ":0\r\n")
				sub := startWith(t, quiet(), "masterauth", "own")
				cs := sub.dial(t)
				cs.want(sub.replicaOf(r), "+OK\r\n")

				// What is kept in memory follows.
				c.want("NAMESPACE ADD ns token", "+OK\r\n")
				c.do("SCRIPT", "LOAD", "return 'loaded'")
				c.do("FUNCTION", "LOAD",
					"#!lua name=lib\nredis.register_function{function_name='f', callback=function() return 'one' end, flags={'no-writes'}}")
				caughtUp(t, r, m)
				cr.want("FCALL f 0", "$3\r\none\r\n")
				cr.want("SCRIPT EXISTS "+loadedSHA, "*1\r\n:1\r\n")
				eventually(t, "the namespace is known", func() bool { return r.dial(t).do("AUTH", "token") == "+OK\r\n" })
				c.do("FUNCTION", "LOAD", "REPLACE",
					"#!lua name=lib\nredis.register_function{function_name='f', callback=function() return 'two' end, flags={'no-writes'}}")
				c.want("SCRIPT FLUSH", "+OK\r\n")
				caughtUp(t, r, m)
				cr.want("FCALL f 0", "$3\r\ntwo\r\n")
				cr.want("SCRIPT EXISTS "+loadedSHA, "*1\r\n:0\r\n")
				for range 3 { // into the caches
					cr.want("GET s0:1", "$9\r\nvaluemore\r\n")
				}
				c.want("SET s0:1 changed", "+OK\r\n")
				caughtUp(t, r, m)
				cr.want("GET s0:1", "$7\r\nchanged\r\n")

				// Clients of the replica hear of it.
				watcher := r.dial(t)
				watcher.want("AUTH own", "+OK\r\n")
				watcher.want("WATCH watched", "+OK\r\n")
				watcher.want("MULTI", "+OK\r\n")
				watcher.want("GET watched", "+QUEUED\r\n")
				reader := r.dial(t)
				reader.want("AUTH own", "+OK\r\n")
				reader.send(encode("XREAD", "BLOCK", "0", "STREAMS", "news", "$"))
				eventually(t, "a client waits", func() bool { return r.waiters.n.Load() == 1 })
				listener := r.dial(t)
				listener.want("AUTH own", "+OK\r\n")
				listener.want("SUBSCRIBE news", "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n")
				c.want("SET watched 1", "+OK\r\n")
				c.want("XADD news 5-1 f v", "$3\r\n5-1\r\n")
				c.want("PUBLISH news hello", ":0\r\n")
				if got := reader.reply(); !strings.Contains(got, "5-1") {
					t.Errorf("XREAD: %q", got)
				}
				if got := listener.reply(); !strings.Contains(got, "hello") {
					t.Errorf("SUBSCRIBE: %q", got)
				}
				watcher.want("EXEC", "*-1\r\n")

				caughtUp(t, sub, r)
				sameRecords(t, m.db, r.db)
				sameRecords(t, r.db, sub.db)
				for _, h := range []*harness{r, sub} {
					if a, b := m.db.LatestSequence(), h.db.LatestSequence(); a != b {
						t.Errorf("sequence numbers %d and %d", a, b)
					}
					k, e := h.db.Count(cf.DefaultNamespace)
					mk, me := m.db.Count(cf.DefaultNamespace)
					if k != mk || e != me {
						t.Errorf("%d keys, %d with an expiry, the master has %d and %d", k, e, mk, me)
					}
				}

				// The replica becomes the master.
				c.want("WAIT 1 5000", ":1\r\n")
				cr.want("REPLICAOF NO ONE", "+OK\r\n")
				cr.want("SET after promotion", "+OK\r\n")
				caughtUp(t, sub, r)
				cs.want("GET after", "$9\r\npromotion\r\n")
				sameRecords(t, r.db, sub.db)
			})
		}
	}
}

// loadedSHA is the SHA-1 of "return 'loaded'".
const loadedSHA = "b534286061d4b9e4026607613b95c06c06015ae8"

// TestReplicaStates: what clients and Sentinel see of a replica, and what it refuses.
func TestReplicaStates(t *testing.T) {
	m := startWith(t, quiet())
	c := m.dial(t)
	c.want("SET a 1", "+OK\r\n")
	r := startWith(t, quiet())
	cr := r.dial(t)
	cr.want("ROLE", "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n")
	// Sentinel's way.
	cr.want("MULTI", "+OK\r\n")
	cr.want(fmt.Sprintf("SLAVEOF 127.0.0.1 %d", m.port()), "+QUEUED\r\n")
	cr.want("PING", "+QUEUED\r\n")
	cr.want("EXEC", "*2\r\n+OK\r\n+PONG\r\n")
	caughtUp(t, r, m)
	cr.want("ROLE", fmt.Sprintf("*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:%d\r\n$9\r\nconnected\r\n:1\r\n", m.port()))
	cr.want(fmt.Sprintf("REPLICAOF 127.0.0.1 %d", m.port()), "+OK\r\n") // the same
	for name, want := range map[string]string{
		"role": "slave", "master_host": "127.0.0.1", "master_port": strconv.Itoa(m.port()), "master_link_status": "up",
		"master_sync_in_progress": "0", "slave_repl_offset": "1", "slave_priority": "100", "slave_read_only": "1", "connected_slaves": "0",
	} {
		if got := cr.field("replication", name); got != want {
			t.Errorf("%s:%s, want %s", name, got, want)
		}
	}
	if got := c.field("replication", "slave0"); !strings.Contains(got,
		fmt.Sprintf("ip=127.0.0.1,port=%d,state=online", r.port())) {
		t.Errorf("slave0:%s", got)
	}
	cr.want("SET b 1", "-READONLY You can't write against a read only replica.\r\n")
	for _, tt := range []struct{ command, want string }{
		{fmt.Sprintf("REPLICAOF 127.0.0.1 %d", r.port()), "-ERR can't replicate itself\r\n"},
		{fmt.Sprintf("REPLICAOF localhost %d", r.port()), "-ERR can't replicate itself\r\n"},
		{"REPLICAOF 127.0.0.1 x", "-ERR Invalid master port\r\n"},
		{"REPLICAOF nowhere.invalid 1", "-ERR Can not resolve hostname: nowhere.invalid\r\n"},
	} {
		cr.want(tt.command, tt.want)
	}
	c.want(fmt.Sprintf("REPLICAOF 127.0.0.1 %d", r.port()), "-ERR can't replicate your own replicas\r\n")

	// Without the master.
	cr.want("CONFIG SET slave-serve-stale-data no", "+OK\r\n")
	cr.want("GET a", "$1\r\n1\r\n")
	m.Close()
	eventually(t, "the link is down", func() bool { return cr.field("replication", "master_link_status") == "down" })
	const stale = "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.\r\n"
	cr.want("GET a", stale)
	cr.want("CONFIG SET slave-serve-stale-data yes", "+OK\r\n")
	cr.want("GET a", "$1\r\n1\r\n")
	cr.want("CONFIG SET slave-read-only no", "+OK\r\n")
	cr.want("SET b 1", "+OK\r\n")
	cr.want("CONFIG SET slave-read-only yes", "+OK\r\n")
	cr.want("SET b 2", "-READONLY You can't write against a read only replica.\r\n")
	if got := cr.field("replication", "master_link_down_since_seconds"); got == "" || got[0] == '-' {
		t.Errorf("master_link_down_since_seconds:%s", got)
	}
	cr.want("REPLICAOF NO ONE", "+OK\r\n")
	cr.want("SET b 2", "+OK\r\n")
	cr.want("ROLE", fmt.Sprintf("*3\r\n$6\r\nmaster\r\n:%d\r\n*0\r\n", r.db.LatestSequence()))
}

// TestReplicaUnderLoad: clients write to the master and read from the replica, which does full synchronisations
// meanwhile; nobody sees anything but values or that the database is being replaced, and in the end all is the same.
func TestReplicaUnderLoad(t *testing.T) {
	m := startWith(t, withoutLogs())
	r := startWith(t, quiet())
	stop := make(chan struct{})
	var wg sync.WaitGroup
	each := func(h *harness, command func(i int) string, allowed ...string) {
		c := h.dial(t)
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				got := c.do(strings.Fields(command(i))...)
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
	c := r.dial(t)
	for range 3 {
		flushFiles(t, m.db)
		flushFiles(t, m.db)
		c.want(r.replicaOf(m), "+OK\r\n")
		eventually(t, "the link is up", r.replica.Up)
		at := m.db.LatestSequence() + 500
		eventually(t, "the replica follows", func() bool { return r.db.LatestSequence() > at })
		c.want("REPLICAOF NO ONE", "+OK\r\n")
		c.want("SET own write", "+OK\r\n") // so that the next one is a full one
	}
	c.want(r.replicaOf(m), "+OK\r\n")
	eventually(t, "the link is up", r.replica.Up)
	close(stop)
	wg.Wait()
	caughtUp(t, r, m)
	sameRecords(t, m.db, r.db)
	st, _ := r.replica.Status()
	t.Logf("%d full synchronisations, sequence %d", st.FullSyncs, m.db.LatestSequence())
}

// TestReplicaAfterRestart: the settings tell what to follow, and the log of the master is enough.
func TestReplicaAfterRestart(t *testing.T) {
	m := startWith(t, quiet())
	c := m.dial(t)
	fill(c, 0)
	dir := t.TempDir() + "/db"
	o := quiet()
	o.Dir = dir
	for i := range 3 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			r := startWith(t, o, "slaveof", "127.0.0.1 "+strconv.Itoa(m.port()))
			fill(c, i+1)
			caughtUp(t, r, m)
			sameRecords(t, m.db, r.db)
			if st, _ := r.replica.Status(); st.FullSyncs != 0 {
				t.Errorf("%d full synchronisations", st.FullSyncs)
			}
		})
	}
	if _, err := os.Stat(dir + ".tmp"); err == nil {
		t.Error("db.tmp is there")
	}
}

// TestFormerMaster: with use-rsid-psync a master that starts again, or that goes on after a pause, is its successor's
// replica without a full synchronisation unless it has written something meanwhile. Sentinel's greetings are no writes.
func TestFormerMaster(t *testing.T) {
	for _, restart := range []bool{false, true} {
		for _, writes := range []bool{false, true} {
			t.Run(fmt.Sprintf("restart=%t,writes=%t", restart, writes), func(t *testing.T) {
				m := startWith(t, quiet(), "use-rsid-psync", "yes")
				r := startWith(t, quiet(), "use-rsid-psync", "yes")
				third := startWith(t, quiet(), "use-rsid-psync", "yes")
				for _, o := range []*harness{r, third} {
					o.dial(t).want(o.replicaOf(m), "+OK\r\n")
				}
				m.dial(t).want("SET k before", "+OK\r\n")
				caughtUp(t, r, m)
				caughtUp(t, third, m)
				r.dial(t).want("REPLICAOF NO ONE", "+OK\r\n")
				r.dial(t).want("SET k after", "+OK\r\n")
				if restart {
					m.Close()
					m = &harness{New(testConfig(t, "use-rsid-psync", "yes"), m.db, zap.NewNop()), m.db, m.logs}
					if err := m.Start(); err != nil {
						t.Fatal(err)
					}
					t.Cleanup(m.Close)
				}
				m.dial(t).want("PUBLISH __sentinel__:hello greeting", ":0\r\n")
				full := int64(0)
				if writes {
					m.dial(t).want("SET k other", "+OK\r\n")
					full = 1
				}
				eventually(t, "the new master is no replica any more", func() bool {
					return m.dial(t).do(strings.Fields(m.replicaOf(r))...) == "+OK\r\n"
				})
				caughtUp(t, m, r)
				m.dial(t).want("GET k", "$5\r\nafter\r\n")
				if st, _ := m.replica.Status(); st.FullSyncs != full {
					t.Errorf("%d full synchronisations, want %d", st.FullSyncs, full)
				}
			})
		}
	}
}
