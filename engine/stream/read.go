package stream

import (
	"bytes"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// HasNew reports whether the stream has entries that the group has not handed out yet.
func (g *Group) HasNew() bool { return g.s.hasAfter(g.value.LastDelivered) }

// ReadOptions say which entries a consumer gets.
type ReadOptions struct {
	Count uint64 // max number; 0 = all
	NoAck bool   // new entries do not become pending
	// Claim: first come entries that have been pending for MinIdle milliseconds, whoever has got them.
	Claim   bool
	MinIdle int64
}

// Delivered says how an entry was delivered before: zero for a new entry.
type Delivered struct {
	Idle  int64  // milliseconds since the last delivery; of an entry that is nobody's, since the epoch
	Times uint64 // the number of deliveries
}

// Read hands out entries to a consumer, which it creates if it is missing: with o.Claim idle ones, and then those that
// the group has not handed out yet, until f returns false. They become pending for the consumer, new ones unless
// o.NoAck is set. Before the first entry it calls begin. Without an entry it returns false.
func (g *Group) Read(name []byte, o *ReadOptions, begin func(), f func(e *Entry, d Delivered) bool) (bool, error) {
	c, err := g.use(name)
	if err != nil {
		return false, err
	}
	tx := g.s.tx
	owners := owners{g: g}
	claimed, more := uint64(0), true
	if o.Claim {
		owners.add(&c)
		if claimed, more, err = g.claimIdle(&c, &owners, o, begin, f); err != nil {
			return false, err
		}
	}
	if claimed == 0 {
		tx.LogData(cf.LogStream)
	}
	if !g.HasNew() || !more || claimed > 0 && claimed == o.Count {
		owners.save(&c)
		g.saveConsumer(&c)
		return claimed > 0, nil
	}
	if claimed == 0 {
		begin()
	}
	var buf [64]ID
	ids := buf[:0]
	err = g.next(less(o.Count, claimed), func(e *Entry) bool {
		g.delivered(e.ID)
		if !o.NoAck {
			ids = append(ids, e.ID)
		}
		return f(e, Delivered{})
	})
	if err != nil {
		return false, err
	}
	if len(ids) > 0 {
		if err := g.hand(ids, &c, &owners); err != nil {
			return false, err
		}
		c.value.LastSucceeded = now(tx)
	}
	g.save()
	owners.save(&c)
	g.saveConsumer(&c)
	return true, nil
}

// hand makes entries, whose ids ascend, pending for a consumer. Some may be pending already: the group's position may
// have been set back, or they were claimed with FORCE.
func (g *Group) hand(ids []ID, c *consumer, o *owners) error {
	had, err := g.pendingAmong(ids)
	if err != nil {
		return err
	}
	if had != nil && len(o.list) == 0 {
		o.add(c)
	}
	v := cf.StreamPendingValue{DeliveryTime: now(g.s.tx), DeliveryCount: 1, Consumer: c.name}
	for i, id := range ids {
		g.putPending(id, &v)
		if had != nil && had[i] != nil {
			if err := o.lose(had[i]); err != nil {
				return err
			}
		} else {
			g.value.Pending++
		}
		c.value.Pending++
	}
	g.added(ids[0])
	g.added(ids[len(ids)-1])
	return nil
}

// pendingAmong returns for each of the ascending ids the consumer for which it is pending, nil if it is not pending. It
// returns nil when no id is pending: the common case, which the stored bound of the greatest pending id decides without
// a read.
func (g *Group) pendingAmong(ids []ID) ([][]byte, error) {
	tx := g.s.tx
	prefix := g.pendingPrefix()
	_, high := tx.Bounds(&g.s.rec, prefix)
	if high == nil {
		var err error
		if high, err = g.findHighBound(); err != nil {
			return nil, err
		}
	}
	if bytes.Compare(g.pendingKey(ids[0]), high) >= 0 {
		return nil, nil
	}
	values, err := g.pendingValues(ids)
	if err != nil {
		return nil, err
	}
	had := make([][]byte, len(ids))
	for i, v := range values {
		if v == nil {
			continue
		}
		p, err := g.decodePending(ids[i], v)
		if err != nil {
			return nil, err
		}
		if had[i] = p.Consumer; p.Consumer == nil {
			had[i] = []byte{}
		}
	}
	return had, nil
}

// findHighBound finds the greatest pending id and stores the bound after it.
func (g *Group) findHighBound() ([]byte, error) {
	tx := g.s.tx
	prefix := g.pendingPrefix()
	o := engine.IterOptions{Prefix: prefix, Reverse: true, KeysOnly: true, Limit: 1}
	if low, _ := tx.Bounds(&g.s.rec, prefix); low != nil {
		o.Lower = low
	}
	it := tx.Iter(cf.Stream, o)
	defer it.Close()
	last := MinID
	if it.Next() {
		id, err := g.s.pendingIDOf(it.Key())
		if err != nil {
			return nil, err
		}
		last = id
	}
	if err := it.Err(); err != nil {
		return nil, err
	}
	high := append(under(prefix, last), 0)
	tx.SetHighBound(&g.s.rec, prefix, high)
	return high, nil
}

// historyBatch is how many entries of a history one batched read returns.
const historyBatch = 64

// History hands out again to a consumer, which it creates if it is missing, the entries pending for it whose ids are
// greater than after: at most count (0 = all), until f returns false. For entries that were deleted meanwhile f gets
// nil.
func (g *Group) History(consumer []byte, after ID, count uint64, f func(id ID, e *Entry) bool) error {
	c, err := g.use(consumer)
	if err != nil {
		return err
	}
	tx := g.s.tx
	tx.LogData(cf.LogStream)
	left := c.value.Pending // the rest are other consumers' entries
	if count > 0 {
		left = min(left, count)
	}
	if from, ok := Next(after); ok && left > 0 {
		w := g.walk(from, MaxID, 0)
		defer w.close()
		var ids []ID
		var deliveries []uint64
		for more := true; more && left > 0; {
			ids, deliveries = ids[:0], deliveries[:0]
			for uint64(len(ids)) < min(left, historyBatch) {
				if more = w.next(); !more {
					break
				}
				if bytes.Equal(w.value.Consumer, consumer) {
					ids, deliveries = append(ids, w.id), append(deliveries, w.value.DeliveryCount)
				}
			}
			if w.err != nil {
				return w.err
			}
			left -= uint64(len(ids))
			goOn, err := g.redeliver(&c, ids, deliveries, f)
			if err != nil {
				return err
			}
			more = more && goOn
		}
	}
	g.saveConsumer(&c)
	return nil
}

// redeliver hands out pending entries again, until f returns false. deliveries are their delivery counts so far.
func (g *Group) redeliver(c *consumer, ids []ID, deliveries []uint64, f func(id ID, e *Entry) bool) (bool, error) {
	values, err := g.s.values(ids)
	if err != nil {
		return false, err
	}
	for i, id := range ids {
		var e *Entry
		if values[i] != nil {
			x, err := g.s.entry(id, values[i])
			if err != nil {
				return false, err
			}
			e = &x
			g.putPending(id, &cf.StreamPendingValue{DeliveryTime: now(g.s.tx), DeliveryCount: again(deliveries[i]),
				Consumer: c.name})
		}
		if !f(id, e) {
			return false, nil
		}
	}
	return true, nil
}

// values returns the values of entries, nil for missing ones. The slice is valid until the next call.
func (s *stream) values(ids []ID) ([][]byte, error) {
	keys := s.tx.Keys()
	for _, id := range ids {
		keys.Add(s.entryKey(id))
	}
	return s.tx.MultiGet(cf.Stream, keys)
}

// pendingValues is values for the records of pending entries.
func (g *Group) pendingValues(ids []ID) ([][]byte, error) {
	keys := g.s.tx.Keys()
	for _, id := range ids {
		keys.Add(g.pendingKey(id))
	}
	return g.s.tx.MultiGet(cf.Stream, keys)
}
