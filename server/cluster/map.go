package cluster

import (
	"errors"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
)

// Errors of a migration and of CLUSTER RESET, with the texts of Kvrocks.
var (
	errNoDestination = engine.NewError("ERR", "Can't find the destination node id")
	errHasMoved      = engine.NewError("ERR", "Can't migrate slot which has been migrated")
	errNotOurs       = engine.NewError("ERR", "Can't migrate slot which doesn't belong to me")
	errReplicaMoves  = engine.NewError("ERR", "Slave can't migrate slot")
	errToReplica     = engine.NewError("ERR", "Can't migrate slot to a slave")
	errToSelf        = engine.NewError("ERR", "Can't migrate slot to myself")
	errReplicaTakes  = engine.NewError("ERR", "Slave can't import slot")
	errTakesOwn      = engine.NewError("ERR", "Can't import slot which belongs to me")
	errResetMoves    = engine.NewError("ERR", "Can't reset cluster while migrating slot")
	errResetTakes    = engine.NewError("ERR", "Can't reset cluster while importing slot")
	errResetData     = engine.NewError("ERR", "Can't reset cluster while database is not empty")
	errFlushMoves    = engine.NewError("ERR", "Can't flush slots while migrating or importing slot")
	errNoMigrator    = engine.NewError("ERR", "slot migration is not available")
)

// Options are what a Map needs of the server. All functions are set.
type Options struct {
	Log *zap.Logger
	// Path is the path of nodes.conf. Keep says whether it is kept (persist-cluster-nodes-enabled), see [Map.Keep].
	Path string
	Keep bool
	// IsSelf reports whether this server is the one at host and port.
	IsSelf func(host string, port int) bool
	// IsReplica reports whether the server follows a master. Follow makes it follow one, Lead makes it a master. Both do
	// nothing when that is so already.
	IsReplica func() bool
	Follow    func(host string, port int) error
	Lead      func() error
	// Barrier returns when every command has ended that has taken locks before the call.
	Barrier func() error
	// DeleteSlots deletes the keys of slots, after a barrier.
	DeleteSlots func(r cf.SlotRange) error
	// Empty reports whether the database holds no key.
	Empty func() bool
	// Changed hears of each change once it is in force: clients may wait for keys, or have subscribed to channels, of
	// slots that this node serves no longer. It must not call the Map.
	Changed func(t *Topology)
}

// Map holds the present topology.
type Map struct {
	opt      Options
	now      atomic.Pointer[Topology]
	migrator atomic.Pointer[Migrator]
	mu       sync.Mutex // held by those who replace now
	files    files
}

// Migrator moves slots between nodes; the room of the migration implements it.
type Migrator interface {
	// Migrate begins to move a range of this node to another one: CLUSTERX MIGRATE. When done is not nil it is called
	// once at the end with the result. The range was checked against the topology.
	Migrate(r cf.SlotRange, to *Node, done func(error)) error
	// Import is CLUSTER IMPORT, which the source of a migration sends. The range was checked against the topology.
	Import(sess *command.Session, r cf.SlotRange, state command.ImportState) error
	// Jobs returns what CLUSTER INFO and CLUSTER NODES show.
	Jobs() Jobs
	// TopologyChanged hears of each change. It must not wait for one.
	TopologyChanged(t *Topology)
}

// Jobs are the present migrations, or the last ones.
type Jobs struct{ Migrating, Importing *Job }

// Job is a migration of a range.
type Job struct {
	Range  cf.SlotRange
	Node   string // id of the destination, of a range that is migrated
	State  string // none, start, success; fail of one that is migrated, error of one that is imported
	Active bool   // it goes on
}

// New makes a Map of a node to which nobody has told anything.
func New(opt Options) *Map {
	m := &Map{opt: opt, files: files{path: opt.Path, on: opt.Keep, marks: true}}
	m.now.Store(none("").settle())
	return m
}

// Topology returns the present topology.
func (m *Map) Topology() *Topology { return m.now.Load() }

