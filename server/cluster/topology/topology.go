// Package topology is what one node of a cluster knows of it at one time: which node serves which slot, what migration
// has told of the slots, and so what the node does with a command. It is pure: a [Topology] is an immutable value.
package topology

import (
	"bytes"
	"iter"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// IDLen is the length of the id of a node.
const IDLen = 40

// Errors with the texts of Kvrocks.
var (
	ErrNodeID  = engine.NewError("ERR", "Invalid cluster node id")
	ErrVersion = engine.NewError("ERR", "Invalid cluster version")
	errNodes   = engine.NewError("ERR", "Invalid cluster nodes info")
)

// Node is a node of the cluster. It is immutable.
type Node struct {
	ID   string
	Host string
	Port int
	// Master is the id of the replica's master; "" = the node is a master.
	Master string
	// Failed: the controller has marked the replica as failed (role "slave,fail", Kvrocks 2.16).
	Failed bool
}

func (n *Node) Addr() string { return net.JoinHostPort(n.Host, strconv.Itoa(n.Port)) }

// IsMaster reports whether the node is a master.
func (n *Node) IsMaster() bool { return n.Master == "" }

// MasterID returns the id of the master of the node's shard: its own if it is one.
func (n *Node) MasterID() string {
	if n.IsMaster() {
		return n.ID
	}
	return n.Master
}

// Topology is the state of the cluster as one node knows it. It is immutable: nothing in it may be changed.
type Topology struct {
	Version int64  // -1 = the node has received no topology
	ID      string // id of this node, "" = unknown
	Self    *Node  // nil = this node is not in the cluster
	Nodes   []*Node
	byID    map[string]*Node

	// owners holds the owner of each slot as an index into Nodes plus one; 0 = no owner.
	owners [cf.NumSlots]uint16
	// marks holds the migration mark of each slot.
	marks [cf.NumSlots]Mark
	// rules say how this node treats commands for each slot. They are derived from the other fields.
	rules [cf.NumSlots]rule
	// moved holds the ids of the nodes that slots have moved to, or may have moved to: of slots marked as migrated,
	// leaving or doubtful, and of forbidden slots that were leaving before.
	moved map[uint16]string
}

// Mark is the state of a slot in a migration.
type Mark uint8

// The marks.
const (
	Unmarked  Mark = iota
	Forbidden      // the source refuses writes
	Migrated       // the source redirects all commands to the destination
	Importing      // the destination serves only the migrator and commands after ASKING
	Imported       // the destination serves all commands
	Leaving        // the source is about to tell the destination that it has everything
	Doubtful       // like leaving, but the source ended before it knew the destination's answer
	Arrived        // like imported, but whether the owner redirects clients is not known yet
)

// None is the topology of a node that has received none.
func None(id string) *Topology { return &Topology{Version: -1, ID: id} }

// Node returns the node with an id, nil if none has it.
func (t *Topology) Node(id string) *Node { return t.byID[id] }

// Owner returns the node that serves a slot according to the controller, nil = none.
func (t *Topology) Owner(slot uint16) *Node {
	if o := t.owners[slot]; o != 0 {
		return t.Nodes[o-1]
	}
	return nil
}

// Owns reports whether a slot belongs to this node according to the controller.
func (t *Topology) Owns(slot uint16) bool { return t.Self != nil && t.Owner(slot) == t.Self }

// Has reports whether this node has the keys of a slot: the slot belongs to it, or was imported.
func (t *Topology) Has(slot uint16) bool {
	return t.Owns(slot) || t.marks[slot] == Imported || t.marks[slot] == Arrived
}

// IsMaster reports whether this node is a master of the cluster.
func (t *Topology) IsMaster() bool { return t.Self != nil && t.Self.IsMaster() }

// MovedTo returns the node that a slot of this node has moved to, or the present master of that node; nil = the slot
// has not moved.
func (t *Topology) MovedTo(slot uint16) *Node {
	n := t.byID[t.moved[slot]]
	if n != nil && !n.IsMaster() {
		if master := t.byID[n.Master]; master != nil {
			return master
		}
	}
	return n
}

func (t *Topology) Replicas(master *Node) iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		for _, n := range t.Nodes {
			if n.Master == master.ID && !yield(n) {
				return
			}
		}
	}
}

// Ranges returns the ranges of slots that have an owner, in order, with their owners.
func (t *Topology) Ranges() iter.Seq2[cf.SlotRange, *Node] {
	return func(yield func(cf.SlotRange, *Node) bool) {
		for first := 0; first < cf.NumSlots; {
			last := first
			for last+1 < cf.NumSlots && t.owners[last+1] == t.owners[first] {
				last++
			}
			r := cf.SlotRange{First: uint16(first), Last: uint16(last)}
			if n := t.Owner(r.First); n != nil && !yield(r, n) {
				return
			}
			first = last + 1
		}
	}
}

