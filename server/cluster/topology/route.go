package topology

import (
	"strconv"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/server/command"
)

// Errors of routing with the texts of Kvrocks. MOVED is built separately, because it names a slot and a node.
var (
	ErrCrossSlot = engine.NewError("CROSSSLOT", "Attempted to access keys that don't hash to the same slot")
	ErrNotServed = engine.NewError("CLUSTERDOWN", "Hash slot not served")
	ErrForbidden = engine.NewError("TRYAGAIN",
		"Can't write to slot being migrated which is in write forbidden phase")
	ErrDoubt = engine.NewError("TRYAGAIN", "The other side of a migration is being asked who has the slot")
)

// rule is what this node does with a command for a slot, the first line that holds:
//
//	the slot                                        the command               what happens
//	has no owner                                                              CLUSTERDOWN
//	is ours and was migrated                                                  MOVED to the destination
//	is ours and doubtful                                                      TRYAGAIN
//	is ours and forbidden                           writes                    TRYAGAIN
//	is ours                                                                   runs
//	is being imported                               ASKING, of the migrator   runs
//	has arrived at this node                                                  TRYAGAIN
//	was imported by this node                                                 runs
//	is our master's and was migrated                                          MOVED to the destination
//	is our master's, or was imported by it          reads, READONLY           runs
//	otherwise                                                                 MOVED to the owner
type rule uint8

const (
	unserved       rule = iota // without an owner
	redirect                   // belongs to another node
	serve                      // belongs to this node
	serveReads                 // belongs to this node, forbidden
	moved                      // belongs to this node, migrated
	serveAsking                // being imported
	serveImported              // was imported
	serveReadOnly              // belongs to our master
	askingReadOnly             // belongs to our master and is being imported
	unsure                     // doubtful or arrived
)

// rule derives the rule of a slot.
func (t *Topology) rule(slot uint16) rule {
	owner, m := t.Owner(slot), t.marks[slot]
	switch ours := t.Self != nil && owner == t.Self; {
	case owner == nil:
		return unserved
	case ours && m == Migrated && t.MovedTo(slot) != nil:
		return moved
	case ours && m == Doubtful:
		return unsure
	case ours && m == Forbidden:
		return serveReads
	case ours:
		return serve
	case t.Self == nil:
		return redirect
	case m == Imported && t.Self.IsMaster():
		return serveImported
	case m == Arrived && t.Self.IsMaster():
		return unsure
	case t.Self.Master != "" && t.Self.Master == owner.ID && m == Migrated && t.MovedTo(slot) != nil:
		return moved
	case m == Imported, m == Arrived:
		return serveReadOnly
	case t.Self.Master != "" && t.Self.Master == owner.ID && m == Importing:
		return askingReadOnly
	case t.Self.Master != "" && t.Self.Master == owner.ID:
		return serveReadOnly
	case m == Importing:
		return serveAsking
	}
	return redirect
}

// Access describes a command and its connection.
type Access struct {
	Write    bool // the command may write
	ReadOnly bool // the connection has sent READONLY
	Asking   bool // the command follows ASKING, or comes from the migrator of a slot
}

// Route routes a command for a slot; nil = the command runs here.
func (t *Topology) Route(slot uint16, a Access) error {
	switch t.rules[slot] {
	case serve, serveImported:
		return nil
	case serveReads:
		if a.Write {
			return ErrForbidden
		}
		return nil
	case unserved:
		return ErrNotServed
	case unsure:
		return ErrDoubt
	case moved:
		return errMoved(slot, t.MovedTo(slot))
	case serveAsking, askingReadOnly:
		if a.Asking {
			return nil
		}
	}
	if r := t.rules[slot]; (r == serveReadOnly || r == askingReadOnly) && a.ReadOnly && !a.Write {
		return nil
	}
	return errMoved(slot, t.Owner(slot))
}

// ReadsEnd reports whether reads of some slot that run here by this topology do not by the next one.
func (t *Topology) ReadsEnd(next *Topology) bool {
	read := Access{ReadOnly: true}
	for slot := range uint16(cf.NumSlots) {
		if t.Route(slot, read) == nil && next.Route(slot, read) != nil {
			return true
		}
	}
	return false
}

// SlotOf returns the slot of the keys among the arguments of a command; ok is false when the command has no key.
func SlotOf(args [][]byte, keys []command.KeyRef) (slot uint16, ok bool, err error) {
	if len(keys) == 0 {
		return 0, false, nil
	}
	slot = cf.Slot(args[keys[0].Arg])
	for _, k := range keys[1:] {
		if cf.Slot(args[k.Arg]) != slot {
			return 0, true, ErrCrossSlot
		}
	}
	return slot, true, nil
}

// errMoved names a node as host:port, without brackets around an IPv6 address, as in Redis.
func errMoved(slot uint16, to *Node) error {
	return engine.NewError("MOVED", strconv.Itoa(int(slot))+" "+to.Host+":"+strconv.Itoa(to.Port))
}
