package stream_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/enginetest"
	"github.com/basaltdb/basalt/engine/stream"
)

// model is what a stream must be.
type model struct {
	entries          []stream.ID // each with its id as the value
	last, maxDeleted stream.ID
	added            uint64
	groups           map[string]*modelGroup
}

type modelGroup struct {
	last      stream.ID
	pending   map[stream.ID]modelPending
	consumers map[string]bool
	nacked    uint64 // how often an entry was given back
}

type modelPending struct {
	consumer   string
	deliveries uint64
	since      int64  // the time of the last delivery
	nacked     uint64 // the place of an entry that is nobody's; 0 = it has a consumer
}

func (m *model) clone() *model {
	c := *m
	c.entries = slices.Clone(m.entries)
	c.groups = map[string]*modelGroup{}
	for name, g := range m.groups {
		c.groups[name] = &modelGroup{g.last, maps.Clone(g.pending), maps.Clone(g.consumers), g.nacked}
	}
	return &c
}

// trim removes the oldest entries, of which the one that is just being added is the last.
func (m *model) trim(t stream.Trim) (removed uint64) {
	if t.Refs == stream.OnlyIfAcked && len(m.groups) > 0 {
		return m.trimAcked(t)
	}
	all := m.entries
	defer func() {
		if t.Refs == stream.DeleteRefs {
			for _, id := range all[:removed] {
				m.dropRefs(id)
			}
		}
	}()
	node := 1
	if t.Approx {
		node = stream.TrimNode
	}
	for len(m.entries) > 0 {
		n := min(node, len(m.entries))
		switch {
		case t.Approx && t.Limit > 0 && removed+uint64(n) > t.Limit,
			t.By == stream.TrimMaxLen && uint64(len(m.entries)-n) < t.MaxLen,
			t.By == stream.TrimMinID && m.entries[n-1].Compare(t.MinID) >= 0,
			t.By == stream.TrimNone:
			return removed
		}
		m.entries = m.entries[n:]
		removed += uint64(n)
	}
	return removed
}

// trimAcked is trim of entries to which no group refers.
func (m *model) trimAcked(t stream.Trim) (removed uint64) {
	total := uint64(len(m.entries))
	var kept []stream.ID
	for i, id := range m.entries {
		left := total - removed
		if t.Approx && i%stream.TrimNode == 0 {
			size := min(stream.TrimNode, total-uint64(i))
			last := m.entries[i]
			for _, other := range m.entries[i : i+int(size)] {
				if m.delivered(other) {
					last = other
				}
			}
			if t.Limit > 0 && removed+size > t.Limit || t.By == stream.TrimMaxLen && left < size+t.MaxLen ||
				t.By == stream.TrimMinID && last.Compare(t.MinID) >= 0 {
				kept = append(kept, m.entries[i:]...)
				break
			}
		}
		if t.By == stream.TrimMaxLen && left <= t.MaxLen || t.By == stream.TrimMinID && id.Compare(t.MinID) >= 0 {
			kept = append(kept, m.entries[i:]...)
			break
		}
		if m.delivered(id) && m.refs(id) == 0 {
			removed++
		} else {
			kept = append(kept, id)
		}
	}
	m.entries = kept
	return removed
}

// delivered reports whether all groups have handed out an entry.
func (m *model) delivered(id stream.ID) bool {
	for _, g := range m.groups {
		if id.Compare(g.last) > 0 {
			return false
		}
	}
	return true
}

// refs returns in how many groups an entry is pending.
func (m *model) refs(id stream.ID) (n int) {
	for _, g := range m.groups {
		if _, ok := g.pending[id]; ok {
			n++
		}
	}
	return n
}

func (m *model) dropRefs(id stream.ID) {
	for _, g := range m.groups {
		delete(g.pending, id)
	}
}

func (m *model) has(id stream.ID) bool {
	_, found := slices.BinarySearchFunc(m.entries, id, stream.ID.Compare)
	return found
}

