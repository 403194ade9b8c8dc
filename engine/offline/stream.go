package offline

import (
	"fmt"

	"github.com/basaltdb/basalt/cf"
)

// streams checks the stream family.
func (c *checker) streams() error {
	return c.groups("streams", c.stream, source{id: cf.Stream})
}

// stream checks all records with a prefix in the stream family.
func (c *checker) stream(prefix []byte, families []*grouped) {
	g := families[0]
	o, st := c.find(prefix)
	if st != live {
		g.each(prefix, func([]byte, []byte) { c.garbage(st) })
		return
	}
	if o.meta.Type != cf.TypeStream {
		g.each(prefix, func(sub, _ []byte) { c.stray(o, cf.Stream, sub) })
		return
	}
	s := &streamCheck{members: members{c: c, o: o, id: cf.Stream}, groups: map[string]*group{},
		producers: map[string]*producer{}}
	s.meta, _ = cf.DecodeStreamMeta(o.tail)
	count := c.report.count(cf.TypeStream)
	g.each(prefix, func(sub, value []byte) {
		count.Subkeys++
		s.add(sub, value)
	})
	if c.err == nil && c.ctx.Err() == nil {
		s.end()
	}
	if s.count > 0 || s.lost {
		c.found[cf.Stream] += c.hash(prefix)
	}
}

// streamCheck checks a stream: entries, then groups, consumers and pending entries, and the records of producers.
type streamCheck struct {
	members
	meta        cf.StreamMeta
	first, last cf.StreamID
	lost        bool // an entry cannot be decoded
	groups      map[string]*group
	producers   map[string]*producer
}

// producer is a producer of entries with iids: the record, and the counted iids and places in the queue.
type producer struct {
	value        cf.StreamProducerValue
	iids, queued uint64
}

// group is a consumer group: the numbers in its record and the counted ones.
type group struct {
	value     cf.StreamGroupValue
	consumers map[string]*consumer
	pending   uint64
}

type consumer struct {
	value   cf.StreamConsumerValue
	pending uint64
}

func (s *streamCheck) add(sub, value []byte) {
	k, err := cf.ParseStreamSub(sub)
	if err != nil {
		s.bad(BadValue, sub, err)
		return
	}
	if k.Kind >= cf.StreamProducer {
		s.idempotent(&k, sub, value)
		return
	}
	g := s.groups[string(k.Group)]
	switch k.Kind {
	case cf.StreamEntry:
		s.entry(k.ID, sub, value)
		return
	case cf.StreamGroup:
		v, err := cf.DecodeStreamGroup(value)
		if err != nil {
			s.bad(BadValue, sub, err)
		} else {
			s.groups[string(k.Group)] = &group{value: v, consumers: map[string]*consumer{}}
		}
		return
	}
	if g == nil {
		s.bad(Unreachable, sub, fmt.Errorf("there is no group %s", Show(k.Group)))
		return
	}
	switch k.Kind {
	case cf.StreamConsumer:
		v, err := cf.DecodeStreamConsumer(value)
		if err != nil {
			s.bad(BadValue, sub, err)
			return
		}
		g.consumers[string(k.Consumer)] = &consumer{value: v}
	case cf.StreamPending:
		v, err := cf.DecodeStreamPending(value)
		if err != nil {
			s.bad(BadValue, sub, err)
			return
		}
		g.pending++
		if c := g.consumers[string(v.Consumer)]; c != nil {
			c.pending++
		} else {
			s.c.problem(s.o.problem(Unreachable, "group %s has entry %d-%d pending for %s, which is no consumer",
				Show(k.Group), k.ID.Ms, k.ID.Seq, Show(v.Consumer)), nil)
		}
	}
}

