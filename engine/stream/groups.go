package stream

import (
	"bytes"
	"fmt"
	"math"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// UnknownReads is the value of a group's entries-read counter when the number is unknown.
const UnknownReads = -1

// The errors of functions on groups, with Redis's texts.
var (
	ErrGroupExists = engine.NewError("BUSYGROUP", "Consumer Group name already exists")
	ErrNoStream    = engine.NewError("ERR", "The XGROUP subcommand requires the key to exist. "+
		"Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.")
)

// Group is a consumer group that a transaction has opened. It reflects the writes that are made through it; after other
// writes to the same group it must be opened again.
type Group struct {
	s      stream
	name   []byte
	value  cf.StreamGroupValue
	prefix []byte // of the keys of pending entries

	// OnNewConsumer is called when an operation creates a consumer. nil = no call.
	OnNewConsumer func()
}

// OpenGroup opens a group; nil when the stream or the group does not exist.
func OpenGroup(tx *engine.Tx, key, name []byte) (*Group, error) {
	s, err := load(tx, key)
	if err != nil || !s.rec.Exists {
		return nil, err
	}
	return s.group(name)
}

func (s *stream) group(name []byte) (*Group, error) {
	value, found, err := s.tx.Get(cf.Stream, s.groupKey(cf.StreamGroup, name))
	if err != nil || !found {
		return nil, err
	}
	g := &Group{s: *s, name: name}
	return g, g.decode(value)
}

// decode decodes the group's record.
func (g *Group) decode(value []byte) (err error) {
	if g.value, err = cf.DecodeStreamGroup(value); err != nil {
		return fmt.Errorf("key %q: group %q: %w", g.s.tx.UserKey(&g.s.rec), g.name, err)
	}
	return nil
}

// groupKey returns the internal key of a group, or the prefix of its consumers' or pending entries' keys. It is valid
// until the next key is built.
func (s *stream) groupKey(kind cf.StreamKind, name []byte) []byte {
	var buf [128]byte
	return s.tx.Subkey(&s.rec, cf.AppendStreamGroupSub(buf[:0], kind, name))
}

// save writes the group's record.
func (g *Group) save() {
	var buf [48]byte
	g.s.tx.Replace(cf.Stream, g.s.groupKey(cf.StreamGroup, g.name), g.value.Append(buf[:0]))
}

// pendingPrefix returns the prefix of the keys of pending entries.
func (g *Group) pendingPrefix() []byte {
	if g.prefix == nil {
		g.prefix = bytes.Clone(g.s.groupKey(cf.StreamPending, g.name))
	}
	return g.prefix
}

// pendingKey returns the internal key of a pending entry; valid until the next key is built.
func (g *Group) pendingKey(id ID) []byte {
	var buf [160]byte
	return g.s.tx.Subkey(&g.s.rec, cf.AppendStreamPendingSub(buf[:0], g.name, id))
}

// consumer is a consumer's record in memory.
type consumer struct {
	name    []byte
	value   cf.StreamConsumerValue
	changed bool // for owners: the record must be written
}

func (g *Group) consumerKey(name []byte) []byte {
	var buf [192]byte
	return g.s.tx.Subkey(&g.s.rec, cf.AppendStreamConsumerSub(buf[:0], g.name, name))
}

// consumer reads a consumer.
func (g *Group) consumer(name []byte) (c consumer, found bool, err error) {
	value, found, err := g.s.tx.Get(cf.Stream, g.consumerKey(name))
	if err != nil || !found {
		return consumer{name: name}, false, err
	}
	c, err = g.decodeConsumer(name, value)
	return c, true, err
}

func (g *Group) decodeConsumer(name, value []byte) (consumer, error) {
	v, err := cf.DecodeStreamConsumer(value)
	if err != nil {
		err = fmt.Errorf("key %q: group %q: consumer %q: %w", g.s.tx.UserKey(&g.s.rec), g.name, name, err)
	}
	return consumer{name: name, value: v}, err
}

func (g *Group) saveConsumer(c *consumer) {
	var buf [24]byte
	g.s.tx.Replace(cf.Stream, g.consumerKey(c.name), c.value.Append(buf[:0]))
}

// now returns the transaction's time in the unit of the records: milliseconds since the epoch.
func now(tx *engine.Tx) uint64 { return uint64(max(tx.Clock(), 0)) }

// create creates a consumer. Kvrocks sets the active time of the new record to the current time; here it is 0, which
// means that the consumer never got an entry.
func (g *Group) create(name []byte) consumer {
	c := consumer{name: name, value: cf.StreamConsumerValue{LastAttempted: now(g.s.tx)}}
	g.s.tx.LogData(cf.LogStream)
	// Records of their own, as Kvrocks writes them: the records of delivered entries follow.
	var buf [48]byte
	g.s.tx.Put(cf.Stream, g.consumerKey(c.name), c.value.Append(buf[:0]))
	g.value.Consumers++
	g.s.tx.Put(cf.Stream, g.s.groupKey(cf.StreamGroup, g.name), g.value.Append(buf[:0]))
	return c
}

// use returns the consumer that will get entries, and creates it if it is missing.
func (g *Group) use(name []byte) (consumer, error) {
	c, found, err := g.consumer(name)
	if err != nil {
		return c, err
	}
	if !found {
		c = g.create(name)
		if g.OnNewConsumer != nil {
			g.OnNewConsumer()
		}
	}
	c.value.LastAttempted = now(g.s.tx)
	return c, nil
}

// GroupStart says where in the stream a group starts.
type GroupStart struct {
	ID          ID
	Last        bool  // start after the last entry of the stream instead of after ID
	EntriesRead int64 // the number of entries before the start, or UnknownReads
}

func (s *stream) start(o GroupStart) ID {
	if o.Last {
		return s.meta.LastGenerated
	}
	return o.ID
}

// CreateGroup creates a group. With create it also creates a missing stream.
func CreateGroup(tx *engine.Tx, key, name []byte, o GroupStart, create bool) error {
	s, err := load(tx, key)
	if err != nil {
		return err
	}
	if !s.rec.Exists && !create {
		return ErrNoStream
	}
	k := s.groupKey(cf.StreamGroup, name)
	if s.rec.Exists {
		if _, found, err := tx.Get(cf.Stream, k); err != nil {
			return err
		} else if found {
			return ErrGroupExists
		}
	}
	g := Group{s: s, name: name, value: cf.StreamGroupValue{LastDelivered: s.start(o), EntriesRead: o.EntriesRead}}
	tx.LogData(cf.LogStream)
	g.save()
	g.s.meta.Groups++
	g.s.save()
	return nil
}

// SetStart sets where the group continues.
func (g *Group) SetStart(o GroupStart) {
	g.value.LastDelivered = g.s.start(o)
	g.value.EntriesRead = o.EntriesRead
	g.s.tx.LogData(cf.LogStream)
	g.save()
}

// Destroy deletes the group with its consumers and its pending entries.
func (g *Group) Destroy() error {
	tx := g.s.tx
	tx.LogData(cf.LogStream)
	tx.Delete(cf.Stream, g.s.groupKey(cf.StreamGroup, g.name))
	for _, kind := range [...]cf.StreamKind{cf.StreamConsumer, cf.StreamPending} {
		if err := g.deleteAll(kind); err != nil {
			return err
		}
	}
	g.s.meta.Groups = less(g.s.meta.Groups, 1)
	g.s.save()
	return nil
}

// deleteAll deletes the records of a kind: up to bulkTrim of them one by one, the rest by a DeleteRange.
func (g *Group) deleteAll(kind cf.StreamKind) error {
	tx := g.s.tx
	prefix := bytes.Clone(g.s.groupKey(kind, g.name))
	o := engine.IterOptions{Prefix: prefix, KeysOnly: true}
	if kind == cf.StreamPending {
		o.Lower, _ = tx.Bounds(&g.s.rec, prefix)
	}
	it := tx.Iter(cf.Stream, o)
	defer it.Close()
	key := bytes.Clone(prefix)
	for n := 0; it.Next(); n++ {
		key = append(key[:len(prefix)], it.Key()...)
		if n < bulkTrim {
			tx.Delete(cf.Stream, key)
			continue
		}
		end, _ := cf.AppendSuccessor(nil, prefix)
		tx.DeleteRange(cf.Stream, key, end)
		break
	}
	return it.Err()
}

// CreateConsumer creates a consumer and reports whether it is new.
func (g *Group) CreateConsumer(name []byte) (bool, error) {
	_, found, err := g.consumer(name)
	if err != nil || found {
		return false, err
	}
	g.create(name)
	return true, nil
}

// DeleteConsumer deletes a consumer with its pending entries and returns their number; 0 also for a missing consumer.
func (g *Group) DeleteConsumer(name []byte) (pending uint64, err error) {
	c, found, err := g.consumer(name)
	if err != nil || !found {
		return 0, err
	}
	tx := g.s.tx
	tx.LogData(cf.LogStream)
	w := g.walk(MinID, MaxID, 0)
	defer w.close()
	for pending < c.value.Pending && w.next() {
		if string(w.value.Consumer) == string(name) {
			tx.Delete(cf.Stream, g.pendingKey(w.id))
			pending++
		}
	}
	if w.err != nil {
		return 0, w.err
	}
	tx.Delete(cf.Stream, g.consumerKey(name))
	g.value.Consumers = less(g.value.Consumers, 1)
	g.value.Pending = less(g.value.Pending, pending)
	g.save()
	return pending, nil
}

// less returns a - b, at least 0: a counter that another version has left too low must not wrap around.
func less(a, b uint64) uint64 { return a - min(a, b) }

// noTombstonesAfter reports whether no entry from id on was deleted. Trimmed entries do not count: they were before the
// first entry.
func (s *stream) noTombstonesAfter(id ID) bool {
	deleted := s.meta.MaxDeleted
	if s.rec.Size == 0 || deleted == (ID{}) || s.meta.First.Compare(deleted) > 0 {
		return true
	}
	return id.Compare(deleted) > 0
}

// readsUpTo returns how many entries the stream ever had up to an id, or UnknownReads. It knows the number without
// counting only at the ends of a stream that had no deletion in the middle.
func (s *stream) readsUpTo(id ID) int64 {
	added := s.meta.EntriesAdded
	if added == 0 {
		return 0
	}
	c := id.Compare(s.meta.LastGenerated)
	switch {
	case c == 0, c < 0 && s.rec.Size == 0:
		return signed(added)
	case c > 0:
		return UnknownReads
	}
	if deleted := s.meta.MaxDeleted; deleted == (ID{}) || deleted.Compare(s.meta.First) < 0 {
		switch c := id.Compare(s.meta.First); {
		case c < 0:
			return signed(added - s.rec.Size)
		case c == 0:
			return signed(added - s.rec.Size + 1)
		}
	}
	return UnknownReads
}

func signed(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// delivered advances the group to an entry and updates its entries-read counter.
func (g *Group) delivered(id ID) {
	if id.Compare(g.value.LastDelivered) <= 0 {
		return
	}
	switch {
	case g.value.EntriesRead != UnknownReads && g.s.noTombstonesAfter(id):
		g.value.EntriesRead++
	case g.s.meta.EntriesAdded > 0:
		g.value.EntriesRead = g.s.readsUpTo(id)
	}
	g.value.LastDelivered = id
}

// lag returns how many entries the group has not handed out yet; false when the number is unknown.
func (g *Group) lag() (int64, bool) {
	added := signed(g.s.meta.EntriesAdded)
	if added == 0 {
		return 0, true
	}
	if g.value.EntriesRead != UnknownReads && g.s.noTombstonesAfter(g.value.LastDelivered) {
		return added - g.value.EntriesRead, true
	}
	if n := g.s.readsUpTo(g.value.LastDelivered); n != UnknownReads {
		return added - n, true
	}
	return 0, false
}
