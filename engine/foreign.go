package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/lock"
)

// ForeignBatch is a write batch of another server, from its log, that was found sound: see [DB.CheckBatch]. Its bytes
// must not be changed while it is in use.
//
// What basalt keeps in memory of a key is right only as long as whoever writes the key says so. A batch from outside
// names no command, so everything follows from its records: the keys to be locked, how the counts of keys change, what
// is forgotten. See [Tx.AcquireFor] and [Tx.Apply].
type ForeignBatch struct {
	rep         []byte
	records     int      // without log data
	locks       []uint64 // names, sorted when the check has ended
	allLocks    bool
	collections bool // it touches what state may be derived from

	// What it changes of the propagate family, which belongs to no namespace and of which the server has a copy.
	Namespaces bool // the tokens of namespaces
	Libraries  bool // function libraries
	Scripts    bool // scripts are deleted or replaced
	// Tokens: there are namespaces among what it puts.
	Tokens bool

	// trusted: it comes from the master of this database, and is written as it is.
	trusted bool
	// alone: it is not written together with others. A replica of Kvrocks takes from a batch its last message, and what
	// the last record of the propagate family says. A range delete is compared with every record of the write.
	alone  bool
	newest uint64 // the newest version among the metadata records that it puts
	// Messages are what PUBLISH has sent to the channels of the master: channel and message in turn.
	Messages [][]byte
}

// Bounds of a batch from outside, besides the length that the setting of batches allows: a record takes some 100
// bytes of memory while it is applied, and a range delete is compared with every record.
const (
	maxForeignRecords = 1 << 22
	maxForeignRanges  = 1 << 28 // records times ranges
)

// metaRangeCost is how many ranges of another family a range delete of metadata counts for: its keys are counted.
const metaRangeCost = 16

// CheckBatch checks a write batch that was made elsewhere. RocksDB itself would notice most of what may be wrong only
// after it has written the batch to its log, and accept no more writes then.
//
// The batch must be well-formed, hold as many records as it says, put, delete or delete ranges in the known families,
// and its keys and metadata records must be of the format of package cf; with slots, the slot of each key must be its
// own. The sequence number does not matter: the batch gets one of this database.
func (db *DB) CheckBatch(rep []byte) (*ForeignBatch, error) {
	if limit := db.maxBatchBytes.Load(); limit > 0 && int64(len(rep)) > limit {
		return nil, ErrBatchSize
	}
	return db.checkBatch(rep, false)
}

// checkBatch is CheckBatch, or with trusted [DB.CheckUpdate].
func (db *DB) checkBatch(rep []byte, trusted bool) (*ForeignBatch, error) {
	r, err := batch.NewReader(rep)
	if err != nil {
		return nil, foreignError(err)
	}
	b := &ForeignBatch{rep: rep, trusted: trusted}
	check := batchCheck{db: db, b: b}
	for {
		rec, ok := r.Next()
		if !ok {
			break
		}
		if rec.Kind == batch.LogData || rec.Kind == batch.Noop {
			continue
		}
		if err := check.record(&rec); err != nil && !check.pass(&rec) {
			return nil, foreignError(fmt.Errorf("%s at byte %d: %w", rec.Kind, rec.Offset, err))
		}
		if b.records++; b.records > maxForeignRecords && !trusted {
			return nil, foreignError(fmt.Errorf("more than %d records", maxForeignRecords))
		}
	}
	if err := r.Err(); err != nil {
		return nil, foreignError(err)
	}
	b.compactLocks()
	if b.records*check.ranges > maxForeignRanges && !trusted {
		return nil, foreignError(fmt.Errorf("too many range deletes for %d records", b.records))
	}
	return b, nil
}

func foreignError(err error) error { return NewError("ERR", "invalid write batch: "+err.Error()) }

// batchCheck goes over the records of a batch.
type batchCheck struct {
	db     *DB
	b      *ForeignBatch
	ranges int
	nsKey  []byte
	nsEnd  []byte
}

