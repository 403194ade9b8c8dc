package carry

import (
	"bytes"
	"hash/maphash"
	"slices"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/server/cluster/migration/slotdata"
)

// Raw sends records by APPLYBATCH, or by the command in [Raw.command]. Several batches are in flight at the same time;
// the destination applies them in order.
type Raw struct {
	*To
	fresh func() *slotdata.Reader // takes a snapshot of the current state

	command [][]byte // the command and its first arguments; the batch is the last argument
	times   int      // factor of the batch size in the settings
	full    int      // a batch of so many bytes is sent; kept, because reading the settings takes time
	batch   batch.Builder
	log     []byte // log data of the previous record
	flying  int    // batches in flight: sent without a reply yet

	// expiring holds the expiries with which collections were sent that expire soon, by the hash of their keys. When
	// such a collection gets a later expiry after that time, the destination may have dropped its elements, so they are
	// sent again.
	expiring map[uint64]uint64
	seed     maphash.Seed
}

// NewRaw makes a Raw. fresh takes a snapshot of the current state.
func NewRaw(to *To, fresh func() *slotdata.Reader) *Raw {
	return &Raw{To: to, fresh: fresh, command: applyBatch, times: 1, expiring: map[uint64]uint64{},
		seed: maphash.MakeSeed()}
}

const (
	soon     = time.Hour
	clockOff = 2 * time.Second // the max time by which the destination's clock may be ahead
)

// expires stores the expiry with which a metadata record is sent. It reports whether the elements must be sent again.
func (s *Raw) expires(nsKey []byte, m *cf.Meta) bool {
	if m.Type.SingleRecord() || m.Expire == 0 && len(s.expiring) == 0 {
		return false
	}
	now, h := s.Clock.Now(), maphash.Bytes(s.seed, nsKey)
	old, sent := s.expiring[h]
	if m.Expire != 0 && m.Expire < uint64(now.Add(soon).UnixMilli()) {
		s.expiring[h] = m.Expire
	} else {
		delete(s.expiring, h)
	}
	return sent && old <= uint64(now.Add(clockOff).UnixMilli()) && (m.Expire == 0 || m.Expire > old)
}

// window is the max number of batches in flight: enough to keep both sides busy.
const window = 8

var applyBatch = [][]byte{[]byte("APPLYBATCH")}

// put adds a record. log is the log data that names its type.
func (s *Raw) put(id cf.ID, key, value, log []byte) error {
	s.logData(log)
	s.batch.Put(id, key, value)
	return s.added()
}

func (s *Raw) logData(log []byte) {
	if len(log) > 0 && !(bytes.Equal(log, s.log) && s.batch.Count() > 0) {
		s.batch.LogData(log)
		s.log = append(s.log[:0], log...)
	}
}

func (s *Raw) added() error {
	if s.full == 0 {
		n := s.Settings().BatchBytes
		s.full = max(n, min(n*s.times, maxFilesBatch))
	}
	if s.batch.Len() < s.full {
		return nil
	}
	return s.ship()
}

// ship sends the current batch.
func (s *Raw) ship() error {
	if s.batch.Count() == 0 {
		return nil
	}
	n := s.batch.Len()
	if err := s.wait(n, s.Settings().BatchRate); err != nil {
		return err
	}
	if err := s.Check(); err != nil {
		return err
	}
	if err := s.Peer.Send(append(slices.Clip(s.command), s.batch.Bytes())...); err != nil {
		return err
	}
	if err := s.Peer.Flush(); err != nil {
		return err
	}
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

func (s *Raw) answered() error {
	s.flying--
	_, err := s.Peer.Reply()
	return err
}

// Flush implements [Carrier].
func (s *Raw) Flush() error {
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
func (s *Raw) metadata(k *slotdata.Key) error {
	if err := s.Knows.carries(&k.Meta, k.NSKey, k.Record); err != nil {
		return err
	}
	s.expires(k.NSKey, &k.Meta)
	return s.put(cf.Metadata, k.NSKey, k.Record, logOf(k.Meta.Type))
}

// Snapshot implements [Carrier].
func (s *Raw) Snapshot(r *slotdata.Reader, k *slotdata.Key) error {
	if err := s.metadata(k); err != nil {
		return err
	}
	log := logOf(k.Meta.Type)
	var score []byte
	return r.Elements(k, func(e *slotdata.Element) error {
		if err := s.put(e.Family, e.Key, e.Value, log); err != nil {
			return err
		}
		if k.Meta.Type != cf.TypeZSet {
			return nil
		}
		// The same key with the score before the member.
		score = append(score[:0], e.Key[:len(e.Key)-len(e.Sub)]...)
		score = append(append(score, e.Value...), e.Sub...)
		return s.put(cf.ZSetScore, score, nil, log)
	})
}

// logOf returns the log data that Kvrocks writes for a type.
func logOf(t cf.Type) []byte {
	if t == cf.TypeList {
		return cf.LogListPushR
	}
	return cf.AppendLogType(nil, t)
}

// again sends the current state of a key.
func (s *Raw) again(nsKey []byte) error {
	r := s.fresh()
	defer r.Close()
	k, err := r.Find(nsKey)
	if err != nil || k == nil {
		return err
	}
	return s.Snapshot(r, k)
}

// Change implements [Carrier].
func (s *Raw) Change(c *slotdata.Changes) error {
	var log []byte
	return c.Each(func(rec *batch.Record) error {
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
			if err := s.Knows.carries(&m, rec.Key, rec.Value); err != nil {
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