// between returns the ids in a range, from and to included.
func (m *model) between(from, to stream.ID) (list []stream.ID) {
	for _, id := range m.entries {
		if from.Compare(id) <= 0 && id.Compare(to) <= 0 {
			list = append(list, id)
		}
	}
	return list
}

// history does random operations to a stream and its model.
type history struct {
	r  *rand.Rand
	tx *engine.Tx
	m  *model
	// base is the Ms before all entries. A high one lets the entries reach into the last millisecond of all.
	base uint64
}

// id is that of an entry, or near one.
func (h *history) id() stream.ID {
	id := stream.ID{Ms: h.base + 1}
	id.Ms += min(uint64(h.r.IntN(int(max(h.m.last.Ms, h.base)-h.base)+3)), math.MaxUint64-id.Ms)
	if n := len(h.m.entries); n > 0 && h.r.IntN(4) > 0 {
		id = h.m.entries[h.r.IntN(n)]
		if h.r.IntN(3) == 0 {
			id = h.m.entries[min(h.r.IntN(3), n-1)]
		}
	}
	id.Seq += uint64(h.r.IntN(2)) * uint64(h.r.IntN(2))
	return id
}

func (h *history) ids() []stream.ID {
	list := make([]stream.ID, 1+h.r.IntN(4)*h.r.IntN(8))
	for i := range list {
		list[i] = h.id()
	}
	return list
}

func (h *history) trimRule() stream.Trim {
	t := stream.Trim{By: stream.TrimMaxLen, MaxLen: uint64(h.r.IntN(40)), Approx: h.r.IntN(2) == 0}
	if h.r.IntN(4) == 0 {
		t.MaxLen = uint64(h.r.IntN(700))
	}
	if h.r.IntN(2) == 0 {
		t.By, t.MinID = stream.TrimMinID, h.id()
	}
	if h.r.IntN(2) == 0 {
		t.Refs = stream.Refs(h.r.IntN(3))
	}
	if t.Approx && h.r.IntN(2) == 0 {
		t.Limit = uint64(h.r.IntN(300))
	}
	return t
}

// step does one operation to both and compares what they return.
func (h *history) step() error {
	switch h.r.IntN(14) {
	case 12, 13:
		return h.deleteRefs()
	case 0, 1:
		return h.add(1+h.r.IntN(60), stream.Trim{})
	case 2, 3: // as producers do that limit the length with each entry
		t := h.trimRule()
		return h.add(1+h.r.IntN(10), t)
	case 4:
		t := h.trimRule()
		got, err := stream.TrimOld(h.tx, key, &t)
		if want := h.m.trim(t); err == nil && got != want {
			err = fmt.Errorf("trim %+v: %d removed, want %d", t, got, want)
		}
		return err
	case 5, 6:
		return h.delete()
	case 7:
		return h.ranges()
	}
	return h.group()
}

func (h *history) add(n int, t stream.Trim) error {
	for range n {
		id := stream.ID{Ms: max(h.m.last.Ms, h.base), Seq: h.m.last.Seq + 1}
		if h.r.IntN(2) == 0 && id.Ms < math.MaxUint64 {
			id = stream.ID{Ms: id.Ms + 1}
		}
		o := stream.AddOptions{NewID: stream.NewID{ID: id}, Trim: t}
		got, added, err := stream.Add(h.tx, key, raw("id", text(id)), &o)
		if err != nil || !added || got != id {
			return fmt.Errorf("add %s: %s, %v, %w", text(id), text(got), added, err)
		}
		h.m.entries = append(h.m.entries, id)
		h.m.last = id
		h.m.added++
		h.m.trim(t)
	}
	return nil
}

func (h *history) delete() error {
	ids := h.ids()
	want := uint64(0)
	for _, id := range ids {
		if i, found := slices.BinarySearchFunc(h.m.entries, id, stream.ID.Compare); found {
			h.m.entries = slices.Delete(h.m.entries, i, i+1)
			want++
			if id.Compare(h.m.maxDeleted) > 0 {
				h.m.maxDeleted = id
			}
		}
	}
	got, err := stream.Delete(h.tx, key, ids)
	if err == nil && got != want {
		err = fmt.Errorf("delete %s: %d deleted, want %d", text(ids...), got, want)
	}
	return err
}

