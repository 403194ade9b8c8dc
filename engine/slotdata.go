package engine

import (
	"errors"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/keycount"
)

// The keys of cluster slots. In a database whose keys carry their slots, those of a range of slots lie together in each
// family, behind the prefix of the default namespace: a cluster has no other.

// AppendSlotPrefix appends the bytes with which all keys of a slot begin, metadata keys and subkeys; for NumSlots, those
// behind the last slot.
func AppendSlotPrefix(dst []byte, slot int) []byte {
	dst = cf.AppendNSPrefix(dst, cf.DefaultNamespace)
	return append(dst, byte(slot>>8), byte(slot))
}

// SlotBounds returns the bounds [lower, upper) of all keys of a range of slots.
func SlotBounds(r cf.SlotRange) (lower, upper []byte) {
	return AppendSlotPrefix(nil, int(r.First)), AppendSlotPrefix(nil, int(r.Last)+1)
}

// slotFamilies hold keys of slots. The subkeys go too, and not just the metadata records that make them reachable:
// when a slot comes back, so do the versions of its collections.
var slotFamilies = [...]cf.ID{cf.Metadata, cf.Default, cf.ZSetScore, cf.Stream}

// DeleteSlots deletes everything in a range of slots, by one range tombstone for each family that has anything there.
// It holds all locks for a moment, and meanwhile nobody may write to the slots: keys are counted before (many of them
// without locks). What expires does not matter.
func (db *DB) DeleteSlots(r cf.SlotRange) error {
	lower, upper := SlotBounds(r)
	tx := db.NewTx()
	tx.Begin(cf.DefaultNamespace)
	defer tx.Release()
	var families []cf.ID
	for _, id := range slotFamilies {
		some, err := tx.any(id, lower, upper)
		if err != nil {
			return err
		}
		if some {
			families = append(families, id)
		}
	}
	if len(families) == 0 {
		return nil
	}
	gone, few, err := tx.countSlots(lower, upper)
	if err != nil {
		return err
	}
	return db.exclusiveRetry(func(tx *Tx) error {
		if few {
			if err := tx.countOff(lower, upper); err != nil {
				return err
			}
		} else {
			for end, n := range gone {
				tx.count(keycount.Record{Exists: true, End: end}, -n)
			}
		}
		for _, id := range families {
			if id == cf.Metadata {
				tx.flushRange(lower, upper)
			} else {
				tx.DeleteRange(id, lower, upper)
			}
		}
		return nil
	})
}

// any reports whether a family has a key in a range. Where there are many tombstones it may say so without one.
func (tx *Tx) any(id cf.ID, lower, upper []byte) (bool, error) {
	it := tx.Iter(id, IterOptions{Lower: lower, Upper: upper, KeysOnly: true, Limit: 1, NoFill: true, MaxSkip: slotSkip})
	defer it.Close()
	some := it.Next()
	err := it.Err()
	if incomplete(err) {
		return true, nil
	}
	return some, err
}

// countSlots counts keys by the time at which they end. few: there are so few that they can be counted with all locks.
func (tx *Tx) countSlots(lower, upper []byte) (gone map[uint64]int32, few bool, err error) {
	it := tx.Iter(cf.Metadata, IterOptions{Lower: lower, Upper: upper, ValueMax: cf.MaxHead, NoFill: true})
	defer it.Close()
	gone = map[uint64]int32{}
	n := 0
	for ; it.Next(); n++ {
		if m, _, err := cf.DecodeMeta(it.Value()); err == nil && countable(&m) {
			gone[m.End()]++
		}
	}
	return gone, n < countOffMost/2, it.Err()
}

// exclusiveRetry is exclusive, and tries again while a transaction turns others away.
func (db *DB) exclusiveRetry(f func(tx *Tx) error) error {
	tx := db.NewTx()
	for {
		tx.Begin(cf.DefaultNamespace)
		err := tx.usable()
		if err == nil {
			err = tx.AcquireAll()
		}
		if err == nil {
			if err = f(tx); err == nil {
				err = tx.Commit()
			}
			tx.Release()
			return err
		}
		tx.Release()
		if errors.Is(err, ErrClosed) {
			return err
		}
		select {
		case <-db.closing:
			return ErrClosed
		case <-time.After(scanRetry):
		}
	}
}

// Log reads the log from one sequence number on and follows it, however often its end is reached: the end costs no
// search, as a new [WAL] would. One goroutine uses it.
type Log struct {
	db   *DB
	wal  *WAL
	next uint64 // the sequence number of the next record
}

// Log returns a reader of what was written from a sequence number on.
func (db *DB) Log(next uint64) *Log { return &Log{db: db, next: next} }

// Sequence returns the number of the next record.
func (l *Log) Sequence() uint64 { return l.next }

// Next returns the next write batch; nil when there is none yet. skip is how many of its records come before the
// sequence number with which the reader began. It fails with [ErrWALGap] where the log lacks writes.
func (l *Log) Next() (rep []byte, skip int, err error) {
	if l.db.LatestSequence() < l.next {
		return nil, 0, nil
	}
	for range 2 {
		if l.wal == nil {
			if l.wal, err = l.db.WAL(l.next); err != nil {
				return nil, 0, err
			}
		} else if err := l.wal.more(); err != nil {
			l.Close()
			continue
		}
		rep, seq, err := l.wal.Next()
		switch {
		case errors.Is(err, ErrWALGap):
			return nil, 0, err
		case err != nil || rep == nil:
			l.Close() // it may have been at the end of a log that another has followed
			continue
		}
		skip = int(l.next - min(seq, l.next))
		l.next = l.wal.next
		return rep, skip, nil
	}
	return nil, 0, nil
}

// Close frees what is open. The reader can be used on.
func (l *Log) Close() {
	if l.wal != nil {
		l.wal.Close()
		l.wal = nil
	}
}