// idempotent checks a record of idempotent production.
func (s *streamCheck) idempotent(k *cf.StreamSub, sub, value []byte) {
	p := s.producers[string(k.Producer)]
	if p == nil {
		p = &producer{}
		s.producers[string(k.Producer)] = p
	}
	var err error
	switch k.Kind {
	case cf.StreamProducer:
		p.value, err = cf.DecodeStreamProducer(value)
	case cf.StreamIID:
		p.iids++
		_, err = cf.DecodeStreamIID(value)
	case cf.StreamQueued:
		p.queued++
		_, err = cf.DecodeStreamQueued(value)
	case cf.StreamIdempotence:
		_, err = cf.DecodeStreamIdempotence(value)
	}
	if err != nil {
		s.bad(BadValue, sub, err)
	}
}

func (s *streamCheck) entry(id cf.StreamID, sub, value []byte) {
	if _, err := cf.DecodeStreamEntry(nil, value); err != nil {
		s.lost = true
		s.bad(BadValue, sub, err)
		return
	}
	if s.count == 0 {
		s.first = id
	}
	s.last = id
	s.count++
}

func (s *streamCheck) end() {
	s.sized("entries")
	var wrong string
	switch m := &s.meta; {
	case s.count > 0 && m.LastGenerated.Compare(s.last) < 0:
		wrong = fmt.Sprintf("the record says that %s is the newest id, there is %s", id(m.LastGenerated), id(s.last))
	case s.count > 0 && (m.First != s.first || m.Last != s.last):
		wrong = fmt.Sprintf("the record says entries from %s to %s, they are from %s to %s", id(m.First), id(m.Last),
			id(s.first), id(s.last))
	case m.Groups != uint64(len(s.groups)):
		wrong = fmt.Sprintf("the record says %d groups, there are %d", m.Groups, len(s.groups))
	}
	if wrong != "" {
		s.c.problem(s.o.problem(WrongCount, "%s", wrong), func(d *mender) string {
			m := s.meta
			if s.count > 0 {
				m.First, m.Last = s.first, s.last
				if m.LastGenerated.Compare(s.last) < 0 {
					m.LastGenerated = s.last
				}
			}
			m.Groups = uint64(len(s.groups))
			s.o.tail = m.Append(nil)
			return s.resize(d)
		})
	}
	for name, g := range s.groups {
		s.group([]byte(name), g)
	}
	for name, p := range s.producers {
		if n := p.value.Next - p.value.First; p.queued != n || p.iids > n {
			s.c.problem(s.o.problem(WrongCount, "producer %s says %d iids, there are %d, and %d in the queue",
				Show([]byte(name)), n, p.iids, p.queued), nil)
		}
	}
}

func id(i cf.StreamID) string { return fmt.Sprintf("%d-%d", i.Ms, i.Seq) }

// group compares the numbers in the records of a group and of its consumers with the counted ones.
func (s *streamCheck) group(name []byte, g *group) {
	consumers := uint64(len(g.consumers))
	if g.value.Consumers != consumers || g.value.Pending != g.pending {
		s.c.problem(s.o.problem(WrongCount, "group %s says %d consumers and %d pending entries, there are %d and %d",
			Show(name), g.value.Consumers, g.value.Pending, consumers, g.pending), func(d *mender) string {
			v := g.value
			v.Consumers, v.Pending = consumers, g.pending
			d.batch.Put(cf.Stream, s.key(cf.AppendStreamGroupSub(nil, cf.StreamGroup, name)), v.Append(nil))
			return "the group says so now"
		})
	}
	for who, c := range g.consumers {
		if c.value.Pending == c.pending {
			continue
		}
		s.c.problem(s.o.problem(WrongCount, "consumer %s of group %s says %d pending entries, there are %d",
			Show([]byte(who)), Show(name), c.value.Pending, c.pending), func(d *mender) string {
			v := c.value
			v.Pending = c.pending
			d.batch.Put(cf.Stream, s.key(cf.AppendStreamConsumerSub(nil, name, []byte(who))), v.Append(nil))
			return "the consumer says so now"
		})
	}
}
