package engine

import (
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/keycount"
	"github.com/basaltdb/basalt/engine/lock"
	"github.com/basaltdb/basalt/engine/rocks"
)

// Tx is a transaction: reads see its own earlier writes, and its writes are committed together by one write to
// the WAL, or not at all. It is used by one goroutine and can be used again after Release.
//
// Life: Begin, AddLock for every key, Acquire, reads and writes, Commit, Release. [DB.Update] and [DB.View] do
// that for library users. From Begin to Release the database stays open; one that was begun on a closed database fails
// with [ErrClosed] as soon as it needs the database, at its commit at the latest.
//
// Slices that reads return are valid until Begin or Release and must not be changed.
type Tx struct {
	// Origin is what an [Observer] is told of whose commit it is; the transaction does not look at it.
	Origin any
	// Local is for the user of the transaction: what is to last as long as its writes. Begin and Release set it to nil.
	Local any

	db      *DB
	lane    *rocks.Lane
	entered bool // the database stays open
	ns      string
	nsCount *keycount.Counter // of ns; nil = not needed so far
	now     int64
	locks   lock.Set
	batch   batch.Builder
	over    overlay
	arena   arena
	undo    []inPlace // in-place overwrites since the last savepoint
	deltas  []countDelta
	touched []touch // keys whose entry in the presence cache changes with the commit
	hooks   []func()
	cacheOK bool // reads of metadata may be kept: the keys are locked for the whole transaction

	keyBuf []byte
	valBuf []byte
	list   KeyList
	vals   [][]byte
	// batchBytes is how many bytes the last batched read of the transaction has brought.
	batchBytes int

	missBuf []byte
	iterBuf []byte
	hashes  []uint64 // of keys that are looked up together
	// touchedSum keeps the compiler from leaving out loads that are made only for the processor's caches.
	touchedSum uint8
	mark       Mark
	// committed: what the batch holds is written.
	committed bool
	foreign   bool // Apply was called
	update    bool // the batch is of the master, see ApplyUpdates
	yielding  bool // see YieldToOthers
	ofMaster  bool // see FromMaster
	req       commitRequest
	combined  error // the result for the transactions whose jobs were run in this one
}

// maxKeptBatch is how large a batch may be for its memory to be used again, in bytes.
const maxKeptBatch = 1 << 20

// touch is a change of the presence cache.
type touch struct {
	hash  uint64
	plain bool
	all   bool // every key is gone
}

// inPlace remembers what an in-place overwrite replaced.
type inPlace struct {
	at  int
	old []byte
}

// Mark is a point in a transaction to which it can be rolled back.
type Mark struct {
	batch   batch.Mark
	at      int // length of the batch
	deltas  int
	touched int
	hooks   int
	undo    int // overwrites before it, of savepoints around this one
}

// NewTx makes a transaction object.
func (db *DB) NewTx() *Tx {
	tx := &Tx{db: db, lane: db.rocks.Lane()}
	tx.over.seed = db.locks.Seed()
	tx.over.batch = &tx.batch
	tx.batch.Reset()
	tx.req.told = make(chan outcome, 1)
	tx.locks.Init()
	return tx
}

// DB returns the database.
func (tx *Tx) DB() *DB { return tx.db }

// Begin starts a transaction in a namespace. An earlier one must have been released.
func (tx *Tx) Begin(ns string) {
	if !tx.entered {
		tx.entered = tx.lane.Enter()
	}
	tx.SwitchNamespace(ns)
	tx.reset()
	tx.now = time.Now().UnixMilli()
}

// usable returns an error when the transaction must not touch the database.
func (tx *Tx) usable() error {
	if !tx.entered {
		if tx.entered = tx.lane.Enter(); !tx.entered {
			return tx.db.shutError()
		}
	}
	return nil
}

// End is Release for one that may not have been begun: without Begin, the first read begins the transaction, with no
// locks.
func (tx *Tx) End() {
	if tx.entered {
		tx.Release()
	}
}

func (tx *Tx) reset() {
	tx.Local = nil
	tx.over.reset()
	if tx.batch.Cap() > maxKeptBatch {
		tx.batch = batch.Builder{}
	}
	tx.batch.Reset()
	tx.arena.reset()
	tx.undo = tx.undo[:0]
	tx.deltas = tx.deltas[:0]
	tx.touched = tx.touched[:0]
	clear(tx.hooks)
	tx.hooks = tx.hooks[:0]
	tx.mark = Mark{}
	tx.committed = false
	tx.foreign, tx.yielding, tx.ofMaster, tx.update = false, false, false, false
	tx.cacheOK = false
	tx.batchBytes = 0
	if cap(tx.iterBuf) > 128<<10 {
		tx.iterBuf = nil
	}
	if cap(tx.hashes) > 16<<10 {
		tx.hashes = nil
	}
}

