package engine

import (
	"slices"

	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/lock"
)

// Lock is the lock of a key, for reading or for writing.
type Lock = lock.Lock

// FailWaiters makes transactions that want a lock of this transaction fail with err, from now on until the locks are
// released, the present waiters included. The transaction itself continues as before.
func (tx *Tx) FailWaiters(err error) { tx.locks.FailWaiters(tx.db.locks, err) }

// FailsWaiters reports whether FailWaiters is in force.
func (tx *Tx) FailsWaiters() bool { return tx.locks.FailsWaiters() }

// Blocked returns the error of a transaction that has called FailWaiters; nil when no such transaction exists. It is
// for callers that need every lock, and for callers that need none but must not run beside such a transaction.
func (db *DB) Blocked() error { return db.locks.Failing() }

// Barrier waits until every transaction that holds locks now has released them. It does not wait for a transaction that
// has called FailWaiters, and returns the error of that transaction.
func (db *DB) Barrier() error {
	db.locks.LockAll()
	err := db.Blocked()
	db.locks.UnlockAll()
	return err
}

// TryLock takes one more lock for writing if that is possible without waiting, and reports whether the transaction has
// it. (Waiting could deadlock, because locks are taken in one order.) A lock that the transaction holds for reading
// becomes a lock for writing if no other transaction reads.
func (tx *Tx) TryLock(userKey []byte) bool { return tx.TryLockIn(tx.ns, userKey, true) }

// TryRLock takes one more lock for reading if that is possible without waiting, and reports whether the transaction
// has it, for reading or writing.
func (tx *Tx) TryRLock(userKey []byte) bool { return tx.TryLockIn(tx.ns, userKey, false) }

// TryLockIn is TryLock or TryRLock for a key of any namespace.
func (tx *Tx) TryLockIn(ns string, userKey []byte, write bool) bool {
	return tx.locks.TryLock(tx.db.locks, tx.LockIn(ns, userKey, write))
}

// Holds reports whether the transaction has the lock of a key for writing.
func (tx *Tx) Holds(userKey []byte) bool {
	tx.keyBuf = cf.AppendNSKey(tx.keyBuf[:0], tx.ns, userKey, tx.db.slots)
	return tx.locks.Writes(tx.db.locks.Name(tx.keyBuf))
}

// TryAcquire takes all requested locks if that is possible without waiting, and reports whether it has. It must not be
// called while locks are held.
func (tx *Tx) TryAcquire() bool {
	tx.cacheOK = tx.locks.TryAcquire(tx.db.locks)
	return tx.cacheOK
}

// TryEach takes the locks of groups without waiting, one group after the other, until a group has a lock that another
// transaction holds. Of that group the transaction takes no lock. TryEach returns how many groups it has taken.
func (tx *Tx) TryEach(groups [][]Lock) int {
	n := tx.locks.TryEach(tx.db.locks, groups)
	tx.cacheOK = tx.cacheOK || n > 0
	return n
}

// Awaited reports whether another transaction waits for a lock that the transaction holds, or for one in the same
// bucket.
func (tx *Tx) Awaited() bool {
	return slices.ContainsFunc(tx.locks.Held(), func(v Lock) bool { return tx.db.locks.Waiting(v.Name()) > 0 })
}

// ReadGeneration returns a number that changes whenever another transaction may have written the key, for state that is
// kept for the key beyond the transaction. Writes of other keys may change it too. ok is false when the transaction
// holds the lock for writing, because it may have changed the key and may yet fail, or has released the lock.
func (tx *Tx) ReadGeneration(userKey []byte) (generation uint64, ok bool) {
	if !tx.cacheOK {
		return 0, false
	}
	name := tx.LockIn(tx.ns, userKey, false).Name()
	return tx.db.locks.Generation(name), !tx.locks.Writes(name)
}

// Scripts call several commands and may touch undeclared keys. The functions below let scripts take locks while they
// run, keep the locks that they have, and undo everything at once.

// HoldsAll reports whether the transaction has every lock, see AcquireAll.
func (tx *Tx) HoldsAll() bool { return tx.locks.All() }

// AppendLocks appends the locks of the transaction, unless it holds all locks, for AddLocks of a later transaction.
func (tx *Tx) AppendLocks(to []Lock) []Lock {
	return append(to, tx.locks.Held()...)
}

// LockIn returns the lock of a key of a namespace.
func (tx *Tx) LockIn(ns string, userKey []byte, write bool) Lock {
	tx.keyBuf = cf.AppendNSKey(tx.keyBuf[:0], ns, userKey, tx.db.slots)
	return lock.Of(tx.db.locks.Name(tx.keyBuf), write)
}

// AddLocks requests locks, as AddLock does.
func (tx *Tx) AddLocks(locks []Lock) { tx.locks.Add(locks...) }
