package topology

import (
	"fmt"
	"strings"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/server/command"
)

// Jobs are the current or the last migrations.
type Jobs struct{ Migrating, Importing *Job }

// Job is the migration of one range.
type Job struct {
	Range  cf.SlotRange
	Node   string // id of the destination; only of a range that leaves
	State  string // none, start or success; after a failure fail for a range that leaves, error for one that arrives
	Active bool   // the migration is running
}

// Running reports whether the job exists and is running.
func (j *Job) Running() bool { return j != nil && j.Active }

// busPort is the difference between a node's port and its bus port in Redis Cluster. Nothing listens on the bus port.
const busPort = 10000

// NodesText returns the lines of CLUSTER NODES:
//
//	<id> <host>:<port>@<port+10000> [myself,]master|slave[,fail] -|<master id> <now-1> <now> <version> connected
//	[<slots>]
//
// with [<range>->-<id>] and [<range>-<-<id>] on the line of this node while slots are migrated and imported. The times
// are Unix milliseconds.
func (t *Topology) NodesText(jobs Jobs, now time.Time) string {
	slots := t.SlotTexts()
	var b strings.Builder
	for i, n := range t.Nodes {
		t.AppendNode(&b, n, n == t.Self, now)
		if n.IsMaster() && slots[i] != "" {
			b.WriteString(" " + slots[i])
		}
		if j := jobs.Migrating; n == t.Self && j.Running() {
			fmt.Fprintf(&b, " [%s->-%s]", j.Range, j.Node)
		}
		if j := jobs.Importing; n == t.Self && j.Running() {
			from := ""
			if o := t.Owner(j.Range.First); o != nil {
				from = o.ID
			}
			fmt.Fprintf(&b, " [%s-<-%s]", j.Range, from)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (t *Topology) AppendNode(b *strings.Builder, n *Node, self bool, now time.Time) {
	role, master := "slave", n.Master
	if n.IsMaster() {
		role, master = "master", "-"
	}
	if self {
		role = "myself," + role
	}
	if n.Failed {
		role += ",fail"
	}
	ms := now.UnixMilli()
	fmt.Fprintf(b, "%s %s:%d@%d %s %s %d %d %d connected", n.ID, n.Host, n.Port, n.Port+busPort, role, master,
		ms-1, ms, t.Version)
}

// KeptJobs fills in the jobs that the marks describe when this process has had no job: the jobs belong to an earlier
// process or, in a replica, to the master. The controller that has begun a migration asks for its end, and would
// otherwise take it for a failed one.
func (t *Topology) KeptJobs(jobs Jobs) Jobs {
	for r := range t.marked(Leaving, Migrated) {
		if m, id := t.keptMark(r.First); jobs.Migrating == nil {
			jobs.Migrating = &Job{Range: r, Node: id, State: "start", Active: m == Leaving}
			if m == Migrated {
				jobs.Migrating.State = "success"
			}
		}
	}
	for r := range t.marked(Imported) {
		if jobs.Importing == nil {
			jobs.Importing = &Job{Range: r, State: "success"}
		}
	}
	return jobs
}

// InfoText returns the lines of CLUSTER INFO. The five fields of migrations have a blank after the colon, as in
// Kvrocks.
func (t *Topology) InfoText(jobs Jobs) string {
	assigned, masters := 0, map[uint16]bool{}
	for _, o := range t.owners {
		if o != 0 {
			assigned++
			masters[o] = true
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "cluster_state:ok\r\ncluster_slots_assigned:%d\r\ncluster_slots_ok:%d\r\n"+
		"cluster_slots_pfail:0\r\ncluster_slots_fail:0\r\ncluster_known_nodes:%d\r\ncluster_size:%d\r\n"+
		"cluster_current_epoch:%d\r\ncluster_my_epoch:%d\r\n",
		assigned, assigned, len(t.Nodes), len(masters), t.Version, t.Version)
	if j := jobs.Migrating; j != nil {
		fmt.Fprintf(&b, "migrating_slot(s): %s\r\ndestination_node: %s\r\nmigrating_state: %s\r\n",
			j.Range, j.Node, j.State)
	}
	if j := jobs.Importing; j != nil {
		fmt.Fprintf(&b, "importing_slot(s): %s\r\nimport_state: %s\r\n", j.Range, j.State)
	}
	return b.String()
}

// Shards returns the shards in the order of their masters in the topology.
func (t *Topology) Shards() []command.Shard {
	var all []command.Shard
	place := map[string]int{}
	for _, n := range t.Nodes {
		if n.IsMaster() {
			place[n.ID] = len(all)
			all = append(all, command.Shard{Nodes: []command.ShardNode{n.shardNode()}})
		}
	}
	for _, n := range t.Nodes {
		if i, ok := place[n.Master]; ok && !n.IsMaster() {
			all[i].Nodes = append(all[i].Nodes, n.shardNode())
		}
	}
	for r, n := range t.Ranges() {
		s := &all[place[n.ID]]
		s.Slots = append(s.Slots, r)
	}
	return all
}

func (n *Node) shardNode() command.ShardNode {
	return command.ShardNode{ID: n.ID, Host: n.Host, Port: n.Port, Replica: !n.IsMaster(), Failed: n.Failed}
}
