package stream

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
)

// Idempotent production: a producer gives each entry an idempotent id, iid, and an entry whose iid the stream knows is
// not added again. The stream knows the iids of the last MaxSize entries of each producer, for Duration seconds. An iid
// is found by its record. The queue of the producer says which iid is the oldest. Its places are consecutive numbers,
// so both of its ends are read without an iterator.
//
// Each added entry removes what its producer's queue has too much. The queues of producers that have gone away are
// removed when new producers come: each of these looks at a few others, in turn.

// Settings of idempotent production: Redis's defaults and limits.
const (
	defaultIdempotenceDuration = 100
	defaultIdempotenceSize     = 100
	MaxIdempotenceDuration     = 86400
	MaxIdempotenceSize         = 10000
)

const (
	visited     = 4   // producers at which a new producer looks
	visitedIIDs = 256 // iids of these producers that it removes at most
)

// idempotence is the idempotent production of a stream in memory.
type idempotence struct {
	s      stream
	value  cf.StreamIdempotenceValue
	exists bool // the stream has a record of it
}

// producer is a producer in memory.
type producer struct {
	of    *idempotence
	name  []byte
	value cf.StreamProducerValue
	known bool // the producer has a record
}

// key returns the internal key of the record; valid until the next key is built, as the keys of the next functions are.
func (i *idempotence) key() []byte {
	var buf [16]byte
	return i.s.tx.Subkey(&i.s.rec, cf.AppendStreamKindSub(buf[:0], cf.StreamIdempotence))
}

func (i *idempotence) producerKey(name []byte) []byte {
	var buf [128]byte
	return i.s.tx.Subkey(&i.s.rec, cf.AppendStreamProducerSub(buf[:0], cf.StreamProducer, name))
}

func (p *producer) iidKey(iid []byte) []byte {
	var buf [192]byte
	return p.of.s.tx.Subkey(&p.of.s.rec, cf.AppendStreamIIDSub(buf[:0], p.name, iid))
}

func (p *producer) queuedKey(place uint64) []byte {
	var buf [128]byte
	return p.of.s.tx.Subkey(&p.of.s.rec, cf.AppendStreamQueuedSub(buf[:0], p.name, place))
}

// decode decodes the record, nil = no record.
func (i *idempotence) decode(value []byte) (err error) {
	if value == nil {
		i.value = cf.StreamIdempotenceValue{Duration: defaultIdempotenceDuration, MaxSize: defaultIdempotenceSize}
		return nil
	}
	i.exists = true
	i.value, err = cf.DecodeStreamIdempotence(value)
	return i.failed(err)
}

func (i *idempotence) save() {
	var buf [128]byte
	i.s.tx.Replace(cf.Stream, i.key(), i.value.Append(buf[:0]))
}

// failed adds the key to an error.
func (i *idempotence) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("key %q: %w", i.s.tx.UserKey(&i.s.rec), err)
}

// forgotten reports whether the iid of an entry was added too long ago.
func (i *idempotence) forgotten(ms uint64) bool {
	return ms <= less(now(i.s.tx), 1000*i.value.Duration)
}

// producer reads a producer, and the id of the entry that it has added with an iid, if the stream knows the iid.
func (s *stream) producer(name, iid []byte) (p *producer, id ID, dup bool, err error) {
	i := &idempotence{s: *s}
	p = &producer{of: i, name: name}
	keys := s.tx.Keys()
	keys.Add(i.key())
	keys.Add(i.producerKey(name))
	keys.Add(p.iidKey(iid))
	values, err := s.tx.MultiGet(cf.Stream, keys)
	if err == nil {
		err = i.decode(values[0])
	}
	if err == nil && values[1] != nil {
		p.known = true
		p.value, err = cf.DecodeStreamProducer(values[1])
		err = i.failed(err)
	}
	if err == nil && values[2] != nil {
		id, err = cf.DecodeStreamIID(values[2])
		err = i.failed(err)
		dup = !i.forgotten(id.Ms)
	}
	return p, id, dup, err
}

