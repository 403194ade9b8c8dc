package cluster

import (
	"errors"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/cluster/topology"
	"github.com/basaltdb/basalt/server/command"
)

// Errors with the texts of Kvrocks.
var (
	ErrNotInitialized = engine.NewError("CLUSTERDOWN", "The cluster is not initialized")
	ErrNotMaster      = engine.NewError("ERR", "The node isn't a master")
	errReplicaTakes   = engine.NewError("ERR", "Slave can't import slot")
	errNoMigrator     = engine.NewError("ERR", "slot migration is not available")
	errAllowed        = errors.New("the topology has changed, and clients may have written")
)

// Options are what a Map needs of the server. All functions are set.
type Options struct {
	Log *zap.Logger
	// Path is the path of nodes.conf. Keep says whether it is kept (persist-cluster-nodes-enabled), see [Map.Keep].
	Path string
	Keep bool
	// IsSelf reports whether this server is the one at host and port.
	IsSelf func(host string, port int) bool
	// IsReplica reports whether the server follows a master. Follow makes it follow one, Lead makes it a master. Both
	// do nothing when the server already has that role.
	IsReplica func() bool
	Follow    func(host string, port int) error
	Lead      func() error
	// Barrier returns when every command that held locks at the time of the call has ended.
	Barrier func() error
	// DeleteSlots deletes the keys of slots, after a barrier.
	DeleteSlots func(r cf.SlotRange) error
	// Record stores the marks in the database, from where replicas learn them; "" = no marks. Recorded returns the
	// stored marks. Replicated returns when this node's replicas, of which the topology has n, have all earlier writes, or
	// after a timeout.
	Record     func(marks string) error
	Recorded   func() (marks string, err error)
	Replicated func(n int)
	// Empty reports whether the database holds no key.
	Empty func() bool
	// Changed is called after each change has come into force. Clients may be waiting for keys, or be subscribed to
	// channels, of slots that this node no longer serves. Changed must not call the Map.
	Changed func(old, t *topology.Topology)
}

// Map holds the current topology.
type Map struct {
	opt      Options
	now      atomic.Pointer[topology.Topology]
	migrator atomic.Pointer[Migrator]
	mu       sync.Mutex // held while the topology is replaced
	files    files
}

// Migrator moves slots between nodes. Package migration implements it.
type Migrator interface {
	// Migrate begins to move a range of this node to another node: CLUSTERX MIGRATE. done, unless it is nil, is called
	// once at the end with the result. The caller has checked the range against the topology.
	Migrate(r cf.SlotRange, to *topology.Node, done func(error)) error
	// Import is CLUSTER IMPORT, which the source of a migration sends. The caller has checked the range against the
	// topology.
	Import(sess *command.Session, r cf.SlotRange, state command.ImportState) error
	// Ingest is _ingest, which the source of a migration sends on the connection of its import.
	Ingest(sess *command.Session, step command.IngestStep, records []byte) error
	// Jobs returns what CLUSTER INFO and CLUSTER NODES show.
	Jobs() topology.Jobs
	// TopologyChanged is called after each change. It must not wait for another change.
	TopologyChanged(t *topology.Topology)
}

// New makes the Map of a node that has not received a topology yet.
func New(opt Options) *Map {
	m := &Map{opt: opt, files: files{path: opt.Path, on: opt.Keep, marks: true}}
	m.now.Store(topology.None("").Settle())
	return m
}

// Topology returns the current topology.
func (m *Map) Topology() *topology.Topology { return m.now.Load() }

func (m *Map) SetMigrator(g Migrator) { m.migrator.Store(&g) }

func (m *Map) jobs() topology.Jobs {
	if g := m.migrator.Load(); g != nil {
		return (*g).Jobs()
	}
	return topology.Jobs{}
}

// Start reads the topology that the last process kept, gives the server the role that the topology names, and completes
// what the last process left unfinished. It is called at the start of the server, before clients connect.
func (m *Map) Start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.opt.Keep {
		return nil
	}
	t, marked, err := load(m.opt.Path)
	if err != nil {
		return err
	}
	// A replica that was killed while it became the master has not written its master's marks to the file yet.
	if t.Settle(); t.IsReplica() || !marked {
		err = m.learn(t)
	}
	if !t.IsReplica() {
		t.MakeDoubtful()
	}
	m.publish(t.Settle())
	if err := errors.Join(err, m.setRole(t)); err != nil {
		return err
	}
	if t.IsReplica() {
		return nil
	}
	ranges := topology.Left(t, t)
	if len(ranges) == 0 {
		return nil
	}
	if err := m.deleteSlots(ranges); err != nil {
		return err
	}
	t = t.Copy()
	for _, r := range ranges {
		t.SetMark(r, topology.Unmarked, "")
	}
	m.publish(t.Settle())
	return m.saveMarks(t)
}

