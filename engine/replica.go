package engine

import (
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/basaltdb/basalt/cf"
)

// A replica writes nothing of its own: its log is its master's, write by write, with the master's sequence numbers.
// That also holds for the records that compactions drop. An expired record is garbage only when the master agrees: the
// master may still make a key persistent that has expired by the replica's clock, or may have done so in a batch that
// the replica has not received yet. That batch brings the metadata record but not the subkeys.
//
// So the compactions of a replica go by a clock of its own, which the link to the master sets: a time by the master's
// clock such that all writes that the master had begun before it are applied. A key that has expired by this clock had
// expired when the master began every write that is still to come, so none of these writes revives the key. The clock
// begins at 0 with each link: until the master reports its time, nothing that expires is dropped.
//
// A basalt master reports its time in the stream. For another master only this is known: a version holds the time at
// which it was made, and a version, like an idle master's ping, was made after everything that came before it. The
// clocks of servers may differ, versions may be older than the master, transactions take a while: hence VersionMargin.
//
// Garbage that a replica keeps for that reason is dropped when the clock moves on, or after the promotion.
type replica struct {
	on     atomic.Bool
	locked atomic.Bool
	clock  atomic.Int64 // ms since the epoch
}

func (f *replica) set(on, locked bool) {
	f.clock.Store(0)
	f.on.Store(on)
	f.locked.Store(on && locked)
}

// SetReplica makes the database that of a replica: compactions go by the master's clock. With locked, only
// [DB.ApplyUpdates] and transactions that are [Tx.FromMaster] may write, and every other commit fails with
// [ErrReplica]. SetReplica waits for transactions that hold locks; when it returns, every commit under way knows of the
// change. With all locks held it calls may, which calls set unless the database is no longer to become that of a
// replica.
func (db *DB) SetReplica(may func(set func(locked bool))) {
	db.locks.LockAll()
	defer db.locks.UnlockAll()
	may(func(locked bool) { db.replica.set(true, locked) })
	if db.replica.locked.Load() {
		db.awaitCommits()
	}
}

// awaitCommits waits for the commits of transactions that hold no locks, such as messages, if they had begun before the
// database stopped accepting commits.
func (db *DB) awaitCommits() {
	db.storingHistory.Lock()
	db.storingHistory.Unlock() //lint:ignore SA2001 a commit that locks it from now on sees that it must not go on
	for g := &db.group; ; time.Sleep(commitPoll) {
		g.mu.Lock()
		busy := g.leading
		g.mu.Unlock()
		if !busy {
			return
		}
	}
}

// commitPoll is the approximate duration of one write.
const commitPoll = 100 * time.Microsecond

// LockReplica changes the argument locked of SetReplica, for the commits to come.
func (db *DB) LockReplica(locked bool) { db.replica.locked.Store(locked && db.replica.on.Load()) }

// SetMaster undoes SetReplica. It does not wait.
func (db *DB) SetMaster() { db.replica.set(false, false) }

// StoredReplicationID returns the replication id that the database holds, see [DB.BeginHistory]; "" = none.
func (db *DB) StoredReplicationID() (id string, err error) {
	err = db.View(cf.DefaultNamespace, nil, func(tx *Tx) error {
		v, _, err := tx.Get(cf.Propagate, []byte(cf.PropagateReplicationID))
		id = string(v)
		return err
	})
	return id, err
}

// WriteFromMaster commits the writes of f in a transaction that is [Tx.FromMaster], without locks: it is for records
// that belong to no key. It may be called while another transaction holds locks.
func (db *DB) WriteFromMaster(f func(tx *Tx)) error {
	tx := db.NewTx()
	tx.Begin(cf.DefaultNamespace)
	defer tx.Release()
	tx.FromMaster()
	f(tx)
	return tx.Commit()
}

// IsReplica reports whether the database is that of a replica.
func (db *DB) IsReplica() bool { return db.replica.on.Load() }

