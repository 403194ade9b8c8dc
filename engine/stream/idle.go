package stream

import (
	"cmp"
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/derived"
)

// The pending entries of a group are stored by id, and consumers that claim want those that have waited longest. So a
// claim would have to read all of them: of 20,000 in 115 ms, and in 48 ms when none can be claimed (BenchmarkIdle). A
// waitList remembers what such a scan has found. It serves the next claims, and tells them how long nothing will be
// idle for long enough: they take 0.15 and 0.11 ms.
//
// Delivery times only grow, since an entry that is delivered now has waited least, with two exceptions: XCLAIM with the
// time of a delivery, and XNACK. Both tell the list ([Group.aged]). A list may hold entries that are not pending any
// more, or were delivered again: each is compared with its record before it is used.
type waitList struct {
	list  []waiting // in the order in which they are claimed
	upTo  uint64    // all pending entries with delivery times up to this one are in the list, unless they are deleted
	bytes int
}

// waiting is a pending entry that waits since its last delivery. Entries that are nobody's come first: their places are
// smaller than any time.
type waiting struct {
	since uint64
	id    ID
}

func (a waiting) compare(b waiting) int {
	return cmp.Or(cmp.Compare(a.since, b.since), a.id.Compare(b.id))
}

// waits holds the lists of a stream's groups by group name.
type waits struct {
	derived.Entry
	groups map[string]*waitList
	bytes  int // of all lists
}

var waitKind = derived.Kind[*waits]{ID: derived.Waits}

const (
	maxWaits      = 16 << 10 // entries of a list that are remembered
	maxWaitGroups = 128      // groups of a stream whose lists are remembered
)

// keep leaves as many entries in a list as are remembered.
func (a *waits) keep(l *waitList) {
	if len(l.list) > maxWaits {
		l.list = slices.Clone(l.list[:maxWaits])
		l.upTo = min(l.upTo, less(l.list[maxWaits-1].since, 1))
	}
	if n := 24 * cap(l.list); n != l.bytes {
		a.bytes += n - l.bytes
		l.bytes = n
		a.Resize(a.bytes)
	}
}

// dropWaits drops the lists: a deleted entry, which no list holds, may come again.
func (s *stream) dropWaits() {
	if a := engine.HaveState(s.tx, waitKind, &s.rec); a != nil {
		a.Drop()
	}
}

// aged notes that a pending entry has waited since a time.
func (g *Group) aged(id ID, since uint64) {
	if since >= now(g.s.tx) {
		return
	}
	a := engine.HaveState(g.s.tx, waitKind, &g.s.rec)
	if a == nil || a.groups[string(g.name)] == nil {
		return
	}
	l, w := a.groups[string(g.name)], waiting{since, id}
	if i, found := slices.BinarySearchFunc(l.list, w, waiting.compare); !found {
		l.list = slices.Insert(l.list, i, w)
		a.keep(l)
	}
}

// idleUntil returns the delivery time up to which entries have been pending for minIdle milliseconds; false = none has.
func (g *Group) idleUntil(minIdle int64) (uint64, bool) {
	t := now(g.s.tx)
	return t - min(uint64(minIdle), t), uint64(minIdle) <= t && g.value.Pending > 0
}

// waitList returns the list of the group, in which are the entries up to a delivery time: all of them, or at least
// count if that is not 0. The caller must keep it.
func (g *Group) waitList(upTo, count uint64) (*waits, *waitList, error) {
	a := engine.FindState(g.s.tx, waitKind, &g.s.rec)
	if a == nil {
		a = &waits{}
		engine.KeepState(g.s.tx, waitKind, &g.s.rec, a, 0)
	}
	l := a.groups[string(g.name)]
	if l == nil {
		if len(a.groups) >= maxWaitGroups || a.groups == nil {
			a.groups, a.bytes = map[string]*waitList{}, 64
		}
		l = &waitList{}
		a.groups[string(g.name)] = l
		a.bytes += 128 + len(g.name)
	}
	if upTo <= l.upTo || count > 0 && uint64(len(l.list)) >= count && l.list[count-1].since <= upTo {
		return a, l, nil
	}
	return a, l, l.read(g, upTo)
}

// read reads the pending entries of the group up to a delivery time.
func (l *waitList) read(g *Group, upTo uint64) error {
	l.list, l.upTo = l.list[:0], 0
	next := now(g.s.tx) // entries that are delivered from now on are not known
	w := g.walk(MinID, MaxID, 0)
	defer w.close()
	for w.next() {
		if since := w.value.DeliveryTime; since <= upTo {
			l.list = append(l.list, waiting{since, w.id})
		} else {
			next = min(next, since)
		}
	}
	if w.err != nil {
		return w.err
	}
	slices.SortFunc(l.list, waiting.compare)
	l.upTo = less(next, 1)
	return nil
}