// deleteRefs deletes entries with what refers to them.
func (h *history) deleteRefs() error {
	refs, ids := stream.Refs(h.r.IntN(3)), h.ids()
	group := []string{"", "g", "gg"}[h.r.IntN(3)]
	g := h.m.groups[group]
	if g != nil {
		ids = append(ids, g.ids()[:min(5, len(g.pending))]...)
	}
	want := make([]stream.Outcome, len(ids))
	for i, id := range ids {
		want[i] = stream.NotFound
		at, found := slices.BinarySearchFunc(h.m.entries, id, stream.ID.Compare)
		if group != "" {
			if g == nil {
				continue
			}
			if _, pending := g.pending[id]; !pending {
				continue
			}
			delete(g.pending, id)
			want[i] = stream.Deleted
		}
		if refs == stream.DeleteRefs {
			h.m.dropRefs(id)
		}
		if refs == stream.OnlyIfAcked && (found || group != "") && (!h.m.delivered(id) || h.m.refs(id) > 0) {
			want[i] = stream.Referenced
			continue
		}
		if found {
			want[i] = stream.Deleted
			h.m.entries = slices.Delete(h.m.entries, at, at+1)
			if id.Compare(h.m.maxDeleted) > 0 {
				h.m.maxDeleted = id
			}
		}
	}
	var got []stream.Outcome
	var err error
	if group == "" {
		got, err = stream.DeleteWithRefs(h.tx, key, ids, refs)
	} else {
		got, err = stream.AckDelete(h.tx, key, []byte(group), ids, refs)
	}
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("delete %s with references %d in group %q: %v, want %v", text(ids...), refs, group, got, want)
	}
	return err
}

func (h *history) ranges() error {
	o := stream.RangeOptions{From: h.id(), To: h.id(), Count: uint64(h.r.IntN(10)), Reverse: h.r.IntN(2) == 0}
	if h.r.IntN(3) == 0 {
		o.To = stream.MaxID
	}
	want := h.m.between(o.From, o.To)
	if o.Reverse {
		slices.Reverse(want)
	}
	if o.Count > 0 {
		want = want[:min(len(want), int(o.Count))]
	}
	return same(h.tx, o, want)
}

// same compares the entries in a range.
func same(tx *engine.Tx, o stream.RangeOptions, want []stream.ID) error {
	var got []stream.ID
	var odd error
	err := stream.Range(tx, key, o, func(e *stream.Entry) {
		got = append(got, e.ID)
		field, _ := e.Next()
		value, _ := e.Next()
		if string(field) != "id" || string(value) != text(e.ID) {
			odd = fmt.Errorf("entry %s holds %q %q", text(e.ID), field, value)
		}
	})
	if err == nil && !slices.Equal(got, want) {
		err = fmt.Errorf("range %+v: %s\nwant %s", o, text(got...), text(want...))
	}
	return errors.Join(err, odd)
}