// duplicate counts an entry that is not added.
func (p *producer) duplicate() {
	p.of.s.tx.LogData(cf.LogStream)
	p.of.value.Duplicates++
	p.of.save()
}

// add notes the iid of a new entry.
func (p *producer) add(iid []byte, id ID) error {
	if !p.known {
		if err := p.of.visit(); err != nil {
			return err
		}
	}
	for p.value.First < p.value.Next {
		q, err := p.oldest()
		if err != nil {
			return err
		}
		if p.value.Next-p.value.First < p.of.value.MaxSize && !p.of.forgotten(q.Ms) {
			break
		}
		p.pop(q.IID)
	}
	tx := p.of.s.tx
	var buf [128]byte
	tx.Put(cf.Stream, p.iidKey(iid), id.Append(buf[:0]))
	q := cf.StreamQueuedValue{Ms: id.Ms, IID: iid}
	tx.Put(cf.Stream, p.queuedKey(p.value.Next), q.Append(buf[:0]))
	p.value.Next++
	p.value.LastMs = id.Ms
	p.save()
	p.of.value.Added++
	p.of.save()
	return nil
}

func (p *producer) save() {
	var buf [24]byte
	p.of.s.tx.Replace(cf.Stream, p.of.producerKey(p.name), p.value.Append(buf[:0]))
}

// oldest reads the first place of the queue, which must not be empty.
func (p *producer) oldest() (q cf.StreamQueuedValue, err error) {
	value, found, err := p.of.s.tx.Get(cf.Stream, p.queuedKey(p.value.First))
	switch {
	case err != nil:
		return q, err
	case !found:
		return q, p.of.s.corrupt("the queue of producer %q lacks place %d", p.name, p.value.First)
	}
	q, err = cf.DecodeStreamQueued(value)
	return q, p.of.failed(err)
}

// pop removes the first place of the queue, in which an iid is.
func (p *producer) pop(iid []byte) {
	tx := p.of.s.tx
	tx.Delete(cf.Stream, p.iidKey(iid))
	tx.Delete(cf.Stream, p.queuedKey(p.value.First))
	p.value.First++
}

// visit looks at some producers, and removes those all of whose iids are forgotten.
func (i *idempotence) visit() error {
	if !i.exists {
		return nil
	}
	list, err := i.producers(i.value.Cursor, visited+1)
	if err != nil {
		return err
	}
	i.value.Cursor = nil
	if len(list) > visited {
		i.value.Cursor = list[visited].name
		list = list[:visited]
	}
	left := visitedIIDs
	for j := range list {
		p := &list[j]
		if !i.forgotten(p.value.LastMs) {
			continue
		}
		for ; p.value.First < p.value.Next && left > 0; left-- {
			q, err := p.oldest()
			if err != nil {
				return err
			}
			p.pop(q.IID)
		}
		if p.value.First < p.value.Next {
			p.save()
			i.value.Cursor = p.name
			return nil
		}
		i.s.tx.Delete(cf.Stream, i.producerKey(p.name))
	}
	return nil
}

// producers returns producers from one name on, at most n (0 = all).
func (i *idempotence) producers(from []byte, n int) (list []producer, err error) {
	var buf [16]byte
	prefix := bytes.Clone(i.s.tx.Subkey(&i.s.rec, cf.AppendStreamKindSub(buf[:0], cf.StreamProducer)))
	lower := bytes.Clone(i.producerKey(from))
	it := i.s.tx.Iter(cf.Stream, engine.IterOptions{Prefix: prefix, Lower: lower, Limit: n})
	defer it.Close()
	for (n == 0 || len(list) < n) && it.Next() {
		sub, err := i.s.parse(cf.StreamProducer, nil, it.Key())
		if err != nil {
			return nil, err
		}
		p := producer{of: i, name: bytes.Clone(sub.Producer)}
		if p.value, err = cf.DecodeStreamProducer(it.Value()); err != nil {
			return nil, i.failed(err)
		}
		list = append(list, p)
	}
	return list, it.Err()
}