func (c *batchCheck) record(rec *batch.Record) error {
	switch rec.Kind {
	case batch.Put, batch.Delete, batch.SingleDelete:
	case batch.DeleteRange:
		return c.deleteRange(rec)
	default:
		return fmt.Errorf("a record of this kind is not accepted")
	}
	switch rec.Family {
	case cf.Metadata:
		if err := c.key(rec.Key); err != nil {
			return err
		}
		if rec.Kind == batch.Put {
			m, _, err := cf.DecodeMeta(rec.Value)
			if err != nil {
				return err
			}
			c.b.collections = c.b.collections || !m.Type.SingleRecord()
			c.b.newest = max(c.b.newest, m.Version)
		}
		return nil
	case cf.Default, cf.ZSetScore, cf.Stream:
		c.b.collections = true
		sub, err := cf.ParseSubkey(rec.Key, c.db.slots)
		if err != nil {
			return err
		}
		if rec.Family == cf.ZSetScore && len(sub.Sub) < cf.ScoreLen {
			return fmt.Errorf("%w: a key of zset_score without a score", cf.ErrCorrupt)
		}
		if c.nsKey, err = cf.AppendNSKeyOf(c.nsKey[:0], rec.Key, c.db.slots); err != nil {
			return err
		}
		return c.key(c.nsKey)
	case cf.Propagate:
		return c.propagate(rec)
	case cf.PubSub:
		c.b.alone = true
		if rec.Kind == batch.Put {
			c.b.Messages = append(c.b.Messages, rec.Key, rec.Value)
		}
		return nil
	case cf.Search:
		return nil
	}
	return fmt.Errorf("there is no column family %d", rec.Family)
}

// pass reports whether a record that this version does not understand is written all the same: what a master has
// written it may have been taught by a newer version. Nothing is known then of what it changes.
func (c *batchCheck) pass(rec *batch.Record) bool {
	known := rec.Family < cf.NumFamilies
	if !c.b.trusted || !known && !c.db.hasFamily(rec.Family) {
		return false // RocksDB would notice it when the batch is in its log
	}
	switch rec.Kind {
	case batch.Put, batch.Delete, batch.SingleDelete:
	case batch.DeleteRange:
		c.b.alone = true
		if bytes.Compare(rec.Key, rec.Value) > 0 {
			return false
		}
	default:
		return false
	}
	if known {
		c.b.allLocks, c.b.collections = true, true
	}
	return true
}

// key checks a metadata key and asks for its lock.
func (c *batchCheck) key(nsKey []byte) error {
	ns, userKey, err := cf.SplitNSKey(nsKey, c.db.slots)
	if err != nil {
		return err
	}
	if c.db.slots {
		if slot := binary.BigEndian.Uint16(nsKey[1+len(ns):]); slot != cf.Slot(userKey) {
			return fmt.Errorf("%w: a key of slot %d is said to be of slot %d", cf.ErrCorrupt, cf.Slot(userKey), slot)
		}
	}
	c.b.lock(c.db.locks.Name(nsKey))
	return nil
}

// maxForeignLocks is how many locks are taken one by one: a batch that needs more gets all.
const maxForeignLocks = 1 << 14

// lock notes that a lock is needed.
func (b *ForeignBatch) lock(name uint64) {
	if b.allLocks || len(b.locks) > 0 && b.locks[len(b.locks)-1] == name {
		return // most records are of the same collection as the ones before
	}
	if b.locks = append(b.locks, name); len(b.locks) > 2*maxForeignLocks {
		b.compactLocks()
	}
}

func (b *ForeignBatch) compactLocks() {
	slices.Sort(b.locks)
	b.locks = slices.Compact(b.locks)
	if b.allLocks = b.allLocks || len(b.locks) > maxForeignLocks; b.allLocks {
		b.locks = nil
	}
}