// group does one operation to a group.
func (h *history) group() error {
	name := []string{"g", "gg"}[h.r.IntN(2)]
	consumer := []string{"c", "d", ""}[h.r.IntN(3)]
	mg := h.m.groups[name]
	g, err := stream.OpenGroup(h.tx, key, []byte(name))
	if err != nil {
		return err
	}
	if (g == nil) != (mg == nil) {
		return fmt.Errorf("group %s is there: %v, want %v", name, g != nil, mg != nil)
	}
	if g == nil {
		start := stream.GroupStart{ID: h.id(), Last: h.r.IntN(4) == 0, EntriesRead: stream.UnknownReads}
		mg = &modelGroup{start.ID, map[stream.ID]modelPending{}, map[string]bool{}, 0}
		if start.Last {
			mg.last = h.m.last
		}
		h.m.groups[name] = mg
		return stream.CreateGroup(h.tx, key, []byte(name), start, true)
	}
	uses := func() { mg.consumers[consumer] = true }
	var got []stream.ID
	take := func(id stream.ID, e *stream.Entry) { got = append(got, id) }
	var want []stream.ID
	switch h.r.IntN(20) {
	case 14, 15, 16, 17:
		return h.readIdle(g, mg, consumer)
	case 18, 19:
		return h.nack(g, mg)
	case 0:
		delete(h.m.groups, name)
		return g.Destroy()
	case 1:
		mg.last = h.id()
		g.SetStart(stream.GroupStart{ID: mg.last, EntriesRead: stream.UnknownReads})
		return nil
	case 2:
		n, err := g.DeleteConsumer([]byte(consumer))
		lost := uint64(0)
		for id, p := range mg.pending {
			if p.consumer == consumer && p.nacked == 0 {
				delete(mg.pending, id)
				lost++
			}
		}
		delete(mg.consumers, consumer)
		if err == nil && n != lost {
			err = fmt.Errorf("consumer %q had %d pending, want %d", consumer, n, lost)
		}
		return err
	case 3, 4, 5, 6: // new entries
		count, noAck := uint64(h.r.IntN(20)), h.r.IntN(5) == 0
		next, _ := stream.Next(mg.last)
		want = h.m.between(next, stream.MaxID)
		if count > 0 {
			want = want[:min(len(want), int(count))]
		}
		uses()
		for _, id := range want {
			mg.last = id
			if !noAck {
				mg.pending[id] = modelPending{consumer: consumer, deliveries: 1, since: h.tx.Clock()}
			}
		}
		began := false
		o := stream.ReadOptions{Count: count, NoAck: noAck}
		any, err := g.Read([]byte(consumer), &o, func() { began = true }, func(e *stream.Entry, _ stream.Delivered) bool {
			got = append(got, e.ID)
			return true
		})
		if err == nil && (any != (len(want) > 0) || began != any) {
			err = fmt.Errorf("read: %v, %v", any, began)
		}
		return errors.Join(err, sameIDs("read", got, want))
	case 7: // again
		after, count := h.id(), uint64(h.r.IntN(10))
		uses()
		for _, id := range mg.ids() {
			p := mg.pending[id]
			if p.consumer != consumer || p.nacked > 0 || id.Compare(after) <= 0 || count > 0 && len(want) == int(count) {
				continue
			}
			want = append(want, id)
			if h.m.has(id) {
				p.deliveries, p.since = again(p.deliveries), h.tx.Clock()
				mg.pending[id] = p
			}
		}
		err := g.History([]byte(consumer), after, count, func(id stream.ID, e *stream.Entry) bool {
			take(id, e)
			return true
		})
		return errors.Join(err, sameIDs("history", got, want))
	case 8, 9, 10:
		ids := h.ids()
		for _, id := range mg.ids() { // not in the order of a map, or the seed would not tell what was done
			if h.r.IntN(3) == 0 {
				ids = append(ids, id)
			}
		}
		h.r.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		acked := uint64(0)
		for _, id := range ids {
			if _, ok := mg.pending[id]; ok {
				delete(mg.pending, id)
				acked++
			}
		}
		n, err := stream.Ack(h.tx, key, []byte(name), ids)
		if err == nil && n != acked {
			err = fmt.Errorf("%d acknowledged, want %d", n, acked)
		}
		return err
	case 11, 12:
		ids := append(h.ids(), mg.ids()[:min(3, len(mg.pending))]...)
		o := stream.ClaimOptions{Deliveries: -1, Force: h.r.IntN(2) == 0, JustID: h.r.IntN(2) == 0,
			LastID: stream.ID{Ms: uint64(h.r.IntN(2))}, Delivered: uint64(h.tx.Clock())}
		if h.r.IntN(2) == 0 {
			o.Delivered -= uint64(h.r.IntN(20))
		}
		uses()
		if mg.last.Compare(o.LastID) < 0 {
			mg.last = o.LastID
		}
		for _, id := range ids {
			p, ok := mg.pending[id]
			switch {
			case !ok && !(o.Force && h.m.has(id)):
				continue
			case !h.m.has(id):
				delete(mg.pending, id)
				continue
			case !ok:
				p.deliveries = 1
			}
			if !o.JustID {
				p.deliveries = again(p.deliveries)
			}
			p.consumer, p.since, p.nacked = consumer, int64(o.Delivered), 0
			mg.pending[id] = p
			want = append(want, id)
		}
		err := g.Claim([]byte(consumer), ids, &o, take)
		return errors.Join(err, sameIDs("claim", got, want))
	}
	o := stream.AutoClaimOptions{From: h.id(), Count: 1 + uint64(h.r.IntN(10)), JustID: h.r.IntN(2) == 0}
	if h.r.IntN(2) == 0 {
		o.From = stream.MinID
	}
	uses()
	left := o.Count
	var wantNext stream.ID
	var wantDeleted []stream.ID
	for _, id := range mg.ids() {
		p := mg.pending[id]
		if id.Compare(o.From) < 0 {
			continue
		}
		if left == 0 {
			wantNext = id
			break
		}
		left--
		if !h.m.has(id) {
			delete(mg.pending, id)
			wantDeleted = append(wantDeleted, id)
			continue
		}
		if p.consumer, p.since, p.nacked = consumer, h.tx.Clock(), 0; !o.JustID {
			p.deliveries = again(p.deliveries)
		}
		mg.pending[id] = p
		want = append(want, id)
	}
	next, deleted, err := g.AutoClaim([]byte(consumer), &o, take)
	if err == nil && next != wantNext {
		err = fmt.Errorf("next %s, want %s", text(next), text(wantNext))
	}
	return errors.Join(err, sameIDs("claim automatically", got, want), sameIDs("deleted", deleted, wantDeleted))
}

