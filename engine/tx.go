package engine

import (
	"math"
	"time"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/batch"
	"github.com/basaltdb/basalt/engine/keycount"
	"github.com/basaltdb/basalt/engine/lock"
	"github.com/basaltdb/basalt/engine/rocks"
)

// Tx is a transaction. Reads see its own earlier writes, and its writes are committed together by one write to the WAL,
// or not at all. One goroutine uses a Tx. It can be reused after Release.
//
// The life cycle is Begin, AddLock for every key, Acquire, reads and writes, Commit, Release. [DB.Update] and [DB.View]
// do that for library users. The database stays open from Begin to Release. A transaction that was begun on a closed
// database fails with [ErrClosed] as soon as it needs the database, at the latest at its commit.
//
// Slices that reads return are valid until the next Begin or Release and must not be changed.
type Tx struct {
	// Origin tells an [Observer] whose commit it is. The transaction does not use it.
	Origin any
	// Local is for the caller: data that lasts as long as the transaction's writes. Begin and Release set it to nil.
	Local any

	db      *DB
	lane    *rocks.Lane
	entered bool // the transaction keeps the database open
	ns      string
	nsCount *keycount.Counter // of ns; nil = not needed so far
	now     int64
	locks   lock.Set
	batch   batch.Builder
	over    overlay
	arena   arena
	undo    []inPlace // in-place overwrites since the last savepoint
	deltas  []countDelta
	touched []touch // keys whose entries in the presence cache the commit changes
	hooks   []func()
	graph   graphChanges
	cacheOK bool // reads of metadata may be cached: the keys are locked for the whole transaction

	keyBuf []byte
	valBuf []byte
	list   KeyList
	vals   [][]byte
	// Of the last batched read: the values that the record cache gave before values were read from RocksDB that come
	// before them; and the first value that was too long, or the number of keys.
	early   []int
	leftOut int
	// batchBytes is how many bytes the last batched read of the transaction returned.
	batchBytes int

	missBuf []byte
	buffers iterBuffers
	hashes  []uint64  // of keys that are looked up together
	snap    *Snapshot // what a batched read reads, nil = the present
	// touchedSum keeps the compiler from removing loads that only fill the CPU caches.
	touchedSum uint8
	mark       Mark
	// committed: the content of the batch is written.
	committed bool
	foreign   bool // Apply was called
	update    bool // the batch is the master's, see ApplyUpdates
	yielding  bool // see YieldToOthers
	ofMaster  bool // see FromMaster
	stopped   bool // see StopReading
	req       commitRequest
	combined  error // the result for the transactions whose jobs were run in this one
}

// maxKeptBatch is the max size in bytes of a batch whose memory is reused.
const maxKeptBatch = 1 << 20

// touch is a change of the presence cache.
type touch struct {
	hash  uint64
	plain bool
	all   bool // every key is gone
}

// inPlace remembers the bytes that an in-place overwrite has replaced.
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

// Begin starts a transaction in a namespace. The previous one must have been released.
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

// End is Release for a transaction that may not have been begun: without Begin, the first read begins the transaction,
// without locks.
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
	tx.foreign, tx.yielding, tx.ofMaster, tx.update, tx.stopped = false, false, false, false, false
	tx.cacheOK = false
	tx.batchBytes = 0
	tx.buffers.trim()
	if cap(tx.hashes) > 16<<10 {
		tx.hashes = nil
	}
}

// Namespace returns the namespace of the transaction.
func (tx *Tx) Namespace() string { return tx.ns }

// Now returns the time by which the transaction judges expiries, in milliseconds since the epoch: the present, but 0
// for a transaction that is FromMaster.
func (tx *Tx) Now() int64 {
	if tx.ofMaster {
		return 0
	}
	return tx.now
}

// Clock returns the present as the transaction sees it, in milliseconds since the epoch.
func (tx *Tx) Clock() int64 { return tx.now }

// FromMaster says, after Begin, that the transaction runs commands that a master has run, for a database that is a
// replica: it is committed although clients cannot write, and only as long as the database is a replica. In such a
// transaction no key has expired: the master reports the expiries, and a key whose expiry the master prolongs at the
// last moment must still exist here, however late that report arrives.
func (tx *Tx) FromMaster() { tx.ofMaster = true }

