// Package engine is the storage engine: RocksDB with its column families in the Kvrocks layout, key locks,
// transactions with group commit, iterators, snapshots, checkpoints and statistics. It knows the on-disk format
// (package cf) but no Redis command; the data types are the packages below it (engine/hash, engine/list, ...).
//
// Consistency: a transaction that writes holds the locks of its keys from its first read to the end of its commit. A
// transaction that reads holds the locks while it fetches metadata and creates iterators. All locks of a transaction
// are taken at once and in one order.
package engine

import (
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/basaltdb/basalt/engine/presence"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/compaction"
	"github.com/basaltdb/basalt/engine/derived"
	"github.com/basaltdb/basalt/engine/lock"
	"github.com/basaltdb/basalt/engine/reccache"
	"github.com/basaltdb/basalt/engine/rocks"
)

type rocksError = rocks.Error

// DB is an open database. Its methods may be called by several goroutines.
type DB struct {
	Stats Stats

	dir      string
	release  func() // releases the directory
	slots    bool
	log      *zap.Logger
	rocks    *rocks.DB
	fam      [cf.NumFamilies]*rocks.Family
	index    atomic.Pointer[rocks.Family] // the family cf.Index; nil = the database has none
	extra    atomic.Pointer[[]string]     // names of the families behind fam
	locks    *lock.Table
	group    group
	derived  *derived.Registry
	presence *presence.Cache
	watches  watchTable
	expiry   atomic.Pointer[expiryHook]
	cache    *reccache.Cache
	// fieldsExpired is called for a hash some of whose fields were deleted because they have expired.
	fieldsExpired atomic.Pointer[func(ns string, userKey []byte)]
	counts        counts
	clock         compaction.Clock
	versions      versions
	// flushedAt is the sequence number of the newest FlushAll; no key exists if nothing was written since.
	flushedAt atomic.Uint64
	txPool    sync.Pool

	options       Options // of Open
	replica       replica
	exchange      exchange
	flags         rocks.WriteFlags
	unmarked      atomic.Bool            // the first write to the empty database carries a record, see bitorder.go
	fresh         bool                   // keys are written once: a blind write replaces nothing, see OpenBeside
	replicationID atomic.Pointer[[]byte] // see SetReplicationID; the log data of it
	newHistory    atomic.Pointer[string] // see BeginHistory; nil = written already
	// storingHistory is held while newHistory is being written.
	storingHistory sync.Mutex
	follower       atomic.Pointer[func(seq uint64, rep []byte)]
	walTTL         time.Duration // how long RocksDB keeps logs that it no longer needs itself
	maxBatchBytes  atomic.Int64
	asyncIO        atomic.Bool
	flushes        atomic.Uint64                // see Flushes
	injected       atomic.Pointer[func() error] // called before every write, which fails with the error returned

	events       events
	recovery     recovery
	logFails     sync.RWMutex // see SyncWAL
	fileSize     uint64       // of a table file that a compaction writes
	spaceNeeded  int          // bytes of disk space that RocksDB needs to recover from a full disk
	logsReplaced int          // owned by recoverLoop, as the next two fields
	// replaceWait is how many more calls of replaceLog do nothing; replacePause is the number for after the next
	// attempt.
	replaceWait, replacePause int

	closing     chan struct{}
	closed      atomic.Bool
	interrupted atomic.Bool
	compacting  sync.Mutex  // held while a requested compaction runs
	copying     sync.Mutex  // held while a checkpoint is made, and for Ingest: no checkpoint has the log without the files
	filterLane  *rocks.Lane // of the compaction filters
	// droppedSubkeys counts the subkeys of collections that compactions have dropped from the metadata family.
	droppedSubkeys atomic.Uint64
	// reclaimed has the values of droppedSubkeys when flushed and ingested files were last compacted because of it.
	reclaimed struct{ flushed, ingested atomic.Uint64 }
	opened    atomic.Bool // rocks and fam are set: compactions run before Open returns
	work      sync.WaitGroup
}

// Stats are counters of the engine.
type Stats struct {
	Hits, Misses       atomic.Int64  // look-ups of metadata records
	Commits, GroupedTx atomic.Uint64 // writes to the WAL, and the transactions that they carried
	Flushes            atomic.Int64
	Compactions        atomic.Int64
	// ExpiredFields are the fields of hashes that writers or compactions have removed after their expiry.
	ExpiredFields atomic.Int64
}

