package stream

import (
	"bytes"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// ClaimOptions say how entries change their consumer.
type ClaimOptions struct {
	MinIdle   int64  // milliseconds; entries that were delivered more recently are skipped
	Delivered uint64 // the new delivery time, milliseconds since the epoch
	// Deliveries is the new delivery count; negative = one more than before, or with JustID unchanged.
	Deliveries int64
	Force      bool // also claim entries that are not pending
	JustID     bool // the values of the entries are not needed
	LastID     ID   // the group has received all entries up to this one
}

// claimed is a change of one pending entry.
type claimed struct {
	id    ID
	gone  bool // the entry does not exist: it stops being pending
	value cf.StreamPendingValue
}

// Claim transfers pending entries to the named consumer, which it creates if it is missing, and calls f with each of
// them; with JustID, e is nil. Entries that were deleted meanwhile stop being pending.
func (g *Group) Claim(name []byte, ids []ID, o *ClaimOptions, f func(id ID, e *Entry)) error {
	c, err := g.use(name)
	if err != nil {
		return err
	}
	tx := g.s.tx
	t := tx.Clock()
	owners := owners{g: g, list: []*consumer{&c}}
	changes := make([]claimed, 0, len(ids))
	var at map[ID]int // the index of an entry's change, if ids may repeat
	if len(engine.Distinct(ids)) < len(ids) {
		at = make(map[ID]int, len(ids))
	}
	change := func(x claimed, p int, again bool) {
		if again {
			changes[p] = x
			return
		}
		if at != nil {
			at[x.id] = len(changes)
		}
		changes = append(changes, x)
	}
	keys := tx.Keys()
	for _, id := range ids {
		keys.Add(g.pendingKey(id))
	}
	for _, id := range ids {
		keys.Add(g.s.entryKey(id))
	}
	values, err := tx.MultiGet(cf.Stream, keys)
	if err != nil {
		return err
	}
	for i, id := range ids {
		p, again := at[id]
		if again && changes[p].gone {
			continue
		}
		var v cf.StreamPendingValue
		pending := again
		if pending {
			v = changes[p].value
		} else if values[i] != nil {
			if v, err = g.decodePending(id, values[i]); err != nil {
				return err
			}
			pending = true
		}
		value := values[len(ids)+i]
		switch {
		case !pending && !o.Force:
			continue
		case value == nil:
			if pending {
				if err := g.forget(&owners, v.Consumer); err != nil {
					return err
				}
				change(claimed{id: id, gone: true}, p, again)
			}
			continue
		case pending && o.MinIdle > 0 && t-int64(v.DeliveryTime) < o.MinIdle:
			continue
		}
		if pending {
			err = owners.lose(v.Consumer)
		} else {
			v.DeliveryCount = 1
			g.value.Pending++
		}
		if err != nil {
			return err
		}
		c.value.Pending++
		v.Consumer, v.DeliveryTime = name, o.Delivered
		switch {
		case o.Deliveries >= 0:
			v.DeliveryCount = uint64(o.Deliveries)
		case !o.JustID:
			v.DeliveryCount++
		}
		change(claimed{id: id, value: v}, p, again)
		if err := g.report(id, value, o.JustID, f); err != nil {
			return err
		}
		c.value.LastSucceeded = uint64(t)
	}
	g.value.LastDelivered = greater(g.value.LastDelivered, o.LastID)
	g.write(changes, &owners, &c)
	return nil
}

// report calls f with a claimed entry.
func (g *Group) report(id ID, value []byte, justID bool, f func(id ID, e *Entry)) error {
	if justID {
		f(id, nil)
		return nil
	}
	e, err := g.s.entry(id, value)
	if err == nil {
		f(id, &e)
	}
	return err
}

// forget subtracts an entry that does not exist any more from the pending counters.
func (g *Group) forget(o *owners, consumer []byte) error {
	g.value.Pending = less(g.value.Pending, 1)
	return o.lose(consumer)
}

// write writes the changes of a claim in Kvrocks's order: the consumers that have lost entries, the pending entries,
// the consumer that got them, and the group.
func (g *Group) write(changes []claimed, o *owners, c *consumer) {
	tx := g.s.tx
	tx.LogData(cf.LogStream)
	o.save(c)
	for i := range changes {
		x := &changes[i]
		if x.gone {
			tx.Delete(cf.Stream, g.pendingKey(x.id))
			continue
		}
		g.putPending(x.id, &x.value)
		g.added(x.id)
	}
	g.saveConsumer(c)
	g.save()
}

// AutoClaimOptions select the pending entries that change their consumer.
type AutoClaimOptions struct {
	From    ID     // the first id to look at
	MinIdle int64  // milliseconds; entries that were delivered more recently are skipped
	Count   uint64 // max entries that are claimed or found to be deleted; ten times as many are examined
	JustID  bool   // the values of the entries are not needed, and the delivery count stays
}

const (
	claimAttempts = 10 // pending entries that are examined for each requested one
	claimBatch    = 64 // pending entries of one batched read
)

// AutoClaim transfers entries that have been pending for MinIdle to the named consumer, which it creates if it is
// missing, and calls f with each of them; with JustID, e is nil. Deleted entries stop being pending and are returned.
// next is the id to continue from, 0-0 at the end.
func (g *Group) AutoClaim(name []byte, o *AutoClaimOptions, f func(id ID, e *Entry)) (next ID, deleted []ID,
	err error) {
	c, err := g.use(name)
	if err != nil {
		return ID{}, nil, err
	}
	tx := g.s.tx
	a := autoClaim{g: g, o: o, c: &c, f: f, owners: owners{g: g, list: []*consumer{&c}}, count: o.Count}
	w := g.walk(o.From, MaxID, limitOf(o.Count))
	defer w.close()
	batch := make([]Pending, 0, min(claimBatch, o.Count))
	for attempts := o.Count * claimAttempts; a.count > 0 && attempts > 0; {
		batch = batch[:0]
		for uint64(len(batch)) < min(a.count, attempts, claimBatch) && w.next() {
			batch = append(batch, Pending{w.id, a.nameOf(w.value.Consumer), w.value.DeliveryTime, 0, w.value.DeliveryCount})
		}
		if w.err != nil {
			return ID{}, nil, w.err
		}
		if len(batch) == 0 {
			break
		}
		attempts -= uint64(len(batch))
		if err := a.claim(batch); err != nil {
			return ID{}, nil, err
		}
	}
	if w.next() {
		next = w.id
	}
	if w.err != nil {
		return ID{}, nil, w.err
	}
	if len(a.changes) > 0 {
		g.write(a.changes, &a.owners, &c)
		return next, a.deleted, nil
	}
	tx.LogData(cf.LogStream)
	g.saveConsumer(&c)
	return next, nil, nil
}

// autoClaim is the state of a running AutoClaim.
type autoClaim struct {
	g       *Group
	o       *AutoClaimOptions
	c       *consumer
	f       func(id ID, e *Entry)
	owners  owners
	names   map[string][]byte // names of the consumers seen so far
	changes []claimed
	deleted []ID
	count   uint64 // how many entries may still be claimed or found to be deleted
}

// nameOf returns a copy of name that stays valid when the iterator moves on.
func (a *autoClaim) nameOf(name []byte) []byte {
	if n, ok := a.names[string(name)]; ok {
		return n
	}
	if a.names == nil {
		a.names = make(map[string][]byte)
	}
	name = bytes.Clone(name)
	a.names[string(name)] = name
	return name
}

// claim examines a batch of pending entries.
func (a *autoClaim) claim(batch []Pending) error {
	g := a.g
	t := g.s.tx.Clock()
	values, err := g.s.values(batch)
	if err != nil {
		return err
	}
	for i := range batch {
		p := &batch[i]
		switch {
		case values[i] == nil:
			if err := g.forget(&a.owners, p.Consumer); err != nil {
				return err
			}
			a.changes = append(a.changes, claimed{id: p.ID, gone: true})
			a.deleted = append(a.deleted, p.ID)
			a.count--
			continue
		case a.o.MinIdle > 0 && t-int64(p.Delivered) < a.o.MinIdle:
			continue
		}
		if err := a.owners.lose(p.Consumer); err != nil {
			return err
		}
		a.c.value.Pending++
		a.c.value.LastSucceeded = uint64(t)
		v := cf.StreamPendingValue{DeliveryTime: uint64(t), DeliveryCount: p.Deliveries, Consumer: a.c.name}
		if !a.o.JustID {
			v.DeliveryCount++
		}
		a.changes = append(a.changes, claimed{id: p.ID, value: v})
		if err := g.report(p.ID, values[i], a.o.JustID, a.f); err != nil {
			return err
		}
		a.count--
	}
	return nil
}
