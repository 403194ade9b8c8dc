package carry

import (
	"maps"
	"slices"
	"strconv"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/server/cluster/migration/slotdata"
)

// Mirror sends keys as commands, and turns the log into commands. Unlike Kvrocks, it does not derive commands from the
// log data, because log data lose arguments with blanks, do not exist for all commands, and occur several times in
// batches that RocksDB has merged. Instead it compares the state at the destination with the records of the log:
//
//	the destination has a key of version 7 · the log puts metadata of version 7, size 3, and an element
//	    -> the command that adds the element
//	... of version 9
//	    -> DEL, and commands for all elements of version 9, which are all in the log, because the version is new
//	... a list whose elements began at index 20 and begin at 19 now
//	    -> LPUSH of the element with index 19
//
// Where the comparison is not sufficient, the key is sent again from a new snapshot.
type Mirror struct {
	c     *commander
	base  *slotdata.Reader        // the snapshot that the destination got first
	fresh func() *slotdata.Reader // takes a snapshot of the current state
	sent  map[string]*sentKey     // keys that have changed since, by metadata key
	dirty map[string]*keyChange   // changes that were read from the log and not sent yet
	order []*keyChange            // the values of dirty, in the order of their arrival
	bytes int                     // bytes in dirty
}

// sentKey is a key in the state that the destination has.
type sentKey struct {
	exists bool
	record []byte // its metadata record; only the head and tail of collections
	meta   cf.Meta
	list   listEnds
	asOf   uint64 // sequence number of the last change in the log that the state includes
	// lost: the key expired before or after it was sent, so its elements may be missing at the destination.
	lost bool
}

type listEnds struct{ head, tail uint64 }

// keyChange is the change of one key according to the log.
type keyChange struct {
	nsKey   []byte
	touched bool   // its metadata record was written
	record  []byte // nil = deleted
	anew    bool   // the key was deleted, or got another version, in between
	again   bool   // the key must be sent again as a whole
	subs    map[string]subChange
}

// subChange is the last change of an element in the log.
type subChange struct {
	family  cf.ID
	key     []byte // the whole internal key
	version uint64
	sub     []byte
	value   []byte
	deleted bool
}

// mirrorBytes: so many bytes of changes are read before they are sent.
const mirrorBytes = 1 << 20

// NewMirror makes a Mirror for a destination that holds the keys of a snapshot. fresh takes a snapshot of the current
// state.
func NewMirror(to *To, base *slotdata.Reader, fresh func() *slotdata.Reader) *Mirror {
	return &Mirror{c: &commander{To: to}, base: base, fresh: fresh, sent: map[string]*sentKey{},
		dirty: map[string]*keyChange{}}
}

// Snapshot implements [Carrier].
func (m *Mirror) Snapshot(r *slotdata.Reader, k *slotdata.Key) error {
	return m.c.snapshot(r, k, m.c.Clock.Now().UnixMilli())
}

// Change implements [Carrier].
func (m *Mirror) Change(c *slotdata.Changes) error {
	err := c.Each(func(rec *batch.Record) error { return m.record(rec, c.Seq) })
	if err != nil || m.bytes < mirrorBytes {
		return err
	}
	return m.Flush()
}

// record adds a record of the log.
func (m *Mirror) record(rec *batch.Record, seq uint64) error {
	if rec.Kind == batch.LogData {
		return nil
	}
	nsKey := rec.Key
	if rec.Family != cf.Metadata {
		var err error
		if nsKey, err = cf.AppendNSKeyOf(nil, rec.Key, true); err != nil {
			return err
		}
	}
	ch := m.dirty[string(nsKey)]
	if ch == nil {
		if s := m.sent[string(nsKey)]; s != nil && seq <= s.asOf {
			return nil
		}
		ch = &keyChange{nsKey: slices.Clone(nsKey)}
		m.dirty[string(ch.nsKey)] = ch
		m.order = append(m.order, ch)
	}
	m.bytes += len(rec.Key) + len(rec.Value) + 100
	switch {
	case rec.Kind == batch.DeleteRange:
		ch.again = true
		return nil
	case rec.Family == cf.Metadata:
		return m.metadata(ch, rec)
	}
	sub, err := cf.ParseSubkey(rec.Key, true)
	if err != nil {
		return err
	}
	if ch.subs == nil {
		ch.subs = map[string]subChange{}
	}
	key := slices.Clone(rec.Key)
	ch.subs[string(rune(rec.Family))+string(key)] = subChange{family: rec.Family, key: key, version: sub.Version,
		sub: key[len(key)-len(sub.Sub):], value: slices.Clone(rec.Value), deleted: rec.Kind == batch.Delete}
	return nil
}

func (m *Mirror) metadata(ch *keyChange, rec *batch.Record) error {
	if rec.Kind == batch.Delete {
		ch.touched, ch.record, ch.anew = true, nil, true
		clear(ch.subs)
		return nil
	}
	next, _, err := cf.DecodeMeta(rec.Value)
	if err != nil {
		return err
	}
	if ch.touched && ch.record != nil && !ch.anew {
		if before, _, err := cf.DecodeMeta(ch.record); err != nil || !sameKey(&before, &next) {
			ch.anew = true
		}
	}
	ch.touched, ch.record = true, slices.Clone(rec.Value)
	return nil
}

