package server_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/internal/require"
	"github.com/basaltdb/basalt/server/servertest"
)

// Faults between a master and its replica: the connection goes through a proxy. Clients write to the master all the
// time. In the end both have the same records, byte by byte, and the same key count.

// throughProxy is a master m with some data, its replica r, the proxy p between them, and clients that write to the
// master until stop is called. The replica follows the target of the proxy.
type throughProxy struct {
	t    *testing.T
	m, r *servertest.Harness
	p    *servertest.Proxy
	stop func()
}

func newThroughProxy(t *testing.T, master, replica engine.Options, settings ...string) *throughProxy {
	x := &throughProxy{t: t}
	settings = append(settings, "use-rsid-psync", "yes")
	x.m = startBeside(t, master, settings...)
	x.p = servertest.NewProxy(t, x.m.Addr())
	x.m.Dial(t).RandomWrites(rand.New(rand.NewPCG(1, 1)), 300, false)
	x.r = startBeside(t, replica, "use-rsid-psync", "yes", "slaveof", "127.0.0.1 "+strconv.Itoa(x.p.Port()))
	x.write(x.m)
	return x
}

// startBeside is startWith for tests that run in parallel: it does not check for leaked native objects, which cannot be
// attributed to one of the tests.
func startBeside(t *testing.T, o engine.Options, settings ...string) *servertest.Harness {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir() + "/db"
	}
	db, err := engine.Open(o)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return startOn(t, db, settings...)
}

// write starts clients that write to a master until stop is called.
func (x *throughProxy) write(m *servertest.Harness) {
	var all sync.WaitGroup
	end := make(chan struct{})
	for i := range 3 {
		c := m.Dial(x.t)
		all.Go(func() {
			for r := rand.New(rand.NewPCG(uint64(i), 2)); ; {
				select {
				case <-end:
					return
				default:
					c.RandomWrites(r, 20, true)
				}
			}
		})
	}
	x.stop = sync.OnceFunc(func() {
		close(end)
		all.Wait()
	})
	x.t.Cleanup(x.stop)
}

// follows waits until the link is up and the replica has a new write.
func (x *throughProxy) follows() {
	x.t.Helper()
	at := x.m.DB.LatestSequence() + 1
	servertest.Eventually(x.t, "the replica follows", func() bool {
		return x.r.Replica().Up() && x.r.DB.LatestSequence() >= at
	})
}

// fulls returns the number of completed full synchronisations.
func (x *throughProxy) fulls() int64 {
	st, _ := x.r.Replica().Status()
	return st.FullSyncs
}

// check ends the writes, waits for the replica and compares.
func (x *throughProxy) check() {
	x.t.Helper()
	x.stop()
	caughtUp(x.t, x.r, x.m)
	enginetest.SameData(x.t, x.m.DB, x.r.DB)
}

