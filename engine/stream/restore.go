package stream

import (
	"bytes"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Restorer recreates a stream from elsewhere: with its ids, counters and groups. It belongs to one transaction, which
// must be rolled back unless End succeeds.
type Restorer struct {
	s     stream
	value []byte
}

// State holds the counters of a stream.
type State struct {
	LastGenerated ID
	MaxDeleted    ID
	EntriesAdded  uint64
}

// Restore begins a stream. The key must not exist.
func Restore(tx *engine.Tx, key []byte) (*Restorer, error) {
	s, err := load(tx, key)
	if err != nil {
		return nil, err
	}
	tx.LogData(cf.LogStream)
	return &Restorer{s: s}, nil
}

// Add adds an entry of fields and values in turn, at least one pair. Its id must be greater than that of the previous
// entry.
func (r *Restorer) Add(id ID, fields [][]byte) error {
	m := &r.s.meta
	switch {
	case len(fields) == 0 || len(fields)%2 != 0:
		return ErrFields
	case id == MinID:
		return ErrZeroID
	case r.s.rec.Size > 0 && id.Compare(m.Last) <= 0:
		return ErrIDTooSmall
	}
	r.value = r.value[:0]
	for _, f := range fields {
		r.value = cf.AppendStreamString(r.value, f)
	}
	r.s.tx.PutSubkey(&r.s.rec, cf.Stream, r.s.entryKey(id), r.value)
	if r.s.rec.Size++; r.s.rec.Size == 1 {
		m.First, m.RecordedFirst = id, id
	}
	m.Last = id
	return nil
}

// Group adds a group that has handed out all entries up to last: entriesRead entries, or UnknownReads. Each pending
// entry names one of the consumers; the consumers' own pending counters are ignored. Consumer names and ids of pending
// entries must be distinct. A consumer with the name [Nobody] has the entries that belong to nobody.
func (r *Restorer) Group(name []byte, last ID, entriesRead int64, consumers []ConsumerInfo, pending []Pending) {
	g := Group{s: r.s, name: bytes.Clone(name)}
	g.value = cf.StreamGroupValue{Pending: uint64(len(pending)), LastDelivered: last, EntriesRead: entriesRead}
	of := make(map[string]uint64, len(consumers))
	place := uint64(0) // the last one of the entries that belong to nobody
	for _, p := range pending {
		of[string(p.Consumer)]++
		if isNobody(p.Consumer) {
			place = max(place, p.Delivered)
		}
		g.putPending(p.ID, &cf.StreamPendingValue{DeliveryTime: p.Delivered, DeliveryCount: p.Deliveries,
			Consumer: p.Consumer})
	}
	for _, c := range consumers {
		v := cf.StreamConsumerValue{Pending: of[string(c.Name)], LastAttempted: c.Seen, LastSucceeded: c.Active}
		if isNobody(c.Name) {
			v.LastAttempted, v.LastSucceeded = place, 0
		}
		g.value.Consumers++
		g.saveConsumer(&consumer{name: c.Name, value: v})
	}
	g.save()
	r.s.meta.Groups++
}

// End completes the stream. The last generated id must be at least that of the last entry.
func (r *Restorer) End(state State) error {
	m := &r.s.meta
	if state.LastGenerated.Compare(m.Last) < 0 {
		return ErrSetIDBelowTop
	}
	m.LastGenerated, m.MaxDeleted, m.EntriesAdded = state.LastGenerated, state.MaxDeleted, state.EntriesAdded
	r.s.save()
	return nil
}