// Open opens the database in o.Dir, creating it when the directory is empty or missing.
//
// Open refuses ([ErrDamaged]) a database whose write-ahead log lacks writes, unless o.Force says otherwise. An
// incomplete record at the end of the newest log is left out. A MANIFEST that only newer versions of RocksDB can read
// is replaced.
//
// Open refuses ([ErrNotDatabase]) a directory with a database that lacks the metadata family, or with other files. It
// refuses ([ErrLocked]) a directory that another process uses. In both cases nothing is changed. A [DB.Replace] that
// was interrupted because its process was killed is finished or undone. Open refuses ([ErrSlots]) a database whose keys
// are in another form than o.Slots says; no record is changed then. Unknown column families are opened and preserved.
func Open(o Options) (*DB, error) {
	o.fill()
	aside, err := undoReplace(o.Dir, o.Logger)
	if err != nil {
		return nil, err
	}
	names, err := familiesToOpen(o.Dir, o.Force)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return nil, err
	}
	release, err := claimDir(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, o.Dir)
	}
	db := &DB{release: release, dir: o.Dir, slots: o.Slots, log: o.Logger, locks: lock.New(),
		presence: presence.New(o.PresenceCacheMax),
		derived:  derived.New(max(o.DerivedState, 0)), closing: make(chan struct{})}
	if o.RecordCache > 0 {
		db.cache = reccache.New(o.RecordCache, o.RecordCacheMax, db.recordCacheGrown)
	}
	db.counts.init()
	db.CompactionClock() // begins here
	saved := savedCounts(o.Dir, o.Logger)
	db.versions.init()
	db.options = o
	db.replica.set(o.Replica, o.Replica)
	db.flags = o.writeFlags()
	db.maxBatchBytes.Store(o.MaxBatchBytes)
	db.asyncIO.Store(o.AsyncIO)
	db.SetReplicationID(o.ReplicationID)
	db.walTTL = time.Duration(o.Rocks.WALTTLSeconds) * time.Second
	db.txPool.New = func() any { return db.NewTx() }
	if err := db.prepareFiles(&o); err != nil {
		release()
		return nil, err
	}
	ro := o.rocksOptions()
	db.spaceNeeded = ro.WriteBufferSize
	db.fileSize = uint64(ro.TargetFileSizeBase)
	ro.Verdict, ro.Event, ro.SkipDamagedLogs = db.verdict, db.onEvent, db.skipDamaged()
	if db.walTTL > 0 {
		none := func(string, uint64) bool { return false }
		if err := renewLogs(o.Dir, math.MaxInt64, none); err != nil {
			db.log.Warn("log files that replicas need may be deleted", zap.Error(err))
		}
	}
	db.rocks, err = rocks.Open(o.Dir, names, ro)
	if err != nil {
		release()
		return nil, openError(o.Dir, err)
	}
	for i := range db.fam {
		db.fam[i] = db.rocks.Family(i)
	}
	db.noteExtra(names[cf.NumFamilies:])
	db.filterLane = db.rocks.Lane()
	if err := db.checkSlots(); err != nil {
		db.Close()
		return nil, err
	}
	db.unmarked.Store(o.RedisBitOrder && db.empty())
	db.opened.Store(true)
	db.checkRecovered(saved)
	db.noteLogs(false)
	db.startCounts(saved)
	if aside != "" {
		db.work.Go(func() { db.removeAside(aside) })
	}
	db.work.Go(db.recoverLoop)
	db.work.Go(db.noteLoop)
	return db, nil
}

// UnknownFamilies returns the names of the column families whose content this version does not know. They are opened
// and preserved.
func (db *DB) UnknownFamilies() []string {
	return slices.DeleteFunc(slices.Clone(*db.extra.Load()), func(name string) bool { return name == cf.IndexName })
}

// noteExtra notes which families are open beside fam.
func (db *DB) noteExtra(names []string) {
	db.extra.Store(&names)
	db.index.Store(nil)
	for i, name := range names {
		if name == cf.IndexName {
			db.index.Store(db.rocks.Family(int(cf.NumFamilies) + i))
		}
	}
}

// Dir returns the directory of the database.
func (db *DB) Dir() string { return db.dir }

// Slots reports whether keys carry the cluster slot.
func (db *DB) Slots() bool { return db.slots }

// family returns an open family; nil for an index that the database does not have.
func (db *DB) family(id cf.ID) *rocks.Family {
	if id == cf.Index {
		return db.index.Load()
	}
	return db.fam[id]
}

func (db *DB) isClosing() bool {
	select {
	case <-db.closing:
		return true
	default:
		return false
	}
}

