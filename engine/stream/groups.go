package stream

import (
	"fmt"
	"math"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// UnknownReads is the value of a group's counter of entries read when it is not known.
const UnknownReads = -1

// The errors of functions on groups, with Redis's texts.
var (
	ErrGroupExists = engine.NewError("BUSYGROUP", "Consumer Group name already exists")
	ErrNoStream    = engine.NewError("ERR", "The XGROUP subcommand requires the key to exist. "+
		"Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.")
)

// Group is a consumer group that was opened in a transaction. It sees the writes that are made through it; after
// other writes to the same group it must be opened again.
type Group struct {
	s      stream
	name   []byte
	value  cf.StreamGroupValue
	prefix []byte // of what is pending

	// OnNewConsumer is called when something is asked for in the name of a consumer that there was not. nil = nobody.
	OnNewConsumer func()
}

// OpenGroup looks a group up; nil when there is no such stream or no such group.
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
	if g.value, err = cf.DecodeStreamGroup(value); err != nil {
		return nil, fmt.Errorf("key %q: group %q: %w", s.tx.UserKey(&s.rec), name, err)
	}
	return g, nil
}

// groupKey returns the internal key of a group, or what its consumers' or its pending entries' keys begin with; valid
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

// pendingPrefix returns what the keys of the pending entries begin with.
func (g *Group) pendingPrefix() []byte {
	if g.prefix == nil {
		g.prefix = append([]byte(nil), g.s.groupKey(cf.StreamPending, g.name)...)
	}
	return g.prefix
}

// pendingKey returns the internal key of a pending entry; valid until the next key is built.
func (g *Group) pendingKey(id ID) []byte {
	var buf [160]byte
	return g.s.tx.Subkey(&g.s.rec, cf.AppendStreamPendingSub(buf[:0], g.name, id))
}

// consumer is a consumer of a group that was read.
type consumer struct {
	name    []byte
	value   cf.StreamConsumerValue
	changed bool // for owners: is to be written
}

func (g *Group) consumerKey(name []byte) []byte {
	var buf [192]byte
	return g.s.tx.Subkey(&g.s.rec, cf.AppendStreamConsumerSub(buf[:0], g.name, name))
}

// consumer looks a consumer up.
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

// now returns the transaction's time as records hold it.
func now(tx *engine.Tx) uint64 { return uint64(max(tx.Clock(), 0)) }

// create makes a consumer that does not exist. Where Kvrocks writes that it has got something just now, its record
// says that it never has.
func (g *Group) create(name []byte) consumer {
	c := consumer{name: name, value: cf.StreamConsumerValue{LastAttempted: now(g.s.tx)}}
	g.s.tx.LogData(cf.LogStream)
	// Records of their own, as Kvrocks writes them: those of what the consumer gets come behind.
	var buf [48]byte
	g.s.tx.Put(cf.Stream, g.consumerKey(c.name), c.value.Append(buf[:0]))
	g.value.Consumers++
	g.s.tx.Put(cf.Stream, g.s.groupKey(cf.StreamGroup, g.name), g.value.Append(buf[:0]))
	return c
}

// use returns the consumer that is to get something, and makes it if need be.
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

// GroupStart tells from where a group hands out entries.
type GroupStart struct {
	ID          ID
	Last        bool  // from the last entry that the stream has had on, instead of ID
	EntriesRead int64 // how many entries come before, or UnknownReads
}

func (s *stream) start(o GroupStart) ID {
	if o.Last {
		return s.meta.LastGenerated
	}
	return o.ID
}

// CreateGroup makes a group. With create it also makes the stream if there is none.
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

// SetStart sets from where the group goes on.
func (g *Group) SetStart(o GroupStart) {
	g.value.LastDelivered = g.s.start(o)
	g.value.EntriesRead = o.EntriesRead
	g.s.tx.LogData(cf.LogStream)
	g.save()
}

// Destroy removes the group with its consumers and what is pending.
func (g *Group) Destroy() error {
	tx := g.s.tx
	tx.LogData(cf.LogStream)
	tx.Delete(cf.Stream, g.s.groupKey(cf.StreamGroup, g.name))
	for _, kind := range [...]cf.StreamKind{cf.StreamConsumer, cf.StreamPending} {
		if err := g.deleteAll(kind); err != nil {
			return err
		}
	}
	if g.s.meta.Groups > 0 {
		g.s.meta.Groups--
	}
	g.s.save()
	return nil
}

// deleteAll deletes the records of a kind: up to bulkTrim of them one by one, the rest by a DeleteRange.
func (g *Group) deleteAll(kind cf.StreamKind) error {
	tx := g.s.tx
	prefix := append([]byte(nil), g.s.groupKey(kind, g.name)...)
	o := engine.IterOptions{Prefix: prefix, KeysOnly: true}
	if kind == cf.StreamPending {
		o.Lower, _ = tx.Bounds(&g.s.rec, prefix)
	}
	it := tx.Iter(cf.Stream, o)
	defer it.Close()
	key := append([]byte(nil), prefix...)
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

// CreateConsumer makes a consumer and reports whether it is new.
func (g *Group) CreateConsumer(name []byte) (bool, error) {
	_, found, err := g.consumer(name)
	if err != nil || found {
		return false, err
	}
	g.create(name)
	return true, nil
}

// DeleteConsumer removes a consumer with what is pending for it, and returns how much that was: 0 also when there is
// no such consumer.
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

// less subtracts without going below 0: counters that another version has left too low do not become huge.
func less(a, b uint64) uint64 { return a - min(a, b) }

// noTombstonesAfter reports whether no entry was deleted from id on. Entries that were trimmed do not count: they
// were before the first.
func (s *stream) noTombstonesAfter(id ID) bool {
	deleted := s.meta.MaxDeleted
	if s.rec.Size == 0 || deleted == (ID{}) || s.meta.First.Compare(deleted) > 0 {
		return true
	}
	return id.Compare(deleted) > 0
}

// readsUpTo returns how many entries the stream has had up to an id, as far as that can be told without counting:
// for the ends of a stream in the middle of which nothing was deleted.
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

// delivered moves the group on to an entry, with its counter of entries read.
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

// lag returns how many entries the group has still to get; false when that is not known.
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
