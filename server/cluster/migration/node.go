package migration

import (
	"errors"
	"sync"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/cluster"
	"github.com/basaltdb/basalt/server/command"
)

var (
	errTopology    = errors.New("the topology has changed")
	errImportState = engine.NewError("ERR", "Invalid import state")
)

// Node is the source and the destination of migrations of one node. It implements [cluster.Migrator].
type Node struct {
	src   *Source
	imp   *Import
	slots *cluster.Map

	mu    sync.Mutex
	links map[*command.Session]*sessionLink // of those that have begun imports
}

// NewNode makes the migrations of a node, after the topology was read, and deletes what a former process has left of
// imports.
func NewNode(slots *cluster.Map, from Options, to ImportOptions) (*Node, error) {
	from.Slots, to.Slots = slots, slots
	to.Serves = func(slot uint16) bool {
		t := slots.Topology()
		return t.Owns(slot) || t.Serves(slot)
	}
	imp, err := NewImport(to)
	if err != nil {
		return nil, err
	}
	return &Node{src: NewSource(from), imp: imp, slots: slots, links: map[*command.Session]*sessionLink{}}, nil
}

// Close ends the present migration and waits for its end.
func (n *Node) Close() { n.src.Close() }

// Migrate implements [cluster.Migrator].
func (n *Node) Migrate(r cf.SlotRange, to *cluster.Node, done func(error)) error {
	return n.src.Migrate(r, Target{ID: to.ID, Addr: to.Addr(),
		Moved: func(r cf.SlotRange) error { return n.slots.Migrated(r, to) }}, done)
}

// Import implements [cluster.Migrator].
func (n *Node) Import(sess *command.Session, r cf.SlotRange, state command.ImportState) error {
	switch state {
	case command.ImportStart:
		err := n.imp.Start(n.link(sess), r)
		sess.Importing = err == nil
		return err
	case command.ImportSuccess:
		sess.Importing = false
		return n.imp.Succeed(n.link(sess), r)
	case command.ImportFailed:
		sess.Importing = false
		return n.imp.Fail(r)
	}
	return errImportState
}

// Jobs implements [cluster.Migrator].
func (n *Node) Jobs() (j cluster.Jobs) {
	if s := n.src.Status(); s.State != StateNone {
		j.Migrating = &cluster.Job{Range: s.Range, Node: s.Target, State: string(s.State), Active: s.State == StateStarted}
	}
	if r, state := n.imp.Status(); state != ImportNone {
		j.Importing = &cluster.Job{Range: r, State: string(state), Active: state == ImportStarted}
	}
	return j
}

// TopologyChanged implements [cluster.Migrator]: a migration ends whose slots or destination are not what they were.
func (n *Node) TopologyChanged(t *cluster.Topology) {
	n.src.Cancel(errTopology, func(r cf.SlotRange, target string) bool {
		to := t.Node(target)
		return !t.IsMaster() || to == nil || !to.IsMaster() || owned(t, r) != int(r.Last-r.First)+1
	})
	n.imp.Cancel(func(r cf.SlotRange) bool { return !t.IsMaster() || owned(t, r) > 0 })
}

// owned returns how many slots of a range are this node's.
func owned(t *cluster.Topology, r cf.SlotRange) (n int) {
	for slot := int(r.First); slot <= int(r.Last); slot++ {
		if t.Owns(uint16(slot)) {
			n++
		}
	}
	return n
}

// sessionLink is the connection of a source.
type sessionLink struct {
	kill  func()
	ended chan struct{}
}

func (l *sessionLink) Close()                 { l.kill() }
func (l *sessionLink) Ended() <-chan struct{} { return l.ended }

// link returns the link of a session, always the same.
func (n *Node) link(sess *command.Session) Link {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.links[sess]
	if l == nil {
		l = &sessionLink{ended: make(chan struct{})}
		l.kill = sess.Control.OnEnd(func() {
			n.mu.Lock()
			delete(n.links, sess)
			n.mu.Unlock()
			close(l.ended)
			n.imp.LinkEnded(l)
		})
		n.links[sess] = l
	}
	return l
}
