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

// ExternalBatch is a write batch from the log of another server that has passed [DB.CheckBatch]. Its bytes must not be
// changed while it is in use.
//
// The state that basalt keeps in memory for a key is correct only if every writer of the key reports its writes. A
// batch from outside names no command, so everything follows from its records: the keys to lock, the changes of the key
// counts, the cached state to forget. See [Tx.AcquireFor] and [Tx.Apply].
type ExternalBatch struct {
	rep         []byte
	records     int      // without log data
	locks       []uint64 // names, sorted when the check has ended
	allLocks    bool
	collections bool // it touches keys from which state may be derived

	// Its changes of the propagate family, which belongs to no namespace. The server has a copy of it in memory.
	Namespaces bool // the tokens of namespaces
	Libraries  bool // function libraries
	Scripts    bool // scripts are deleted or replaced
	SlotMarks  bool // what migration has recorded about slots
	Indexes    bool // the definitions of search indexes, of which the server has a copy, too
	// Tokens: the tokens that it puts include namespaces.
	Tokens bool

	// trusted: it comes from the master of this database, and is written unchanged.
	trusted bool
	// alone: it is not written together with others. A replica of Kvrocks takes from a batch only its last message and
	// the last record of the propagate family. A range delete is compared with every record of the write.
	alone  bool
	newest uint64 // the newest version in the metadata records that it puts
	// Messages are the messages that PUBLISH sent on the master: channel and message, alternating.
	Messages [][]byte
}

// Limits of a batch from outside, besides the maximal length of batches in the settings: applying a record takes some
// 100 bytes of memory, and a range delete is compared with every record.
const (
	maxExternalRecords = 1 << 22
	maxExternalRanges  = 1 << 28 // records times ranges
)

// metaRangeCost: a range delete of metadata counts as so many range deletes of another family, because its keys are
// counted.
const metaRangeCost = 16

// CheckBatch checks a write batch from elsewhere. RocksDB itself would detect most faults only after it has written the
// batch to its log, and would then accept no more writes.
//
// The batch must be well-formed, hold the number of records that its head says, and only put, delete or delete ranges
// in the known families. Its keys and metadata records must have the format of package cf; with slots, each key must
// have its own slot. The sequence number does not matter: the batch gets one of this database.
func (db *DB) CheckBatch(rep []byte) (*ExternalBatch, error) {
	if limit := db.maxBatchBytes.Load(); limit > 0 && int64(len(rep)) > limit {
		return nil, ErrBatchSize
	}
	return db.checkBatch(rep, false)
}

// checkBatch is CheckBatch, or with trusted [DB.CheckUpdate].
func (db *DB) checkBatch(rep []byte, trusted bool) (*ExternalBatch, error) {
	r, err := batch.NewReader(rep)
	if err != nil {
		return nil, foreignError(err)
	}
	b := &ExternalBatch{rep: rep, trusted: trusted}
	check := batchCheck{db: db, b: b}
	for rec, ok := r.Next(); ok; rec, ok = r.Next() {
		if rec.Kind == batch.LogData || rec.Kind == batch.Noop {
			continue
		}
		if err := check.record(&rec); err != nil && !check.pass(&rec) {
			return nil, foreignError(fmt.Errorf("%s at byte %d: %w", rec.Kind, rec.Offset, err))
		}
		if b.records++; b.records > maxExternalRecords && !trusted {
			return nil, foreignError(fmt.Errorf("more than %d records", maxExternalRecords))
		}
	}
	if err := r.Err(); err != nil {
		return nil, foreignError(err)
	}
	b.compactLocks()
	if b.records*check.ranges > maxExternalRanges && !trusted {
		return nil, foreignError(fmt.Errorf("too many range deletes for %d records", b.records))
	}
	return b, nil
}

func foreignError(err error) error { return NewError("ERR", "invalid write batch: "+err.Error()) }

// batchCheck iterates over the records of a batch.
type batchCheck struct {
	db     *DB
	b      *ExternalBatch
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
		_, err := c.db.checkSubkey(rec)
		if err != nil {
			return err
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
		c.search(rec.Key)
		return nil
	case cf.Index:
		k, err := cf.ParseIndexKey(rec.Key)
		if err != nil {
			return err
		}
		if c.db.hasFamily(cf.Index) {
			c.nsKey = cf.AppendNSKey(c.nsKey[:0], string(k.Namespace), k.UserKey, c.db.slots)
			return c.key(c.nsKey)
		}
	}
	return fmt.Errorf("there is no column family %d", rec.Family)
}

