package engine

import (
	"github.com/basaltdb/basalt/cf"
	"github.com/basaltdb/basalt/engine/lock"
)

// Lock is the lock of a key, and whether it is wanted for reading or writing.
type Lock = lock.Lock

// FailWaiters lets those who want a lock that the transaction holds get err, from now on until the transaction gives
// its locks back, and those too who wait for one already. The transaction itself goes on as before.
func (tx *Tx) FailWaiters(err error) { tx.locks.FailWaiters(tx.db.locks, err) }

// FailsWaiters reports whether FailWaiters is in force.
func (tx *Tx) FailsWaiters() bool { return tx.locks.FailsWaiters() }

// Blocked returns the error that those get who want a lock of a transaction after its FailWaiters; nil when there is no
// such transaction. It is for those who need every lock, or none but must not run beside such a transaction.
func (db *DB) Blocked() error { return db.locks.Failing() }

// Barrier waits until every transaction that holds locks now has given them back. It returns the error of one that lets
// those fail who want its locks, and does not wait for that one.
func (db *DB) Barrier() error {
	db.locks.LockAll()
	err := db.Blocked()
	db.locks.UnlockAll()
	return err
}

// TryLock takes one more lock for writing if that is possible without waiting, and reports whether the transaction
// has it. (To wait for it could be a deadlock: locks are taken in one order.) A lock that it holds for reading becomes
// one for writing if no other transaction reads.
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

// Generation returns a number that changes whenever somebody may have written the key, of which the transaction holds
// the lock. It may change at any time because of other keys.
func (tx *Tx) Generation(userKey []byte) uint64 {
	tx.keyBuf = cf.AppendNSKey(tx.keyBuf[:0], tx.ns, userKey, tx.db.slots)
	return tx.db.locks.Generation(tx.db.locks.Name(tx.keyBuf))
}

// ReadGeneration is Generation for what is to be kept of a key beyond the transaction. ok is false when the transaction
// holds the lock for writing, as it may have changed the key and may yet fail, or has given it back.
func (tx *Tx) ReadGeneration(userKey []byte) (generation uint64, ok bool) {
	if !tx.cacheOK || tx.Holds(userKey) {
		return 0, false
	}
	return tx.Generation(userKey), true
}

// Scripts call commands one after the other and may touch keys that nobody has declared. What is here lets them take
// locks on the way, keep those that they have, and undo everything at once.

// HoldsAll reports whether the transaction has every lock, see AcquireAll.
func (tx *Tx) HoldsAll() bool { return tx.locks.All() }

// AppendLocks appends the locks that the transaction has, if it has not all, for AddLocks of a later transaction.
func (tx *Tx) AppendLocks(to []Lock) []Lock {
	return append(to, tx.locks.Held()...)
}

// LockIn returns the lock of a key of a namespace.
func (tx *Tx) LockIn(ns string, userKey []byte, write bool) Lock {
	tx.keyBuf = cf.AppendNSKey(tx.keyBuf[:0], ns, userKey, tx.db.slots)
	return lock.Of(tx.db.locks.Name(tx.keyBuf), write)
}

// AddLocks asks for locks, as AddLock does.
func (tx *Tx) AddLocks(locks []Lock) { tx.locks.Add(locks...) }