// deleteRange checks that the bounds are in order: RocksDB looks at that when the batch is in its log already.
func (c *batchCheck) deleteRange(rec *batch.Record) error {
	if rec.Family >= cf.NumFamilies {
		return fmt.Errorf("there is no column family %d", rec.Family)
	}
	if bytes.Compare(rec.Key, rec.Value) > 0 {
		return fmt.Errorf("the end of the range comes before its beginning")
	}
	c.ranges++
	c.b.alone = true
	switch rec.Family {
	case cf.Metadata:
		c.ranges += metaRangeCost - 1
		c.b.collections, c.b.allLocks = true, true
	case cf.Default, cf.ZSetScore, cf.Stream:
		c.b.collections = true
		if nsKey, ok := c.oneKey(rec.Key, rec.Value); ok {
			return c.key(nsKey)
		}
		c.b.allLocks = true
	case cf.Propagate:
		c.b.allLocks, c.b.Namespaces, c.b.Libraries, c.b.Scripts = true, true, true, true
	}
	return nil
}

// oneKey returns the metadata key that a range of subkeys belongs to; false when it may reach over several.
func (c *batchCheck) oneKey(begin, end []byte) (nsKey []byte, ok bool) {
	var err error
	if c.nsKey, err = cf.AppendNSKeyOf(c.nsKey[:0], begin, c.db.slots); err != nil {
		return nil, false
	}
	if c.nsEnd, err = cf.AppendNSKeyOf(c.nsEnd[:0], end, c.db.slots); err != nil || !bytes.Equal(c.nsKey, c.nsEnd) {
		return nil, false
	}
	return c.nsKey, true
}

// propagate notes what of the server's copies changes. Whatever else other versions keep in the family is taken over.
func (c *batchCheck) propagate(rec *batch.Record) error {
	if string(rec.Key) == cf.PropagateRedisMaster {
		return nil // it is in every batch of a replica of Redis, and nobody reads it but who has written it
	}
	c.b.alone = true
	c.b.allLocks = true // as all who change libraries have them
	is := func(prefix string) bool { return bytes.HasPrefix(rec.Key, []byte(prefix)) }
	switch {
	case string(rec.Key) == cf.PropagateNamespaces:
		c.b.Namespaces = true
		if rec.Kind == batch.Put { // without it the next start would fail
			tokens, err := cf.DecodeNamespaces(rec.Value)
			if err != nil {
				return err
			}
			c.b.Tokens = c.b.Tokens || len(tokens) > 0
		}
	case is(cf.PropagateLibrary), is(cf.PropagateFunction):
		c.b.Libraries = true
	case is(cf.PropagateScript), string(rec.Key) == cf.PropagateScriptFlush:
		c.b.Scripts = true
	}
	return nil
}

// Len returns the length of the batch in bytes.
func (b *ForeignBatch) Len() int { return len(b.rep) }

// AcquireFor takes the locks that [Tx.Apply] needs, in place of those that were asked for. With an error, see Acquire,
// none is held.
func (tx *Tx) AcquireFor(b *ForeignBatch) error {
	if b.allLocks {
		return tx.AcquireAll()
	}
	tx.locks.Forget()
	for _, name := range b.locks {
		tx.locks.Add(lock.Of(name, true))
	}
	return tx.Acquire()
}