// SetMigrator sets who moves slots.
func (m *Map) SetMigrator(g Migrator) { m.migrator.Store(&g) }

func (m *Map) jobs() Jobs {
	if g := m.migrator.Load(); g != nil {
		return (*g).Jobs()
	}
	return Jobs{}
}

// Start reads the topology that the last process has kept, makes the server what it says, and finishes what the last
// process has left undone. It is for the start of the server, before there are clients.
func (m *Map) Start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.opt.Keep {
		return nil
	}
	t, err := load(m.opt.Path)
	if err != nil {
		return err
	}
	m.publish(t.settle())
	if err := m.setRole(t); err != nil {
		return err
	}
	ranges := left(t, t)
	if len(ranges) == 0 {
		return nil
	}
	if err := m.deleteSlots(ranges); err != nil {
		return err
	}
	t = t.copy()
	for _, r := range ranges {
		t.setMark(r, unmarked, "")
	}
	m.publish(t.settle())
	return m.files.saveMarks(t)
}

// SetNodeID implements [command.Cluster].
func (m *Map) SetNodeID(id string) error {
	if len(id) != IDLen {
		return ErrNodeID
	}
	return m.change(func(t *Topology) error {
		if t.ID != id {
			t.clearMarks()
		}
		t.ID = id
		return nil
	})
}