// ContentIID returns the iid of an entry whose producer gives it none: a hash of the fields and values, in any order.
func ContentIID(fields [][]byte) []byte {
	var high, low uint64
	h := sha256.New()
	var buf [sha256.Size]byte
	for i := 0; i+1 < len(fields); i += 2 {
		h.Reset()
		h.Write(binary.BigEndian.AppendUint64(buf[:0], uint64(len(fields[i]))))
		h.Write(fields[i])
		h.Write(fields[i+1])
		sum := h.Sum(buf[:0])
		high += binary.BigEndian.Uint64(sum)
		low += binary.BigEndian.Uint64(sum[8:])
	}
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, high), low)
}

// openIdempotence reads the record of a stream; nil when the stream does not exist.
func openIdempotence(tx *engine.Tx, key []byte) (*idempotence, error) {
	s, err := load(tx, key)
	if err != nil || !s.rec.Exists {
		return nil, err
	}
	i := &idempotence{s: s}
	value, _, err := tx.Get(cf.Stream, i.key())
	if err != nil {
		return nil, err
	}
	return i, i.decode(value)
}

// SetIdempotence sets for how many seconds the stream knows an iid, and how many iids of each producer; 0 = as before.
// A change makes it forget all iids. SetIdempotence returns false if the stream does not exist.
func SetIdempotence(tx *engine.Tx, key []byte, duration, size uint64) (bool, error) {
	i, err := openIdempotence(tx, key)
	if err != nil || i == nil {
		return false, err
	}
	old := i.value
	if duration > 0 {
		i.value.Duration = duration
	}
	if size > 0 {
		i.value.MaxSize = size
	}
	if i.exists && i.value.Duration == old.Duration && i.value.MaxSize == old.MaxSize {
		return true, nil
	}
	tx.LogData(cf.LogStream)
	if i.exists {
		i.value.Cursor = nil
		var buf [16]byte
		first := bytes.Clone(tx.Subkey(&i.s.rec, cf.AppendStreamKindSub(buf[:0], cf.StreamProducer)))
		tx.DeleteRange(cf.Stream, first, bytes.Clone(i.key()))
	}
	i.save()
	return true, nil
}

// Idempotence describes the idempotent production of a stream.
type Idempotence struct {
	Duration, MaxSize uint64
	Producers         uint64 // that have iids which the stream knows
	IIDs              uint64 // that the stream knows
	Added             uint64 // entries with an iid, ever
	Duplicates        uint64 // entries that were not added, ever
}

// AboutIdempotence describes the idempotent production of a stream; false when the stream has none.
func AboutIdempotence(tx *engine.Tx, key []byte) (a Idempotence, found bool, err error) {
	i, err := openIdempotence(tx, key)
	if err != nil || i == nil || !i.exists {
		return a, false, err
	}
	v := &i.value
	a = Idempotence{Duration: v.Duration, MaxSize: v.MaxSize, Added: v.Added, Duplicates: v.Duplicates}
	list, err := i.producers(nil, 0)
	for j := range list {
		n, err := list[j].size()
		if err != nil {
			return a, false, err
		}
		if n > 0 {
			a.Producers++
			a.IIDs += n
		}
	}
	return a, true, err
}

// size returns how many iids of the producer the stream knows.
func (p *producer) size() (uint64, error) {
	if p.of.forgotten(p.value.LastMs) {
		return 0, nil
	}
	q := *p
	for ; q.value.First < q.value.Next; q.value.First++ {
		if oldest, err := q.oldest(); err != nil {
			return 0, err
		} else if !p.of.forgotten(oldest.Ms) {
			break
		}
	}
	return q.value.Next - q.value.First, nil
}
