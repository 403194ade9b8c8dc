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
	// Record keeps what migration has told of slots in the database, whence replicas learn it; "" = nothing. Recorded
	// returns it. Replicated returns when the replicas have what was written before, or after some time.
	Record     func(marks string) error
	Recorded   func() (marks string, err error)
	Replicated func()
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
	// Ingest is _ingest, which the source of a migration sends on the connection of its import.
	Ingest(sess *command.Session, step command.IngestStep, records []byte) error
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
	if t.isReplica() {
		err = m.learn(t)
	} else {
		t.doubt()
	}
	m.publish(t.settle())
	if err := errors.Join(err, m.setRole(t)); err != nil {
		return err
	}
	if t.isReplica() {
		return nil
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
	return m.saveMarks(t)
}

// saveMarks keeps the marks: on disk, and in the database for the replicas.
func (m *Map) saveMarks(t *Topology) error {
	err := m.files.saveMarks(t)
	if t.isReplica() || m.opt.IsReplica() {
		return err
	}
	is, e := m.opt.Recorded()
	if text := t.marksText(); e == nil && is != text {
		e = m.opt.Record(text)
	}
	return errors.Join(err, reply(e))
}

// learn takes the marks from the database.
func (m *Map) learn(t *Topology) error {
	text, err := m.opt.Recorded()
	if err != nil {
		return err
	}
	t.clearMarks()
	return t.parseMarks([]byte(text))
}

// Learn is told, in a replica, that its master has changed the marks in the database.
func (m *Map) Learn() {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.now.Load()
	if !t.isReplica() {
		return
	}
	t = t.copy()
	if err := m.learn(t); errors.Is(err, engine.ErrClosed) {
		return
	} else if err != nil {
		m.opt.Log.Error("what the master tells of migrations cannot be read", zap.Error(err))
		return
	}
	m.publish(t.settle())
}

// doubt notes that nobody of this process has heard the end of the migrations that the marks tell of.
func (t *Topology) doubt() {
	for slot, m := range t.marks {
		switch m {
		case leaving:
			t.marks[slot] = doubtful
		case imported:
			t.marks[slot] = arrived
		}
	}
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
	return m.apply(old, t.settle(), !force)
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
	return m.apply(old, t.settle(), true)
}

