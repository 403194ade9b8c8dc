package cluster

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// nodes.conf, in the format of Kvrocks:
//
//	version <n>
//	id <id of this node>
//	node <id> <host> <port> master -  <slots>      two blanks before the slots; nothing when there are none
//	node <id> <host> <port> slave <master id>
//
// Beside it, in nodes.conf.migrated, lies what Kvrocks forgets at its end, unless there is nothing:
//
//	leaving  <slots> <id of the destination>
//	migrated <slots> <id of the destination>
//	imported <slots> <id of the owner>
//
// A line holds for the slots that still belong to this node, or to the owner. The keys of slots that were migrated and
// belong to another node now were to be deleted. The same text is in the database (see cf.PropagateSlotMarks), for the
// replicas of this node.

// marksSuffix is added to the path of nodes.conf.
const marksSuffix = ".migrated"

// files are the two files. Changes of a Map and of the settings write them, and do not wait for each other.
type files struct {
	path  string
	mu    sync.Mutex
	on    bool // they are kept
	marks bool // there may be a file of marks
}

// save writes nodes.conf, replacing it as a whole.
func (f *files) save(t *Topology) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.on {
		return nil
	}
	return reply(replaceFile(f.path, fmt.Sprintf("version %d\nid %s\n", t.Version, t.ID)+t.fileText()))
}

// saveMarks writes the marks, or removes the file.
func (f *files) saveMarks(t *Topology) error {
	text := t.marksText()
	if t.isReplica() {
		text = "" // those are in its database
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !f.on || text == "" && !f.marks:
		return nil
	case text == "":
		err := removeFile(f.path + marksSuffix)
		f.marks = err != nil
		return reply(err)
	}
	f.marks = true
	return reply(replaceFile(f.path+marksSuffix, text))
}

// keep begins or ends to keep the files.
func (f *files) keep(on bool, now *atomic.Pointer[Topology]) error {
	f.mu.Lock()
	f.on = on
	f.mu.Unlock()
	if !on {
		return f.remove()
	}
	t := now.Load()
	return cmp.Or(f.save(t), f.saveMarks(t))
}

// remove removes both files.
func (f *files) remove() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return reply(errors.Join(removeFile(f.path), removeFile(f.path+marksSuffix)))
}

// reply makes an error one that a client gets.
func reply(err error) error {
	if err == nil {
		return nil
	}
	return engine.NewError("ERR", err.Error())
}

// marksText returns the marks to be kept.
func (t *Topology) marksText() string {
	var b strings.Builder
	for r := range t.marked(leaving, migrated, imported) {
		m, id := t.keptMark(r.First)
		fmt.Fprintf(&b, "%s %s %s\n", m, r, id)
	}
	return b.String()
}

// keptMark returns what is to be kept of the mark of a slot: leaving, migrated or imported, with the id of the
// destination or the owner; unmarked = nothing.
func (t *Topology) keptMark(slot uint16) (m mark, id string) {
	switch m = t.marks[slot]; m {
	case forbidden, leaving, doubtful:
		if id = t.moved[slot]; id == "" {
			return unmarked, ""
		}
		return leaving, id
	case migrated:
		return m, t.moved[slot]
	case imported, arrived:
		return imported, t.Owner(slot).ID
	}
	return unmarked, ""
}

// marked returns the ranges with some marks, as keptMark has them, that are the same throughout.
func (t *Topology) marked(wanted ...mark) iter.Seq[cf.SlotRange] {
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

func (m mark) String() string { return markNames[m] }

var markNames = [...]string{"", "forbidden", "migrated", "importing", "imported", "leaving", "doubtful", "arrived"}

// fileText returns the lines of the nodes.
func (t *Topology) fileText() string {
	slots := t.slotTexts()
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

// replaceFile replaces a file by one with the text, so that after a crash there is the old one or the new one.
func replaceFile(path, text string) (err error) {
	tmp := path + ".tmp"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(err, removeFile(tmp))
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Master returns the node whose replica the topology in a file makes this node. known is false when no topology was
// kept.
func Master(path string) (master *Node, known bool, err error) {
	t, err := load(path)
	if err != nil || t.Version < 0 {
		return nil, false, err
	}
	if self := t.byID[t.ID]; self != nil && !self.IsMaster() {
		master = t.byID[self.Master]
	}
	return master, true, nil
}

// load reads what save has written, or Kvrocks.
func load(path string) (*Topology, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return none(""), nil
	}
	if err != nil {
		return nil, err
	}
	t, err := parseFile(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	marks, err := os.ReadFile(path + marksSuffix)
	if err == nil {
		err = t.parseMarks(marks)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s%s: %w", path, marksSuffix, err)
	}
	return t, nil
}

// parseFile reads nodes.conf.
func parseFile(text []byte) (*Topology, error) {
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
		return none(id), nil
	}
	t, err := parse(nodes)
	if err != nil {
		return nil, err
	}
	t.Version, t.ID = version, id
	return t, nil
}

// parseMarks reads the marks. Those of imported slots that belong to another node now are forgotten. Those of slots
// that were migrated are not: see left.
func (t *Topology) parseMarks(text []byte) error {
	for line := range bytes.Lines(text) {
		words := strings.Fields(string(line))
		if len(words) == 0 {
			continue
		}
		if len(words) != 3 {
			return fmt.Errorf("unknown line: %s", line)
		}
		r, ok := parseRange(words[1])
		as := mark(slices.Index(markNames[:], words[0]))
		if !ok || as != migrated && as != imported && as != leaving {
			return fmt.Errorf("unknown line: %s", line)
		}
		for slot := int(r.First); slot <= int(r.Last); slot++ {
			s := uint16(slot)
			if n := t.Owner(s); as != imported || n != nil && n.ID == words[2] {
				t.setMark(cf.SlotRange{First: s, Last: s}, as, words[2])
			}
		}
	}
	return nil
}

// slotTexts returns the slots of each node: "0-100 200".
func (t *Topology) slotTexts() []string {
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
