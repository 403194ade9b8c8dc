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
	ErrNodeID    = engine.NewError("ERR", "Invalid cluster node id")
	ErrVersion   = engine.NewError("ERR", "Invalid cluster version")
	errNodes     = engine.NewError("ERR", "Invalid cluster nodes info")
	errNodePort  = engine.NewError("ERR", "Invalid cluster node port")
	errNodeRole  = engine.NewError("ERR", "Invalid cluster node role")
	errNewline   = engine.NewError("ERR", "Invalid nodes definition: Missing newline between node entries.")
	errSlot      = engine.NewError("ERR", "Slot is out of range")
	errOverlap   = engine.NewError("ERR", "Slot distribution is overlapped")
	errNodeTwice = engine.NewError("ERR", "Invalid cluster nodes info: a node id occurs twice")
)

// Node is a node of the cluster. It does not change.
type Node struct {
	ID   string
	Host string
	Port int
	// Master is the id of the master of a replica, "" = the node is a master.
	Master string
	// Failed: the controller has marked the replica as failed (role "slave,fail", Kvrocks 2.16).
	Failed bool
}

// Addr returns host:port.
func (n *Node) Addr() string { return net.JoinHostPort(n.Host, strconv.Itoa(n.Port)) }

// IsMaster reports whether the node is a master.
func (n *Node) IsMaster() bool { return n.Master == "" }

// Topology is what one node knows of the cluster at one time. It does not change: nothing of it may be written to.
type Topology struct {
	Version int64  // -1 = nobody has told the nodes
	ID      string // of this node, "" = unknown
	Self    *Node  // nil = this node is not in the cluster
	Nodes   []*Node
	byID    map[string]*Node

	// owners are the nodes that serve the slots, as places in Nodes plus one; 0 = nobody does.
	owners [cf.NumSlots]uint16
	// marks are what migration has told of the slots.
	marks [cf.NumSlots]Mark
	// rules are what this node does with commands for the slots; they follow from the rest.
	rules [cf.NumSlots]rule
	// moved are the ids of the nodes that slots have moved to, or may have: of those marked as migrated, leaving,
	// doubtful, and of those forbidden that were leaving before.
	moved map[uint16]string
}

// Mark is what the migration of a slot has told of it.
type Mark uint8

// The marks.
const (
	Unmarked  Mark = iota
	Forbidden      // the source refuses writes
	Migrated       // the source sends everybody to the destination
	Importing      // the destination serves the migrator and those who ask
	Imported       // the destination serves everybody
	Leaving        // the source is about to tell the destination that it has all
	Doubtful       // as leaving, but the source has ended before it knew what the destination has done
	Arrived        // as imported, but it is not known yet whether the owner sends clients here
)

// None is the topology of a node to which nobody has told anything.
func None(id string) *Topology { return &Topology{Version: -1, ID: id} }

// Node returns the node of an id, nil = there is none.
func (t *Topology) Node(id string) *Node { return t.byID[id] }

// Owner returns the node that serves a slot as far as the controller has told, nil = nobody does.
func (t *Topology) Owner(slot uint16) *Node {
	if o := t.owners[slot]; o != 0 {
		return t.Nodes[o-1]
	}
	return nil
}

// Owns reports whether a slot belongs to this node, as far as the controller has told.
func (t *Topology) Owns(slot uint16) bool { return t.Self != nil && t.Owner(slot) == t.Self }

// Serves reports whether this node answers for a slot: it runs the reads of every client.
func (t *Topology) Serves(slot uint16) bool {
	switch t.rules[slot] {
	case serve, serveReads, serveImported:
		return true
	}
	return false
}

// Has reports whether the keys of a slot are this node's: they belong to it, or were imported.
func (t *Topology) Has(slot uint16) bool {
	return t.Owns(slot) || t.marks[slot] == Imported || t.marks[slot] == Arrived
}

// IsMaster reports whether this node is a master of the cluster.
func (t *Topology) IsMaster() bool { return t.Self != nil && t.Self.IsMaster() }

// MovedTo returns the node that a slot of this node was migrated to, or the master of that node; nil = it was not.
func (t *Topology) MovedTo(slot uint16) *Node {
	n := t.byID[t.moved[slot]]
	if n != nil && !n.IsMaster() {
		if master := t.byID[n.Master]; master != nil {
			return master
		}
	}
	return n
}

// Replicas returns the replicas of a master.
func (t *Topology) Replicas(master *Node) iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		for _, n := range t.Nodes {
			if n.Master == master.ID && !yield(n) {
				return
			}
		}
	}
}

// Ranges returns the ranges of slots that have an owner, in order, with it.
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