func again(deliveries uint64) uint64 { return min(deliveries+1, math.MaxInt64) }

// readIdle is XREADGROUP with CLAIM: entries that have waited for long, and then new ones.
func (h *history) readIdle(g *stream.Group, mg *modelGroup, consumer string) error {
	o := stream.ReadOptions{Count: uint64(h.r.IntN(12)), NoAck: h.r.IntN(3) == 0, Claim: true,
		MinIdle: int64(h.r.IntN(40))}
	stop := h.r.IntN(30) // entries after which the reply is large enough
	idle := slices.DeleteFunc(mg.ids(), func(id stream.ID) bool {
		p := mg.pending[id]
		return !h.m.has(id) || p.nacked == 0 && h.tx.Clock()-p.since < o.MinIdle
	})
	slices.SortStableFunc(idle, func(a, b stream.ID) int {
		p, q := mg.pending[a], mg.pending[b]
		switch {
		case p.nacked > 0 && q.nacked > 0:
			return cmp.Compare(p.nacked, q.nacked)
		case p.nacked > 0 || q.nacked > 0:
			return cmp.Compare(q.nacked, p.nacked)
		}
		return cmp.Compare(p.since, q.since)
	})
	next, _ := stream.Next(mg.last)
	fresh := h.m.between(next, stream.MaxID)
	if len(idle) == 0 && len(fresh) == 0 {
		if has, err := g.HasIdle(o.MinIdle); err != nil || has {
			return fmt.Errorf("idle entries: %v, %w", has, err)
		}
	}
	want, limit := []string{}, len(idle)+len(fresh)
	if o.Count > 0 {
		limit = min(limit, int(o.Count))
	}
	limit = min(limit, stop+1)
	mg.consumers[consumer] = true
	for _, id := range idle[:min(limit, len(idle))] {
		p := mg.pending[id]
		passed := h.tx.Clock()
		if p.nacked == 0 {
			passed -= p.since
		}
		want = append(want, fmt.Sprint(text(id), " ", passed, " ", p.deliveries))
		mg.pending[id] = modelPending{consumer: consumer, deliveries: again(p.deliveries), since: h.tx.Clock()}
	}
	for _, id := range fresh[:max(limit-len(idle), 0)] {
		want = append(want, text(id)+" 0 0")
		if mg.last = id; !o.NoAck {
			mg.pending[id] = modelPending{consumer: consumer, deliveries: 1, since: h.tx.Clock()}
		}
	}
	got, began := []string{}, false
	any, err := g.Read([]byte(consumer), &o, func() { began = true }, func(e *stream.Entry, d stream.Delivered) bool {
		got = append(got, fmt.Sprint(text(e.ID), " ", d.Idle, " ", d.Times))
		return len(got) <= stop
	})
	if err == nil && (any != (len(want) > 0) || began != any || !slices.Equal(got, want)) {
		err = fmt.Errorf("read %+v: %v, %v, %q\nwant %q", o, any, began, got, want)
	}
	return err
}