// checkSubkey parses the key of an element of a collection.
func (db *DB) checkSubkey(rec *batch.Record) (cf.Subkey, error) {
	sub, err := cf.ParseSubkey(rec.Key, db.slots)
	if err == nil && rec.Family == cf.ZSetScore && len(sub.Sub) < cf.ScoreLen {
		err = fmt.Errorf("%w: a key of zset_score without a score", cf.ErrCorrupt)
	}
	return sub, err
}

// pass reports whether a record that this version cannot decode is written nevertheless: a master of a newer version
// may have written it. The effects of such a record are unknown.
func (c *batchCheck) pass(rec *batch.Record) bool {
	known := rec.Family < cf.NumFamilies // the labels in cf.Index do not matter to the state in memory
	if !c.b.trusted || !known && !c.db.hasFamily(rec.Family) {
		return false // RocksDB would detect it only when the batch is in its log
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

// key checks a metadata key and requests its lock.
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

// maxForeignLocks is the max number of locks that are taken one by one. A batch that needs more takes all locks.
const maxForeignLocks = 1 << 14

// lock notes that the batch needs a lock.
func (b *ExternalBatch) lock(name uint64) {
	if b.allLocks || len(b.locks) > 0 && b.locks[len(b.locks)-1] == name {
		return // most records are of the same collection as the ones before
	}
	if b.locks = append(b.locks, name); len(b.locks) > 2*maxForeignLocks {
		b.compactLocks()
	}
}

func (b *ExternalBatch) compactLocks() {
	slices.Sort(b.locks)
	b.locks = slices.Compact(b.locks)
	if b.allLocks = b.allLocks || len(b.locks) > maxForeignLocks; b.allLocks {
		b.locks = nil
	}
}

// deleteRange checks that the bounds are in order: RocksDB checks that only when the batch is in its log already.
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
		c.b.allLocks, c.b.Namespaces, c.b.Libraries, c.b.Scripts, c.b.SlotMarks = true, true, true, true, true
	case cf.Search:
		c.b.Indexes, c.b.allLocks = true, true
	}
	return nil
}

// search requests the lock that a record of the search family needs. Those of the entries of tags and numbers are the
// locks of their keys. An insertion into a graph reads and writes the records of many keys. A definition changes what
// every other transaction must index.
func (c *batchCheck) search(key []byte) {
	k, err := cf.ParseSearchKey(key)
	if err != nil || k.Kind != cf.SearchFieldData {
		c.b.Indexes, c.b.allLocks = true, true
		return
	}
	if _, err := cf.ParseSearchGraph(k.Data); err == nil {
		ns := string(k.Namespace)
		c.nsKey = cf.AppendNSKey(c.nsKey[:0], ns, GraphLock(ns, k.Index), c.db.slots)
		c.b.lock(c.db.locks.Name(c.nsKey))
	}
}

// GraphLock returns the key whose lock in the namespace the transactions take that change graphs of a search index.
func GraphLock(ns string, index []byte) []byte {
	return cf.AppendSearchPrefix(nil, ns, cf.SearchFieldData, index)
}

// oneKey returns the metadata key of the collection that a range of subkeys belongs to; false when the range may
// contain several collections.
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