// saveMarks writes the marks to the disk, and to the database for the replicas.
func (m *Map) saveMarks(t *topology.Topology) error {
	text := ownMarks(t)
	err := m.files.saveMarks(text)
	if t.IsReplica() || m.opt.IsReplica() {
		return err
	}
	is, e := m.opt.Recorded()
	if e == nil && is != text {
		e = m.opt.Record(text)
	}
	return errors.Join(err, reply(e))
}

// learn reads the marks from the database.
func (m *Map) learn(t *topology.Topology) error {
	text, err := m.opt.Recorded()
	if err != nil {
		return err
	}
	t.ClearMarks()
	return t.ParseMarks([]byte(text))
}

// Learn is called in a replica after its master has changed the marks in the database.
func (m *Map) Learn() {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.now.Load()
	if !t.IsReplica() {
		return
	}
	t = t.Copy()
	if err := m.learn(t); errors.Is(err, engine.ErrClosed) {
		return
	} else if err != nil {
		m.opt.Log.Error("what the master tells of migrations cannot be read", zap.Error(err))
		return
	}
	m.publish(t.Settle())
}

func (m *Map) SetNodeID(id string) error {
	if len(id) != topology.IDLen {
		return topology.ErrNodeID
	}
	return m.change(func(t *topology.Topology) error {
		if t.ID != id {
			t.ClearMarks()
		}
		t.ID = id
		return nil
	})
}

func (m *Map) SetNodes(text []byte, version int64, force bool) error {
	if version < 0 {
		return topology.ErrVersion
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.now.Load()
	if !force && version == old.Version {
		return nil
	}
	if !force && version < old.Version {
		return topology.ErrVersion
	}
	t, err := topology.Parse(text)
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
		t.TakeMarks(old)
	}
	return m.apply(old, t.Settle(), !force)
}

func (m *Map) SetSlots(ranges []cf.SlotRange, id string, version int64) error {
	return m.change(func(t *topology.Topology) error {
		if version <= 0 || version != t.Version+1 {
			return topology.ErrVersion
		}
		if len(id) != topology.IDLen {
			return topology.ErrNodeID
		}
		n := t.Node(id)
		if n == nil {
			return engine.NewError("ERR", "No this node in the cluster")
		}
		if !n.IsMaster() {
			return ErrNotMaster
		}
		t.Version = version
		t.SetOwner(ranges, n)
		return nil
	})
}

// change replaces the topology by a copy that f has changed.
func (m *Map) change(f func(t *topology.Topology) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.now.Load()
	t := old.Copy()
	if err := f(t); err != nil {
		return err
	}
	return m.apply(old, t.Settle(), true)
}

// apply puts a topology into force: it writes the topology to the disk, gives the server its role, and deletes the keys
// of slots that were migrated and now belong to another node. A replica that becomes a master takes over its master's
// migration marks, unless inherit is false. mu must be held.
func (m *Map) apply(old, t *topology.Topology, inherit bool) error {
	if err := m.files.save(t); err != nil {
		return err
	}
	// A node becomes a master before clients are sent to it, and a replica only after they are sent elsewhere.
	var err error
	if t.IsReplica() {
		if err = m.learn(t); err == nil {
			t.Settle()
		}
	} else if err = m.setRole(t); inherit && err == nil && t.IsMaster() && !old.IsMaster() {
		was := old.Copy() // the master sends no more changes now
		if old.Version < 0 {
			was = t.Copy()
		}
		if err = m.learn(was); err == nil {
			was.MakeDoubtful()
			t.TakeMarks(was)
			t.Settle()
			old = was
		}
	}
	m.publish(t)
	if t.IsReplica() {
		err = errors.Join(err, m.setRole(t))
	}
	return errors.Join(err, m.deleteLeft(old, t))
}