// Apply writes the records of a batch of another server, in their order and with its log data, into the transaction,
// which has the locks of AcquireFor. What basalt keeps in memory of the keys follows with the commit.
//
// A single delete becomes a delete: on a key that was written more than once, RocksDB would bring an older value back.
func (tx *Tx) Apply(b *ForeignBatch) error {
	began := tx.ns
	defer tx.SwitchNamespace(began)
	if b.collections {
		// The locks are held, so nobody learns anything of these keys again until they hold what the batch says.
		tx.forget(b)
	}
	tx.foreign = true
	r, err := batch.NewReader(b.rep)
	if err != nil {
		return err
	}
	for {
		rec, ok := r.Next()
		if !ok {
			return r.Err()
		}
		switch rec.Kind {
		case batch.LogData:
			tx.LogData(rec.Value)
		case batch.Put:
			if rec.Family == cf.Metadata {
				m, _, err := cf.DecodeMeta(rec.Value)
				if err == nil {
					err = tx.noteForeign(rec.Key, &m)
				}
				if err != nil {
					return err
				}
			}
			tx.Put(rec.Family, rec.Key, rec.Value)
		case batch.Delete, batch.SingleDelete:
			if rec.Family == cf.Metadata {
				if err := tx.noteForeign(rec.Key, nil); err != nil {
					return err
				}
			}
			tx.Delete(rec.Family, rec.Key)
		case batch.DeleteRange:
			if rec.Family == cf.Metadata {
				if err := tx.countOff(rec.Key, rec.Value); err != nil {
					return err
				}
			}
			tx.DeleteRange(rec.Family, rec.Key, rec.Value)
		}
	}
}

// noteForeign notes how a metadata record of a foreign batch changes the count of keys.
func (tx *Tx) noteForeign(nsKey []byte, next *cf.Meta) error {
	ns, _, err := cf.SplitNSKey(nsKey, tx.db.slots)
	if err != nil {
		return err
	}
	if string(ns) != tx.ns {
		tx.SwitchNamespace(string(ns))
	}
	tx.replace(nsKey, next)
	return nil
}

// countOffMost is how many keys of a range are counted one by one.
const countOffMost = 10000

// countOff takes the keys of a range that is going to be deleted off the counts. All locks are held. If there are many,
// the namespaces of which the range leaves something are counted again after the commit.
func (tx *Tx) countOff(begin, end []byte) error {
	if bytes.Equal(begin, end) {
		return nil
	}
	it := tx.Iter(cf.Metadata, IterOptions{Lower: begin, Upper: end, ValueMax: cf.MaxHead, NoFill: true,
		Limit: countOffMost})
	defer it.Close()
	deltas, touched := len(tx.deltas), len(tx.touched)
	for n := 0; it.Next(); n++ {
		if n == countOffMost {
			tx.deltas, tx.touched = tx.deltas[:deltas], append(tx.touched[:touched], touch{all: true})
			tx.recount(begin, end)
			return nil
		}
		ns, _, err := cf.SplitNSKey(it.Key(), tx.db.slots)
		if err != nil {
			continue
		}
		m, _, err := cf.DecodeMeta(it.Value())
		if err != nil {
			continue
		}
		if string(ns) != tx.ns {
			tx.SwitchNamespace(string(ns))
		}
		tx.note(it.Key(), m, true, nil)
	}
	return it.Err()
}

// recount makes the counts of all namespaces right that have or may have metadata keys in [begin, end), which the
// transaction deletes.
func (tx *Tx) recount(begin, end []byte) {
	for _, ns := range tx.db.Namespaces() {
		lower := cf.AppendNSPrefix(nil, ns)
		upper, ok := cf.AppendSuccessor(nil, lower)
		switch {
		case bytes.Compare(lower, end) >= 0 || ok && bytes.Compare(upper, begin) <= 0:
		case ok && bytes.Compare(begin, lower) <= 0 && bytes.Compare(upper, end) <= 0:
			tx.deltas = append(tx.deltas, countDelta{c: tx.db.counts.of(ns), kind: keysGone, now: tx.now})
		default:
			tx.OnCommit(func() { tx.db.rescan(ns) })
		}
	}
}

// touchForeign tells of the range deletes of subkeys in a batch from outside. (Those that the data types make come with
// a write of the key's metadata record.)
func (tx *Tx) touchForeign(r *rangeDelete, key func(nsKey []byte)) {
	c := batchCheck{db: tx.db}
	if nsKey, ok := c.oneKey(r.begin, r.end); ok {
		key(nsKey)
		return
	}
	t, end := &tx.db.watches, metadataEnd
	t.flushed(nil, end)
	if o := t.observer.Load(); o != nil {
		(*o).Flushed(tx.Origin, nil, end)
	}
}
