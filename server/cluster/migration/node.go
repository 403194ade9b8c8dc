package migration

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/cluster"
	"github.com/basaltdb/basalt/server/cluster/migration/destination"
	"github.com/basaltdb/basalt/server/cluster/migration/peer"
	"github.com/basaltdb/basalt/server/cluster/migration/source"
	"github.com/basaltdb/basalt/server/cluster/topology"
	"github.com/basaltdb/basalt/server/command"
)

var (
	errTopology    = errors.New("the topology has changed")
	errMigrating   = engine.NewError("ERR", "table files are not taken while slots are migrated away")
	errImportState = engine.NewError("ERR", "Invalid import state")
)

// Node is the source and the destination of migrations of one node. It implements [cluster.Migrator].
type Node struct {
	src   *source.Source
	imp   *destination.Import
	slots *cluster.Map
	log   *zap.Logger

	mu     sync.Mutex
	links  map[*command.Session]*sessionLink // of those that have begun imports
	asking bool                              // settleDoubts runs
	taking bool                              // settleArrivals runs
}

// NewNode makes the migrations of a node, after the topology was read, and deletes what a former process has left of
// imports.
func NewNode(slots *cluster.Map, from source.Options, to destination.Options) (*Node, error) {
	from.Slots, to.Slots = slots, slots
	to.Has = func(slot uint16) bool { return slots.Topology().Has(slot) }
	followed := to.Followed
	to.Followed = func() bool { return hasReplica(slots.Topology()) || followed() }
	imp, err := destination.New(to)
	if err != nil {
		return nil, err
	}
	n := &Node{src: source.New(from), imp: imp, slots: slots, log: from.Log, links: map[*command.Session]*sessionLink{}}
	n.TopologyChanged(slots.Topology())
	return n, nil
}

// Close ends the present migration and waits for its end.
func (n *Node) Close() { n.src.Close() }

// Migrate implements [cluster.Migrator].
func (n *Node) Migrate(r cf.SlotRange, to *topology.Node, done func(error)) error {
	return n.src.Migrate(r, source.Target{ID: to.ID, Addr: to.Addr(), Stays: n.slots.Stays,
		Leaving: func(r cf.SlotRange) error { return n.slots.Leaving(r, to) },
		Moved:   func(r cf.SlotRange, first func()) error { return n.slots.Migrated(r, to, first) }}, done)
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
	case command.ImportVerify:
		return n.imp.Verify(n.link(sess), r)
	case command.ImportConfirm:
		return n.imp.Confirm(n.link(sess), r)
	case command.ImportFailed:
		sess.Importing = false
		return n.imp.Fail(n.link(sess), r)
	}
	return errImportState
}

// Ingest implements [cluster.Migrator].
func (n *Node) Ingest(sess *command.Session, step command.IngestStep, records []byte) error {
	link := n.link(sess)
	switch step {
	case command.IngestBegin:
		if n.src.Status().State == source.StateStarted { // it reads the log
			return errMigrating
		}
		return n.imp.BeginFiles(link)
	case command.IngestRecords:
		return n.imp.AddRecords(link, records)
	}
	return n.imp.EndFiles(link)
}

// hasReplica reports whether a node is a replica of this one, connected or not.
func hasReplica(t *topology.Topology) bool {
	return slices.ContainsFunc(t.Nodes, func(o *topology.Node) bool { return o.Master != "" && o.Master == t.ID })
}

// Jobs implements [cluster.Migrator].
func (n *Node) Jobs() (j topology.Jobs) {
	if s := n.src.Status(); s.State != source.StateNone {
		j.Migrating = &topology.Job{Range: s.Range, Node: s.Target, State: string(s.State),
			Active: s.State == source.StateStarted}
	}
	if r, state := n.imp.Status(); state != destination.None {
		j.Importing = &topology.Job{Range: r, State: string(state), Active: state == destination.Started}
	}
	return j
}