// deleteLeft deletes the keys of slots that have moved to another node for good, and then keeps the marks that are
// still in force. A crash in between leaves the old marks on disk, so the next process deletes the keys again.
func (m *Map) deleteLeft(old, t *topology.Topology) error {
	if !t.IsReplica() {
		if err := m.deleteSlots(topology.Left(old, t)); err != nil {
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
func (m *Map) publish(t *topology.Topology) {
	m.opt.Changed(m.now.Swap(t), t)
	if g := m.migrator.Load(); g != nil {
		(*g).TopologyChanged(t)
	}
}

// setRole gives the server the role of master or replica that a topology names. A node that is not in the topology
// follows no master.
func (m *Map) setRole(t *topology.Topology) error {
	if t.Version < 0 {
		return nil
	}
	if !t.IsReplica() {
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

// Leaving records that another node may soon own slots of this node. From then on a process that starts, and a
// replica that becomes a master, ask the destination first. When Leaving returns, the replicas have the record. A
// replica that is not connected may have become the master: before the slots leave, this node has had the time to
// learn of that. After an error nothing has changed.
func (m *Map) Leaving(r cf.SlotRange, to *topology.Node) error {
	if err := m.mark(r, topology.Leaving, to.ID); err != nil {
		m.Stays(r)
		return err
	}
	n := 0
	for replica := range m.now.Load().Replicas(m.now.Load().Self) {
		if !replica.Failed {
			n++
		}
	}
	m.opt.Replicated(n)
	return nil
}

// Stays undoes Leaving, and ends any doubt: the slots have not moved.
func (m *Map) Stays(r cf.SlotRange) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.now.Load().Copy()
	for slot := range r.All() {
		switch m, _ := t.Mark(slot); m {
		case topology.Leaving, topology.Forbidden, topology.Doubtful:
			t.SetMark(cf.SlotRange{First: slot, Last: slot}, topology.Unmarked, "")
		}
	}
	m.publish(t.Settle())
	if err := m.saveMarks(t); err != nil {
		m.opt.Log.Error("the end of a migration could not be kept", zap.Error(err))
	}
}

// Forbid refuses writes to slots of this node. When it returns, no such write is running. It returns an error, and
// refuses nothing, when a script that holds locks cannot be waited for.
func (m *Map) Forbid(r cf.SlotRange) error {
	m.mark(r, topology.Forbidden, "")
	err := m.opt.Barrier()
	if err != nil {
		m.unmark(r, topology.Forbidden)
	}
	return err
}

// Allow undoes Forbid. Slots that were leaving before are leaving again.
func (m *Map) Allow(r cf.SlotRange) { m.unmark(r, topology.Forbidden) }

// Migrated redirects all commands for slots of this node to another node, until the controller names the owner. The
// redirection is in force even if it could not be written to the disk. first, unless it is nil, is called after that
// write and before clients are redirected; other changes wait for it. It is not called when the controller has given
// one of the slots to another node meanwhile: then this node redirects nobody to the destination. After an error
// nothing has changed: the topology has been replaced since Forbid in a manner that allowed writes, which the
// destination lacks.
func (m *Map) Migrated(r cf.SlotRange, to *topology.Node, first func()) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.now.Load()
	for slot := range r.All() {
		if is, _ := t.Mark(slot); t.Owns(slot) && is != topology.Forbidden && is != topology.Doubtful {
			return errAllowed
		}
	}
	m.markLocked(r, topology.Migrated, to.ID, first)
	return nil
}

// Importing lets the migrator's commands, and commands after ASKING, run for slots of other nodes.
func (m *Map) Importing(r cf.SlotRange) { m.mark(r, topology.Importing, "") }

// ImportEnded undoes Importing.
func (m *Map) ImportEnded(r cf.SlotRange) { m.unmark(r, topology.Importing) }

// Imported lets all commands run for slots of other nodes, until the controller names the owner. The error has the
// meaning of that of Migrated.
func (m *Map) Imported(r cf.SlotRange) error { return m.mark(r, topology.Imported, "") }

// Arrived is like Imported, but commands get TRYAGAIN until Confirmed reports that the source redirects clients. After
// an error nothing was kept.
func (m *Map) Arrived(r cf.SlotRange) error { return m.mark(r, topology.Arrived, "") }

// Confirmed turns Arrived into Imported.
func (m *Map) Confirmed(r cf.SlotRange) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.now.Load().Copy()
	for slot := range r.All() {
		if m, to := t.Mark(slot); m == topology.Arrived {
			t.SetMark(cf.SlotRange{First: slot, Last: slot}, topology.Imported, to)
		}
	}
	m.publish(t.Settle())
}

// Revoked undoes Imported and Arrived: the source keeps the slots.
func (m *Map) Revoked(r cf.SlotRange) {
	if !m.unmark(r, topology.Imported) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.saveMarks(m.now.Load()); err != nil {
		m.opt.Log.Error("the end of an import could not be kept", zap.Error(err))
	}
}

// mark marks those slots of a range that have an owner: this node's slots or the slots of other nodes, depending on the
// mark.
func (m *Map) mark(r cf.SlotRange, as topology.Mark, to string) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.markLocked(r, as, to, nil)
}

// markLocked is mark with a function that is called when the mark is on disk and not yet in force, unless the owner
// of a slot has changed. mu must be held.
func (m *Map) markLocked(r cf.SlotRange, as topology.Mark, to string, first func()) (err error) {
	t := m.now.Load().Copy()
	all := true
	for slot := range r.All() {
		if t.Owner(slot) == nil || t.Owns(slot) != as.OfSource() {
			all = false
			continue
		}
		if as == topology.Forbidden {
			_, to = t.Mark(slot)
		}
		t.SetMark(cf.SlotRange{First: slot, Last: slot}, as, to)
	}
	t.Settle()
	if as == topology.Migrated || as == topology.Imported || as == topology.Leaving || as == topology.Arrived {
		if err = m.saveMarks(t); err != nil {
			m.opt.Log.Error("the end of a migration could not be kept", zap.Error(err))
		}
	}
	if first != nil && err == nil && all {
		first()
	}
	m.publish(t)
	return err
}

// unmark removes a mark and reports whether it existed.
func (m *Map) unmark(r cf.SlotRange, as topology.Mark) (was bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.now.Load().Copy()
	for slot := range r.All() {
		if m, to := t.Mark(slot); m == as || as == topology.Imported && m == topology.Arrived {
			rest := topology.Unmarked
			if to != "" && as == topology.Forbidden {
				rest = topology.Leaving
			}
			t.SetMark(cf.SlotRange{First: slot, Last: slot}, rest, to)
			was = true
		}
	}
	if was {
		m.publish(t.Settle())
	}
	return was
}

func (m *Map) Migrate(r cf.SlotRange, id string, done func(error)) error {
	t := m.now.Load()
	to := t.Node(id)
	if to == nil {
		return engine.NewError("ERR", "Can't find the destination node id")
	}
	for slot := range r.All() {
		switch {
		case t.IsMoved(slot):
			return engine.NewError("ERR", "Can't migrate slot which has been migrated")
		case t.IsUnsure(slot):
			return topology.ErrDoubt
		}
	}
	if _, _, ok := t.Doubt(); ok {
		return topology.ErrDoubt // a destination is asked about a whole migration: two must not become one range
	}
	for slot := range r.All() {
		if !t.Owns(slot) {
			return engine.NewError("ERR", "Can't migrate slot which doesn't belong to me")
		}
	}
	switch {
	case !t.IsMaster() || m.opt.IsReplica():
		return engine.NewError("ERR", "Slave can't migrate slot")
	case !to.IsMaster():
		return engine.NewError("ERR", "Can't migrate slot to a slave")
	case to == t.Self:
		return engine.NewError("ERR", "Can't migrate slot to myself")
	}
	g := m.migrator.Load()
	if g == nil {
		return errNoMigrator
	}
	return (*g).Migrate(r, to, done)
}

func (m *Map) Import(sess *command.Session, r cf.SlotRange, state command.ImportState) error {
	t := m.now.Load()
	if !t.IsMaster() || m.opt.IsReplica() {
		return errReplicaTakes
	}
	for slot := range r.All() {
		if t.Owns(slot) {
			return engine.NewError("ERR", "Can't import slot which belongs to me")
		}
	}
	g := m.migrator.Load()
	if g == nil {
		return errNoMigrator
	}
	return (*g).Import(sess, r, state)
}

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

func (m *Map) FlushSlots(ranges []cf.SlotRange) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.opt.IsReplica() {
		return engine.ErrReplica
	}
	if j := m.jobs(); j.Migrating.Running() || j.Importing.Running() {
		return engine.NewError("ERR", "Can't flush slots while migrating or importing slot")
	}
	return m.deleteSlots(ranges)
}

func (m *Map) Reset() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch j := m.jobs(); {
	case j.Migrating.Running():
		return engine.NewError("ERR", "Can't reset cluster while migrating slot")
	case j.Importing.Running():
		return engine.NewError("ERR", "Can't reset cluster while importing slot")
	case !m.opt.Empty():
		return engine.NewError("ERR", "Can't reset cluster while database is not empty")
	}
	if err := m.opt.Lead(); err != nil {
		return err
	}
	if err := m.files.remove(); err != nil {
		return err
	}
	t := topology.None("").Settle()
	m.publish(t)
	return m.saveMarks(t)
}

// Keep starts writing the topology to the disk, or removes the files and stops. It does not wait for a running change.
func (m *Map) Keep(on bool) error { return m.files.keep(on, &m.now) }