// Close closes the database. Transactions that have begun before may go on, and Close waits for their ends. Close also
// waits until iterators, snapshots and readers of the log are closed, so the caller must not own any. Compactions are
// cut short. Every operation that begins after Close fails with [ErrClosed], or returns zero where it returns no error.
//
// An error, for example a background error, says that the last writes may not have reached the disk. The database is
// closed nevertheless.
func (db *DB) Close() error {
	if db.closed.Swap(true) {
		return ErrClosed
	}
	db.counts.mu.Lock() // db.work does not grow from now on
	close(db.closing)
	db.counts.mu.Unlock()
	db.exchange.mu.Lock() // wait until Replace has ended
	defer db.exchange.mu.Unlock()
	db.rocks.Stop(func(users int64) {
		db.log.Warn("closing the database waits for those who use it", zap.Int64("users", users))
	})
	db.work.Wait()
	// After a failed write the log must not be synced: see SyncWAL. No transaction writes any more.
	err := db.writable()
	if failed := db.exchange.failed.Load(); failed != nil {
		err = *failed
	}
	sequence := db.rocks.LastSequence()
	if e := db.rocks.Close(err == nil); err == nil {
		err = e
	}
	db.noteLogs(err == nil)
	if err == nil && db.opened.Load() && db.exchange.failed.Load() == nil && !db.counts.partial.Load() {
		db.saveCounts(sequence)
	}
	db.release()
	return err
}

// Interrupt ends long operations that no client waits for: requested compactions, now or later, and [DB.EachExpiring].
// It is for programs whose background work must end before they close the database.
func (db *DB) Interrupt() {
	if db.interrupted.Swap(true) {
		return
	}
	db.rocks.CancelCompactions()
	db.endWaitsForSpace()
}

// endWaitsForSpace ends what waits for a compaction that waits for space: a checkpoint, or an attempt to resume
// writing. The database can only be closed then.
func (db *DB) endWaitsForSpace() {
	if db.CompactionError() != nil {
		db.rocks.CancelBackground()
	}
}

// Update runs f in a transaction that holds the locks of the keys for writing, and commits the transaction when f
// returns no error. If Update returns an error, nothing is written.
func (db *DB) Update(ns string, keys [][]byte, f func(tx *Tx) error) error {
	return db.run(ns, keys, true, func(tx *Tx) error {
		tx.now = time.Now().UnixMilli()
		if err := f(tx); err != nil {
			return err
		}
		return tx.Commit()
	})
}

// View runs f in a transaction that holds the locks of the keys for reading. The writes of f are dropped.
func (db *DB) View(ns string, keys [][]byte, f func(tx *Tx) error) error {
	return db.run(ns, keys, false, f)
}

// run runs f in a transaction that holds the locks of the keys.
func (db *DB) run(ns string, keys [][]byte, write bool, f func(tx *Tx) error) error {
	tx := db.txPool.Get().(*Tx)
	defer db.txPool.Put(tx)
	tx.Begin(ns)
	defer tx.Release()
	if err := tx.usable(); err != nil {
		return err
	}
	for _, k := range keys {
		tx.AddLock(k, write)
	}
	if err := tx.Acquire(); err != nil {
		return err
	}
	return f(tx)
}

// Syncs reports whether every commit is synced to the disk.
func (db *DB) Syncs() bool { return db.flags&rocks.Sync != 0 }

// write is the only way by which writes reach RocksDB.
func (db *DB) write(rep []byte, flags rocks.WriteFlags) error {
	if f := db.injected.Load(); f != nil {
		if err := (*f)(); err != nil {
			return err
		}
	}
	db.logFails.RLock()
	defer db.logFails.RUnlock()
	seq, err := db.rocks.Write(rep, flags)
	if err != nil {
		return NewError("ERR", "write failed: "+err.Error())
	}
	if f := db.follower.Load(); f != nil {
		(*f)(seq, rep)
	}
	return nil
}

// InjectWriteError makes every commit fail with the error until it is called with nil. Tests of a full disk use it.
func (db *DB) InjectWriteError(err error) {
	if err == nil {
		db.injected.Store(nil)
	} else {
		f := func() error { return err }
		db.injected.Store(&f)
	}
}

// Snapshot is a consistent view of the database; the owner closes it.
type Snapshot struct {
	s  *rocks.Snapshot // nil = the database was closed
	at uint64          // the time of derived state from before the snapshot
}

// NewSnapshot takes a snapshot. On a closed database, reading from it fails with [ErrClosed].
func (db *DB) NewSnapshot() *Snapshot {
	at := db.derived.Now()
	return &Snapshot{db.rocks.NewSnapshot(), at}
}

// Sequence returns the sequence number of the newest write that the snapshot sees, 0 for a snapshot of a closed
// database.
func (s *Snapshot) Sequence() uint64 { return s.s.Sequence() }

// Close releases the snapshot.
func (s *Snapshot) Close() { s.s.Close() }