// propagate notes which of the server's in-memory copies change. Other records of the family, from other versions, are
// accepted.
func (c *batchCheck) propagate(rec *batch.Record) error {
	switch string(rec.Key) {
	case cf.PropagateRedisMaster: // every batch of a replica of Redis has it, and only its writer reads it
		return nil
	case cf.PropagateImport: // the next master reads it in the database
		return nil
	case cf.PropagateSlotMarks:
		c.b.SlotMarks = true
		return nil
	}
	c.b.alone = true
	c.b.allLocks = true // as all transactions that change libraries
	is := func(prefix string) bool { return bytes.HasPrefix(rec.Key, []byte(prefix)) }
	switch {
	case string(rec.Key) == cf.PropagateNamespaces:
		c.b.Namespaces = true
		if rec.Kind == batch.Put { // unchecked, it could make the next start fail
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

// EachKey calls f with the keys whose metadata records or subkeys the batch puts or deletes one by one, until f fails.
// It may call f with a key more than once.
func (b *ExternalBatch) EachKey(slots bool, f func(ns, key []byte) error) error {
	r, err := batch.NewReader(b.rep)
	if err != nil {
		return err
	}
	var last, next []byte
	for rec, ok := r.Next(); ok; rec, ok = r.Next() {
		switch {
		case rec.Kind > batch.SingleDelete:
			continue
		case rec.Family == cf.Metadata:
			next = append(next[:0], rec.Key...)
		case rec.Family == cf.Default:
			if next, err = cf.AppendNSKeyOf(next[:0], rec.Key, slots); err != nil {
				continue
			}
		default:
			continue
		}
		if bytes.Equal(next, last) {
			continue
		}
		last = append(last[:0], next...)
		if ns, key, err := cf.SplitNSKey(last, slots); err == nil {
			if err := f(ns, key); err != nil {
				return err
			}
		}
	}
	return r.Err()
}

// AcquireFor takes the locks that [Tx.Apply] needs, in place of the requested locks. If it returns an error (see
// Acquire), the transaction holds no lock.
func (tx *Tx) AcquireFor(b *ExternalBatch) error {
	if b.allLocks {
		return tx.AcquireAll()
	}
	tx.locks.Forget()
	for _, name := range b.locks {
		tx.locks.Add(lock.Of(name, true))
	}
	return tx.Acquire()
}

// Apply copies the records of a batch of another server, in their order and with its log data, into the transaction,
// which must hold the locks of AcquireFor. The commit updates the state that basalt keeps in memory for the keys.
//
// A single delete becomes a delete: for a key that was written more than once, a single delete may make an older value
// visible again.
func (tx *Tx) Apply(b *ExternalBatch) error {
	began := tx.ns
	defer tx.SwitchNamespace(began)
	if b.collections {
		// The locks are held, so no state of these keys is cached again until they hold what the batch says.
		tx.forget(b)
	}
	tx.foreign = true
	r, err := batch.NewReader(b.rep)
	if err != nil {
		return err
	}
	for rec, ok := r.Next(); ok; rec, ok = r.Next() {
		if rec.Family == cf.Propagate && string(rec.Key) == cf.PropagateBitOrder {
			// Keys may be bitmaps: then the order stays as it is.
			if keep, err := tx.any(cf.Metadata, nil, metadataEnd); err != nil {
				return err
			} else if keep {
				continue
			}
		}
		if err := tx.follow(&rec); err != nil {
			return err
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
	return r.Err()
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

// countOffMost is the max number of keys of a range that are counted one by one.
const countOffMost = 10000

// countOff subtracts the keys of a range that is about to be deleted from the key counts. All locks must be held. If
// the range has many keys, the namespaces that keep other keys are counted again after the commit.
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
			return tx.recount(begin, end, true)
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
	if err := it.Err(); err != nil {
		return err
	}
	return tx.recount(begin, end, false)
}

// recount corrects the counts of the namespaces that have or may have metadata keys in [begin, end), which the
// transaction deletes. A namespace that keeps no key has none, even where its count was an estimate; with scan the
// others are counted again.
func (tx *Tx) recount(begin, end []byte, scan bool) error {
	for _, ns := range tx.db.Namespaces() {
		lower := cf.AppendNSPrefix(nil, ns)
		upper, ok := cf.AppendSuccessor(nil, lower)
		if bytes.Compare(lower, end) >= 0 || ok && bytes.Compare(upper, begin) <= 0 {
			continue
		}
		keeps, err := !ok, error(nil)
		if !keeps && bytes.Compare(lower, begin) < 0 {
			keeps, err = tx.any(cf.Metadata, lower, begin)
		}
		if !keeps && err == nil && bytes.Compare(end, upper) < 0 {
			keeps, err = tx.any(cf.Metadata, end, upper)
		}
		switch {
		case err != nil:
			return err
		case !keeps:
			tx.deltas = append(tx.deltas, countDelta{c: tx.db.counts.of(ns), kind: keysGone, now: tx.now})
		case scan:
			tx.OnCommit(func() { tx.db.rescan(ns) })
		}
	}
	return nil
}

// touchForeign reports the range deletes of subkeys in a batch from outside. (Range deletes of the data types come with
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
