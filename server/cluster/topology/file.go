package topology

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/basaltdb/basalt/cf"
)

// nodes.conf, in the format of Kvrocks:
//
//	version <n>
//	id <id of this node>
//	node <id> <host> <port> master -  <slots>      two blanks before the slots; nothing without slots
//	node <id> <host> <port> slave <master id>
//
// The file nodes.conf.migrated contains the marks, which Kvrocks loses at its end. It exists only if there are marks:
//
//	leaving  <slots> <id of the destination>
//	migrated <slots> <id of the destination>
//	imported <slots> <id of the owner>
//
// A line applies to the slots that still belong to this node, or to the owner. The keys of slots that were migrated and
// now belong to another node must be deleted. The same text is in the database (see cf.PropagateSlotMarks), for the
// replicas of this node.

// MarksText returns the text of the marks that must be kept.
func (t *Topology) MarksText() string {
	var b strings.Builder
	for r := range t.marked(Leaving, Migrated, Imported) {
		m, id := t.keptMark(r.First)
		fmt.Fprintf(&b, "%s %s %s\n", m, r, id)
	}
	return b.String()
}

// keptMark returns the part of a slot's mark that must be kept: leaving, migrated or imported, with the id of the
// destination or the owner; unmarked = none.
func (t *Topology) keptMark(slot uint16) (m Mark, id string) {
	switch m = t.marks[slot]; m {
	case Forbidden, Leaving, Doubtful:
		if id = t.moved[slot]; id == "" {
			return Unmarked, ""
		}
		return Leaving, id
	case Migrated:
		return m, t.moved[slot]
	case Imported, Arrived:
		return Imported, t.Owner(slot).ID
	}
	return Unmarked, ""
}

// marked returns the ranges of slots that have one of the given marks, as keptMark returns them. All slots of a range
// have the same mark and id.
func (t *Topology) marked(wanted ...Mark) iter.Seq[cf.SlotRange] {
	return func(yield func(cf.SlotRange) bool) {
		for first := 0; first < cf.NumSlots; first++ {
			m, id := t.keptMark(uint16(first))
			if !slices.Contains(wanted, m) {
				continue
			}
			r := cf.SlotRange{First: uint16(first), Last: uint16(first)}
			for next := first + 1; next < cf.NumSlots; next++ {
				if n, other := t.keptMark(uint16(next)); n != m || other != id {
					break
				}
				r.Last, first = uint16(next), next
			}
			if !yield(r) {
				return
			}
		}
	}
}

func (m Mark) String() string { return markNames[m] }

var markNames = [...]string{"", "forbidden", "migrated", "importing", "imported", "leaving", "doubtful", "arrived"}

// FileText returns the text of nodes.conf.
func (t *Topology) FileText() string {
	slots := t.SlotTexts()
	var b strings.Builder
	for i, n := range t.Nodes {
		fmt.Fprintf(&b, "node %s %s %d ", n.ID, n.Host, n.Port)
		if n.IsMaster() {
			b.WriteString("master - ")
			if slots[i] != "" {
				b.WriteString(" " + slots[i])
			}
		} else {
			fmt.Fprintf(&b, "slave %s ", n.Master) // 2.10 does not know slave,fail
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// ParseFile reads nodes.conf.
func ParseFile(text []byte) (*Topology, error) {
	version, id, nodes := int64(-1), "", []byte(nil)
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		key, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		if value = bytes.TrimSpace(value); len(value) == 0 {
			continue
		}
		switch string(key) {
		case "version":
			n, err := strconv.ParseInt(string(value), 10, 64)
			if err != nil {
				return nil, ErrVersion
			}
			version = n
		case "id":
			if id = string(value); len(id) != IDLen {
				return nil, ErrNodeID
			}
		case "node":
			nodes = append(append(nodes, value...), '\n')
		default:
			return nil, fmt.Errorf("unknown key: %s", key)
		}
	}
	if version < 0 {
		return None(id), nil
	}
	t, err := Parse(nodes)
	if err != nil {
		return nil, err
	}
	t.Version, t.ID = version, id
	return t, nil
}

// ParseMarks reads the marks. It drops marks of imported slots that now belong to another node. It keeps marks of
// migrated slots: see Left.
func (t *Topology) ParseMarks(text []byte) error {
	for line := range bytes.Lines(text) {
		words := strings.Fields(string(line))
		if len(words) == 0 {
			continue
		}
		if len(words) != 3 {
			return fmt.Errorf("unknown line: %s", line)
		}
		r, ok := parseRange(words[1])
		as := Mark(slices.Index(markNames[:], words[0]))
		if !ok || as != Migrated && as != Imported && as != Leaving {
			return fmt.Errorf("unknown line: %s", line)
		}
		for slot := range r.All() {
			if n := t.Owner(slot); as != Imported || n != nil && n.ID == words[2] {
				t.SetMark(cf.SlotRange{First: slot, Last: slot}, as, words[2])
			}
		}
	}
	return nil
}

// SlotTexts returns the slots of each node, for example "0-100 200".
func (t *Topology) SlotTexts() []string {
	texts := make([][]byte, len(t.Nodes)+1)
	for r := range t.Ranges() {
		i := t.owners[r.First]
		if len(texts[i]) > 0 {
			texts[i] = append(texts[i], ' ')
		}
		texts[i] = append(texts[i], r.String()...)
	}
	all := make([]string, len(t.Nodes))
	for i := range all {
		all[i] = string(texts[i+1])
	}
	return all
}
