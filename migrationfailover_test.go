package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/server/cluster/migration/stage"
	"github.com/basaltdb/basalt/server/servertest"
)

// TestMigrationFailover kills the master of the source or of the destination in a migration, before the controller
// gives the slots away, and makes its replica the master: the replica knows of the migration, so it sends clients after
// the slots, or takes them; what it had of them before does not come back. When the migration had not come so far that
// the destination has the slots, they stay, and table files that had come are deleted.
//
// The clients pause while a master dies: what its replica does not have yet is lost, as in every failover.
func TestMigrationFailover(t *testing.T) {
	type failover struct {
		step      stage.Stage // of the source, or one of fileSteps
		ofTarget  bool        // the destination is killed, not the source
		wantMoved bool
	}
	for _, test := range []struct {
		by       way
		replicas []int
		cases    []failover
		short    int // so many of them
	}{
		{batches, []int{0, 1}, []failover{
			{stage.Success, false, false},
			{stage.Moved, false, true},
			{stage.Done, true, true},
			{stage.Rest, false, false},
			{stage.Done, false, true},
			{stage.Moved, true, true},
		}, 3},
		{tableFiles, []int{0}, []failover{
			{stage.FilesAll, false, false},
			{stage.FilesBegun, false, false},
			{stage.FilesCame, false, false},
			{stage.Ingested, false, false},
			{stage.Success, false, false},
			{stage.Moved, false, true},
		}, 1},
	} {
		t.Run(string(test.by), func(t *testing.T) {
			m := startMover(t, cf.SlotRange{First: 1, Last: 40}, test.by, test.replicas...)
			m.load.resume()
			if testing.Short() {
				test.cases = test.cases[:test.short]
			}
			for _, f := range test.cases {
				// Clients write until the step quiet.
				shard, stops, quiet := m.owner, m.master(m.owner), stage.Forbidden
				if f.ofTarget {
					shard = 1 - shard
				}
				early := slices.Contains(fileSteps, f.step)
				if early {
					stops, quiet = m.master(1-m.owner), f.step
				}
				stops.stopAt(quiet)
				stops.stopAt(f.step)
				m.migrate()
				stops.stopped(quiet)
				m.load.pause()
				if quiet != f.step {
					stops.goOn(quiet)
				}
				stops.stopped(f.step)
				m.caughtUp(shard)
				dead := m.master(shard)
				dead.kill()
				m.shards[shard][0], m.shards[shard][1] = m.shards[shard][1], dead
				m.tell(m.owner)
				stops.goOn(f.step)
				m.load.resume()
				m.load.more(20) // whatever became of it, the clients go on
				if moved := m.end(m.master(m.owner)); moved != f.wantMoved {
					t.Errorf("moved: %v, want %v", moved, f.wantMoved)
				}
				m.settle(m.master(m.owner))
				if early { // it takes itself for the master, and the slots for its own, before the controller tells it
					m.load.pause()
				}
				dead.start()
				m.tell(m.owner)
				if early {
					m.load.resume()
				}
				m.check()
				m.home()
				if t.Failed() {
					t.Fatalf("case %+v", f)
				}
			}
		})
	}
}

// TestOwnerChangesWhileAsked: the replica of a source becomes the master before it knows of the migration, and the
// source hands the slots over before it knows of the new master. The destination has asked the source whether clients
// are redirected; it asks the new master, which has kept the slots, and deletes what has come.
func TestOwnerChangesWhileAsked(t *testing.T) {
	m := startMover(t, cf.SlotRange{First: 1, Last: 4}, batches, 0)
	source, replica, destination := m.shards[0][0], m.shards[0][1], m.shards[1][0]
	source.stopAt(stage.Log)
	source.stopAt(stage.Moved)
	m.migrate()
	source.stopped(stage.Log)
	m.caughtUp(0)
	m.shards[0][0], m.shards[0][1] = replica, source
	m.version++
	text, version := m.topology(0), strconv.Itoa(m.version)
	replica.want("+OK", "CLUSTERX", "SETNODES", text, version)
	source.goOn(stage.Log)
	source.stopped(stage.Moved)
	servertest.Eventually(t, "the destination asks the source", func() bool {
		return strings.Contains(source.do("INFO", "commandstats"), "cmdstat_persist:")
	})
	source.want("+OK", "CLUSTERX", "SETNODES", text, version)
	destination.want("+OK", "CLUSTERX", "SETNODES", text, version)
	source.goOn(stage.Moved)
	servertest.Eventually(t, "the destination deletes what has come", func() bool {
		return destination.do("DBSIZE") == ":0\r\n"
	})
	if got := destination.do("GET", m.fixed[0]); !strings.HasPrefix(got, "-MOVED ") {
		t.Errorf("the destination answers %q", got)
	}
	m.load.resume()
	m.check()
	m.migrate()
	m.settle(replica)
}