// nack gives entries back.
func (h *history) nack(g *stream.Group, mg *modelGroup) error {
	ids := append(h.ids(), mg.ids()[:min(3, len(mg.pending))]...)
	force, kind := h.r.IntN(3) == 0, h.r.IntN(3)
	want := uint64(0)
	for _, id := range ids {
		p, ok := mg.pending[id]
		if !ok && !(force && h.m.has(id)) {
			continue
		}
		mg.nacked++
		want++
		switch kind {
		case 0:
			p.deliveries -= min(p.deliveries, 1)
		case 2:
			p.deliveries = math.MaxInt64
		}
		mg.pending[id] = modelPending{deliveries: p.deliveries, nacked: mg.nacked}
	}
	n, err := g.Nack(ids, []func(uint64) uint64{stream.Silent, stream.Fail, stream.Fatal}[kind], force)
	if err == nil && n != want {
		err = fmt.Errorf("%d given back, want %d", n, want)
	}
	return err
}

// ids returns the ids that are pending, in their order.
func (g *modelGroup) ids() []stream.ID {
	return slices.SortedFunc(maps.Keys(g.pending), stream.ID.Compare)
}

func sameIDs(what string, got, want []stream.ID) error {
	if slices.Equal(got, want) {
		return nil
	}
	return fmt.Errorf("%s: %s\nwant %s", what, text(got...), text(want...))
}

// compare compares all that can be told about the stream.
func (h *history) compare() error {
	tx, m := h.tx, h.m
	reversed := slices.Clone(m.entries)
	slices.Reverse(reversed)
	err := errors.Join(same(tx, stream.RangeOptions{To: stream.MaxID}, m.entries),
		same(tx, stream.RangeOptions{To: stream.MaxID, Reverse: true}, reversed))
	if err != nil {
		return err
	}
	want := stream.Info{Length: uint64(len(m.entries)), LastGenerated: m.last, MaxDeleted: m.maxDeleted,
		EntriesAdded: m.added, Groups: uint64(len(m.groups))}
	if n := len(m.entries); n > 0 {
		want.First, want.Last = m.entries[0], m.entries[n-1]
	}
	info, _, err := stream.About(tx, key)
	if err != nil || info != want {
		return fmt.Errorf("%+v, want %+v, %w", info, want, err)
	}
	groups, err := stream.Groups(tx, key)
	if err != nil || len(groups) != len(m.groups) {
		return fmt.Errorf("%d groups, %w", len(groups), err)
	}
	for _, g := range groups {
		if err := compareGroup(&g, m.groups[string(g.Name)]); err != nil {
			return fmt.Errorf("group %s: %w", g.Name, err)
		}
	}
	return nil
}