// TestFaults applies faults to the link under load.
func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		name  string
		long  bool
		fault func(x *throughProxy)
		fulls int64 // full synchronisations
	}{
		{"nothing", false, func(x *throughProxy) { x.follows() }, 0},
		{"cut", true, func(x *throughProxy) {
			for range 3 {
				x.follows()
				x.p.Cut()
			}
		}, 0},
		{"cut within a frame", false, func(x *throughProxy) {
			for i := range int64(3) {
				x.p.After(5000+i*777, x.p.Cut)
				servertest.Eventually(x.t, "the link is cut", func() bool { return !x.r.Replica().Up() })
				x.follows()
			}
		}, 0},
		{"delay", true, func(x *throughProxy) {
			x.p.Slow(0, 20*time.Millisecond)
			x.follows()
			x.follows()
			x.p.Slow(0, 0)
		}, 0},
		{"byte by byte", false, func(x *throughProxy) {
			x.p.Slow(1, 0)
			x.follows()
			x.p.Slow(0, 0)
		}, 0},
		// Neither side notices the fault until the master disconnects the replica. Then the network works again.
		{"half-open", true, func(x *throughProxy) {
			x.follows()
			x.p.Hold(true)
			servertest.Eventually(x.t, "the replica is disconnected", func() bool { return x.m.Master().Connected() == 0 })
			x.p.Cut()
			x.p.Hold(false)
		}, 0},
		// The same without writes: the kernel accepts the pings, but no acknowledgement comes.
		{"half-open at rest", true, func(x *throughProxy) {
			x.follows()
			x.stop()
			caughtUp(x.t, x.r, x.m)
			x.p.Hold(true)
			c := x.m.Dial(x.t)
			c.Want("CONFIG SET repl-timeout 1", "+OK\r\n")
			servertest.Eventually(x.t, "the replica is disconnected", func() bool { return x.m.Master().Connected() == 0 })
			c.Want("CONFIG SET repl-timeout 60", "+OK\r\n")
			x.p.Cut()
			x.p.Hold(false)
			x.write(x.m)
		}, 0},
		{"refused for a while", true, func(x *throughProxy) {
			x.follows()
			x.p.Target("")
			x.p.Cut()
			servertest.Eventually(x.t, "the link is down", func() bool {
				st, _ := x.r.Replica().Status()
				return st.Err != ""
			})
			x.p.Target(x.m.Addr())
		}, 0},
		{"promoted and demoted", false, func(x *throughProxy) {
			x.follows()
			x.stop()
			caughtUp(x.t, x.r, x.m)
			c := x.r.Dial(x.t)
			c.Want("REPLICAOF NO ONE", "+OK\r\n")
			c.Want("REPLICAOF 127.0.0.1 "+strconv.Itoa(x.p.Port()), "+OK\r\n")
			x.write(x.m)
		}, 0},
		{"written to meanwhile", true, func(x *throughProxy) {
			x.follows()
			c := x.r.Dial(x.t)
			c.Want("REPLICAOF NO ONE", "+OK\r\n")
			c.RandomWrites(rand.New(rand.NewPCG(5, 5)), 100, false)
			c.Want("SET own write", "+OK\r\n")
			c.Want("REPLICAOF 127.0.0.1 "+strconv.Itoa(x.p.Port()), "+OK\r\n")
			servertest.Eventually(x.t, "a full synchronisation", func() bool { return x.fulls() == 1 })
		}, 1},
		// Another master with another history replaces the first one at the same address.
		{"another history", false, func(x *throughProxy) {
			x.follows()
			x.stop()
			other := startBeside(x.t, quiet(), "use-rsid-psync", "yes")
			other.Dial(x.t).RandomWrites(rand.New(rand.NewPCG(6, 6)), 1000, false)
			x.m = other
			x.p.Target(other.Addr())
			x.p.Cut()
			x.write(other)
			servertest.Eventually(x.t, "a full synchronisation", func() bool { return x.fulls() == 1 })
		}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.long && testing.Short() {
				t.Skip("long")
			}
			t.Parallel()
			x := newThroughProxy(t, quiet(), quiet(), "replication-send-timeout-ms", "500")
			tt.fault(x)
			x.check()
			if got := x.fulls(); got != tt.fulls {
				t.Errorf("%d full synchronisations, want %d", got, tt.fulls)
			}
		})
	}
}