// StopReading makes the iterators of the transaction end with an error as soon as they would read more. It is for a
// function that is called with each element of a collection and cannot use any more of them.
func (tx *Tx) StopReading() { tx.stopped = true }

// IsFromMaster reports whether the transaction is FromMaster.
func (tx *Tx) IsFromMaster() bool { return tx.ofMaster }

// Tick advances the transaction's time to the present. The pipeline calls it before every command.
func (tx *Tx) Tick(now int64) { tx.now = max(tx.now, now) }

// NSKey returns the metadata key of a user key; valid until the end of the transaction.
func (tx *Tx) NSKey(userKey []byte) []byte {
	b := tx.arena.take(1 + len(tx.ns) + 2 + len(userKey))
	return tx.arena.keep(cf.AppendNSKey(b, tx.ns, userKey, tx.db.slots))
}

// AddLock requests the lock of a key. Acquire takes it.
func (tx *Tx) AddLock(userKey []byte, write bool) {
	tx.locks.Add(tx.LockIn(tx.ns, userKey, write))
}

// Acquire takes all requested locks, in an order that cannot deadlock. It must not be called while locks are held. If
// it returns an error, see FailWaiters, no lock is held.
func (tx *Tx) Acquire() error {
	if err := tx.locks.Acquire(tx.db.locks); err != nil {
		return err
	}
	tx.cacheOK = true
	return nil
}

// ReadsDone releases the locks of a transaction that only reads early, once the caller has fetched the metadata and
// created its iterators, which are snapshots. It does nothing when the transaction holds a lock for writing.
func (tx *Tx) ReadsDone() {
	if tx.locks.ReleaseReads(tx.db.locks) {
		tx.cacheOK = false
	}
}

// Locked reports whether the transaction has locks.
func (tx *Tx) Locked() bool { return tx.locks.Any() }

// KeepLocks makes ReadsDone do nothing until the end of the transaction, because further commands must see the same
// state.
func (tx *Tx) KeepLocks() { tx.locks.Pin() }

// Unlock releases all locks and keeps the cached reads.
func (tx *Tx) Unlock() {
	tx.locks.Release(tx.db.locks)
	tx.cacheOK = false
}