func compareGroup(g *stream.GroupInfo, m *modelGroup) error {
	if m == nil || g.LastDelivered != m.last || g.Pending != uint64(len(m.pending)) ||
		g.Consumers != uint64(len(m.consumers)) {
		return fmt.Errorf("%+v, want %+v", g, m)
	}
	var got []stream.ID
	var odd error
	err := g.Group.Each(stream.PendingOptions{To: stream.MaxID}, func(p *stream.Pending) {
		got = append(got, p.ID)
		if want := m.pending[p.ID]; string(p.Consumer) != want.consumer || p.Deliveries != want.deliveries ||
			p.Nacked != (want.nacked > 0) || p.Nacked != (p.Idle < 0) {
			odd = fmt.Errorf("%s is pending for %q after %d deliveries, want %+v", text(p.ID), p.Consumer, p.Deliveries, want)
		}
	})
	ids := m.ids()
	if err := errors.Join(err, odd, sameIDs("pending", got, ids)); err != nil {
		return err
	}
	s, err := g.Group.Summary()
	if err != nil || s.Pending != uint64(len(ids)) || len(ids) > 0 && (s.First != ids[0] || s.Last != ids[len(ids)-1]) {
		return fmt.Errorf("%+v, want %s, %w", s, text(ids...), err)
	}
	wantNacked := uint64(0)
	for _, p := range m.pending {
		wantNacked += min(p.nacked, 1)
	}
	if g.Nacked != wantNacked {
		return fmt.Errorf("%d entries are nobody's, want %d", g.Nacked, wantNacked)
	}
	consumers, err := g.Group.Consumers()
	if err != nil || len(consumers) != len(m.consumers) {
		return fmt.Errorf("%d consumers, want %d, %w", len(consumers), len(m.consumers), err)
	}
	for _, c := range consumers {
		n := uint64(0)
		for _, p := range m.pending {
			if p.consumer == string(c.Name) && p.nacked == 0 {
				n++
			}
		}
		if c.Pending != n || !m.consumers[string(c.Name)] {
			return fmt.Errorf("consumer %q: %d pending, want %d", c.Name, c.Pending, n)
		}
	}
	return nil
}

// TestModel does random operations to a stream and its model, several in a transaction, some of which are rolled
// back in part or altogether.
func TestModel(t *testing.T) {
	abandoned := errors.New("abandoned")
	for seed := range uint64(8) {
		base := uint64(0)
		if seed >= 6 {
			base = math.MaxUint64 - 400
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			db := enginetest.Open(t)
			r := rand.New(rand.NewPCG(seed, 7))
			m := &model{groups: map[string]*modelGroup{}}
			clock := time.Now().Add(time.Hour).UnixMilli() // the transactions go by it
			update(t, db, func(tx *engine.Tx) error {      // so that there is a stream
				m.groups["g"] = &modelGroup{stream.ID{}, map[stream.ID]modelPending{}, map[string]bool{}, 0}
				return stream.CreateGroup(tx, key, []byte("g"), stream.GroupStart{}, true)
			})
			for round := range 300 {
				before := m.clone()
				abandon := r.IntN(8) == 0
				err := db.Update(ns, [][]byte{key}, func(tx *engine.Tx) error {
					for range 1 + r.IntN(8) {
						clock += int64(r.IntN(4))
						tx.Tick(clock)
						h := history{r, tx, m, base}
						mark, kept := tx.Savepoint(), m.clone()
						if err := h.step(); err != nil {
							return err
						}
						if r.IntN(12) == 0 {
							m = kept
							if err := tx.Rollback(mark); err != nil {
								return err
							}
						}
					}
					if abandon {
						return abandoned
					}
					return nil
				})
				if abandon && errors.Is(err, abandoned) {
					m, err = before, nil
				}
				if err == nil {
					err = db.View(ns, [][]byte{key}, func(tx *engine.Tx) error { return (&history{r, tx, m, base}).compare() })
				}
				if err != nil {
					lines := strings.SplitN(err.Error(), "\n", 4)
					t.Fatalf("transaction %d: %.2000s", round, strings.Join(lines[:min(3, len(lines))], "\n"))
				}
			}
			if base > 0 && m.last.Ms < math.MaxUint64 {
				t.Errorf("the last entry has the id %s", text(m.last))
			}
			if m.added < math.MaxUint8 {
				t.Errorf("only %d entries were added", m.added)
			}
		})
	}
}