// sameKey reports whether two records belong to the same incarnation of a key.
func sameKey(a, b *cf.Meta) bool { return a.Type == b.Type && a.Version == b.Version }

// Flush implements [Carrier].
func (m *Mirror) Flush() error {
	for _, ch := range m.order {
		if err := m.send(ch); err != nil {
			return err
		}
	}
	clear(m.dirty)
	clear(m.order)
	m.order, m.bytes = m.order[:0], 0
	return m.c.ship()
}

// known returns the state of a key at the destination.
func (m *Mirror) known(nsKey []byte) (*sentKey, error) {
	if s := m.sent[string(nsKey)]; s != nil {
		return s, nil
	}
	s := &sentKey{}
	k, err := m.base.Find(nsKey)
	if err != nil {
		return nil, err
	}
	if k != nil {
		if err := s.set(k.Record); err != nil {
			return nil, err
		}
	}
	m.sent[string(nsKey)] = s
	return s, nil
}

// set stores the metadata record that the destination has.
func (s *sentKey) set(record []byte) error {
	meta, tail, err := cf.DecodeMeta(record)
	if err != nil {
		return err
	}
	s.exists, s.meta, s.lost = true, meta, false
	if meta.Type == cf.TypeList {
		if s.list.head, s.list.tail, err = cf.DecodeListTail(tail); err != nil {
			return err
		}
	}
	if meta.Type.SingleRecord() {
		record = record[:len(record)-len(tail)]
	}
	s.record = slices.Clone(record)
	return nil
}

func (m *Mirror) send(ch *keyChange) error {
	was, err := m.known(ch.nsKey)
	if err != nil {
		return err
	}
	record := ch.record
	if !ch.touched {
		if !was.exists {
			return nil // elements that no client can reach
		}
		record = was.record
	}
	if record == nil {
		return m.gone(ch.nsKey, was)
	}
	k, err := slotdata.ParseKey(ch.nsKey, record)
	if err != nil {
		return err
	}
	how, err := m.c.formOf(&k.Meta, k.NSKey, record)
	if err != nil {
		return err
	}
	if how == byRecords {
		return m.sendRecords(ch, was, &k)
	}
	now := m.c.Clock.Now().UnixMilli()
	if !k.Meta.Live(now) {
		if err := m.gone(ch.nsKey, was); err != nil {
			return err
		}
		if k.Meta.Expired(now) { // it may get a later expiry
			if err := was.set(record); err != nil {
				return err
			}
			was.lost = true
		}
		return nil
	}
	same := was.exists && !ch.anew && sameKey(&was.meta, &k.Meta)
	late := same && was.meta.Expire != k.Meta.Expire && was.meta.Expired(m.c.Clock.Now().Add(clockOff).UnixMilli())
	switch {
	case how == byWhole || ch.again || same && (was.lost || late):
		return m.resend(ch.nsKey, was)
	case k.Meta.Type == cf.TypeString:
		return m.sendString(&k, was)
	case k.Meta.Type == cf.TypeList:
		return m.sendList(ch, was, &k, same)
	}
	return m.sendElements(ch, was, &k, same)
}

// gone deletes a key at the destination.
func (m *Mirror) gone(nsKey []byte, was *sentKey) error {
	if !was.exists {
		return nil
	}
	was.exists, was.record = false, nil
	return m.c.del(slotdata.UserKey(nsKey))
}

func (m *Mirror) sendString(k *slotdata.Key, was *sentKey) error {
	if err := m.c.str(k); err != nil {
		return err
	}
	return was.set(k.Record)
}

// replace deletes an earlier incarnation of a key.
func (m *Mirror) replace(k *slotdata.Key, was *sentKey, same bool) error {
	if same || !was.exists {
		return nil
	}
	was.meta.Expire = 0
	return m.c.del(k.Name)
}

// finish sends the expiry.
func (m *Mirror) finish(k *slotdata.Key, was *sentKey, same bool) error {
	old := was.meta.Expire
	if !same {
		old = 0
	}
	if err := was.set(k.Record); err != nil {
		return err
	}
	if k.Meta.Expire == old {
		return nil
	}
	return m.c.expireAt(k.Name, k.Meta.Expire)
}

