package stream

import (
	"bytes"
	"fmt"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// walker iterates over the pending entries of a group, ordered by id. Acknowledged entries leave tombstones at the low
// end. A walk therefore stores the first id that it finds as the lower bound of later walks.
type walker struct {
	g     *Group
	it    *engine.Iter
	learn []byte // the bound, to be raised to the first entry found; nil = do not raise it
	known bool   // a bound is stored already
	toEnd bool

	id    ID
	value cf.StreamPendingValue // Consumer is valid until the next call of next
	err   error
}

// walk iterates over the pending entries from one id to another, both included. limit is how many entries the caller
// expects to read, 0 = all.
func (g *Group) walk(from, to ID, limit int) walker {
	prefix := g.pendingPrefix()
	w := walker{g: g, toEnd: to == MaxID}
	lower, upper := pendingBounds(prefix, from, to)
	low, _ := g.s.tx.Bounds(&g.s.rec, prefix)
	if w.known = low != nil; w.known && bytes.Compare(lower, low) <= 0 {
		lower, w.learn = low, low
	} else if from.Ms == 0 && from.Seq <= 1 { // no entry has the id 0-0
		w.learn = lower
	}
	if bytes.Compare(lower, upper) >= 0 {
		w.learn = nil
		return w
	}
	w.it = g.s.tx.Iter(cf.Stream, engine.IterOptions{Prefix: prefix, Lower: lower, Upper: upper, Limit: limit})
	return w
}

func (w *walker) close() {
	if w.it != nil {
		w.it.Close()
	}
}

// next advances to the next entry; false at the end or on an error.
func (w *walker) next() bool {
	if w.it == nil || w.err != nil {
		return false
	}
	if !w.it.Next() {
		if w.err = w.it.Err(); w.err == nil && w.learn != nil && w.toEnd {
			w.raise(MaxID)
		}
		return false
	}
	if w.id, w.err = w.g.s.pendingIDOf(w.it.Key()); w.err != nil {
		return false
	}
	if w.learn != nil {
		w.raise(w.id)
	}
	if w.value, w.err = w.g.decodePending(w.id, w.it.Value()); w.err != nil {
		return false
	}
	return true
}

// raise stores the bound: no entry before id is pending. The walk holds the key's lock, at least for reading, so no one
// adds an entry before id.
func (w *walker) raise(id ID) {
	key := under(w.g.pendingPrefix(), id)
	if !w.known || bytes.Compare(key, w.learn) > 0 {
		w.g.s.tx.SetLowBound(&w.g.s.rec, w.g.pendingPrefix(), key)
	}
	w.learn = nil
}

func (g *Group) decodePending(id ID, value []byte) (cf.StreamPendingValue, error) {
	v, err := cf.DecodeStreamPending(value)
	if err != nil {
		err = fmt.Errorf("key %q: group %q: pending entry %s: %w", g.s.tx.UserKey(&g.s.rec), g.name, text(id), err)
	}
	return v, err
}

// putPending writes a pending entry.
func (g *Group) putPending(id ID, v *cf.StreamPendingValue) {
	var buf [128]byte
	g.s.tx.Put(cf.Stream, g.pendingKey(id), v.Append(buf[:0]))
}

// added updates the bounds for an entry that becomes pending.
func (g *Group) added(id ID) {
	g.s.tx.KeyAdded(&g.s.rec, g.pendingPrefix(), g.pendingKey(id))
}

// owners holds the consumers that lose or get entries in one command.
type owners struct {
	g      *Group
	list   []*consumer
	byName map[string]*consumer // all of the list, once they are more than fewOwners
}

// fewOwners is how many consumers are compared one by one: most commands have one, and a map costs XACK a twentieth.
const fewOwners = 16

func (o *owners) add(c *consumer) {
	o.list = append(o.list, c)
	switch {
	case o.byName != nil:
		o.byName[string(c.name)] = c
	case len(o.list) > fewOwners:
		o.byName = make(map[string]*consumer, 2*len(o.list))
		for _, c := range o.list {
			o.byName[string(c.name)] = c
		}
	}
}

// of returns a consumer, nil if it does not exist.
func (o *owners) of(name []byte) (*consumer, error) {
	if c := o.byName[string(name)]; c != nil {
		return c, nil
	}
	if o.byName == nil {
		for _, c := range o.list {
			if bytes.Equal(c.name, name) {
				return c, nil
			}
		}
	}
	c, found, err := o.g.consumer(bytes.Clone(name))
	if err != nil || !found {
		return nil, err
	}
	o.add(&c)
	return &c, nil
}

// lose decrements a consumer's pending counter.
func (o *owners) lose(name []byte) error {
	c, err := o.of(name)
	if err == nil && c != nil {
		c.value.Pending = less(c.value.Pending, 1)
		c.changed = true
	}
	return err
}

// save writes the records of the consumers that have lost entries, except that of except.
func (o *owners) save(except *consumer) {
	for _, c := range o.list {
		if c.changed && c != except {
			o.g.saveConsumer(c)
		}
	}
}

// Ack removes entries from the pending entries of a group and returns how many of them were pending; 0 when the stream
// or the group does not exist.
func Ack(tx *engine.Tx, key, group []byte, ids []ID) (acked uint64, err error) {
	s, err := load(tx, key)
	if err != nil || !s.rec.Exists {
		return 0, err
	}
	ids = engine.Distinct(ids)
	g := Group{s: s, name: group}
	keys := tx.Keys()
	keys.Add(s.groupKey(cf.StreamGroup, group))
	for _, id := range ids {
		keys.Add(g.pendingKey(id))
	}
	values, err := tx.MultiGet(cf.Stream, keys)
	if err != nil || values[0] == nil {
		return 0, err
	}
	if err := g.decode(values[0]); err != nil {
		return 0, err
	}
	owners := owners{g: &g}
	for i, id := range ids {
		if values[i+1] == nil {
			continue
		}
		v, err := g.decodePending(id, values[i+1])
		if err != nil {
			return 0, err
		}
		if err := owners.lose(v.Consumer); err != nil {
			return 0, err
		}
		if acked == 0 {
			tx.LogData(cf.LogStream)
		}
		tx.Delete(cf.Stream, g.pendingKey(id))
		acked++
	}
	if acked > 0 {
		g.value.Pending = less(g.value.Pending, acked)
		g.save()
		owners.save(nil)
	}
	return acked, nil
}

// PendingSummary summarizes the pending entries of a group.
type PendingSummary struct {
	Pending     uint64
	First, Last ID // ids of the first and the last pending entry, if any
	Consumers   []ConsumerPending
}

// ConsumerPending is a consumer with pending entries.
type ConsumerPending struct {
	Name    []byte
	Pending uint64
}

// Summary summarizes the pending entries without reading all of them. Consumers are ordered by name.
func (g *Group) Summary() (p PendingSummary, err error) {
	w := g.walk(MinID, MaxID, 1)
	defer w.close()
	if !w.next() {
		return p, w.err
	}
	p.First = w.id
	prefix := g.pendingPrefix()
	lower, upper := pendingBounds(prefix, p.First, MaxID)
	it := g.s.tx.Iter(cf.Stream, engine.IterOptions{Prefix: prefix, Lower: lower, Upper: upper, Reverse: true,
		KeysOnly: true, Limit: 1})
	defer it.Close()
	if !it.Next() {
		return p, it.Err()
	}
	if p.Last, err = g.s.pendingIDOf(it.Key()); err != nil {
		return p, err
	}
	p.Pending = g.value.Pending
	list, err := g.consumers()
	for _, c := range list {
		if c.value.Pending > 0 {
			p.Consumers = append(p.Consumers, ConsumerPending{c.name, c.value.Pending})
		}
	}
	return p, err
}

// Pending is an entry that was delivered and is not acknowledged yet.
type Pending struct {
	ID         ID
	Consumer   []byte // empty if the entry is nobody's
	Delivered  uint64 // the last delivery, milliseconds since the epoch
	Idle       int64  // milliseconds since the last delivery, at least 0; -1 if the entry is nobody's
	Deliveries uint64 // the number of deliveries
	// Nacked: the entry is nobody's, see [Group.Nack]. Delivered is its place among these entries.
	Nacked bool
}

// PendingOptions select pending entries.
type PendingOptions struct {
	From, To ID
	Count    uint64 // max number; 0 = all
	MinIdle  int64  // milliseconds; entries that were delivered more recently are skipped
	Consumer []byte // only entries of this consumer; nil = of all consumers
}

// Each calls f with pending entries ordered by id. Its argument is valid until f returns.
func (g *Group) Each(o PendingOptions, f func(p *Pending)) error {
	limit := o.Count
	if o.Consumer != nil {
		c, found, err := g.consumer(o.Consumer)
		if err != nil || !found || c.value.Pending == 0 {
			return err
		}
		if limit == 0 || limit > c.value.Pending {
			limit = c.value.Pending // the rest are other consumers' entries
		}
	}
	if o.From.Compare(o.To) > 0 {
		return nil
	}
	w := g.walk(o.From, o.To, limitOf(o.Count))
	defer w.close()
	t := g.s.tx.Clock()
	var p Pending
	for seen, given := uint64(0), uint64(0); (limit == 0 || seen < limit) && (o.Count == 0 || given < o.Count) &&
		w.next(); {
		if o.Consumer != nil && !bytes.Equal(w.value.Consumer, o.Consumer) {
			continue
		}
		if o.Consumer != nil {
			seen++
		}
		idle, nacked := t-int64(w.value.DeliveryTime), isNobody(w.value.Consumer)
		if o.MinIdle > 0 && idle < o.MinIdle && !nacked {
			continue
		}
		p = Pending{w.id, w.value.Consumer, w.value.DeliveryTime, max(idle, 0), w.value.DeliveryCount, nacked}
		if nacked {
			p.Consumer, p.Idle = nil, -1
		}
		given++
		f(&p)
	}
	return w.err
}