// SetNodes implements [command.Cluster].
func (m *Map) SetNodes(text []byte, version int64, force bool) error {
	if version < 0 {
		return ErrVersion
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.now.Load()
	if !force && version == old.Version {
		return nil
	}
	if !force && version < old.Version {
		return ErrVersion
	}
	t, err := parse(text)
	if err != nil {
		return err
	}
	t.Version, t.ID = version, old.ID
	if t.ID == "" || force {
		for _, n := range t.Nodes {
			if m.opt.IsSelf(n.Host, n.Port) {
				t.ID = n.ID
				break
			}
		}
	}
	if !force && t.ID == old.ID {
		t.takeMarks(old)
	}
	return m.apply(old, t.settle())
}

// SetSlots implements [command.Cluster].
func (m *Map) SetSlots(ranges []cf.SlotRange, id string, version int64) error {
	return m.change(func(t *Topology) error {
		if version <= 0 || version != t.Version+1 {
			return ErrVersion
		}
		if len(id) != IDLen {
			return ErrNodeID
		}
		n := t.Node(id)
		if n == nil {
			return errUnknownNode
		}
		if !n.IsMaster() {
			return ErrNotMaster
		}
		t.Version = version
		place := uint16(0)
		for i := range t.Nodes {
			if t.Nodes[i] == n {
				place = uint16(i + 1)
			}
		}
		for _, r := range ranges {
			for slot := int(r.First); slot <= int(r.Last); slot++ {
				if t.owners[slot] != place {
					t.owners[slot], t.marks[slot] = place, unmarked
					delete(t.moved, uint16(slot))
				}
			}
		}
		return nil
	})
}

// change replaces the topology by a copy that f has changed.
func (m *Map) change(f func(t *Topology) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.now.Load()
	t := old.copy()
	if err := f(t); err != nil {
		return err
	}
	return m.apply(old, t.settle())
}

// apply puts a topology into force: it is kept on disk, the server becomes what it says, and the keys of slots that
// were migrated and have left for good are deleted. mu is held.
func (m *Map) apply(old, t *Topology) error {
	if err := m.files.save(t); err != nil {
		return err
	}
	// A master is one before clients are sent to it, a replica only after they are sent elsewhere.
	var err error
	if !t.isReplica() {
		err = m.setRole(t)
	}
	m.publish(t)
	if t.isReplica() {
		err = m.setRole(t)
	}
	return errors.Join(err, m.deleteLeft(old, t))
}

// deleteLeft deletes the keys of slots that have left for good, and then keeps the marks that are still in force: those
// that a crash has left on disk make the next process delete the keys again.
func (m *Map) deleteLeft(old, t *Topology) error {
	if !t.isReplica() {
		if err := m.deleteSlots(left(old, t)); err != nil {
			return err
		}
	}
	return m.files.saveMarks(t)
}

func (m *Map) deleteSlots(ranges []cf.SlotRange) error {
	for _, r := range ranges {
		if err := m.opt.DeleteSlots(r); err != nil {
			return err
		}
	}
	return nil
}

// publish exchanges the pointer.
func (m *Map) publish(t *Topology) {
	m.now.Store(t)
	m.opt.Changed(t)
	if g := m.migrator.Load(); g != nil {
		(*g).TopologyChanged(t)
	}
}

// setRole makes the server the master or replica that a topology says. What is not in the topology follows nobody.
func (m *Map) setRole(t *Topology) error {
	if t.Version < 0 {
		return nil
	}
	if !t.isReplica() {
		return m.opt.Lead()
	}
	master := t.Node(t.Self.Master)
	if master == nil {
		return nil
	}
	err := m.opt.Follow(master.Host, master.Port)
	if err != nil {
		m.opt.Log.Warn("the server could not become the replica that the topology says",
			zap.String("master", master.Addr()), zap.Error(err))
		return engine.NewError("ERR", "failed to add master: "+err.Error())
	}
	return nil
}

// isReplica reports whether this node is a replica in the topology.
func (t *Topology) isReplica() bool { return t.Self != nil && !t.Self.IsMaster() }

// left returns the slots that were migrated from this node and belong to another one now.
func left(old, t *Topology) []cf.SlotRange {
	var ranges []cf.SlotRange
	for slot, m := range old.marks {
		if m != migrated || t.Owns(uint16(slot)) {
			continue
		}
		if n := len(ranges); n > 0 && int(ranges[n-1].Last)+1 == slot {
			ranges[n-1].Last++
		} else {
			ranges = append(ranges, cf.SlotRange{First: uint16(slot), Last: uint16(slot)})
		}
	}
	return ranges
}

// clearMarks forgets what migration has told.
func (t *Topology) clearMarks() { t.setMark(cf.SlotRange{Last: cf.NumSlots - 1}, unmarked, "") }

// takeMarks keeps the marks of the slots whose owner is as before. (Kvrocks forgets those of Migrated and Imported with
// every SETNODES. One that comes between the end of a migration and the SETNODES or SETSLOT that gives the slot away,
// because of another shard, would make the source serve it again, with old data.)
func (t *Topology) takeMarks(old *Topology) {
	self := t.byID[t.ID]
	if self == nil || !self.IsMaster() {
		return
	}
	for slot, m := range old.marks {
		if m == unmarked {
			continue
		}
		was, is, s := old.Owner(uint16(slot)), t.Owner(uint16(slot)), uint16(slot)
		if was == nil || is == nil || was.ID != is.ID || m == migrated && t.byID[old.moved[s]] == nil {
			continue
		}
		t.setMark(cf.SlotRange{First: s, Last: s}, m, old.moved[s])
	}
}

// Forbid refuses writes of slots of this node. When it returns none is under way. An error says that a script holds
// locks that is not waited for; then the writes are not refused.
func (m *Map) Forbid(r cf.SlotRange) error {
	m.mark(r, forbidden, "")
	err := m.opt.Barrier()
	if err != nil {
		m.unmark(r, forbidden)
	}
	return err
}

// Allow is the end of Forbid.
func (m *Map) Allow(r cf.SlotRange) { m.unmark(r, forbidden) }

// Migrated sends all commands for slots of this node to another node, until the controller tells who has them. It is in
// force although an error says that it could not be kept on disk.
func (m *Map) Migrated(r cf.SlotRange, to *Node) error { return m.mark(r, migrated, to.ID) }

// Importing lets commands of the migrator, and those after ASKING, run for slots of other nodes.
func (m *Map) Importing(r cf.SlotRange) { m.mark(r, importing, "") }

// ImportEnded is the end of Importing.
func (m *Map) ImportEnded(r cf.SlotRange) { m.unmark(r, importing) }

// Imported lets all commands run for slots of other nodes, until the controller tells who has them. The error is as
// that of Migrated.
func (m *Map) Imported(r cf.SlotRange) error { return m.mark(r, imported, "") }

// Revoked is the end of Imported: the source goes on with the slots.
func (m *Map) Revoked(r cf.SlotRange) {
	if !m.unmark(r, imported) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.files.saveMarks(m.now.Load()); err != nil {
		m.opt.Log.Error("the end of an import could not be kept", zap.Error(err))
	}
}

// mark marks slots: of those that have an owner, this node's or the others, as the mark is for.
func (m *Map) mark(r cf.SlotRange, as mark, to string) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.now.Load().copy()
	for slot := int(r.First); slot <= int(r.Last); slot++ {
		s := uint16(slot)
		if ours := as == forbidden || as == migrated; t.Owner(s) != nil && t.Owns(s) == ours {
			t.setMark(cf.SlotRange{First: s, Last: s}, as, to)
		}
	}
	t.settle()
	if as == migrated || as == imported {
		if err = m.files.saveMarks(t); err != nil {
			m.opt.Log.Error("the end of a migration could not be kept", zap.Error(err))
		}
	}
	m.publish(t)
	return err
}