// Release ends the transaction: it releases the locks and drops uncommitted writes.
func (tx *Tx) Release() {
	if !tx.committed && !tx.Empty() {
		tx.doubt()
	}
	tx.nodesDone(false)
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

// Savepoint marks a point to which the transaction can be rolled back. Only the latest savepoint is valid, but see
// SavepointIn.
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
	tx.doubtNodes()
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

// Empty reports whether the transaction has nothing to commit.
func (tx *Tx) Empty() bool { return tx.batch.Count() == 0 }

// Size returns the length of the write batch in bytes.
func (tx *Tx) Size() int { return tx.batch.Len() }

// MinRecord is the min size in bytes of a record of the default family in a write batch, without its key and value.
const MinRecord = 3

// BatchRoom returns how many more bytes the write batch may have.
func (tx *Tx) BatchRoom() int64 {
	limit := tx.db.maxBatchBytes.Load()
	if limit <= 0 || tx.ofMaster { // what a master has written fits
		return math.MaxInt64
	}
	return max(limit-int64(tx.batch.Len()), 0)
}

// Reserve makes room in the write batch for so many records, whose keys and values have so many bytes together: a large
// batch that grows step by step is copied again and again. It fails, as the commit would, if they are too many.
func (tx *Tx) Reserve(records, bytes int) error {
	if int64(bytes+records*MinRecord) > tx.BatchRoom() {
		return ErrBatchSize
	}
	tx.batch.Grow(bytes + records*(MinRecord+1)) // some lengths may take two bytes
	return nil
}

// BatchError returns the error with which the commit will fail because the batch is too large, nil when it is not. It
// is for callers that write much.
func (tx *Tx) BatchError() error {
	if limit := tx.db.maxBatchBytes.Load(); limit > 0 && int64(tx.batch.Len()) > limit && !tx.ofMaster {
		return ErrBatchSize
	}
	return nil
}

// Put writes a key.
func (tx *Tx) Put(id cf.ID, key, value []byte) { tx.put(id, key, value) }

// PutSubkey is Put of a subkey of a collection whose metadata record the transaction writes too. If the collection did
// not exist, nobody else can have read the subkey, so the caches need not hear of it, and the transaction itself hardly
// reads it: beyond the first indexed records, PutSubkey only appends it to the batch. A batch that is too large already
// does not grow any more, see BatchError.
func (tx *Tx) PutSubkey(r *Record, id cf.ID, key, value []byte) {
	if tx.BatchError() != nil {
		return
	}
	if r.Exists || len(tx.over.ents) < indexed {
		tx.put(id, key, value)
		return
	}
	tx.over.late()
	tx.batch.Put(id, key, value)
}

// DeleteSubkey is Delete of a subkey of a collection whose metadata record the transaction writes too. Beyond the first
// indexed records it only appends to the batch, because the transaction hardly reads the subkey again. A batch that is
// too large already does not grow any more.
func (tx *Tx) DeleteSubkey(id cf.ID, key []byte) {
	if tx.BatchError() != nil {
		return
	}
	if len(tx.over.ents) < indexed {
		tx.Delete(id, key)
		return
	}
	tx.over.late()
	tx.over.gone = true
	tx.batch.Delete(id, key)
}

// indexed is how many records of a transaction PutSubkey and DeleteSubkey enter in the overlay at once. So a small new
// collection is found in the record cache after the commit, and a large one does not displace everything else from it.
const indexed = 1024

// PutRoom is Put for a value of n bytes, which the caller must write into the result before it uses the transaction
// again.
func (tx *Tx) PutRoom(id cf.ID, key []byte, n int) (value []byte) {
	at, value := tx.batch.PutRoom(id, key, nil, n)
	tx.over.write(id, key, at, n, written)
	return value
}

// Replace is Put for a record that is written repeatedly: a record that the transaction has written by Replace before
// is overwritten in place in the batch if its length is the same. So a pipeline that increments a counter many times
// writes it once.
func (tx *Tx) Replace(id cf.ID, key, value []byte) {
	if !tx.overwrite(id, key, value) {
		tx.put(id, key, value).saved = true
	}
}

// overwrite replaces a value of the same length that Save or Replace has written.
func (tx *Tx) overwrite(id cf.ID, key, value []byte) bool {
	e := tx.over.find(id, key)
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
	if id == cf.Search {
		tx.changeNode(key)
	}
	at := tx.batch.Put(id, key, value)
	return tx.over.write(id, key, at, len(value), written)
}

// Delete deletes a key.
func (tx *Tx) Delete(id cf.ID, key []byte) {
	if id == cf.Search {
		tx.changeNode(key)
	}
	tx.batch.Delete(id, key)
	tx.over.write(id, key, tx.batch.Len(), 0, deleted)
}

// DeleteRange deletes the keys in [begin, end).
func (tx *Tx) DeleteRange(id cf.ID, begin, end []byte) {
	if id == cf.Search {
		tx.changeNodes()
	}
	tx.batch.DeleteRange(id, begin, end)
	tx.over.deleteRange(id, begin, end)
}

// LogData puts a non-data record into the WAL, from which Kvrocks's readers of the WAL learn the command.
func (tx *Tx) LogData(b []byte) { tx.batch.LogData(b) }

// OnCommit registers a function that is called after a successful commit, while the locks are still held.
func (tx *Tx) OnCommit(f func()) { tx.hooks = append(tx.hooks, f) }

// Commit writes everything with one write to the WAL. If it returns an error, nothing was written.
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
			tx.nodesDone(false)
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
	tx.nodesDone(true)
	tx.applyCounts()
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

// SavepointIn is Savepoint, but the transaction can also still be rolled back to the earlier mark outer.
func (tx *Tx) SavepointIn(outer Mark) Mark {
	// Undo entries for bytes written after outer are of no use to it: a rollback to outer truncates those bytes.
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
