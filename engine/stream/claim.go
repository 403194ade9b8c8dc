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

// claimed is a pending entry that is claimed.
type claimed struct {
	id      ID
	pending bool // false: it is not, or not any more, because the entry does not exist
	value   cf.StreamPendingValue
}

// claim is a running transfer of entries to a consumer.
type claim struct {
	g       *Group
	o       *ClaimOptions
	c       consumer
	f       func(id ID, e *Entry)
	owners  owners
	changes []claimed
}

func (g *Group) claim(name []byte, o *ClaimOptions, f func(id ID, e *Entry)) (*claim, error) {
	c, err := g.use(name)
	x := &claim{g: g, o: o, c: c, f: f, owners: owners{g: g}}
	x.owners.add(&x.c)
	return x, err
}

// Claim transfers pending entries to the named consumer, which it creates if it is missing, and calls f with each of
// them; with JustID, e is nil. Entries that were deleted meanwhile stop being pending.
func (g *Group) Claim(name []byte, ids []ID, o *ClaimOptions, f func(id ID, e *Entry)) error {
	x, err := g.claim(name, o, f)
	if err != nil {
		return err
	}
	x.changes = make([]claimed, 0, len(ids))
	keys := g.s.tx.Keys()
	for _, id := range ids {
		keys.Add(g.pendingKey(id))
	}
	for _, id := range ids {
		keys.Add(g.s.entryKey(id))
	}
	values, err := g.s.tx.MultiGet(cf.Stream, keys)
	if err != nil {
		return err
	}
	var at map[ID]int // the index in x.changes, if ids repeat
	if len(engine.Distinct(ids)) < len(ids) {
		at = make(map[ID]int, len(ids))
	}
	for i, id := range ids {
		p := claimed{id: id, pending: values[i] != nil}
		j, again := at[id]
		switch {
		case again:
			p = x.changes[j]
		case p.pending:
			if p.value, err = g.decodePending(id, values[i]); err != nil {
				return err
			}
		}
		changed, err := x.entry(&p, values[len(ids)+i])
		switch {
		case err != nil:
			return err
		case changed && again:
			x.changes[j] = p
		case changed:
			if at != nil {
				at[id] = len(x.changes)
			}
			x.changes = append(x.changes, p)
		}
	}
	g.value.LastDelivered = greater(g.value.LastDelivered, o.LastID)
	x.write()
	return nil
}

// entry transfers an entry and calls f with it, unless the options exclude it: then it returns false. value is nil if
// the entry was deleted: then it stops being pending.
func (x *claim) entry(p *claimed, value []byte) (changed bool, err error) {
	g, o := x.g, x.o
	t := g.s.tx.Clock()
	switch {
	case !p.pending && (!o.Force || value == nil),
		p.pending && value != nil && o.MinIdle > 0 && t-int64(p.value.DeliveryTime) < o.MinIdle &&
			!isNobody(p.value.Consumer):
		return false, nil
	case !p.pending:
		p.pending, p.value.DeliveryCount = true, 1
		g.value.Pending++
	default:
		if err := x.owners.lose(p.value.Consumer); err != nil {
			return false, err
		}
		if value == nil {
			p.pending = false
			g.value.Pending = less(g.value.Pending, 1)
			return true, nil
		}
	}
	x.c.value.Pending++
	x.c.value.LastSucceeded = uint64(t)
	p.value.Consumer, p.value.DeliveryTime = x.c.name, o.Delivered
	switch {
	case o.Deliveries >= 0:
		p.value.DeliveryCount = uint64(o.Deliveries)
	case !o.JustID:
		p.value.DeliveryCount = again(p.value.DeliveryCount)
	}
	if o.JustID {
		x.f(p.id, nil)
		return true, nil
	}
	e, err := g.s.entry(p.id, value)
	if err == nil {
		x.f(p.id, &e)
	}
	return true, err
}

// again returns the number of deliveries after another one. It stays at the number of [Fatal].
func again(deliveries uint64) uint64 { return max(deliveries, min(deliveries+1, maxDeliveries)) }

// write writes the changes in Kvrocks's order: the consumers that have lost entries, the pending entries, the consumer
// that got them, and the group.
func (x *claim) write() {
	g := x.g
	g.s.tx.LogData(cf.LogStream)
	x.owners.save(&x.c)
	for i := range x.changes {
		p := &x.changes[i]
		if !p.pending {
			g.s.tx.Delete(cf.Stream, g.pendingKey(p.id))
			continue
		}
		g.putPending(p.id, &p.value)
		g.added(p.id)
		g.aged(p.id, p.value.DeliveryTime)
	}
	g.saveConsumer(&x.c)
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
	tx := g.s.tx
	x, err := g.claim(name, &ClaimOptions{MinIdle: o.MinIdle, Delivered: now(tx), Deliveries: -1, JustID: o.JustID}, f)
	if err != nil {
		return ID{}, nil, err
	}
	w := g.walk(o.From, MaxID, limitOf(o.Count))
	defer w.close()
	ids := make([]ID, 0, min(claimBatch, o.Count))
	batch := make([]claimed, 0, cap(ids))
	left := o.Count
	for attempts := o.Count * claimAttempts; left > 0 && attempts > 0; attempts -= uint64(len(batch)) {
		ids, batch = ids[:0], batch[:0]
		for uint64(len(batch)) < min(left, attempts, claimBatch) && w.next() {
			v := w.value
			v.Consumer = bytes.Clone(v.Consumer)
			ids, batch = append(ids, w.id), append(batch, claimed{w.id, true, v})
		}
		if w.err != nil {
			return ID{}, nil, w.err
		}
		if len(batch) == 0 {
			break
		}
		values, err := g.s.values(ids)
		if err != nil {
			return ID{}, nil, err
		}
		for i := range batch {
			p := &batch[i]
			changed, err := x.entry(p, values[i])
			if err != nil {
				return ID{}, nil, err
			}
			if !changed {
				continue
			}
			left--
			x.changes = append(x.changes, *p)
			if !p.pending {
				deleted = append(deleted, p.id)
			}
		}
	}
	if w.next() {
		next = w.id
	}
	if w.err != nil {
		return ID{}, nil, w.err
	}
	if len(x.changes) > 0 {
		x.write()
	} else {
		tx.LogData(cf.LogStream)
		g.saveConsumer(&x.c)
	}
	return next, deleted, nil
}
