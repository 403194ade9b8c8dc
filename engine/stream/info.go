package stream

import (
	"bytes"
	"math"
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Info describes a stream.
type Info struct {
	Length        uint64
	LastGenerated ID
	MaxDeleted    ID // the greatest id of a deleted entry; trimmed entries do not count
	EntriesAdded  uint64
	First, Last   ID // 0-0 when the stream is empty
	Groups        uint64
}

// Nodes returns how many radix tree keys and nodes Redis, with its default settings, would use for the entries if they
// are small. It is for XINFO only.
func (i *Info) Nodes() (keys, nodes uint64) {
	keys = (i.Length + TrimNode - 1) / TrimNode
	return keys, keys + 1
}

// About describes a stream; false when it does not exist.
func About(tx *engine.Tx, key []byte) (i Info, found bool, err error) {
	s, err := load(tx, key)
	if err != nil || !s.rec.Exists {
		return i, false, err
	}
	return Info{s.rec.Size, s.meta.LastGenerated, s.meta.MaxDeleted, s.meta.EntriesAdded, s.meta.First, s.meta.Last,
		s.meta.Groups}, true, nil
}

// GroupInfo describes a group.
type GroupInfo struct {
	Group         *Group
	Name          []byte
	Consumers     uint64
	Pending       uint64
	Nacked        uint64 // of the pending entries: nobody's
	LastDelivered ID
	EntriesRead   int64 // -1 = UnknownReads
	Lag           int64 // entries that are not delivered yet
	LagKnown      bool
}

// Groups returns the groups of a stream ordered by name; none when the stream does not exist.
func Groups(tx *engine.Tx, key []byte) ([]GroupInfo, error) {
	s, err := load(tx, key)
	if err != nil || !s.rec.Exists {
		return nil, err
	}
	var list []GroupInfo
	err = s.eachGroup(func(g *Group) {
		i := GroupInfo{Group: g, Name: g.name, Consumers: g.value.Consumers, Pending: g.value.Pending,
			LastDelivered: g.value.LastDelivered, EntriesRead: g.value.EntriesRead}
		i.Lag, i.LagKnown = g.lag()
		list = append(list, i)
	})
	for i := 0; err == nil && i < len(list); i++ {
		var nobody consumer
		var found bool
		if nobody, found, err = list[i].Group.consumer([]byte(Nobody)); found {
			list[i].Consumers, list[i].Nacked = less(list[i].Consumers, 1), nobody.value.Pending
		}
	}
	slices.SortFunc(list, func(a, b GroupInfo) int { return bytes.Compare(a.Name, b.Name) })
	return list, err
}

// eachGroup calls f with the groups of the stream.
func (s *stream) eachGroup(f func(g *Group)) error {
	var buf [9]byte
	prefix := bytes.Clone(s.tx.Subkey(&s.rec, cf.AppendStreamKindSub(buf[:0], cf.StreamGroup)))
	it := s.tx.Iter(cf.Stream, engine.IterOptions{Prefix: prefix, Limit: int(min(s.meta.Groups, 1<<20)) + 1})
	defer it.Close()
	for it.Next() {
		sub, err := s.parse(cf.StreamGroup, nil, it.Key())
		if err != nil {
			return err
		}
		g := &Group{s: *s, name: bytes.Clone(sub.Group)}
		if err := g.decode(it.Value()); err != nil {
			return err
		}
		f(g)
	}
	return it.Err()
}

// parse decodes the subkey of a consumer or a pending entry. rest is the subkey without its kind and group name.
func (s *stream) parse(kind cf.StreamKind, group, rest []byte) (cf.StreamSub, error) {
	var buf [128]byte
	sub := cf.AppendStreamKindSub(buf[:0], kind)
	if group != nil {
		sub = cf.AppendStreamGroupSub(buf[:0], kind, group)
	}
	p, err := cf.ParseStreamSub(append(sub, rest...))
	if err != nil {
		return p, s.corrupt("%v", err)
	}
	return p, nil
}

// consumers returns the consumers of the group, without nobody, ordered by name.
func (g *Group) consumers() ([]consumer, error) {
	prefix := bytes.Clone(g.s.groupKey(cf.StreamConsumer, g.name))
	it := g.s.tx.Iter(cf.Stream, engine.IterOptions{Prefix: prefix, Limit: int(min(g.value.Consumers, 1<<20)) + 1})
	defer it.Close()
	var list []consumer
	for it.Next() {
		sub, err := g.s.parse(cf.StreamConsumer, g.name, it.Key())
		if err != nil {
			return nil, err
		}
		if isNobody(sub.Consumer) {
			continue
		}
		c, err := g.decodeConsumer(bytes.Clone(sub.Consumer), it.Value())
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b consumer) int { return bytes.Compare(a.name, b.name) })
	return list, it.Err()
}

// ConsumerInfo describes a consumer. The times are milliseconds since the epoch.
type ConsumerInfo struct {
	Name    []byte
	Pending uint64
	Seen    uint64 // the last request
	Active  uint64 // the last delivery; 0 = never
}

// Consumers returns the consumers of the group ordered by name.
func (g *Group) Consumers() ([]ConsumerInfo, error) {
	list, err := g.consumers()
	if err != nil {
		return nil, err
	}
	infos := make([]ConsumerInfo, len(list))
	for i, c := range list {
		infos[i] = ConsumerInfo{c.name, c.value.Pending, c.value.LastAttempted, c.value.LastSucceeded}
	}
	return infos, nil
}

// PendingLists returns the pending entries of the group and of each of its consumers, ordered by id, at most count
// entries in each list (0 = all). It stops reading when all lists are full. of has the order of consumers.
func (g *Group) PendingLists(consumers []ConsumerInfo, count uint64) (all []Pending, of [][]Pending, err error) {
	if count == 0 {
		count = math.MaxUint64
	}
	of = make([][]Pending, len(consumers))
	index := make(map[string]int, len(consumers))
	lists := uint64(0) // entries that the consumers' lists still lack
	for i, c := range consumers {
		index[string(c.Name)] = i
		lists += min(c.Pending, count)
	}
	w := g.walk(MinID, MaxID, 0)
	defer w.close()
	for (uint64(len(all)) < count || lists > 0) && w.next() {
		p := Pending{ID: w.id, Delivered: w.value.DeliveryTime, Deliveries: w.value.DeliveryCount}
		i, known := index[string(w.value.Consumer)]
		switch {
		case known:
			p.Consumer = consumers[i].Name
		case isNobody(w.value.Consumer):
			p.Nacked = true
		default:
			p.Consumer = bytes.Clone(w.value.Consumer)
		}
		if uint64(len(all)) < count {
			all = append(all, p)
		}
		if known && uint64(len(of[i])) < count {
			of[i] = append(of[i], p)
			lists = less(lists, 1)
		}
	}
	return all, of, w.err
}
