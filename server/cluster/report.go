package cluster

import (
	"fmt"
	"strings"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/server/command"
)

var _ command.Cluster = (*Map)(nil)

// busPort is added to the port of a node where Redis Cluster names that of its bus. Nobody listens there.
const busPort = 10000

// Version implements [command.Cluster].
func (m *Map) Version() int64 { return m.now.Load().Version }

// ID implements [command.Cluster].
func (m *Map) ID() string { return m.now.Load().ID }

// MayWrite implements [command.Cluster].
func (m *Map) MayWrite(key []byte) error {
	return m.now.Load().Route(cf.Slot(key), Access{Write: true})
}

// Nodes implements [command.Cluster].
func (m *Map) Nodes() (string, error) {
	t := m.now.Load()
	if t.Version < 0 {
		return "", ErrNotInitialized
	}
	return t.nodesText(m.jobs(), time.Now()), nil
}

// nodesText returns the lines of CLUSTER NODES:
//
//	<id> <host>:<port>@<port+10000> [myself,]master|slave[,fail] -|<master id> <now-1> <now> <version> connected
//	[<slots>]
//
// with [<range>->-<id>] and [<range>-<-<id>] on the line of this node while slots are migrated and imported. The times
// are Unix milliseconds.
func (t *Topology) nodesText(jobs Jobs, now time.Time) string {
	slots := t.slotTexts()
	var b strings.Builder
	for i, n := range t.Nodes {
		t.appendNode(&b, n, n == t.Self, now)
		if n.IsMaster() && slots[i] != "" {
			b.WriteString(" " + slots[i])
		}
		if j := jobs.Migrating; n == t.Self && j.active() {
			fmt.Fprintf(&b, " [%s->-%s]", j.Range, j.Node)
		}
		if j := jobs.Importing; n == t.Self && j.active() {
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

func (t *Topology) appendNode(b *strings.Builder, n *Node, self bool, now time.Time) {
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

// Replicas implements [command.Cluster].
func (m *Map) Replicas(id string) (string, error) {
	t := m.now.Load()
	if t.Version < 0 {
		return "", ErrNotInitialized
	}
	master := t.Node(id)
	if master == nil {
		return "", ErrNodeID
	}
	if !master.IsMaster() {
		return "", ErrNotMaster
	}
	var b strings.Builder
	now := time.Now()
	for n := range t.Replicas(master) {
		t.appendNode(&b, n, false, now)
		b.WriteByte('\n')
	}
	return b.String(), nil
}

// Info implements [command.Cluster].
func (m *Map) Info() (string, error) {
	t := m.now.Load()
	if t.Version < 0 {
		return "", ErrNotInitialized
	}
	var jobs Jobs
	if t.IsMaster() && !m.opt.IsReplica() {
		jobs = m.jobs()
	}
	return t.infoText(t.keptJobs(jobs)), nil
}

// keptJobs fills in what the marks tell of migrations when there were none in this process: there were in a former one,
// or, in a replica, in the master. The controller that has begun a migration asks for its end, and would hold it for
// one that has failed.
func (t *Topology) keptJobs(jobs Jobs) Jobs {
	for r := range t.marked(leaving, migrated) {
		if m, id := t.keptMark(r.First); jobs.Migrating == nil {
			jobs.Migrating = &Job{Range: r, Node: id, State: "start", Active: m == leaving}
			if m == migrated {
				jobs.Migrating.State = "success"
			}
		}
	}
	for r := range t.marked(imported) {
		if jobs.Importing == nil {
			jobs.Importing = &Job{Range: r, State: "success"}
		}
	}
	return jobs
}

// infoText returns the lines of CLUSTER INFO. The five fields of migrations have a blank after the colon, as in
// Kvrocks.
func (t *Topology) infoText(jobs Jobs) string {
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

// Shards implements [command.Cluster].
func (m *Map) Shards() ([]command.Shard, error) {
	t := m.now.Load()
	if t.Version < 0 {
		return nil, ErrNotInitialized
	}
	return t.shards(), nil
}

// shards returns the shards in the order in which the nodes were told.
func (t *Topology) shards() []command.Shard {
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