// Namespace returns the namespace of the transaction.
func (tx *Tx) Namespace() string { return tx.ns }

// Now returns the time by which the transaction judges what has expired, in milliseconds since the epoch: the present,
// but 0 for one that is FromMaster.
func (tx *Tx) Now() int64 {
	if tx.ofMaster {
		return 0
	}
	return tx.now
}

// Clock returns the present as the transaction sees it, in milliseconds since the epoch.
func (tx *Tx) Clock() int64 { return tx.now }

// FromMaster says, after Begin, that the transaction runs commands that a master has run, for a database that is a
// replica: it is committed though clients cannot write, and only as long as the database is a replica. For it nothing
// has expired: the master says what has, and a key that it prolongs at the last moment must still be here, however late
// that arrives.
func (tx *Tx) FromMaster() { tx.ofMaster = true }

// IsFromMaster reports whether the transaction is FromMaster.
func (tx *Tx) IsFromMaster() bool { return tx.ofMaster }

// Tick moves the transaction's time on to the present. The pipeline calls it before every command.
func (tx *Tx) Tick(now int64) {
	if now > tx.now {
		tx.now = now
	}
}

// NSKey returns the metadata key of a user key; valid until the end of the transaction.
func (tx *Tx) NSKey(userKey []byte) []byte {
	b := tx.arena.take(1 + len(tx.ns) + 2 + len(userKey))
	return tx.arena.keep(cf.AppendNSKey(b, tx.ns, userKey, tx.db.slots))
}

// AddLock asks for the lock of a key, to be taken by Acquire.
func (tx *Tx) AddLock(userKey []byte, write bool) {
	tx.keyBuf = cf.AppendNSKey(tx.keyBuf[:0], tx.ns, userKey, tx.db.slots)
	tx.locks.Add(lock.Of(tx.db.locks.Name(tx.keyBuf), write))
}

// Acquire takes all locks that were asked for, in an order that cannot deadlock. It must not be called while
// locks are held. With an error, see FailWaiters, none is held.
func (tx *Tx) Acquire() error {
	if err := tx.locks.Acquire(tx.db.locks); err != nil {
		return err
	}
	tx.cacheOK = true
	return nil
}

// ReadsDone gives the locks of a transaction that only reads back early: the caller has fetched the metadata
// and created its iterators, which are snapshots. It does nothing when the transaction holds a lock for writing.
func (tx *Tx) ReadsDone() {
	if tx.locks.ReleaseReads(tx.db.locks) {
		tx.cacheOK = false
	}
}

// Locked reports whether the transaction has locks.
func (tx *Tx) Locked() bool { return tx.locks.Any() }

// KeepLocks makes ReadsDone do nothing until the end of the transaction: more commands come that are to see the same
// state.
func (tx *Tx) KeepLocks() { tx.locks.Pin() }

// Unlock gives back all locks and keeps what was read.
func (tx *Tx) Unlock() {
	tx.locks.Release(tx.db.locks)
	tx.cacheOK = false
}

// Release ends the transaction: the locks are given back and what was not committed is dropped.
func (tx *Tx) Release() {
	if !tx.committed && !tx.Empty() {
		tx.doubt()
	}
	tx.locks.Release(tx.db.locks)
	tx.locks.Forget()
	tx.locks.Combined(tx.combined)
	tx.combined = nil
	tx.reset()
	if tx.entered {
		tx.entered = false
		tx.lane.Leave()
	}
}

// Forget drops cached reads, so that later ones see the present state. Own writes stay.
func (tx *Tx) Forget() {
	if tx.batch.Count() == 0 && len(tx.over.ents) > 0 {
		tx.over.reset()
	}
}

// Savepoint marks a point to which the transaction can be rolled back; only the latest one counts, but see SavepointIn.
func (tx *Tx) Savepoint() Mark {
	tx.undo = tx.undo[:0]
	tx.mark = Mark{batch: tx.batch.Mark(), at: tx.batch.Len(), deltas: len(tx.deltas), touched: len(tx.touched),
		hooks: len(tx.hooks)}
	return tx.mark
}

// Wrote reports whether the transaction has written since the mark.
func (tx *Tx) Wrote(m Mark) bool { return tx.batch.Mark() != m.batch || len(tx.undo) > m.undo }

// Rollback drops the writes since the latest savepoint.
func (tx *Tx) Rollback(m Mark) error {
	if !tx.Wrote(m) {
		tx.hooks = tx.hooks[:m.hooks]
		return nil
	}
	tx.doubt()
	raw := tx.batch.Bytes()
	for i := len(tx.undo) - 1; i >= m.undo; i-- {
		copy(raw[tx.undo[i].at:], tx.undo[i].old)
	}
	tx.undo = tx.undo[:m.undo]
	tx.mark.undo = min(tx.mark.undo, m.undo)
	tx.batch.Truncate(m.batch)
	tx.deltas, tx.touched, tx.hooks = tx.deltas[:m.deltas], tx.touched[:m.touched], tx.hooks[:m.hooks]
	return tx.over.rebuild()
}