// SetOwner assigns ranges to a node of the topology. The marks of slots whose owner changes are dropped.
func (t *Topology) SetOwner(ranges []cf.SlotRange, n *Node) {
	place := uint16(slices.Index(t.Nodes, n) + 1)
	for _, r := range ranges {
		for slot := range r.All() {
			if t.owners[slot] != place {
				t.owners[slot], t.marks[slot] = place, Unmarked
				delete(t.moved, slot)
			}
		}
	}
}

// Mark returns the mark of a slot, and the id of the node that the slot moves to; "" = the mark has no such node.
func (t *Topology) Mark(slot uint16) (m Mark, to string) { return t.marks[slot], t.moved[slot] }

// IsMoved reports whether commands for a slot of this node are redirected to the destination of its migration. IsUnsure
// reports whether the other side of a migration is being asked which node has the slot.
func (t *Topology) IsMoved(slot uint16) bool  { return t.rules[slot] == moved }
func (t *Topology) IsUnsure(slot uint16) bool { return t.rules[slot] == unsure }

// Copy returns a topology that may be changed until Settle.
func (t *Topology) Copy() *Topology {
	c := *t
	c.moved = maps.Clone(t.moved)
	return &c
}

// SetMark marks a range; to is the id of the node that the slots move to; "" = the mark has no such node.
func (t *Topology) SetMark(r cf.SlotRange, m Mark, to string) {
	for slot := range r.All() {
		t.marks[slot] = m
		delete(t.moved, slot)
		if to != "" && m != Imported {
			if t.moved == nil {
				t.moved = map[uint16]string{}
			}
			t.moved[slot] = to
		}
	}
}

// Settle computes the fields that are derived from the nodes, the owners, the id and the marks.
func (t *Topology) Settle() *Topology {
	t.Self = t.byID[t.ID]
	for slot := range t.rules {
		t.rules[slot] = t.rule(uint16(slot))
	}
	return t
}

// Parse reads the nodes of CLUSTERX SETNODES:
//
//	<id> <host> <port> master - [<slot> | <first>-<last>] ...
//	<id> <host> <port> slave|replica[,fail] <id of the master>
//
// one on a line; the last line need not end.
func Parse(text []byte) (*Topology, error) {
	t := &Topology{byID: map[string]*Node{}}
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		if err := t.parseNode(strings.FieldsFunc(string(line), func(r rune) bool { return r == ' ' })); err != nil {
			return nil, err
		}
	}
	if len(t.Nodes) == 0 {
		return nil, errNodes
	}
	return t, nil
}

// maxNodes is the max number of nodes: owners have 16 bits.
const maxNodes = 1<<16 - 1

func (t *Topology) parseNode(fields []string) error {
	if len(fields) < 5 || len(t.Nodes) == maxNodes {
		return errNodes
	}
	n := &Node{ID: fields[0], Host: fields[1]}
	if len(n.ID) != IDLen {
		return ErrNodeID
	}
	port, err := strconv.ParseUint(fields[2], 10, 16)
	if err != nil {
		return engine.NewError("ERR", "Invalid cluster node port")
	}
	n.Port = int(port)
	role, flags, _ := strings.Cut(strings.ToLower(fields[3]), ",")
	n.Failed = flags == "fail"
	switch master := role == "master"; {
	case !master && role != "slave" && role != "replica", flags != "" && (master || !n.Failed):
		return engine.NewError("ERR", "Invalid cluster node role")
	case master && fields[4] != "-" || !master && len(fields[4]) != IDLen:
		return ErrNodeID
	case !master && len(fields) != 5:
		return errNodes
	case !master:
		n.Master = fields[4]
	}
	if t.byID[n.ID] != nil {
		return engine.NewError("ERR", "Invalid cluster nodes info: a node id occurs twice")
	}
	t.byID[n.ID], t.Nodes = n, append(t.Nodes, n)
	for _, f := range fields[5:] {
		if isID(f) {
			return engine.NewError("ERR", "Invalid nodes definition: Missing newline between node entries.")
		}
		r, ok := parseRange(f)
		if !ok || strings.Contains(f, "-") && r.First == r.Last {
			return engine.NewError("ERR", "Slot is out of range")
		}
		for slot := range r.All() {
			if t.owners[slot] != 0 {
				return engine.NewError("ERR", "Slot distribution is overlapped")
			}
			t.owners[slot] = uint16(len(t.Nodes))
		}
	}
	return nil
}