// TopologyChanged implements [cluster.Migrator]: a migration ends whose slots or destination are not what they were.
func (n *Node) TopologyChanged(t *topology.Topology) {
	n.src.Cancel(errTopology, func(r cf.SlotRange, target string) bool {
		to := t.Node(target)
		return !t.IsMaster() || to == nil || !to.IsMaster() || owned(t, r) != int(r.Last-r.First)+1
	})
	n.imp.Cancel(func(r cf.SlotRange) bool { return !t.IsMaster() || owned(t, r) > 0 })
	if !t.IsMaster() {
		n.src.Forget()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, _, ok := t.Doubt(); ok && !n.asking {
		n.asking = true
		n.src.Beside(n.settleDoubts)
	}
	if _, _, ok := t.Arrival(); ok && !n.taking {
		n.taking = true
		n.src.Beside(n.settleArrivals)
	}
}

const (
	// longestDoubt is how long the destination of a migration of a former process, or of the former master, is asked
	// whether it has the slots. Nobody serves them meanwhile.
	longestDoubt = 10 * time.Second
	askEvery     = 100 * time.Millisecond
)

// settleDoubts asks where slots are that were leaving when a former process, or the former master, has ended.
func (n *Node) settleDoubts() {
	began := time.Now()
	for {
		n.mu.Lock()
		r, to, ok := n.slots.Topology().Doubt()
		n.asking = ok
		n.mu.Unlock()
		if !ok {
			return
		}
		if to == nil {
			n.slots.Stays(r)
			continue
		}
		void, err := n.src.Ask(r, to.Addr())
		log := n.log.With(zap.Stringer("slots", r), zap.String("destination", to.Addr()))
		switch {
		case err == nil && void:
			log.Warn("a migration had not ended: the slots are here")
			n.slots.Stays(r)
		case err == nil:
			log.Info("a migration had ended: the slots have moved")
			n.slots.Migrated(r, to, nil)
		case n.src.Closed():
			return
		case time.Since(began) > longestDoubt:
			log.Error("the destination of a migration cannot be asked whether it has the slots: they stay here", zap.Error(err))
			n.slots.Stays(r)
			n.src.Revoke(r, to.Addr())
		default:
			n.src.Sleep(askEvery)
		}
	}
}

// settleArrivals asks the owners of slots that have arrived whether they send clients here. The answer that the source
// got to CLUSTER IMPORT range 1 may have been lost, or the command may have come long after the source has given up:
// then the source goes on with the slots, and a client that comes here without being sent must not find them.
func (n *Node) settleArrivals() {
	began := time.Now()
	keys := unusedKeys{names: map[uint16]string{}}
	var p *peer.Peer
	defer func() {
		if p != nil {
			p.Close()
		}
	}()
	for tries := 0; ; tries++ {
		n.mu.Lock()
		asOf := n.imp.Now()
		t := n.slots.Topology()
		r, from, ok := t.Arrival()
		n.taking = ok
		n.mu.Unlock()
		if !ok {
			return
		}
		var said verdict
		var err error
		if p == nil || p.Broken() {
			if p != nil {
				p.Close()
			}
			p, err = n.src.Dial(from.Addr())
		}
		if err == nil {
			r, said, err = askOwner(p, &keys, r, t.Self)
		}
		log := n.log.With(zap.Stringer("slots", r), zap.String("owner", from.Addr()))
		late := time.Since(began) > longestDoubt
		switch {
		case n.src.Closed():
			return
		case said == sentHere, late && err != nil:
			if err != nil {
				log.Error("the owner of imported slots cannot be asked whether they have moved: they are served", zap.Error(err))
			}
			n.slots.Confirmed(r)
		case said == keptThere:
			log.Warn("the owner of imported slots has kept them")
			if err := n.imp.Void(r, asOf); err != nil {
				log.Error("cleaning up after an import failed", zap.Error(err))
			}
		case tries < 100: // the source is about to know
			n.src.Sleep(time.Millisecond)
		default:
			n.src.Sleep(askEvery)
		}
	}
}

// verdict is what the owner of slots says of them.
type verdict int

const (
	notSaid   verdict = iota // it does not know yet, or has another topology
	sentHere                 // it sends clients to this node
	keptThere                // it lets clients write
)

// askOwner asks the owner of a range about its slots, by a write of a key that nobody has: of those at the beginning
// about which it says the same.
func askOwner(p *peer.Peer, keys *unusedKeys, r cf.SlotRange, self *topology.Node) (cf.SlotRange, verdict, error) {
	var first verdict
	for slot := int(r.First); slot <= int(r.Last); slot++ {
		said := notSaid
		rep, err := p.Do("PERSIST", keys.of(uint16(slot)))
		var no peer.Error
		switch {
		case errors.As(err, &no) && string(no) == fmt.Sprintf("MOVED %d %s:%d", slot, self.Host, self.Port):
			said = sentHere
		case strings.HasPrefix(string(no), "MOVED "), strings.HasPrefix(string(no), "TRYAGAIN "):
		case err != nil: // of the connection, or one that no migration gives
			return r, notSaid, err
		case rep.Kind == ':':
			said = keptThere
		}
		switch {
		case slot == int(r.First):
			if first = said; first == notSaid {
				return r, first, nil
			}
		case said != first:
			r.Last = uint16(slot - 1)
		}
	}
	return r, first, nil
}

// unusedKeys finds keys that no client has. It notes the slots of those that it tries: one key in each slot takes some
// 170,000 attempts, not 16,384 times 16,384.
type unusedKeys struct {
	tried int
	names map[uint16]string
}

// of returns a key of a slot.
func (k *unusedKeys) of(slot uint16) string {
	for ; k.names[slot] == ""; k.tried++ {
		name := "basalt asks:{" + strconv.Itoa(k.tried) + "}"
		k.names[cf.Slot([]byte(name))] = name
	}
	return k.names[slot]
}

// owned returns how many slots of a range are this node's.
func owned(t *topology.Topology, r cf.SlotRange) (n int) {
	for slot := int(r.First); slot <= int(r.Last); slot++ {
		if t.Owns(uint16(slot)) {
			n++
		}
	}
	return n
}

// sessionLink is the connection of a source.
type sessionLink struct {
	id    int64
	kill  func()
	ended chan struct{}
}

func (l *sessionLink) ID() int64              { return l.id }
func (l *sessionLink) Close()                 { l.kill() }
func (l *sessionLink) Ended() <-chan struct{} { return l.ended }

// link returns the link of a session, always the same.
func (n *Node) link(sess *command.Session) destination.Link {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.links[sess]
	if l == nil {
		l = &sessionLink{id: sess.ID, ended: make(chan struct{})}
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