// Empty reports whether there is nothing to commit.
func (tx *Tx) Empty() bool { return tx.batch.Count() == 0 }

// Size returns the length of the write batch in bytes.
func (tx *Tx) Size() int { return tx.batch.Len() }

// Reserve makes room in the write batch for so many records, of so many bytes each with key and value: a large batch
// that grows is copied again and again.
func (tx *Tx) Reserve(records, bytes int) { tx.batch.Grow(records * (bytes + batch.MaxOverhead)) }

// BatchError returns the error with which the commit will end because the batch is too large, nil when it is not: for
// those who write much.
func (tx *Tx) BatchError() error {
	if limit := tx.db.maxBatchBytes.Load(); limit > 0 && int64(tx.batch.Len()) > limit {
		return ErrBatchSize
	}
	return nil
}

// Put writes a key.
func (tx *Tx) Put(id cf.ID, key, value []byte) { tx.put(id, key, value) }

// Replace is Put for a record that is written again and again: one that the transaction has written by Replace before
// is overwritten where it is in the batch if its length is the same. So a pipeline that counts something up many times
// writes it once.
func (tx *Tx) Replace(id cf.ID, key, value []byte) {
	if !tx.overwrite(id, key, value) {
		tx.put(id, key, value).saved = true
	}
}

// overwrite puts a value in the place of one of the same length that Save or Replace has written.
func (tx *Tx) overwrite(id cf.ID, key, value []byte) bool {
	e := tx.over.find(tx.over.hash(id, key), id, key)
	if e == nil || e.kind != written || !e.saved || e.valN != len(value) {
		return false
	}
	at := tx.over.valueOf(e)
	if e.valAt < tx.mark.at { // written before the savepoint
		tx.undo = append(tx.undo, inPlace{e.valAt, tx.arena.copy(at)})
	}
	copy(at, value)
	return true
}

func (tx *Tx) put(id cf.ID, key, value []byte) *entry {
	at := tx.batch.Put(id, key, value)
	return tx.over.write(id, key, at, len(value), written)
}

// Delete deletes a key.
func (tx *Tx) Delete(id cf.ID, key []byte) {
	tx.batch.Delete(id, key)
	tx.over.write(id, key, tx.batch.Len(), 0, deleted)
}

// DeleteRange deletes the keys in [begin, end).
func (tx *Tx) DeleteRange(id cf.ID, begin, end []byte) {
	tx.batch.DeleteRange(id, begin, end)
	tx.over.deleteRange(id, begin, end)
}

// LogData puts a record into the WAL that is no data: Kvrocks's readers of the WAL learn the command from it.
func (tx *Tx) LogData(b []byte) { tx.batch.LogData(b) }

// OnCommit registers a function to be called after the commit succeeded, while the locks are still held.
func (tx *Tx) OnCommit(f func()) { tx.hooks = append(tx.hooks, f) }

// Commit writes everything in one write to the WAL. On an error nothing was written.
//
// The transaction stays usable for reading; its locks are still held.
func (tx *Tx) Commit() error {
	err := tx.commit()
	tx.combined = err
	return err
}

func (tx *Tx) commit() error {
	if !tx.Empty() {
		tx.markWrites()
		err := tx.db.commit(tx)
		tx.writesDone(err == nil)
		if err != nil {
			tx.doubt()
			return err
		}
		tx.committed = true
		if tx.db.watches.n.Load() > 0 {
			tx.touchWatches()
		}
		if f := tx.db.expiry.Load(); f != nil {
			tx.reportExpiries(*f)
		}
	}
	for i := range tx.deltas {
		tx.deltas[i].apply()
	}
	tx.deltas = tx.deltas[:0]
	for _, t := range tx.touched {
		if t.all {
			tx.db.presence.Clear()
		} else {
			tx.db.presence.Note(t.hash, t.plain)
		}
	}
	tx.touched = tx.touched[:0]
	for i, f := range tx.hooks {
		f()
		tx.hooks[i] = nil
	}
	tx.hooks = tx.hooks[:0]
	return nil
}

// SavepointIn is Savepoint, but the transaction can still be rolled back to outer, an earlier one.
func (tx *Tx) SavepointIn(outer Mark) Mark {
	// An overwrite of what was written after outer is of no use to it: that is cut off.
	kept := tx.undo[:tx.mark.undo]
	for _, u := range tx.undo[tx.mark.undo:] {
		if u.at < outer.at {
			kept = append(kept, u)
		}
	}
	tx.undo = kept
	tx.mark = Mark{batch: tx.batch.Mark(), at: tx.batch.Len(), deltas: len(tx.deltas), touched: len(tx.touched),
		hooks: len(tx.hooks), undo: len(kept)}
	return tx.mark
}