// TestImportFailover kills a destination that has got everything but has not said so, and makes its replica the master:
// the replica deletes what has come, for the source keeps the slots.
func TestImportFailover(t *testing.T) {
	m := startMover(t, cf.SlotRange{First: 1, Last: 4}, batches, 1)
	destination, replica := m.shards[1][0], m.shards[1][1]
	destination.stopAt(stage.Imported)
	m.migrate()
	destination.stopped(stage.Imported)
	m.caughtUp(1)
	if got := replica.do("DBSIZE"); got != ":600\r\n" {
		t.Errorf("the replica has %q keys", got)
	}
	destination.kill()
	destination.goOn(stage.Imported)
	m.shards[1][0], m.shards[1][1] = replica, destination
	m.tell(0)
	servertest.Eventually(t, "the new master deletes what has come", func() bool {
		return replica.do("DBSIZE") == ":0\r\n"
	})
	destination.start()
	m.tell(0)
	m.caughtUp(1)
	m.load.resume()
	m.settle(m.master(0))
}

// TestTableFilesWithReplicas: a source with a replica sends table files. A destination with a replica gets batches, and
// keeps sending its replica the log.
func TestTableFilesWithReplicas(t *testing.T) {
	m := startMover(t, cf.SlotRange{First: 1, Last: 40}, tableFiles, 0)
	m.load.resume()

	source, destination := m.master(0), m.master(1)
	destination.stopAt(stage.Ingested)
	m.migrate()
	destination.stopped(stage.Ingested)
	destination.goOn(stage.Ingested)
	if !m.end(source) {
		t.Fatal("the slots do not move")
	}
	m.settle(source)

	copies := fullCopies(source)
	m.home()
	if n := fullCopies(source); n != copies {
		t.Errorf("sync_full was %s and is %s", copies, n)
	}
}

// fullCopies returns the number of full synchronisations of a node's replicas.
func fullCopies(n *clusterNode) string {
	_, rest, _ := strings.Cut(n.do("INFO", "stats"), "\r\nsync_full:")
	line, _, _ := strings.Cut(rest, "\r\n")
	return line
}

// caughtUp waits until the replica of a shard has all writes of its master.
func (m *mover) caughtUp(shard int) {
	m.t.Helper()
	offset := func(n *clusterNode) string {
		_, rest, _ := strings.Cut(n.do("INFO", "replication"), "\r\nmaster_repl_offset:")
		line, _, _ := strings.Cut(rest, "\r\n")
		return line
	}
	master, replica := m.shards[shard][0], m.shards[shard][1]
	servertest.Eventually(m.t, "the replica has what its master has", func() bool {
		is := replica.do("INFO", "replication")
		return strings.Contains(is, "master_link_status:up") && offset(replica) == offset(master)
	})
}

// sameKeys compares the keys of a master and its replica. The load pauses.
func (m *mover) sameKeys(shard int) {
	m.t.Helper()
	m.caughtUp(shard)
	a, b := sorted(replyWords(m.shards[shard][0].do("KEYS", "*"))), sorted(replyWords(m.shards[shard][1].do("KEYS", "*")))
	if a != b {
		m.t.Errorf("master and replica of shard %d have %d and %d bytes of names", shard, len(a), len(b))
	}
}

// topology returns the text of SETNODES when a shard owns the slots.
func (m *mover) topology(owner int) string {
	slots := []string{fmt.Sprintf("0 %d-8191", m.slots.Last+1), "8192-16383"}
	slots[owner] += " " + m.slots.String()
	var text strings.Builder
	for i, shard := range m.shards {
		fmt.Fprintf(&text, "%s 127.0.0.1 %d master - %s\n", shard[0].id, shard[0].proxy.Port(), slots[i])
		for _, n := range shard[1:] {
			fmt.Fprintf(&text, "%s 127.0.0.1 %d slave %s\n", n.id, n.proxy.Port(), shard[0].id)
		}
	}
	return text.String()
}

// tell gives the slots to a shard as a controller does, which sends the topology to all reachable nodes, to the new
// owner first. Shard 0 also has the slots below 8192, and shard 1 the others.
func (m *mover) tell(owner int) {
	m.t.Helper()
	m.owner = owner
	m.version++
	text := m.topology(owner)
	for _, i := range []int{owner, 1 - owner} {
		for _, n := range m.shards[i] {
			if n.runs() {
				n.want("+OK", "CLUSTERX", "SETNODES", text, strconv.Itoa(m.version))
			}
		}
	}
}