// isID reports whether a word is an id: 40 hexadecimal digits.
func isID(word string) bool {
	return len(word) == IDLen && strings.Trim(word, "0123456789abcdefABCDEF") == ""
}

// parseRange reads "7" or "7-9".
func parseRange(word string) (r cf.SlotRange, ok bool) {
	first, last, both := strings.Cut(word, "-")
	if !both {
		last = first
	}
	a, okA := parseSlot(first)
	b, okB := parseSlot(last)
	return cf.SlotRange{First: a, Last: b}, okA && okB && a <= b
}

func parseSlot(word string) (uint16, bool) {
	n, err := strconv.ParseUint(word, 10, 16)
	return uint16(n), err == nil && n < cf.NumSlots
}

// MakeDoubtful marks the migrations whose end this process does not know as doubtful.
func (t *Topology) MakeDoubtful() {
	for slot, m := range t.marks {
		switch m {
		case Leaving:
			t.marks[slot] = Doubtful
		case Imported:
			t.marks[slot] = Arrived
		}
	}
}

// IsReplica reports whether this node is a replica in the topology.
func (t *Topology) IsReplica() bool { return t.Self != nil && !t.Self.IsMaster() }

// Left returns the slots that were migrated from this node and now belong to another one.
func Left(old, t *Topology) []cf.SlotRange {
	var ranges []cf.SlotRange
	for slot, m := range old.marks {
		if m != Migrated || t.Owns(uint16(slot)) {
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

// ClearMarks removes all marks.
func (t *Topology) ClearMarks() { t.SetMark(cf.SlotRange{Last: cf.NumSlots - 1}, Unmarked, "") }

// TakeMarks takes over the marks of the slots whose owner is unchanged or belongs to the same shard. (Kvrocks drops the
// marks Migrated and Imported with every SETNODES. A SETNODES because of another shard, between the end of a migration
// and the SETNODES or SETSLOT that reassigns the slot, would make the source serve the slot again, with old data.)
func (t *Topology) TakeMarks(old *Topology) {
	self := t.byID[t.ID]
	if self == nil || !self.IsMaster() {
		return
	}
	for slot, m := range old.marks {
		if m == Unmarked {
			continue
		}
		s := uint16(slot)
		if !t.ownedAsIn(old, s) || m == Migrated && t.byID[old.moved[s]] == nil {
			continue
		}
		if ours := t.Owner(s) == self; m.OfSource() != ours {
			continue
		}
		if m == Imported && old.Owner(s) != nil && old.Owner(s).ID != t.Owner(s).ID {
			m = Arrived // a replica that has become the owner may not know of the migration
		}
		t.SetMark(cf.SlotRange{First: s, Last: s}, m, old.moved[s])
	}
}

// ownedAsIn reports whether the owner of a slot belongs to the same shard as in an older topology.
func (t *Topology) ownedAsIn(old *Topology, slot uint16) bool {
	was, is := old.Owner(slot), t.Owner(slot)
	if old.Version < 0 { // the node had no topology
		was = is
	}
	if was == nil || is == nil {
		return false
	}
	before, after := old.byID[is.ID], t.byID[was.ID]
	return was.ID == is.ID || before != nil && before.Master == was.ID || after != nil && after.Master == is.ID
}

// OfSource reports whether a mark is for slots of this node. The other marks are for slots of other nodes.
func (m Mark) OfSource() bool { return m != Importing && m != Imported && m != Arrived }

// Arrival returns a range of arrived slots with one owner, and the owner.
func (t *Topology) Arrival() (r cf.SlotRange, from *Node, ok bool) {
	r, ok = t.unsureAs(Arrived, func(a, b uint16) bool { return t.owners[a] == t.owners[b] })
	return r, t.Owner(r.First), ok
}

// Doubt returns a range of doubtful slots, and the destination of their migration.
func (t *Topology) Doubt() (r cf.SlotRange, to *Node, ok bool) {
	r, ok = t.unsureAs(Doubtful, func(a, b uint16) bool { return t.moved[a] == t.moved[b] })
	return r, t.MovedTo(r.First), ok
}

// unsureAs returns the first range of unsure slots with a mark that are alike.
func (t *Topology) unsureAs(m Mark, alike func(a, b uint16) bool) (r cf.SlotRange, ok bool) {
	for slot := range uint16(cf.NumSlots) {
		switch is := t.marks[slot] == m && t.rules[slot] == unsure; {
		case is && !ok:
			r, ok = cf.SlotRange{First: slot, Last: slot}, true
		case is && alike(r.First, slot):
			r.Last = slot
		case ok:
			return r, ok
		}
	}
	return r, ok
}
