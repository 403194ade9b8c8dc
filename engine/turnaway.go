package engine

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/basaltdb/basalt/cf"
)

// A transaction that lasts (a script that does not end) can turn away those who want its locks: they get an error instead
// of waiting. It puts its locks into the table of refusals and gives them back. Who gets hold of one of these locks
// afterwards, those that have waited until then included, finds it in the table and gives up. So nothing has to interrupt
// a wait, and as long as the table is empty it costs one atomic load for each transaction that takes locks.

// refusals is the table of the locks for which nobody is to wait.
type refusals struct {
	n    atomic.Int32 // len(list); changed with mu held
	mu   sync.Mutex
	list []*refusal
}

// refusal is what one transaction turns others away from.
type refusal struct {
	all   bool
	locks map[uint64]bool // by name; true = held for writing, false = for reading
	err   error
}

// find returns the error for one who has just taken the locks of held, nil when none of them is in the table but by its
// own refusal.
func (r *refusals) find(own *refusal, held ...uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.list {
		if e == own {
			continue
		}
		if e.all {
			return e.err
		}
		for _, v := range held {
			if write, ok := e.locks[v>>1]; ok && (write || v&1 == 0) {
				return e.err
			}
		}
	}
	return nil
}

// any returns the error for one who has all locks.
func (r *refusals) any() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) == 0 {
		return nil
	}
	return r.list[0].err
}

// refuses reports whether one who holds a lock, as in lockSet.held, is to give it back.
func (t *lockTable) refuses(v uint64) bool {
	return t.refusals.n.Load() != 0 && t.refusals.find(nil, v) != nil
}

// TurnAway lets those who want a lock that the transaction holds get err, from now on until the transaction gives its
// locks back, and those too who wait for one already. The transaction itself goes on as before.
func (tx *Tx) TurnAway(err error) {
	s, t := &tx.locks, tx.db.locks
	if s.refusal != nil {
		return
	}
	e := &refusal{all: s.all, locks: map[uint64]bool{}, err: err}
	for _, v := range s.held {
		e.locks[v>>1] = e.locks[v>>1] || v&1 == 0
	}
	r := &t.refusals
	r.mu.Lock()
	r.list = append(r.list, e)
	r.n.Store(int32(len(r.list)))
	r.mu.Unlock()
	s.refusal = e
	if s.all {
		t.unlockAll()
		return
	}
	for _, v := range s.held {
		t.unlock(v)
	}
}

// TurnsAway reports whether TurnAway is in force.
func (tx *Tx) TurnsAway() bool { return tx.locks.refusal != nil }

// Refusing returns the error that those get who want a lock of a transaction that turns others away; nil when there is
// no such transaction. It is for those who need every lock, or none but must not run beside such a transaction.
func (db *DB) Refusing() error {
	if db.locks.refusals.n.Load() == 0 {
		return nil
	}
	return db.locks.refusals.any()
}

// keep makes a lock that was taken just now one from which others are turned away.
func (t *lockTable) keep(e *refusal, v uint64) {
	t.refusals.mu.Lock()
	e.locks[v>>1] = e.locks[v>>1] || v&1 == 0
	t.refusals.mu.Unlock()
	t.unlock(v)
}

// withdraw ends a refusal: what its transaction has committed is there to be seen.
func (t *lockTable) withdraw(e *refusal) {
	r := &t.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(r.list, func(o *refusal) bool { return o == e })
	r.n.Store(int32(len(r.list)))
}

// tryLock takes one more lock if that is possible without waiting.
func (s *lockSet) tryLock(t *lockTable, v uint64) bool {
	if !t.tryLock(v) {
		return false
	}
	if t.refusals.n.Load() != 0 {
		if t.refusals.find(s.refusal, v) != nil {
			t.unlock(v)
			return false
		}
		if s.refusal != nil {
			t.keep(s.refusal, v)
		}
	}
	s.held = append(s.held, v)
	return true
}

// tryUpgrade makes a lock that is held for reading, held[i], one for writing if no other transaction reads.
func (s *lockSet) tryUpgrade(t *lockTable, i int) bool {
	v := s.held[i] &^ 1
	if s.refusal != nil { // the lock itself is free
		if !t.tryLock(v) {
			return false
		}
		if t.refusals.find(s.refusal, v) != nil {
			t.unlock(v)
			return false
		}
		t.keep(s.refusal, v)
	} else {
		if !t.tryUpgrade(v) {
			return false
		}
		if t.refuses(v) { // another reader has put it into the table, and given it back
			t.downgrade(v)
			return false
		}
	}
	s.held[i] = v
	return true
}

// Barrier waits until every transaction that holds locks now has given them back. It returns the error of one that
// turns others away, and does not wait for that one.
func (db *DB) Barrier() error {
	db.locks.lockAll()
	err := db.Refusing()
	db.locks.unlockAll()
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
	tx.keyBuf = cf.AppendNSKey(tx.keyBuf[:0], ns, userKey, tx.db.slots)
	s, t, name := &tx.locks, tx.db.locks, tx.db.locks.name(tx.keyBuf)
	if s.all {
		return true
	}
	i := s.find(name)
	switch {
	case i >= 0 && write && s.held[i]&1 != 0:
		return s.tryUpgrade(t, i)
	case i >= 0:
		return true
	}
	return s.tryLock(t, lockValue(name, write))
}
