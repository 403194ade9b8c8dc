package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/cluster/topology"
	"github.com/basaltdb/basalt/server/command"
)

// Nodes of the tests: a and b are masters of some slots, c replicates b, d is a master without slots.
var (
	idA = strings.Repeat("a", topology.IDLen)
	idB = strings.Repeat("b", topology.IDLen)
	idC = strings.Repeat("c", topology.IDLen)
	idD = strings.Repeat("d", topology.IDLen)
)

var fourNodes = strings.NewReplacer("A", idA, "B", idB, "C", idC, "D", idD).Replace(
	"A 127.0.0.1 7001 master - 0-99 200\nB 127.0.0.1 7002 master - 100-199\n" +
		"C 127.0.0.1 7003 slave B\nD 127.0.0.1 7004 master -")

// server stands for the server that a Map changes.
type server struct {
	master   string // that it follows
	barriers int
	deleted  []string
	changes  int
	replicas int    // that Leaving has waited for
	record   string // of the marks, in the database
	keys     bool
	barrier  error
	err      error // of Follow, Lead and DeleteSlots
}

func open(t *testing.T, s *server, dir string) *Map {
	t.Helper()
	m := New(Options{
		Log: zap.NewNop(), Path: filepath.Join(dir, "nodes.conf"), Keep: true,
		IsSelf:    func(host string, port int) bool { return host == "127.0.0.1" && port == 7001 },
		IsReplica: func() bool { return s.master != "" },
		Follow: func(host string, port int) error {
			if s.err == nil {
				s.master = fmt.Sprintf("%s:%d", host, port)
			}
			return s.err
		},
		Lead:        func() error { s.master = ""; return s.err },
		Barrier:     func() error { s.barriers++; return s.barrier },
		DeleteSlots: func(r cf.SlotRange) error { s.deleted = append(s.deleted, r.String()); return s.err },
		Empty:       func() bool { return !s.keys },
		Changed:     func(_, _ *topology.Topology) { s.changes++ },
		Record:      func(marks string) error { s.record = marks; return nil },
		Recorded:    func() (string, error) { return s.record, nil },
		Replicated:  func(n int) { s.replicas = n },
	})
	must(t, m.Start())
	return m
}