// TestFaultsOfFullSync applies faults to a replica that synchronises in full, because its master keeps no log.
func TestFaultsOfFullSync(t *testing.T) {
	// lose disconnects the replica until the master's log no longer has the writes that the replica lacks.
	lose := func(x *throughProxy) {
		x.p.Target("")
		x.p.Cut()
		at := x.m.DB.LatestSequence()
		servertest.Eventually(x.t, "more is written", func() bool { return x.m.DB.LatestSequence() > at+50 })
		for range 2 {
			flushFiles(x.t, x.m.DB)
		}
	}
	for _, tt := range []struct {
		name  string
		long  bool
		fault func(x *throughProxy)
	}{
		{"the log is purged", false, func(x *throughProxy) {
			lose(x)
			x.p.Target(x.m.Addr())
		}},
		{"cut at every stage", false, func(x *throughProxy) {
			lose(x)
			for _, after := range []int64{20, 2000, 60_000} { // the answers, the list, files
				x.p.After(after, x.p.Cut)
			}
			x.p.Target(x.m.Addr())
		}},
		// Watching, tracking and blocked clients of the replica notice the changes in the copy.
		{"clients of the replica", false, func(x *throughProxy) {
			x.stop()
			c := x.m.Dial(x.t)
			c.Want("SET watched 1", "+OK\r\n")
			caughtUp(x.t, x.r, x.m)
			watcher, tracker, reader := x.r.Dial(x.t), x.r.Dial3(x.t), x.r.Dial(x.t)
			watcher.Want("WATCH watched", "+OK\r\n")
			watcher.Want("MULTI", "+OK\r\n")
			watcher.Want("GET watched", "+QUEUED\r\n")
			tracker.Want("CLIENT TRACKING ON", "+OK\r\n")
			tracker.Want("GET watched", "$1\r\n1\r\n")
			reader.Send(servertest.Encode("XREAD", "BLOCK", "0", "STREAMS", "news", "0"))
			x.r.BlockedClients(x.t, 1)
			x.p.Target("")
			x.p.Cut()
			c.Want("SET watched 2", "+OK\r\n")
			c.Want("XADD news 5-1 f v", "$3\r\n5-1\r\n")
			for range 2 {
				flushFiles(x.t, x.m.DB)
				c.Want("SET watched 3", "+OK\r\n")
			}
			x.p.Target(x.m.Addr())
			if got := reader.Reply(); !strings.Contains(got, "5-1") {
				x.t.Errorf("XREAD: %q", got)
			}
			tracker.Expect(servertest.Invalidated())
			watcher.Want("EXEC", "*-1\r\n")
		}},
		// INFO shows the progress of the transfer.
		{"slow", false, func(x *throughProxy) {
			lose(x)
			x.p.After(3000, func() { x.p.Slow(50, 10*time.Millisecond) })
			x.p.Target(x.m.Addr())
			c := x.r.Dial(x.t)
			var left int
			servertest.Eventually(x.t, "files are being fetched", func() bool {
				left, _ = strconv.Atoi(field(c, "replication", "master_sync_left_bytes"))
				return left > 0
			})
			for _, name := range []string{"master_sync_total_bytes", "master_sync_read_bytes", "master_sync_total_files",
				"master_sync_read_files", "master_sync_bytes_per_second", "master_sync_left_seconds"} {
				if n, err := strconv.Atoi(field(c, "replication", name)); err != nil || n < 0 {
					x.t.Errorf("%s is %d, %v", name, n, err)
				}
			}
			if n := field(c, "replication", "master_sync_in_progress"); n != "1" {
				x.t.Errorf("master_sync_in_progress is %s", n)
			}
			x.p.Slow(0, 0)
		}},
		// The log no longer contains the writes after the copy when the copy has arrived: another copy is made.
		{"the log is purged during the transfer", false, func(x *throughProxy) {
			lose(x)
			x.p.After(3000, func() {
				for range 2 {
					flushFiles(x.t, x.m.DB)
				}
			})
			x.p.Target(x.m.Addr())
		}},
		{"byte by byte", true, func(x *throughProxy) {
			lose(x)
			x.p.Slow(1, 0)
			x.p.Target(x.m.Addr())
			servertest.Eventually(x.t, "a full synchronisation", func() bool { return x.fulls() > 0 })
			x.p.Slow(0, 0)
		}},
		// The disk is full when the replica writes the stream after the copy. It continues when there is room again.
		{"disk full", true, func(x *throughProxy) {
			lose(x)
			x.p.Target(x.m.Addr())
			servertest.Eventually(x.t, "a full synchronisation", func() bool { return x.fulls() > 0 })
			x.r.DB.InjectWriteError(syscall.ENOSPC)
			servertest.Eventually(x.t, "the link is down", func() bool {
				st, _ := x.r.Replica().Status()
				return strings.Contains(st.Err, syscall.ENOSPC.Error())
			})
			x.r.DB.InjectWriteError(nil)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.long && testing.Short() {
				t.Skip("long")
			}
			t.Parallel()
			x := newThroughProxy(t, withoutLogs(), quiet())
			x.follows()
			before := x.fulls()
			tt.fault(x)
			servertest.Eventually(t, "a full synchronisation", func() bool { return x.fulls() > before })
			x.check()
		})
	}
}

// TestReplicaDiskFull fills the disk of a replica while it fetches the files of a full synchronisation. The replica
// shows the error and serves its old data. When the disk has free space again, it synchronises.
func TestReplicaDiskFull(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	disk := enginetest.MountSmall(t, 256<<20)
	o := quiet()
	o.Dir = disk + "/db"
	x := newThroughProxy(t, withoutLogs(), o)
	x.follows()
	x.stop()
	caughtUp(t, x.r, x.m)
	m := x.m.Dial(t)
	m.Want("SET old value", "+OK\r\n")
	caughtUp(t, x.r, x.m)
	x.p.Target("")
	x.p.Cut()
	rnd := rand.NewChaCha8([32]byte{})
	big := make([]byte, 1<<20) // does not compress
	for i := range 8 {
		rnd.Read(big)
		m.Do("SET", "big"+strconv.Itoa(i), string(big))
		flushFiles(t, x.m.DB) // the log loses the writes that the replica lacks
	}
	before := x.fulls()
	x.p.After(3_000_000, func() { // during the transfer of the table files of the big values
		enginetest.FillDisk(t, disk+"/ballast")
	})
	x.p.Target(x.m.Addr())
	servertest.Eventually(t, "the replica shows the error", func() bool {
		st, _ := x.r.Replica().Status()
		return strings.Contains(st.Err, syscall.ENOSPC.Error())
	})
	x.r.Dial(t).Want("GET old", "$5\r\nvalue\r\n")
	require.NoError(t, os.Remove(disk+"/ballast"))
	servertest.Eventually(t, "a full synchronisation", func() bool { return x.fulls() == before+1 })
	x.check()
}