// SetOwner gives ranges to a node of the topology. What migration has told of slots that change hands is forgotten.
func (t *Topology) SetOwner(ranges []cf.SlotRange, n *Node) {
	place := uint16(slices.Index(t.Nodes, n) + 1)
	for _, r := range ranges {
		for slot := int(r.First); slot <= int(r.Last); slot++ {
			if t.owners[slot] != place {
				t.owners[slot], t.marks[slot] = place, Unmarked
				delete(t.moved, uint16(slot))
			}
		}
	}
}

// Mark returns the mark of a slot, and the id of the node that it moves to, "" = that does not matter.
func (t *Topology) Mark(slot uint16) (m Mark, to string) { return t.marks[slot], t.moved[slot] }

// IsMoved reports whether commands for a slot of this node are sent to the destination of its migration, IsUnsure
// whether the other side of a migration is being asked who has it.
func (t *Topology) IsMoved(slot uint16) bool  { return t.rules[slot] == moved }
func (t *Topology) IsUnsure(slot uint16) bool { return t.rules[slot] == unsure }

// Copy returns a topology that may be changed until settle.
func (t *Topology) Copy() *Topology {
	c := *t
	c.moved = maps.Clone(t.moved)
	return &c
}

// SetMark marks a range; to is the id of the node that the slots move to, "" = that does not matter.
func (t *Topology) SetMark(r cf.SlotRange, m Mark, to string) {
	for slot := int(r.First); slot <= int(r.Last); slot++ {
		t.marks[slot] = m
		delete(t.moved, uint16(slot))
		if to != "" && m != Imported {
			if t.moved == nil {
				t.moved = map[uint16]string{}
			}
			t.moved[uint16(slot)] = to
		}
	}
}

// Settle derives what follows from the nodes, the owners, the id and the marks.
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

// maxNodes is how many nodes there can be: owners are 16 bits wide.
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
		return errNodePort
	}
	n.Port = int(port)
	role, flags, _ := strings.Cut(strings.ToLower(fields[3]), ",")
	n.Failed = flags == "fail"
	switch master := role == "master"; {
	case !master && role != "slave" && role != "replica", flags != "" && (master || !n.Failed):
		return errNodeRole
	case master && fields[4] != "-" || !master && len(fields[4]) != IDLen:
		return ErrNodeID
	case !master && len(fields) != 5:
		return errNodes
	case !master:
		n.Master = fields[4]
	}
	if t.byID[n.ID] != nil {
		return errNodeTwice
	}
	t.byID[n.ID], t.Nodes = n, append(t.Nodes, n)
	for _, f := range fields[5:] {
		if isID(f) {
			return errNewline
		}
		r, ok := parseRange(f)
		if !ok || strings.Contains(f, "-") && r.First == r.Last {
			return errSlot
		}
		for slot := int(r.First); slot <= int(r.Last); slot++ {
			if t.owners[slot] != 0 {
				return errOverlap
			}
			t.owners[slot] = uint16(len(t.Nodes))
		}
	}
	return nil
}

// isID reports whether a word is 40 hexadecimal digits.
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

// MakeDoubtful notes that nobody of this process has heard the end of the migrations that the marks tell of.
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

// Left returns the slots that were migrated from this node and belong to another one now.
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

// ClearMarks forgets what migration has told.
func (t *Topology) ClearMarks() { t.SetMark(cf.SlotRange{Last: cf.NumSlots - 1}, Unmarked, "") }

// TakeMarks keeps the marks of the slots whose owner is as before, or of the same shard. (Kvrocks forgets those of
// Migrated and Imported with every SETNODES. One that comes between the end of a migration and the SETNODES or
// SETSLOT that gives the slot away, because of another shard, would make the source serve it again, with old data.)
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
		t.SetMark(cf.SlotRange{First: s, Last: s}, m, old.moved[s])
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

// OfSource reports whether a mark is for slots of this node; the others are for those of other nodes.
func (m Mark) OfSource() bool { return m != Importing && m != Imported && m != Arrived }

// Arrival returns a range that has arrived, of one owner, and the owner.
func (t *Topology) Arrival() (r cf.SlotRange, from *Node, ok bool) {
	for first, m := range t.marks {
		if m != Arrived || t.rules[first] != unsure {
			continue
		}
		last := first
		for last+1 < cf.NumSlots && t.marks[last+1] == Arrived && t.owners[last+1] == t.owners[first] {
			last++
		}
		return cf.SlotRange{First: uint16(first), Last: uint16(last)}, t.Owner(uint16(first)), true
	}
	return r, nil, false
}

// Doubt returns a range of which nobody knows whether its migration has ended well, and the destination.
func (t *Topology) Doubt() (r cf.SlotRange, to *Node, ok bool) {
	for r := range t.marked(Leaving) {
		if t.rules[r.First] == unsure {
			return r, t.MovedTo(r.First), true
		}
	}
	return r, nil, false
}
