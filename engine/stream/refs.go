package stream

import (
	"bytes"
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Refs says how the deletion of an entry treats references to it. A group refers to an entry that is pending in it, and
// needs the entries that it has not handed out yet.
type Refs uint8

// The ways to treat references: those of Redis 8.2.
const (
	KeepRefs    Refs = iota // delete the entry; it stays pending in its groups
	DeleteRefs              // delete the entry and its pending records in all groups
	OnlyIfAcked             // delete the entry only if all groups have handed it out and it is pending in none
)

// Outcome is the result of a deletion for one entry.
type Outcome int8

// The outcomes, with Redis's numbers.
const (
	NotFound   Outcome = -1
	Deleted    Outcome = 1
	Referenced Outcome = 2 // with OnlyIfAcked: the entry is referred to and remains
)

// references holds the references of groups to some entries.
type references struct {
	s      *stream
	groups []*referrer
	held   map[ID][]reference
	logs   bool // the next change must begin with log data
}

// referrer is a group that refers to entries.
type referrer struct {
	*Group
	owners  owners
	changed bool
}

// reference says that an entry is pending in a group for a consumer.
type reference struct {
	in       *referrer
	consumer []byte
}

// references reads all groups of the stream.
func (s *stream) references() (*references, error) {
	r := &references{s: s, held: map[ID][]reference{}}
	err := s.eachGroup(func(g *Group) {
		r.groups = append(r.groups, &referrer{Group: g, owners: owners{g: g}})
	})
	return r, err
}

// log writes the log data before the first change.
func (r *references) log() {
	if r.logs {
		r.s.tx.LogData(cf.LogStream)
		r.logs = false
	}
}

// find finds the pending records of entries. The ids must be distinct; the result of the previous call is discarded.
func (r *references) find(ids []ID) error {
	clear(r.held)
	for _, g := range r.groups {
		if g.value.Pending == 0 {
			continue
		}
		values, err := g.pendingValues(ids)
		if err != nil {
			return err
		}
		for i, value := range values {
			if value == nil {
				continue
			}
			v, err := g.decodePending(ids[i], value)
			if err != nil {
				return err
			}
			r.held[ids[i]] = append(r.held[ids[i]], reference{g, v.Consumer})
		}
	}
	return nil
}

// delivered returns the greatest id up to which all groups have handed out the entries.
func (r *references) delivered() ID {
	upTo := MaxID
	for _, g := range r.groups {
		upTo = smaller(upTo, g.value.LastDelivered)
	}
	return upTo
}

// drop removes the references to an entry: all, or only those of one group. It returns how many it removed.
func (r *references) drop(id ID, only *referrer) (n int, err error) {
	kept := r.held[id][:0]
	for _, ref := range r.held[id] {
		if only != nil && ref.in != only {
			kept = append(kept, ref)
			continue
		}
		g := ref.in
		if err := g.owners.lose(ref.consumer); err != nil {
			return n, err
		}
		r.log()
		r.s.tx.Delete(cf.Stream, g.pendingKey(id))
		g.value.Pending = less(g.value.Pending, 1)
		g.changed = true
		n++
	}
	r.held[id] = kept
	return n, nil
}

// save writes the groups and consumers that have lost references.
func (r *references) save() {
	for _, g := range r.groups {
		if g.changed {
			g.save()
			g.owners.save(nil)
		}
	}
}

// deletion deletes single entries anywhere in a stream.
type deletion struct {
	s           *stream
	run         *run
	n           uint64
	first, last bool // the first or the last entry was deleted
}

func (s *stream) deletion() deletion {
	s.dropAheads()
	return deletion{s: s, run: s.runOf(false)}
}

// entry deletes an entry, which must exist.
func (d *deletion) entry(id ID) {
	s := d.s
	if d.run != nil {
		d.run.deleted(id)
	}
	s.tx.Delete(cf.Stream, s.entryKey(id))
	d.n++
	d.first = d.first || id == s.meta.First
	d.last = d.last || id == s.meta.Last
}

// end updates the metadata, but does not write it.
func (d *deletion) end() error {
	s := d.s
	if d.n == 0 {
		return nil
	}
	if s.rec.Size -= min(d.n, s.rec.Size); s.rec.Size == 0 {
		s.emptied()
		return nil
	}
	var err error
	if d.first {
		s.meta.First, err = s.edge(s.meta.First, s.meta.Last, false)
		s.meta.RecordedFirst = s.meta.First
	}
	if d.last && err == nil {
		s.meta.Last, err = s.edge(s.meta.First, s.meta.Last, true)
	}
	return err
}

// DeleteWithRefs removes entries as Redis's XDELEX does and returns the outcome for each id. With DeleteRefs,
// references to an entry that does not exist are removed too. An empty stream continues to exist.
func DeleteWithRefs(tx *engine.Tx, key []byte, ids []ID, refs Refs) ([]Outcome, error) {
	return deleteWithRefs(tx, key, nil, ids, refs)
}

// AckDelete acknowledges entries of a group and removes them, as Redis's XACKDEL does. An id that is not pending in the
// group gives NotFound and has no effect. If the stream or the group does not exist, every id gives NotFound.
func AckDelete(tx *engine.Tx, key, group []byte, ids []ID, refs Refs) ([]Outcome, error) {
	return deleteWithRefs(tx, key, &group, ids, refs)
}

func deleteWithRefs(tx *engine.Tx, key []byte, group *[]byte, ids []ID, refs Refs) ([]Outcome, error) {
	list := slices.Repeat([]Outcome{NotFound}, len(ids))
	s, err := load(tx, key)
	if err != nil || !s.rec.Exists {
		return list, err
	}
	r := &references{s: &s}
	if refs != KeepRefs || group != nil {
		if r, err = s.references(); err != nil {
			return nil, err
		}
	}
	var acker *referrer
	if group != nil {
		i := slices.IndexFunc(r.groups, func(g *referrer) bool { return bytes.Equal(g.name, *group) })
		if i < 0 {
			return list, nil
		}
		acker = r.groups[i]
		if refs == KeepRefs { // the other groups do not matter
			r.groups = []*referrer{acker}
		}
	}
	different := engine.Distinct(ids)
	values, err := s.values(different)
	if err != nil {
		return nil, err
	}
	exists := make(map[ID]bool, len(different))
	for i, id := range different {
		exists[id] = values[i] != nil
	}
	if err := r.find(different); err != nil {
		return nil, err
	}
	r.logs = true
	delivered := r.delivered()
	d := s.deletion()
	for i, id := range ids {
		if acker != nil {
			n, err := r.drop(id, acker)
			if err != nil {
				return nil, err
			}
			if n == 0 {
				continue
			}
			list[i] = Deleted
		}
		switch refs {
		case DeleteRefs:
			if _, err := r.drop(id, nil); err != nil {
				return nil, err
			}
		case OnlyIfAcked:
			if (acker != nil || exists[id]) && (id.Compare(delivered) > 0 || len(r.held[id]) > 0) {
				list[i] = Referenced
				continue
			}
		}
		if exists[id] {
			r.log()
			d.entry(id)
			s.meta.MaxDeleted = greater(s.meta.MaxDeleted, id)
			exists[id] = false
			list[i] = Deleted
		}
	}
	if d.n > 0 {
		if err := d.end(); err != nil {
			return nil, err
		}
		s.save()
	}
	r.save()
	return list, nil
}

// trimAcked removes the oldest entries that no group refers to. The stream must have a group. adding, removed and keep
// are those of trimRefs.
func (s *stream) trimAcked(t *Trim, r *references, adding *ID) (removed uint64, keep bool, err error) {
	total, delivered := s.rec.Size, r.delivered()
	if adding == nil {
		r.logs = true
	} else {
		total++
	}
	d := s.deletion()
	last := smaller(s.meta.Last, delivered) // some group has not handed out the entries after this one
	if s.rec.Size > 0 && s.meta.First.Compare(last) <= 0 {
		it := s.iterate(s.meta.First, last, engine.IterOptions{KeysOnly: true})
		defer it.Close()
		if err := t.trimAcked(&it, &d, r, total); err != nil {
			return 0, false, err
		}
	}
	keep = adding == nil || t.Approx || adding.Compare(delivered) > 0 || !t.wants(*adding, total-d.n)
	return d.n, keep, d.end()
}

// trimAcked removes entries from those that an iterator returns.
func (t *Trim) trimAcked(it *entriesIter, d *deletion, r *references, total uint64) error {
	node := make([]ID, 0, TrimNode)
	for seen := uint64(0); ; seen += uint64(len(node)) {
		var err error
		if node, err = r.nextNode(it, node, TrimNode); err != nil {
			return err
		}
		if len(node) == 0 || t.Approx && !t.wantsNode(node, min(TrimNode, total-seen), total, d.n) {
			return it.Err()
		}
		if err := r.find(node); err != nil {
			return err
		}
		for _, id := range node {
			if !t.wants(id, total-d.n) {
				return nil
			}
			if len(r.held[id]) == 0 {
				r.log()
				d.entry(id)
			}
		}
	}
}

// wants reports whether the trim removes an entry that is the oldest of left entries.
func (t *Trim) wants(id ID, left uint64) bool {
	if t.By == TrimMaxLen {
		return left > t.MaxLen
	}
	return id.Compare(t.MinID) < 0
}

// wantsNode reports whether the trim removes all entries of a node. size entries are removed together; removed out of
// total are gone already.
func (t *Trim) wantsNode(node []ID, size, total, removed uint64) bool {
	switch {
	case t.Limit > 0 && removed+size > t.Limit:
		return false
	case t.By == TrimMaxLen:
		return total-removed >= size+t.MaxLen
	}
	return node[len(node)-1].Compare(t.MinID) < 0
}

// nextNode reads up to n ids into node.
func (r *references) nextNode(it *entriesIter, node []ID, n int) ([]ID, error) {
	node = node[:0]
	for len(node) < n && it.Next() {
		id, err := r.s.idOf(it.Key())
		if err != nil {
			return nil, err
		}
		node = append(node, id)
	}
	return node, nil
}

// dropRefs removes the references to the first n entries of an iterator.
func (r *references) dropRefs(it *entriesIter, n uint64) error {
	for n > 0 {
		node, err := r.nextNode(it, nil, int(min(n, TrimNode)))
		if err != nil {
			return err
		}
		if len(node) == 0 {
			return it.Err()
		}
		if err := r.find(node); err != nil {
			return err
		}
		for _, id := range node {
			if _, err := r.drop(id, nil); err != nil {
				return err
			}
		}
		n -= uint64(len(node))
	}
	r.save()
	return nil
}