// VersionMargin, in milliseconds, is subtracted from the time of a version, or of a ping by the own clock, to get the
// time that a master has certainly reached. Clocks of servers that differ by more are considered broken.
const VersionMargin = 60 * 60 * 1000

// NewMaster resets a replica's clock: the time of the former master is not valid for the next one.
func (db *DB) NewMaster() { db.replica.clock.Store(0) }

// MasterTime reports to a replica that all writes that the master had begun before a time are applied. The time is in
// milliseconds since the epoch by the master's clock. A time hours before the last one means that the master's clock
// was set back: what has expired by the old time may live again.
func (db *DB) MasterTime(ms int64) {
	if ms < db.replica.clock.Load()-2*VersionMargin {
		db.replica.clock.Store(ms)
	}
	db.raiseReplicaClock(ms)
}

// raiseReplicaClock sets the replica's clock if that is behind a time. A master whose clock is ahead by mistake does
// not take it further than the own clock: an earlier time is always true.
func (db *DB) raiseReplicaClock(ms int64) {
	ms = min(ms, db.CompactionClock()-maxTransaction)
	for c := &db.replica.clock; ; {
		old := c.Load()
		if ms <= old || c.CompareAndSwap(old, ms) {
			return
		}
	}
}

// CompactionClock returns the time by which compactions of a master judge, in milliseconds since the epoch. See
// [compaction.Clock].
func (db *DB) CompactionClock() int64 {
	return db.clock.Now(time.Now().UnixMilli(), time.Since(db.counts.origin))
}

// compactionTime returns the time by which compactions judge, in milliseconds since the epoch: now, except in a
// replica.
func (db *DB) compactionTime(now int64) int64 {
	if db.replica.on.Load() {
		return db.replica.clock.Load()
	}
	return now
}

// maxTransaction is longer than any transaction takes from reading the clock to its commit, in milliseconds.
const maxTransaction = 5 * 60 * 1000

// WritersTime returns a time, by the clock of the writing server, such that every write that was begun before it has
// been committed here; 0 = not known.
func (db *DB) WritersTime() int64 {
	if db.replica.on.Load() {
		return db.replica.clock.Load()
	}
	return db.CompactionClock() - maxTransaction
}

// versionTime returns when a version was made, in milliseconds since the epoch; see versions.
func versionTime(version uint64) int64 { return int64(version >> 11 / 1000) }

// hasFamily reports whether a family that is not in fam is open. The index is created: the server that writes to it has
// it.
func (db *DB) hasFamily(id cf.ID) bool {
	if db.familyOpen(id) {
		return true
	}
	if id != cf.Index {
		return false
	}
	if err := db.NeedIndex(); err != nil {
		db.log.Warn("a column family could not be created", zap.String("family", cf.IndexName), zap.Error(err))
		return false
	}
	return true
}

// NeedIndex creates the family cf.Index in a database that does not have it. From then on Kvrocks before 2.14 cannot
// open the database. It fails with [ErrLoading] while the database is being exchanged.
func (db *DB) NeedIndex() error {
	if db.index.Load() != nil {
		return nil
	}
	s := &db.exchange.settings
	s.mu.Lock()
	defer s.mu.Unlock()
	if db.index.Load() != nil {
		return nil
	}
	if s.under {
		return ErrLoading
	}
	f, err := db.rocks.CreateFamily(cf.IndexName, uint32(cf.Index), db.options.rocksOptions())
	if err != nil {
		return err
	}
	extra := append(slices.Clone(*db.extra.Load()), cf.IndexName)
	db.extra.Store(&extra)
	db.index.Store(f)
	db.log.Info("a column family was created, which Kvrocks before 2.14 does not know",
		zap.String("family", cf.IndexName))
	return nil
}

func (db *DB) familyOpen(id cf.ID) bool {
	lane := db.filterLane
	if !lane.Enter() {
		return false
	}
	defer lane.Leave()
	return db.rocks.HasFamily(uint32(id))
}
