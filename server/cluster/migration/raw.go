package migration

import (
	"bytes"
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine"
	"github.com/basaltdb/basalt/engine/batch"
)

// rawSender sends records by APPLYBATCH, or as [rawSender.command] says. Some batches are under way at the same time;
// the destination applies them in their order.
type rawSender struct {
	ctx      context.Context
	p        *peer
	settings func() Settings
	pace     *pace
	free     bool         // the rate is not limited: clients wait
	check    func() error // why the migration is to end, nil = it goes on

	command [][]byte // what a batch is the last argument of
	times   int      // how many times the size of the settings a batch has
	full    int      // bytes of the batch at hand; the settings cost as much as some records
	batch   batch.Builder
	log     []byte // log data of the record before
	flying  int    // batches without a reply
	records int64
	bytes   int64

	// expiring are the expiries with which collections were sent that end soon, by the hash of their keys. When such a
	// collection gets a later end after that time, the destination may have dropped its elements meanwhile, and they are
	// sent again.
	expiring map[uint64]uint64
	seed     maphash.Seed
	again    func(nsKey []byte) error // sends a key as it is now
	knows    *abilities
	clock    Clock
}

func newRawSender(ctx context.Context, p *peer, settings func() Settings, pc *pace, knows *abilities,
	clock Clock, check func() error) *rawSender {
	return &rawSender{ctx: ctx, p: p, settings: settings, pace: pc, knows: knows, clock: clock, check: check,
		command: applyBatch, times: 1, expiring: map[uint64]uint64{}, seed: maphash.MakeSeed()}
}

const (
	soon     = time.Hour
	clockOff = 2 * time.Second // what the clock of the destination may be ahead
)

// expires notes the expiry with which a metadata record is sent, and reports whether its elements are to be sent again.
func (s *rawSender) expires(nsKey []byte, m *cf.Meta) bool {
	if m.Type.SingleRecord() || m.Expire == 0 && len(s.expiring) == 0 {
		return false
	}
	now, h := s.clock.Now(), maphash.Bytes(s.seed, nsKey)
	old, sent := s.expiring[h]
	if m.Expire != 0 && m.Expire < uint64(now.Add(soon).UnixMilli()) {
		s.expiring[h] = m.Expire
	} else {
		delete(s.expiring, h)
	}
	return sent && old <= uint64(now.Add(clockOff).UnixMilli()) && (m.Expire == 0 || m.Expire > old)
}

// window is how many batches may be under way: enough to keep both sides busy.
const window = 8

var applyBatch = [][]byte{[]byte("APPLYBATCH")}

// put adds a record. log is the log data that says its type.
func (s *rawSender) put(id cf.ID, key, value, log []byte) error {
	s.logData(log)
	s.batch.Put(id, key, value)
	return s.added()
}

func (s *rawSender) logData(log []byte) {
	if len(log) > 0 && !(bytes.Equal(log, s.log) && s.batch.Count() > 0) {
		s.batch.LogData(log)
		s.log = append(s.log[:0], log...)
	}
}

func (s *rawSender) added() error {
	if s.records++; s.full == 0 {
		n := s.settings().BatchBytes
		s.full = max(n, min(n*s.times, maxFilesBatch))
	}
	if s.batch.Len() < s.full {
		return nil
	}
	return s.ship()
}

// ship sends what was added.
func (s *rawSender) ship() error {
	if s.batch.Count() == 0 {
		return nil
	}
	n := s.batch.Len()
	if !s.free {
		if err := s.pace.wait(s.ctx, n, s.settings().BatchRate); err != nil {
			return err
		}
	}
	if err := s.check(); err != nil {
		return err
	}
	if err := s.p.send(append(slices.Clip(s.command), s.batch.Bytes())...); err != nil {
		return err
	}
	if err := s.p.flush(); err != nil {
		return err
	}
	s.bytes += int64(n)
	s.flying++
	s.batch.Reset()
	s.full, s.log = 0, s.log[:0]
	for s.flying >= window {
		if err := s.answered(); err != nil {
			return err
		}
	}
	return nil
}

func (s *rawSender) answered() error {
	s.flying--
	_, err := s.p.reply()
	return err
}

// finish sends what is left and waits until the destination has all of it.
func (s *rawSender) finish() error {
	if err := s.ship(); err != nil {
		return err
	}
	for s.flying > 0 {
		if err := s.answered(); err != nil {
			return err
		}
	}
	return nil
}