// unmark takes a mark away and reports whether there was one.
func (m *Map) unmark(r cf.SlotRange, as mark) (was bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.now.Load().copy()
	for slot := int(r.First); slot <= int(r.Last); slot++ {
		if s := uint16(slot); t.marks[s] == as {
			t.setMark(cf.SlotRange{First: s, Last: s}, unmarked, "")
			was = true
		}
	}
	if was {
		m.publish(t.settle())
	}
	return was
}

// Migrate implements [command.Cluster].
func (m *Map) Migrate(r cf.SlotRange, id string, done func(error)) error {
	t := m.now.Load()
	to := t.Node(id)
	if to == nil {
		return errNoDestination
	}
	for slot := int(r.First); slot <= int(r.Last); slot++ {
		if t.rules[slot] == moved {
			return errHasMoved
		}
	}
	for slot := int(r.First); slot <= int(r.Last); slot++ {
		if !t.Owns(uint16(slot)) {
			return errNotOurs
		}
	}
	switch {
	case !t.IsMaster() || m.opt.IsReplica():
		return errReplicaMoves
	case !to.IsMaster():
		return errToReplica
	case to == t.Self:
		return errToSelf
	}
	g := m.migrator.Load()
	if g == nil {
		return errNoMigrator
	}
	return (*g).Migrate(r, to, done)
}

// Import implements [command.Cluster].
func (m *Map) Import(sess *command.Session, r cf.SlotRange, state command.ImportState) error {
	t := m.now.Load()
	if !t.IsMaster() || m.opt.IsReplica() {
		return errReplicaTakes
	}
	for slot := int(r.First); slot <= int(r.Last); slot++ {
		if t.Owns(uint16(slot)) {
			return errTakesOwn
		}
	}
	g := m.migrator.Load()
	if g == nil {
		return errNoMigrator
	}
	return (*g).Import(sess, r, state)
}

// FlushSlots implements [command.Cluster].
func (m *Map) FlushSlots(ranges []cf.SlotRange) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.opt.IsReplica() {
		return engine.ErrReplica
	}
	if j := m.jobs(); j.Migrating.active() || j.Importing.active() {
		return errFlushMoves
	}
	return m.deleteSlots(ranges)
}

func (j *Job) active() bool { return j != nil && j.Active }

// Reset implements [command.Cluster].
func (m *Map) Reset() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch j := m.jobs(); {
	case j.Migrating.active():
		return errResetMoves
	case j.Importing.active():
		return errResetTakes
	case !m.opt.Empty():
		return errResetData
	}
	if err := m.opt.Lead(); err != nil {
		return err
	}
	if err := m.files.remove(); err != nil {
		return err
	}
	m.publish(none("").settle())
	return nil
}

// Keep writes the topology to the disk from now on, or removes what is there and writes no more. It does not wait for a
// change that is under way.
func (m *Map) Keep(on bool) error { return m.files.keep(on, &m.now) }
