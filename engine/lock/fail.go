package lock

import (
	"slices"
	"sync"
	"sync/atomic"
)

// A long transaction (a script that does not end) can make the waiters for its locks fail: they get an error instead of
// waiting. It puts its locks into a table and releases them. A transaction that takes one of these locks afterwards,
// whether it has waited until then or not, finds the lock in the table and gives up. So no wait has to be interrupted,
// and while the table is empty it costs one atomic load for each transaction that takes locks.

// failing is the table of the locks that must not be waited for.
type failing struct {
	n    atomic.Int32 // len(list); changed with mu held
	mu   sync.Mutex
	list []*failure
}

// failure holds the locks of one transaction, and the error for the transactions that want them.
type failure struct {
	all   bool
	locks map[uint64]bool // by name; true = held for writing, false = for reading
	err   error
}

// find returns the error for a transaction that has just taken the locks held; nil when none of these locks is in the
// table, the caller's own failure aside.
func (r *failing) find(own *failure, held ...Lock) error {
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
			if write, ok := e.locks[v.Name()]; ok && (write || v.Write()) {
				return e.err
			}
		}
	}
	return nil
}

// Failing returns the error of a transaction that has called FailWaiters; nil when no such transaction exists. It is
// for callers that need every lock, and for callers that need none but must not run beside such a transaction.
func (t *Table) Failing() error {
	r := &t.failing
	if r.n.Load() == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.list) == 0 {
		return nil
	}
	return r.list[0].err
}

// Fails reports whether a caller that has taken a lock by TryLock must release it.
func (t *Table) Fails(v Lock) bool {
	return t.failing.n.Load() != 0 && t.failing.find(nil, v) != nil
}

// FailWaiters makes transactions that want a lock of the set fail with err, from now on until Release, the present
// waiters included. The set itself continues as before.
func (s *Set) FailWaiters(t *Table, err error) {
	if s.failure != nil {
		return
	}
	e := &failure{all: s.all, locks: map[uint64]bool{}, err: err}
	for _, v := range s.held {
		e.locks[v.Name()] = e.locks[v.Name()] || v.Write()
	}
	r := &t.failing
	r.mu.Lock()
	r.list = append(r.list, e)
	r.n.Store(int32(len(r.list)))
	r.mu.Unlock()
	s.failure = e
	if s.all {
		t.UnlockAll()
		return
	}
	for _, v := range s.held {
		t.Unlock(v)
	}
}

// FailsWaiters reports whether FailWaiters is in force.
func (s *Set) FailsWaiters() bool { return s.failure != nil }

// keep adds a lock that was just taken to a failure.
func (t *Table) keep(e *failure, v Lock) {
	t.failing.mu.Lock()
	e.locks[v.Name()] = e.locks[v.Name()] || v.Write()
	t.failing.mu.Unlock()
	t.Unlock(v)
}

// withdraw ends a failure: the commits of its transaction are visible from now on.
func (t *Table) withdraw(e *failure) {
	r := &t.failing
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(r.list, func(o *failure) bool { return o == e })
	r.n.Store(int32(len(r.list)))
}

// tryLock takes one more lock if that is possible without waiting.
func (s *Set) tryLock(t *Table, v Lock) bool {
	if !t.TryLock(v) {
		return false
	}
	if t.failing.n.Load() != 0 {
		if t.failing.find(s.failure, v) != nil {
			t.Unlock(v)
			return false
		}
		if s.failure != nil {
			t.keep(s.failure, v)
		}
	}
	s.held = append(s.held, v)
	return true
}

// tryUpgrade turns held[i], which is held for reading, into a lock for writing if no other transaction reads.
func (s *Set) tryUpgrade(t *Table, i int) bool {
	v := s.held[i].forWriting()
	if s.failure != nil { // the lock itself is free
		if !t.TryLock(v) {
			return false
		}
		if t.failing.find(s.failure, v) != nil {
			t.Unlock(v)
			return false
		}
		t.keep(s.failure, v)
	} else {
		if !t.tryUpgrade(v) {
			return false
		}
		if t.Fails(v) { // another reader has put it into the table, and given it back
			t.downgrade(v)
			return false
		}
	}
	s.held[i] = v
	return true
}