// apply puts a topology into force: it is kept on disk, the server becomes what it says, and the keys of slots that
// were migrated and have left for good are deleted. A replica that becomes a master goes on with what its master has
// told of migrations, unless inherit is false. mu is held.
func (m *Map) apply(old, t *Topology, inherit bool) error {
	if err := m.files.save(t); err != nil {
		return err
	}
	// A master is one before clients are sent to it, a replica only after they are sent elsewhere.
	var err error
	if t.isReplica() {
		if err = m.learn(t); err == nil {
			t.settle()
		}
	} else if err = m.setRole(t); inherit && err == nil && t.IsMaster() && !old.IsMaster() {
		was := old.copy() // now that no more comes from the master
		if old.Version < 0 {
			was = t.copy()
		}
		if err = m.learn(was); err == nil {
			was.doubt()
			t.takeMarks(was)
			t.settle()
			old = was
		}
	}
	m.publish(t)
	if t.isReplica() {
		err = errors.Join(err, m.setRole(t))
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
	return m.saveMarks(t)
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

// takeMarks keeps the marks of the slots whose owner is as before, or of the same shard. (Kvrocks forgets those of
// Migrated and Imported with every SETNODES. One that comes between the end of a migration and the SETNODES or
// SETSLOT that gives the slot away, because of another shard, would make the source serve it again, with old data.)
func (t *Topology) takeMarks(old *Topology) {
	self := t.byID[t.ID]
	if self == nil || !self.IsMaster() {
		return
	}
	for slot, m := range old.marks {
		if m == unmarked {
			continue
		}
		s := uint16(slot)
		if !t.ownedAsIn(old, s) || m == migrated && t.byID[old.moved[s]] == nil {
			continue
		}
		if ours := t.Owner(s) == self; m.ofSource() != ours {
			continue
		}
		t.setMark(cf.SlotRange{First: s, Last: s}, m, old.moved[s])
	}
}

// ownedAsIn reports whether a slot has an owner of the same shard as in an older topology.
func (t *Topology) ownedAsIn(old *Topology, slot uint16) bool {
	was, is := old.Owner(slot), t.Owner(slot)
	if old.Version < 0 { // nobody knows
		was = is
	}
	if was == nil || is == nil {
		return false
	}
	before, after := old.byID[is.ID], t.byID[was.ID]
	return was.ID == is.ID || before != nil && before.Master == was.ID || after != nil && after.Master == is.ID
}

// Leaving keeps that another node may have slots of this node soon: from then on a process that starts, and a replica
// that becomes a master, ask the destination first. When it returns, replicas know it. An error says that nothing was
// done.
func (m *Map) Leaving(r cf.SlotRange, to *Node) error {
	if err := m.mark(r, leaving, to.ID); err != nil {
		m.Stays(r)
		return err
	}
	m.opt.Replicated()
	return nil
}

// Stays is the end of Leaving, and of the doubt about it: the slots have not moved.
func (m *Map) Stays(r cf.SlotRange) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.now.Load().copy()
	for slot := int(r.First); slot <= int(r.Last); slot++ {
		switch s := uint16(slot); t.marks[s] {
		case leaving, forbidden, doubtful:
			t.setMark(cf.SlotRange{First: s, Last: s}, unmarked, "")
		}
	}
	m.publish(t.settle())
	if err := m.saveMarks(t); err != nil {
		m.opt.Log.Error("the end of a migration could not be kept", zap.Error(err))
	}
}

// ofSource reports whether a mark is for slots of this node; the others are for those of other nodes.
func (m mark) ofSource() bool { return m != importing && m != imported && m != arrived }

// Arrival returns a range that has arrived, of one owner, and the owner.
func (t *Topology) Arrival() (r cf.SlotRange, from *Node, ok bool) {
	for first, m := range t.marks {
		if m != arrived || t.rules[first] != unsure {
			continue
		}
		last := first
		for last+1 < cf.NumSlots && t.marks[last+1] == arrived && t.owners[last+1] == t.owners[first] {
			last++
		}
		return cf.SlotRange{First: uint16(first), Last: uint16(last)}, t.Owner(uint16(first)), true
	}
	return r, nil, false
}

// Doubt returns a range of which nobody knows whether its migration has ended well, and the destination.
func (t *Topology) Doubt() (r cf.SlotRange, to *Node, ok bool) {
	for r := range t.marked(leaving) {
		if t.rules[r.First] == unsure {
			return r, t.MovedTo(r.First), true
		}
	}
	return r, nil, false
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

// Allow is the end of Forbid. The slots are leaving still if they were.
func (m *Map) Allow(r cf.SlotRange) { m.unmark(r, forbidden) }

// Migrated sends all commands for slots of this node to another node, until the controller tells who has them. It is in
// force although an error says that it could not be kept on disk. When it is kept, and before clients are sent there,
// first is called, unless that is nil; changes wait for it.
func (m *Map) Migrated(r cf.SlotRange, to *Node, first func()) error {
	return m.markAfter(r, migrated, to.ID, first)
}

// Importing lets commands of the migrator, and those after ASKING, run for slots of other nodes.
func (m *Map) Importing(r cf.SlotRange) { m.mark(r, importing, "") }

// ImportEnded is the end of Importing.
func (m *Map) ImportEnded(r cf.SlotRange) { m.unmark(r, importing) }

// Imported lets all commands run for slots of other nodes, until the controller tells who has them. The error is as
// that of Migrated.
func (m *Map) Imported(r cf.SlotRange) error { return m.mark(r, imported, "") }

// Arrived is as Imported, but commands get TRYAGAIN until Confirmed says that the source knows. The error says that
// nothing was kept.
func (m *Map) Arrived(r cf.SlotRange) error { return m.mark(r, arrived, "") }

// Confirmed makes of Arrived what Imported is.
func (m *Map) Confirmed(r cf.SlotRange) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.now.Load().copy()
	for slot := int(r.First); slot <= int(r.Last); slot++ {
		if t.marks[slot] == arrived {
			t.marks[slot] = imported
		}
	}
	m.publish(t.settle())
}

// Revoked is the end of Imported and of Arrived: the source goes on with the slots.
func (m *Map) Revoked(r cf.SlotRange) {
	if !m.unmark(r, imported) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.saveMarks(m.now.Load()); err != nil {
		m.opt.Log.Error("the end of an import could not be kept", zap.Error(err))
	}
}

// mark marks slots: of those that have an owner, this node's or the others, as the mark is for.
func (m *Map) mark(r cf.SlotRange, as mark, to string) (err error) {
	return m.markAfter(r, as, to, nil)
}

// markAfter is mark, with a function that is called when the mark is kept, and before it is in force.
func (m *Map) markAfter(r cf.SlotRange, as mark, to string, first func()) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.now.Load().copy()
	for slot := int(r.First); slot <= int(r.Last); slot++ {
		s := uint16(slot)
		if t.Owner(s) != nil && t.Owns(s) == as.ofSource() {
			if as == forbidden {
				to = t.moved[s]
			}
			t.setMark(cf.SlotRange{First: s, Last: s}, as, to)
		}
	}
	t.settle()
	if as == migrated || as == imported || as == leaving || as == arrived {
		if err = m.saveMarks(t); err != nil {
			m.opt.Log.Error("the end of a migration could not be kept", zap.Error(err))
		}
	}
	if first != nil && err == nil {
		first()
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
		if s := uint16(slot); t.marks[s] == as || as == imported && t.marks[s] == arrived {
			to, rest := t.moved[s], unmarked
			if to != "" && as == forbidden {
				rest = leaving
			}
			t.setMark(cf.SlotRange{First: s, Last: s}, rest, to)
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
		switch t.rules[slot] {
		case moved:
			return errHasMoved
		case unsure:
			return ErrDoubt
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

// Ingest implements [command.Cluster].
func (m *Map) Ingest(sess *command.Session, step command.IngestStep, records []byte) error {
	if m.opt.IsReplica() {
		return errReplicaTakes
	}
	g := m.migrator.Load()
	if g == nil {
		return errNoMigrator
	}
	return (*g).Ingest(sess, step, records)
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
	t := none("").settle()
	m.publish(t)
	return m.saveMarks(t)
}

// Keep writes the topology to the disk from now on, or removes what is there and writes no more. It does not wait for a
// change that is under way.
func (m *Map) Keep(on bool) error { return m.files.keep(on, &m.now) }
