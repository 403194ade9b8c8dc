package engine

import (
	"errors"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/keycount"
)

// The keys of cluster slots. In a database whose keys carry their slots, the keys of a range of slots are adjacent in
// each family, behind the prefix of the default namespace: a cluster has no other namespace.

// AppendSlotPrefix appends the common prefix of all keys of a slot, metadata keys and subkeys. For NumSlots it appends
// a key behind those of the last slot.
func AppendSlotPrefix(dst []byte, slot int) []byte {
	dst = cf.AppendNSPrefix(dst, cf.DefaultNamespace)
	return append(dst, byte(slot>>8), byte(slot))
}

// SlotBounds returns the bounds [lower, upper) of all keys of a range of slots.
func SlotBounds(r cf.SlotRange) (lower, upper []byte) {
	return AppendSlotPrefix(nil, int(r.First)), AppendSlotPrefix(nil, int(r.Last)+1)
}

// slotFamilies hold keys of slots. The subkeys are deleted too, and not just the metadata records that make them
// reachable: when a slot returns, the versions of its collections return as well.
var slotFamilies = [...]cf.ID{cf.Metadata, cf.Default, cf.ZSetScore, cf.Stream}

// DeleteSlots deletes everything in a range of slots, by one range tombstone for each family that has keys in the
// range. It holds all locks for a moment. No transaction may write to the slots during the whole call, because the keys
// are counted beforehand (if they are many, without locks). Expiries in the meantime do not matter. If Replace
// exchanges the database meanwhile, DeleteSlots deletes nothing and fails with [ErrLoading].
func (db *DB) DeleteSlots(r cf.SlotRange) error {
	lower, upper := SlotBounds(r)
	exchanges := db.exchange.count.Load()
	in, err := db.findInSlots(lower, upper)
	if err != nil || len(in.families) == 0 {
		return err
	}
	return db.exclusiveRetry(func(tx *Tx) error {
		if db.exchange.count.Load() != exchanges {
			return ErrLoading
		}
		if in.few {
			if err := tx.countOff(lower, upper); err != nil {
				return err
			}
		} else {
			for end, n := range in.ends {
				tx.count(keycount.Record{Exists: true, End: end}, -n)
			}
		}
		for _, id := range in.families {
			if id == cf.Metadata {
				tx.flushRange(lower, upper)
			} else {
				tx.DeleteRange(id, lower, upper)
			}
		}
		return nil
	})
}

// inSlots is what a range of slots holds.
type inSlots struct {
	families []cf.ID
	ends     map[uint64]int32 // numbers of keys, by their ends
	few      bool             // the keys are few enough to be counted with all locks held
}

// findInSlots finds out what a range of slots holds. Its transaction must end before the caller waits for locks:
// Replace waits for transactions that have begun, and lets none have a lock meanwhile.
func (db *DB) findInSlots(lower, upper []byte) (in inSlots, err error) {
	tx := db.NewTx()
	tx.Begin(cf.DefaultNamespace)
	defer tx.Release()
	for _, id := range slotFamilies {
		some, err := tx.any(id, lower, upper)
		if err != nil {
			return in, err
		}
		if some {
			in.families = append(in.families, id)
		}
	}
	if len(in.families) > 0 {
		in.ends, in.few, err = tx.countSlots(lower, upper)
	}
	return in, err
}

// any reports whether a family has a key in a range. With many tombstones it may report true for an empty range.
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

// countSlots counts keys by their ends. few says that the keys are few enough to be counted with all locks held.
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

// exclusiveRetry is exclusive that tries again while a transaction makes others fail.
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

// Log reads the log from one sequence number on and follows it. Reaching the end, however often, costs no search,
// unlike a new [WAL]. One goroutine uses it.
type Log struct {
	db   *DB
	wal  *WAL
	next uint64 // the sequence number of the next record
}

// Log returns a reader of the writes from a sequence number on.
func (db *DB) Log(next uint64) *Log { return &Log{db: db, next: next} }

// Sequence returns the number of the next record.
func (l *Log) Sequence() uint64 { return l.next }

// Next returns the next write batch; nil when none exists yet. skip is how many of its records come before the sequence
// number at which the reader began. Next fails with [ErrWALGap] where the log lacks writes.
func (l *Log) Next() (rep []byte, skip int, err error) {
	if l.db.LatestSequence() < l.next {
		return nil, 0, nil
	}
	for range 2 {
		if l.wal == nil {
			if l.wal, err = l.db.WAL(l.next); err != nil {
				return nil, 0, err
			}
		} else if err := l.wal.it.More(); err != nil {
			l.Close()
			continue
		}
		rep, seq, err := l.wal.Next()
		switch {
		case errors.Is(err, ErrWALGap):
			return nil, 0, err
		case err != nil || rep == nil:
			l.Close() // it may have been at the end of a log that another log has followed
			continue
		}
		skip = int(l.next - min(seq, l.next))
		l.next = l.wal.next
		return rep, skip, nil
	}
	return nil, 0, nil
}

// Close frees the open resources. The reader stays usable.
func (l *Log) Close() {
	if l.wal != nil {
		l.wal.Close()
		l.wal = nil
	}
}
