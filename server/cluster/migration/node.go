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
	"github.com/basaltdb/basalt/server/cluster/migration/source"
	"github.com/basaltdb/basalt/server/cluster/peer"
	"github.com/basaltdb/basalt/server/cluster/topology"
	"github.com/basaltdb/basalt/server/command"
)

var (
	errTopology    = errors.New("the topology has changed")
	errMigrating   = engine.NewError("ERR", "table files are not taken while slots are migrated away")
	errImportState = engine.NewError("ERR", "Invalid import state")
)

// Node is the source and the destination of the migrations of one node. It implements [cluster.Migrator].
type Node struct {
	src   *source.Source
	imp   *destination.Import
	slots *cluster.Map
	log   *zap.Logger

	mu     sync.Mutex
	links  map[*command.Session]*sessionLink // of the sessions that have begun imports
	asking bool                              // settleDoubts runs
	taking bool                              // settleArrivals runs
	master bool                              // in the topology before
}

// NewNode makes the migrations of a node after the topology was read, and deletes what an earlier process has left of
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

// Close cancels the current migration and waits for its end.
func (n *Node) Close() { n.src.Close() }

func (n *Node) Migrate(r cf.SlotRange, to *topology.Node, done func(error)) error {
	return n.src.Migrate(r, source.Target{ID: to.ID, Addr: to.Addr(), Stays: n.slots.Stays,
		Leaving: func(r cf.SlotRange) error { return n.slots.Leaving(r, to) },
		Moved:   func(r cf.SlotRange, first func()) error { return n.slots.Migrated(r, to, first) }}, done)
}

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

func (n *Node) Ingest(sess *command.Session, step command.IngestStep, records []byte) error {
	link := n.link(sess)
	switch step {
	case command.IngestBegin:
		if n.src.Status().State == source.StateStarted { // the migration reads the log
			return errMigrating
		}
		return n.imp.BeginFiles(link)
	case command.IngestRecords:
		return n.imp.AddRecords(link, records)
	}
	return n.imp.EndFiles(link)
}

// hasReplica reports whether this node has a replica, connected or not.
func hasReplica(t *topology.Topology) bool {
	return slices.ContainsFunc(t.Nodes, func(o *topology.Node) bool { return o.Master != "" && o.Master == t.ID })
}

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

// TopologyChanged implements [cluster.Migrator]: it cancels a migration whose slots or destination have changed.
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
	if t.IsMaster() && !n.master {
		n.src.Beside(n.imp.Promoted)
	}
	n.master = t.IsMaster()
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
	// longestDoubt is the max time for asking the destination of a migration, begun by an earlier process or by the
	// former master, whether it has the slots, and how long the owner of slots that have arrived may not answer. No
	// node serves the slots meanwhile.
	longestDoubt = 10 * time.Second
	askEvery     = 100 * time.Millisecond
)

// settleDoubts asks the destinations about slots that were leaving when an earlier process, or the former master,
// ended.
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

// settleArrivals asks the owners of slots that have arrived whether they redirect clients to this node. The source may
// have missed the reply to CLUSTER IMPORT range 1, or have given up before the command arrived: then it keeps the
// slots, and a client that connects here directly must not find them.
func (n *Node) settleArrivals() {
	var silent time.Time // since when the owner at the address asked has not answered; zero = it has
	keys := unusedKeys{names: map[uint16]string{}}
	var p *peer.Peer
	var asked string // the address of p
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
		began := time.Now()
		var said verdict
		var err error
		if p == nil || p.Broken() || asked != from.Addr() { // a replica of the former owner may be the owner now
			if p != nil {
				p.Close()
			}
			if asked != from.Addr() {
				asked, silent = from.Addr(), time.Time{}
			}
			p, err = n.src.Dial(asked)
		}
		if err == nil {
			r, said, err = askOwner(p, &keys, r, t.Self)
		}
		switch {
		case err == nil:
			silent = time.Time{}
		case silent.IsZero():
			silent = began
		}
		log := n.log.With(zap.Stringer("slots", r), zap.String("owner", from.Addr()))
		switch {
		case n.src.Closed():
			return
		case said == sentHere, err != nil && time.Since(silent) > longestDoubt:
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

// verdict is the owner's answer about its slots.
type verdict int

const (
	notSaid   verdict = iota // the owner does not know yet, or has another topology
	sentHere                 // the owner redirects clients to this node
	keptThere                // the owner lets clients write
)

// askOwner asks the owner about a range by writing keys that no client uses. It returns the slots at the beginning of
// the range for which the answer is the same.
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
		case err != nil: // a network error, or one that no migration returns
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

// unusedKeys finds keys that no client uses. It records the slots of the keys that it tries: one key in each slot takes
// some 170,000 attempts, not 16,384 times 16,384.
type unusedKeys struct {
	tried int
	names map[uint16]string
}

func (k *unusedKeys) of(slot uint16) string {
	for ; k.names[slot] == ""; k.tried++ {
		name := "basalt asks:{" + strconv.Itoa(k.tried) + "}"
		k.names[cf.Slot([]byte(name))] = name
	}
	return k.names[slot]
}

// owned returns how many slots of a range belong to this node.
func owned(t *topology.Topology, r cf.SlotRange) (n int) {
	for slot := range r.All() {
		if t.Owns(slot) {
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

// link returns the link of a session. It is always the same one.
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