// sendElements sends the changes of a hash, set, sorted set or sortedint. Additions go first, so that the key never
// becomes empty, which would drop it with its expiry.
func (m *Mirror) sendElements(ch *keyChange, was *sentKey, k *slotdata.Key, same bool) error {
	if err := m.replace(k, was, same); err != nil {
		return err
	}
	t := k.Meta.Type
	added := elements{c: m.c, name: adds[t], key: k.Name}
	for _, at := range slices.Sorted(maps.Keys(ch.subs)) {
		s := ch.subs[at]
		if s.deleted || s.family != cf.Default || s.version != k.Meta.Version {
			continue
		}
		if err := added.element(t, s.sub, s.value); err != nil {
			return err
		}
	}
	if err := added.end(); err != nil {
		return err
	}
	removed := elements{c: m.c, name: removes[t], key: k.Name}
	for _, at := range slices.Sorted(maps.Keys(ch.subs)) {
		s := ch.subs[at]
		if !s.deleted || s.family != cf.Default || s.version != k.Meta.Version || !same {
			continue
		}
		if err := removed.removal(t, s.sub); err != nil {
			return err
		}
	}
	if err := removed.end(); err != nil {
		return err
	}
	return m.finish(k, was, same)
}

// sendList sends the changes of a list. Its elements have indexes, and its metadata record has the first and the last
// index.
func (m *Mirror) sendList(ch *keyChange, was *sentKey, k *slotdata.Key, same bool) error {
	head, tail, err := cf.DecodeListTail(k.Tail)
	if err != nil {
		return err
	}
	values := map[uint64][]byte{}
	for _, s := range ch.subs {
		if s.family != cf.Default || s.version != k.Meta.Version || s.deleted {
			continue
		}
		at, err := cf.ParseU64Sub(s.sub)
		if err != nil {
			return err
		}
		if head <= at && at < tail {
			values[at] = s.value
		}
	}
	// [from, to) are the elements that stay.
	from, to := max(head, was.list.head), min(tail, was.list.tail)
	if !same || from >= to {
		same = false
		from, to = head, head
	}
	for at := head; at < tail; at++ {
		if at == from {
			at = to
			if at >= tail {
				break
			}
		}
		if _, ok := values[at]; !ok {
			return m.resend(ch.nsKey, was)
		}
	}
	if err := m.replace(k, was, same); err != nil {
		return err
	}
	if same && (from > was.list.head || to < was.list.tail) {
		m.c.begin("LTRIM", k.Name)
		m.c.argUint(from - was.list.head)
		m.c.argUint(to - 1 - was.list.head)
		if err := m.c.end(); err != nil {
			return err
		}
	}
	push := elements{c: m.c, name: "LPUSH", key: k.Name}
	for at := from; at > head; at-- {
		if err := push.add(values[at-1]); err != nil {
			return err
		}
	}
	if err := push.end(); err != nil {
		return err
	}
	push = elements{c: m.c, name: "RPUSH", key: k.Name}
	for at := to; at < tail; at++ {
		if err := push.add(values[at]); err != nil {
			return err
		}
	}
	if err := push.end(); err != nil {
		return err
	}
	for _, at := range slices.Sorted(maps.Keys(values)) {
		if at < from || at >= to {
			continue
		}
		if err := m.c.one("LSET", k.Name, strconv.AppendUint(nil, at-head, 10), values[at]); err != nil {
			return err
		}
	}
	return m.finish(k, was, same)
}

// sendRecords sends the changes of a key that is sent by APPLYBATCH.
func (m *Mirror) sendRecords(ch *keyChange, was *sentKey, k *slotdata.Key) error {
	log := logOf(k.Meta.Type)
	same := was.exists && !ch.anew && sameKey(&was.meta, &k.Meta)
	if late := same && was.meta.Expire != k.Meta.Expire &&
		was.meta.Expired(m.c.Clock.Now().Add(clockOff).UnixMilli()); late || ch.again {
		return m.resend(ch.nsKey, was)
	}
	if ch.touched {
		m.c.put(cf.Metadata, k.NSKey, k.Record, log)
	}
	for _, at := range slices.Sorted(maps.Keys(ch.subs)) {
		s := ch.subs[at]
		if s.deleted {
			if m.c.batch.Empty() {
				m.c.batch.LogData(log)
			}
			m.c.batch.Delete(s.family, s.key)
		} else {
			m.c.put(s.family, s.key, s.value, log)
		}
		if err := m.c.batchFull(); err != nil {
			return err
		}
	}
	if err := m.c.batchEnd(); err != nil {
		return err
	}
	return was.set(k.Record)
}

// resend sends the current state of a key. Changes that the log has up to then are included.
func (m *Mirror) resend(nsKey []byte, was *sentKey) error {
	r := m.fresh()
	defer r.Close()
	if err := m.c.del(slotdata.UserKey(nsKey)); err != nil {
		return err
	}
	was.exists, was.asOf = false, r.Seq
	k, err := r.Find(nsKey)
	if err != nil || k == nil {
		return err
	}
	if how, err := m.c.formOf(&k.Meta, k.NSKey, k.Record); err != nil {
		return err
	} else if how == byRecords {
		m.c.dropElements(k)
	}
	now := m.c.Clock.Now().UnixMilli()
	if err := m.c.snapshot(r, k, now); err != nil {
		return err
	}
	if err := was.set(k.Record); err != nil {
		return err
	}
	was.lost = k.Meta.Expired(now)
	return nil
}