// opened returns the Map of one of four nodes, the node with the id.
func opened(t *testing.T, id string) (*Map, *server) {
	t.Helper()
	s := &server{}
	m := open(t, s, t.TempDir())
	must(t, m.SetNodeID(id))
	must(t, m.SetNodes([]byte(fourNodes), 1, false))
	return m, s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func span(first, last uint16) cf.SlotRange { return cf.SlotRange{First: first, Last: last} }

// TestRoute checks the rules of routing in their order.
func TestRoute(t *testing.T) {
	none := func(m *Map) {}
	forbid := func(m *Map) { m.Forbid(span(0, 0)) }
	migrate := func(m *Map) {
		m.Forbid(span(0, 0))
		m.Migrated(span(0, 0), m.Topology().Node(idD), nil)
	}
	importing := func(m *Map) { m.Importing(span(0, 300)) }
	imported := func(m *Map) {
		m.Importing(span(0, 300))
		m.Imported(span(0, 300))
	}
	const moved = "MOVED %d 127.0.0.1:%d"
	read, write := topology.Access{}, topology.Access{Write: true}
	readOnly, asking := topology.Access{ReadOnly: true}, topology.Access{Asking: true}
	for _, test := range []struct {
		what  string
		id    string
		state func(m *Map)
		slot  uint16
		a     topology.Access
		want  string
	}{
		{"no owner", idA, none, 300, read, "CLUSTERDOWN Hash slot not served"},
		{"no owner, imported", idA, imported, 300, topology.Access{Asking: true}, "CLUSTERDOWN Hash slot not served"},
		{"migrated: read", idA, migrate, 0, read, fmt.Sprintf(moved, 0, 7004)},
		{"migrated: write", idA, migrate, 0, write, fmt.Sprintf(moved, 0, 7004)},
		{"migrated: asking", idA, migrate, 0, asking, fmt.Sprintf(moved, 0, 7004)},
		{"forbidden: write", idA, forbid, 0, write,
			"TRYAGAIN Can't write to slot being migrated which is in write forbidden phase"},
		{"forbidden: read", idA, forbid, 0, read, ""},
		{"beside a forbidden one: write", idA, forbid, 1, write, ""},
		{"ours: read", idA, none, 200, read, ""},
		{"ours: write", idA, none, 99, write, ""},
		{"importing", idA, importing, 100, read, fmt.Sprintf(moved, 100, 7002)},
		{"importing: READONLY", idA, importing, 100, readOnly, fmt.Sprintf(moved, 100, 7002)},
		{"importing: asking", idA, importing, 100, topology.Access{Asking: true, Write: true}, ""},
		{"not importing: asking", idA, none, 100, asking, fmt.Sprintf(moved, 100, 7002)},
		{"imported: write", idA, imported, 100, write, ""},
		{"of the master: read", idC, none, 100, read, fmt.Sprintf(moved, 100, 7002)},
		{"of the master: READONLY, read", idC, none, 100, readOnly, ""},
		{"of the master: READONLY, write", idC, none, 100, topology.Access{Write: true, ReadOnly: true},
			fmt.Sprintf(moved, 100, 7002)},
		{"of another master: READONLY", idC, none, 0, readOnly, fmt.Sprintf(moved, 0, 7001)},
		{"of the master, imported: asking", idC, importing, 100, asking, ""},
		{"of another node", idA, none, 100, read, fmt.Sprintf(moved, 100, 7002)},
		{"not in the cluster", strings.Repeat("e", topology.IDLen), none, 100, write, fmt.Sprintf(moved, 100, 7002)},
		{"not in the cluster, importing", strings.Repeat("e", topology.IDLen), imported, 100, asking,
			fmt.Sprintf(moved, 100, 7002)},
	} {
		t.Run(test.what, func(t *testing.T) {
			m, _ := opened(t, test.id)
			test.state(m)
			if got := text(m.Topology().Route(test.slot, test.a)); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// text returns the text of an error reply.
func text(err error) string {
	var e *engine.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Code + " " + e.Text
	}
	return err.Error()
}

func TestRouteKeys(t *testing.T) {
	m, _ := opened(t, idA)
	slot := func(key string) uint16 { return cf.Slot([]byte(key)) }
	must(t, m.SetSlots([]cf.SlotRange{span(slot("a"), slot("a"))}, idA, 2))
	for args, want := range map[string]string{
		"mget {a}1 {a}2": "",
		"mget {a} {b}":   "CROSSSLOT Attempted to access keys that don't hash to the same slot",
		"mget {c} {b}":   "CROSSSLOT Attempted to access keys that don't hash to the same slot", // before CLUSTERDOWN
		"mget b":         "CLUSTERDOWN Hash slot not served",
		"mget":           "",
	} {
		var list [][]byte
		var keys []command.KeyRef
		for i, word := range strings.Fields(args) {
			list = append(list, []byte(word))
			if i > 0 {
				keys = append(keys, command.KeyRef{Arg: i})
			}
		}
		slot, hasKey, err := topology.SlotOf(list, keys)
		if err == nil && hasKey {
			err = m.Topology().Route(slot, topology.Access{})
		}
		if got := text(err); got != want || hasKey != (len(keys) > 0) {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
	if got := text(topology.None("").Settle().Route(7, topology.Access{})); got != "CLUSTERDOWN Hash slot not served" {
		t.Error("without a topology:", got)
	}
}

func TestVersions(t *testing.T) {
	m, s := opened(t, idA)
	changes := s.changes
	for _, test := range []struct {
		version int64
		force   bool
		want    string
	}{
		{-1, false, "ERR Invalid cluster version"}, {-1, true, "ERR Invalid cluster version"},
		{0, false, "ERR Invalid cluster version"}, {1, false, ""}, {0, true, ""}, {5, false, ""},
	} {
		if got := text(m.SetNodes([]byte(fourNodes), test.version, test.force)); got != test.want {
			t.Errorf("%+v: %q", test, got)
		}
	}
	if m.Version() != 5 || s.changes != changes+2 {
		t.Error(m.Version(), s.changes-changes)
	}
	for _, version := range []int64{0, 5, 7, 6} {
		want := map[bool]string{false: "ERR Invalid cluster version"}[version == 6]
		before := m.Topology()
		got := text(m.SetSlots([]cf.SlotRange{span(5, 7), span(300, 300)}, idD, version))
		if got != want || want != "" && m.Topology() != before {
			t.Errorf("SETSLOT %d: %q", version, got)
		}
	}
	if got := text(m.SetSlots(nil, idC, 7)); got != "ERR The node isn't a master" {
		t.Error(got)
	}
	if got := text(m.SetSlots(nil, strings.Repeat("e", topology.IDLen), 7)); got != "ERR No this node in the cluster" {
		t.Error(got)
	}
	if got := m.Topology().SlotTexts(); !slices.Equal(got, []string{"0-4 8-99 200", "100-199", "", "5-7 300"}) {
		t.Errorf("%q", got)
	}
}

// A node without an id finds itself by its address. FORCE makes it look again.
func TestOwnID(t *testing.T) {
	s := &server{}
	m := open(t, s, t.TempDir())
	must(t, m.SetNodes([]byte(fourNodes), 1, false))
	if m.ID() != idA {
		t.Error(m.ID())
	}
	must(t, m.SetNodeID(idD))
	must(t, m.SetNodes([]byte(fourNodes), 2, false))
	if m.ID() != idD {
		t.Error(m.ID())
	}
	must(t, m.SetNodes([]byte(fourNodes), 2, true))
	if m.ID() != idA {
		t.Error(m.ID())
	}
}

// The role follows the topology: a replica follows its master, and no master when it has left the topology.
func TestRole(t *testing.T) {
	m, s := opened(t, idC)
	if s.master != "127.0.0.1:7002" {
		t.Errorf("follows %q", s.master)
	}
	swapped := strings.Replace(strings.Replace(fourNodes, idB, "X", 1), idC, idB, 1)
	swapped = strings.Replace(strings.Replace(swapped, "X", idC, 1), "slave "+idB, "slave "+idC, 1)
	must(t, m.SetNodes([]byte(swapped), 2, false))
	if s.master != "" || !m.Topology().Owns(100) {
		t.Errorf("follows %q\n%s", s.master, swapped)
	}
	must(t, m.SetNodes([]byte(fourNodes), 3, false))
	must(t, m.SetNodes([]byte(idA+" 127.0.0.1 7001 master - 0-16383"), 4, false))
	if s.master != "" || m.Topology().Self != nil {
		t.Errorf("follows %q", s.master)
	}
	s.err = errors.New("no")
	if got := text(m.SetNodes([]byte(fourNodes), 5, false)); got != "ERR failed to add master: no" || m.Version() != 5 {
		t.Error(got, m.Version())
	}
}

// The keys of migrated slots are deleted when the slots belong to another node, and not before.
func TestMigratedAreDeleted(t *testing.T) {
	m, s := opened(t, idA)
	must(t, m.Forbid(span(0, 9)))
	must(t, m.Migrated(span(0, 9), m.Topology().Node(idD), nil))
	must(t, m.SetNodes([]byte(strings.Replace(fourNodes, "7003", "7013", 1)), 2, false)) // another shard's matter
	if got := text(m.Topology().Route(3, topology.Access{})); got != "MOVED 3 127.0.0.1:7004" || s.deleted != nil {
		t.Error(got, s.deleted)
	}
	must(t, m.SetSlots([]cf.SlotRange{span(0, 3), span(50, 50)}, idD, 3))
	if got := text(m.Topology().Route(50, topology.Access{})); got != "MOVED 50 127.0.0.1:7004" {
		t.Error(got)
	}
	must(t, m.SetNodes([]byte(strings.Replace(strings.Replace(fourNodes, "0-99", "10-99", 1), "7004 master -",
		"7004 master - 0-9", 1)), 4, false))
	if !slices.Equal(s.deleted, []string{"0-3", "4-9"}) {
		t.Error(s.deleted)
	}
	if got := text(m.Topology().Route(50, topology.Access{})); got != "" {
		t.Error(got)
	}
}

// A mark ends when the owner of the slot changes, with another id, with FORCE, and with the destination.
func TestMarksEnd(t *testing.T) {
	for what, change := range map[string]func(m *Map) error{
		"force": func(m *Map) error { return m.SetNodes([]byte(fourNodes), 2, true) },
		"no destination": func(m *Map) error {
			return m.SetNodes([]byte(fourNodes[:strings.LastIndex(fourNodes, "\n")]), 2, false)
		},
		"id": func(m *Map) error {
			return errors.Join(m.SetNodeID(idB), m.SetNodeID(idA))
		},
	} {
		m, s := opened(t, idA)
		must(t, m.Forbid(span(0, 9)))
		must(t, m.Migrated(span(0, 9), m.Topology().Node(idD), nil))
		must(t, change(m))
		if got := text(m.Topology().Route(3, topology.Access{Write: true})); got != "" {
			t.Errorf("%s: %s", what, got)
		}
		if what != "id" && s.deleted != nil {
			t.Errorf("%s: deleted %q", what, s.deleted)
		}
	}
	m, _ := opened(t, idD)
	must(t, m.Imported(span(100, 109)))
	failover := strings.NewReplacer("7002 master - 100-199", "7002 slave "+idC, "7003 slave "+idB, "7003 master - 100-199")
	must(t, m.SetNodes([]byte(failover.Replace(fourNodes)), 2, false))
	if _, from, ok := m.Topology().Arrival(); !ok || from.ID != idC { // which may not know of the migration
		t.Error("the new owner is not asked")
	}
	m, _ = opened(t, idD)
	must(t, m.Imported(span(0, 9)))
	must(t, m.SetNodes([]byte(strings.Replace(fourNodes, "0-99", "10-99", 1)), 2, false))
	must(t, m.SetNodes([]byte(fourNodes), 3, false))
	if got := text(m.Topology().Route(3, topology.Access{})); got != "MOVED 3 127.0.0.1:7001" {
		t.Error(got)
	}
}

// Before slots leave, all replicas are waited for that the controller takes for alive.
func TestLeavingAwaitsReplicas(t *testing.T) {
	m, s := opened(t, idB)
	nodes := fourNodes + "\n" + strings.Repeat("e", topology.IDLen) + " 127.0.0.1 7005 slave,fail " + idB
	must(t, m.SetNodes([]byte(nodes), 2, false))
	must(t, m.Leaving(span(100, 109), m.Topology().Node(idD)))
	if s.replicas != 1 {
		t.Errorf("%d replicas", s.replicas)
	}
}

// A write pause fails if it cannot wait for a script.
func TestForbidFails(t *testing.T) {
	m, s := opened(t, idA)
	s.barrier = errors.New("busy")
	if err := m.Forbid(span(0, 9)); err != s.barrier {
		t.Error(err)
	}
	if got := text(m.Topology().Route(3, topology.Access{Write: true})); got != "" {
		t.Error(got)
	}
	s.barrier = nil
	must(t, m.Forbid(span(0, 9)))
	m.Allow(span(0, 9))
	if got := text(m.Topology().Route(3, topology.Access{Write: true})); got != "" || s.barriers != 2 {
		t.Error(got, s.barriers)
	}
}

// While a destination is asked about a migration, no other one begins: the slots of both could become one range after
// the next start, and a destination that has only one of them refuses the range.
func TestMigrateInDoubt(t *testing.T) {
	dir := t.TempDir()
	s := &server{}
	m := open(t, s, dir)
	must(t, m.SetNodes([]byte(fourNodes), 7, false))
	must(t, m.Leaving(span(0, 9), m.Topology().Node(idD)))
	m = open(t, s, dir)
	if err := m.Migrate(span(10, 19), idD, nil); err != topology.ErrDoubt {
		t.Error(err)
	}
	m.Stays(span(0, 9))
	if err := m.Migrate(span(10, 19), idD, nil); err == topology.ErrDoubt {
		t.Error(err)
	}
}

// The files contain what was in force, including the marks of migrations.
func TestPersistence(t *testing.T) {
	dir := t.TempDir()
	s := &server{}
	m := open(t, s, dir)
	must(t, m.SetNodes([]byte(fourNodes), 7, false))
	must(t, m.Forbid(span(0, 9)))
	must(t, m.Migrated(span(0, 9), m.Topology().Node(idD), nil))
	must(t, m.Imported(span(100, 101)))
	path := filepath.Join(dir, "nodes.conf")
	file, err := os.ReadFile(path)
	must(t, err)
	want := "version 7\nid A\nnode A 127.0.0.1 7001 master -  0-99 200\nnode B 127.0.0.1 7002 master -  100-199\n" +
		"node C 127.0.0.1 7003 slave B \nnode D 127.0.0.1 7004 master - \n"
	if want = strings.NewReplacer("A", idA, "B", idB, "C", idC, "D", idD).Replace(want); string(file) != want {
		t.Errorf("%s\nwant\n%s", file, want)
	}
	again := open(t, s, dir)
	// Until the owner was asked:
	if got := text(again.Topology().Route(100, topology.Access{})); got != text(topology.ErrDoubt) {
		t.Error(got)
	}
	again.Confirmed(span(100, 101))
	if !reflect.DeepEqual(m.Topology(), again.Topology()) {
		t.Error("another topology after the start")
	}

	// The process ends between the write of a topology and the deletion.
	s.err = errors.New("full")
	if err := again.SetSlots([]cf.SlotRange{span(0, 3)}, idD, 8); err == nil {
		t.Fatal("no error")
	}
	s.err, s.deleted = nil, nil
	again = open(t, s, dir)
	if again.Version() != 8 || !slices.Equal(s.deleted, []string{"0-3"}) {
		t.Error(again.Version(), s.deleted)
	}
	s.deleted = nil
	again = open(t, s, dir)
	if got := text(again.Topology().Route(4, topology.Access{})); s.deleted != nil || got != "MOVED 4 127.0.0.1:7004" {
		t.Error(s.deleted, got)
	}
	must(t, again.Reset())
	if open(t, s, dir).Version() != -1 {
		t.Error("a version after RESET")
	}
}

// A file of Kvrocks is accepted; a malformed one is not.
func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nodes.conf")
	for file, want := range map[string]string{
		"version 3\nid A\nnode A 127.0.0.1 7001 master -  0-1 3\nnode B 127.0.0.1 7002 slave A \n": "",
		"version -1\nid A\n": "", "version -1\nid \n": "",
		"version x\n": "Invalid cluster version", "version 1\nid abc\n": "Invalid cluster node id",
		"version 1\nid A\n": "Invalid cluster nodes info", "epoch 1\n": "unknown key: epoch",
	} {
		must(t, os.WriteFile(path, []byte(strings.NewReplacer("A", idA, "B", idB).Replace(file)), 0o600))
		_, _, err := load(path)
		if got := fmt.Sprint(err); (err != nil || want != "") && got != path+": "+want {
			t.Errorf("%q: %v", file, err)
		}
	}
}

func TestReports(t *testing.T) {
	m, _ := opened(t, idA)
	now := m.Topology()
	job := func(first, last uint16, node, state string) *topology.Job {
		return &topology.Job{Range: span(first, last), Node: node, State: state, Active: state == "start"}
	}
	jobs := topology.Jobs{Migrating: job(5, 6, idD, "start"), Importing: job(100, 100, "", "start")}
	fill := strings.NewReplacer("A", idA, "B", idB, "C", idC, "D", idD).Replace
	want := fill("A 127.0.0.1:7001@17001 myself,master - 999 1000 1 connected 0-99 200 [5-6->-D] [100-<-B]\n" +
		"B 127.0.0.1:7002@17002 master - 999 1000 1 connected 100-199\n" +
		"C 127.0.0.1:7003@17003 slave B 999 1000 1 connected\n" +
		"D 127.0.0.1:7004@17004 master - 999 1000 1 connected\n")
	if got := now.NodesText(jobs, time.UnixMilli(1000)); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	want = "cluster_state:ok\r\ncluster_slots_assigned:201\r\ncluster_slots_ok:201\r\ncluster_slots_pfail:0\r\n" +
		"cluster_slots_fail:0\r\ncluster_known_nodes:4\r\ncluster_size:2\r\ncluster_current_epoch:1\r\n" +
		"cluster_my_epoch:1\r\nmigrating_slot(s): 5-6\r\ndestination_node: " + idD + "\r\nmigrating_state: start\r\n" +
		"importing_slot(s): 100\r\nimport_state: start\r\n"
	if got := now.InfoText(jobs); got != want {
		t.Errorf("%q", got)
	}
	shards := now.Shards()
	if len(shards) != 3 || len(shards[1].Nodes) != 2 || !slices.Equal(shards[0].Slots, []cf.SlotRange{span(0, 99),
		span(200, 200)}) || shards[2].Slots != nil {
		t.Errorf("%+v", shards)
	}
	if got, err := m.Replicas(idB); err != nil || strings.Count(got, "\n") != 1 ||
		!strings.HasPrefix(got, idC+" 127.0.0.1:7003@17003 slave "+idB+" ") {
		t.Error(got, err)
	}
	for id, want := range map[string]string{idC: "ERR The node isn't a master", "x": "ERR Invalid cluster node id"} {
		if _, err := m.Replicas(id); text(err) != want {
			t.Error(id, err)
		}
	}
}

// migrator returns the given state of a migration.
type migrator struct {
	jobs  topology.Jobs
	moved []string
}

func (g *migrator) Migrate(r cf.SlotRange, to *topology.Node, done func(error)) error {
	g.moved = append(g.moved, r.String()+" to "+to.ID[:1])
	return nil
}
func (g *migrator) Import(*command.Session, cf.SlotRange, command.ImportState) error { return nil }
func (g *migrator) Ingest(*command.Session, command.IngestStep, []byte) error        { return nil }
func (g *migrator) Jobs() topology.Jobs                                              { return g.jobs }
func (g *migrator) TopologyChanged(*topology.Topology)                               {}

func TestMigrate(t *testing.T) {
	m, s := opened(t, idA)
	if got := text(m.Migrate(span(5, 6), idB, nil)); got != "ERR slot migration is not available" {
		t.Error(got)
	}
	g := &migrator{}
	m.SetMigrator(g)
	must(t, m.Forbid(span(9, 9)))
	must(t, m.Migrated(span(9, 9), m.Topology().Node(idD), nil))
	replica, _ := opened(t, idC)
	for _, test := range []struct {
		m    *Map
		r    cf.SlotRange
		to   string
		want string
	}{
		{m, span(5, 6), idB, ""}, {m, span(5, 6), "x", "Can't find the destination node id"},
		{m, span(8, 9), idB, "Can't migrate slot which has been migrated"},
		{m, span(99, 100), idB, "Can't migrate slot which doesn't belong to me"},
		{m, span(300, 300), idB, "Can't migrate slot which doesn't belong to me"},
		{m, span(5, 6), idA, "Can't migrate slot to myself"}, {m, span(5, 6), idC, "Can't migrate slot to a slave"},
		{replica, span(5, 6), idB, "Can't migrate slot which doesn't belong to me"},
	} {
		if got := strings.TrimPrefix(text(test.m.Migrate(test.r, test.to, nil)), "ERR "); got != test.want {
			t.Errorf("%v to %s: %q", test.r, test.to, got)
		}
	}
	if got := text(m.Import(nil, span(99, 100), command.ImportStart)); got !=
		"ERR Can't import slot which belongs to me" {
		t.Error(got)
	}
	if got := text(replica.Import(nil, span(0, 0), command.ImportStart)); got != "ERR Slave can't import slot" {
		t.Error(got)
	}
	must(t, m.Import(nil, span(100, 100), command.ImportStart))
	s.keys = true
	for _, test := range []struct {
		jobs        topology.Jobs
		reset, want string
	}{
		{topology.Jobs{}, "Can't reset cluster while database is not empty", ""},
		{topology.Jobs{Migrating: &topology.Job{Active: true}}, "Can't reset cluster while migrating slot",
			"Can't flush slots while migrating or importing slot"},
		{topology.Jobs{Importing: &topology.Job{Active: true}}, "Can't reset cluster while importing slot",
			"Can't flush slots while migrating or importing slot"},
	} {
		g.jobs = test.jobs
		if got := strings.TrimPrefix(text(m.Reset()), "ERR "); got != test.reset {
			t.Error(got)
		}
		if got := strings.TrimPrefix(text(m.FlushSlots([]cf.SlotRange{span(1, 2)})), "ERR "); got != test.want {
			t.Error(got)
		}
	}
	if !slices.Equal(s.deleted, []string{"1-2"}) || !slices.Equal(g.moved, []string{"5-6 to b"}) {
		t.Error(s.deleted, g.moved)
	}
}

// Commands are routed while the topology changes.
func TestConcurrentRouting(t *testing.T) {
	m, _ := opened(t, idA)
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := uint16(0); ; i++ {
			select {
			case <-stop:
				return
			default:
				m.Topology().Route(i%cf.NumSlots, topology.Access{Write: true})
			}
		}
	}()
	for i := range int64(20) {
		must(t, m.SetNodes([]byte(fourNodes), i+2, false))
		must(t, m.Forbid(span(0, 9)))
		m.Allow(span(0, 9))
	}
	close(stop)
	<-ended
}

// A replica learns its master's migration marks from the database, and continues with them as the master: C replicates
// B, which has 100-199.
func TestReplicaInherits(t *testing.T) {
	id := strings.NewReplacer("A", idA, "B", idB, "C", idC, "D", idD).Replace
	const nodes = "A 127.0.0.1 7001 master - 0-99 200\nD 127.0.0.1 7004 master - "
	promoted := id(nodes + "\nC 127.0.0.1 7003 master - 100-199\nB 127.0.0.1 7002 slave C")
	given := id(nodes + "100-109\nC 127.0.0.1 7003 master - 110-199\nB 127.0.0.1 7002 slave C")
	givenBefore := id(nodes + "100-109\nB 127.0.0.1 7002 master - 110-199\nC 127.0.0.1 7003 slave B")
	const again = "TRYAGAIN The other side of a migration is being asked who has the slot"
	for _, test := range []struct {
		name, record string
		slot         uint16
		before       string // what a read after READONLY is answered
		after        string // what a write is answered as the master
		settle       func(m *Map)
		settled      string
		state        string // in CLUSTER INFO
		kept         string
	}{
		{"migrated", "migrated 100-109 D\n", 100, "MOVED 100 127.0.0.1:7004", "MOVED 100 127.0.0.1:7004", nil,
			"MOVED 100 127.0.0.1:7004", "migrating_state: success", "migrated 100-109 D\n"},
		{"beside it", "migrated 100-109 D\n", 110, "", "", nil, "", "", "migrated 100-109 D\n"},
		{"leaving, and has not moved", "leaving 100-109 D\n", 100, "", again, func(m *Map) { m.Stays(span(100, 109)) }, "",
			"", ""},
		{"leaving, and has moved", "leaving 100-109 D\n", 100, "", again,
			func(m *Map) { m.Migrated(span(100, 109), m.Topology().Node(idD), nil) }, "MOVED 100 127.0.0.1:7004",
			"migrating_state: success", "migrated 100-109 D\n"},
		{"imported, and is sent clients", "imported 0-9 A\n", 0, "", again, func(m *Map) { m.Confirmed(span(0, 9)) }, "",
			"import_state: success", "imported 0-9 A\n"},
		{"imported, and the owner has kept it", "imported 0-9 A\n", 0, "", again, func(m *Map) { m.Revoked(span(0, 9)) },
			"MOVED 0 127.0.0.1:7001", "", ""},
		{"imported of a slot that is another's now", "imported 0-9 D\n", 0, "MOVED 0 127.0.0.1:7001",
			"MOVED 0 127.0.0.1:7001", nil, "MOVED 0 127.0.0.1:7001", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			m, s := opened(t, idC)
			s.record = id(test.record)
			m.Learn()
			if got := text(m.Topology().Route(test.slot, topology.Access{ReadOnly: true})); got != test.before {
				t.Errorf("as a replica: %q, want %q", got, test.before)
			}
			must(t, m.SetNodes([]byte(promoted), 2, false))
			if got := text(m.Topology().Route(test.slot, topology.Access{Write: true})); got != test.after {
				t.Errorf("as the master: %q, want %q", got, test.after)
			}
			if r, to, ok := m.Topology().Doubt(); ok != strings.HasPrefix(test.name, "leaving") ||
				ok && (r != span(100, 109) || to.ID != idD) {
				t.Errorf("in doubt: %v %v %v", r, to, ok)
			}
			if r, from, ok := m.Topology().Arrival(); ok != strings.HasPrefix(test.name, "imported, ") ||
				ok && (r != span(0, 9) || from.ID != idA) {
				t.Errorf("arrived: %v %v %v", r, from, ok)
			}
			if test.settle != nil {
				test.settle(m)
			}
			if got := text(m.Topology().Route(test.slot, topology.Access{Write: true})); got != test.settled {
				t.Errorf("settled: %q, want %q", got, test.settled)
			}
			if info, _ := m.Info(); test.state != "" && !strings.Contains(info, test.state) {
				t.Errorf("CLUSTER INFO: %s", info)
			}
			if s.record != id(test.kept) {
				t.Errorf("kept: %q", s.record)
			}
		})
	}
	for name, last := range map[string]string{"given away": given, "given away before": promoted} {
		t.Run(name, func(t *testing.T) { // what the replica has of the slots is not to stay
			m, s := opened(t, idC)
			s.record = id("migrated 100-109 D\n")
			m.Learn()
			next := promoted
			if last == promoted {
				next = givenBefore
				last = given
			}
			must(t, m.SetNodes([]byte(next), 2, false))
			must(t, m.SetNodes([]byte(last), 3, false))
			if got := strings.Join(s.deleted, " "); got != "100-109" || s.record != "" {
				t.Errorf("deleted %q, kept %q", got, s.record)
			}
		})
	}
}

// What a replica knows of its master's migrations outlives its process, also one that ends while it becomes the master,
// before it has written the marks to its file.
func TestReplicaStartsAgain(t *testing.T) {
	fill := strings.NewReplacer("A", idA, "B", idB, "C", idC, "D", idD).Replace
	for nodes, want := range map[string]string{
		"B 127.0.0.1 7002 master - 100-199\nnode C 127.0.0.1 7003 slave B":  "MOVED 100 127.0.0.1:7004",
		"C 127.0.0.1 7003 master - 100-199\nnode B 127.0.0.1 7002 slave C":  "MOVED 100 127.0.0.1:7004",
		"C 127.0.0.1 7003 master - 110-199\nnode B 127.0.0.1 7002 master -": "CLUSTERDOWN Hash slot not served",
	} {
		dir := t.TempDir()
		file := "version 2\nid C\nnode D 127.0.0.1 7004 master -\nnode " + nodes + "\n"
		must(t, os.WriteFile(filepath.Join(dir, "nodes.conf"), []byte(fill(file)), 0o600))
		s := &server{record: fill("migrated 100-109 D\n")}
		m := open(t, s, dir)
		if got := text(m.Topology().Route(100, topology.Access{ReadOnly: true})); got != want {
			t.Errorf("%s: %q, want %q", nodes, got, want)
		}
		if deleted := want[0] == 'C'; deleted != slices.Equal(s.deleted, []string{"100-109"}) {
			t.Errorf("%s: deleted %q", nodes, s.deleted)
		}
	}
}

// The source tells the destination that it redirects clients only if it does so: not when the controller has given a
// slot to another node at the last moment.
func TestMigratedTooLate(t *testing.T) {
	m, _ := opened(t, idA)
	for _, test := range []struct {
		r    cf.SlotRange
		want bool
	}{{span(0, 9), true}, {span(90, 100), false}, {span(100, 109), false}} {
		told := false
		must(t, m.Forbid(test.r))
		must(t, m.Migrated(test.r, m.Topology().Node(idD), func() { told = true }))
		if told != test.want {
			t.Errorf("%v: told: %v, want %v", test.r, told, test.want)
		}
	}
}

// A change of the topology ends the pause of writes and leaves the slots here: what clients have written since is not
// at the destination, so clients are not redirected to it.
func TestMigratedAfterWrites(t *testing.T) {
	for what, change := range map[string]func(m *Map) error{
		"force": func(m *Map) error { return m.SetNodes([]byte(fourNodes), 1, true) },
		"given away and given back": func(m *Map) error {
			away := strings.Replace(fourNodes, "100-199", "5 100-199", 1)
			return errors.Join(m.SetNodes([]byte(strings.Replace(away, "0-99", "0-4 6-99", 1)), 2, false),
				m.SetNodes([]byte(fourNodes), 3, false))
		},
	} {
		m, s := opened(t, idA)
		to := m.Topology().Node(idD)
		must(t, m.Leaving(span(5, 9), to))
		must(t, m.Forbid(span(5, 9)))
		must(t, change(m))
		write := func(slot uint16) string { return text(m.Topology().Route(slot, topology.Access{Write: true})) }
		if got := write(5); got != "" {
			t.Errorf("%s: before: %s", what, got)
		}
		if err := m.Migrated(span(5, 9), to, func() { t.Error(what, ": the destination was told") }); err == nil {
			t.Error(what, ": clients are redirected")
		}
		m.Allow(span(5, 9))
		m.Stays(span(5, 9))
		if write(5) != "" || write(9) != "" || s.record != "" {
			t.Errorf("%s: %q, %q, kept %q", what, write(5), write(9), s.record)
		}
	}
}

// Two controllers that do not know of each other send topologies at the same time. A node applies each one as a whole,
// and none that is older than its own.
func TestTwoWriters(t *testing.T) {
	m, _ := opened(t, idA)
	nodes := func(version int) string { // the version is the last slot of node a
		return strings.Replace(fourNodes, "0-99 200", fmt.Sprintf("0-99 %d", 200+version), 1)
	}
	const last = 300
	var writers sync.WaitGroup
	for first := range 2 {
		writers.Go(func() {
			for v := 2 + first; v <= last; v += 1 + v%2*first { // they share some versions
				err := m.SetNodes([]byte(nodes(v)), int64(v), false)
				if now := m.Topology(); err != nil && err != topology.ErrVersion || now.Version < int64(v) {
					t.Errorf("version %d: %v, the node has %d", v, err, now.Version)
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		writers.Wait()
		close(ended)
	}()
	for before := int64(0); ; {
		select {
		case <-ended:
			if v := m.Topology().Version; v != last {
				t.Errorf("at the end the version is %d", v)
			}
			return
		default:
		}
		now := m.Topology()
		if now.Version < before {
			t.Fatalf("version %d after %d", now.Version, before)
		}
		if before = now.Version; before > 1 && !now.Owns(uint16(200+before)) {
			t.Fatalf("version %d has slots of another one", before)
		}
	}
}