// idleEntry is an entry that can be claimed.
type idleEntry struct {
	waiting
	pending cf.StreamPendingValue
	value   []byte
}

// first returns the first entries of the list up to a delivery time, at most n. Before these it removes those from the
// list that cannot be claimed: they were acknowledged or delivered again, or are deleted.
func (l *waitList) first(g *Group, upTo uint64, n int) ([]idleEntry, error) {
	for {
		seen := 0
		for seen < min(n, len(l.list)) && l.list[seen].since <= upTo {
			seen++
		}
		if seen == 0 {
			return nil, nil
		}
		keys := g.s.tx.Keys()
		for _, w := range l.list[:seen] {
			keys.Add(g.pendingKey(w.id))
		}
		for _, w := range l.list[:seen] {
			keys.Add(g.s.entryKey(w.id))
		}
		values, err := g.s.tx.MultiGet(cf.Stream, keys)
		if err != nil {
			return nil, err
		}
		found := make([]idleEntry, 0, seen)
		for i, w := range l.list[:seen] {
			if values[i] == nil || values[seen+i] == nil {
				continue
			}
			p, err := g.decodePending(w.id, values[i])
			if err != nil {
				return nil, err
			}
			if p.DeliveryTime == w.since {
				found = append(found, idleEntry{w, p, values[seen+i]})
			}
		}
		l.list = l.list[seen-len(found):]
		for i := range found {
			l.list[i] = found[i].waiting
		}
		if len(found) > 0 {
			return found, nil
		}
	}
}

// HasIdle reports whether an entry can be claimed that has been pending for minIdle milliseconds.
func (g *Group) HasIdle(minIdle int64) (bool, error) {
	upTo, ok := g.idleUntil(minIdle)
	if !ok {
		return false, nil
	}
	a, l, err := g.waitList(upTo, 1)
	if err != nil {
		return false, err
	}
	defer a.keep(l)
	found, err := l.first(g, upTo, 1)
	return len(found) > 0, err
}

// NextIdle returns in how many milliseconds an entry may have been pending for minIdle milliseconds, when none has now.
// known is false when there may be no such entry: those that are delivered from now on are idle no sooner.
func (g *Group) NextIdle(minIdle int64) (ms int64, known bool) {
	t := now(g.s.tx)
	since := t
	if a := engine.HaveState(g.s.tx, waitKind, &g.s.rec); a != nil && g.value.Pending > 0 {
		if l := a.groups[string(g.name)]; l != nil {
			if since = min(t, l.upTo+1); len(l.list) > 0 {
				since = min(since, l.list[0].since)
			}
		}
	}
	return max(minIdle-int64(t-since), 1), since < t
}

// claimIdle hands out to a consumer the entries that have been pending for o.MinIdle, at most o.Count, until f returns
// false: then more is false. Deleted entries stay pending, as in Redis.
func (g *Group) claimIdle(c *consumer, own *owners, o *ReadOptions, begin func(), f func(e *Entry, d Delivered) bool) (
	n uint64, more bool, err error) {
	upTo, ok := g.idleUntil(o.MinIdle)
	if !ok {
		return 0, true, nil
	}
	a, l, err := g.waitList(upTo, o.Count)
	if err != nil {
		return 0, true, err
	}
	defer a.keep(l)
	tx := g.s.tx
	t := now(tx)
	for more = true; more && (o.Count == 0 || n < o.Count); {
		batch := claimBatch
		if o.Count > 0 {
			batch = int(min(claimBatch, o.Count-n))
		}
		found, err := l.first(g, upTo, batch)
		if err != nil || len(found) == 0 {
			return n, more, err
		}
		for i := 0; more && i < len(found); i++ {
			x := &found[i]
			e, err := g.s.entry(x.id, x.value)
			if err != nil {
				return n, more, err
			}
			d := Delivered{int64(t - x.since), x.pending.DeliveryCount}
			if isNobody(x.pending.Consumer) {
				d.Idle = int64(t)
			}
			if n++; n == 1 {
				tx.LogData(cf.LogStream)
				begin()
			}
			if err := own.lose(x.pending.Consumer); err != nil {
				return n, more, err
			}
			c.value.Pending++
			c.value.LastSucceeded = t
			g.putPending(x.id, &cf.StreamPendingValue{DeliveryTime: t, DeliveryCount: again(d.Times), Consumer: c.name})
			l.list = l.list[1:]
			more = f(&e, d)
		}
	}
	return n, more, nil
}