// metadata sends the metadata record of a key.
func (s *rawSender) metadata(k *key) error {
	if err := s.knows.carries(&k.meta, k.nsKey, k.record); err != nil {
		return err
	}
	s.expires(k.nsKey, &k.meta)
	return s.put(cf.Metadata, k.nsKey, k.record, logOf(k.meta.Type))
}

// snapshot sends a key with all its elements.
func (s *rawSender) snapshot(r *reader, k *key) error {
	if err := s.metadata(k); err != nil {
		return err
	}
	log := logOf(k.meta.Type)
	var score []byte
	return r.elements(k, func(e *element) error {
		if err := s.put(e.family, e.key, e.value, log); err != nil {
			return err
		}
		if k.meta.Type != cf.TypeZSet {
			return nil
		}
		// the same key with the score before the member
		score = append(score[:0], e.key[:len(e.key)-len(e.sub)]...)
		score = append(append(score, e.value...), e.sub...)
		return s.put(cf.ZSetScore, score, nil, log)
	})
}

// logOf is the log data that Kvrocks sends with a type.
func logOf(t cf.Type) []byte {
	if t == cf.TypeList {
		return cf.LogListPushR
	}
	return cf.AppendLogType(nil, t)
}

// change sends what a batch of the log has changed in the slots.
func (s *rawSender) change(c *logged) error {
	var log []byte
	return c.each(func(rec *batch.Record) error {
		switch rec.Kind {
		case batch.LogData:
			log = rec.Value
			return nil
		case batch.Put:
			if err := s.put(rec.Family, rec.Key, rec.Value, log); err != nil || rec.Family != cf.Metadata {
				return err
			}
			m, _, err := cf.DecodeMeta(rec.Value)
			if err != nil {
				return err
			}
			if err := s.knows.carries(&m, rec.Key, rec.Value); err != nil {
				return err
			}
			if s.expires(rec.Key, &m) {
				return s.again(rec.Key)
			}
			return nil
		case batch.Delete:
			s.logData(log)
			s.batch.Delete(rec.Family, rec.Key)
		case batch.DeleteRange:
			s.logData(log)
			s.batch.DeleteRange(rec.Family, rec.Key, rec.Value)
		}
		return s.added()
	})
}

// logged is a batch of the log, seen through the slots that are migrated.
type logged struct {
	rep          []byte
	skip         int    // so many of its records are in the snapshot already
	seq          uint64 // of the record that each is at
	lower, upper []byte
}

// each calls f for the records of the slots, and with log data: puts, deletes, and range deletes of subkeys, cut to the
// slots. A range delete of metadata records is a FLUSHALL or FLUSHDB, or what other programs do like it: errFlushed.
func (c *logged) each(f func(rec *batch.Record) error) error {
	r, err := batch.NewReader(c.rep)
	if err != nil {
		return err
	}
	n := 0
	for {
		rec, ok := r.Next()
		if !ok {
			return r.Err()
		}
		if rec.Kind.Counted() {
			c.seq = r.Sequence() + uint64(n)
			if n++; n <= c.skip {
				continue
			}
		}
		if rec.Kind == batch.LogData {
			if l, err := cf.ParseLogData(rec.Value); err != nil || l.ReplicationID != nil {
				continue
			}
			if err := f(&rec); err != nil {
				return err
			}
			continue
		}
		switch rec.Family {
		case cf.Metadata, cf.Default, cf.ZSetScore, cf.Stream:
		default:
			continue
		}
		switch rec.Kind {
		case batch.Put, batch.Delete, batch.SingleDelete:
			if bytes.Compare(rec.Key, c.lower) < 0 || bytes.Compare(rec.Key, c.upper) >= 0 {
				continue
			}
			if rec.Kind == batch.SingleDelete {
				rec.Kind = batch.Delete
			}
		case batch.DeleteRange:
			if bytes.Compare(rec.Key, c.lower) < 0 {
				rec.Key = c.lower
			}
			if bytes.Compare(rec.Value, c.upper) > 0 {
				rec.Value = c.upper
			}
			if bytes.Compare(rec.Key, rec.Value) >= 0 {
				continue
			}
			if rec.Family == cf.Metadata {
				return errFlushed
			}
		case batch.Noop:
			continue
		default:
			return fmt.Errorf("the log holds a record of the kind %q", rec.Kind)
		}
		if err := f(&rec); err != nil {
			return err
		}
	}
}

// bounds sets the slots.
func (c *logged) bounds(slots cf.SlotRange) { c.lower, c.upper = engine.SlotBounds(slots) }
